/* Checks of the buffers that Python gives: what all of the extensions need. */
#pragma once
#include <Python.h>

/* Return a product of counts, or -1 where one is negative or it is larger than any buffer. */
static inline long product(long a, long b, long c) {
    long both, all;
    if (a < 0 || b < 0 || c < 0 || __builtin_mul_overflow(a, b, &both) || __builtin_mul_overflow(both, c, &all))
        return -1;
    return all;
}

static inline int has_length(const Py_buffer *buffer, long length, size_t itemsize, const char *name) {
    if (length >= 0 && buffer->len % itemsize == 0 && buffer->len / (long)itemsize == length) return 1;
    PyErr_Format(PyExc_ValueError, "%s holds %zd bytes, expected %ld numbers of %zu bytes", name,
                 buffer->len, length, itemsize);
    return 0;
}
