/* Vectors of one REAL type and one width: how rows are cut into them, and products with rows.
 *
 * Included by _pass_kernel.h, and with it once for each type and width. A row is cut into
 * vectors of LANES numbers. The last vector of a row overlaps the one before it (it ends
 * where the row ends), and its lanes that were counted already are multiplied by zero: no
 * row needs padding. A row of fewer than LANES numbers (NARROW) is copied into one vector
 * that ends in zeros.
 */

typedef REAL NAMED(vec) __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef REAL NAMED(quad)
    __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define VEC NAMED(vec)
#define QUAD NAMED(quad)
#define LOAD(p) (*(const VEC *)(p))

/* How a row of `dim` numbers is cut into vectors. */
typedef struct {
    long dim, vectors;
    VEC fresh; /* 1 in the lanes of the last vector that no earlier vector holds */
} NAMED(cut);
#define CUT NAMED(cut)

INLINE CUT NAMED(cut_row)(long dim) {
    CUT cut = {.dim = dim, .vectors = (dim + LANES - 1) / LANES};
    for (long i = 0; i < LANES; i++)
        cut.fresh[i] = dim < LANES ? i < dim : dim - LANES + i >= (cut.vectors - 1) * LANES;
    return cut;
}

/* Where vector v of a row begins. */
INLINE long NAMED(begin)(const int NARROW, CUT cut, long v) {
    return NARROW || v + 1 < cut.vectors ? v * LANES : cut.dim - LANES;
}

INLINE VEC NAMED(load)(const int NARROW, CUT cut, const REAL *numbers) {
    if (!NARROW) return LOAD(numbers);
    VEC v = {0};
    for (long i = 0; i < cut.dim; i++) v[i] = numbers[i];
    return v;
}

INLINE QUAD NAMED(fold)(VEC v) {
    union { VEC whole; QUAD part[LANES / 4]; } u = {.whole = v};
    QUAD s = u.part[0];
    for (int i = 1; i < LANES / 4; i++) s += u.part[i];
    return s;
}

INLINE REAL NAMED(sum)(VEC v) {
    QUAD q = NAMED(fold)(v);
    return (q[0] + q[2]) + (q[1] + q[3]);
}

/* The sums of four vectors, as one vector of four: a transpose and an add. */
INLINE QUAD NAMED(sums)(VEC a, VEC b, VEC c, VEC d) {
    QUAD p = NAMED(fold)(a), q = NAMED(fold)(b), r = NAMED(fold)(c), s = NAMED(fold)(d);
    QUAD pq = __builtin_shufflevector(p, q, 0, 4, 1, 5) + __builtin_shufflevector(p, q, 2, 6, 3, 7);
    QUAD rs = __builtin_shufflevector(r, s, 0, 4, 1, 5) + __builtin_shufflevector(r, s, 2, 6, 3, 7);
    return __builtin_shufflevector(pq, rs, 0, 1, 4, 5) + __builtin_shufflevector(pq, rs, 2, 3, 6, 7);
}

/* <a, b> for lengths that are multiples of LANES. */
INLINE REAL NAMED(dot)(const REAL *a, const REAL *b, long length) {
    VEC s = {0};
    for (long i = 0; i < length; i += LANES) s += LOAD(a + i) * LOAD(b + i);
    return NAMED(sum)(s);
}

/* Columns of a matrix as rows of vectors, the last vector masked by `fresh`. */
INLINE void NAMED(pack)(const int NARROW, CUT cut, const REAL *column, long stride, REAL *packed) {
    for (long v = 0; v < cut.vectors; v++)
        for (long i = 0; i < LANES; i++) {
            int counts = v + 1 < cut.vectors || cut.fresh[i] != 0;
            packed[v * LANES + i] = counts ? column[(NAMED(begin)(NARROW, cut, v) + i) * stride] : 0;
        }
}

/* out[k * pitch + i] = <row i, column k> for ROWS (4, 2 or 1) rows and COLUMNS columns. */
INLINE void NAMED(products)(const int NARROW, const int ROWS, const int COLUMNS, CUT cut,
                            const REAL *restrict rows, const REAL *restrict packed,
                            REAL *restrict out, long pitch) {
    VEC acc[4][4];
    for (int k = 0; k < COLUMNS; k++)
        for (int i = 0; i < ROWS; i++) acc[k][i] = (VEC){0};
    for (long v = 0; v < cut.vectors; v++) {
        long j = NAMED(begin)(NARROW, cut, v);
        VEC x[4];
        for (int i = 0; i < ROWS; i++) x[i] = NAMED(load)(NARROW, cut, rows + i * cut.dim + j);
        for (int k = 0; k < COLUMNS; k++) {
            VEC b = LOAD(packed + (k * cut.vectors + v) * LANES);
            for (int i = 0; i < ROWS; i++) acc[k][i] += x[i] * b;
        }
    }
    for (int k = 0; k < COLUMNS; k++) {
        if (ROWS == 4) *(QUAD *)(out + k * pitch) = NAMED(sums)(acc[k][0], acc[k][1], acc[k][2], acc[k][3]);
        else
            for (int i = 0; i < ROWS; i++) out[k * pitch + i] = NAMED(sum)(acc[k][i]);
    }
}
