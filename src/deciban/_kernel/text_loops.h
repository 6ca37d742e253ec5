/* From texts to numbers: characters are read and lower-cased, runs of them found, and the runs looked up.
 *
 * A text of any width becomes a Page: its characters in UTF-8, and two rows of bits, one bit a byte, that say which
 * bytes belong to word characters and which to anything but white space. Sixty-four ASCII characters are done at a
 * time, others one by one. What a token is can then be told from the bits alone: one loop for all widths and rules. */
#ifndef DECIBAN_TEXT_LOOPS_H
#define DECIBAN_TEXT_LOOPS_H

#include <Python.h>

#include "text_sets.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { BLOCK = 64, BATCH = 32, SLOW = 16 /* characters of up to four bytes: at most a block */ };
enum { UTF8 = 0 };
enum { RULE_WORDS = 0, RULE_PUNCTUATION = 1, RULE_SPACES = 2 };

/* ---- characters ---- */

#define IS_WORD 0x40000000u
#define IS_SPACE 0x80000000u
#define LOWER_BITS 0x1FFFFFu

static uint32_t basic_characters[0x10000]; /* the lower-case character, and what kind it is; filled at import */

static uint32_t character(Py_UCS4 c) {
    const uint32_t kind = c == '_' || Py_UNICODE_ISALNUM(c) ? IS_WORD : Py_UNICODE_ISSPACE(c) ? IS_SPACE : 0;
    return kind | (uint32_t)Py_UNICODE_TOLOWER(c);
}

static void fill_characters(void) {
    for (Py_UCS4 c = 0; c < 0x10000; c++) basic_characters[c] = character(c);
}

