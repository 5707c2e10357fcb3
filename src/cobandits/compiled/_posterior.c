/* cobandits.compiled._posterior: the hot loops of posteriors.py, compiled.
 *
 * A task's covariance is P = S S' with S upper triangular. Column i of S has i + 1 numbers; the
 * columns follow each other, so that a task has dim (dim + 1) / 2 numbers ("packed"). Plain C with
 * the vector types of GCC and Clang. Where this file cannot be built, posteriors.py computes
 * the same with NumPy. The interpreter lock is released during a pass.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define TARGET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TARGET
#endif

#define LANES 4
typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));
#define LOAD(p) (*(const vec *)(p))
#define ARMS 5 /* at most at a time, so that a column is loaded once for all of them */

INLINE double sum(vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }

/* out[k * stride] = <a, b_k> for COUNT vectors b_k that are `pitch` apart. */
INLINE void dots(const int COUNT, const double *restrict a, const double *restrict b, long pitch, long length,
                 double *restrict out, long stride) {
    vec acc[ARMS];
    for (int k = 0; k < COUNT; k++) acc[k] = (vec){0};
    long j = 0;
    for (; j + LANES <= length; j += LANES) {
        vec column = LOAD(a + j);
        for (int k = 0; k < COUNT; k++) acc[k] += column * LOAD(b + k * pitch + j);
    }
    for (int k = 0; k < COUNT; k++) {
        double s = sum(acc[k]);
        for (long i = j; i < length; i++) s += a[i] * b[k * pitch + i];
        out[k * stride] = s;
    }
}

/* Learn one row x with reward y: Carlson's update of S (1973), one pass over it.
 *
 * With f = S'x, alpha_i = 1 + f_1^2 + .. + f_i^2 and e_i = f_1 S_1 + .. + f_i S_i, column i becomes
 * sqrt(alpha_{i-1} / alpha_i) S_i - f_i / sqrt(alpha_{i-1} alpha_i) e_{i-1}; the gain is
 * P x / (1 + x'P x) = e_dim / alpha_dim. Returns the log of alpha_dim.
 */
INLINE double learn_row(double *restrict column, double *restrict mean, const double *restrict x, double y,
                        long dim, double *restrict e) {
    double alpha = 1, residual;
    dots(1, mean, x, 0, dim, &residual, 1);
    residual = y - residual;
    memset(e, 0, sizeof(double) * dim);
    for (long i = 0; i < dim; column += ++i) {
        double f;
        dots(1, column, x, 0, i + 1, &f, 1);
        double next = alpha + f * f, keep = sqrt(alpha / next), turn = f / sqrt(alpha * next);
        for (long j = 0; j <= i; j++) {
            double s = column[j];
            column[j] = keep * s - turn * e[j];
            e[j] += f * s;
        }
        alpha = next;
    }
    for (long j = 0; j < dim; j++) mean[j] += e[j] * (residual / alpha);
    return log(alpha);
}

TARGET static void learn(double *roots, double *means, double *log_volumes, const int64_t *tasks,
                         const double *rows, const double *rewards, long n_rows, long dim, double *scratch) {
    long size = dim * (dim + 1) / 2;
    for (long m = 0; m < n_rows; m++) {
        int64_t t = tasks[m];
        log_volumes[t] += learn_row(roots + t * size, means + t * dim, rows + m * dim, rewards[m], dim, scratch);
    }
}

/* to[k * dim + i] = <column i, arm k> for COUNT arms and all columns of one root. */
INLINE void spread_arms(const int COUNT, const double *restrict column, const double *restrict arms,
                        double *restrict to, long dim) {
    for (long i = 0; i < dim; column += ++i) dots(COUNT, column, arms, dim, i + 1, to + i, dim);
}

