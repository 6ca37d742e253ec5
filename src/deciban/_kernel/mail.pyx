# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Mail: header fields, and the text that a reader of HTML sees. What is rare is left to functions of Python."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcpy

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t, uint32_t)
    void* PyUnicode_DATA(object)
    bint PyUnicode_IS_ASCII(object)
    uint32_t* PyUnicode_AsUCS4Copy(object) except NULL
    object PyUnicode_FromKindAndData(int, const void*, Py_ssize_t)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    bint Py_UNICODE_ISSPACE(uint32_t)


# ---------------------------------------------------------------------- header fields

cdef bint is_one_line(const unsigned char* text, Py_ssize_t size) noexcept nogil:
    """Whether it is of printable ASCII and single blanks, without what may begin an encoded word. Most values are: all
    signs are looked at, with nothing else in the loop, so that the compiler takes sixteen at a time."""
    cdef unsigned char odd = 0, c, after
    cdef Py_ssize_t i
    for i in range(size - 1):
        c, after = text[i], text[i + 1]
        odd |= (c < 32) | (c > 126) | ((c == 32) & (after == 32)) | ((c == 61) & (after == 63))
    return not odd and 32 < text[size - 1] < 127


def header_fields(bytes raw not None, Py_ssize_t at, Py_ssize_t most, decoded):
    """The header fields from `at` on, (name, value), and where the first line begins that is none, or is read beyond
    `most` bytes. Values are on one line; those that are not plain ASCII are given to `decoded` as they are."""
    cdef const unsigned char* text = <const unsigned char*> PyBytes_AS_STRING(raw)
    cdef const void* found
    cdef Py_ssize_t size = min(PyBytes_GET_SIZE(raw), most), begin, end, line, start, stop, i, n
    cdef unsigned char c, before
    cdef bint plain, blank
    cdef char* out
    cdef list fields = []
    if at >= size:
        return fields, at
    out = <char*> PyMem_Malloc(size - at + 1)
    if out == NULL:
        raise MemoryError()
    try:
        while at < size:
            end = at
            while end < size and 32 < text[end] < 127 and text[end] != c":":
                end += 1
            begin = end
            while begin < size and (text[begin] == c" " or text[begin] == c"\t"):
                begin += 1
            if end == at or begin == size or text[begin] != c":":
                break
            name = PyUnicode_DecodeASCII(<const char*> text + at, end - at, NULL)
            begin += 1
            line = begin
            plain, n = True, 0
            while True:  # lines that begin with a blank continue the one before
                start = line
                found = memchr(text + line, c"\n", size - line)
                if found == NULL:
                    line = end = size
                else:
                    end = <const unsigned char*> found - text
                    line = end + 1
                if plain:
                    stop = end
                    while start < stop and (text[start] == c" " or text[start] == c"\t"):
                        start += 1
                    while start < stop and (text[stop - 1] == c" " or text[stop - 1] == c"\t"):
                        stop -= 1
                    if start < stop:
                        plain = is_one_line(text + start, stop - start)
                        if n:
                            out[n] = c" "
                            n += 1
                        memcpy(out + n, text + start, stop - start)
                        n += stop - start
                if line == size or (text[line] != c" " and text[line] != c"\t"):
                    break
            if line == size and size == most:  # there may be more of it
                break
            if not plain:
                plain, blank, before, n = True, False, 0, 0
                for i in range(begin, end):
                    c = text[i]
                    plain = plain and c < 128 and (c != c"?" or before != c"=")
                    before = c
                    if 9 <= c <= 13 or 28 <= c <= 32:
                        blank = n > 0
                    elif c:  # zeros are invisible
                        if blank:
                            out[n] = c" "
                            n += 1
                            blank = False
                        out[n] = c
                        n += 1
            fields.append((name, PyUnicode_DecodeASCII(out, n, NULL) if plain else decoded(raw[begin:end])))
            at = line
        return fields, at
    finally:
        PyMem_Free(out)


cdef bint begins_with(object name, const char* prefix, Py_ssize_t size):
    """Whether a name begins with a prefix of small letters and signs, in any case."""
    cdef str text
    cdef uint32_t c
    cdef Py_ssize_t i
    if not isinstance(name, str) or PyUnicode_GET_LENGTH(name) < size:
        return False
    text = name
    for i in range(size):
        c = <Py_UCS4> text[i]
        if c != <uint32_t> prefix[i] and not (is_letter(prefix[i]) and c | 32 == <uint32_t> prefix[i]):
            return False
    return True


