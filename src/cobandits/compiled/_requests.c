/* cobandits.compiled._requests: requests to decide among plain vectors, from JSON to numbers.
 *
 * It reads {"task": text, "arms": [{"id": text, "features": numbers}, ..]}, names in any order, and batches
 * {"decisions": [..]} of these. Whatever says more, or less, or is no JSON, is left to the caller, who reads it
 * in the general way and finds what is wrong. So there is one meaning of each text, and no error of its own here.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "numbers would be rounded twice, and differ from those in the log"
#endif

#define MOST_TENS 22  /* powers of 10 that doubles hold exactly */
#define MOST_FIVES 27 /* powers of 5 below 2^64 */
#define MOST_DIGITS 19 /* below 2^64 in any case */
static double tens[MOST_TENS + 1];
static uint64_t fives[MOST_FIVES + 1];

typedef struct {
    const char *at; /* the text ends with a zero, which fits nowhere */
    double *numbers;
    Py_ssize_t count, room;
} Reader;

static inline int is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static inline int is_digit(char c) { return c >= '0' && c <= '9'; }

static inline void skip_blanks(Reader *r) {
    while ((unsigned char)*r->at <= ' ' && is_blank(*r->at)) r->at++;
}

/* Whether a sign follows, which is then passed, with the blanks around it. */
static inline int passes(Reader *r, char sign) {
    skip_blanks(r);
    if (*r->at != sign) return 0;
    r->at++;
    skip_blanks(r);
    return 1;
}

/* Whether a name and its colon follow, which are then passed. */
static int passes_name(Reader *r, const char *quoted) {
    size_t length = strlen(quoted);
    if (strncmp(r->at, quoted, length)) return 0;
    r->at += length;
    return passes(r, ':');
}

/* A text of at least one character, without escapes. */
static PyObject *read_text(Reader *r) {
    if (*r->at != '"') return NULL;
    const char *start = ++r->at;
    while ((unsigned char)*r->at >= ' ' && *r->at != '"' && *r->at != '\\') r->at++;
    if (*r->at != '"' || r->at == start) return NULL;
    return PyUnicode_DecodeUTF8(start, r->at++ - start, "strict");
}

/* digits / 10^scale as the nearest double, for any digits but 0: by integers, so nothing is lost. */
static int divide(uint64_t digits, int scale, double *out) {
#ifdef __SIZEOF_INT128__
    int up = __builtin_clzll(digits), down = __builtin_clzll(fives[scale]);
    unsigned __int128 dividend = (unsigned __int128)(digits << up) << 63;
    uint64_t divisor = fives[scale] << down, quotient = (uint64_t)(dividend / divisor);
    quotient |= (unsigned __int128)quotient * divisor != dividend; /* from 2^62 on: its last bit tells that there is more */
    *out = ldexp((double)quotient, down - up - 63 - scale);
    return 1;
#else
    return 0;
#endif
}

/* digits / 10^scale as the nearest double; 0 where that would take more. */
static int scaled(uint64_t digits, int scale, double *out) {
    int exact = digits <= 1ULL << 53;
    if (exact && scale >= 0 && scale <= MOST_TENS) *out = (double)digits / tens[scale];
    else if (exact && scale < 0 && scale >= -MOST_TENS) *out = (double)digits * tens[-scale];
    else if (digits && scale >= 0 && scale <= MOST_FIVES) return divide(digits, scale, out);
    else return 0;
    return 1;
}

static int read_number(Reader *r, double *out) {
    const char *p = r->at;
    int negative = *p == '-', scale = 0, places = 0;
    uint64_t digits = 0;
    const char *first = p += negative;
    for (; is_digit(*p); p++) digits = digits * 10 + (uint64_t)(*p - '0');
    if (p == first || (*first == '0' && p - first > 1)) return 0;
    Py_ssize_t length = p - first;
    if (*p == '.') {
        const char *point = p++;
        for (; is_digit(*p); p++) digits = digits * 10 + (uint64_t)(*p - '0');
        if (p == point + 1 || p - point > MOST_DIGITS) return 0;
        scale = (int)(p - point - 1);
        length += scale;
    }
    if (length > MOST_DIGITS || (negative && !digits)) return 0; /* too many; or minus 0, which may be an integer */
    if (*p == 'e' || *p == 'E') {
        int smaller = *++p == '-', exponent = 0;
        p += *p == '-' || *p == '+';
        for (; is_digit(*p) && places < 3; p++, places++) exponent = exponent * 10 + (*p - '0');
        if (!places) return 0;
        scale += smaller ? exponent : -exponent;
    }
    if (is_digit(*p) || !scaled(digits, scale, out)) return 0;
    if (negative) *out = -*out;
    r->at = p;
    return 1;
}

/* Room for more numbers, NULL if there is none. */
static double *reserve(Reader *r, Py_ssize_t more) {
    if (r->count + more > r->room) {
        Py_ssize_t room = 2 * (r->count + more);
        double *larger = PyMem_Realloc(r->numbers, (size_t)room * sizeof(double));
        if (!larger) return (double *)PyErr_NoMemory();
        r->numbers = larger, r->room = room;
    }
    return r->numbers + r->count;
}

