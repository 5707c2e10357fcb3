/* The marginal likelihood of all rewards under a covariance of low rank, with its gradient.
 *
 * Included by _pass_kernel.h, for double precision. A task's rows stay in cache between the
 * product with L and the one with the gradient's factor, so an evaluation reads memory once.
 */

/* Replace the lower half of M, (rank, rank), by its Cholesky root, with inverses on the diagonal.
 *
 * Returns log det M in *log_det, and 0 if M is not definite.
 */
INLINE int NAMED(factorise)(REAL *M, long rank, double *log_det) {
    *log_det = 0;
    for (long p = 0; p < rank; p++)
        for (long q = 0; q <= p; q++) {
            REAL s = M[p * rank + q];
            for (long k = 0; k < q; k++) s -= M[p * rank + k] * M[q * rank + k];
            if (q < p) M[p * rank + q] = s * M[q * rank + q];
            else if (!(s > 0)) return 0;
            else *log_det += log(s), M[p * rank + p] = 1 / (REAL)sqrt(s);
        }
    return 1;
}

/* The inverse of M, (rank, rank), whose root is `root`; H, (rank, rank), is scratch. */
INLINE void NAMED(invert)(const REAL *root, long rank, REAL *restrict H, REAL *restrict inverse) {
    memset(H, 0, sizeof(REAL) * rank * rank);
    memset(inverse, 0, sizeof(REAL) * rank * rank);
    for (long p = 0; p < rank; p++) {
        REAL *row = H + p * rank, scale = root[p * rank + p];
        for (long k = 0; k < p; k++)
            for (long q = 0; q <= k; q++) row[q] -= root[p * rank + k] * H[k * rank + q];
        for (long q = 0; q < p; q++) row[q] *= scale;
        row[p] = scale;
        for (long k = 0; k <= p; k++)
            for (long q = 0; q <= p; q++) inverse[k * rank + q] += row[k] * row[q];
    }
}

/* sums_k += Phi' D_k for every k, (rank, width). */
INLINE void NAMED(add_gradient)(const int NARROW, CUT cut, const REAL *rows, const REAL *D, long count,
                                long pitch, long rank, REAL *sums) {
    long i = 0, width = cut.vectors * LANES;
    for (; i + 8 <= count; i += 8)
        for (long k = 0; k < rank; k++)
            NAMED(add_rows)(NARROW, 8, cut, rows + i * cut.dim, D + k * pitch + i, sums + k * width);
    for (; i + 2 <= count; i += 2)
        for (long k = 0; k < rank; k++)
            NAMED(add_rows)(NARROW, 2, cut, rows + i * cut.dim, D + k * pitch + i, sums + k * width);
    for (; i < count; i++)
        for (long k = 0; k < rank; k++)
            NAMED(add_rows)(NARROW, 1, cut, rows + i * cut.dim, D + k * pitch + i, sums + k * width);
}

INLINE int NAMED(low_rank_of)(const int NARROW, const REAL *rows, const REAL *rewards, long n_tasks,
                              long count, long dim, long rank, const REAL *L, double noise, REAL *grad_t,
                              double *totals, REAL *scratch) {
    CUT cut = NAMED(cut_row)(dim);
    long used = (count + LANES - 1) / LANES * LANES, width = cut.vectors * LANES, square = rank * rank;
    REAL *packed = scratch, *sums = packed + rank * width, *At = sums + rank * width, *D = At + rank * used;
    REAL *x = D + rank * used, *e = x + used, *M = e + used, *H = M + square, *inverse = H + square;
    REAL *unit = inverse + square, *b = unit + square, *w = b + rank;
    memset(sums, 0, sizeof(REAL) * rank * width);
    memset(unit, 0, sizeof(REAL) * square);
    for (long k = 0; k < rank; k++) unit[k * rank + k] = 1;
    for (long k = 0; k < rank; k++) NAMED(pack)(NARROW, cut, L + k, rank, packed + k * width);
    for (long i = count; i < used; i++) x[i] = 0;
    for (long t = 0; t < n_tasks; t++) {
        const REAL *X = rows + t * count * dim;
        double log_det;
        NAMED(project)(NARROW, cut, X, count, packed, rank, At, used);
        memcpy(x, rewards + t * count, sizeof(REAL) * count);
        NAMED(normal_equations)(At, x, used, rank, unit, M, b);
        if (!NAMED(factorise)(M, rank, &log_det)) return 0;
        NAMED(invert)(M, rank, H, inverse);
        for (long k = 0; k < rank; k++) {
            w[k] = 0;
            for (long q = 0; q < rank; q++) w[k] += inverse[k * rank + q] * b[q];
        }
        for (long i = 0; i < used; i += LANES) {
            VEC s = LOAD(x + i);
            for (long k = 0; k < rank; k++) s -= w[k] * LOAD(At + k * used + i);
            *(VEC *)(e + i) = s;
            for (long k = 0; k < rank; k++) {
                VEC d = s * (-w[k] / noise);
                for (long q = 0; q < rank; q++) d += inverse[k * rank + q] * LOAD(At + q * used + i);
                *(VEC *)(D + k * used + i) = d;
            }
        }
        totals[0] += log_det, totals[1] += NAMED(dot)(x, e, used);
        NAMED(add_gradient)(NARROW, cut, X, D, count, used, rank, sums);
    }
    for (long k = 0; k < rank; k++)
        for (long j = 0; j < dim; j++) grad_t[k * dim + j] += sums[k * width + j];
    return 1;
}

/* Terms of the likelihood of tasks that have `count` rows each, added to what is there.
 *
 * With A_t = X_t L, M_t = I + A_t'A_t, w_t = M_t^-1 A_t'x_t and e_t = x_t - A_t w_t:
 *   totals += (log det M_t, x_t'e_t)
 *   grad   += X_t' (A_t M_t^-1 - e_t w_t' / noise)
 * Returns 0 where some M_t cannot be factorised.
 */
TARGET static int NAMED(low_rank)(const REAL *rows, const REAL *rewards, long n_tasks, long count, long dim,
                                  long rank, const REAL *L, double noise, REAL *grad_t, double *totals,
                                  REAL *scratch) {
    if (dim < LANES)
        return NAMED(low_rank_of)(1, rows, rewards, n_tasks, count, dim, rank, L, noise, grad_t, totals, scratch);
    return NAMED(low_rank_of)(0, rows, rewards, n_tasks, count, dim, rank, L, noise, grad_t, totals, scratch);
}