def content_fields(fields, Py_ssize_t most):
    """Of header fields whose names begin with "content-", the first `most` letters, by name in small letters; the first one
    of each name."""
    cdef dict out = {}
    for name, value in fields:
        if begins_with(name, "content-", 8):
            out.setdefault(name.lower(), value[:most])
    return out


def kept_fields(tuple fields not None, wanted, is_own):
    """Those of the wanted names, or all if that is None, without those that `is_own` is true for: their names begin with
    "x-deciban"."""
    cdef list out = None
    cdef Py_ssize_t i
    cdef bint kept
    for i in range(len(fields)):
        name = fields[i][0]
        kept = not (begins_with(name, "x-deciban", 9) and is_own(name)) and (wanted is None or name.lower() in wanted)
        if not kept and out is None:
            out = list(fields[:i])
        elif kept and out is not None:
            out.append(fields[i])
    return fields if out is None else tuple(out)


cdef bint is_plain_name(str name):
    """Whether it consists of letters, digits and hyphens of ASCII, of which the first is a letter."""
    cdef const unsigned char* text = <const unsigned char*> PyUnicode_DATA(name)
    cdef Py_ssize_t i, size = PyUnicode_GET_LENGTH(name)
    if not PyUnicode_IS_ASCII(name) or not size or not is_letter(text[0]):
        return False
    for i in range(size):
        if not is_letter(text[i]) and not 48 <= text[i] <= 57 and text[i] != c"-":
            return False
    return True


def field_lines(fields, plain_name):
    """The lines "Name: value" of header fields; names that are not of letters, digits and hyphens are given to
    `plain_name`."""
    cdef Py_ssize_t size = 0, n
    cdef bint ascii = True
    cdef list parts = []
    cdef char* out
    cdef str part
    for name, value in fields:
        name, value = f"{name}", f"{value}"  # strings as they are
        part = name if is_plain_name(name) else plain_name(name)
        parts += [part, ": ", value, "\n"]
        ascii = ascii and PyUnicode_IS_ASCII(part) and PyUnicode_IS_ASCII(value)
        size += PyUnicode_GET_LENGTH(part) + PyUnicode_GET_LENGTH(value) + 3
    if not ascii:
        return "".join(parts)
    lines = PyUnicode_New(size, 127)
    out = <char*> PyUnicode_DATA(lines)
    for part in parts:
        n = PyUnicode_GET_LENGTH(part)
        memcpy(out, PyUnicode_DATA(part), n)
        out += n
    return lines


# ---------------------------------------------------------------------- HTML

cdef enum:
    OTHER
    LINE
    CELL
    HIDING


cdef struct Letters:
    uint32_t* text
    Py_ssize_t size


cdef inline bint is_letter(uint32_t c) noexcept:
    return c < 128 and 97 <= (c | 32) <= 122


cdef inline bint in_word(uint32_t c) noexcept:
    """Of ASCII."""
    return is_letter(c) or 48 <= c <= 57 or c == c"_"


cdef inline Py_ssize_t find(Letters t, uint32_t wanted, Py_ssize_t at) noexcept:
    while at < t.size and t.text[at] != wanted:
        at += 1
    return at


cdef Py_ssize_t end_of_comment(Letters t, Py_ssize_t at) noexcept:
    """Where "-->" ends; 0 if it does not come."""
    while at + 2 < t.size:
        at = find(t, c">", at + 2)
        if at < t.size and t.text[at - 1] == c"-" and t.text[at - 2] == c"-":
            return at + 1
        at -= 1
    return 0


cdef Py_ssize_t end_of_tag(Letters t, Py_ssize_t at) noexcept:
    """Where a tag ends, quotes in it left out; 0 if it does not, or a quote does not."""
    while at < t.size:
        if t.text[at] == c">":
            return at + 1
        if t.text[at] == c'"' or t.text[at] == c"'":
            at = find(t, t.text[at], at + 1)
        at += 1
    return 0


