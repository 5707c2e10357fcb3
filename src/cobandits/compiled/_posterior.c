/* cobandits.compiled._posterior: the hot loops of posteriors.py, compiled.
 *
 * The loops themselves are in _posterior_kernel.h; here is how Python calls them. Where this file
 * cannot be built, posteriors.py computes the same with NumPy. The interpreter lock is released
 * during a pass.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "_buffers.h"
#include "_posterior_kernel.h"
#include <stdint.h>
#include <stdlib.h>

/* Return how many numbers a packed root has, or -1. */
static long triangle(long dim) { return dim < 0 || dim > 1L << 30 ? -1 : dim * (dim + 1) / 2; }

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
    if (!has_length(&roots, product(n_tasks, triangle(dim), 1), sizeof(double), "roots") ||
        !has_length(&means, product(n_tasks, dim, 1), sizeof(double), "means") || !has_length(&rows, product(n_rows, dim, 1), sizeof(double), "rows") ||
        !has_length(&rewards, n_rows, sizeof(double), "rewards") || !are_tasks(&tasks, n_tasks))
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

static PyObject *py_learn_in_directions(PyObject *self, PyObject *args) {
    Py_buffer roots, means, log_volumes, thetas, noises, directions, tasks, rows, squares, expected;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "w*w*w*w*y*y*y*y*w*w*", &roots, &means, &log_volumes, &thetas, &noises,
                          &directions, &tasks, &rows, &squares, &expected))
        return NULL;
    long n_tasks = log_volumes.len / sizeof(double), n_rows = tasks.len / sizeof(int64_t);
    long dim = n_tasks > 0 ? means.len / sizeof(double) / n_tasks : 0;
    long width = n_tasks > 0 ? thetas.len / sizeof(double) / n_tasks : 0;
    task_posteriors h = {roots.buf, means.buf, log_volumes.buf, thetas.buf, noises.buf, directions.buf, dim, width};
    if (!has_length(&roots, product(n_tasks, triangle(dim), 1), sizeof(double), "roots") ||
        !has_length(&means, product(n_tasks, dim, 1), sizeof(double), "means") || !has_length(&thetas, product(n_tasks, width, 1), sizeof(double), "thetas") ||
        !has_length(&noises, n_tasks, sizeof(double), "noises") || !has_length(&directions, product(dim, width, 1), sizeof(double), "directions") ||
        !has_length(&rows, product(n_rows, width + 1, 1), sizeof(double), "rows") || !has_length(&squares, n_rows, sizeof(double), "squares") ||
        !has_length(&expected, n_rows, sizeof(double), "expected") || !are_tasks(&tasks, n_tasks))
        goto done;
    double *scratch = malloc(sizeof(double) * (2 * dim + LANES));
    if (!scratch) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS;
    learn_in_directions(&h, tasks.buf, rows.buf, squares.buf, expected.buf, n_rows, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&roots), PyBuffer_Release(&means), PyBuffer_Release(&log_volumes);
    PyBuffer_Release(&thetas), PyBuffer_Release(&noises), PyBuffer_Release(&directions);
    PyBuffer_Release(&tasks), PyBuffer_Release(&rows), PyBuffer_Release(&squares), PyBuffer_Release(&expected);
    return result;
}