static int read_numbers(Reader *r, Py_ssize_t dim) {
    double *out = reserve(r, dim);
    Py_ssize_t j = 0;
    if (!out || !passes(r, '[')) return 0;
    do {
        if (j == dim || !read_number(r, out + j++)) return 0;
    } while (passes(r, ','));
    r->count += dim;
    return j == dim && passes(r, ']');
}

/* The id of an arm; its numbers are added to the others. */
static PyObject *read_arm(Reader *r, Py_ssize_t dim) {
    PyObject *id = NULL;
    int has_numbers = 0, fine = passes(r, '{');
    while (fine) {
        if (!id && passes_name(r, "\"id\"")) fine = (id = read_text(r)) != NULL;
        else if (!has_numbers && passes_name(r, "\"features\"")) fine = has_numbers = read_numbers(r, dim);
        else fine = 0;
        if (!passes(r, ',')) break;
    }
    if (fine && has_numbers && id && passes(r, '}')) return id;
    Py_XDECREF(id);
    return NULL;
}

/* The ids of arms, all different. */
static PyObject *read_arms(Reader *r, Py_ssize_t dim) {
    PyObject *ids = PyList_New(0), *different = NULL;
    int fine = ids && passes(r, '[');
    while (fine) {
        PyObject *id = read_arm(r, dim);
        fine = id && !PyList_Append(ids, id);
        Py_XDECREF(id);
        if (!fine || !passes(r, ',')) break;
    }
    fine = fine && passes(r, ']') && (different = PySet_New(ids)) && PySet_Size(different) == PyList_Size(ids);
    Py_XDECREF(different);
    if (fine) return ids;
    Py_XDECREF(ids);
    return NULL;
}

/* (task, ids of arms, where its text begins, where it ends) */
static PyObject *read_request(Reader *r, const char *text, Py_ssize_t dim) {
    PyObject *task = NULL, *ids = NULL, *made = NULL;
    const char *start = r->at;
    int fine = passes(r, '{');
    while (fine) {
        if (!task && passes_name(r, "\"task\"")) fine = (task = read_text(r)) != NULL;
        else if (!ids && passes_name(r, "\"arms\"")) fine = (ids = read_arms(r, dim)) != NULL;
        else fine = 0;
        if (!passes(r, ',')) break;
    }
    if (fine && task && ids && *r->at == '}')
        made = Py_BuildValue("OOnn", task, ids, (Py_ssize_t)(start - text), (Py_ssize_t)(++r->at - text));
    Py_XDECREF(task), Py_XDECREF(ids);
    return made;
}

static int add_request(Reader *r, const char *text, Py_ssize_t dim, PyObject *found) {
    PyObject *one = read_request(r, text, dim);
    int fine = one && !PyList_Append(found, one);
    Py_XDECREF(one);
    return fine;
}

static int read_batch(Reader *r, const char *text, Py_ssize_t dim, PyObject *found) {
    if (!passes(r, '{') || !passes_name(r, "\"decisions\"") || !passes(r, '[')) return 0;
    do {
        if (!add_request(r, text, dim, found)) return 0;
    } while (passes(r, ','));
    return passes(r, ']') && passes(r, '}');
}

static PyObject *py_read_vectors(PyObject *self, PyObject *args) {
    PyObject *body, *found, *numbers = NULL;
    Py_ssize_t dim, length;
    int many;
    char *text;
    if (!PyArg_ParseTuple(args, "Snp", &body, &dim, &many) || PyBytes_AsStringAndSize(body, &text, &length))
        return NULL;
    if (dim < 1 || dim > length) Py_RETURN_NONE; /* a number has at least one character */
    if (!(found = PyList_New(0))) return NULL;
    Reader r = {text, NULL, 0, 0};
    skip_blanks(&r);
    int fine = many ? read_batch(&r, text, dim, found) : add_request(&r, text, dim, found);
    skip_blanks(&r);
    if (fine && r.at == text + length)
        numbers = PyBytes_FromStringAndSize((const char *)r.numbers, r.count * (Py_ssize_t)sizeof(double));
    PyMem_Free(r.numbers);
    if (numbers) return Py_BuildValue("NN", found, numbers);
    Py_DECREF(found);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"read_vectors", py_read_vectors, METH_VARARGS, "Requests, and the numbers of all their arms; or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "cobandits.compiled._requests", "Requests from JSON to numbers.", -1, methods,
};

PyMODINIT_FUNC PyInit__requests(void) {
    tens[0] = 1, fives[0] = 1;
    for (int k = 1; k <= MOST_TENS; k++) tens[k] = tens[k - 1] * 10;
    for (int k = 1; k <= MOST_FIVES; k++) fives[k] = fives[k - 1] * 5;
    return PyModule_Create(&module);
}
