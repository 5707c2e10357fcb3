/* The pass over Gram matrices of the features that tasks use, for one width of vectors.
 *
 * Included by _pass_kernel.h, for doubles. A symmetric matrix is kept by bands of eight rows: a band
 * has the numbers left of the diagonal, row after row, then its 8 x 8 block on the diagonal, whole.
 * Each number left of the diagonal is read once and used twice, for its row and for its column.
 */
#define BAND 8

/* Y += G X for ROWS rows of a band and COLUMNS columns of X; `left` numbers are left of the diagonal. */
INLINE void NAMED(band_rows)(const int ROWS, const int COLUMNS, const REAL *restrict G, long left, const REAL *restrict X,
                             REAL *restrict Y, long pitch, long row) {
    VEC acc[4][8], x[4][8];
    for (int k = 0; k < COLUMNS; k++)
        for (int i = 0; i < ROWS; i++) {
            acc[k][i] = (VEC){0};
            x[k][i] = (VEC){0} + X[k * pitch + row + i];
        }
    for (long j = 0; j < left; j += LANES) {
        VEC g[8];
        for (int i = 0; i < ROWS; i++) g[i] = LOAD(G + i * left + j);
        for (int k = 0; k < COLUMNS; k++) {
            VEC from = LOAD(X + k * pitch + j), to = LOAD(Y + k * pitch + j);
            for (int i = 0; i < ROWS; i++) {
                acc[k][i] += g[i] * from;
                to += g[i] * x[k][i];
            }
            *(VEC *)(Y + k * pitch + j) = to;
        }
    }
    for (int k = 0; k < COLUMNS; k++)
        for (int i = 0; i < ROWS; i++) Y[k * pitch + row + i] += NAMED(sum)(acc[k][i]);
}

INLINE void NAMED(band)(const REAL *G, long left, const REAL *X, REAL *Y, long pitch, long rank) {
    long k = 0;
    for (; k + 4 <= rank; k += 4)
        for (long i = 0; i < BAND; i += LANES / 2)
            NAMED(band_rows)(LANES / 2, 4, G + i * left, left, X + k * pitch, Y + k * pitch, pitch, left + i);
    for (; k + 2 <= rank; k += 2)
        for (long i = 0; i < BAND; i += LANES)
            NAMED(band_rows)(LANES, 2, G + i * left, left, X + k * pitch, Y + k * pitch, pitch, left + i);
    for (; k < rank; k++)
        for (long i = 0; i < BAND; i += LANES)
            NAMED(band_rows)(LANES, 1, G + i * left, left, X + k * pitch, Y + k * pitch, pitch, left + i);
    const REAL *block = G + BAND * left;
    for (k = 0; k < rank; k++)
        for (long j = 0; j < BAND; j++)
            for (long i = 0; i < BAND; i++)
                Y[k * pitch + left + i] += block[j * BAND + i] * X[k * pitch + left + j];
}

/* Solve a task from X = B, Y = G X and m = Phi'y, all in its own features; returns its cost, or -1 where it is singular.
 * g becomes Phi'(Phi theta - y). */
INLINE double NAMED(solve_gram)(const REAL *X, const REAL *Y, const REAL *m, double square, const REAL *penalty,
                                long pitch, long rank, REAL tolerance, REAL *M, REAL *w, REAL *g) {
    REAL *factor = M + rank * rank, *v = factor + rank * rank;
    for (long p = 0; p < rank; p++) {
        v[p] = w[p] = NAMED(dot)(X + p * pitch, m, pitch);
        for (long q = 0; q < rank; q++)
            M[p * rank + q] = NAMED(dot)(X + p * pitch, Y + q * pitch, pitch) + penalty[p * rank + q];
    }
    memcpy(factor, M, sizeof(REAL) * rank * rank);
    if (!NAMED(solve)(factor, w, rank, tolerance)) return -1;
    double cost = square;
    for (long p = 0; p < rank; p++) {
        cost -= 2 * v[p] * w[p];
        for (long q = 0; q < rank; q++) cost += w[p] * M[p * rank + q] * w[q];
    }
    for (long j = 0; j < pitch; j += LANES) {
        VEC s = -LOAD(m + j);
        for (long p = 0; p < rank; p++) s += w[p] * LOAD(Y + p * pitch + j);
        *(VEC *)(g + j) = s;
    }
    return cost < 0 ? 0 : cost;
}

/* The same as least_squares, from statistics. Task t uses the features index[starts[t]] to
 * index[starts[t + 1]]; there are a multiple of eight of them, those that fill up are -1. Matrices
 * follow each other, as do moments, (starts[T],). The gradient is (dim, rank).
 */
TARGET static void NAMED(gram_least_squares)(const REAL *grams, const REAL *moments, const double *squares,
                                             const int64_t *index, const int64_t *starts, long n_tasks, long dim,
                                             long rank, const REAL *B, const REAL *penalty, REAL tolerance, REAL *W,
                                             REAL *gradient, double *costs, long widest, REAL *scratch) {
    REAL *X = scratch, *Y = X + rank * widest, *g = Y + rank * widest, *M = g + widest;
    memset(gradient, 0, sizeof(REAL) * dim * rank);
    for (long t = 0; t < n_tasks; t++) {
        long pitch = starts[t + 1] - starts[t];
        const int64_t *used = index + starts[t];
        REAL *w = W + t * rank;
        for (long j = 0; j < pitch; j++)
            for (long k = 0; k < rank; k++) X[k * pitch + j] = used[j] < 0 ? 0 : B[used[j] * rank + k];
        memset(Y, 0, sizeof(REAL) * rank * pitch);
        for (long left = 0; left < pitch; left += BAND) {
            NAMED(band)(grams, left, X, Y, pitch, rank);
            grams += BAND * (left + BAND);
        }
        costs[t] = NAMED(solve_gram)(X, Y, moments + starts[t], squares[t], penalty, pitch, rank, tolerance, M, w, g);
        if (costs[t] < 0) {
            memset(w, 0, sizeof(REAL) * rank);
            continue;
        }
        for (long j = 0; j < pitch && used[j] >= 0; j++)
            for (long k = 0; k < rank; k++) gradient[used[j] * rank + k] += w[k] * g[j];
    }
}
#undef BAND