cdef inline bint is_here(Letters t, Py_ssize_t at, const char* word, Py_ssize_t size) noexcept:
    """Whether a word of small letters and signs is at a place, in any case."""
    cdef Py_ssize_t i
    if at + size > t.size:
        return False
    for i in range(size):
        if t.text[at + i] != <uint32_t> word[i] and not (is_letter(word[i]) and t.text[at + i] | 32 == <uint32_t> word[i]):
            return False
    return True


cdef inline Py_ssize_t past_blanks(Letters t, Py_ssize_t at) noexcept:
    while at < t.size and Py_UNICODE_ISSPACE(t.text[at]):
        at += 1
    return at


cdef Py_ssize_t write_hosts(Letters t, uint32_t* out, Py_ssize_t n) noexcept:
    """Writes the hosts of links among attributes of ASCII, each between blanks; returns where the next goes."""
    cdef Py_ssize_t at = 0, begin, end, i, first
    while at < t.size:
        begin = at
        at += 1
        if (t.text[begin] | 32 != c"h" and t.text[begin] | 32 != c"s") or (begin and in_word(t.text[begin - 1])):
            continue
        if is_here(t, begin, "href", 4):
            begin += 4
        elif is_here(t, begin, "src", 3):
            begin += 3
        else:
            continue
        begin = past_blanks(t, begin)
        if begin >= t.size or t.text[begin] != c"=":
            continue
        begin = past_blanks(t, begin + 1)
        if begin < t.size and (t.text[begin] == c'"' or t.text[begin] == c"'"):
            begin = past_blanks(t, begin + 1)
        end = begin
        while end < t.size and is_letter(t.text[end]):
            end += 1
        if end > begin and end < t.size and t.text[end] == c":" and is_here(t, end + 1, "//", 2):
            begin = end + 3
        elif is_here(t, begin, "//", 2):
            begin += 2
        elif is_here(t, begin, "mailto:", 7):
            begin += 7
        else:
            continue
        end = begin
        while end < t.size and not (t.text[end] in (c"/", c'"', c"'", c">", c"?", c"#") or Py_UNICODE_ISSPACE(t.text[end])):
            end += 1
        if end == begin:
            continue
        at = end
        first = begin  # of what follows the last @, up to a colon
        for i in range(begin, end):
            if t.text[i] == c"@":
                first = i + 1
        out[n] = c" "
        n += 1
        while first < end and t.text[first] != c":":
            out[n] = t.text[first]
            n += 1
            first += 1
        out[n] = c" "
        n += 1
    return n


