/* The passes over the rows of all tasks, for one REAL type and one width of vectors.
 *
 * Included by _pass.c for each of them, which defines
 *   REAL      float or double
 *   LANES     how many of them are in a vector
 *   NAMED(x)  x with a suffix for type and width
 *   TARGET    for which instruction sets to compile
 *   GRAMS     where the passes over Gram matrices and of the likelihood are needed too
 *
 * A task's rows are read in blocks of four and stay in cache between the product
 * with the basis and the product with the residual, so a pass reads memory about
 * once.
 */
#include "_pass_vectors.h"

/* The products of ROWS rows with all columns. */
INLINE void NAMED(project_rows)(const int NARROW, const int ROWS, CUT cut, const REAL *rows,
                                const REAL *packed, long rank, REAL *At, long pitch) {
    long k = 0, width = cut.vectors * LANES;
    for (; k + 4 <= rank; k += 4)
        NAMED(products)(NARROW, ROWS, 4, cut, rows, packed + k * width, At + k * pitch, pitch);
    for (; k + 2 <= rank; k += 2)
        NAMED(products)(NARROW, ROWS, 2, cut, rows, packed + k * width, At + k * pitch, pitch);
    for (; k < rank; k++)
        NAMED(products)(NARROW, ROWS, 1, cut, rows, packed + k * width, At + k * pitch, pitch);
}

/* A' = (Phi_t B)', (rank, pitch), zero behind the last row. */
INLINE void NAMED(project)(const int NARROW, CUT cut, const REAL *rows, long count,
                           const REAL *packed, long rank, REAL *At, long pitch) {
    long i = 0;
    for (; i + 4 <= count; i += 4)
        NAMED(project_rows)(NARROW, 4, cut, rows + i * cut.dim, packed, rank, At + i, pitch);
    for (; i + 2 <= count; i += 2)
        NAMED(project_rows)(NARROW, 2, cut, rows + i * cut.dim, packed, rank, At + i, pitch);
    for (; i < count; i++)
        NAMED(project_rows)(NARROW, 1, cut, rows + i * cut.dim, packed, rank, At + i, pitch);
    for (; i < pitch; i++)
        for (long k = 0; k < rank; k++) At[k * pitch + i] = 0;
}

/* g += sum_i e_i row_i over COUNT rows; g has room for whole vectors. */
INLINE void NAMED(add_rows)(const int NARROW, const int COUNT, CUT cut, const REAL *restrict rows,
                            const REAL *restrict e, REAL *restrict g) {
    VEC scale[8];
    for (int i = 0; i < COUNT; i++) scale[i] = (VEC){0} + e[i];
    for (long v = 0; v + 1 < cut.vectors; v++) {
        VEC s = LOAD(g + v * LANES);
        for (int i = 0; i < COUNT; i++) s += scale[i] * LOAD(rows + i * cut.dim + v * LANES);
        *(VEC *)(g + v * LANES) = s;
    }
    VEC s = {0};
    long last = NAMED(begin)(NARROW, cut, cut.vectors - 1);
    for (int i = 0; i < COUNT; i++) s += scale[i] * NAMED(load)(NARROW, cut, rows + i * cut.dim + last);
    *(VEC *)(g + last) += cut.fresh * s;
}

/* g = Phi_t' e, from the last row to the first: the last are still in cache. */
INLINE void NAMED(pull_back)(const int NARROW, CUT cut, const REAL *rows, const REAL *e, long count,
                             REAL *g) {
    memset(g, 0, sizeof(VEC) * cut.vectors);
    long i = count;
    for (; i >= 8; i -= 8) NAMED(add_rows)(NARROW, 8, cut, rows + (i - 8) * cut.dim, e + i - 8, g);
    for (; i >= 2; i -= 2) NAMED(add_rows)(NARROW, 2, cut, rows + (i - 2) * cut.dim, e + i - 2, g);
    for (; i >= 1; i -= 1) NAMED(add_rows)(NARROW, 1, cut, rows + (i - 1) * cut.dim, e + i - 1, g);
}

/* M = A'A + penalty, lower blocks of four, and w = A'y. */
INLINE void NAMED(normal_equations)(const REAL *At, const REAL *y, long used, long rank,
                                    const REAL *penalty, REAL *M, REAL *w) {
    CUT cut = NAMED(cut_row)(used);
    long p = 0;
    for (; p + 4 <= rank; p += 4) {
        NAMED(products)(0, 4, 1, cut, At + p * used, y, w + p, 1);
        for (long q = 0; q <= p; q += 4) {
            REAL block[16];
            NAMED(products)(0, 4, 4, cut, At + p * used, At + q * used, block, 4);
            for (int i = 0; i < 4; i++)
                for (int k = 0; k < 4; k++)
                    M[(p + i) * rank + q + k] = block[k * 4 + i] + penalty[(p + i) * rank + q + k];
        }
    }
    for (; p < rank; p++) {
        w[p] = NAMED(dot)(At + p * used, y, used);
        for (long q = 0; q <= p; q++)
            M[p * rank + q] = NAMED(dot)(At + p * used, At + q * used, used) + penalty[p * rank + q];
    }
}

