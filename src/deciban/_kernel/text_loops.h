/* From texts to numbers: characters are read and lower-cased, runs of them detected, and the runs looked up.
 *
 * A text of any width becomes a Page: its characters in UTF-8, and two bit arrays, one bit per byte: which bytes belong
 * to word characters, and which to anything but white space. Under the rule "scripts" there is a third one: where a
 * token starts although the others do not change. Sixty-four ASCII characters are processed at a time, others one by
 * one. Tokens follow from the bits alone: one loop for all widths and rules. */
#ifndef DECIBAN_TEXT_LOOPS_H
#define DECIBAN_TEXT_LOOPS_H

#include "text_characters.h"

enum { BLOCK = 64, BATCH = 32, SLOW = 16 /* characters of up to four bytes: at most a block */ };
enum { UTF8 = 0 };
enum { STRETCH = 16 }; /* longest run of letters that are tokens of their own */
enum { RULE_WORDS = 0, RULE_PUNCTUATION = 1, RULE_SPACES = 2, RULE_SCRIPTS = 3, RULE_SCRIPT_WORDS = 4 };

/* ---- texts ---- */

typedef struct {
    const void *data;
    int64_t size;  /* in units: bytes of UTF-8, or characters */
    uint8_t kind;  /* bytes a character, or UTF8 */
    uint8_t ascii; /* known to be all ASCII */
    uint8_t normal; /* characters are replaced by their normal forms */
} Text;

static inline int64_t text_bytes(const Text *text) { return text->size * (text->kind ? text->kind : 1); }

/* A string as it is in memory. */
static Text text_of_string(PyObject *string) {
    const Text out = {PyUnicode_DATA(string), PyUnicode_GET_LENGTH(string), (uint8_t)PyUnicode_KIND(string),
                      (uint8_t)PyUnicode_IS_ASCII(string), false};
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
    const Text out = {data, size, UTF8, false, false};
    return out;
}

/* Whether bytes are valid UTF-8; strings always are. Records whether they are all ASCII. */
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

/* Whether lower-casing is not one character for one: capital sigma depends on its neighbours, and
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

enum { IS_NORMAL, IS_NORMAL_ONE_BY_ONE, IS_NORMAL_IN_CONTEXT };

/* What it takes to normalise a text. */
static int normality(const Text *text) {
    uint8_t last = 0; /* combining class of the character before */
    bool replaced = false;
    if (text->ascii) return IS_NORMAL;
#define LOOK(UNIT, NOT_ASCII, CHARACTER)                                                                               \
    for (int64_t i = 0; i < text->size;) {                                                                             \
        const int64_t width = sizeof(UNIT), eight = 8 / width;                                                         \
        if (i + eight <= text->size && !(eight_bytes((const uint8_t *)text->data + i * width) & NOT_ASCII)) {          \
            i += eight;                                                                                                \
            last = 0;                                                                                                  \
            continue;                                                                                                  \
        }                                                                                                              \
        const uint8_t own = normal_class(CHARACTER);                                                                   \
        if (LIKELY(own == 0 || own == IS_REPLACED)) {                                                                  \
            replaced |= own != 0;                                                                                      \
            last = 0;                                                                                                  \
        } else {                                                                                                       \
            if (own == IS_AWKWARD || own < last) return IS_NORMAL_IN_CONTEXT; /* or marks in another order */          \
            last = own;                                                                                                \
        }                                                                                                              \
    }
    if (text->kind == UTF8) {
        LOOK(uint8_t, 0x8080808080808080u, read_character(text->data, text->size, &i))
    } else if (text->kind == 1) {
        LOOK(uint8_t, 0x8080808080808080u, ((const uint8_t *)text->data)[i++])
    } else if (text->kind == 2) {
        LOOK(uint16_t, 0xFF80FF80FF80FF80u, ((const uint16_t *)text->data)[i++])
    } else {
        LOOK(uint32_t, 0xFFFFFF80FFFFFF80u, ((const uint32_t *)text->data)[i++])
    }
#undef LOOK
    return replaced ? IS_NORMAL_ONE_BY_ONE : IS_NORMAL;
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
    uint64_t *cuts; /* bit i: a token starts at byte i, whatever the other bits are; used with `scripts` */
    int64_t cuts_room;
    uint64_t *alone; /* bit i: byte i belongs to a letter that is a token; used with `scripts` */
    int64_t alone_room;
    bool wide;    /* not all of it is ASCII */
    bool scripts; /* read under the rule "scripts", and not all ASCII */
    bool mixed;   /* has letters that look like Latin ones */
    Span *spans; /* header fields: what starts at or after spans[i].start is in spans[i].field */
    int64_t spans_room;
    int64_t span_count;
} Page;

