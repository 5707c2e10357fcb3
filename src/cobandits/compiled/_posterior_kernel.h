/* The hot loops over the posteriors of all tasks: learning rows, and choosing among arms.
 *
 * A task's covariance is P = S S' with S upper triangular. Column i of S has i + 1 numbers; the
 * columns follow each other, so that a task has dim (dim + 1) / 2 numbers ("packed"). Plain C with
 * the vector types of GCC and Clang.
 */
#pragma once
#include <float.h>
#include <math.h>
#include <stdint.h>
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

/* The same with wider steps, for vectors of all features. */
#define WIDE 8
typedef double wide __attribute__((vector_size(WIDE * sizeof(double)), aligned(sizeof(double)), may_alias));
INLINE void wide_dots(const int COUNT, const double *restrict a, const double *restrict b, long pitch, long length,
                      double *restrict out) {
    wide acc[ARMS];
    for (int k = 0; k < COUNT; k++) acc[k] = (wide){0};
    long j = 0;
    for (; j + WIDE <= length; j += WIDE) {
        wide column = *(const wide *)(a + j);
        for (int k = 0; k < COUNT; k++) acc[k] += column * *(const wide *)(b + k * pitch + j);
    }
    for (int k = 0; k < COUNT; k++) {
        double s = ((acc[k][0] + acc[k][4]) + (acc[k][1] + acc[k][5])) + ((acc[k][2] + acc[k][6]) + (acc[k][3] + acc[k][7]));
        for (long i = j; i < length; i++) s += a[i] * b[k * pitch + i];
        out[k] = s;
    }
}

/* Carlson's update of S (1973) for one row x with noise of variance 1, one pass over it.
 *
 * With f = S'x, alpha_i = 1 + f_1^2 + .. + f_i^2 and e_i = f_1 S_1 + .. + f_i S_i, column i becomes
 * sqrt(alpha_{i-1} / alpha_i) S_i - f_i / sqrt(alpha_{i-1} alpha_i) e_{i-1}; the gain is
 * P x / (1 + x'P x) = e_dim / alpha_dim. Leaves e_dim in e, and returns alpha_dim.
 */
INLINE double update_root(double *restrict column, const double *restrict x, long dim, double *restrict e) {
    double alpha = 1;
    memset(e, 0, sizeof(double) * dim);
    for (long i = 0; i < dim; column += ++i) {
        double f;
        dots(1, column, x, 0, i + 1, &f, 1);
        double next = alpha + f * f, inverse = 1 / sqrt(alpha * next), keep = alpha * inverse, turn = f * inverse;
        for (long j = 0; j <= i; j++) {
            double s = column[j];
            column[j] = keep * s - turn * e[j];
            e[j] += f * s;
        }
        alpha = next;
    }
    return alpha;
}