/* Solve M w = w in place by Cholesky; 0 if a pivot is lost to rounding. */
INLINE int NAMED(solve)(REAL *M, REAL *w, long rank, REAL tolerance) {
    for (long p = 0; p < rank; p++) {
        REAL diagonal = M[p * rank + p];
        for (long q = 0; q <= p; q++) {
            REAL s = M[p * rank + q];
            for (long k = 0; k < q; k++) s -= M[p * rank + k] * M[q * rank + k];
            if (q < p) M[p * rank + q] = s * M[q * rank + q];
            else if (!(s > tolerance * diagonal)) return 0;
            else M[p * rank + p] = 1 / (REAL)sqrt(s); /* the inverse: no division below */
        }
    }
    for (long p = 0; p < rank; p++) {
        for (long k = 0; k < p; k++) w[p] -= M[p * rank + k] * w[k];
        w[p] *= M[p * rank + p];
    }
    for (long p = rank - 1; p >= 0; p--) {
        for (long k = p + 1; k < rank; k++) w[p] -= M[k * rank + p] * w[k];
        w[p] *= M[p * rank + p];
    }
    return 1;
}

INLINE void NAMED(least_squares_of)(const int NARROW, const REAL *rows, const REAL *rewards,
                                    const int64_t *offsets, long n_tasks, long dim, long rank,
                                    const REAL *B, const REAL *penalty, REAL tolerance, REAL *W,
                                    REAL *grad_t, double *costs, long longest, REAL *scratch) {
    CUT cut = NAMED(cut_row)(dim);
    long pitch = (longest + LANES - 1) / LANES * LANES, width = cut.vectors * LANES;
    REAL *packed = scratch, *At = packed + rank * width, *y = At + rank * pitch;
    REAL *e = y + pitch, *g = e + pitch, *sums = g + width, *M = sums + rank * width;
    for (long k = 0; k < rank; k++) NAMED(pack)(NARROW, cut, B + k, rank, packed + k * width);
    memset(sums, 0, sizeof(REAL) * rank * width);
    for (long t = 0; t < n_tasks; t++) {
        long count = offsets[t + 1] - offsets[t], used = (count + LANES - 1) / LANES * LANES;
        const REAL *Phi = rows + offsets[t] * dim;
        REAL *w = W + t * rank;
        NAMED(project)(NARROW, cut, Phi, count, packed, rank, At, used);
        memcpy(y, rewards + offsets[t], sizeof(REAL) * count);
        memset(y + count, 0, sizeof(REAL) * (used - count));
        NAMED(normal_equations)(At, y, used, rank, penalty, M, w);
        costs[t] = -1;
        if (!NAMED(solve)(M, w, rank, tolerance)) {
            memset(w, 0, sizeof(REAL) * rank);
            continue;
        }
        for (long i = 0; i < used; i += LANES) {
            VEC s = -LOAD(y + i);
            for (long p = 0; p < rank; p++) s += w[p] * LOAD(At + p * used + i);
            *(VEC *)(e + i) = s;
        }
        double cost = NAMED(dot)(e, e, used);
        for (long p = 0; p < rank; p++)
            for (long q = 0; q < rank; q++) cost += w[p] * penalty[p * rank + q] * w[q];
        costs[t] = cost;
        NAMED(pull_back)(NARROW, cut, Phi, e, count, g);
        for (long k = 0; k < rank; k++)
            for (long j = 0; j < width; j += LANES) *(VEC *)(sums + k * width + j) += w[k] * LOAD(g + j);
    }
    for (long k = 0; k < rank; k++) memcpy(grad_t + k * dim, sums + k * width, sizeof(REAL) * dim);
}

/* Every task's least squares in the span of B, and the half gradient in B.
 *
 * For task t with rows offsets[t] to offsets[t + 1]:
 *   w_t   = argmin |Phi_t B w - y_t|^2 + w' penalty w
 *   grad += Phi_t' (Phi_t B w_t - y_t) w_t'
 *   cost_t = |Phi_t B w_t - y_t|^2 + w_t' penalty w_t
 * A task whose normal matrix is singular gets cost_t = -1, w_t = 0, and adds nothing.
 */
