/* cobandits.compiled._pass: the hot loops of kernels.py, compiled.
 *
 * Plain C with the vector types of GCC and Clang; no intrinsics. The passes are
 * compiled for vectors of 32 bytes and, on x86-64, of 64 bytes; which are used is
 * decided when the module is loaded. Where this file cannot be built, kernels.py
 * computes the same with NumPy. The interpreter lock is released during a pass.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "_buffers.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define X86_LEVELS 1
#define TARGET __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define X86_LEVELS 0
#define TARGET
#endif

#define GRAMS
#define REAL double
#define LANES 4
#define NAMED(x) x##_f64
#include "_pass_kernel.h"
#undef GRAMS

#define REAL float
#define LANES 8
#define NAMED(x) x##_f32
#include "_pass_kernel.h"

#undef TARGET
#if X86_LEVELS
#define TARGET __attribute__((target("arch=x86-64-v4")))

#define GRAMS
#define REAL double
#define LANES 8
#define NAMED(x) x##_f64_wide
#include "_pass_kernel.h"
#undef GRAMS

#define REAL float
#define LANES 16
#define NAMED(x) x##_f32_wide
#include "_pass_kernel.h"

static int wide; /* set when the module is loaded */
#define PICK(name) (wide ? name##_wide : name)
#else
#define PICK(name) name
#endif

#define ALIGNMENT 64

static void *scratch_new(size_t bytes) {
    void *p = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!p) PyErr_NoMemory();
    return p;
}

/* The rows of the longest task; -1, with an exception set, where the offsets are wrong. */
static long longest_task(const int64_t *offsets, long n_tasks, long n_rows) {
    long longest = 0, wrong = offsets[0] < 0 || offsets[n_tasks] > n_rows;
    for (long t = 0; t < n_tasks && !wrong; t++) {
        int64_t count = offsets[t + 1] - offsets[t];
        wrong = count < 0;
        if (count > longest) longest = count;
    }
    if (!wrong) return longest;
    PyErr_SetString(PyExc_ValueError, "offsets out of range: they run backwards or leave the rows");
    return -1;
}

/* How many tasks a pass has marked as singular. */
static long count_singular(const double *costs, long n_tasks) {
    long singular = 0;
    for (long t = 0; t < n_tasks; t++) singular += costs[t] < 0;
    return singular;
}

static PyObject *py_least_squares(PyObject *self, PyObject *args) {
    Py_buffer rows, rewards, offsets, B, penalty, W, grad, costs;
    long dim, rank;
    int is_double;
    double tolerance;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*w*w*w*llpd", &rows, &rewards, &offsets, &B, &penalty, &W,
                          &grad, &costs, &dim, &rank, &is_double, &tolerance))
        return NULL;
    size_t size = is_double ? sizeof(double) : sizeof(float);
    long n_rows = rewards.len / size, n_tasks = offsets.len / sizeof(int64_t) - 1;
    if (!has_length(&rows, product(n_rows, dim, 1), size, "rows") || !has_length(&B, product(dim, rank, 1), size, "B") ||
        !has_length(&penalty, product(rank, rank, 1), size, "penalty") ||
        !has_length(&W, product(n_tasks, rank, 1), size, "W") || !has_length(&grad, product(rank, dim, 1), size, "grad") ||
        !has_length(&costs, n_tasks, sizeof(double), "costs"))
        goto done;
    long longest = longest_task(offsets.buf, n_tasks, n_rows);
    if (longest < 0) goto done;
    size_t words = (size_t)(2 * rank + 1) * (dim + 16) + (size_t)(rank + 2) * (longest + 16) + rank * rank;
    void *scratch = scratch_new(words * size);
    if (!scratch) goto done;
    Py_BEGIN_ALLOW_THREADS;
    if (is_double)
        PICK(least_squares_f64)(rows.buf, rewards.buf, offsets.buf, n_tasks, dim, rank, B.buf, penalty.buf,
                          tolerance, W.buf, grad.buf, costs.buf, longest, scratch);
    else
        PICK(least_squares_f32)(rows.buf, rewards.buf, offsets.buf, n_tasks, dim, rank, B.buf, penalty.buf,
                          (float)tolerance, W.buf, grad.buf, costs.buf, longest, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = PyLong_FromLong(count_singular(costs.buf, n_tasks));
done:
    PyBuffer_Release(&rows), PyBuffer_Release(&rewards), PyBuffer_Release(&offsets);
    PyBuffer_Release(&B), PyBuffer_Release(&penalty), PyBuffer_Release(&W);
    PyBuffer_Release(&grad), PyBuffer_Release(&costs);
    return result;
}

