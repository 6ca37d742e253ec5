# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where records of CSV end: from quote to quote, since few bytes outside matter and none inside."""
from libc.stdint cimport uint8_t
from libc.string cimport memchr


cdef inline Py_ssize_t next_quote(const uint8_t* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """The position of the next quote; `size` if there is none."""
    cdef const uint8_t* found = <const uint8_t*> memchr(text + at, b'"', size - at)
    return size if found == NULL else found - text


def last_end(const uint8_t[::1] data, uint8_t delimiter, uint8_t end):
    """The end of the last record, 0 if there is none, and the position of a quote that is not closed, −1 if all are.

    A record ends with the byte `end`, except inside quotes. Quotes open at the start of a field, and are doubled inside.
    """
    cdef Py_ssize_t size = data.shape[0], outside = 0, at = 0, back, last = 0, opened = -1
    cdef const uint8_t* text
    if size == 0:
        return 0, -1
    text = &data[0]
    with nogil:
        while True:
            at = next_quote(text, at, size)
            if 0 < at < size and text[at - 1] != delimiter and text[at - 1] != b"\n" and text[at - 1] != b"\r":
                at += 1  # inside a field
                continue
            back = at
            while back > outside and text[back - 1] != end:
                back -= 1
            if back > outside:
                last = back
            if at == size:
                break
            opened = at
            at = next_quote(text, at + 1, size)
            while at + 1 < size and text[at + 1] == b'"':
                at = next_quote(text, at + 2, size)
            if at == size:
                break
            opened = -1
            at += 1
            outside = at
    return last, opened
