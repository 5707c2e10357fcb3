/* cobandits.compiled._propensity: the probability that an arm has the highest of Gaussian values.
 *
 * The arithmetic of policies/propensities.py, request by request and without any library, so that
 * results do not depend on one. Where this file cannot be built, NumPy computes the same. The
 * interpreter lock is released meanwhile.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "_buffers.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define TARGET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TARGET
#endif

#define CHUNK 128        /* points at a time: what is computed of them stays in the nearest cache */
#define CERTAIN 1e-14    /* variance of a lead, over the largest, below which it is certain */
#define NARROW 1e-13     /* variance that is left, over the largest, below which it is rounding */
#define FLAT 1e-7        /* slope of a lead, over the largest deviation, below which it is none */
#define EQUAL (1 - 1e-9) /* of the largest pivot: rounding must not choose among equal ones */

typedef struct {
    long k, q;                              /* other arms, and columns of the factors */
    double *lead, *c, *weights;             /* (k,) */
    double *D, *C, *root;                   /* (k, q), (k, k), (k, k): columns one after the other */
    char *certain, *flat, *done;            /* (k,) */
} leads;

static double normal_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

/* Means and covariances of the leads of an arm over all others. Returns whether certain ones are above 0. */
TARGET static int set_leads(leads *s, const double *values, const double *factors, const double *own, long arm,
                            double smallest, double *width) {
    long k = s->k, q = s->q;
    int held = 1;
    *width = 0;
    for (long i = 0; i < k; i++) {
        long other = i + (i >= arm);
        s->lead[i] = values[arm] - values[other];
        for (long j = 0; j < q; j++) s->D[i * q + j] = factors[arm * q + j] - factors[other * q + j];
        for (long l = 0; l <= i; l++) {
            double product = own ? own[arm] * own[arm] : 0;
            for (long j = 0; j < q; j++) product += s->D[i * q + j] * s->D[l * q + j];
            s->C[i * k + l] = s->C[l * k + i] = product;
        }
        if (own) s->C[i * k + i] += own[other] * own[other];
        if (s->C[i * k + i] > *width) *width = s->C[i * k + i];
    }
    for (long i = 0; i < k; i++) {
        double variance = s->C[i * k + i], lead = s->lead[i];
        s->certain[i] = variance <= CERTAIN * *width;
        if (s->certain[i]) held &= lead > 0 || (arm <= i && lead == 0);
        s->weights[i] = s->certain[i] ? 0 : (normal_cdf(-lead / sqrt(variance)) + smallest) / sqrt(variance);
    }
    return held;
}

/* The direction in which leads grow together, c; it is taken out of their covariance. */
TARGET static void set_direction(leads *s, double width) {
    long k = s->k;
    double along = 0;
    for (long i = 0; i < k; i++) {
        double pulled = 0;
        for (long j = 0; j < k; j++) pulled += s->C[i * k + j] * s->weights[j];
        s->c[i] = pulled, along += s->weights[i] * pulled;
    }
    along = sqrt(along > DBL_MIN ? along : DBL_MIN);
    for (long i = 0; i < k; i++) {
        s->c[i] /= along;
        s->flat[i] = fabs(s->c[i]) <= FLAT * sqrt(width);
    }
    for (long i = 0; i < k; i++)
        for (long j = 0; j < k; j++) s->C[i * k + j] -= s->c[i] * s->c[j];
}

/* A root of what is left of the covariance: Cholesky, the largest variance first. */
TARGET static void set_root(leads *s, double width) {
    long k = s->k;
    memset(s->done, 0, k);
    memset(s->root, 0, sizeof(double) * k * k);
    for (long step = 0; step < k; step++) {
        double largest = -1;
        long pivot = -1;
        for (long i = 0; i < k; i++)
            if (!s->done[i] && s->C[i * k + i] > largest) largest = s->C[i * k + i];
        if (!(largest > NARROW * width)) return;
        for (long i = k - 1; i >= 0; i--)
            if (!s->done[i] && s->C[i * k + i] >= EQUAL * largest) pivot = i;
        double *column = s->root + step * k, size = sqrt(s->C[pivot * k + pivot]);
        for (long i = 0; i < k; i++) column[i] = s->done[i] ? 0 : s->C[pivot * k + i] / size;
        s->done[pivot] = 1;
        for (long i = 0; i < k; i++)
            for (long j = 0; j < k; j++) s->C[i * k + j] -= column[i] * column[j];
    }
}

/* Lower and upper limits of t, over some of the points, that keep all leads above 0. */
TARGET static void set_limits(const leads *s, const double *points, long n_points, long first, long n,
                              double *low, double *high) {
    double rest[CHUNK];
    for (long p = 0; p < n; p++) low[p] = INFINITY, high[p] = -INFINITY;
    for (long i = 0; i < s->k; i++) {
        for (long p = 0; p < n; p++) rest[p] = s->lead[i];
        for (long j = 0; j < s->k; j++) {
            double size = s->root[j * s->k + i];
            const double *coordinate = points + j * n_points + first;
            if (size != 0)
                for (long p = 0; p < n; p++) rest[p] += size * coordinate[p];
        }
        if (s->flat[i]) {
            for (long p = 0; p < n && !s->certain[i]; p++) low[p] = rest[p] > 0 ? low[p] : -INFINITY;
            continue;
        }
        double inverse = 1 / s->c[i];
        if (s->c[i] > 0)
            for (long p = 0; p < n; p++) low[p] = rest[p] * inverse < low[p] ? rest[p] * inverse : low[p];
        else
            for (long p = 0; p < n; p++) high[p] = rest[p] * inverse > high[p] ? rest[p] * inverse : high[p];
    }
}

