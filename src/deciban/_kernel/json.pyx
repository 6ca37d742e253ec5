# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""JSON before it is parsed: how deep it is nested, and how many different keys it has. Both scan bytes once."""
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp


cdef inline Py_ssize_t string_end(const uint8_t* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """The position of the quote that ends a string, given that of its first byte; `size` if it is not closed."""
    while at < size and text[at] != b'"':
        at += 2 if text[at] == b"\\" else 1
    return at if at < size else size


def nested_at(const uint8_t[::1] data):
    """The position of the first object or array inside another one; −1 if there is none."""
    cdef Py_ssize_t at = 0, size = data.shape[0], depth = 0, out = -1
    cdef const uint8_t* text
    if size == 0:
        return -1
    text = &data[0]
    with nogil:
        while at < size:
            if text[at] == b'"':
                at = string_end(text, at + 1, size)
            elif text[at] == b"{" or text[at] == b"[":
                if depth == 1:
                    out = at
                    break
                depth = 1
            elif text[at] == b"}" or text[at] == b"]":
                depth = 0
            at += 1
    return out


def count_keys(const uint8_t[::1] data, Py_ssize_t limit):
    """How many distinct keys objects have (at least `limit` if there are more), and how many keys in all.

    Keys that the previous object has at the same place, as most do, are not looked up again.
    """
    cdef Py_ssize_t at = 0, end, size = data.shape[0], place = 0, before = 0, room = 0, total = 0, colon
    cdef Py_ssize_t* spans = NULL  # start and end of the previous object's keys, overwritten by those of this one
    cdef Py_ssize_t* moved
    cdef const uint8_t* text
    cdef bytes key
    cdef set keys = set()
    if size == 0:
        return 0, 0
    text = &data[0]
    try:
        while at < size and len(keys) < limit:
            if text[at] == b"{":
                before, place = place, 0
            elif text[at] == b'"':
                at += 1
                end = string_end(text, at, size)
                colon = end + 1
                while colon < size and (text[colon] == b" " or b"\t" <= text[colon] <= b"\r"):
                    colon += 1
                if colon < size and text[colon] == b":":
                    total += 1
                    if place == room:
                        room = 2 * room + 64
                        moved = <Py_ssize_t*> realloc(spans, 2 * room * sizeof(Py_ssize_t))
                        if moved == NULL:
                            raise MemoryError
                        spans = moved
                    if place >= before or spans[2 * place + 1] - spans[2 * place] != end - at or memcmp(
                            text + spans[2 * place], text + at, end - at) != 0:
                        key = text[at:end]
                        keys.add(key)
                    spans[2 * place], spans[2 * place + 1] = at, end
                    place += 1
                at = end
            at += 1
    finally:
        free(spans)
    return len(keys), total
