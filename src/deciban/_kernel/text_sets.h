/* Sets of strings and sets of pairs of numbers, numbered in order of arrival.
 *
 * Both keep their items in arrays in that order, so that frequent ones, which come early, are close together; beside
 * them is an open-addressing table: of the numbers of strings, or of pairs and their numbers. Hashes depend on secrets
 * that each process draws, so that nobody can prepare texts whose words all collide. Functions return a number below -1
 * if they fail; a set then holds what was added until then. Nothing here needs Python or the GIL. */
#ifndef DECIBAN_TEXT_SETS_H
#define DECIBAN_TEXT_SETS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "compiler.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NEVER_INLINE __attribute__((noinline))

enum { UNKNOWN = -1, NO_MEMORY = -2, TOO_MANY = -3, BAD_NUMBER = -4, REPEATED = -5 };
enum { PADDING = 8 }; /* bytes that may be read past the end of a string */

/* ---- memory ---- */

enum { HUGE_PAGE = 2 << 20 };

/* Memory in huge pages if it is large and the system has them: fewer pages to allocate and to look up. */
static void *make_memory(size_t size) {
#if defined(MADV_HUGEPAGE)
    if (size >= HUGE_PAGE) {
        const size_t whole = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        void *memory = aligned_alloc(HUGE_PAGE, whole);
        if (memory) madvise(memory, whole, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return malloc(size);
}

/* Room for `needed` entries of `width` bytes; grows by half. False if memory runs out. */
static bool grow_room(void **array, int64_t *room, int64_t needed, size_t width) {
    int64_t more = *room + *room / 2 + 16;
    if (more < needed) more = needed;
    if ((uint64_t)more > (uint64_t)(PTRDIFF_MAX - HUGE_PAGE) / width) return false;
    void *moved = make_memory((size_t)more * width);
    if (!moved) return false;
    if (*room) memcpy(moved, *array, (size_t)*room * width);
    free(*array);
    *array = moved;
    *room = more;
    return true;
}

static inline bool make_room(void **array, int64_t *room, int64_t needed, size_t width) {
    return LIKELY(needed <= *room) || grow_room(array, room, needed, width);
}

/* ---- hashes ---- */

static uint64_t secret[4];

/* Eight bytes as a number, the first one lowest. */
static inline uint64_t eight_bytes(const uint8_t *from) {
    uint64_t out;
    memcpy(&out, from, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    out = __builtin_bswap64(out);
#endif
    return out;
}

/* The same for a string that may be shorter, zeros beyond it; PADDING bytes past its end may be read. */
static inline uint64_t first_bytes(const uint8_t *from, int64_t size) {
    return size > 0 ? eight_bytes(from) & (~(uint64_t)0 >> (64 - 8 * (size < 8 ? size : 8))) : 0;
}

/* Both halves of the product, folded into one. */
static inline uint64_t fold(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    const uint64_t low = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF), mid = (a >> 32) * (b & 0xFFFFFFFF) + (low >> 32);
    const uint64_t cross = (a & 0xFFFFFFFF) * (b >> 32) + (mid & 0xFFFFFFFF);
    return ((cross << 32) | (low & 0xFFFFFFFF)) ^ ((a >> 32) * (b >> 32) + (mid >> 32) + (cross >> 32));
#endif
}

/* What strings are compared by: the first eight bytes, its last eight if there are more (the two may overlap), and a
 * hash of all of it. Up to sixteen bytes, strings of one size with the same head and tail are equal. */
typedef struct {
    uint64_t head, tail, hash;
} Key;

enum { WHOLE = 16 };

static inline uint64_t string_hash(const uint8_t *text, int64_t size, uint64_t head, uint64_t tail) {
    uint64_t hash = head ^ secret[0];
    if (!LIKELY(size <= WHOLE))
        for (int64_t i = 8; i < size - 8; i += 8) hash = fold(hash, secret[2]) ^ eight_bytes(text + i);
    return fold(hash, tail ^ (secret[1] + (uint64_t)size * secret[3]));
}

/* The key of a string, PADDING bytes past whose end may be read. */
static inline Key key_of(const uint8_t *text, int64_t size) {
    Key key;
    const int64_t last = size > 8 ? size - 8 : 0;
    key.head = first_bytes(text, size);
    key.tail = eight_bytes(text + last) & -(uint64_t)(size > 8);
    key.hash = string_hash(text, size, key.head, key.tail);
    return key;
}

/* The same if nothing past the end may be read. */
static inline Key key_of_only(const uint8_t *text, int64_t size) {
    uint8_t copy[8] = {0};
    if (size >= 8) return key_of(text, size);
    if (size) memcpy(copy, text, (size_t)size);
    return key_of(copy, size);
}

/* MurmurHash3_x86_32 with seed 0, after Austin Appleby's description of it. */
static uint32_t murmur(const uint8_t *text, int64_t size) {
    uint32_t hash = 0, k;
    int64_t i = 0;
    for (; i + 4 <= size; i += 4) {
        k = (uint32_t)text[i] | (uint32_t)text[i + 1] << 8 | (uint32_t)text[i + 2] << 16 | (uint32_t)text[i + 3] << 24;
        k *= 0xcc9e2d51u;
        k = k << 15 | k >> 17;
        hash ^= k * 0x1b873593u;
        hash = hash << 13 | hash >> 19;
        hash = hash * 5 + 0xe6546b64u;
    }
    if (i < size) {
        k = 0;
        for (int64_t j = size - 1; j >= i; j--) k = k << 8 | text[j];
        k *= 0xcc9e2d51u;
        k = k << 15 | k >> 17;
        hash ^= k * 0x1b873593u;
    }
    hash ^= (uint32_t)size;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

/* ---- tables ---- */

/* Where numbers are stored: a hash's slot is hash >> shift, or the next free one. */
typedef struct {
    uint32_t mark;  /* some of the item's hash, and whatever else distinguishes items */
    int32_t number; /* -1: free */
} Slot;

typedef struct {
    Slot *slots;
    int64_t count; /* a power of two, or 0 at first */
    int shift;
} Table;

static inline void table_fetch(const Table *table, uint64_t hash) {
    if (LIKELY(table->count)) FETCH(table->slots + (hash >> table->shift));
}

/* The slot of the first item with this mark from `at` on, or of the first free one. */
static inline int64_t table_seek(const Table *table, uint32_t mark, int64_t at) {
    const int64_t wrap = table->count - 1;
    while (table->slots[at].number >= 0 && table->slots[at].mark != mark) at = (at + 1) & wrap;
    return at;
}

static inline void table_put(Table *table, uint64_t hash, uint32_t mark, int32_t number) {
    int64_t at = (int64_t)(hash >> table->shift);
    while (table->slots[at].number >= 0) at = (at + 1) & (table->count - 1);
    table->slots[at] = (Slot){mark, number};
}

/* An empty table of at least twice as many slots as there are items; false if memory runs out. */
static bool table_make(Table *table, int64_t items) {
    table->count = 1024;
    table->shift = 54;
    while (table->count < items * 2) table->count *= 2, table->shift--;
    const size_t size = (size_t)table->count * sizeof(Slot);
    table->slots = make_memory(size);
    if (table->slots) memset(table->slots, 0xFF, size);
    return table->slots;
}

static bool table_copy(Table *table, const Table *other) {
    if (other->count && !table_make(table, other->count / 2)) return false;
    if (other->count) memcpy(table->slots, other->slots, (size_t)other->count * sizeof(Slot));
    return true;
}

enum { AHEAD = 16 }; /* how many steps before its use a slot is prefetched */

/* ---- strings ---- */

typedef struct {
    Key key;
    int64_t start; /* in the bytes */
} Word;

typedef struct {
    uint8_t *bytes; /* the strings one after another, in UTF-8 that may contain surrogates */
    int64_t bytes_room;
    Word *words; /* one more than there are strings: the last is where the last one ends */
    int64_t words_room;
    int64_t size;
    Table table;
} WordSet;

static void words_free(WordSet *set) {
    free(set->bytes);
    free(set->words);
    free(set->table.slots);
    memset(set, 0, sizeof *set);
}

static inline const uint8_t *word_text(const WordSet *set, int64_t number) {
    return set->bytes + set->words[number].start;
}

static inline int64_t word_size(const WordSet *set, int64_t number) {
    return set->words[number + 1].start - set->words[number].start;
}

static inline int64_t words_bytes(const WordSet *set) { return set->size ? set->words[set->size].start : 0; }

static inline uint32_t word_mark(uint64_t hash, int64_t size) {
    return (uint32_t)hash << 5 | (uint32_t)(size < 31 ? size : 31);
}

/* Slots for `count` strings; false if memory runs out. */
static bool words_reserve(WordSet *set, int64_t count) {
    Table table;
    if (LIKELY(count * 2 <= set->table.count)) return true;
    if (!table_make(&table, count)) return false;
    for (int64_t i = 0; i < set->size; i++) {
        if (i + AHEAD < set->size) table_fetch(&table, set->words[i + AHEAD].key.hash);
        const uint64_t hash = set->words[i].key.hash;
        table_put(&table, hash, word_mark(hash, word_size(set, i)), (int32_t)i);
    }
    free(set->table.slots);
    set->table = table;
    return true;
}

/* Whether string `number`, which has the same mark, is this one. */
static inline bool word_is(const WordSet *set, int32_t number, const uint8_t *text, int64_t size, Key key) {
    const Word *word = set->words + number;
    if (word->key.head != key.head || word->key.tail != key.tail) return false;
    return LIKELY(size <= WHOLE) ||
           (word_size(set, number) == size && !memcmp(word_text(set, number) + 8, text + 8, (size_t)size - WHOLE));
}

static inline int32_t words_find(const WordSet *set, const uint8_t *text, int64_t size, Key key) {
    if (!set->table.count) return UNKNOWN;
    const uint32_t mark = word_mark(key.hash, size);
    const int64_t wrap = set->table.count - 1;
    for (int64_t at = (int64_t)(key.hash >> set->table.shift);; at = (at + 1) & wrap) {
        at = table_seek(&set->table, mark, at);
        const int32_t number = set->table.slots[at].number;
        if (number < 0) return UNKNOWN;
        if (word_is(set, number, text, size, key)) return number;
    }
}

/* Its probable number: that of the first string with its mark. */
static inline int32_t words_guess(const WordSet *set, int64_t size, uint64_t hash) {
    if (!set->table.count) return UNKNOWN;
    return set->table.slots[table_seek(&set->table, word_mark(hash, size), (int64_t)(hash >> set->table.shift))].number;
}

/* Adds a string that is not in the set. Returns its number, or NO_MEMORY or TOO_MANY. */
static int32_t words_append(WordSet *set, const uint8_t *text, int64_t size, Key key) {
    if (set->size >= INT32_MAX) return TOO_MANY;
    const int64_t start = words_bytes(set);
    if (size > INT64_MAX - PADDING - start) return NO_MEMORY;
    if (!make_room((void **)&set->bytes, &set->bytes_room, start + size + PADDING, 1) ||
        !make_room((void **)&set->words, &set->words_room, set->size + 2, sizeof *set->words) ||
        !words_reserve(set, set->size + 1))
        return NO_MEMORY;
    const int32_t number = (int32_t)set->size++;
    memcpy(set->bytes + start, text, (size_t)size);
    memset(set->bytes + start + size, 0, PADDING);
    set->words[number] = (Word){key, start};
    set->words[number + 1].start = start + size;
    table_put(&set->table, key.hash, word_mark(key.hash, size), number);
    return number;
}

/* The number of a string outside the set's memory; UNKNOWN if it is new and the set may not grow. */
static int32_t words_number(WordSet *set, const uint8_t *text, int64_t size, bool grow) {
    const Key key = key_of_only(text, size);
    const int32_t number = words_find(set, text, size, key);
    return number == UNKNOWN && grow ? words_append(set, text, size, key) : number;
}

/* Adds string `number` of another set; keys are the same within a process, so those of the other set are used. */
static inline int32_t words_adopt(WordSet *set, const WordSet *other, int64_t number, bool *known) {
    const uint8_t *text = word_text(other, number);
    const int64_t size = word_size(other, number);
    const Key key = other->words[number].key;
    const int32_t found = words_find(set, text, size, key);
    *known = found != UNKNOWN;
    return *known ? found : words_append(set, text, size, key);
}

/* to[i] = the new number of string i of the other set. */
static int words_merge(WordSet *set, const WordSet *other, int32_t *to) {
    bool known;
    for (int64_t i = 0; i < other->size; i++) {
        if (i + AHEAD < other->size) table_fetch(&set->table, other->words[i + AHEAD].key.hash);
        const int32_t number = words_adopt(set, other, i, &known);
        if (number < 0) return number;
        to[i] = number;
    }
    return 0;
}

/* to[i] = the number of string i of the other set, UNKNOWN if it is not in this one. */
static void words_locate(const WordSet *set, const WordSet *other, int32_t *to) {
    for (int64_t i = 0; i < other->size; i++) {
        if (i + AHEAD < other->size) table_fetch(&set->table, other->words[i + AHEAD].key.hash);
        to[i] = words_find(set, word_text(other, i), word_size(other, i), other->words[i].key);
    }
}

/* Appends these strings of another set, which must be new. */
static int words_take(WordSet *set, const WordSet *other, const int32_t *which, int64_t count) {
    bool known;
    for (int64_t i = 0; i < count; i++) {
        const int32_t number = which[i];
        if (number < 0 || number >= other->size) return BAD_NUMBER;
        const int32_t placed = words_adopt(set, other, number, &known);
        if (placed < 0) return placed;
        if (known) return REPEATED;
    }
    return 0;
}

static int words_copy(WordSet *set, const WordSet *other) {
    if (!other->size) return 0;
    const int64_t bytes = words_bytes(other) + PADDING;
    if (!make_room((void **)&set->bytes, &set->bytes_room, bytes, 1) ||
        !make_room((void **)&set->words, &set->words_room, other->size + 1, sizeof *set->words) ||
        !table_copy(&set->table, &other->table))
        return NO_MEMORY;
    memcpy(set->bytes, other->bytes, (size_t)bytes);
    memcpy(set->words, other->words, (size_t)(other->size + 1) * sizeof *set->words);
    set->size = other->size;
    return 0;
}

/* ---- the order of strings ---- */

/* Eight bytes of a string from some depth on, the first one highest, so that numbers compare as the bytes do. */
typedef struct {
    uint64_t key;
    int32_t number;
} Sorted;

typedef struct {
    int64_t start, stop, depth;
} Stretch;

static inline uint64_t sort_key(const WordSet *set, int32_t number, int64_t depth) {
    const uint64_t bytes = first_bytes(word_text(set, number) + depth, word_size(set, number) - depth);
    return __builtin_bswap64(bytes);
}

static inline void swap_sorted(Sorted *a, Sorted *b) {
    const Sorted held = *a;
    *a = *b;
    *b = held;
}

/* Whether a comes before b; their first `depth` bytes are equal. */
static inline bool word_before(const WordSet *set, Sorted a, Sorted b, int64_t depth) {
    if (a.key != b.key) return a.key < b.key;
    const int64_t left = word_size(set, a.number), right = word_size(set, b.number);
    const int64_t both = left < right ? left : right;
    const int64_t from = depth + 8 < both ? depth + 8 : both;
    const int order = memcmp(word_text(set, a.number) + from, word_text(set, b.number) + from, (size_t)(both - from));
    return order ? order < 0 : left < right;
}

static void sort_few(const WordSet *set, Sorted *sorted, int64_t count, int64_t depth) {
    for (int64_t i = 1; i < count; i++) {
        const Sorted held = sorted[i];
        int64_t j = i;
        for (; j > 0 && word_before(set, held, sorted[j - 1], depth); j--) sorted[j] = sorted[j - 1];
        sorted[j] = held;
    }
}

/* The median of three keys, drawn unpredictably. */
static uint64_t draw_pivot(const Sorted *sorted, int64_t count, uint64_t *chance) {
    uint64_t drawn[3];
    for (int d = 0; d < 3; d++) {
        *chance = *chance * 6364136223846793005u + 1442695040888963407u;
        drawn[d] = sorted[(*chance >> 33) % (uint64_t)count].key;
    }
    const bool up = drawn[0] < drawn[1];
    const uint64_t low = drawn[up ? 0 : 1], high = drawn[up ? 1 : 0];
    return drawn[2] < low ? low : drawn[2] > high ? high : drawn[2];
}

/* order[i] = the number of the i-th string. Three-way quicksort on eight bytes at a time; strings that are equal in all of them
 * are sorted eight bytes deeper. Stretches still to be sorted never overlap: there are fewer of them than strings. */
static int words_order(const WordSet *set, int32_t *order) {
    const int64_t size = set->size;
    Sorted *sorted = NULL;
    Stretch *waiting = NULL;
    int64_t sorted_room = 0, room = 0, count = 0;
    uint64_t chance = secret[0];
    int out = NO_MEMORY;
    if (!make_room((void **)&sorted, &sorted_room, size, sizeof *sorted)) goto done;
    if (!make_room((void **)&waiting, &room, 64, sizeof *waiting)) goto done;
    for (int64_t i = 0; i < size; i++) sorted[i] = (Sorted){sort_key(set, (int32_t)i, 0), (int32_t)i};
    waiting[count++] = (Stretch){0, size, 0};
    while (count) {
        const Stretch now = waiting[--count];
        const int64_t deeper = now.depth + 8;
        if (now.stop - now.start <= 16) {
            sort_few(set, sorted + now.start, now.stop - now.start, now.depth);
            continue;
        }
        const uint64_t pivot = draw_pivot(sorted + now.start, now.stop - now.start, &chance);
        int64_t less = now.start, i = now.start, more = now.stop;
        while (i < more) {
            if (sorted[i].key < pivot) swap_sorted(sorted + less++, sorted + i++);
            else if (sorted[i].key > pivot) swap_sorted(sorted + i, sorted + --more);
            else i++;
        }
        /* Those that end within these eight bytes come first, the shorter before the longer: one padded with
         * zeros is a prefix of one that contains zeros. There are at most nine, since strings are distinct. */
        int64_t ended = less;
        for (i = less; i < more; i++)
            if (word_size(set, sorted[i].number) <= deeper) swap_sorted(sorted + ended++, sorted + i);
        sort_few(set, sorted + less, ended - less, now.depth);
        for (i = ended; i < more; i++) sorted[i].key = sort_key(set, sorted[i].number, deeper);
        if (!make_room((void **)&waiting, &room, count + 3, sizeof *waiting)) goto done;
        if (less - now.start > 1) waiting[count++] = (Stretch){now.start, less, now.depth};
        if (more - ended > 1) waiting[count++] = (Stretch){ended, more, deeper};
        if (now.stop - more > 1) waiting[count++] = (Stretch){more, now.stop, now.depth};
    }
    for (int64_t i = 0; i < size; i++) order[i] = sorted[i].number;
    out = 0;
done:
    free(sorted);
    free(waiting);
    return out;
}

/* ---- pairs of numbers ---- */

/* A line of the cache has five pairs and their numbers: to look up a pair takes one of them, whether it is known or not. A
 * pair belongs to the line of its hash; if that is full, it is in the next one that is not. */
enum { LINE_PAIRS = 5, LINE_PAIRS_USED = 3 /* on average, at most */, LINE_BYTES = 64 };

typedef struct {
    uint32_t first[LINE_PAIRS], second[LINE_PAIRS];
    int32_t number[LINE_PAIRS]; /* −1: free */
    int32_t last;               /* −1: no pair that belongs here, or before, is in the next line */
} PairLine;

typedef struct {
    uint64_t *pairs; /* first << 32 | second */
    int64_t pairs_room;
    int64_t size;
    PairLine *lines;
    void *lines_memory; /* which the lines are in */
    int64_t line_count; /* a power of two, or 0 at first */
    int shift;          /* the line of a hash is hash >> shift */
} PairSet;

#define NEGATIVE 0x8000000080000000u /* the sign bits of a pair */

static void pairs_free(PairSet *set) {
    free(set->pairs);
    free(set->lines_memory);
    memset(set, 0, sizeof *set);
}

static inline uint64_t pair_of(int32_t first, int32_t second) {
    return (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
}

static inline uint64_t pair_hash(uint64_t pair) { return fold(pair ^ secret[0], secret[1]); }

static inline void pairs_fetch(const PairSet *set, uint64_t hash) {
    if (LIKELY(set->line_count)) FETCH(set->lines + (hash >> set->shift));
}

/* Where a pair is in a line: bit i for place i, at most one of them. */
static inline uint32_t place_in_line(const PairLine *line, uint64_t pair) {
    const uint32_t first = (uint32_t)(pair >> 32), second = (uint32_t)pair;
    uint32_t out = 0;
    int i = 0;
#if defined(__SSE2__)
    const __m128i a = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)line->first), _mm_set1_epi32((int)first));
    const __m128i b = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)line->second), _mm_set1_epi32((int)second));
    out = (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(_mm_and_si128(a, b)));
    i = 4;