TARGET static void NAMED(least_squares)(const REAL *rows, const REAL *rewards, const int64_t *offsets,
                                        long n_tasks, long dim, long rank, const REAL *B,
                                        const REAL *penalty, REAL tolerance, REAL *W, REAL *grad_t,
                                        double *costs, long longest, REAL *scratch) {
    if (dim < LANES)
        NAMED(least_squares_of)(1, rows, rewards, offsets, n_tasks, dim, rank, B, penalty, tolerance, W,
                                grad_t, costs, longest, scratch);
    else
        NAMED(least_squares_of)(0, rows, rewards, offsets, n_tasks, dim, rank, B, penalty, tolerance, W,
                                grad_t, costs, longest, scratch);
}

INLINE void NAMED(residuals_of)(const int NARROW, const REAL *rows, const REAL *rewards,
                                const int64_t *offsets, long n_tasks, long dim, const REAL *thetas,
                                REAL *G, double *costs, REAL *scratch) {
    CUT cut = NAMED(cut_row)(dim);
    REAL *packed = scratch, *g = packed + cut.vectors * LANES;
    for (long t = 0; t < n_tasks; t++) {
        const REAL *Phi = rows + offsets[t] * dim, *y = rewards + offsets[t];
        long count = offsets[t + 1] - offsets[t], i = 0;
        REAL e[8];
        costs[t] = 0;
        memset(g, 0, sizeof(VEC) * cut.vectors);
        NAMED(pack)(NARROW, cut, thetas + t * dim, 1, packed);
        for (; i + 8 <= count; i += 8) {
            NAMED(products)(NARROW, 4, 1, cut, Phi + i * dim, packed, e, 1);
            NAMED(products)(NARROW, 4, 1, cut, Phi + (i + 4) * dim, packed, e + 4, 1);
            for (int q = 0; q < 8; q++) {
                e[q] -= y[i + q];
                costs[t] += (double)e[q] * e[q];
            }
            NAMED(add_rows)(NARROW, 8, cut, Phi + i * dim, e, g);
        }
        for (; i < count; i++) {
            NAMED(products)(NARROW, 1, 1, cut, Phi + i * dim, packed, e, 1);
            e[0] -= y[i];
            costs[t] += (double)e[0] * e[0];
            NAMED(add_rows)(NARROW, 1, cut, Phi + i * dim, e, g);
        }
        memcpy(G + t * dim, g, sizeof(REAL) * dim);
    }
}

/* G_t = Phi_t' (Phi_t theta_t - y_t) and |Phi_t theta_t - y_t|^2 for every task. */
TARGET static void NAMED(residuals)(const REAL *rows, const REAL *rewards, const int64_t *offsets,
                                    long n_tasks, long dim, const REAL *thetas, REAL *G,
                                    double *costs, REAL *scratch) {
    if (dim < LANES)
        NAMED(residuals_of)(1, rows, rewards, offsets, n_tasks, dim, thetas, G, costs, scratch);
    else
        NAMED(residuals_of)(0, rows, rewards, offsets, n_tasks, dim, thetas, G, costs, scratch);
}

INLINE void NAMED(pull_backs_of)(const int NARROW, const REAL *rows, const REAL *values, long n_values,
                                 const int64_t *offsets, long n_tasks, long dim, REAL *out,
                                 REAL *scratch) {
    CUT cut = NAMED(cut_row)(dim);
    long width = cut.vectors * LANES;
    for (long t = 0; t < n_tasks; t++) {
        const REAL *Phi = rows + offsets[t] * dim;
        long count = offsets[t + 1] - offsets[t], i = 0;
        REAL e[8];
        memset(scratch, 0, sizeof(REAL) * n_values * width);
        while (i < count) {
            long step = i + 8 <= count ? 8 : 1;
            for (long k = 0; k < n_values; k++) {
                for (long q = 0; q < step; q++) e[q] = values[(offsets[t] + i + q) * n_values + k];
                if (step == 8) NAMED(add_rows)(NARROW, 8, cut, Phi + i * dim, e, scratch + k * width);
                else NAMED(add_rows)(NARROW, 1, cut, Phi + i * dim, e, scratch + k * width);
            }
            i += step;
        }
        for (long k = 0; k < n_values; k++)
            memcpy(out + (t * n_values + k) * dim, scratch + k * width, sizeof(REAL) * dim);
    }
}

/* Phi_t' v for every task and every column v of `values`, (n_rows, n_values). */
TARGET static void NAMED(pull_backs)(const REAL *rows, const REAL *values, long n_values,
                                     const int64_t *offsets, long n_tasks, long dim, REAL *out,
                                     REAL *scratch) {
    if (dim < LANES)
        NAMED(pull_backs_of)(1, rows, values, n_values, offsets, n_tasks, dim, out, scratch);
    else
        NAMED(pull_backs_of)(0, rows, values, n_values, offsets, n_tasks, dim, out, scratch);
}

#ifdef GRAMS
#include "_gram_kernel.h"
#include "_marginal_kernel.h"
#endif

#undef VEC
#undef QUAD
#undef CUT
#undef LOAD
#undef REAL
#undef LANES
#undef NAMED