/* The features of the widest task; -1, with an exception set, where starts, features or the room for matrices are wrong. */
static long widest_task(const int64_t *starts, const int64_t *index, long n_tasks, long n_index, long dim, long *room) {
    long widest = 0, wrong = starts[0] != 0 || starts[n_tasks] != n_index;
    *room = 0;
    for (long t = 0; t < n_tasks && !wrong; t++) {
        int64_t width = starts[t + 1] - starts[t];
        wrong = width < 0 || width % 8 || width > dim + 7;
        if (width > widest) widest = width;
        *room += width * (width + 8) / 2;
    }
    for (long j = 0; j < n_index && !wrong; j++) wrong = index[j] < -1 || index[j] >= dim;
    if (!wrong) return widest;
    PyErr_SetString(PyExc_ValueError, "features of tasks out of range: not in eights, or no feature of B");
    return -1;
}

static PyObject *py_gram_least_squares(PyObject *self, PyObject *args) {
    Py_buffer grams, moments, squares, index, starts, B, penalty, W, gradient, costs;
    long dim, rank, room;
    double tolerance;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*y*w*w*w*lld", &grams, &moments, &squares, &index, &starts, &B, &penalty, &W,
                          &gradient, &costs, &dim, &rank, &tolerance))
        return NULL;
    long n_tasks = starts.len / sizeof(int64_t) - 1, n_index = index.len / sizeof(int64_t);
    size_t size = sizeof(double);
    if (!has_length(&moments, n_index, size, "moments") || !has_length(&squares, n_tasks, size, "squares") ||
        !has_length(&B, product(dim, rank, 1), size, "B") ||
        !has_length(&penalty, product(rank, rank, 1), size, "penalty") || !has_length(&W, product(n_tasks, rank, 1), size, "W") ||
        !has_length(&gradient, product(dim, rank, 1), size, "gradient") || !has_length(&costs, n_tasks, size, "costs"))
        goto done;
    long widest = widest_task(starts.buf, index.buf, n_tasks, n_index, dim, &room);
    if (widest < 0 || !has_length(&grams, room, size, "grams")) goto done;
    void *scratch = scratch_new(((size_t)(2 * rank + 1) * widest + 2 * rank * rank + rank) * size);
    if (!scratch) goto done;
    Py_BEGIN_ALLOW_THREADS;
    PICK(gram_least_squares_f64)(grams.buf, moments.buf, squares.buf, index.buf, starts.buf, n_tasks, dim, rank, B.buf,
                                 penalty.buf, tolerance, W.buf, gradient.buf, costs.buf, widest, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = PyLong_FromLong(count_singular(costs.buf, n_tasks));
done:
    PyBuffer_Release(&grams), PyBuffer_Release(&moments), PyBuffer_Release(&squares);
    PyBuffer_Release(&index), PyBuffer_Release(&starts), PyBuffer_Release(&B);
    PyBuffer_Release(&penalty), PyBuffer_Release(&W), PyBuffer_Release(&gradient), PyBuffer_Release(&costs);
    return result;
}

static PyObject *py_residuals(PyObject *self, PyObject *args) {
    Py_buffer rows, rewards, offsets, thetas, G, costs;
    long dim;
    int is_double;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*lp", &rows, &rewards, &offsets, &thetas, &G, &costs, &dim,
                          &is_double))
        return NULL;
    size_t size = is_double ? sizeof(double) : sizeof(float);
    long n_rows = rewards.len / size, n_tasks = offsets.len / sizeof(int64_t) - 1;
    if (!has_length(&rows, product(n_rows, dim, 1), size, "rows") ||
        !has_length(&thetas, product(n_tasks, dim, 1), size, "thetas") ||
        !has_length(&G, product(n_tasks, dim, 1), size, "G") ||
        !has_length(&costs, n_tasks, sizeof(double), "costs"))
        goto done;
    if (longest_task(offsets.buf, n_tasks, n_rows) < 0) goto done;
    void *scratch = scratch_new((size_t)2 * (dim + 16) * size);
    if (!scratch) goto done;
    Py_BEGIN_ALLOW_THREADS;
    if (is_double)
        PICK(residuals_f64)(rows.buf, rewards.buf, offsets.buf, n_tasks, dim, thetas.buf, G.buf, costs.buf,
                      scratch);
    else
        PICK(residuals_f32)(rows.buf, rewards.buf, offsets.buf, n_tasks, dim, thetas.buf, G.buf, costs.buf,
                      scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&rows), PyBuffer_Release(&rewards), PyBuffer_Release(&offsets);
    PyBuffer_Release(&thetas), PyBuffer_Release(&G), PyBuffer_Release(&costs);
    return result;
}