static void page_free(Page *page) {
    free(page->text);
    free(page->words);
    free(page->solid);
    free(page->cuts);
    free(page->alone);
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

/* Appends the lowest bits of `mask` at bit `at`; all bits from there on must be zero in the word of `at`. */
static inline void put_bits(uint64_t *bits, int64_t at, uint64_t mask) {
    const int64_t word = at >> 6;
    const int part = (int)(at & 63);
    bits[word] |= mask << part;
    bits[word + 1] = part ? mask >> (64 - part) : 0;
}

/* A block of ASCII: to[i] is its character i, in lower case if requested, and the bits are its kind. */
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

/* How texts are read. */
typedef struct {
    bool lower, scripts;
} Reading;

/* The previous character, not counting marks; JOINS is added if the next one belongs to the same token. */
enum { JOINS = 8, STATES = 16 };

enum { TAKES_WORD = 16, TAKES_SOLID = 32, TAKES_CUT = 64, TAKES_ALONE = 128 };

/* Which bits a character sets under the rule "scripts", and below TAKES_WORD its effect on the next one. */
static int step_of(uint32_t before, uint32_t kind) {
    const bool joins = before & JOINS;
    bool joined = true, joins_next;
    before &= JOINS - 1;
    if (kind >= KIND_MARK && before != KIND_SPACE) {
        joins_next = (kind == KIND_STACKER && before == KIND_ALONE) || (kind == KIND_JOINER && before == KIND_PICTOGRAPH);
        kind = before;
    } else {
        if (kind >= KIND_MARK) kind = KIND_OTHER;
        joined = joins && kind == before;
        joins_next = kind == KIND_REGIONAL && !joined;
        joined |= kind == before && kind < KIND_ALONE;
    }
    return (int)kind | (joins_next ? JOINS : 0) | (kind == KIND_LETTER || kind == KIND_ALONE ? TAKES_WORD : 0) |
           (kind == KIND_SPACE ? 0 : TAKES_SOLID) | (joined ? 0 : TAKES_CUT) | (kind == KIND_ALONE ? TAKES_ALONE : 0);
}

static uint8_t steps[STATES][KIND_HIDDEN]; /* filled at import */

static void fill_steps(void) {
    for (uint32_t before = 0; before < STATES; before++)
        for (uint32_t kind = 0; kind < KIND_HIDDEN; kind++) steps[before][kind] = (uint8_t)step_of(before, kind);
}

#define NEXT_UNIT(from, n, i) ((uint32_t)(from)[(*(i))++])

/* Fills the page from units of one width. */
#define DEFINE_READ(NAME, UNIT, NEXT)                                                                                  \
    static ALWAYS_INLINE void NAME(Page *page, const UNIT *from, int64_t n, bool lower, bool normal,                   \
                                   const bool scripts) {                                                               \
        int64_t at = 0, i = 0;                                                                                         \
        uint64_t words, solid, cuts, alone_;                                                                           \
        uint32_t before = KIND_SPACE;                                                                                  \
        bool mixed = false;                                                                                            \
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
                if (scripts) {                                                                                         \
                    const int last = (int)taken - 1;                                                                   \
                    cuts = (before & (JOINS - 1)) >= KIND_ALONE, alone_ = 0;                                           \
                    before = words >> last & 1 ? KIND_LETTER : solid >> last & 1 ? KIND_OTHER : KIND_SPACE;            \
                }                                                                                                      \
            } else {                                                                                                   \
                words = solid = cuts = alone_ = 0;                                                                     \
                taken = 0;                                                                                             \
                for (int k = 0; k < SLOW && i < n; k++) {                                                              \
                    uint32_t c = NEXT(from, n, &i);                                                                    \
                    if (normal) c = normal_form(c);                                                                    \
                    const uint32_t known = known_character(c);                                                         \
                    if (scripts && kind_of(known) == KIND_HIDDEN) continue;                                            \
                    const int size = write_character(page->text + at + taken, lower ? known & LOWER_BITS : c);         \
                    const uint64_t own = (((uint64_t)1 << size) - 1) << taken;                                         \
                    if (scripts) {                                                                                     \
                        const uint32_t step = steps[before][kind_of(known)];                                           \
                        before = step & (STATES - 1);                                                                  \
                        words |= step & TAKES_WORD ? own : 0;                                                          \
                        solid |= step & TAKES_SOLID ? own : 0;                                                         \
                        cuts |= (uint64_t)(step & TAKES_CUT ? 1 : 0) << taken;                                         \
                        alone_ |= step & TAKES_ALONE ? own : 0;                                                        \
                        mixed |= is_look_alike(c);                                                                     \
                    } else {                                                                                           \
                        words |= known & IS_WORD ? own : 0;                                                            \
                        solid |= known & IS_SPACE ? 0 : own;                                                           \
                    }                                                                                                  \
                    taken += size;                                                                                     \
                }                                                                                                      \
                page->wide = true;                                                                                     \
            }                                                                                                          \
            put_bits(page->words, at, words);                                                                          \
            put_bits(page->solid, at, solid);                                                                          \
            if (scripts) put_bits(page->cuts, at, cuts), put_bits(page->alone, at, alone_);                            \
            at += taken;                                                                                               \
        }                                                                                                              \
        page->size = at;                                                                                               \
        page->mixed = mixed;                                                                                           \
    }