#endif
    for (; i < LINE_PAIRS; i++) out |= (uint32_t)((line->first[i] == first) & (line->second[i] == second)) << i;
    return out;
}

/* Writes a pair that is not there into the first line from its own on that has room. */
static inline void lines_put(PairLine *lines, int64_t count, int64_t at, uint64_t pair, int32_t number) {
    for (;; at = (at + 1) & (count - 1)) {
        PairLine *line = lines + at;
        for (int i = 0; i < LINE_PAIRS; i++)
            if (line->number[i] < 0) {
                line->first[i] = (uint32_t)(pair >> 32);
                line->second[i] = (uint32_t)pair;
                line->number[i] = number;
                return;
            }
        line->last = 0;
    }
}

/* Lines for `count` pairs; false if memory runs out. */
static bool pairs_reserve(PairSet *set, int64_t count) {
    if (LIKELY(count <= set->line_count * LINE_PAIRS_USED)) return true;
    int64_t lines = 64;
    int shift = 58;
    while (lines * LINE_PAIRS_USED < count) lines *= 2, shift--;
    const size_t size = (size_t)lines * LINE_BYTES;
    void *memory = make_memory(size + LINE_BYTES);
    if (!memory) return false;
    PairLine *made = (PairLine *)(((uintptr_t)memory + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
    memset(made, 0xFF, size);
    uint64_t hashes[AHEAD];
    for (int64_t i = 0; i < set->size + AHEAD; i++) {
        uint64_t *hash = hashes + i % AHEAD;
        if (i >= AHEAD) lines_put(made, lines, (int64_t)(*hash >> shift), set->pairs[i - AHEAD], (int32_t)(i - AHEAD));
        if (i < set->size) FETCH(made + ((*hash = pair_hash(set->pairs[i])) >> shift));
    }
    free(set->lines_memory);
    set->lines_memory = memory;
    set->lines = made;
    set->line_count = lines;
    set->shift = shift;
    return true;
}

/* Room for so many pairs in all; false if memory runs out. */
static bool pairs_expect(PairSet *set, int64_t count) {
    return make_room((void **)&set->pairs, &set->pairs_room, count, sizeof *set->pairs) && pairs_reserve(set, count);
}

static inline int32_t pairs_find(const PairSet *set, uint64_t pair, uint64_t hash) {
    if (!LIKELY(set->line_count)) return UNKNOWN;
    for (int64_t at = (int64_t)(hash >> set->shift);; at = (at + 1) & (set->line_count - 1)) {
        const PairLine *line = set->lines + at;
        const uint32_t place = place_in_line(line, pair);
        if (place || line->last < 0) {
            const int32_t number = line->number[__builtin_ctz(place | 1u << (LINE_PAIRS - 1))];
            return place ? number : UNKNOWN;
        }
    }
}

/* The number of a pair; UNKNOWN if it is new and the set may not grow. */
static inline int32_t pairs_number(PairSet *set, uint64_t pair, uint64_t hash, bool grow) {
    const int32_t known = pairs_find(set, pair, hash);
    if (known != UNKNOWN || !grow) return known;
    if (set->size >= INT32_MAX) return TOO_MANY;
    if (!make_room((void **)&set->pairs, &set->pairs_room, set->size + 1, sizeof *set->pairs) ||
        !pairs_reserve(set, set->size + 1))
        return NO_MEMORY;
    const int32_t number = (int32_t)set->size++;
    set->pairs[number] = pair;
    lines_put(set->lines, set->line_count, (int64_t)(hash >> set->shift), pair, number);
    return number;
}

/* Pairs whose lines are prefetched before they are looked up. */
typedef struct {
    uint64_t pairs[AHEAD], hashes[AHEAD];
} Ring;

static inline void ring_enter(Ring *ring, const PairSet *set, int64_t at, uint64_t pair) {
    ring->pairs[at % AHEAD] = pair;
    pairs_fetch(set, ring->hashes[at % AHEAD] = pair_hash(pair));
}

/* to[i] = the number of (first[i], second[i]); negative numbers are unknown, and an error if the set may grow. */
static int pairs_numbers(PairSet *set, const int32_t *first, const int32_t *second, int64_t count, bool grow,
                         int32_t *to) {
    Ring ring;
    for (int64_t i = 0; i < count + AHEAD; i++) {
        const int64_t at = i - AHEAD;
        if (at >= 0) {
            const uint64_t pair = ring.pairs[at % AHEAD];
            if (pair & NEGATIVE && grow) return BAD_NUMBER;
            const int32_t number = pair & NEGATIVE ? UNKNOWN : pairs_number(set, pair, ring.hashes[at % AHEAD], grow);
            if (number < UNKNOWN) return number;
            to[at] = number;
        }
        if (i < count) ring_enter(&ring, set, i, pair_of(first[i], second[i]));
    }
    return 0;
}

/* Adds (first_to[a], second_to[b]) for every pair (a, b) of another set; to[i] = the new number of pair i. */
static int pairs_merge(PairSet *set, const PairSet *other, const int32_t *first_to, int64_t first_size,
                       const int32_t *second_to, int64_t second_size, int32_t *to) {
    Ring ring;
    for (int64_t i = 0; i < other->size + AHEAD; i++) {
        const int64_t at = i - AHEAD;
        if (at >= 0) {
            const int32_t number = pairs_number(set, ring.pairs[at % AHEAD], ring.hashes[at % AHEAD], true);
            if (number < 0) return number;
            to[at] = number;
        }
        if (i < other->size) {
            const int64_t a = (int64_t)(other->pairs[i] >> 32), b = (int64_t)(other->pairs[i] & 0xFFFFFFFF);
            if (a >= first_size || b >= second_size) return BAD_NUMBER;
            const uint64_t pair = pair_of(first_to[a], second_to[b]);
            if (pair & NEGATIVE) return BAD_NUMBER;
            ring_enter(&ring, set, i, pair);
        }
    }
    return 0;
}

static int pairs_take(PairSet *set, const PairSet *other, const int32_t *which, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int32_t number = which[i];
        if (number < 0 || number >= other->size) return BAD_NUMBER;
        const uint64_t pair = other->pairs[number];
        const int32_t placed = pairs_number(set, pair, pair_hash(pair), true);
        if (placed < 0) return placed;
        if (placed != i) return REPEATED;
    }
    return 0;
}

static int pairs_copy(PairSet *set, const PairSet *other) {
    if (!other->size) return 0;
    if (!make_room((void **)&set->pairs, &set->pairs_room, other->size, sizeof *set->pairs) ||
        !pairs_reserve(set, other->line_count * LINE_PAIRS_USED))
        return NO_MEMORY;
    memcpy(set->pairs, other->pairs, (size_t)other->size * sizeof *set->pairs);
    memcpy(set->lines, other->lines, (size_t)other->line_count * LINE_BYTES);
    set->size = other->size;
    return 0;
}

#endif
