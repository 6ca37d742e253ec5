# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A filter of mail as a file that is mapped into memory: written with NumPy, read without it.

A process that reads one mail spends most of its time on importing NumPy and on reading the model. The file has the same
sums, so arranged that only those of the mail's own items are looked at.
"""
import os

from cpython.bytes cimport PyBytes_AS_STRING
from libc.math cimport NAN, isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

cdef extern from "text_sets.h":
    uint64_t secret[4]
    ctypedef struct WordSet:
        int64_t size
    ctypedef struct PairSet:
        uint64_t* pairs
        int64_t size
    void words_free(WordSet*) noexcept nogil
    const uint8_t* word_text(const WordSet*, int64_t) noexcept nogil
    int64_t word_size(const WordSet*, int64_t) noexcept nogil
    int32_t words_number(WordSet*, const uint8_t*, int64_t, bint) noexcept nogil
    void pairs_free(PairSet*) noexcept nogil

cdef extern from "text_characters.h":
    void fill_characters() noexcept nogil
    bint is_alone(uint32_t) noexcept nogil

cdef extern from "text_loops.h":
    enum:
        RULE_PUNCTUATION
        RULE_SCRIPTS
    ctypedef struct Text:
        pass
    ctypedef struct Stream:
        int32_t* ids
        int32_t* fields
        int64_t size
    ctypedef struct Rule:
        int rule
        int64_t shortest, longest
    void fill_steps() noexcept nogil
    Text text_of_string(object)
    int string_ready(object) except -1
    bint lowers_in_context(const Text*) noexcept nogil
    int tokenize_texts(const Text*, const Text*, int64_t, bint, WordSet*, bint, Rule, bint, bint, Stream*,
                       int64_t*) noexcept nogil
    int pair_streams(const int32_t*, const int64_t*, const int32_t*, const int64_t*, int64_t, int64_t, PairSet*, bint,
                     int32_t, Stream*, int64_t*) noexcept nogil

cdef extern from "filter_index.h":
    enum:
        INDEX_FORMAT
        INDEX_BLOCKS
    ctypedef struct ItemSlot:
        float n[2]
    ctypedef struct CommonSlot:
        uint64_t key
        double slope
    ctypedef struct IndexHeader:
        char magic[8]
        int64_t format, model_size, model_time, model_inode, slots, common_slots, scripts, normalise
        double prior, common_constant, let_through, unsure, lost
    ctypedef struct Weighed:
        double common
        bint known
    uint64_t word_hash(const uint8_t*, int64_t) noexcept nogil
    uint64_t item_key(int, uint64_t, uint64_t) noexcept nogil
    bint put_item(ItemSlot*, int64_t, uint64_t, double, double) noexcept nogil
    const ItemSlot* find_item(const ItemSlot*, int64_t, uint64_t) noexcept nogil
    double find_slope(const CommonSlot*, int64_t, uint64_t) noexcept nogil
    void weigh(const IndexHeader*, int, const float*, Weighed*) noexcept nogil
    void block_log_odds(const IndexHeader*, int, Weighed*, int64_t, int64_t, double*, int*) noexcept nogil

MAGIC = b"deciban\x1a"
HEADER_BYTES = sizeof(IndexHeader)
SLOT_BYTES = sizeof(ItemSlot)
COMMON_BYTES = sizeof(CommonSlot)
FORMAT = INDEX_FORMAT


cdef uint8_t NOTHING[16]  # zeros: the empty word, and what may be read past its end


cdef void start() except *:
    cdef bytes drawn = os.urandom(32)
    cdef int i
    memcpy(secret, PyBytes_AS_STRING(drawn), 32)
    for i in range(4):
        secret[i] |= 1
    fill_characters()
    fill_steps()


start()


def hashes(const uint8_t[::1] data not None, const int64_t[::1] ends not None, uint64_t[::1] out not None):
    """The hash of each word; word i is data[ends[i]:ends[i + 1]]."""
    cdef Py_ssize_t i
    if ends.shape[0] != out.shape[0] + 1 or (out.shape[0] and (ends[0] < 0 or ends[out.shape[0]] > data.shape[0])):
        raise ValueError("the words do not lie in their bytes")
    with nogil:
        for i in range(out.shape[0]):
            out[i] = word_hash(&data[0] + ends[i] if data.shape[0] else NULL, ends[i + 1] - ends[i])


def put(uint8_t[::1] slots not None, int block, const uint64_t[::1] one not None, const uint64_t[::1] other not None,
        const double[::1] ham not None, const double[::1] spam not None):
    """Puts the sums of a block's items into the table; False if it is too small."""
    cdef Py_ssize_t i
    cdef bint fits = True
    cdef int64_t count = slots.shape[0] // sizeof(ItemSlot)
    if one.shape[0] != other.shape[0] or one.shape[0] != ham.shape[0] or one.shape[0] != spam.shape[0] or count < 1:
        raise ValueError("the items' parts differ in number")
    with nogil:
        for i in range(one.shape[0]):
            if ham[i] > 0.0 or spam[i] > 0.0:
                fits = fits and put_item(<ItemSlot*> &slots[0], count, item_key(block, one[i], other[i]), ham[i], spam[i])
    return fits