/* For each width, with and without the rule of scripts; separate functions, so that each loop has all registers. */
#define DEFINE_READS(NAME, UNIT, NEXT)                                                                                 \
    DEFINE_READ(NAME, UNIT, NEXT)                                                                                      \
    static NEVER_INLINE void NAME##_by_script(Page *page, const Text *text, bool lower) {                              \
        NAME(page, text->data, text->size, lower, text->normal, true);                                                 \
    }                                                                                                                  \
    static NEVER_INLINE void NAME##_by_spaces(Page *page, const Text *text, bool lower) {                              \
        NAME(page, text->data, text->size, lower, text->normal, false);                                                \
    }

DEFINE_READS(read_narrow, uint8_t, NEXT_UNIT)
DEFINE_READS(read_utf8, uint8_t, read_character)
DEFINE_READS(read_two, uint16_t, NEXT_UNIT)
DEFINE_READS(read_four, uint32_t, NEXT_UNIT)

/* The page of a text; NO_MEMORY if memory runs out. */
static int page_read(Page *page, const Text *text, Reading how) {
    /* Two even if all was ASCII when it was checked: shared memory may have changed since. */
    const int64_t most = text->kind <= 1 ? 2 : text->kind == 2 ? 3 : 4;
    if (text->size > INT64_MAX / 8) return NO_MEMORY;
    const int64_t room = text->size * most + BLOCK + PADDING, bits = room / 64 + 3;
    page->scripts = how.scripts && !text->ascii;
    if (!make_room((void **)&page->text, &page->room, room, 1) ||
        !make_room((void **)&page->words, &page->words_room, bits, sizeof *page->words) ||
        !make_room((void **)&page->solid, &page->solid_room, bits, sizeof *page->solid) ||
        (page->scripts && (!make_room((void **)&page->cuts, &page->cuts_room, bits, sizeof *page->cuts) ||
                           !make_room((void **)&page->alone, &page->alone_room, bits, sizeof *page->alone))))
        return NO_MEMORY;
    page->words[0] = page->solid[0] = 0;
    page->wide = false;
    page->span_count = 0;
    if (page->scripts) page->cuts[0] = page->alone[0] = 0;
    if (text->kind == UTF8) (page->scripts ? read_utf8_by_script : read_utf8_by_spaces)(page, text, how.lower);
    else if (text->kind == 1) (page->scripts ? read_narrow_by_script : read_narrow_by_spaces)(page, text, how.lower);
    else if (text->kind == 2) (page->scripts ? read_two_by_script : read_two_by_spaces)(page, text, how.lower);
    else (page->scripts ? read_four_by_script : read_four_by_spaces)(page, text, how.lower);
    /* The last block was padded with blanks: bits past the end must be zero, so that every run ends. */
    const int64_t last = page->size >> 6;
    const uint64_t inside = ((uint64_t)1 << (page->size & 63)) - 1;
    page->words[last] &= inside;
    page->solid[last] &= inside;
    if (page->scripts) page->cuts[last] &= inside, page->alone[last] &= inside;
    memset(page->text + page->size, 0, PADDING);
    return 0;
}