static double mean_share(const leads *s, const double *points, long n_points) {
    double low[CHUNK], high[CHUNK], total = 0;
    for (long first = 0; first < n_points; first += CHUNK) {
        long n = n_points - first < CHUNK ? n_points - first : CHUNK;
        set_limits(s, points, n_points, first, n, low, high);
        for (long p = 0; p < n; p++) {
            double share = normal_cdf(low[p]) - (high[p] > -INFINITY ? normal_cdf(high[p]) : 0);
            if (share > 0) total += share;
        }
    }
    return total / n_points;
}

static void winning(leads *s, const double *values, const double *factors, const double *own, const int64_t *arms,
                    const double *points, double *out, long n_asked, long n_points, double smallest) {
    long K = s->k + 1;
    for (long m = 0; m < n_asked; m++) {
        double width, share = 0;
        const double *mine = own ? own + m * K : NULL;
        if (set_leads(s, values + m * K, factors + m * K * s->q, mine, arms[m], smallest, &width)) {
            set_direction(s, width);
            set_root(s, width);
            share = mean_share(s, points, n_points);
        }
        out[m] = share < smallest ? smallest : share > 1 ? 1 : share;
    }
}

static int are_arms(const Py_buffer *arms, long n_arms) {
    const int64_t *a = arms->buf;
    for (size_t m = 0; m < arms->len / sizeof(int64_t); m++)
        if (a[m] < 0 || a[m] >= n_arms) {
            PyErr_Format(PyExc_ValueError, "arm %lld of %ld", (long long)a[m], n_arms);
            return 0;
        }
    return 1;
}

static PyObject *py_winning(PyObject *self, PyObject *args) {
    Py_buffer values, factors, own, arms, points, out;
    double smallest;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*w*d", &values, &factors, &own, &arms, &points, &out, &smallest)) return NULL;
    long m = arms.len / sizeof(int64_t), K = m > 0 ? values.len / (long)sizeof(double) / m : 2, k = K - 1;
    long q = m > 0 && K > 0 ? factors.len / (long)sizeof(double) / (m * K) : 0;
    long n_points = k > 0 ? points.len / (long)sizeof(double) / k : 0;
    if (!has_length(&values, product(m, K, 1), sizeof(double), "values") ||
        !has_length(&factors, product(m, K, q), sizeof(double), "factors") ||
        (own.len > 0 && !has_length(&own, product(m, K, 1), sizeof(double), "own")) ||
        !has_length(&points, product(n_points, k, 1), sizeof(double), "points") ||
        !has_length(&out, m, sizeof(double), "out") || !are_arms(&arms, K))
        goto done;
    if (k < 1 || n_points < 1) {
        PyErr_SetString(PyExc_ValueError, "there must be two arms and a point");
        goto done;
    }
    double *room = malloc(sizeof(double) * (3 * k + k * q + 2 * k * k) + 3 * k);
    if (!room) {
        PyErr_NoMemory();
        goto done;
    }
    char *flags = (char *)(room + 3 * k + k * q + 2 * k * k);
    leads s = {k, q, room, room + k, room + 2 * k, room + 3 * k, room + 3 * k + k * q, room + 3 * k + k * q + k * k,
               flags, flags + k, flags + 2 * k};
    Py_BEGIN_ALLOW_THREADS;
    winning(&s, values.buf, factors.buf, own.len > 0 ? own.buf : NULL, arms.buf, points.buf, out.buf, m, n_points, smallest);
    Py_END_ALLOW_THREADS;
    free(room);
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&values), PyBuffer_Release(&factors), PyBuffer_Release(&own);
    PyBuffer_Release(&arms), PyBuffer_Release(&points), PyBuffer_Release(&out);
    return result;
}

static PyObject *py_normal_cdf(PyObject *self, PyObject *args) {
    Py_buffer values, out;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*w*", &values, &out)) return NULL;
    long n = values.len / (long)sizeof(double);
    if (!has_length(&values, n, sizeof(double), "values") || !has_length(&out, n, sizeof(double), "out")) goto done;
    const double *x = values.buf;
    double *p = out.buf;
    for (long i = 0; i < n; i++) p[i] = normal_cdf(x[i]);
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&values), PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"normal_cdf", py_normal_cdf, METH_VARARGS, "The distribution function of N(0, 1)."},
    {"winning", py_winning, METH_VARARGS, "The probability that an arm has the highest of Gaussian values."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cobandits.compiled._propensity", "Compiled propensities.", -1, methods,
};

PyMODINIT_FUNC PyInit__propensity(void) { return PyModule_Create(&module); }