cdef class Tags:
    """How tags are read: those that begin a line, those that separate cells, and those whose content is not shown until
    what is found by their expression. `hosts` lists the hosts of attributes."""
    cdef dict kinds
    cdef dict hiding
    cdef object hosts
    cdef uint64_t packed[128]
    cdef int packed_kinds[128]
    cdef int count

    def __init__(self, lines, cells, dict hiding not None, hosts):
        self.kinds = dict.fromkeys(hiding, HIDING) | dict.fromkeys(cells, CELL) | dict.fromkeys(lines, LINE)
        self.hiding, self.hosts, self.count = hiding, hosts, 0
        for name, kind in self.kinds.items():
            if len(name) <= 8 and self.count < 128:
                self.packed[self.count] = int.from_bytes(name.encode("ascii"), "big")
                self.packed_kinds[self.count] = kind
                self.count += 1

    cdef int kind(self, const uint32_t* name, Py_ssize_t size) except -1:
        cdef uint64_t packed = 0
        cdef Py_ssize_t i
        cdef bint brief = size <= 8
        for i in range(size if brief else 0):
            brief = brief and name[i] < 128
            packed = packed << 8 | (name[i] | 32 if is_letter(name[i]) else name[i] & 127)
        if not brief:
            return self.kinds.get(self.spelled(name, size), OTHER) if size < 32 else OTHER
        for i in range(self.count):
            if self.packed[i] == packed:
                return self.packed_kinds[i]
        return OTHER

    cdef str spelled(self, const uint32_t* name, Py_ssize_t size):
        return PyUnicode_FromKindAndData(4, name, size).lower()

    def shown(self, str markup not None):
        """The markup without tags, comments and what is not shown; tags that begin a line are line ends, those of cells
        blanks, and links leave their hosts."""
        cdef Letters t, given
        cdef uint32_t* out = NULL
        cdef Py_ssize_t at = 0, n = 0, i, start, name, after, end
        cdef bint quotes = True, comments = True, comment, closing, has_equal, simple
        cdef int kind
        cdef Py_UCS4 letter
        t.size = PyUnicode_GET_LENGTH(markup)
        t.text = PyUnicode_AsUCS4Copy(markup)
        try:
            for i in range(t.size):
                if t.text[i] == c"\n":
                    t.text[i] = c" "
            # A tag is at least as long as what is written for it: a host is two letters longer than itself.
            out = <uint32_t*> PyMem_Malloc((t.size + 1) * sizeof(uint32_t))
            if out == NULL:
                raise MemoryError()
            while True:
                start = at
                while at < t.size:
                    if t.text[at] == c"<" and at + 1 < t.size:
                        i = at + 1
                        if t.text[i] == c"!" or t.text[i] == c"?":
                            break
                        i += t.text[i] == c"/"
                        if i < t.size and is_letter(t.text[i]):
                            break
                    out[n] = t.text[at]
                    n += 1
                    at += 1
                if at >= t.size:
                    break
                start, comment, closing, name = at, False, False, 0
                if t.text[at + 1] == c"!" or t.text[at + 1] == c"?":
                    comment = is_here(t, at + 1, "!--", 3)
                    after = at + (4 if comment else 2)
                else:
                    closing = t.text[at + 1] == c"/"
                    name = after = at + 1 + closing
                    while after < t.size and not (t.text[after] == c"/" or t.text[after] == c">"
                                                  or Py_UNICODE_ISSPACE(t.text[after])):
                        after += 1
                if comment and comments:
                    end = end_of_comment(t, after - 2)
                    if end:
                        at = end
                        continue
                comments = comments and not comment  # if one never ends, neither do later ones, and it ends like a tag
                # After one tag whose quotes never close, quotes are ignored: searching the whole rest for every tag would
                # be quadratic.
                end = 0
                if quotes and name:
                    end = end_of_tag(t, after)
                    quotes = end > 0
                if not end:
                    end = find(t, c">", after) + 1
                    if end > t.size:  # cut in the middle of a tag: the rest is kept as text
                        for at in range(start, t.size):
                            out[n] = t.text[at]
                            n += 1
                        break
                at = end
                if not name:
                    continue
                kind = self.kind(t.text + name, after - name)
                if kind == LINE or kind == CELL:
                    out[n] = c"\n" if kind == LINE else c" "
                    n += 1
                if closing:
                    continue
                given.text, given.size = t.text + after, end - after
                has_equal, simple = False, True
                for i in range(given.size):
                    has_equal = has_equal or given.text[i] == c"="
                    simple = simple and given.text[i] < 128 and given.text[i] != c"&"
                if has_equal and simple:
                    n = write_hosts(given, out, n)
                elif has_equal:
                    for host in self.hosts(PyUnicode_FromKindAndData(4, given.text, given.size)):
                        i = PyUnicode_GET_LENGTH(host)
                        if n + i + 2 > at:  # never: it is from within the tag
                            raise ValueError("a host is longer than the tag that names it")
                        out[n] = c" "
                        for letter in <str> host:
                            n += 1
                            out[n] = letter
                        out[n + 1] = c" "
                        n += 2
                if kind == HIDING:
                    over = self.hiding[self.spelled(t.text + name, after - name)].search(markup, at)
                    at = over.start() if over else t.size
            return PyUnicode_FromKindAndData(4, out, n)
        finally:
            PyMem_Free(out)
            PyMem_Free(t.text)


def squeezed(str text not None):
    """The text without blank lines, runs of blanks, and blanks at the ends of lines."""
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), i, n = 0
    cdef uint32_t* out = PyUnicode_AsUCS4Copy(text)
    cdef uint32_t c, between = 0
    try:
        for i in range(size):
            c = out[i]
            if c == c"\n":
                between = c
            elif Py_UNICODE_ISSPACE(c):
                between = between or c" "
            else:
                if between and n:
                    out[n] = between
                    n += 1
                between = 0
                out[n] = c
                n += 1
        return PyUnicode_FromKindAndData(4, out, n)
    finally:
        PyMem_Free(out)