/* ---- looking up ---- */

typedef struct {
    int32_t *ids;
    int64_t room;
    int32_t *fields; /* NULL unless requested */
    int64_t fields_room;
    int64_t size;
    int64_t done, total; /* bytes of text read so far, and in all */
} Stream;

/* Room for `more` items. The rest is estimated from what was read so far, so that long streams are rarely moved. */
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

/* Where strings are looked up: in sets that stay as they are, one after the other, and then in one that may grow. They
 * are numbered in this order, those of one set after those of the set before it. */
enum { FIXED = 2 };

typedef struct {
    const WordSet *fixed[FIXED]; /* NULL: none */
    WordSet *words;              /* NULL: none; then what the others do not know is UNKNOWN */
    bool grow;
} Layers;

static inline Layers layers_of(WordSet *words, bool grow) { return (Layers){{NULL, NULL}, words, grow}; }

static inline int64_t fixed_size(const Layers *layers) {
    return (layers->fixed[0] ? layers->fixed[0]->size : 0) + (layers->fixed[1] ? layers->fixed[1]->size : 0);
}

/* The number of a string that the first set does not have; `text` may be read up to PADDING bytes past its end. */
static NEVER_INLINE int32_t number_beyond(const Layers *layers, const uint8_t *text, int64_t size, Key key) {
    int64_t before = layers->fixed[0]->size;
    if (layers->fixed[1]) {
        const int32_t number = words_find(layers->fixed[1], text, size, key);
        if (number != UNKNOWN) return (int32_t)(before + number);
        before += layers->fixed[1]->size;
    }
    if (!layers->words) return UNKNOWN;
    int32_t number = words_find(layers->words, text, size, key);
    if (number == UNKNOWN && layers->grow) number = words_append(layers->words, text, size, key);
    if (number < 0) return number;
    return before + number > INT32_MAX ? TOO_MANY : (int32_t)(before + number);
}

/* The number of a string in memory that is not the sets' own. */
static int32_t layered_number(const Layers *layers, const uint8_t *text, int64_t size) {
    if (!layers->fixed[0]) return words_number(layers->words, text, size, layers->grow);
    const Key key = key_of_only(text, size);
    const int32_t number = words_find(layers->fixed[0], text, size, key);
    return number == UNKNOWN ? number_beyond(layers, text, size, key) : number;
}

/* Lookups are batched, so that their slots are prefetched while others are resolved. */
typedef struct {
    Layers layers;
    Stream *out;
    bool fields;
    int count;
    Asked asked[BATCH];
} Asking;

/* Where most strings are. */
static inline const WordSet *first_set(const Asking *asking) {
    return asking->layers.fixed[0] ? asking->layers.fixed[0] : asking->layers.words;
}

/* Resolves all pending lookups. */
static int answer(Asking *asking) {
    WordSet *words = asking->layers.words;
    const WordSet *first = first_set(asking);
    const bool layered = asking->layers.fixed[0], grow = asking->layers.grow && !layered;
    Stream *out = asking->out;
    if (!stream_room(out, asking->count, asking->fields)) return NO_MEMORY;
    int32_t guessed[BATCH];
    for (int i = 0; i < asking->count; i++) {
        guessed[i] = words_guess(first, asking->asked[i].size, asking->asked[i].key.hash);
        if (guessed[i] >= 0) FETCH(first->words + guessed[i]);
    }
    for (int i = 0; i < asking->count; i++) {
        const Asked *asked = asking->asked + i;
        int32_t number = guessed[i];
        if (number == UNKNOWN ? grow : !word_is(first, number, asked->text, asked->size, asked->key))
            number = words_find(first, asked->text, asked->size, asked->key); /* or it was added since */
        if (number == UNKNOWN && layered) {
            number = number_beyond(&asking->layers, asked->text, asked->size, asked->key);
            if (number < UNKNOWN) return number;
        }
        if (number == UNKNOWN && grow && (number = words_append(words, asked->text, asked->size, asked->key)) < 0)
            return number;
        if (asking->fields) out->fields[out->size] = asked->field;
        out->ids[out->size++] = number;
    }
    asking->count = 0;
    return 0;
}

