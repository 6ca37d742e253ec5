# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Mail: header fields, and the text that a reader of HTML sees. What is rare is left to functions of Python."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t, uint32_t)
    void* PyUnicode_DATA(object)
    int PyUnicode_KIND(object)
    bint PyUnicode_IS_ASCII(object)
    uint32_t* PyUnicode_AsUCS4Copy(object) except NULL
    object PyUnicode_FromKindAndData(int, const void*, Py_ssize_t)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    uint32_t PyUnicode_READ_CHAR(object, Py_ssize_t)
    Py_ssize_t PyUnicode_FindChar(object, uint32_t, Py_ssize_t, Py_ssize_t, int)
    bint Py_UNICODE_ISSPACE(uint32_t) nogil


# ---------------------------------------------------------------------- header fields

cdef inline str of_ascii(const void* text, Py_ssize_t size):
    """A string of signs that are known to be ASCII."""
    cdef str out = PyUnicode_New(size, 127)
    memcpy(PyUnicode_DATA(out), text, size)
    return out


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
    cdef str name
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
            name = of_ascii(text + at, end - at)
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
            fields.append((name, of_ascii(out, n) if plain else decoded(raw[begin:end])))
            at = line
        return fields, at
    finally:
        PyMem_Free(out)


cdef inline bint begins_with(object name, const char* prefix, Py_ssize_t size):
    """Whether a name begins with a prefix of small letters and signs, in any case."""
    cdef const unsigned char* text
    cdef Py_ssize_t i
    if not isinstance(name, str) or PyUnicode_GET_LENGTH(name) < size:
        return False
    if not PyUnicode_IS_ASCII(name):
        return name[:size].lower() == prefix[:size].decode("ascii")
    text = <const unsigned char*> PyUnicode_DATA(name)
    for i in range(size):
        if text[i] != <unsigned char> prefix[i] and not (is_letter(prefix[i]) and text[i] | 32 == <unsigned char> prefix[i]):
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


def mail_text(fields, str body not None, plain_name):
    """The lines "Name: value" of header fields, an empty line, and the body; names that are not of letters, digits and
    hyphens are given to `plain_name`."""
    cdef Py_ssize_t i, size = PyUnicode_GET_LENGTH(body) + 1
    cdef bint ascii = PyUnicode_IS_ASCII(body)
    cdef list parts = []
    cdef char* out
    cdef str part, given
    for name, value in fields:
        part, given = f"{name}", f"{value}"  # strings as they are
        if not is_plain_name(part):
            part = plain_name(part)
        parts.append(part)
        parts.append(given)
        ascii = ascii and PyUnicode_IS_ASCII(part) and PyUnicode_IS_ASCII(given)
        size += PyUnicode_GET_LENGTH(part) + PyUnicode_GET_LENGTH(given) + 3
    if not ascii:
        return "".join([f"{parts[i]}: {parts[i + 1]}\n" for i in range(0, len(parts), 2)]) + "\n" + body
    text = PyUnicode_New(size, 127)
    out = <char*> PyUnicode_DATA(text)
    for i in range(0, len(parts), 2):
        out = put(out, parts[i])
        out[0], out[1] = c":", c" "
        out = put(out + 2, parts[i + 1])
        out[0] = c"\n"
        out += 1
    out[0] = c"\n"
    put(out + 1, body)
    return text


cdef inline char* put(char* out, str text):
    """Writes a text of ASCII; returns where the next goes."""
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text)
    memcpy(out, PyUnicode_DATA(text), size)
    return out + size


# ---------------------------------------------------------------------- signs

ctypedef fused Sign:
    uint8_t  # of text that Python keeps so: ASCII and Latin-1
    uint16_t
    uint32_t


cdef bint has(const Sign* text, Py_ssize_t size, Sign wanted) noexcept nogil:
    """Whether a sign is in a text: all are looked at, so that the compiler takes many at a time."""
    cdef Py_ssize_t i
    cdef Sign found = 0
    for i in range(size):
        found |= text[i] == wanted
    return found


def has_any(str text not None, str signs not None):
    """Whether one of some signs is in a text."""
    cdef int kind = PyUnicode_KIND(text)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text)
    cdef const void* data = PyUnicode_DATA(text)
    cdef Py_UCS4 sign
    for sign in signs:
        if kind == 1:
            if sign < 256 and size and memchr(data, sign, size) != NULL:
                return True
        elif kind == 2:
            if sign < 65536 and has(<const uint16_t*> data, size, <uint16_t> sign):
                return True
        elif has(<const uint32_t*> data, size, <uint32_t> sign):
            return True
    return False


