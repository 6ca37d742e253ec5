# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Text to numbers: tokens, sets of distinct strings, pairs of numbers.

A *stream* is the items of some documents, one document after another: `ids` (int32), where −1 is an item that a fixed
set does not contain, and `indptr` (int64) with one entry more than there are documents. All loops run without the GIL,
in one thread; callers run them in threads. Several threads may read a set at once; while one changes it, no other may
use it.
"""
import os
from threading import Lock
from time import sleep

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #if defined(__GLIBC__)
    #include <malloc.h>
    static void give_back(void) { malloc_trim(0); }
    #else
    static void give_back(void) {}
    #endif
    """
    void give_back() noexcept nogil
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)

cdef extern from "text_sets.h":
    enum:
        NO_MEMORY
        TOO_MANY
        BAD_NUMBER
        REPEATED
    uint64_t secret[4]
    ctypedef struct Slot:
        pass
    ctypedef struct Table:
        int64_t count
    ctypedef struct Word:
        int64_t start
    ctypedef struct WordSet:
        uint8_t* bytes
        Word* words
        int64_t bytes_room, words_room, size
        Table table
    void words_free(WordSet*) noexcept nogil
    const uint8_t* word_text(const WordSet*, int64_t) noexcept nogil
    int64_t word_size(const WordSet*, int64_t) noexcept nogil
    int64_t words_bytes(const WordSet*) noexcept nogil
    bint words_reserve(WordSet*, int64_t) noexcept nogil
    int32_t words_number(WordSet*, const uint8_t*, int64_t, bint) noexcept nogil
    int words_merge(WordSet*, const WordSet*, int32_t*) noexcept nogil
    void words_locate(const WordSet*, const WordSet*, int32_t*) noexcept nogil
    int words_take(WordSet*, const WordSet*, const int32_t*, int64_t) noexcept nogil
    int words_copy(WordSet*, const WordSet*) noexcept nogil
    int words_order(const WordSet*, int32_t*) noexcept nogil
    uint32_t murmur(const uint8_t*, int64_t) noexcept nogil
    ctypedef struct PairSet:
        uint64_t* pairs
        int64_t size
    void pairs_free(PairSet*) noexcept nogil
    bint pairs_expect(PairSet*, int64_t) noexcept nogil
    int pairs_numbers(PairSet*, const int32_t*, const int32_t*, int64_t, bint, int32_t*) noexcept nogil
    int pairs_merge(PairSet*, const PairSet*, const int32_t*, int64_t, const int32_t*, int64_t, int32_t*) noexcept nogil
    int pairs_take(PairSet*, const PairSet*, const int32_t*, int64_t) noexcept nogil
    int pairs_copy(PairSet*, const PairSet*) noexcept nogil

cdef extern from "text_characters.h":
    enum:
        IS_REPLACED
        IS_AWKWARD
    uint16_t normal_forms[0x10000]
    uint8_t normal_classes[0x10000]
    void fill_characters() noexcept nogil

cdef extern from "text_loops.h":
    enum:
        RULE_WORDS
        RULE_PUNCTUATION
        RULE_SPACES
        RULE_SCRIPTS
        RULE_SCRIPT_WORDS
    enum:
        STRETCH
    ctypedef struct Text:
        const void* data
        int64_t size
        uint8_t kind, ascii, normal
    ctypedef struct Page:
        uint8_t* text
        int64_t size
    ctypedef struct Reading:
        bint lower, scripts
    ctypedef struct Stream:
        int32_t* ids
        int32_t* fields
        int64_t size
    ctypedef struct Rule:
        int rule
        int64_t shortest, longest
    ctypedef struct Lengths:
        int64_t low, high, syllables_low, syllables_high
    ctypedef struct Counted:
        int64_t* counts
        int32_t* indices
        int64_t size
    enum:
        IS_NORMAL
        IS_NORMAL_ONE_BY_ONE
        IS_NORMAL_IN_CONTEXT
    void fill_steps() noexcept nogil
    int normality(const Text*) noexcept nogil
    void places_of_characters(const Text*, bint, int64_t*) noexcept nogil
    bint valid_utf8(const uint8_t*, int64_t, bint) noexcept nogil
    int64_t text_bytes(const Text*) noexcept nogil
    Text text_of_string(object)
    int string_ready(object) except -1
    Text text_of_bytes(const void*, int64_t) noexcept nogil
    bint text_is_valid(Text*) noexcept nogil
    bint lowers_in_context(const Text*) noexcept nogil
    int page_read(Page*, const Text*, Reading) noexcept nogil
    void page_free(Page*) noexcept nogil
    ctypedef struct Layers:
        const WordSet* fixed[2]
        WordSet* words
        bint grow
    Layers layers_of(WordSet*, bint) noexcept nogil
    int64_t fixed_size(const Layers*) noexcept nogil
    int tokenize_texts(const Text*, const Text*, int64_t, bint, WordSet*, bint, Rule, bint, bint, Stream*,
                       int64_t*) noexcept nogil
    int tokenize_layered(const Text*, const Text*, int64_t, bint, const Layers*, Rule, bint, bint, Stream*,
                         int64_t*) noexcept nogil
    int runs_of_texts(const Text*, int64_t, bint, bint, const Layers*, int64_t, int64_t, Stream*,
                      int64_t*) noexcept nogil
    int runs_of_words(const WordSet*, int64_t, WordSet*, bint, Lengths, bint, Stream*, int64_t*) noexcept nogil
    int pair_streams(const int32_t*, const int64_t*, const int32_t*, const int64_t*, int64_t, int64_t, PairSet*, bint,
                     int32_t, Stream*, int64_t*) noexcept nogil
    int spread_stream(const int32_t*, const int64_t*, int64_t, const int32_t*, const int64_t*, int64_t, Stream*,
                      int64_t*) noexcept nogil
    int drop_stream(const int32_t*, const int64_t*, int64_t, const uint8_t*, int64_t, Stream*, int64_t*) noexcept nogil
    int count_stream(const int32_t*, const int64_t*, int64_t, int64_t, Counted*, int64_t*) noexcept nogil
    int join_pairs(WordSet*, const WordSet*, const PairSet*, const WordSet*, const uint8_t*, int64_t) noexcept nogil

cdef extern from "text_rows.h":
    ctypedef struct Seen:
        void* slots
    ctypedef struct Row:
        int32_t* ids
        int64_t* indptr
        int64_t size
    ctypedef struct Keys:
        uint64_t* keys
        int64_t size
    ctypedef struct PairLayers:
        PairSet* fixed
        PairSet* pairs
        bint grow
        int64_t fixed_words, known_words
        bint of_words
    void row_end(Row*, int64_t) noexcept nogil
    ctypedef struct Recurring:
        uint32_t* times
        uint8_t* again
    void recurring_free(Recurring*) noexcept nogil
    int distinct_words(const int32_t*, const int64_t*, int64_t, int64_t, Seen*, Row*, Recurring*) noexcept nogil
    int keys_of_pairs(const int32_t*, const uint8_t*, const int64_t*, int64_t, const int64_t*, int, int32_t, Seen*,
                      Keys*, int64_t*) noexcept nogil
    int keys_of_fields(const int32_t*, const int32_t*, const uint8_t*, const int64_t*, int64_t, Seen*, Keys*,
                       int64_t*) noexcept nogil
    int keys_of_repeats(const Row*, const uint32_t*, int64_t, const int32_t*, int, Keys*, int64_t*) noexcept nogil
    int find_keys(const Keys*, const PairLayers*, Row*) noexcept nogil
    ctypedef struct Noted:
        int64_t* at
        int64_t words
        Stream runs
    int note_runs(const WordSet*, WordSet*, Lengths, bint, Noted*) noexcept nogil
    int runs_of_rows(const Row*, int64_t, const Layers*, const Noted*, const int32_t*, const int64_t*, const Layers*,
                     Lengths, bint, Seen*, Row*) noexcept nogil