/* Queues the lookup of a string, PADDING bytes past whose end may be read, and which must not move until it is resolved. */
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
    table_fetch(&first_set(asking)->table, asked->key.hash);
    return 0;
}

/* ---- header fields ---- */

static inline uint32_t unit(const Text *text, int64_t at) {
    if (text->kind == 2) return ((const uint16_t *)text->data)[at];
    if (text->kind == 4) return ((const uint32_t *)text->data)[at];
    return ((const uint8_t *)text->data)[at];
}

static inline bool is_letter(uint32_t c) { return (c | 0x20) - 'a' < 26; }

/* The length of the field name that starts at `at`; 0 if there is none. */
static int64_t name_size(const Text *text, int64_t at) {
    if (at >= text->size || !is_letter(unit(text, at))) return 0;
    int64_t end = at + 1;
    for (; end < text->size; end++) {
        const uint32_t c = unit(text, end);
        if (!is_letter(c) && c - '0' >= 10 && c != '-') break;
    }
    return end < text->size && unit(text, end) == ':' ? end - at : 0;
}

/* Where the line after the one at `at` starts. */
static int64_t next_line(const Text *text, int64_t at) {
    while (at < text->size && unit(text, at) != '\n') at++;
    return at < text->size ? at + 1 : at;
}

static bool add_span(Page *page, int64_t start, int32_t field) {
    if (!make_room((void **)&page->spans, &page->spans_room, page->span_count + 1, sizeof *page->spans)) return false;
    page->spans[page->span_count++] = (Span){start, field};
    return true;
}

/* Where each header field is on the page. Names are read from the text as given, because lower-casing makes letters
 * of other characters; it never makes or removes a line, so that lines of the page are lines of the text. */