# ---------------------------------------------------------------------- HTML

cdef enum:
    SLOTS = 256

cdef enum:
    OTHER = 0
    LINE
    CELL
    HIDING


cdef inline bint is_letter(uint32_t c) noexcept nogil:
    return c < 128 and 97 <= (c | 32) <= 122


cdef inline bint in_word(uint32_t c) noexcept nogil:
    """Of ASCII."""
    return is_letter(c) or 48 <= c <= 57 or c == c"_"


cdef inline Py_ssize_t find(const Sign* text, Py_ssize_t size, uint8_t wanted, Py_ssize_t at) noexcept nogil:
    """Where a sign of ASCII comes next, or the end."""
    cdef const void* found
    if Sign is uint8_t:
        if at >= size:
            return size
        found = memchr(text + at, wanted, size - at)
        return size if found == NULL else <const uint8_t*> found - text
    else:
        while at < size and text[at] != wanted:
            at += 1
        return at


cdef Py_ssize_t end_of_comment(const Sign* text, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
    """Where "-->" ends; 0 if it does not come."""
    while at + 2 < size:
        at = find(text, size, c">", at + 2)
        if at < size and text[at - 1] == c"-" and text[at - 2] == c"-":
            return at + 1
        at -= 1
    return 0


cdef Py_ssize_t end_of_tag(const Sign* text, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
    """Where a tag ends, quotes in it left out; 0 if it does not, or a quote does not."""
    while at < size:
        if text[at] == c">":
            return at + 1
        if text[at] == c'"' or text[at] == c"'":
            at = find(text, size, <uint8_t> text[at], at + 1)
        at += 1
    return 0


cdef inline bint is_here(const Sign* text, Py_ssize_t size, Py_ssize_t at, const char* word, Py_ssize_t length) noexcept nogil:
    """Whether a word of small letters and signs is at a place, in any case."""
    cdef Py_ssize_t i
    if at + length > size:
        return False
    for i in range(length):
        if text[at + i] != <uint8_t> word[i] and not (is_letter(word[i]) and (text[at + i] | 32) == <uint8_t> word[i]):
            return False
    return True


cdef inline Py_ssize_t past_blanks(const Sign* text, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
    while at < size and Py_UNICODE_ISSPACE(text[at]):
        at += 1
    return at


cdef Py_ssize_t put_hosts(const Sign* text, Py_ssize_t size, Sign* out, Py_ssize_t n) noexcept nogil:
    """Writes the hosts of links among attributes of ASCII, each between blanks; returns where the next goes."""
    cdef Py_ssize_t at = 0, begin, end, i, first
    while at < size:
        begin = at
        at += 1
        if (text[begin] | 32 != c"h" and text[begin] | 32 != c"s") or (begin and in_word(text[begin - 1])):
            continue
        if is_here(text, size, begin, "href", 4):
            begin += 4
        elif is_here(text, size, begin, "src", 3):
            begin += 3
        else:
            continue
        begin = past_blanks(text, size, begin)
        if begin >= size or text[begin] != c"=":
            continue
        begin = past_blanks(text, size, begin + 1)
        if begin < size and (text[begin] == c'"' or text[begin] == c"'"):
            begin = past_blanks(text, size, begin + 1)
        end = begin
        while end < size and is_letter(text[end]):
            end += 1
        if end > begin and end < size and text[end] == c":" and is_here(text, size, end + 1, "//", 2):
            begin = end + 3
        elif is_here(text, size, begin, "//", 2):
            begin += 2
        elif is_here(text, size, begin, "mailto:", 7):
            begin += 7
        else:
            continue
        end = begin
        while end < size and not (text[end] in (c"/", c'"', c"'", c">", c"?", c"#") or Py_UNICODE_ISSPACE(text[end])):
            end += 1
        if end == begin:
            continue
        at = end
        first = begin  # of what follows the last @, up to a colon
        for i in range(begin, end):
            if text[i] == c"@":
                first = i + 1
        out[n] = c" "
        n += 1
        while first < end and text[first] != c":":
            out[n] = text[first]
            n += 1
            first += 1
        out[n] = c" "
        n += 1
    return n


cdef inline Py_ssize_t put_line(const Sign* text, Py_ssize_t at, Py_ssize_t end, Sign* out, Py_ssize_t n) noexcept nogil:
    """Writes a piece of text, its line ends as blanks; returns where the next goes."""
    cdef Py_ssize_t i
    for i in range(end - at):
        out[n + i] = c" " if text[at + i] == c"\n" else text[at + i]
    return n + end - at


cdef class Tags:
    """How tags are read: those that begin a line, those that separate cells, and those whose content is not shown until
    what is found by their expression. `hosts` lists the hosts of attributes."""
    cdef dict kinds
    cdef dict hiding
    cdef object hosts
    cdef uint64_t packed[SLOTS]  # short names as numbers, each in its slot or, if that is taken, in the next free one
    cdef int packed_kinds[SLOTS]

    def __init__(self, lines, cells, dict hiding not None, hosts):
        cdef uint64_t packed
        cdef Py_ssize_t slot
        self.kinds = dict.fromkeys(hiding, HIDING) | dict.fromkeys(cells, CELL) | dict.fromkeys(lines, LINE)
        self.hiding, self.hosts = hiding, hosts
        if 2 * len(self.kinds) > SLOTS:
            raise ValueError(f"there are more than {SLOTS // 2} kinds of tags")
        for name, kind in self.kinds.items():
            if len(name) <= 8:
                packed = int.from_bytes(name.encode("ascii"), "big")
                slot = self.slot(packed)
                self.packed[slot], self.packed_kinds[slot] = packed, kind

    cdef inline Py_ssize_t slot(self, uint64_t packed) noexcept:
        """Where a name is, or would be."""
        cdef Py_ssize_t slot = packed * <uint64_t> 0x9E3779B97F4A7C15 >> 56
        while self.packed[slot] != 0 and self.packed[slot] != packed:
            slot = (slot + 1) % SLOTS
        return slot

    cdef int kind(self, const Sign* name, Py_ssize_t size) except -1:
        cdef uint64_t packed = 0
        cdef Py_ssize_t i
        cdef bint brief = size <= 8
        for i in range(size if brief else 0):
            brief = brief and name[i] < 128
            packed = packed << 8 | (name[i] | 32 if is_letter(name[i]) else name[i] & 127)
        if not brief:
            return self.kinds.get(spelled(name, size), OTHER) if size < 32 else OTHER
        return self.packed_kinds[self.slot(packed)]  # 0 where there is none

    def shown(self, str markup not None):
        """The markup without tags, comments and what is not shown; tags that begin a line are line ends, those of cells
        blanks, and links leave their hosts."""
        cdef uint32_t* copy
        if PyUnicode_KIND(markup) == 1:
            text = self.shown_of(<const uint8_t*> PyUnicode_DATA(markup), markup)
            if text is not None:
                return text
        copy = PyUnicode_AsUCS4Copy(markup)
        try:
            return self.shown_of(<const uint32_t*> copy, markup)
        finally:
            PyMem_Free(copy)

    cdef str shown_of(self, const Sign* text, str markup):
        """None if a host has signs that do not fit: a reference may stand for any."""
        cdef Py_ssize_t size = PyUnicode_GET_LENGTH(markup), at = 0, n = 0, i, start, name, after, end
        cdef bint quotes = True, comments = True, comment, closing
        cdef unsigned char has_equal, odd
        cdef int kind
        cdef Py_UCS4 letter
        # A tag is at least as long as what is written for it: a host is two letters longer than itself.
        cdef Sign* out = <Sign*> PyMem_Malloc((size + 1) * sizeof(Sign))
        if out == NULL:
            raise MemoryError()
        try:
            while True:
                start = at
                while True:
                    at = find(text, size, c"<", at)
                    if at + 1 >= size:
                        at = size
                        break
                    i = at + 1
                    if text[i] == c"!" or text[i] == c"?":
                        break
                    i += text[i] == c"/"
                    if i < size and is_letter(text[i]):
                        break
                    at += 1
                n = put_line(text, start, at, out, n)
                if at >= size:
                    break
                start, comment, closing, name = at, False, False, 0
                if text[at + 1] == c"!" or text[at + 1] == c"?":
                    comment = is_here(text, size, at + 1, "!--", 3)
                    after = at + (4 if comment else 2)
                else:
                    closing = text[at + 1] == c"/"
                    name = after = at + 1 + closing
                    while after < size and not (text[after] == c"/" or text[after] == c">"
                                                or Py_UNICODE_ISSPACE(text[after])):
                        after += 1
                if comment and comments:
                    end = end_of_comment(text, size, after - 2)
                    if end:
                        at = end
                        continue
                comments = comments and not comment  # if one never ends, neither do later ones, and it ends like a tag
                # After one tag whose quotes never close, quotes are ignored: searching the whole rest for every tag would
                # be quadratic.
                end = 0
                if quotes and name:
                    end = end_of_tag(text, size, after)
                    quotes = end > 0
                if not end:
                    end = find(text, size, c">", after) + 1
                    if end > size:  # cut in the middle of a tag: the rest is kept as text
                        n = put_line(text, start, size, out, n)
                        break
                at = end
                if not name:
                    continue
                kind = self.kind(text + name, after - name)
                if kind == LINE or kind == CELL:
                    out[n] = c"\n" if kind == LINE else c" "
                    n += 1
                if closing:
                    continue
                has_equal = odd = False
                for i in range(after, end):
                    has_equal |= text[i] == c"="
                    odd |= (text[i] > 127) | (text[i] == c"&")
                if has_equal and not odd:
                    n = put_hosts(text + after, end - after, out, n)
                elif has_equal:
                    for host in self.hosts(of_signs(text + after, end - after)):
                        i = PyUnicode_GET_LENGTH(host)
                        if n + i + 2 > at:  # never: it is from within the tag
                            raise ValueError("a host is longer than the tag that names it")
                        out[n] = c" "
                        for letter in <str> host:
                            n += 1
                            out[n] = <Sign> letter
                            if out[n] != letter:
                                return None
                        out[n + 1] = c" "
                        n += 2
                if kind == HIDING:
                    over = self.hiding[spelled(text + name, after - name)].search(markup, at)
                    at = over.start() if over else size
            return of_signs(out, n)
        finally:
            PyMem_Free(out)


cdef inline str of_signs(const Sign* text, Py_ssize_t size):
    return PyUnicode_FromKindAndData(sizeof(Sign), text, size)


cdef str spelled(const Sign* name, Py_ssize_t size):
    return of_signs(name, size).lower()


cdef inline bint ends_name(uint32_t c) noexcept nogil:
    return c in (9, 10, 12, 32, c"<", c"&", c"#", c";")


cdef inline bint is_digit(uint32_t c, bint hexadecimal) noexcept nogil:
    return 48 <= c <= 57 or (hexadecimal and 97 <= (c | 32) <= 102)


def unescaped(str text not None, character):
    """The text with each character reference, as html.unescape finds them, replaced by what `character` makes of it;
    None if one is a number of eight digits or more."""
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(text), at, end, start = 0, begin
    cdef bint hexadecimal
    cdef list pieces = None
    at = PyUnicode_FindChar(text, c"&", 0, size, 1)
    while at >= 0:
        begin = end = at + 1
        if end < size and PyUnicode_READ_CHAR(text, end) == c"#":
            hexadecimal = end + 1 < size and (PyUnicode_READ_CHAR(text, end + 1) | 32) == c"x"
            begin = end = at + 2 + hexadecimal
            while end < size and is_digit(PyUnicode_READ_CHAR(text, end), hexadecimal):
                end += 1
            if end - begin >= 8 and not hexadecimal:
                return None
        else:
            while end < size and end < begin + 32 and not ends_name(PyUnicode_READ_CHAR(text, end)):
                end += 1
        if end > begin:
            end += end < size and PyUnicode_READ_CHAR(text, end) == c";"
            if pieces is None:
                pieces = []
            pieces.append(text[start:at])
            pieces.append(character(text[at:end]))
            start = end
        at = PyUnicode_FindChar(text, c"&", end, size, 1)
    if pieces is None:
        return text
    pieces.append(text[start:])
    return "".join(pieces)


def squeezed(str text not None):
    """The text without blank lines, runs of blanks, and blanks at the ends of lines."""
    cdef uint32_t* copy
    if PyUnicode_KIND(text) == 1:
        return squeezed_of(<const uint8_t*> PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
    copy = PyUnicode_AsUCS4Copy(text)
    try:
        return squeezed_of(<const uint32_t*> copy, PyUnicode_GET_LENGTH(text))
    finally:
        PyMem_Free(copy)


cdef str squeezed_of(const Sign* text, Py_ssize_t size):
    cdef Py_ssize_t i, n = 1
    cdef Sign c, last = c" "  # what was written; at first a blank that is not returned
    cdef bint blank, after_blank = True, again
    cdef Sign* out = <Sign*> PyMem_Malloc((size + 1) * sizeof(Sign))
    if out == NULL:
        raise MemoryError()
    try:
        for i in range(size):  # without branches: where words end cannot be guessed
            c = text[i]
            blank = Py_UNICODE_ISSPACE(c) != 0
            c = c" " if blank & (c != c"\n") else c
            again = blank & after_blank  # of a run, one is kept: a line end, if it has one, which is the lesser sign
            last = last if again & (last < c) else c
            n += not again
            out[n - 1] = last
            after_blank = blank
        return of_signs(out + 1, max(n - 1 - after_blank, 0))
    finally:
        PyMem_Free(out)