cdef enum:
    MOST = 0x7FFFFFFF  # most items of a set, largest length in characters


def give_back_memory():
    """Gives memory that was freed back to the system, where it can be asked for it: after large sets were replaced."""
    with nogil:
        give_back()


cdef dict RULES = {"words": RULE_WORDS, "punctuation": RULE_PUNCTUATION, "spaces": RULE_SPACES,
                   "scripts": RULE_SCRIPTS, "script words": RULE_SCRIPT_WORDS}


cdef void start() except *:
    """Secrets of this process, and the kind of each character."""
    cdef bytes drawn = os.urandom(32)
    cdef int i
    memcpy(secret, PyBytes_AS_STRING(drawn), 32)
    for i in range(4):
        secret[i] |= 1  # factors: never zero
    fill_characters()
    fill_steps()


start()

cdef bint normal_forms_filled = False
cdef object FILLING = Lock()  # held while the tables of normal forms are filled


cdef int fill_normal_forms() except -1:
    """The NFKC of each character of the basic plane, if it can be replaced independently."""
    global normal_forms_filled
    with FILLING:
        if not normal_forms_filled:
            derive_normal_forms()
            normal_forms_filled = True
    return 0


cdef int derive_normal_forms() except -1:
    import unicodedata

    cdef int c
    cdef str old, new, parts
    awkward = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))  # jamo, which are composed by rule
    for c in range(0x10000):
        normal_forms[c] = c
        if c < 0xA0 or 0x3400 <= c < 0xA000 or 0xAC00 <= c < 0xF900:
            continue  # ASCII, ideographs, Hangul, surrogates and private use stay as they are
        old = chr(c)
        new = unicodedata.normalize("NFKC", old)
        if new == old:
            normal_classes[c] = unicodedata.combining(old)
            parts = unicodedata.decomposition(old)
            if parts and not parts.startswith("<"):
                awkward.add(int(parts.split()[1], 16))  # it may be composed with the character before it
        elif len(new) == 1 and ord(new) < 0x10000 and not unicodedata.combining(new) and new not in "\u0130\u03a3":
            normal_forms[c], normal_classes[c] = ord(new), IS_REPLACED
        else:
            awkward.add(c)
    for c in awkward:
        if c < 0x10000:
            normal_classes[c] = IS_AWKWARD
    for c in range(0xA0, 0x10000):
        if normal_classes[c] == IS_REPLACED and normal_classes[normal_forms[c]]:
            normal_classes[c] = IS_AWKWARD
    return 0


cdef class OwnedMemory:
    """Memory that grew in C, held by the array that shows it."""
    cdef void* data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 0, flags)


cdef object array_of(void* data, int64_t count, object dtype):
    """An array that shows `count` entries and frees them in the end."""
    cdef OwnedMemory block = OwnedMemory.__new__(OwnedMemory)
    cdef void* fitted
    block.data = data
    block.size = count * dtype.itemsize
    if not count:
        return np.empty(0, dtype)
    fitted = realloc(data, block.size)  # it is larger than needed: the size was estimated
    if fitted != NULL:
        block.data = fitted
    return np.frombuffer(block, dtype)


cdef object INT32 = np.dtype(np.int32)
cdef object INT64 = np.dtype(np.int64)
cdef object UINT8 = np.dtype(np.uint8)


cdef int64_t check(int64_t code, str numbers="a number lies outside the set") except -9:
    """Raises the error for a failure in C."""
    if code == NO_MEMORY:
        raise MemoryError("not enough memory for this text")
    if code == TOO_MANY:
        raise OverflowError(f"a set or a document can hold at most {MOST:,} items")
    if code == BAD_NUMBER:
        raise IndexError(numbers)
    if code == REPEATED:
        raise ValueError("a string or a pair occurs twice")
    return code


cdef int check_indptr(const int64_t[::1] indptr, int64_t size, str name) except -1:
    """indptr must ascend within 0..size."""
    cdef Py_ssize_t n = indptr.shape[0], i
    cdef bint fine = n > 0
    with nogil:
        fine = fine and indptr[0] >= 0 and indptr[n - 1] <= size
        for i in range(1, n):
            fine = fine and indptr[i] >= indptr[i - 1]
    if not fine:
        raise ValueError(f"{name} must ascend from 0 to the number of items, {size}, with one entry more than documents")
    return 0


cdef int check_range(Py_ssize_t start, Py_ssize_t stop, Py_ssize_t size) except -1:
    if not 0 <= start <= stop <= size:
        raise ValueError(f"documents {start} to {stop} were requested, but there are {size}")
    return 0


cdef Rule rule_of(str rule, int64_t shortest, int64_t longest) except *:
    cdef Rule out
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; it must be one of {', '.join(map(repr, RULES))}")
    if shortest < 0 or longest < 0:
        raise ValueError(f"lengths must not be negative: shortest is {shortest} and longest is {longest}")
    out.rule = RULES[rule]
    out.shortest = min(shortest, <int64_t> 1 << 60)
    out.longest = longest
    return out


cdef int check_lengths(int64_t low, int64_t high) except -1:
    if not 1 <= low <= high:
        raise ValueError(f"runs of {low} to {high} characters were requested; they must have at least one")
    return 0