/* out[m] = arms[m] S, (n_arms, dim), for the task of each request m. */
TARGET static void spread(const double *roots, const int64_t *tasks, const double *arms, double *out,
                          long n_asked, long n_arms, long dim) {
    long size = dim * (dim + 1) / 2;
    for (long m = 0; m < n_asked; m++) {
        const double *root = roots + tasks[m] * size;
        for (long k = 0; k < n_arms;) {
            const double *x = arms + (m * n_arms + k) * dim;
            double *to = out + (m * n_arms + k) * dim;
            long left = n_arms - k;
            if (left == 5) spread_arms(5, root, x, to, dim), k += 5;
            else if (left >= 4) spread_arms(4, root, x, to, dim), k += 4;
            else if (left >= 2) spread_arms(2, root, x, to, dim), k += 2;
            else spread_arms(1, root, x, to, dim), k += 1;
        }
    }
}

static int has_length(const Py_buffer *buffer, long length, const char *name) {
    if ((size_t)buffer->len == (size_t)length * sizeof(double)) return 1;
    PyErr_Format(PyExc_ValueError, "%s holds %zd bytes, expected %ld numbers of %zu bytes", name,
                 buffer->len, length, sizeof(double));
    return 0;
}

static int are_tasks(const Py_buffer *tasks, long n_tasks) {
    const int64_t *t = tasks->buf;
    for (size_t m = 0; m < tasks->len / sizeof(int64_t); m++)
        if (t[m] < 0 || t[m] >= n_tasks) {
            PyErr_Format(PyExc_ValueError, "task %lld of %ld", (long long)t[m], n_tasks);
            return 0;
        }
    return 1;
}

static PyObject *py_learn(PyObject *self, PyObject *args) {
    Py_buffer roots, means, log_volumes, tasks, rows, rewards;
    long dim;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "w*w*w*y*y*y*l", &roots, &means, &log_volumes, &tasks, &rows, &rewards, &dim))
        return NULL;
    long n_tasks = log_volumes.len / sizeof(double), n_rows = tasks.len / sizeof(int64_t);
    if (!has_length(&roots, n_tasks * (dim * (dim + 1) / 2), "roots") ||
        !has_length(&means, n_tasks * dim, "means") || !has_length(&rows, n_rows * dim, "rows") ||
        !has_length(&rewards, n_rows, "rewards") || !are_tasks(&tasks, n_tasks))
        goto done;
    double *scratch = malloc(sizeof(double) * (dim + LANES));
    if (!scratch) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS;
    learn(roots.buf, means.buf, log_volumes.buf, tasks.buf, rows.buf, rewards.buf, n_rows, dim, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&roots), PyBuffer_Release(&means), PyBuffer_Release(&log_volumes);
    PyBuffer_Release(&tasks), PyBuffer_Release(&rows), PyBuffer_Release(&rewards);
    return result;
}

static PyObject *py_spread(PyObject *self, PyObject *args) {
    Py_buffer roots, tasks, arms, out;
    long dim;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*w*l", &roots, &tasks, &arms, &out, &dim)) return NULL;
    long size = dim * (dim + 1) / 2, n_asked = tasks.len / sizeof(int64_t);
    long n_tasks = size > 0 ? roots.len / sizeof(double) / size : 0;
    long n_arms = n_asked > 0 && dim > 0 ? arms.len / sizeof(double) / (n_asked * dim) : 0;
    if (!has_length(&roots, n_tasks * size, "roots") || !has_length(&arms, n_asked * n_arms * dim, "arms") ||
        !has_length(&out, n_asked * n_arms * dim, "out") || !are_tasks(&tasks, n_tasks))
        goto done;
    Py_BEGIN_ALLOW_THREADS;
    spread(roots.buf, tasks.buf, arms.buf, out.buf, n_asked, n_arms, dim);
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&roots), PyBuffer_Release(&tasks), PyBuffer_Release(&arms), PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"learn", py_learn, METH_VARARGS, "Learn rows and their rewards, one after the other, in place."},
    {"spread", py_spread, METH_VARARGS, "Arms times the root of their task's covariance."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cobandits.compiled._posterior", "Compiled posteriors of all tasks.", -1, methods,
};

PyMODINIT_FUNC PyInit__posterior(void) { return PyModule_Create(&module); }