/* Writes a character in UTF-8, a surrogate as if it were a character; returns how many bytes it took. */
static inline int write_character(uint8_t *to, uint32_t c) {
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (uint8_t)(0xC0 | c >> 6);
        to[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xE0 | c >> 12);
        to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        to[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    to[0] = (uint8_t)(0xF0 | c >> 18);
    to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    to[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

/* Reads a character of UTF-8 that has been checked. Memory that others can write to may have changed since: whatever it
 * holds, nothing outside is read, and no more than twice as much is written as was read. */
static inline uint32_t read_character(const uint8_t *from, int64_t n, int64_t *at) {
    const uint8_t *p = from + *at;
    const int64_t left = n - *at;
    const uint32_t c = p[0];
    if (c < 0x80 || left < 2 || c < 0xC0) {
        *at += 1;
        return c & 0x7F;
    }
    if (c < 0xE0 || left < 3) {
        *at += 2;
        return (c & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (c < 0xF0 || left < 4) {
        *at += 3;
        return (c & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *at += 4;
    const uint32_t out =
        (c & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    return out < 0x110000 ? out : 0xFFFD;
}

/* How many characters these bytes are. */
static inline int64_t count_characters(const uint8_t *text, int64_t size) {
    int64_t out = 0;
    for (int64_t i = 0; i < size; i++) out += (text[i] & 0xC0) != 0x80;
    return out;
}

/* Where the next `count` characters end, or the text does. */
static inline int64_t skip_characters(const uint8_t *text, int64_t size, int64_t at, int64_t count) {
    while (count > 0 && at < size) {
        at++;
        while (at < size && (text[at] & 0xC0) == 0x80) at++;
        count--;
    }
    return at;
}

/* Whether these bytes are UTF-8, by the table of well-formed sequences of the Unicode standard. */
static bool valid_utf8(const uint8_t *text, int64_t size, bool surrogates) {
    int64_t i = 0;
    while (i < size) {
        const uint8_t c = text[i];
        if (c < 0x80) {
            i += i + 8 <= size && !(eight_bytes(text + i) & 0x8080808080808080u) ? 8 : 1;
            continue;
        }
        const int more = c >= 0xC2 && c <= 0xDF ? 1 : c >= 0xE0 && c <= 0xEF ? 2 : c >= 0xF0 && c <= 0xF4 ? 3 : 0;
        if (!more || size - i <= more) return false;
        const uint8_t low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
        const uint8_t high = c == 0xED && !surrogates ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
        if (text[i + 1] < low || text[i + 1] > high) return false;
        for (int k = 2; k <= more; k++)
            if (text[i + k] < 0x80 || text[i + k] > 0xBF) return false;
        i += 1 + more;
    }
    return true;
}

/* ---- texts ---- */

typedef struct {
    const void *data;
    int64_t size;  /* in units: bytes of UTF-8, or characters */
    uint8_t kind;  /* bytes a character, or UTF8 */
    uint8_t ascii; /* known to hold nothing else */
} Text;

static inline int64_t text_bytes(const Text *text) { return text->size * (text->kind ? text->kind : 1); }

/* A string as it lies in memory. */
static Text text_of_string(PyObject *string) {
    const Text out = {PyUnicode_DATA(string), PyUnicode_GET_LENGTH(string), (uint8_t)PyUnicode_KIND(string),
                      (uint8_t)PyUnicode_IS_ASCII(string)};
    return out;
}

static int string_ready(PyObject *string) {
#if PY_VERSION_HEX < 0x030C0000
    return PyUnicode_READY(string);
#else
    (void)string;
    return 0;
#endif
}

static Text text_of_bytes(const void *data, int64_t size) {
    const Text out = {data, size, UTF8, false};
    return out;
}

/* Whether bytes are UTF-8; strings are valid as they are. Notes if they are nothing but ASCII. */
static bool text_is_valid(Text *text) {
    if (text->kind != UTF8) return true;
    const uint8_t *bytes = text->data;
    uint8_t any = 0;
    for (int64_t i = 0; i < text->size; i++) any |= bytes[i];
    if (any >= 0x80) return valid_utf8(bytes, text->size, false);
    text->kind = 1;
    text->ascii = true;
    return true;
}

/* Whether lower-casing is more than a character for a character: capital sigma depends on what is around it, and
 * capital I with a dot becomes two. */
static bool lowers_in_context(const Text *text) {
    int any = 0;
    if (text->kind == 2) {
        const uint16_t *units = text->data;
        for (int64_t i = 0; i < text->size; i++) any |= (units[i] == 0x3A3) | (units[i] == 0x130);
    } else if (text->kind == 4) {
        const uint32_t *units = text->data;
        for (int64_t i = 0; i < text->size; i++) any |= (units[i] == 0x3A3) | (units[i] == 0x130);
    } else if (text->kind == UTF8) {
        const uint8_t *units = text->data;
        for (int64_t i = 1; i < text->size; i++)
            any |= ((units[i - 1] == 0xCE) & (units[i] == 0xA3)) | ((units[i - 1] == 0xC4) & (units[i] == 0xB0));
    }
    return any;
}

/* ---- pages ---- */

typedef struct {
    int64_t start;
    int32_t field;
} Span;

typedef struct {
    uint8_t *text; /* UTF-8; PADDING zeros follow */
    int64_t room;
    int64_t size;
    uint64_t *words; /* bit i: byte i belongs to a word character */
    int64_t words_room;
    uint64_t *solid; /* bit i: byte i does not belong to white space */
    int64_t solid_room;
    bool wide; /* not all of it is ASCII */
    Span *spans; /* header fields: what starts at or after spans[i].start is in spans[i].field */
    int64_t spans_room;
    int64_t span_count;
} Page;

static void page_free(Page *page) {
    free(page->text);
    free(page->words);
    free(page->solid);
    free(page->spans);
    memset(page, 0, sizeof *page);
}

typedef int8_t sixteen __attribute__((vector_size(16)));

/* Sixteen flags, each 0 or all ones, as sixteen bits. */
static inline uint64_t flag_bits(sixteen flags) {
#if defined(__SSE2__)
    return (uint16_t)_mm_movemask_epi8((__m128i)flags);
#else
    uint8_t bytes[16];
    memcpy(bytes, &flags, 16);
    const uint64_t ones = 0x0101010101010101u, gather = 0x0102040810204080u; /* the lowest bit of byte k to 56 + k */
    return (eight_bytes(bytes) & ones) * gather >> 56 | ((eight_bytes(bytes + 8) & ones) * gather >> 56) << 8;
#endif
}

/* Appends the lowest bits of `mask` at bit `at`; all bits from there on are still zero in the word of `at`. */
static inline void put_bits(uint64_t *bits, int64_t at, uint64_t mask) {
    const int64_t word = at >> 6;
    const int part = (int)(at & 63);
    bits[word] |= mask << part;
    bits[word + 1] = part ? mask >> (64 - part) : 0;
}

/* A block of ASCII: to[i] is its character i in lower case, if so wanted, and the bits what kind it is. */
static inline void read_block(const uint8_t *from, uint8_t *to, bool lower, uint64_t *words, uint64_t *solid) {
    *words = *solid = 0;
    for (int i = 0; i < BLOCK; i += 16) {
        sixteen c;
        memcpy(&c, from + i, 16);
        const sixteen small = c | 0x20, letter = (small >= 'a') & (small <= 'z'), digit = (c >= '0') & (c <= '9');
        const sixteen blank = ((c >= 9) & (c <= 13)) | ((c >= 28) & (c <= 32));
        *words |= flag_bits(letter | digit | (c == '_')) << i;
        *solid |= flag_bits(~blank) << i;
        if (lower) c |= letter & 0x20;
        memcpy(to + i, &c, 16);
    }
}

#define NEXT_UNIT(from, n, i) ((uint32_t)(from)[(*(i))++])

/* Fills the page from units of one width. */
#define DEFINE_READ(NAME, UNIT, NEXT)                                                                                  \
    static void NAME(Page *page, const UNIT *from, int64_t n, bool lower) {                                            \
        int64_t at = 0, i = 0;                                                                                         \
        uint64_t words, solid;                                                                                         \
        while (i < n) {                                                                                                \
            uint8_t block[BLOCK];                                                                                      \
            UNIT any = 0;                                                                                              \
            int64_t taken = BLOCK;                                                                                     \
            if (n - i >= BLOCK) {                                                                                      \
                for (int k = 0; k < BLOCK; k++) any |= from[i + k], block[k] = (uint8_t)from[i + k];                   \
            } else {                                                                                                   \
                memset(block, ' ', BLOCK);                                                                             \
                taken = n - i;                                                                                         \
                for (int64_t k = 0; k < taken; k++) any |= from[i + k], block[k] = (uint8_t)from[i + k];               \
            }                                                                                                          \
            if (any < 0x80) {                                                                                          \
                read_block(block, page->text + at, lower, &words, &solid);                                             \
                i += taken;                                                                                            \
            } else {                                                                                                   \
                words = solid = 0;                                                                                     \
                taken = 0;                                                                                             \
                for (int k = 0; k < SLOW && i < n; k++) {                                                              \
                    const uint32_t c = NEXT(from, n, &i), known = c < 0x10000 ? basic_characters[c] : character(c);    \
                    const int size = write_character(page->text + at + taken, lower ? known & LOWER_BITS : c);         \
                    const uint64_t own = (((uint64_t)1 << size) - 1) << taken;                                         \
                    words |= known & IS_WORD ? own : 0;                                                                \
                    solid |= known & IS_SPACE ? 0 : own;                                                               \
                    taken += size;                                                                                     \
                }                                                                                                      \
                page->wide = true;                                                                                     \
            }                                                                                                          \
            put_bits(page->words, at, words);                                                                          \
            put_bits(page->solid, at, solid);                                                                          \
            at += taken;                                                                                               \
        }                                                                                                              \
        page->size = at;                                                                                               \
    }

DEFINE_READ(read_narrow, uint8_t, NEXT_UNIT)
DEFINE_READ(read_utf8, uint8_t, read_character)
DEFINE_READ(read_two, uint16_t, NEXT_UNIT)
DEFINE_READ(read_four, uint32_t, NEXT_UNIT)

/* The page of a text; NO_MEMORY if there is not enough. */
static int page_read(Page *page, const Text *text, bool lower) {
    /* Two also where all was ASCII when it was looked at: memory that others can write to may have changed since. */
    const int64_t most = text->kind <= 1 ? 2 : text->kind == 2 ? 3 : 4;
    if (text->size > INT64_MAX / 8) return NO_MEMORY;
    const int64_t room = text->size * most + BLOCK + PADDING, bits = room / 64 + 3;
    if (!make_room((void **)&page->text, &page->room, room, 1) ||
        !make_room((void **)&page->words, &page->words_room, bits, sizeof *page->words) ||
        !make_room((void **)&page->solid, &page->solid_room, bits, sizeof *page->solid))
        return NO_MEMORY;
    page->words[0] = page->solid[0] = 0;
    page->wide = false;
    page->span_count = 0;
    if (text->kind == UTF8) read_utf8(page, text->data, text->size, lower);
    else if (text->kind == 1) read_narrow(page, text->data, text->size, lower);
    else if (text->kind == 2) read_two(page, text->data, text->size, lower);
    else read_four(page, text->data, text->size, lower);
    /* A last block was filled up with blanks: the bits past the end must be zero, where every run ends. */
    const int64_t last = page->size >> 6;
    const uint64_t inside = ((uint64_t)1 << (page->size & 63)) - 1;
    page->words[last] &= inside;
    page->solid[last] &= inside;
    memset(page->text + page->size, 0, PADDING);
    return 0;
}

/* ---- looking up ---- */

typedef struct {
    int32_t *ids;
    int64_t room;
    int32_t *fields; /* NULL unless wanted */
    int64_t fields_room;
    int64_t size;
    int64_t done, total; /* bytes of text read, and to be read in all */
} Stream;

/* Room for `more` items. What is still to come is judged by what has come, so that long streams seldom move. */
static bool stream_room(Stream *stream, int64_t more, bool fields) {
    const int64_t needed = stream->size + more;
    if (LIKELY(needed <= stream->room && (!fields || needed <= stream->fields_room))) return true;
    if (stream->done > stream->total / 64) {
        const int64_t whole = (int64_t)((double)needed * 1.05 / (double)stream->done * (double)stream->total);
        if (make_room((void **)&stream->ids, &stream->room, whole, sizeof *stream->ids) &&
            (!fields || make_room((void **)&stream->fields, &stream->fields_room, whole, sizeof *stream->fields)))
            return true;
    }
    return make_room((void **)&stream->ids, &stream->room, needed, sizeof *stream->ids) &&
           (!fields || make_room((void **)&stream->fields, &stream->fields_room, needed, sizeof *stream->fields));
}

typedef struct {
    const uint8_t *text;
    int64_t size;
    Key key;
    int32_t field;
} Asked;

/* Questions are gathered so that the slots they concern are on their way while others are answered. */
typedef struct {
    WordSet *words;
    Stream *out;
    bool grow, fields;
    int count;
    Asked asked[BATCH];
} Asking;

/* Answers all that has been asked. */
static int answer(Asking *asking) {
    WordSet *words = asking->words;
    Stream *out = asking->out;
    if (!stream_room(out, asking->count, asking->fields)) return NO_MEMORY;
    int32_t guessed[BATCH];
    for (int i = 0; i < asking->count; i++) {
        guessed[i] = words_guess(words, asking->asked[i].size, asking->asked[i].key.hash);
        if (guessed[i] >= 0) FETCH(words->words + guessed[i]);
    }
    for (int i = 0; i < asking->count; i++) {
        const Asked *asked = asking->asked + i;
        int32_t number = guessed[i];
        if (number == UNKNOWN ? asking->grow : !word_is(words, number, asked->text, asked->size, asked->key))
            number = words_find(words, asked->text, asked->size, asked->key); /* or it came in since */
        if (number == UNKNOWN && asking->grow &&
            (number = words_append(words, asked->text, asked->size, asked->key)) < 0)
            return number;
        if (asking->fields) out->fields[out->size] = asked->field;
        out->ids[out->size++] = number;
    }
    asking->count = 0;
    return 0;
}

/* Asks for a string, PADDING bytes past whose end may be read, and that stays where it is until it is answered. */
static inline int ask(Asking *asking, const uint8_t *text, int64_t size, int32_t field) {
    if (asking->count == BATCH) {
        const int failed = answer(asking);
        if (failed) return failed;
    }
    Asked *asked = asking->asked + asking->count++;
    asked->text = text;
    asked->size = size;
    asked->key = key_of(text, size);
    asked->field = field;
    table_fetch(&asking->words->table, asked->key.hash);
    return 0;
}

/* ---- header fields ---- */

static inline uint32_t unit(const Text *text, int64_t at) {
    if (text->kind == 2) return ((const uint16_t *)text->data)[at];
    if (text->kind == 4) return ((const uint32_t *)text->data)[at];
    return ((const uint8_t *)text->data)[at];
}

static inline bool is_letter(uint32_t c) { return (c | 0x20) - 'a' < 26; }

/* How long the name of the field is that begins at `at`; 0 if there is none. */
static int64_t name_size(const Text *text, int64_t at) {
    if (at >= text->size || !is_letter(unit(text, at))) return 0;
    int64_t end = at + 1;
    for (; end < text->size; end++) {
        const uint32_t c = unit(text, end);
        if (!is_letter(c) && c - '0' >= 10 && c != '-') break;
    }
    return end < text->size && unit(text, end) == ':' ? end - at : 0;
}

/* Where the line after the one at `at` begins. */
static int64_t next_line(const Text *text, int64_t at) {
    while (at < text->size && unit(text, at) != '\n') at++;
    return at < text->size ? at + 1 : at;
}

static bool add_span(Page *page, int64_t start, int32_t field) {
    if (!make_room((void **)&page->spans, &page->spans_room, page->span_count + 1, sizeof *page->spans)) return false;
    page->spans[page->span_count++] = (Span){start, field};
    return true;
}

/* Where on the page which header field is. Names are read from the text as it was given, for lower-casing makes letters
 * of other characters; it never makes or removes a line, so that lines of the page are lines of the text. */
static int find_fields(Page *page, const Text *text, WordSet *words, bool grow) {
    int64_t at = 0, line = 0; /* in the text, and on the page */
    bool inside = false;
    uint8_t *name = NULL;
    int64_t room = 0;
    int out = NO_MEMORY;
    page->span_count = 0;
    if (text->size >= 5 && unit(text, 0) == 'F' && unit(text, 1) == 'r' && unit(text, 2) == 'o' &&
        unit(text, 3) == 'm' && unit(text, 4) == ' ') {
        at = next_line(text, 0);
        const uint8_t *end = memchr(page->text, '\n', (size_t)page->size);
        line = end ? end + 1 - page->text : page->size;
    }
    while (at < text->size) {
        const int64_t size = name_size(text, at);
        const uint32_t first = unit(text, at);
        if (size) {
            if (!make_room((void **)&name, &room, size, 1)) goto done;
            for (int64_t i = 0; i < size; i++) {
                const uint32_t c = unit(text, at + i);
                name[i] = (uint8_t)(c - 'A' < 26 ? c | 0x20 : c);
            }
            const int32_t field = words_number(words, name, size, grow);
            if (field < UNKNOWN) {
                out = field;
                goto done;
            }
            if (!add_span(page, line, UNKNOWN) || !add_span(page, line + size + 1, field)) goto done;
            inside = true;
        } else if (!inside || (first != ' ' && first != '\t')) break;
        at = next_line(text, at);
        const uint8_t *end = memchr(page->text + line, '\n', (size_t)(page->size - line));
        line = end ? end + 1 - page->text : page->size;
    }
    if (inside && !add_span(page, line, UNKNOWN)) goto done;
    out = 0;
done:
    free(name);
    return out;
}

/* ---- tokens ---- */

typedef struct {
    int rule;
    int64_t shortest, longest; /* characters; longest 0: any */
} Rule;

/* Asks for every token of the page. A bit that differs from the one before it is where a run begins or ends. */
static int find_tokens(const Page *page, Rule rule, Asking *asking) {
    const bool both = rule.rule == RULE_PUNCTUATION;
    /* Fewer bytes than this may be too few characters of a word: four bytes are one at least. */
    const int64_t doubtful = rule.rule == RULE_SPACES || rule.shortest <= 1 ? 0 : rule.shortest * (page->wide ? 4 : 1);
    const uint64_t *taken = rule.rule == RULE_WORDS ? page->words : page->solid;
    uint64_t last = 0, last_word = 0;
    int64_t start = -1, span = 0, limit = page->span_count ? page->spans[0].start : INT64_MAX;
    int32_t field = UNKNOWN;
    for (int64_t base = 0; base <= page->size; base += 64) {
        const uint64_t inside = taken[base >> 6], word = page->words[base >> 6];
        uint64_t edges = inside ^ (inside << 1 | last);
        if (both) edges |= word ^ (word << 1 | last_word);
        last = inside >> 63;
        last_word = word >> 63;
        while (edges) {
            const int bit = __builtin_ctzll(edges);
            const int64_t at = base + bit;
            edges &= edges - 1;
            if (start >= 0) {
                const uint8_t *text = page->text + start;
                int64_t size = at - start;
                bool long_enough = true;
                if (size < doubtful)
                    long_enough = (both && !(page->words[start >> 6] >> (start & 63) & 1)) ||
                                  (page->wide && skip_characters(text, size, 0, rule.shortest - 1) < size);
                if (long_enough) {
                    if (rule.longest && size > rule.longest)
                        size = page->wide ? skip_characters(text, size, 0, rule.longest) : rule.longest;
                    while (start >= limit) {
                        field = page->spans[span++].field;
                        limit = span < page->span_count ? page->spans[span].start : INT64_MAX;
                    }
                    const int failed = ask(asking, text, size, field);
                    if (failed) return failed;
                }
            }
            start = inside >> bit & 1 ? at : -1;
        }
    }
    return answer(asking);
}

/* The stream of the words of some texts. `sources` are the texts as they were given. */
static int tokenize_texts(const Text *texts, const Text *sources, int64_t count, bool lower, WordSet *words, bool grow,
                          Rule rule, bool headers, Stream *out, int64_t *indptr) {
    Page page = {0};
    Asking asking = {.words = words, .out = out, .grow = grow, .fields = headers};
    int failed = 0;
    indptr[0] = 0;
    for (int64_t i = 0; i < count; i++) out->total += text_bytes(texts + i);
    for (int64_t i = 0; i < count && !failed; i++) {
        failed = page_read(&page, texts + i, lower);
        if (!failed && headers) failed = find_fields(&page, sources + i, words, grow);
        if (!failed) failed = find_tokens(&page, rule, &asking);
        indptr[i + 1] = out->size;
        out->done += text_bytes(texts + i);
    }
    page_free(&page);
    return failed;
}

/* ---- runs of characters ---- */

/* Makes each run of two or more white spaces one blank. */
static void squeeze_spaces(Page *page) {
    int64_t to = 0, start = 0;
    uint64_t last = page->solid[0] & 1; /* the first stretch begins at 0 and not at an edge */
    bool solid = last;
    for (int64_t base = 0; base <= page->size; base += 64) {
        const uint64_t inside = page->solid[base >> 6];
        uint64_t edges = inside ^ (inside << 1 | last);
        last = inside >> 63;
        const int64_t left = page->size - base;
        if (left < 64) edges = (edges & (((uint64_t)1 << left) - 1)) | (uint64_t)1 << left; /* the end is an edge */
        while (edges) {
            const int64_t at = base + __builtin_ctzll(edges), size = at - start;
            edges &= edges - 1;
            if (!solid && size > 1 && (!page->wide || count_characters(page->text + start, size) > 1)) {
                page->text[to++] = ' ';
            } else {
                memmove(page->text + to, page->text + start, (size_t)size);
                to += size;
            }
            start = at;
            solid = !solid;
        }
    }
    page->size = to;
    memset(page->text + to, 0, PADDING);
}

/* Asks for the runs of n characters. */
static int find_runs(const uint8_t *text, int64_t size, bool wide, int64_t n, Asking *asking) {
    int64_t start = 0, stop = wide ? skip_characters(text, size, 0, n - 1) : n - 1;
    if (stop >= size) return 0;
    while (stop < size) {
        stop = wide ? skip_characters(text, size, stop, 1) : stop + 1;
        const int failed = ask(asking, text + start, stop - start, UNKNOWN);
        if (failed) return failed;
        start = wide ? skip_characters(text, size, start, 1) : start + 1;
    }
    return 0;
}

static int runs_of_texts(const Text *texts, int64_t count, bool lower, WordSet *grams, bool grow, int64_t low,
                         int64_t high, Stream *out, int64_t *indptr) {
    Page page = {0};
    Asking asking = {.words = grams, .out = out, .grow = grow};
    int failed = 0;
    indptr[0] = 0;
    for (int64_t i = 0; i < count; i++) out->total += text_bytes(texts + i);
    for (int64_t i = 0; i < count && !failed; i++) {
        failed = page_read(&page, texts + i, lower);
        if (!failed) squeeze_spaces(&page);
        for (int64_t n = low; n <= high && n <= page.size && !failed; n++)
            failed = find_runs(page.text, page.size, page.wide, n, &asking);
        if (!failed) failed = answer(&asking);
        indptr[i + 1] = out->size;
        out->done += text_bytes(texts + i);
    }
    page_free(&page);
    return failed;
}

/* For each word from `first` on: the runs of it with a blank on both sides. One that is not longer than n characters so
 * is listed once, whole, and then no more. */
static int runs_of_words(const WordSet *words, int64_t first, WordSet *grams, bool grow, int64_t low, int64_t high,
                         Stream *out, int64_t *indptr) {
    Asking asking = {.words = grams, .out = out, .grow = grow};
    uint8_t *text = NULL;
    int64_t room = 0;
    int failed = 0;
    indptr[0] = 0;
    out->total = first < words->size ? words_bytes(words) - words->words[first].start : 0;
    for (int64_t i = first; i < words->size && !failed; i++) {
        const int64_t size = word_size(words, i) + 2;
        if (!make_room((void **)&text, &room, size + PADDING, 1)) {
            failed = NO_MEMORY;
            break;
        }
        text[0] = ' ';
        memcpy(text + 1, word_text(words, i), (size_t)size - 2);
        text[size - 1] = ' ';
        memset(text + size, 0, PADDING);
        const int64_t characters = count_characters(text, size);
        for (int64_t n = low; n <= high && !failed; n++) {
            if (characters <= n) {
                failed = ask(&asking, text, size, UNKNOWN);
                break;
            }
            failed = find_runs(text, size, characters < size, n, &asking);
        }
        if (!failed) failed = answer(&asking);
        indptr[i - first + 1] = out->size;
        out->done += size - 2;
    }
    free(text);
    return failed;
}

/* ---- streams ---- */

/* In each document the pairs (left[i], right[i + shift]), and with a mark those at both ends. */
static int pair_streams(const int32_t *left, const int64_t *left_indptr, const int32_t *right,
                        const int64_t *right_indptr, int64_t count, int64_t shift, PairSet *pairs, bool grow,
                        int32_t mark, Stream *out, int64_t *indptr) {
    Ring ring;
    indptr[0] = 0;
    if (!stream_room(out, left_indptr[count] - left_indptr[0] + (mark < 0 ? 0 : 2 * count), false)) return NO_MEMORY;
    for (int64_t d = 0; d < count; d++) {
        const int32_t *a = left + left_indptr[d], *b = right + right_indptr[d];
        const int64_t as = left_indptr[d + 1] - left_indptr[d], bs = right_indptr[d + 1] - right_indptr[d];
        int64_t both = bs > shift ? bs - shift : 0;
        if (as < both) both = as;
        const bool before = mark >= 0 && bs > 0, after = mark >= 0 && as > 0;
        const int64_t total = both + before + after;
        int32_t *ids = out->ids + out->size;
        for (int64_t i = 0; i < total + AHEAD; i++) {
            const int64_t done = i - AHEAD, half = i - AHEAD / 2, at = i - before;
            if (done >= 0) {
                const uint64_t pair = ring.pairs[done % AHEAD];
                const int32_t number =
                    pair & NEGATIVE ? UNKNOWN : pairs_number(pairs, pair, ring.hashes[done % AHEAD], grow);
                if (number < UNKNOWN) return number;
                ids[done] = number;
            }
            if (half >= 0 && half < total) ring_half_way(&ring, pairs, half);
            if (i < total)
                ring_enter(&ring, pairs, i,
                           at < 0      ? pair_of(mark, b[0])
                           : at < both ? pair_of(a[at], b[at + shift])
                                       : pair_of(a[as - 1], mark));
        }
        out->size += total;
        indptr[d + 1] = out->size;
    }
    return 0;
}

/* Each item replaced by its list in the table. */
static int spread_stream(const int32_t *ids, const int64_t *indptr, int64_t count, const int32_t *table,
                         const int64_t *table_indptr, int64_t table_size, Stream *out, int64_t *out_indptr) {
    int64_t total = 0;
    for (int64_t i = indptr[0]; i < indptr[count]; i++) {
        if (ids[i] >= table_size) return BAD_NUMBER;
        if (ids[i] >= 0) total += table_indptr[ids[i] + 1] - table_indptr[ids[i]];
    }
    if (!stream_room(out, total, false)) return NO_MEMORY;
    out_indptr[0] = 0;
    for (int64_t d = 0; d < count; d++) {
        for (int64_t i = indptr[d]; i < indptr[d + 1]; i++) {
            const int32_t id = ids[i];
            if (id < 0) continue;
            const int64_t start = table_indptr[id], size = table_indptr[id + 1] - start;
            for (int64_t k = 0; k < size; k++) out->ids[out->size + k] = table[start + k];
            out->size += size;
        }
        out_indptr[d + 1] = out->size;
    }
    return 0;
}

/* Without the unwanted items. */
static int drop_stream(const int32_t *ids, const int64_t *indptr, int64_t count, const uint8_t *unwanted, int64_t size,
                       Stream *out, int64_t *out_indptr) {
    if (!stream_room(out, indptr[count] - indptr[0], false)) return NO_MEMORY;
    out_indptr[0] = 0;
    for (int64_t d = 0; d < count; d++) {
        int32_t *to = out->ids + out->size;
        int64_t kept = 0;
        for (int64_t i = indptr[d]; i < indptr[d + 1]; i++) {
            const int32_t id = ids[i];
            if (id >= size) return BAD_NUMBER;
            to[kept] = id;
            kept += id < 0 || !unwanted[id];
        }
        out->size += kept;
        out_indptr[d + 1] = out->size;
    }
    return 0;
}

/* ---- counts ---- */

enum { LEVELS = 3 };

/* Which of `size` items a document has: bit i of level 0 is item i, bit i of level l + 1 says that word i of level l is
 * not zero. So the items come out in their order without being sorted. The words of the last level, each of which
 * stands for 64^3 items, are few enough to look at all of them. */
typedef struct {
    uint64_t *bits[LEVELS];
    int64_t words; /* of the last level */
    uint32_t *counts;
} Tally;

static void tally_free(Tally *tally) {
    for (int l = 0; l < LEVELS; l++) free(tally->bits[l]);
    free(tally->counts);
}

static bool tally_make(Tally *tally, int64_t size) {
    memset(tally, 0, sizeof *tally);
    tally->words = size;
    for (int l = 0; l < LEVELS; l++) {
        tally->words = (tally->words + 63) / 64;
        if (!(tally->bits[l] = calloc((size_t)tally->words + 1, sizeof(uint64_t)))) return false;
    }
    return (tally->counts = calloc((size_t)size + 1, sizeof *tally->counts)) != NULL;
}

static inline void set_bit(uint64_t *bits, uint32_t at) { bits[at >> 6] |= (uint64_t)1 << (at & 63); }

static inline uint64_t take_word(uint64_t *word) {
    const uint64_t out = *word;
    *word = 0;
    return out;
}

typedef struct {
    int64_t *counts;
    int64_t counts_room;
    int32_t *indices;
    int64_t indices_room;
    int64_t size;
} Counted;

static inline void write_down(Counted *out, int32_t item, int64_t count) {
    out->indices[out->size] = item;
    out->counts[out->size++] = count;
}

/* Writes down the items and how often they came, in order, and forgets them. */
static void tally_list(Tally *tally, Counted *out) {
    for (int64_t top = 0; top < tally->words; top++)
        for (uint64_t tops = take_word(tally->bits[2] + top); tops; tops &= tops - 1) {
            const int64_t middle = top * 64 + __builtin_ctzll(tops);
            for (uint64_t middles = take_word(tally->bits[1] + middle); middles; middles &= middles - 1) {
                const int64_t low = middle * 64 + __builtin_ctzll(middles);
                for (uint64_t lows = take_word(tally->bits[0] + low); lows; lows &= lows - 1) {
                    const int64_t item = low * 64 + __builtin_ctzll(lows);
                    write_down(out, (int32_t)item, tally->counts[item]);
                    tally->counts[item] = 0;
                }
            }
        }
}

/* Counts with a tally as large as the vocabulary: for many documents. */
static int count_by_tally(const int32_t *ids, const int64_t *indptr, int64_t count, int64_t size, Counted *out,
                          int64_t *out_indptr) {
    Tally tally;
    int failed = tally_make(&tally, size) ? 0 : NO_MEMORY;
    for (int64_t d = 0; d < count && !failed; d++) {
        if (indptr[d + 1] - indptr[d] > UINT32_MAX) failed = TOO_MANY;
        for (int64_t i = indptr[d]; i < indptr[d + 1] && !failed; i++) {
            const int32_t id = ids[i];
            if (id >= size) failed = BAD_NUMBER;
            if (id < 0 || id >= size) continue;
            tally.counts[id]++;
            set_bit(tally.bits[0], (uint32_t)id);
            set_bit(tally.bits[1], (uint32_t)id >> 6);
            set_bit(tally.bits[2], (uint32_t)id >> 12);
        }
        if (!failed) tally_list(&tally, out);
        out_indptr[d + 1] = out->size;
    }
    tally_free(&tally);
    return failed;
}

/* Sorts numbers from 0 to below `size`, a byte at a time; returns which of the two arrays they are in then. */
static int32_t *sort_numbers(int32_t *numbers, int32_t *other, int64_t count, int64_t size) {
    for (int shift = 0; shift < 32 && (size - 1) >> shift > 0; shift += 8) {
        int64_t starts[257] = {0};
        for (int64_t i = 0; i < count; i++) starts[(numbers[i] >> shift & 0xFF) + 1]++;
        for (int k = 0; k < 256; k++) starts[k + 1] += starts[k];
        for (int64_t i = 0; i < count; i++) other[starts[numbers[i] >> shift & 0xFF]++] = numbers[i];
        int32_t *held = numbers;
        numbers = other;
        other = held;
    }
    return numbers;
}

/* Counts by sorting: for so few items that making a tally would take longer. */
static int count_by_sorting(const int32_t *ids, const int64_t *indptr, int64_t count, int64_t size, Counted *out,
                            int64_t *out_indptr) {
    const size_t most = (size_t)(indptr[count] - indptr[0]) + 1;
    int32_t *known = malloc(2 * most * sizeof *known);
    if (!known) return NO_MEMORY;
    int failed = 0;
    for (int64_t d = 0; d < count && !failed; d++) {
        int64_t kept = 0;
        for (int64_t i = indptr[d]; i < indptr[d + 1]; i++) {
            if (ids[i] >= size) failed = BAD_NUMBER;
            else if (ids[i] >= 0) known[kept++] = ids[i];
        }
        const int32_t *sorted = failed ? known : sort_numbers(known, known + most, kept, size);
        for (int64_t i = 0, next; i < kept && !failed; i = next) {
            for (next = i + 1; next < kept && sorted[next] == sorted[i]; next++) continue;
            write_down(out, sorted[i], next - i);
        }
        out_indptr[d + 1] = out->size;
    }
    free(known);
    return failed;
}

/* In each document the distinct items, ascending, and how often they occur. */
static int count_stream(const int32_t *ids, const int64_t *indptr, int64_t count, int64_t size, Counted *out,
                        int64_t *out_indptr) {
    const int64_t most = indptr[count] - indptr[0];
    out_indptr[0] = 0;
    if (!make_room((void **)&out->counts, &out->counts_room, most, sizeof *out->counts) ||
        !make_room((void **)&out->indices, &out->indices_room, most, sizeof *out->indices))
        return NO_MEMORY;
    return most < size / 16 ? count_by_sorting(ids, indptr, count, size, out, out_indptr)
                            : count_by_tally(ids, indptr, count, size, out, out_indptr);
}

/* ---- strings of pairs ---- */

/* Adds left + between + right for every pair. */
static int join_pairs(WordSet *out, const WordSet *left, const PairSet *pairs, const WordSet *right,
                      const uint8_t *between, int64_t between_size) {
    uint8_t *text = NULL;
    int64_t room = 0;
    int failed = words_reserve(out, pairs->size) ? 0 : NO_MEMORY;
    for (int64_t i = 0; i < pairs->size && !failed; i++) {
        const int64_t a = (int64_t)(pairs->pairs[i] >> 32), b = (int64_t)(pairs->pairs[i] & 0xFFFFFFFF);
        if (a >= left->size || b >= right->size) {
            failed = BAD_NUMBER;
            break;
        }
        const int64_t first = word_size(left, a), second = word_size(right, b), size = first + between_size + second;
        if (!make_room((void **)&text, &room, size + PADDING, 1)) {
            failed = NO_MEMORY;
            break;
        }
        memcpy(text, word_text(left, a), (size_t)first);
        memcpy(text + first, between, (size_t)between_size);
        memcpy(text + first + between_size, word_text(right, b), (size_t)second);
        const int32_t number = words_number(out, text, size, true);
        if (number < 0) failed = number;
        else if (number < i) failed = REPEATED;
    }
    free(text);
    return failed;
}

#endif