static int find_fields(Page *page, const Text *text, const Layers *words) {
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
            const int32_t field = layered_number(words, name, size);
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

/* Whether a run of so many bytes has enough characters; punctuation and letters that are tokens always have. */
static bool long_enough(const Page *page, Rule rule, bool both, int64_t start, int64_t size) {
    const uint64_t bit = (uint64_t)1 << (start & 63);
    if (both && (!(page->words[start >> 6] & bit) || (page->scripts && page->alone[start >> 6] & bit))) return true;
    return page->wide && skip_characters(page->text + start, size, 0, rule.shortest - 1) < size;
}

/* The extra token after a word with both Latin letters and letters that look like them. No token contains a blank. */
#define MIXED_SCRIPTS "\xE2\x9F\xA8mixed scripts\xE2\x9F\xA9"
static const char mixed_scripts[sizeof MIXED_SCRIPTS - 1 + PADDING] = MIXED_SCRIPTS;

static bool mixes_scripts(const uint8_t *text, int64_t size) {
    bool latin = false, look_alike = false;
    for (int64_t at = 0; at < size;) {
        const uint32_t c = read_character(text, size, &at);
        latin |= is_latin(c);
        look_alike |= is_look_alike(c);
    }
    return latin && look_alike;
}

/* Looks up the extra token after such a word, if this is one. */
static NEVER_INLINE int ask_whether_mixed(Asking *asking, const uint8_t *text, int64_t size, int32_t noted) {
    if (!mixes_scripts(text, size)) return 0;
    return ask(asking, (const uint8_t *)mixed_scripts, sizeof MIXED_SCRIPTS - 1, noted);
}

/* Looks up every token of the page. A bit that differs from the one before it is where a run starts or ends. With
 * `places`, the start of each is recorded instead of its field. */
static ALWAYS_INLINE int find_tokens_of(const Page *page, Rule rule, const bool scripts, const bool places,
                                        Asking *asking) {
    const bool both = rule.rule == RULE_PUNCTUATION || rule.rule == RULE_SCRIPTS;
    /* Fewer bytes than this may be too few characters of a word: four bytes hold at least one. */
    const int64_t doubtful = rule.rule == RULE_SPACES || rule.shortest <= 1 ? 0 : rule.shortest * (page->wide ? 4 : 1);
    const bool words_only = rule.rule == RULE_WORDS || rule.rule == RULE_SCRIPT_WORDS;
    const uint64_t *taken = words_only ? page->words : page->solid;
    uint64_t last = 0, last_word = 0;
    int64_t start = -1, span = 0, limit = page->span_count ? page->spans[0].start : INT64_MAX;
    int32_t field = UNKNOWN;
    for (int64_t base = 0; base <= page->size; base += 64) {
        const uint64_t word = page->words[base >> 6];
        uint64_t inside = taken[base >> 6];
        if (scripts && words_only) inside &= ~page->alone[base >> 6];
        uint64_t edges = inside ^ (inside << 1 | last);
        if (both) edges |= word ^ (word << 1 | last_word);
        if (scripts) edges |= page->cuts[base >> 6];
        last = inside >> 63;
        last_word = word >> 63;
        while (edges) {
            const int bit = __builtin_ctzll(edges);
            const int64_t at = base + bit;
            edges &= edges - 1;
            if (start >= 0) {
                const uint8_t *text = page->text + start;
                int64_t size = at - start;
                if (size >= doubtful || long_enough(page, rule, both, start, size)) {
                    if (rule.longest && size > rule.longest)
                        size = page->wide ? skip_characters(text, size, 0, rule.longest) : rule.longest;
                    while (start >= limit) {
                        field = page->spans[span++].field;
                        limit = span < page->span_count ? page->spans[span].start : INT64_MAX;
                    }
                    const int32_t noted = places ? (int32_t)start : field;
                    int failed = ask(asking, text, size, noted);
                    if (scripts && page->mixed && both && !failed)
                        failed = ask_whether_mixed(asking, text, size, noted);
                    if (failed) return failed;
                }
            }
            start = inside >> bit & 1 ? at : -1;
        }
    }
    return answer(asking);
}

static NEVER_INLINE int find_tokens_by_spaces(const Page *page, Rule rule, Asking *asking) {
    return find_tokens_of(page, rule, false, false, asking);
}

static NEVER_INLINE int find_tokens_by_script(const Page *page, Rule rule, Asking *asking) {
    return find_tokens_of(page, rule, true, false, asking);
}

static NEVER_INLINE int find_places(const Page *page, Rule rule, Asking *asking) {
    return find_tokens_of(page, rule, page->scripts, true, asking);
}

static int find_tokens(const Page *page, Rule rule, bool places, Asking *asking) {
    return (places ? find_places : page->scripts ? find_tokens_by_script : find_tokens_by_spaces)(page, rule, asking);
}

/* The stream of the words of some texts. `sources` are the texts as given. */
static int tokenize_layered(const Text *texts, const Text *sources, int64_t count, bool lower, const Layers *words,
                            Rule rule, bool headers, bool places, Stream *out, int64_t *indptr) {
    Page page = {0};
    Asking asking = {.layers = *words, .out = out, .fields = headers || places};
    const Reading how = {lower, rule.rule == RULE_SCRIPTS || rule.rule == RULE_SCRIPT_WORDS};
    int failed = 0;
    indptr[0] = 0;
    for (int64_t i = 0; i < count; i++) out->total += text_bytes(texts + i);
    for (int64_t i = 0; i < count && !failed; i++) {
        failed = page_read(&page, texts + i, how);
        if (!failed && headers) failed = find_fields(&page, sources + i, words);
        if (!failed) failed = find_tokens(&page, rule, places, &asking);
        indptr[i + 1] = out->size;
        out->done += text_bytes(texts + i);
    }
    page_free(&page);
    return failed;
}

static int tokenize_texts(const Text *texts, const Text *sources, int64_t count, bool lower, WordSet *words, bool grow,
                          Rule rule, bool headers, bool places, Stream *out, int64_t *indptr) {
    const Layers layers = layers_of(words, grow);
    return tokenize_layered(texts, sources, count, lower, &layers, rule, headers, places, out, indptr);
}

/* to[i] = the byte of the page where character i of a string starts, and last how many there are; the string is
 * neither lower-cased nor brought into normal form. */
static void places_of_characters(const Text *text, bool scripts, int64_t *to) {
    int64_t at = 0;
    for (int64_t i = 0; i < text->size; i++) {
        uint8_t written[4];
        const uint32_t c = unit(text, i);
        to[i] = at;
        at += scripts && kind_of(known_character(c)) == KIND_HIDDEN ? 0 : write_character(written, c);
    }
    to[text->size] = at;
}

/* ---- runs of characters ---- */

/* Makes each run of two or more white spaces one blank. */
static void squeeze_spaces(Page *page) {
    int64_t to = 0, start = 0;
    uint64_t last = page->solid[0] & 1; /* the first stretch starts at 0, not at an edge */
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

enum { EACH_BYTE, EACH_CHARACTER, EACH_CLUSTER /* a character with its marks */ };

/* Where the next of them end, or where the text ends. */
static inline int64_t skip_units(const uint8_t *text, int64_t size, int64_t at, int64_t count, int each) {
    if (each == EACH_BYTE) return at + count < size ? at + count : size;
    if (each == EACH_CHARACTER) return skip_characters(text, size, at, count);
    while (count-- > 0 && at < size) {
        const bool blank = text[at] == ' '; /* marks without a base character count as characters */
        at = skip_characters(text, size, at, 1);
        if (blank) continue;
        for (int64_t next = at; next < size; at = next)
            if (kind_of(known_character(read_character(text, size, &next))) < KIND_MARK) break;
    }
    return at;
}

/* Looks up the runs of n units. */
static int find_runs(const uint8_t *text, int64_t size, int each, int64_t n, Asking *asking) {
    int64_t start = 0, stop = skip_units(text, size, 0, n - 1, each);
    while (stop < size) {
        stop = skip_units(text, size, stop, 1, each);
        const int failed = ask(asking, text + start, stop - start, UNKNOWN);
        if (failed) return failed;
        start = skip_units(text, size, start, 1, each);
    }
    return 0;
}

/* Looks up the runs of `low` to `high` adjacent letters that are tokens. */
static int find_stretches(const Page *page, int64_t low, int64_t high, Asking *asking) {
    int64_t starts[STRETCH + 1], count = 0; /* of the last few letters; the stretch so far has `count` of them */
    int64_t next = 0;
    for (int64_t base = 0; base <= page->size; base += 64) {
        const uint64_t inside = page->alone[base >> 6];
        uint64_t edges = page->cuts[base >> 6];
        if (base + 64 > page->size) edges |= (uint64_t)1 << (page->size - base);
        while (edges) {
            const int bit = __builtin_ctzll(edges);
            const int64_t at = base + bit;
            edges &= edges - 1;
            for (int64_t n = low; n <= high && n <= count; n++) {
                const int64_t start = starts[(next - n) % STRETCH];
                const int failed = ask(asking, page->text + start, at - start, UNKNOWN);
                if (failed) return failed;
            }
            if (inside >> bit & 1) starts[next++ % STRETCH] = at, count++;
            else count = 0;
        }
    }
    return answer(asking);
}

static int runs_of_text(const Text *text, bool lower, int64_t low, int64_t high, Page *page, Asking *asking) {
    int failed = page_read(page, text, (Reading){lower, false});
    if (!failed) squeeze_spaces(page);
    for (int64_t n = low; n <= high && n <= page->size && !failed; n++)
        failed = find_runs(page->text, page->size, page->wide ? EACH_CHARACTER : EACH_BYTE, n, asking);
    return failed ? failed : answer(asking);
}

static int stretches_of_text(const Text *text, bool lower, int64_t low, int64_t high, Page *page, Asking *asking) {
    if (text->ascii) return 0;
    const int failed = page_read(page, text, (Reading){lower, true});
    return failed ? failed : find_stretches(page, low, high, asking);
}

/* The runs of all characters of each text; or with `unspaced`, only those of letters of scripts without spaces. */
static int runs_of_texts(const Text *texts, int64_t count, bool lower, bool unspaced, const Layers *grams, int64_t low,
                         int64_t high, Stream *out, int64_t *indptr) {
    Page page = {0};
    Asking asking = {.layers = *grams, .out = out};
    int failed = 0;
    indptr[0] = 0;
    for (int64_t i = 0; i < count; i++) out->total += text_bytes(texts + i);
    for (int64_t i = 0; i < count && !failed; i++) {
        failed = unspaced ? stretches_of_text(texts + i, lower, low, high, &page, &asking)
                          : runs_of_text(texts + i, lower, low, high, &page, &asking);
        indptr[i + 1] = out->size;
        out->done += text_bytes(texts + i);
    }
    page_free(&page);
    return failed;
}

/* Lengths of runs inside words: of letters, and of syllables, each of which is several letters. */
typedef struct {
    int64_t low, high, syllables_low, syllables_high;
} Lengths;

/* How many units a word has, the kind of its first character, and whether there are syllables. */
typedef struct {
    int64_t units;
    uint32_t kind;
    bool syllabic;
} Spelling;

static Spelling spelling_of(const uint8_t *text, int64_t size) {
    Spelling out = {0, KIND_LETTER, false};
    for (int64_t at = 0; at < size;) {
        const uint32_t c = read_character(text, size, &at), kind = kind_of(known_character(c));
        if (out.units == 0) out.kind = kind;
        out.units += out.units == 0 || kind < KIND_MARK;
        out.syllabic |= c >= 0x900 && IN(syllables, c);
    }
    return out;
}

/* Room to write a word with blanks around it. */
typedef struct {
    uint8_t *text;
    int64_t room;
} Spaced;

/* Looks up the runs of a word, with a blank on both sides. A word that is not longer than n units with its blanks is
 * listed once, whole. Under the rule "scripts" a unit is a character with its marks, and signs that are tokens have no
 * runs. */
static int runs_of_word(const uint8_t *word, int64_t word_bytes, Spaced *spaced, Lengths lengths, bool scripts,
                        Asking *asking) {
    const int64_t size = word_bytes + 2;
    if (!make_room((void **)&spaced->text, &spaced->room, size + PADDING, 1)) return NO_MEMORY;
    uint8_t *text = spaced->text;
    text[0] = ' ';
    memcpy(text + 1, word, (size_t)word_bytes);
    text[size - 1] = ' ';
    memset(text + size, 0, PADDING);
    int64_t units = count_characters(text, size), low = lengths.low, high = lengths.high;
    int each = units < size ? EACH_CHARACTER : EACH_BYTE, failed = 0;
    if (scripts && units < size) {
        const Spelling spelling = spelling_of(text + 1, size - 2);
        each = EACH_CLUSTER;
        units = spelling.units + 2;
        if (spelling.syllabic) low = lengths.syllables_low, high = lengths.syllables_high;
        if (spelling.kind >= KIND_ALONE && spelling.kind <= KIND_REGIONAL) high = 0;
    }
    for (int64_t n = low; n <= high && !failed; n++) {
        if (units <= n) {
            failed = ask(asking, text, size, UNKNOWN);
            break;
        }
        failed = find_runs(text, size, each, n, asking);
    }
    return failed ? failed : answer(asking);
}

/* The runs of each word from `first` on. */
static int runs_of_words(const WordSet *words, int64_t first, WordSet *grams, bool grow, Lengths lengths, bool scripts,
                         Stream *out, int64_t *indptr) {
    Asking asking = {.layers = layers_of(grams, grow), .out = out};
    Spaced spaced = {0};
    int failed = 0;
    indptr[0] = 0;
    out->total = first < words->size ? words_bytes(words) - words->words[first].start : 0;
    for (int64_t i = first; i < words->size && !failed; i++) {
        failed = runs_of_word(word_text(words, i), word_size(words, i), &spaced, lengths, scripts, &asking);
        indptr[i - first + 1] = out->size;
        out->done += word_size(words, i);
    }
    free(spaced.text);
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
            const int64_t done = i - AHEAD, at = i - before;
            if (done >= 0) {
                const uint64_t pair = ring.pairs[done % AHEAD];
                const int32_t number =
                    pair & NEGATIVE ? UNKNOWN : pairs_number(pairs, pair, ring.hashes[done % AHEAD], grow);
                if (number < UNKNOWN) return number;
                ids[done] = number;
            }
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

/* The stream without the unwanted items. */
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

/* Which of `size` items a document has: bit i of level 0 is item i, bit i of level l + 1 is set if word i of level l is
 * not zero. So the items are listed in order without sorting. The words of the last level, each of which
 * covers 64^3 items, are few enough to scan. */
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

/* Writes the items and their counts, in order, and clears them. */
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

/* Sorts numbers from 0 to below `size`, a byte at a time; returns which of the two arrays holds the result. */
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

/* Counts by sorting: for few items, where a tally would take longer. */
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