static PyObject *py_greedy(PyObject *self, PyObject *args) {
    Py_buffer roots, thetas, noises, directions, counts, tasks, arms, chosen;
    limits most;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*y*w*ddddd", &roots, &thetas, &noises, &directions, &counts, &tasks,
                          &arms, &chosen, &most.ratio, &most.noise, &most.outside, &most.highest, &most.seen))
        return NULL;
    long n_tasks = noises.len / sizeof(double), n_asked = tasks.len / sizeof(int64_t), left;
    long width = n_tasks > 0 ? thetas.len / sizeof(double) / n_tasks : 0, d = width - 1;
    long dim = width > 0 ? directions.len / sizeof(double) / width : 0;
    long n_arms = n_asked > 0 && d > 0 ? arms.len / sizeof(double) / (n_asked * d) : 0;
    task_posteriors h = {roots.buf, NULL, NULL, thetas.buf, noises.buf, directions.buf, dim, width};
    if (!has_length(&roots, product(n_tasks, triangle(dim), 1), sizeof(double), "roots") ||
        !has_length(&thetas, product(n_tasks, width, 1), sizeof(double), "thetas") || !has_length(&directions, product(dim, width, 1), sizeof(double), "directions") ||
        !has_length(&counts, n_tasks, sizeof(double), "counts") || !has_length(&arms, product(n_asked, n_arms, d), sizeof(double), "arms") ||
        !has_length(&chosen, n_asked, sizeof(double), "chosen") || !are_tasks(&tasks, n_tasks))
        goto done;
    if (n_asked > 0 && n_arms < 1) {
        PyErr_SetString(PyExc_ValueError, "there are no arms");
        goto done;
    }
    double *scratch = malloc(sizeof(double) * (dim + LANES + 3 * n_arms));
    if (!scratch) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS;
    left = greedy(&h, &most, counts.buf, tasks.buf, arms.buf, chosen.buf, n_asked, n_arms, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = PyLong_FromLong(left);
done:
    PyBuffer_Release(&roots), PyBuffer_Release(&thetas), PyBuffer_Release(&noises), PyBuffer_Release(&directions);
    PyBuffer_Release(&counts), PyBuffer_Release(&tasks), PyBuffer_Release(&arms), PyBuffer_Release(&chosen);
    return result;
}

static PyObject *py_covariance_factors(PyObject *self, PyObject *args) {
    Py_buffer roots, tasks, arms, out;
    long dim;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*w*l", &roots, &tasks, &arms, &out, &dim)) return NULL;
    long size = triangle(dim), n_asked = tasks.len / sizeof(int64_t);
    long n_tasks = size > 0 ? roots.len / sizeof(double) / size : 0;
    long each = product(n_asked, dim, 1), n_arms = each > 0 ? arms.len / (long)sizeof(double) / each : 0;
    if (!has_length(&roots, product(n_tasks, size, 1), sizeof(double), "roots") || !has_length(&arms, product(n_asked, n_arms, dim), sizeof(double), "arms") ||
        !has_length(&out, product(n_asked, n_arms, dim), sizeof(double), "out") || !are_tasks(&tasks, n_tasks))
        goto done;
    Py_BEGIN_ALLOW_THREADS;
    covariance_factors(roots.buf, tasks.buf, arms.buf, out.buf, n_asked, n_arms, dim);
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&roots), PyBuffer_Release(&tasks), PyBuffer_Release(&arms), PyBuffer_Release(&out);
    return result;
}

static PyObject *py_squared_returns(PyObject *self, PyObject *args) {
    Py_buffer roots, tasks, factors, out;
    long dim;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*w*l", &roots, &tasks, &factors, &out, &dim)) return NULL;
    long size = triangle(dim), n_asked = tasks.len / sizeof(int64_t);
    long n_tasks = size > 0 ? roots.len / sizeof(double) / size : 0;
    long n_arms = n_asked > 0 ? out.len / (long)sizeof(double) / n_asked : 0;
    if (!has_length(&roots, product(n_tasks, size, 1), sizeof(double), "roots") || !has_length(&factors, product(n_asked, n_arms, dim), sizeof(double), "factors") ||
        !has_length(&out, product(n_asked, n_arms, 1), sizeof(double), "out") || !are_tasks(&tasks, n_tasks))
        goto done;
    double *scratch = malloc(sizeof(double) * (dim + LANES));
    if (!scratch) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS;
    squared_returns(roots.buf, tasks.buf, factors.buf, out.buf, n_asked, n_arms, dim, scratch);
    Py_END_ALLOW_THREADS;
    free(scratch);
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&roots), PyBuffer_Release(&tasks), PyBuffer_Release(&factors), PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"learn", py_learn, METH_VARARGS, "Learn rows and their rewards, one after the other, in place."},
    {"greedy", py_greedy, METH_VARARGS, "The best arm of each request that has no arm to sample."},
    {"learn_in_directions", py_learn_in_directions, METH_VARARGS, "Learn rows of tasks whose thetas move in some directions only."},
    {"covariance_factors", py_covariance_factors, METH_VARARGS, "Arms times the root of their task's covariance."},
    {"squared_returns", py_squared_returns, METH_VARARGS, "Squared lengths of factors times the root of their task's covariance."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cobandits.compiled._posterior", "Compiled posteriors of all tasks.", -1, methods,
};

PyMODINIT_FUNC PyInit__posterior(void) { return PyModule_Create(&module); }