/* Learn one row x with reward y. Returns the log of alpha_dim. */
INLINE double learn_row(double *restrict root, double *restrict mean, const double *restrict x, double y,
                        long dim, double *restrict e) {
    double predicted;
    dots(1, mean, x, 0, dim, &predicted, 1);
    double alpha = update_root(root, x, dim, e), step = (y - predicted) / alpha;
    for (long j = 0; j < dim; j++) mean[j] += e[j] * step;
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

/* What the posteriors of tasks are made of: see TaskPosteriors in policies/shared/posteriors.py. */
typedef struct {
    double *roots, *means, *log_volumes; /* of the posteriors, in dim directions */
    double *thetas;                      /* (n_tasks, width): d features and an intercept */
    const double *noises;                /* (n_tasks,) */
    const double *directions;            /* (dim, width) */
    long dim, width;
} task_posteriors;

/* Learn one row [x, y] of a task; tells its squared error and the expected one. */
INLINE void learn_one(const task_posteriors *h, int64_t t, const double *restrict x, double *restrict square,
                       double *restrict expected, double *restrict scratch) {
    long dim = h->dim, width = h->width, i = 0;
    double *restrict z = scratch, *restrict e = scratch + dim, *restrict theta = h->thetas + t * width;
    double *restrict mean = h->means + t * dim;
    double predicted, scale = 1 / sqrt(h->noises[t]);
    wide_dots(1, theta, x, 0, width, &predicted);
    double error = x[width] - predicted;
    for (; i + 4 <= dim; i += 4) wide_dots(4, x, h->directions + i * width, width, width, z + i);
    for (; i < dim; i++) wide_dots(1, x, h->directions + i * width, 0, width, z + i);
    for (i = 0; i < dim; i++) z[i] *= scale;
    double alpha = update_root(h->roots + t * (dim * (dim + 1) / 2), z, dim, e);
    for (i = 0; i < dim; i++) {
        e[i] *= error * scale / alpha;
        mean[i] += e[i];
    }
    for (i = 0; i + 4 <= dim; i += 4) {
        const double *restrict a = h->directions + i * width, *restrict b = a + width;
        const double *restrict c = b + width, *restrict d = c + width;
        for (long j = 0; j < width; j++) theta[j] += (e[i] * a[j] + e[i + 1] * b[j]) + (e[i + 2] * c[j] + e[i + 3] * d[j]);
    }
    for (; i < dim; i++)
        for (long j = 0; j < width; j++) theta[j] += e[i] * h->directions[i * width + j];
    h->log_volumes[t] += log(alpha);
    *square = error * error;
    *expected = h->noises[t] * alpha;
}

TARGET static void learn_in_directions(const task_posteriors *h, const int64_t *tasks, const double *rows, double *squares,
                               double *expected, long n_rows, double *scratch) {
    for (long m = 0; m < n_rows; m++)
        learn_one(h, tasks[m], rows + m * (h->width + 1), squares + m, expected + m, scratch);
}

/* What decides whether an arm may be sampled: see TaskPosteriors.greedy in policies/shared/posteriors.py. */
typedef struct {
    double ratio;   /* share of an arm's variance that is unknown, over that of the greedy arm, up to which it is not sampled */
    double noise;   /* variance */
    double outside; /* of the directions: variance of an arm before any reward */
    double highest; /* reward so far */
    double seen;    /* rewards of all tasks */
} limits;

/* The variance of an arm's value, at least the smallest number, and before any reward. */
INLINE double variance_of(const task_posteriors *h, const limits *most, int64_t t, const double *restrict arm,
                          double *restrict z, double *restrict before) {
    long dim = h->dim, width = h->width, i = 0;
    const double *column = h->roots + t * (dim * (dim + 1) / 2);
    for (; i + 4 <= dim; i += 4) wide_dots(4, arm, h->directions + i * width, width, width - 1, z + i);
    for (; i < dim; i++) wide_dots(1, arm, h->directions + i * width, 0, width - 1, z + i);
    double variance = fmax(0, h->noises[t] - most->noise);
    *before = most->outside;
    for (i = 0; i < dim; i++) {
        z[i] += h->directions[i * width + width - 1];
        *before += z[i] * z[i];
    }
    for (i = 0; i < dim; column += ++i) {
        double f;
        dots(1, column, z, 0, i + 1, &f, 1);
        variance += f * f;
    }
    *before = fmax(*before, DBL_MIN);
    return fmax(variance, DBL_MIN);
}

/* E max(v - level, 0) of a Gaussian v. */
INLINE double expected_improvement(double value, double std, double level) {
    double u = (value - level) / std;
    return std * (exp(-0.5 * u * u) * 0.3989422804014327 + u * 0.5 * erfc(-u * 0.7071067811865476));
}

/* Whether any arm of a request is neglected by greedy decisions, and worth trying. */
INLINE int is_sampled(const task_posteriors *h, const limits *most, int64_t t, double n, const double *restrict arms,
                      const double *restrict values, long best, long n_arms, double *restrict z,
                      double *restrict variances, double *restrict before) {
    long d = h->width - 1;
    double level = values[best], top = fmax(level, most->highest - h->thetas[t * h->width + d]), widest = 0;
    for (long k = 0; k < n_arms; k++) {
        variances[k] = variance_of(h, most, t, arms + k * d, z, before + k);
        widest = fmax(widest, before[k]);
    }
    double own = fmin(1, n / most->seen), first = before[best] + own * (widest - before[best]);
    double known = most->ratio * variances[best] / first;
    for (long k = 0; k < n_arms; k++) {
        if (k == best || variances[k] <= known * before[k]) continue;
        double std = sqrt(variances[k]);
        double gain = expected_improvement(values[k], std, level) - expected_improvement(values[k], std, top);
        if (n * gain > level - values[k]) return 1;
    }
    return 0;
}

/* chosen[m] = the first of the best arms; -1 for tasks without rewards, and where an arm may be sampled. */
TARGET static long greedy(const task_posteriors *h, const limits *most, const int64_t *counts, const int64_t *tasks,
                          const double *arms, int64_t *chosen, long n_asked, long n_arms, double *scratch) {
    long left = 0, d = h->width - 1;
    double *values = scratch + h->dim + LANES, *variances = values + n_arms, *before = variances + n_arms;
    for (long m = 0; m < n_asked; m++) {
        int64_t t = tasks[m];
        const double *asked = arms + m * n_arms * d;
        long best = 0;
        for (long k = 0; k < n_arms; k++) {
            wide_dots(1, h->thetas + t * h->width, asked + k * d, 0, d, values + k);
            if (values[k] > values[best]) best = k;
        }
        int sampled = counts[t] < 1 || (n_arms > 1 && is_sampled(h, most, t, counts[t], asked, values, best, n_arms,
                                                                 scratch, variances, before));
        chosen[m] = sampled ? -1 : best;
        left += sampled;
    }
    return left;
}

/* to[k * dim + i] = <column i, arm k> for COUNT arms and all columns of one root. */
INLINE void factor_arms(const int COUNT, const double *restrict column, const double *restrict arms,
                        double *restrict to, long dim) {
    for (long i = 0; i < dim; column += ++i) dots(COUNT, column, arms, dim, i + 1, to + i, dim);
}

/* out[m] = arms[m] S, (n_arms, dim), for the task of each request m. */
TARGET static void covariance_factors(const double *roots, const int64_t *tasks, const double *arms, double *out,
                          long n_asked, long n_arms, long dim) {
    long size = dim * (dim + 1) / 2;
    for (long m = 0; m < n_asked; m++) {
        const double *root = roots + tasks[m] * size;
        for (long k = 0; k < n_arms;) {
            const double *x = arms + (m * n_arms + k) * dim;
            double *to = out + (m * n_arms + k) * dim;
            long left = n_arms - k;
            if (left == 5) factor_arms(5, root, x, to, dim), k += 5;
            else if (left >= 4) factor_arms(4, root, x, to, dim), k += 4;
            else if (left >= 2) factor_arms(2, root, x, to, dim), k += 2;
            else factor_arms(1, root, x, to, dim), k += 1;
        }
    }
}

/* out[m, k] = |S f|^2 for the factors f = factors[m, k] of the task of each request m. */
TARGET static void squared_returns(const double *roots, const int64_t *tasks, const double *factors, double *out,
                                   long n_asked, long n_arms, long dim, double *restrict e) {
    long size = dim * (dim + 1) / 2;
    for (long m = 0; m < n_asked; m++)
        for (long k = 0; k < n_arms; k++) {
            const double *restrict column = roots + tasks[m] * size, *restrict f = factors + (m * n_arms + k) * dim;
            memset(e, 0, sizeof(double) * dim);
            for (long i = 0; i < dim; column += ++i)
                for (long j = 0; j <= i; j++) e[j] += f[i] * column[j];
            dots(1, e, e, 0, dim, out + m * n_arms + k, 1);
        }
}