def keys(int block, const uint64_t[::1] one not None, const uint64_t[::1] other not None, uint64_t[::1] out not None):
    """The keys of a block's items."""
    cdef Py_ssize_t i
    for i in range(out.shape[0]):
        out[i] = item_key(block, one[i], other[i])


def about(const uint8_t[::1] data not None):
    """What is in an index: the model it was made of, whether texts are brought into normal form, the costs, and where the
    tables end. None if it is no complete index of this format."""
    cdef const IndexHeader* h
    cdef Py_ssize_t end
    if data.shape[0] < <Py_ssize_t> sizeof(IndexHeader):
        return None
    h = <const IndexHeader*> &data[0]
    if memcmp(h.magic, PyBytes_AS_STRING(MAGIC), 8) != 0 or h.format != INDEX_FORMAT:
        return None
    if not (1 <= h.slots <= 1 << 40 and 1 <= h.common_slots <= 1 << 20):
        return None
    if h.slots & (h.slots - 1) or h.common_slots & (h.common_slots - 1):
        return None
    end = sizeof(IndexHeader) + h.slots * sizeof(ItemSlot) + h.common_slots * sizeof(CommonSlot)
    if data.shape[0] < end:
        return None
    return (h.model_size, h.model_time, h.model_inode), bool(h.normalise), (h.let_through, h.unsure, h.lost), end


cdef int check(int code) except -1:
    if code < 0:
        raise MemoryError("there is not enough memory for this mail")
    return 0


cdef class Reading:
    """The distinct items of one mail."""
    cdef WordSet words
    cdef PairSet pairs[2]
    cdef Stream stream, other
    cdef uint64_t* hash
    cdef uint8_t* is_token

    def __cinit__(self):
        memset(&self.words, 0, sizeof(WordSet))
        memset(&self.pairs[0], 0, 2 * sizeof(PairSet))
        memset(&self.stream, 0, sizeof(Stream))
        memset(&self.other, 0, sizeof(Stream))

    def __dealloc__(self):
        words_free(&self.words)
        pairs_free(&self.pairs[0])
        pairs_free(&self.pairs[1])
        free(self.stream.ids)
        free(self.stream.fields)
        free(self.other.ids)
        free(self.other.fields)
        free(self.hash)
        free(self.is_token)

    cdef int read(self, str text, str source, bint scripts, int64_t longest) except -1:
        cdef Text read, given
        cdef Rule rule
        cdef int64_t ends[2]
        cdef int64_t pair_ends[2]
        cdef int64_t i
        cdef int failed
        string_ready(text)
        string_ready(source)
        read, given = text_of_string(text), text_of_string(source)
        if lowers_in_context(&read):
            text = text.lower()
            string_ready(text)
            read = text_of_string(text)
        rule.rule, rule.shortest, rule.longest = RULE_SCRIPTS if scripts else RULE_PUNCTUATION, 1, longest
        with nogil:
            failed = words_number(&self.words, NOTHING, 0, True)  # the mark before the first word and after the last
            if failed >= 0:
                failed = tokenize_texts(&read, &given, 1, True, &self.words, True, rule, True, False, &self.stream, ends)
            if failed >= 0:
                failed = pair_streams(self.stream.ids, ends, self.stream.ids, ends, 1, 1, &self.pairs[0], True, 0,
                                      &self.other, pair_ends)
            if failed >= 0:
                self.other.size = 0
                failed = pair_streams(self.stream.fields, ends, self.stream.ids, ends, 1, 0, &self.pairs[1], True, -1,
                                      &self.other, pair_ends)
        check(failed)
        self.hash = <uint64_t*> calloc(self.words.size + 1, sizeof(uint64_t))
        self.is_token = <uint8_t*> calloc(self.words.size + 1, 1)
        if self.hash == NULL or self.is_token == NULL:
            raise MemoryError("there is not enough memory for this mail")
        with nogil:
            for i in range(self.words.size):
                self.hash[i] = word_hash(word_text(&self.words, i), word_size(&self.words, i))
            for i in range(self.stream.size):
                self.is_token[self.stream.ids[i]] = True
        return 0

    cdef str word(self, int64_t number):
        return (<const char*> word_text(&self.words, number))[:word_size(&self.words, number)].decode("utf-8", "replace")