static PyObject *py_pull_backs(PyObject *self, PyObject *args) {
    Py_buffer rows, values, offsets, out;
    long dim, n_values;
    int is_double;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*w*llp", &rows, &values, &offsets, &out, &dim, &n_values,
                          &is_double))
        return NULL;
    size_t size = is_double ? sizeof(double) : sizeof(float);
    long n_tasks = offsets.len / sizeof(int64_t) - 1;
    long n_rows = n_values > 0 ? values.len / size / n_values : -1;
    if (!has_length(&rows, product(n_rows, dim, 1), size, "rows") ||
        !has_length(&values, product(n_rows, n_values, 1), size, "values") ||
        !has_length(&out, product(n_tasks, n_values, dim), size, "out"))
        goto done;
    if (longest_task(offsets.buf, n_tasks, n_rows) < 0) goto done;
    void *scratch = scratch_new((size_t)n_values * (dim + 16) * size);
    if (!scratch) goto done;
    Py_BEGIN_ALLOW_THREADS;
    if (is_double)
        PICK(pull_backs_f64)(rows.buf, values.buf, n_values, offsets.buf, n_tasks, dim, out.buf, scratch);
    else
        PICK(pull_backs_f32)(rows.buf, values.buf, n_values, offsets.buf, n_tasks, dim, out.buf, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&rows), PyBuffer_Release(&values);
    PyBuffer_Release(&offsets), PyBuffer_Release(&out);
    return result;
}

static PyObject *py_low_rank(PyObject *self, PyObject *args) {
    Py_buffer rows, rewards, L, grad, totals;
    long n_tasks, dim, rank, definite = 0;
    double noise;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*w*w*llld", &rows, &rewards, &L, &grad, &totals, &n_tasks, &dim, &rank, &noise))
        return NULL;
    long count = n_tasks > 0 ? rewards.len / sizeof(double) / n_tasks : 0;
    if (!has_length(&rewards, product(n_tasks, count, 1), sizeof(double), "rewards") ||
        !has_length(&rows, product(n_tasks, count, dim), sizeof(double), "rows") ||
        !has_length(&L, product(dim, rank, 1), sizeof(double), "L") ||
        !has_length(&grad, product(rank, dim, 1), sizeof(double), "grad") || !has_length(&totals, 2, sizeof(double), "totals"))
        goto done;
    size_t words = (size_t)(2 * rank) * (dim + 16) + (size_t)(2 * rank + 2) * (count + 16) + 4 * rank * rank + 2 * rank;
    void *scratch = scratch_new(words * sizeof(double));
    if (!scratch) goto done;
    Py_BEGIN_ALLOW_THREADS;
    definite = PICK(low_rank_f64)(rows.buf, rewards.buf, n_tasks, count, dim, rank, L.buf, noise, grad.buf, totals.buf, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = PyBool_FromLong(definite);
done:
    PyBuffer_Release(&rows), PyBuffer_Release(&rewards), PyBuffer_Release(&L);
    PyBuffer_Release(&grad), PyBuffer_Release(&totals);
    return result;
}

static PyMethodDef methods[] = {
    {"gram_least_squares", py_gram_least_squares, METH_VARARGS, "As least_squares, from Gram matrices of the features that tasks use."},
    {"least_squares", py_least_squares, METH_VARARGS, "Weights, half gradient and costs in one pass; returns the number of singular tasks."},
    {"low_rank", py_low_rank, METH_VARARGS, "Adds the terms of a likelihood under a covariance of low rank; tells whether they are finite."},
    {"pull_backs", py_pull_backs, METH_VARARGS, "Phi'v of every task for several v in one pass."},
    {"residuals", py_residuals, METH_VARARGS, "Phi'(Phi theta - y) and costs in one pass."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cobandits.compiled._pass", "Compiled passes over the rows of all tasks.", -1, methods,
};

PyMODINIT_FUNC PyInit__pass(void) {
#if X86_LEVELS
    __builtin_cpu_init();
    wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#endif
    return PyModule_Create(&module);
}