cdef const int32_t* first32(const int32_t[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] else NULL


cdef class Documents:
    """Texts as the kernel reads them: where each one's characters are, without copying them."""
    cdef Text* texts     # as they are read
    cdef Text* sources   # as given: the same, unless some had to be replaced before reading
    cdef Py_ssize_t count
    cdef readonly bint lower
    cdef object held     # keeps the characters alive
    cdef list replaced
    cdef bint in_normal_form
    cdef Py_buffer buffer
    cdef bint buffered

    def __cinit__(self):
        self.replaced = []

    def __init__(self, texts, bint lower=True):
        if self.texts != NULL:
            raise TypeError("documents cannot be changed")
        if isinstance(texts, (str, bytes)):
            raise TypeError("got one text instead of several: put it into a list")
        cdef tuple held = tuple(texts)
        cdef Py_ssize_t i
        cdef object text
        self.held = held
        self.reserve(len(held))
        for i in range(self.count):
            text = held[i]
            if isinstance(text, str):
                string_ready(text)
                self.texts[i] = text_of_string(text)
            elif isinstance(text, bytes):
                self.texts[i] = text_of_bytes(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
            else:
                raise TypeError(f"document {i} is {described(text)}, not a string")
        self.prepare(lower)

    @classmethod
    def from_buffer(cls, data, offsets, bint lower=True):
        """UTF-8 in one buffer: document i is data[offsets[i]:offsets[i + 1]]."""
        cdef Documents self = cls.__new__(cls)
        cdef const int64_t[::1] at
        cdef Py_ssize_t i
        if not isinstance(offsets, np.ndarray) or offsets.dtype not in (INT32, INT64) or offsets.ndim != 1:
            raise ValueError("offsets must be an array of one dimension, int32 or int64")
        at = np.ascontiguousarray(offsets, dtype=np.int64)
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.buffered = True
        self.held = (data, offsets)
        check_indptr(at, self.buffer.len, "offsets")
        self.reserve(at.shape[0] - 1)
        for i in range(self.count):
            self.texts[i] = text_of_bytes(<const char*> self.buffer.buf + at[i], at[i + 1] - at[i])
        self.prepare(lower)
        return self

    cdef int prepare(self, bint lower) except -1:
        """Checks bytes, and lower-cases texts that cannot be lower-cased while they are read."""
        cdef uint8_t* contextual = <uint8_t*> calloc(self.count + 1, 1)
        cdef Py_ssize_t i, bad = -1
        if contextual == NULL:
            raise MemoryError("not enough memory for these documents")
        self.lower = lower
        try:
            with nogil:
                for i in range(self.count):
                    if not text_is_valid(self.texts + i):
                        bad = i
                        break
                    contextual[i] = lower and lowers_in_context(self.texts + i)
            if bad >= 0:
                refuse((<const char*> self.texts[bad].data)[:self.texts[bad].size], bad)
            for i in range(self.count):
                if contextual[i]:
                    self.lower_beforehand(i)
        finally:
            free(contextual)
        return 0

    cdef int reserve(self, Py_ssize_t count) except -1:
        self.texts = <Text*> calloc(count + 1, sizeof(Text))
        if self.texts == NULL:
            raise MemoryError("not enough memory for these documents")
        self.sources = self.texts
        self.count = count
        return 0

    cdef int lower_beforehand(self, Py_ssize_t i) except -1:
        """Keeps and reads a copy that Python has lower-cased."""
        self.separate_sources()
        self.replace(i, self.string_of(i).lower())
        return 0

    cdef int separate_sources(self) except -1:
        """Lets texts be replaced without their sources."""
        if self.sources == self.texts:
            self.sources = <Text*> malloc((self.count + 1) * sizeof(Text))
            if self.sources == NULL:
                self.sources = self.texts
                raise MemoryError("not enough memory for these documents")
            memcpy(self.sources, self.texts, (self.count + 1) * sizeof(Text))
        return 0

    cdef int replace(self, Py_ssize_t i, str text) except -1:
        self.replaced.append(text)
        string_ready(text)
        self.texts[i] = text_of_string(text)
        return 0

    cdef str string_of(self, Py_ssize_t i):
        """A document as given."""
        cdef Text* source = self.sources + i
        if source.kind == 0:
            return (<const char*> source.data)[:source.size].decode("utf-8")
        return self.held[i] if isinstance(self.held[i], str) else self.held[i].decode("ascii")

    def normalised(self):
        """The documents in Unicode's normal form NFKC, before they are lower-cased; themselves if they already are."""
        cdef Documents out
        cdef uint8_t* states
        cdef Py_ssize_t i
        cdef uint8_t any_state = 0
        cdef bint all_ascii = True
        cdef str text
        from unicodedata import normalize

        if self.in_normal_form:
            return self
        for i in range(self.count):
            all_ascii = all_ascii and self.sources[i].ascii
        self.in_normal_form = all_ascii
        if all_ascii:
            return self
        fill_normal_forms()
        states = <uint8_t*> calloc(self.count + 1, 1)
        if states == NULL:
            raise MemoryError("not enough memory for these documents")
        try:
            with nogil:
                for i in range(self.count):
                    states[i] = normality(self.sources + i)
                    any_state |= states[i]
            if not any_state:
                self.in_normal_form = True
                return self
            out = Documents.__new__(Documents)
            out.held, out.lower, out.in_normal_form = self, self.lower, True
            out.reserve(self.count)
            memcpy(out.texts, self.sources, (self.count + 1) * sizeof(Text))
            out.separate_sources()
            memcpy(out.texts, self.texts, (self.count + 1) * sizeof(Text))
            for i in range(self.count):
                if states[i] == IS_NORMAL_ONE_BY_ONE:
                    out.texts[i].normal = True
                elif states[i] == IS_NORMAL_IN_CONTEXT:
                    text = normal_string(self.string_of(i), normalize)
                    out.replace(i, text)
                    if self.lower and lowers_in_context(out.texts + i):
                        out.replace(i, text.lower())
            return out
        finally:
            free(states)

    def __dealloc__(self):
        if self.sources != self.texts:
            free(self.sources)
        free(self.texts)
        if self.buffered:
            PyBuffer_Release(&self.buffer)

    def __len__(self):
        return self.count

    @property
    def sizes(self):
        """The bytes of each document, as it is stored."""
        cdef int64_t[::1] out = np.empty(self.count, dtype=np.int64)
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.count):
                out[i] = text_bytes(self.texts + i)
        return np.asarray(out)


cdef str normal_string(str text, normalize):
    """A string in the normal form NFKC. Nothing is composed across the beginning of a character of ASCII, so most of a
    string that has few others is not looked at."""
    cdef Py_ssize_t size = len(text), at = 0, begin, end = 0, others = 0
    cdef list parts = []
    cdef Py_UCS4 c
    for c in text:
        others += c >= 0x80
    if others > size // 16:
        return normalize("NFKC", text)
    while end < size:
        begin = end
        while begin < size and text[begin] < 0x80:
            begin += 1
        end = begin
        while end < size and text[end] >= 0x80:
            end += 1
        begin -= begin > at  # it may be composed with what follows
        parts.append(text[at:begin])
        parts.append(normalize("NFKC", text[begin:end]))
        at = end
    return "".join(parts)


cdef int refuse(bytes text, Py_ssize_t number) except -1:
    """Raises the error of decoding this, with the number of the document."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnicodeDecodeError(error.encoding, error.object, error.start, error.end,
                                 f"{error.reason} (document {number})") from None
    raise ValueError(f"document {number} changed while it was read")


cdef str described(object value):
    """A value in words: "a float (nan)"."""
    cdef str name = type(value).__name__, shown = repr(value)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name} ({shown if len(shown) <= 60 else shown[:57] + '...'})"


cdef object USERS = object()  # held while who uses which sets is looked at or changed, where the interpreter has no lock


cdef class Shared:
    """A lock: several threads may read at once, or one may write."""
    cdef int readers, waiting
    cdef bint changing

    cdef int enter(self, bint change) except -1:
        cdef bint busy
        with cython.critical_section(USERS):
            busy = self.changing or (change and self.readers)
            if not busy:
                self.changing = change
                self.readers += not change
        if busy:
            raise RuntimeError("the set is being used in another thread: give each thread a set of its own and merge them, "
                               "or let them only read")
        return 0

    cdef int leave(self, bint change) except -1:
        with cython.critical_section(USERS):
            if change:
                self.changing = False
            else:
                self.readers -= 1
        return 0


cdef class NotedRuns:
    """The runs of characters of the words of a set, as far as all of them are in another one. Both sets may grow later:
    numbers stay."""
    cdef Noted noted
    cdef Vocabulary characters
    cdef RowReader reader  # which runs they are

    def __dealloc__(self):
        free(self.noted.at)
        free(self.noted.runs.ids)

    @staticmethod
    cdef NotedRuns of(Vocabulary words, Vocabulary characters, RowReader reader):
        cdef NotedRuns out = NotedRuns.__new__(NotedRuns)
        out.characters, out.reader = characters, reader
        out.noted.at = <int64_t*> malloc((words.set.size + 1) * sizeof(int64_t))
        if out.noted.at == NULL:
            raise MemoryError()
        check(note_runs(&words.set, &characters.set, reader.lengths, reader.scripts, &out.noted))
        return out


cdef class Vocabulary(Shared):
    """A growing set of strings, numbered in the order in which they were first seen.

    >>> words = Vocabulary(["to", "be"])
    >>> words.add(["or", "not", "to", "be"]).tolist()
    [2, 3, 0, 1]
    >>> words.find(["not", "that"]).tolist()
    [3, -1]
    """
    cdef WordSet set
    cdef int64_t asked     # in how many texts its words were, until
    cdef NotedRuns noted   # their runs were noted

    def __cinit__(self):
        memset(&self.set, 0, sizeof(WordSet))

    def __init__(self, strings=()):
        self.numbers(strings, True)

    def __dealloc__(self):
        words_free(&self.set)

    def __len__(self):
        return self.set.size

    @property
    def nbytes(self):
        return (self.set.bytes_room + self.set.words_room * <int64_t> sizeof(Word)
                + self.set.table.count * <int64_t> sizeof(Slot))

    def add(self, strings):
        """The strings' numbers; new strings are added."""
        return self.numbers(strings, True)

    def find(self, strings):
        """The strings' numbers, −1 if unknown."""
        return self.numbers(strings, False)

    cdef object numbers(self, object strings, bint grow):
        cdef list given = list(strings)
        cdef Py_ssize_t n = len(given), i
        cdef int32_t[::1] out = np.empty(n, dtype=np.int32)
        cdef Page page
        cdef Text text
        cdef Reading as_given
        cdef object string
        as_given.lower = as_given.scripts = False
        for i in range(n):
            string = given[i]
            if not isinstance(string, str):
                raise TypeError(f"string {i} is {described(string)}, not a string")
            string_ready(string)
        memset(&page, 0, sizeof(Page))
        self.enter(grow)
        try:
            for i in range(n):
                text = text_of_string(given[i])
                if text.ascii:
                    out[i] = <int32_t> check(words_number(&self.set, <const uint8_t*> text.data, text.size, grow))
                else:
                    check(page_read(&page, &text, as_given))
                    out[i] = <int32_t> check(words_number(&self.set, page.text, page.size, grow))
        finally:
            self.leave(grow)
            page_free(&page)
        return np.asarray(out)

    def strings(self, const int32_t[::1] which=None):
        """The strings, or those with these numbers."""
        cdef Py_ssize_t n = self.set.size if which is None else which.shape[0], i
        cdef int64_t number
        cdef list out = [None] * n
        self.enter(False)
        try:
            for i in range(n):
                number = i if which is None else which[i]
                if not 0 <= number < self.set.size:
                    raise IndexError(f"there is no string {number}: the set has {self.set.size}")
                out[i] = PyUnicode_DecodeUTF8(<const char*> word_text(&self.set, number), word_size(&self.set, number),
                                              "surrogatepass")
        finally:
            self.leave(False)
        return out

    def merge(self, Vocabulary other not None):
        """Adds the other's strings; returns their numbers here."""
        cdef int32_t[::1] out
        cdef int failed = 0
        if other is self:
            return np.arange(self.set.size, dtype=np.int32)
        other.enter(False)
        try:
            self.enter(True)
            try:
                out = np.empty(other.set.size, dtype=np.int32)
                if other.set.size:
                    with nogil:
                        failed = words_merge(&self.set, &other.set, &out[0])
                check(failed)
            finally:
                self.leave(True)
        finally:
            other.leave(False)
        return np.asarray(out)

    def locate(self, Vocabulary other not None):
        """The number here of each of the other's strings, −1 if it is not in this set."""
        cdef int32_t[::1] out
        other.enter(False)
        try:
            self.enter(False)
            try:
                out = np.empty(other.set.size, dtype=np.int32)
                if other.set.size:
                    with nogil:
                        words_locate(&self.set, &other.set, &out[0])
            finally:
                self.leave(False)
        finally:
            other.leave(False)
        return np.asarray(out)

    def order(self):
        """The numbers sorted by string, in the order of code points."""
        cdef int32_t[::1] out
        cdef int failed = 0
        self.enter(False)
        try:
            out = np.empty(self.set.size, dtype=np.int32)
            if self.set.size:
                with nogil:
                    failed = words_order(&self.set, &out[0])
            check(failed)
        finally:
            self.leave(False)
        return np.asarray(out)

    def take(self, const int32_t[::1] which not None):
        """A new set of the strings with these numbers, numbered 0, 1, …"""
        cdef Vocabulary out = Vocabulary()
        cdef int failed
        self.enter(False)
        try:
            with nogil:
                failed = words_take(&out.set, &self.set, first32(which), which.shape[0])
            check(failed, f"a number lies outside 0 to {self.set.size - 1}")
        finally:
            self.leave(False)
        return out

    def copy(self):
        cdef Vocabulary out = Vocabulary()
        cdef int failed
        self.enter(False)
        try:
            with nogil:
                failed = words_copy(&out.set, &self.set)
            check(failed)
        finally:
            self.leave(False)
        return out

    def hashes(self):
        """MurmurHash3_x86_32 with seed 0 of each string's UTF-8, signed, as scikit-learn's FeatureHasher computes it."""
        cdef int32_t[::1] out
        cdef int64_t i
        self.enter(False)
        try:
            out = np.empty(self.set.size, dtype=np.int32)
            with nogil:
                for i in range(self.set.size):
                    out[i] = <int32_t> murmur(word_text(&self.set, i), word_size(&self.set, i))
        finally:
            self.leave(False)
        return np.asarray(out)

    def buffers(self):
        """All strings in UTF-8 one after another, surrogates as `surrogatepass` writes them, and where each starts."""
        cdef uint8_t[::1] data
        cdef int64_t[::1] offsets
        cdef int64_t i
        self.enter(False)
        try:
            data = np.empty(words_bytes(&self.set), dtype=np.uint8)
            offsets = np.zeros(self.set.size + 1, dtype=np.int64)
            for i in range(self.set.size):
                offsets[i + 1] = self.set.words[i + 1].start
            if data.shape[0]:
                memcpy(&data[0], self.set.bytes, data.shape[0])
        finally:
            self.leave(False)
        return np.asarray(data), np.asarray(offsets)

    @classmethod
    def from_buffers(cls, const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
        """The set that `buffers` came from; refuses buffers that no set can have."""
        cdef Vocabulary self = cls()
        cdef int64_t n = offsets.shape[0] - 1, i, broken = -1, repeated = -1
        cdef int32_t number = 0
        cdef const uint8_t* start = &data[0] if data.shape[0] else <const uint8_t*> b""
        check_indptr(offsets, data.shape[0], "offsets")
        if offsets[0] != 0 or offsets[n] != data.shape[0]:
            raise ValueError(f"offsets must begin with 0 and end with the size of the data, {data.shape[0]}")
        if n > MOST:
            check(TOO_MANY)
        with nogil:
            number = 0 if words_reserve(&self.set, n) else NO_MEMORY
            for i in range(n):
                if number < 0:
                    break
                if not valid_utf8(start + offsets[i], offsets[i + 1] - offsets[i], True):
                    broken = i
                    break
                number = words_number(&self.set, start + offsets[i], offsets[i + 1] - offsets[i], True)
                if 0 <= number < i:
                    repeated = i
                    break
        check(number)
        if broken >= 0:
            raise ValueError(f"string {broken} is not UTF-8")
        if repeated >= 0:
            raise ValueError(f"string {repeated} is the same as string {number}")
        return self

    def __reduce__(self):
        return words_from_buffers, self.buffers()


def words_from_buffers(data, offsets):
    """`Vocabulary.from_buffers` as a function, so that every pickle protocol can find it."""
    return Vocabulary.from_buffers(data, offsets)


cdef class PairVocabulary(Shared):
    """A growing set of pairs of numbers ≥ 0, numbered in the order in which they were first seen.

    >>> pairs = PairVocabulary()
    >>> pairs.add(np.array([1, 2, 1], dtype=np.int32), np.array([7, 7, 7], dtype=np.int32)).tolist()
    [0, 1, 0]
    """
    cdef PairSet set

    def __cinit__(self):
        memset(&self.set, 0, sizeof(PairSet))

    def __init__(self, first=None, second=None):
        if (first is None) != (second is None):
            raise ValueError("pairs need both first and second numbers")
        if first is not None:
            self.numbers(first, second, True)

    def __dealloc__(self):
        pairs_free(&self.set)

    def __len__(self):
        return self.set.size

    def add(self, first, second):
        """The numbers of the pairs; new pairs are added."""
        return self.numbers(first, second, True)

    def find(self, first, second):
        """The numbers of the pairs, −1 if unknown."""
        return self.numbers(first, second, False)

    cdef object numbers(self, const int32_t[::1] first, const int32_t[::1] second, bint grow):
        cdef int32_t[::1] out
        cdef int failed = 0
        if first is None or second is None:
            raise TypeError("pairs need both first and second numbers")
        if first.shape[0] != second.shape[0]:
            raise ValueError(f"there are {first.shape[0]} first and {second.shape[0]} second numbers")
        out = np.empty(first.shape[0], dtype=np.int32)
        self.enter(grow)
        try:
            if grow and not self.set.size:  # pairs given to an empty set are mostly distinct
                check(0 if pairs_expect(&self.set, min(out.shape[0], MOST)) else NO_MEMORY)
            if out.shape[0]:
                with nogil:
                    failed = pairs_numbers(&self.set, &first[0], &second[0], out.shape[0], grow, &out[0])
            check(failed, "pairs must be of numbers ≥ 0")
        finally:
            self.leave(grow)
        return np.asarray(out)

    def arrays(self, const int32_t[::1] which=None):
        """The first and the second numbers of these pairs, or of all."""
        cdef int32_t[::1] first, second
        cdef int64_t n, i, number
        cdef bint outside = False
        self.enter(False)
        try:
            n = self.set.size if which is None else which.shape[0]
            first, second = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
            with nogil:
                for i in range(n):
                    number = i if which is None else which[i]
                    if number < 0 or number >= self.set.size:
                        outside = True
                        break
                    first[i] = <int32_t> (self.set.pairs[number] >> 32)
                    second[i] = <int32_t> <uint32_t> self.set.pairs[number]
            if outside:
                check(BAD_NUMBER)
        finally:
            self.leave(False)
        return np.asarray(first), np.asarray(second)

    def merge(self, PairVocabulary other not None, const int32_t[::1] first_to not None, const int32_t[::1] second_to not None):
        """Adds (first_to[a], second_to[b]) for every pair (a, b) of the other; returns their numbers."""
        cdef int32_t[::1] out
        cdef int failed = 0
        if other is self:
            other = self.copy()
        other.enter(False)
        try:
            self.enter(True)
            try:
                out = np.empty(other.set.size, dtype=np.int32)
                if other.set.size:
                    with nogil:
                        failed = pairs_merge(&self.set, &other.set, first32(first_to), first_to.shape[0],
                                             first32(second_to), second_to.shape[0], &out[0])
                check(failed, "a number of a pair is outside the map, or maps to a number below 0")
            finally:
                self.leave(True)
        finally:
            other.leave(False)
        return np.asarray(out)

    def take(self, const int32_t[::1] which not None):
        """A new set of the pairs with these numbers, numbered 0, 1, …"""
        cdef PairVocabulary out = PairVocabulary()
        cdef int failed
        self.enter(False)
        try:
            with nogil:
                failed = pairs_take(&out.set, &self.set, first32(which), which.shape[0])
            check(failed, f"a number lies outside 0 to {self.set.size - 1}")
        finally:
            self.leave(False)
        return out

    def copy(self):
        cdef PairVocabulary out = PairVocabulary()
        cdef int failed
        self.enter(False)
        try:
            with nogil:
                failed = pairs_copy(&out.set, &self.set)
            check(failed)
        finally:
            self.leave(False)
        return out

    def __reduce__(self):
        return PairVocabulary, self.arrays()


cdef object stream_array(Stream* stream):
    """The ids of a stream, which the array owns from now on."""
    cdef int32_t* ids = stream.ids
    stream.ids = NULL
    return array_of(ids, stream.size, INT32)


cdef int stream_free(Stream* stream) except -1:
    free(stream.ids)
    free(stream.fields)
    return 0


def tokenize(Documents documents not None, Py_ssize_t start, Py_ssize_t stop, Vocabulary words not None, bint grow,
             str rule not None, int64_t shortest=1, int64_t longest=0, bint headers=False):
    """The stream of the words of documents[start:stop], and which header field each is in, if requested.

    The rule "words" takes the runs of at least `shortest` word characters; "punctuation" those and all runs of
    other characters, except white space; "spaces" all runs of what is not white space. A run with more than `longest`
    characters, unless that is 0, is cut. What is not in `words` is added if it may grow, and is −1 otherwise.

    A header is the lines "Name: value" at the start of a text, possibly after a line "From …". Lines that start with a
    blank or a tab continue the field above. A token is in the field after whose colon it starts, and the field is the
    number of its name in `words`, in lower case; names, colons and the text below the header are in no field, −1.
    """
    cdef Stream stream
    cdef Rule wanted = rule_of(rule, shortest, longest)
    cdef int64_t[::1] indptr
    cdef int failed
    cdef int32_t* fields
    check_range(start, stop, documents.count)
    indptr = np.empty(stop - start + 1, dtype=np.int64)
    memset(&stream, 0, sizeof(Stream))
    words.enter(grow)
    try:
        with nogil:
            failed = tokenize_texts(documents.texts + start, documents.sources + start, stop - start, documents.lower,
                                    &words.set, grow, wanted, headers, False, &stream, &indptr[0])
        check(failed)
        ids = stream_array(&stream)
        fields = stream.fields
        stream.fields = NULL
        return ids, np.asarray(indptr), array_of(fields, stream.size, INT32) if headers else None
    finally:
        words.leave(grow)
        stream_free(&stream)


def locate(str text not None, Vocabulary words not None, str rule not None, int64_t longest=0):
    """The numbers of a text's tokens, and where each starts and ends: the text is read without lower-casing."""
    cdef Stream stream
    cdef Rule wanted = rule_of(rule, 1, longest)
    cdef Text given
    cdef int64_t[::1] indptr = np.empty(2, dtype=np.int64), begin
    cdef int64_t[:, ::1] spans
    cdef int failed
    cdef Py_ssize_t i
    string_ready(text)
    given = text_of_string(text)
    if given.size > MOST // 4:
        raise OverflowError(f"the text has {given.size:,} characters; at most {MOST // 4:,} can be read")
    memset(&stream, 0, sizeof(Stream))
    words.enter(True)
    try:
        with nogil:
            failed = tokenize_texts(&given, &given, 1, False, &words.set, True, wanted, False, True, &stream, &indptr[0])
        check(failed)
        spans = np.empty((stream.size, 2), dtype=np.int64)
        begin = np.empty(given.size + 1, dtype=np.int64)
        for i in range(stream.size):
            spans[i, 0] = stream.fields[i]
            if i and spans[i, 0] == spans[i - 1, 0]:  # the extra token for the one before it
                spans[i, 1] = spans[i - 1, 1]
            else:
                spans[i, 1] = spans[i, 0] + word_size(&words.set, stream.ids[i])
        places_of_characters(&given, rule in ("scripts", "script words"), &begin[0])
        first = np.searchsorted(begin, spans[:, 0], side="right") - 1
        ids = stream_array(&stream)
        return ids, np.stack([first, np.searchsorted(begin, spans[:, 1], side="left")], axis=1)
    finally:
        words.leave(True)
        stream_free(&stream)


def pair_up(const int32_t[::1] left not None, const int64_t[::1] left_indptr not None, const int32_t[::1] right not None,
            const int64_t[::1] right_indptr not None, int64_t shift, PairVocabulary pairs not None, bint grow, int64_t mark=-1):
    """The stream of the pairs (left[i], right[i + shift]) of each document; with a mark, also at both ends."""
    cdef Stream stream
    cdef int64_t[::1] indptr
    cdef int failed
    check_indptr(left_indptr, left.shape[0], "left_indptr")
    check_indptr(right_indptr, right.shape[0], "right_indptr")
    if left_indptr.shape[0] != right_indptr.shape[0]:
        raise ValueError(f"the left stream has {left_indptr.shape[0] - 1} documents and the right one "
                         f"{right_indptr.shape[0] - 1}")
    if shift < 0:
        raise ValueError(f"shift is {shift}; it must not be negative")
    if not -1 <= mark <= MOST:
        raise ValueError(f"mark is {mark}; it must be the number of an item, or -1 for none")
    indptr = np.empty(left_indptr.shape[0], dtype=np.int64)
    memset(&stream, 0, sizeof(Stream))
    pairs.enter(grow)
    try:
        with nogil:
            failed = pair_streams(first32(left), &left_indptr[0], first32(right), &right_indptr[0], left_indptr.shape[0] - 1,
                                  shift, &pairs.set, grow, <int32_t> mark, &stream, &indptr[0])
        check(failed)
        return stream_array(&stream), np.asarray(indptr)
    finally:
        pairs.leave(grow)
        stream_free(&stream)


def characters(Documents documents not None, Py_ssize_t start, Py_ssize_t stop, Vocabulary grams not None, bint grow,
               int64_t low, int64_t high):
    """The stream of the runs of `low` to `high` characters of documents[start:stop], with runs of white space collapsed."""
    return runs(documents, start, stop, False, grams, grow, low, high)


def stretches(Documents documents not None, Py_ssize_t start, Py_ssize_t stop, Vocabulary grams not None, bint grow,
              int64_t low, int64_t high):
    """The stream of the runs of `low` to `high` letters of scripts without spaces between words."""
    if high > STRETCH:
        raise ValueError(f"runs of up to {high} letters were requested; the longest is {STRETCH}")
    return runs(documents, start, stop, True, grams, grow, low, high)


cdef runs(Documents documents, Py_ssize_t start, Py_ssize_t stop, bint unspaced, Vocabulary grams, bint grow, int64_t low,
          int64_t high):
    cdef Stream stream
    cdef Layers layers
    cdef int64_t[::1] indptr
    cdef int failed
    check_range(start, stop, documents.count)
    check_lengths(low, high)
    indptr = np.empty(stop - start + 1, dtype=np.int64)
    memset(&stream, 0, sizeof(Stream))
    grams.enter(grow)
    try:
        with nogil:
            layers = layers_of(&grams.set, grow)
            failed = runs_of_texts(documents.texts + start, stop - start, documents.lower, unspaced, &layers, low, high,
                                   &stream, &indptr[0])
        check(failed)
        return stream_array(&stream), np.asarray(indptr)
    finally:
        grams.leave(grow)
        stream_free(&stream)


def characters_of(Vocabulary words not None, Py_ssize_t start, Vocabulary grams not None, bint grow, int64_t low, int64_t high,
                  syllables=None):
    """For each word from `start` on, the runs of `low` to `high` characters of the word with a blank on both sides.

    With `syllables`, the shortest and the longest run in words of Hangul, words are those of the rule "scripts": marks
    count with their base character, and characters that are tokens under that rule have no runs.
    """
    cdef Stream stream
    cdef Lengths lengths
    cdef int64_t[::1] indptr
    cdef bint scripts = syllables is not None
    cdef int failed
    lengths.low, lengths.high = low, high
    lengths.syllables_low, lengths.syllables_high = syllables or (low, high)
    check_lengths(low, high)
    check_lengths(lengths.syllables_low, lengths.syllables_high)
    memset(&stream, 0, sizeof(Stream))
    words.enter(False)
    try:
        grams.enter(grow)
        try:
            if not 0 <= start <= words.set.size:
                raise ValueError(f"words from {start} on were requested, but there are {words.set.size}")
            indptr = np.empty(words.set.size - start + 1, dtype=np.int64)
            with nogil:
                failed = runs_of_words(&words.set, start, &grams.set, grow, lengths, scripts, &stream, &indptr[0])
            check(failed)
            return stream_array(&stream), np.asarray(indptr)
        finally:
            grams.leave(grow)
            stream_free(&stream)
    finally:
        words.leave(False)


def spread(const int32_t[::1] ids not None, const int64_t[::1] indptr not None, const int32_t[::1] table_ids not None,
           const int64_t[::1] table_indptr not None):
    """The stream with each item replaced by its list in the table; unknown items are left out."""
    cdef Stream stream
    cdef int64_t[::1] out
    cdef int failed
    check_indptr(indptr, ids.shape[0], "indptr")
    check_indptr(table_indptr, table_ids.shape[0], "table_indptr")
    out = np.empty(indptr.shape[0], dtype=np.int64)
    memset(&stream, 0, sizeof(Stream))
    try:
        with nogil:
            failed = spread_stream(first32(ids), &indptr[0], indptr.shape[0] - 1, first32(table_ids), &table_indptr[0],
                                   table_indptr.shape[0] - 1, &stream, &out[0])
        check(failed, f"an item lies outside the table, which has {table_indptr.shape[0] - 1} lists")
        return stream_array(&stream), np.asarray(out)
    finally:
        stream_free(&stream)


def drop(const int32_t[::1] ids not None, const int64_t[::1] indptr not None, unwanted):
    """The stream without the items i for which unwanted[i]."""
    cdef Stream stream
    cdef int64_t[::1] out
    cdef const uint8_t[::1] flags
    cdef int failed
    if not isinstance(unwanted, np.ndarray) or unwanted.dtype != np.bool_:
        raise ValueError("unwanted must be an array of bool")
    flags = unwanted.view(np.uint8)
    check_indptr(indptr, ids.shape[0], "indptr")
    out = np.empty(indptr.shape[0], dtype=np.int64)
    memset(&stream, 0, sizeof(Stream))
    try:
        with nogil:
            failed = drop_stream(first32(ids), &indptr[0], indptr.shape[0] - 1, &flags[0] if flags.shape[0] else NULL,
                                 flags.shape[0], &stream, &out[0])
        check(failed, f"an item lies outside `unwanted`, which has {flags.shape[0]} entries")
        return stream_array(&stream), np.asarray(out)
    finally:
        stream_free(&stream)


def count(const int32_t[::1] ids not None, const int64_t[::1] indptr not None, int64_t size):
    """How often each document has which item: the data, indices and indptr of a CSR matrix with `size` columns."""
    cdef Counted counted
    cdef int64_t[::1] out
    cdef int failed
    if not 0 <= size <= MOST:
        raise ValueError(f"size is {size}; it must be a number of columns from 0 to {MOST:,}")
    check_indptr(indptr, ids.shape[0], "indptr")
    out = np.empty(indptr.shape[0], dtype=np.int64)
    memset(&counted, 0, sizeof(Counted))
    try:
        with nogil:
            failed = count_stream(first32(ids), &indptr[0], indptr.shape[0] - 1, size, &counted, &out[0])
        check(failed, f"an item lies outside the {size} columns")
        counts = array_of(counted.counts, counted.size, INT64)
        counted.counts = NULL
        indices = array_of(counted.indices, counted.size, INT32)
        counted.indices = NULL
        return counts, indices, np.asarray(out)
    finally:
        free(counted.counts)
        free(counted.indices)


def join(Vocabulary left not None, PairVocabulary pairs not None, Vocabulary right not None, str between not None=" "):
    """The strings left + between + right of every pair, in their order, which must be distinct.

    They are distinct if `between` is in no left string, or in each of them equally often: ("a b", "c") and ("a", "b c") are not.
    """
    cdef Vocabulary out = Vocabulary()
    cdef bytes glue = between.encode("utf-8", "surrogatepass")
    cdef const uint8_t* text = <const uint8_t*> PyBytes_AS_STRING(glue)
    cdef int64_t size = PyBytes_GET_SIZE(glue)
    cdef int failed
    left.enter(False)
    right.enter(False)
    pairs.enter(False)
    try:
        with nogil:
            failed = join_pairs(&out.set, &left.set, &pairs.set, &right.set, text, size)
        check(failed, "a pair has words that do not exist")
    finally:
        pairs.leave(False)
        right.leave(False)
        left.leave(False)
    return out


# ---------------------------------------------------------------------- rows of items

NAMES = ("words", "pairs", "headers", "gaps", "characters", "repeats")  # of the blocks of items

cdef enum:
    WORDS
    PAIRS
    HEADERS
    GAPS
    CHARACTERS
    REPEATS


cdef struct RowsRead:
    Layers words, grams
    PairSet* fixed[6]
    PairSet* more[6]
    bint grow
    WordSet strange_words, strange_grams
    Stream tokens, stretches
    int64_t* tokens_indptr
    int64_t* stretches_indptr
    Recurring recurring
    Seen seen
    Keys keys
    Row rows[6]
    Noted noted


cdef void reading_free(RowsRead* reading) noexcept:
    cdef int i
    words_free(&reading.strange_words)
    words_free(&reading.strange_grams)
    free(reading.tokens.ids)
    free(reading.tokens.fields)
    free(reading.stretches.ids)
    recurring_free(&reading.recurring)
    free(reading.seen.slots)
    free(reading.keys.keys)
    for i in range(6):
        free(reading.rows[i].ids)


cdef class Sets:
    """The sets of a lexicon, one for each block, of which `RowReader` reads and adds items."""
    cdef Vocabulary words, characters
    cdef PairVocabulary pairs, headers, gaps, repeats
    cdef tuple each

    def __init__(self, Vocabulary words not None, PairVocabulary pairs not None, PairVocabulary headers not None,
                 PairVocabulary gaps not None, Vocabulary characters not None, PairVocabulary repeats not None):
        self.words, self.pairs, self.headers = words, pairs, headers
        self.gaps, self.characters, self.repeats = gaps, characters, repeats
        self.each = (words, pairs, headers, gaps, characters, repeats)

    cdef bint in_use(self, bint by_readers):
        """Whether anybody changes the sets, or reads them. The caller holds USERS."""
        cdef bint busy = False
        for one in self.each:
            busy = busy or (<Shared> one).changing or (by_readers and (<Shared> one).readers > 0)
        return busy

    cdef int enter(self) except -1:
        """Lets nobody change the sets. Threads that wait to change them go first."""
        cdef bint entered = False
        while True:
            with cython.critical_section(USERS):
                if not self.words.waiting and not self.in_use(False):
                    for one in self.each:
                        (<Shared> one).readers += 1
                    entered = True
            if entered:
                return 0
            sleep(PATIENCE)

    cdef int leave(self) except -1:
        with cython.critical_section(USERS):
            for one in self.each:
                (<Shared> one).readers -= 1
        return 0

    def __enter__(self):
        """Lets nobody else begin to read texts by these sets, and waits for those who do; then they can be changed."""
        cdef bint busy = True
        with cython.critical_section(USERS):
            self.words.waiting += 1
        try:
            while True:
                with cython.critical_section(USERS):
                    busy = self.in_use(True)
                if not busy:
                    return self
                sleep(PATIENCE)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error):
        with cython.critical_section(USERS):
            self.words.waiting -= 1


PATIENCE = 1e-4  # seconds between looks at whether sets are free


cdef class RowReader:
    """Reads texts as rows: by block, the distinct items of each text, in the order in which they first come.

    `blocks` are the names of those that are read. `shifts` are the distances between the words of a gap, `levels` the
    least numbers of occurrences of a repeat, and `runs`, `syllables` and `unspaced` the shortest and the longest runs of
    characters: in words, in words of syllables, and of letters that stand alone. Without `scripts`, texts are cut at
    spaces and punctuation, and only `runs` are read.
    """
    cdef Rule rule
    cdef Lengths lengths
    cdef bint scripts
    cdef bint wanted[6]
    cdef int64_t shifts[4]
    cdef int32_t levels[4]
    cdef int n_shifts, n_levels
    cdef int64_t low, high
    cdef tuple blocks

    def __init__(self, blocks, str rule not None, int64_t longest, shifts, levels, tuple runs not None,
                 tuple syllables not None, tuple unspaced not None):
        cdef int i
        self.rule, self.scripts = rule_of(rule, 1, longest), rule == "scripts"
        self.n_shifts, self.n_levels = len(shifts), len(levels)
        if self.n_shifts > 4 or self.n_levels > 4:
            raise ValueError("there are four gaps and four repeats at most")
        for i in range(self.n_shifts):
            self.shifts[i] = shifts[i]
        for i in range(self.n_levels):
            self.levels[i] = levels[i]
        self.lengths.low, self.lengths.high = runs
        self.lengths.syllables_low, self.lengths.syllables_high = syllables if self.scripts else runs
        self.low, self.high = unspaced
        check_lengths(self.lengths.low, self.lengths.high)
        check_lengths(self.lengths.syllables_low, self.lengths.syllables_high)
        check_lengths(self.low, self.high)
        if self.high > STRETCH:
            raise ValueError(f"runs of up to {self.high} letters are asked for; there are {STRETCH} at most")
        self.blocks = tuple(blocks)
        for i in range(6):
            self.wanted[i] = NAMES[i] in self.blocks
        self.wanted[WORDS] = True

    def ask(self, Documents documents not None, Py_ssize_t start, Py_ssize_t stop, Sets known not None, Sets more=None):
        """Rows of documents[start:stop], whose items are numbered by `known`, and beyond those by `more`; −1: unknown.

        By block, (indptr, numbers).
        """
        known.enter()
        try:
            if more is None:
                return self.rows(documents, start, stop, known, None, False)
            more.enter()
            try:
                return self.rows(documents, start, stop, known, more, False)
            finally:
                more.leave()
        finally:
            known.leave()

    def learn(self, Documents documents not None, Py_ssize_t start, Py_ssize_t stop, Sets sets not None):
        """The same where new items are added to the sets, which nobody else uses."""
        cdef list entered = []
        try:
            for one in sets.each:
                (<Shared> one).enter(True)
                entered.append(one)
            return self.rows(documents, start, stop, sets, None, True)
        finally:
            for one in entered:
                (<Shared> one).leave(True)

    cdef object rows(self, Documents documents, Py_ssize_t start, Py_ssize_t stop, Sets known, Sets more, bint grow):
        cdef Py_ssize_t n = stop - start, i
        cdef RowsRead reading
        cdef NotedRuns noted  # held while they are read
        cdef int64_t[:, ::1] ends
        cdef int failed
        cdef dict out = {}
        check_range(start, stop, documents.count)
        memset(&reading, 0, sizeof(RowsRead))
        ends = np.zeros((8, n + 1), dtype=np.int64)
        reading.grow = grow
        if grow:
            reading.words.words, reading.grams.words = &known.words.set, &known.characters.set
            reading.more = [NULL, &known.pairs.set, &known.headers.set, &known.gaps.set, NULL, &known.repeats.set]
        else:
            reading.words.fixed[0], reading.grams.fixed[0] = &known.words.set, &known.characters.set
            reading.fixed = [NULL, &known.pairs.set, &known.headers.set, &known.gaps.set, NULL, &known.repeats.set]
            reading.words.words, reading.grams.words = &reading.strange_words, &reading.strange_grams
        if more is not None:
            reading.words.fixed[1], reading.grams.fixed[1] = &more.words.set, &more.characters.set
            reading.more = [NULL, &more.pairs.set, &more.headers.set, &more.gaps.set, NULL, &more.repeats.set]
        reading.words.grow = reading.grams.grow = True
        for i in range(6):
            reading.rows[i].indptr = &ends[i, 0]
        reading.tokens_indptr, reading.stretches_indptr = &ends[6, 0], &ends[7, 0]
        if self.wanted[CHARACTERS] and not grow:
            noted = self.noted_runs(known)
            if noted is not None:
                reading.noted = noted.noted
        try:
            with nogil:
                failed = self.read(&reading, documents, start, n)
            check(failed)
            known.words.asked += reading.rows[WORDS].size
            for block in self.blocks:
                i = NAMES.index(block)
                ids = reading.rows[i].ids
                reading.rows[i].ids = NULL
                out[block] = np.asarray(ends[i]), array_of(ids, reading.rows[i].size, INT32)
            return out
        finally:
            reading_free(&reading)

    cdef NotedRuns noted_runs(self, Sets known):
        """The runs of the known words, noted once as many were asked for as there are. Nobody can change the sets now,
        and no other thread notes them too, since this one has the interpreter's lock."""
        cdef NotedRuns noted = known.words.noted
        if noted is not None and noted.characters is known.characters and noted.reader is self:
            return noted
        if known.words.asked < known.words.set.size:
            return None
        known.words.asked, known.words.noted = 0, NotedRuns.of(known.words, known.characters, self)
        return known.words.noted

    cdef int read(self, RowsRead* reading, Documents documents, Py_ssize_t start, Py_ssize_t n) noexcept nogil:
        cdef int failed, i
        cdef int64_t known, grams
        cdef int64_t one = 1
        cdef PairLayers pairs
        cdef const Text* texts = documents.texts + start
        cdef Stream* tokens = &reading.tokens
        failed = tokenize_layered(texts, documents.sources + start, n, documents.lower, &reading.words, self.rule,
                                  self.wanted[HEADERS], False, tokens, reading.tokens_indptr)
        if failed:
            return failed
        known = grams = MOST  # what is learned is known
        if not reading.grow:
            known, grams = fixed_size(&reading.words), fixed_size(&reading.grams)
        failed = distinct_words(tokens.ids, reading.tokens_indptr, n, fixed_size(&reading.words) + reading.words.words.size,
                                &reading.seen, &reading.rows[WORDS], &reading.recurring)
        for i in range(6):
            if failed:
                return failed
            if not self.wanted[i] or i == WORDS or i == CHARACTERS:
                continue
            reading.keys.size = 0
            if i == PAIRS:
                failed = keys_of_pairs(tokens.ids, reading.recurring.again, reading.tokens_indptr, n, &one, 1, 0,
                                       &reading.seen, &reading.keys, reading.rows[i].indptr)
            elif i == HEADERS:
                failed = keys_of_fields(tokens.fields, tokens.ids, reading.recurring.again, reading.tokens_indptr, n,
                                        &reading.seen, &reading.keys, reading.rows[i].indptr)
            elif i == GAPS:
                failed = keys_of_pairs(tokens.ids, reading.recurring.again, reading.tokens_indptr, n, self.shifts,
                                       self.n_shifts, -1, &reading.seen, &reading.keys, reading.rows[i].indptr)
            else:
                failed = keys_of_repeats(&reading.rows[WORDS], reading.recurring.times, n, self.levels, self.n_levels,
                                         &reading.keys, reading.rows[i].indptr)
            if failed:
                return failed
            pairs.fixed, pairs.pairs, pairs.grow = reading.fixed[i], reading.more[i], reading.grow
            pairs.fixed_words = reading.words.fixed[0].size if reading.words.fixed[0] != NULL else 0
            pairs.known_words, pairs.of_words = known, i != REPEATS
            failed = find_keys(&reading.keys, &pairs, &reading.rows[i])
        if not failed and self.wanted[CHARACTERS]:
            if self.scripts:
                failed = runs_of_texts(texts, n, documents.lower, True, &reading.grams, self.low, self.high,
                                       &reading.stretches, reading.stretches_indptr)
            if not failed:
                failed = runs_of_rows(&reading.rows[WORDS], n, &reading.words, &reading.noted,
                                      reading.stretches.ids, reading.stretches_indptr, &reading.grams, self.lengths,
                                      self.scripts, &reading.seen, &reading.rows[CHARACTERS])
            row_end(&reading.rows[CHARACTERS], grams)
        row_end(&reading.rows[WORDS], known)
        return failed
