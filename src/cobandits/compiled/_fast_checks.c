/* cobandits.compiled._fast_checks: what every request needs before and after a policy's own work.
 *
 * For one request the calls of NumPy cost more than their work, so these are one call each. Where this
 * file cannot be built, requests.py computes the same with NumPy.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "_buffers.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define TARGET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TARGET
#endif

#define LANES 4
typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));
typedef int64_t mask __attribute__((vector_size(LANES * sizeof(int64_t))));
#define LOAD(p) (*(const vec *)(p))

/* Whether all values are at most `most` in size; a NaN is not. */
TARGET static int are_at_most(const double *values, long length, double most) {
    mask wrong = {0};
    long i = 0;
    for (; i + LANES <= length; i += LANES) {
        vec v = LOAD(values + i);
        wrong |= ~((v <= most) & (v >= -most));
    }
    int fine = !(wrong[0] | wrong[1] | wrong[2] | wrong[3]);
    for (; i < length; i++) fine &= values[i] <= most && values[i] >= -most;
    return fine;
}

#define WIDE 8
typedef double wide __attribute__((vector_size(WIDE * sizeof(double)), aligned(sizeof(double)), may_alias));

static inline double sum(wide v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

/* sums[c] += (y - <x, theta_c>)^2 over rows [x, y], for the n_rivals thetas of each row's place; -1 is none. */
TARGET static void add_errors(const double *thetas, const int64_t *places, const double *rows, double *sums,
                              long n_rows, long n_rivals, long width) {
    for (long m = 0; m < n_rows; m++) {
        if (places[m] < 0) continue;
        const double *x = rows + m * (width + 1), *first_theta = thetas + places[m] * n_rivals * width;
        for (long c = 0; c < n_rivals; c += 2) { /* two at a time: x is loaded once */
            const double *theta = first_theta + c * width, *other = c + 1 < n_rivals ? theta + width : theta;
            wide first = {0}, second = {0};
            long j = 0;
            for (; j + WIDE <= width; j += WIDE) {
                wide some = *(const wide *)(x + j);
                first += some * *(const wide *)(theta + j), second += some * *(const wide *)(other + j);
            }
            double error = x[width] - sum(first), error_too = x[width] - sum(second);
            for (; j < width; j++) error -= theta[j] * x[j], error_too -= other[j] * x[j];
            sums[c] += error * error;
            if (c + 1 < n_rivals) sums[c + 1] += error_too * error_too;
        }
    }
}

static PyObject *py_are_at_most(PyObject *self, PyObject *args) {
    Py_buffer values;
    double most;
    if (!PyArg_ParseTuple(args, "y*d", &values, &most)) return NULL;
    int fine = are_at_most(values.buf, values.len / sizeof(double), most);
    PyBuffer_Release(&values);
    return PyBool_FromLong(fine);
}

static PyObject *py_are_codes(PyObject *self, PyObject *args) {
    Py_buffer codes;
    long long count;
    int fine = 1;
    if (!PyArg_ParseTuple(args, "y*L", &codes, &count)) return NULL;
    const int64_t *code = codes.buf;
    for (size_t i = 0; i < codes.len / sizeof(int64_t); i++) fine &= code[i] >= 0 && code[i] < count;
    PyBuffer_Release(&codes);
    return PyBool_FromLong(fine);
}

/* found[i] = places[codes[i]], or the number of places where it is not there.
 * Returns how many are not, or -1 if a code is negative. */
static PyObject *py_find_places(PyObject *self, PyObject *args) {
    Py_buffer codes, found;
    PyObject *places, *result = NULL;
    if (!PyArg_ParseTuple(args, "y*O!w*", &codes, &PyDict_Type, &places, &found)) return NULL;
    long n = codes.len / sizeof(int64_t), missing = 0;
    int64_t following = PyDict_Size(places), *to = found.buf;
    if (!has_length(&found, n, sizeof(int64_t), "found")) goto done;
    for (long i = 0; i < n; i++) {
        PyObject *code = PyLong_FromLongLong(((const int64_t *)codes.buf)[i]);
        PyObject *place = code ? PyDict_GetItemWithError(places, code) : NULL;
        Py_XDECREF(code);
        if (PyErr_Occurred()) goto done;
        to[i] = place ? PyLong_AsLongLong(place) : following;
        missing += !place;
        if (((const int64_t *)codes.buf)[i] < 0) {
            missing = -1;
            break;
        }
    }
    if (!PyErr_Occurred()) result = PyLong_FromLong(missing);
done:
    PyBuffer_Release(&codes), PyBuffer_Release(&found);
    return result;
}

static PyObject *py_take_rows(PyObject *self, PyObject *args) {
    Py_buffer arms, chosen, out;
    long n_arms, dim;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*w*ll", &arms, &chosen, &out, &n_arms, &dim)) return NULL;
    long n_asked = chosen.len / sizeof(int64_t);
    const int64_t *k = chosen.buf;
    if (!has_length(&arms, product(n_asked, n_arms, dim), sizeof(double), "arms") || !has_length(&out, product(n_asked, dim, 1), sizeof(double), "out")) goto done;
    for (long m = 0; m < n_asked; m++) {
        if (k[m] < 0 || k[m] >= n_arms) {
            PyErr_Format(PyExc_ValueError, "arm %lld of %ld", (long long)k[m], n_arms);
            goto done;
        }
        memcpy((double *)out.buf + m * dim, (const double *)arms.buf + (m * n_arms + k[m]) * dim,
               sizeof(double) * dim);
    }
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&arms), PyBuffer_Release(&chosen), PyBuffer_Release(&out);
    return result;
}