def score(const uint8_t[::1] data not None, str text not None, str source not None, int most, int64_t longest):
    """The log-odds of spam over ham, and of the strongest items (block, first word, second word, log-odds).

    `text` is as it is read, in normal form; `source` is as it was given. `data` must be what `about` knows.
    """
    cdef const IndexHeader* h = <const IndexHeader*> &data[0]
    cdef const ItemSlot* slots = <const ItemSlot*> (&data[0] + sizeof(IndexHeader))
    cdef const CommonSlot* common = <const CommonSlot*> (slots + h.slots)
    cdef const ItemSlot* slot
    cdef Reading mail = Reading()
    cdef Weighed* items
    cdef double* log_odds
    cdef int64_t i, count, distinct
    cdef uint64_t one, other, key
    cdef int block
    cdef int any_common = 0
    cdef double total = h.prior
    cdef list best, strongest = []
    mail.read(text, source, h.scripts, longest)
    for block in range(INDEX_BLOCKS):
        count = mail.words.size if block == 0 else mail.pairs[block - 1].size
        items = <Weighed*> calloc(count + 1, sizeof(Weighed))
        log_odds = <double*> calloc(count + 1, sizeof(double))
        if items == NULL or log_odds == NULL:
            free(items)
            free(log_odds)
            raise MemoryError("there is not enough memory for this mail")
        with nogil:
            distinct = 0
            for i in range(count):
                items[i].common = NAN
                if block == 0 and not mail.is_token[i]:
                    continue  # the mark, or the name of a field
                distinct += 1
                one = mail.hash[i] if block == 0 else mail.hash[mail.pairs[block - 1].pairs[i] >> 32]
                other = 0 if block == 0 else mail.hash[<uint32_t> mail.pairs[block - 1].pairs[i]]
                key = item_key(block, one, other)
                slot = find_item(slots, h.slots, key)
                if slot != NULL:
                    weigh(h, block, slot.n, items + i)
                items[i].common = find_slope(common, h.common_slots, key)
            block_log_odds(h, block, items, count, distinct, log_odds, &any_common)
            for i in range(count):
                total += log_odds[i]
        best = []
        for i in range(count):
            if log_odds[i] != 0.0:
                best.append((-abs(log_odds[i]), i))
        best.sort()
        for strength, number in best[:most]:
            if block == 0:
                names = mail.word(number), ""
            else:
                key = mail.pairs[block - 1].pairs[<int64_t> number]
                names = mail.word(key >> 32), mail.word(<uint32_t> key)
            strongest.append((strength, block, *names, log_odds[<int64_t> number]))
        free(items)
        free(log_odds)
    if any_common:
        total += h.common_constant
    if not isfinite(total):
        raise ValueError("the index is damaged")
    strongest.sort()
    return total, [item[1:] for item in strongest[:most]]


def stands_alone(str token not None):
    """Whether a token of the rule "scripts" is a letter of a script without spaces between words."""
    return len(token) > 0 and is_alone(ord(token[0]))