/* The numbers of a list as doubles; 0 where it has others than floats and ints of at most `most`. */
static int are_numbers(PyObject *list, double *out, long dim, double most) {
    if (!PyList_CheckExact(list) || PyList_Size(list) != dim) return 0;
    for (long j = 0; j < dim; j++) {
        PyObject *item = PyList_GetItem(list, j);
        if (!item || !(PyFloat_CheckExact(item) || PyLong_CheckExact(item))) return 0;
        out[j] = PyFloat_AsDouble(item); /* an int that is too large sets an error */
        if ((out[j] == -1 && PyErr_Occurred()) || !(out[j] <= most && out[j] >= -most)) return 0;
    }
    return 1;
}

/* The ids of arms [{id_name: text, name: numbers}, ..], whose numbers go to out; None for any others. Where no arm
 * has an id, it is its place. */
static PyObject *py_take_vectors(PyObject *self, PyObject *args) {
    Py_buffer out;
    PyObject *arms, *name, *id_name, *ids = NULL, *different = NULL;
    double most;
    if (!PyArg_ParseTuple(args, "O!OOw*d", &PyList_Type, &arms, &name, &id_name, &out, &most)) return NULL;
    long n = PyList_Size(arms), dim = n > 0 ? out.len / (long)sizeof(double) / n : 0, parts = 0;
    if (!has_length(&out, product(n, dim, 1), sizeof(double), "out") || !(ids = PyList_New(n))) {
        PyBuffer_Release(&out);
        return NULL;
    }
    int fine = n > 0;
    for (long k = 0; fine && k < n; k++) {
        PyObject *arm = PyList_GetItem(arms, k), *id = NULL;
        long size = arm && PyDict_CheckExact(arm) ? PyDict_Size(arm) : 0;
        parts = k ? parts : size; /* of all arms as many: with an id, or without */
        if (size == parts && size == 2) id = Py_XNewRef(PyDict_GetItemWithError(arm, id_name));
        if (size == parts && size == 1) id = PyUnicode_FromFormat("%ld", k);
        PyObject *row = id ? PyDict_GetItemWithError(arm, name) : NULL;
        fine = row && PyUnicode_CheckExact(id) && PyUnicode_GetLength(id) > 0 &&
               are_numbers(row, (double *)out.buf + k * dim, dim, most);
        if (fine) fine = !PyList_SetItem(ids, k, Py_NewRef(id));
        Py_XDECREF(id);
    }
    fine = fine && (different = PySet_New(ids)) && PySet_Size(different) == n;
    Py_XDECREF(different);
    PyBuffer_Release(&out);
    if (fine) return ids;
    Py_DECREF(ids);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
    PyErr_Clear(); /* an int that is too large: the caller looks at these arms in another way */
    return Py_NewRef(Py_None);
}

static PyObject *py_add_errors(PyObject *self, PyObject *args) {
    Py_buffer thetas, places, rows, sums;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*w*", &thetas, &places, &rows, &sums)) return NULL;
    long n_rows = places.len / sizeof(int64_t), n_rivals = sums.len / sizeof(double);
    long width = n_rows > 0 ? rows.len / sizeof(double) / n_rows - 1 : 0;
    long n_places = width > 0 && n_rivals > 0 ? thetas.len / sizeof(double) / (n_rivals * width) : 0;
    const int64_t *place = places.buf;
    if (!has_length(&rows, product(n_rows, width + 1, 1), sizeof(double), "rows") ||
        !has_length(&thetas, product(n_places, n_rivals, width), sizeof(double), "thetas"))
        goto done;
    for (long m = 0; m < n_rows; m++)
        if (place[m] >= n_places) {
            PyErr_Format(PyExc_ValueError, "place %lld of %ld", (long long)place[m], n_places);
            goto done;
        }
    Py_BEGIN_ALLOW_THREADS;
    add_errors(thetas.buf, places.buf, rows.buf, sums.buf, n_rows, n_rivals, width);
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&thetas), PyBuffer_Release(&places), PyBuffer_Release(&rows), PyBuffer_Release(&sums);
    return result;
}

static PyMethodDef methods[] = {
    {"add_errors", py_add_errors, METH_VARARGS, "Add squared errors of several thetas per task."},
    {"are_at_most", py_are_at_most, METH_VARARGS, "Whether all values are numbers of at most a size."},
    {"are_codes", py_are_codes, METH_VARARGS, "Whether all codes are from 0 to below a count."},
    {"find_places", py_find_places, METH_VARARGS, "The place of each code in a dict."},
    {"take_vectors", py_take_vectors, METH_VARARGS, "The ids and numbers of arms that have nothing else."},
    {"take_rows", py_take_rows, METH_VARARGS, "The feature vectors of chosen arms."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cobandits.compiled._fast_checks", "Compiled parts of a request.", -1, methods,
};

PyMODINIT_FUNC PyInit__fast_checks(void) { return PyModule_Create(&module); }
