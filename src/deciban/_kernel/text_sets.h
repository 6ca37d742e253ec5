/* Sets of strings and sets of pairs of numbers, numbered in the order in which they came.
 *
 * Both are open-addressing tables, at most half full, beside arrays in the order of the numbers. Hashes depend on secrets
 * drawn anew in every process, so that nobody can prepare texts whose words all collide. Functions return a number
 * below -1 where they fail; a set then holds what had been added until then. Nothing here needs Python or its lock. */
#ifndef DECIBAN_TEXT_SETS_H
#define DECIBAN_TEXT_SETS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#else
#define FETCH(address) ((void)0)
#define LIKELY(condition) (condition)
#endif

enum { UNKNOWN = -1, NO_MEMORY = -2, TOO_MANY = -3, BAD_NUMBER = -4, REPEATED = -5 };
enum { PADDING = 8 }; /* bytes that may be read past the end of a string */

/* ---- memory ---- */

/* Room for `needed` entries of `width` bytes, half as much again when it has to grow; false if there is no memory. */
static bool make_room(void **array, int64_t *room, int64_t needed, size_t width) {
    if (LIKELY(needed <= *room)) return true;
    int64_t more = *room + *room / 2 + 16;
    if (more < needed) more = needed;
    if ((uint64_t)more > (uint64_t)(PTRDIFF_MAX - 64) / width) return false;
    void *moved = realloc(*array, (size_t)more * width);
    if (!moved) return false;
    *array = moved;
    *room = more;
    return true;
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

/* The same for a string shorter than that, zeros beyond it; PADDING bytes past its end may be read. */
static inline uint64_t first_bytes(const uint8_t *from, int64_t size) {
    const uint64_t all = eight_bytes(from);
    return size >= 8 ? all : size > 0 ? all & (~(uint64_t)0 >> (64 - 8 * size)) : 0;
}

/* The same where nothing past the end may be read. */
static inline uint64_t first_bytes_only(const uint8_t *from, int64_t size) {
    if (size >= 8) return eight_bytes(from);
    uint8_t copy[8] = {0};
    memcpy(copy, from, (size_t)size);
    return eight_bytes(copy);
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

static inline uint64_t string_hash(const uint8_t *text, int64_t size, uint64_t head) {
    if (LIKELY(size <= 8)) return fold(head ^ secret[0], secret[1] ^ (uint64_t)size);
    uint64_t hash = secret[2] ^ (uint64_t)size;
    for (int64_t i = 0; i < size - 8; i += 8) hash = fold(hash ^ eight_bytes(text + i), secret[3]);
    return fold(hash ^ eight_bytes(text + size - 8), secret[1]); /* the last eight, read again in part */
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

/* ---- strings ---- */

/* `head` is the first eight bytes and `mark` some of the hash and the size up to 15: short strings are compared without
 * a look at their bytes. */
typedef struct {
    uint64_t head;
    uint32_t mark;
    int32_t number; /* -1: nobody's */
} WordSlot;

typedef struct {
    uint8_t *bytes; /* the strings one after the other, in UTF-8 where surrogates stand as they are */
    int64_t bytes_room;
    int64_t *ends; /* string i is bytes[ends[i]:ends[i + 1]] */
    int64_t ends_room;
    uint64_t *hashes;
    int64_t hashes_room;
    int64_t size;
    WordSlot *slots;
    int64_t slot_count; /* a power of two, or 0 at first */
    int shift;          /* a hash's slot is hash >> shift */
} WordSet;

static void words_free(WordSet *set) {
    free(set->bytes);
    free(set->ends);
    free(set->hashes);
    free(set->slots);
    memset(set, 0, sizeof *set);
}

static inline const uint8_t *word_text(const WordSet *set, int64_t number) { return set->bytes + set->ends[number]; }

static inline int64_t word_size(const WordSet *set, int64_t number) {
    return set->ends[number + 1] - set->ends[number];
}

static inline int64_t words_bytes(const WordSet *set) { return set->size ? set->ends[set->size] : 0; }

static inline uint32_t word_mark(uint64_t hash, int64_t size) {
    return (uint32_t)hash << 4 | (uint32_t)(size < 15 ? size : 15);
}

/* Slots for `count` strings; false if there is no memory. */
static bool words_reserve(WordSet *set, int64_t count) {
    if (LIKELY(count * 2 <= set->slot_count)) return true;
    int64_t more = set->slot_count ? set->slot_count : 1024;
    int shift = set->slot_count ? set->shift : 54;
    while (more < count * 2) more *= 2, shift--;
    if ((uint64_t)more > (uint64_t)PTRDIFF_MAX / sizeof(WordSlot)) return false;
    if (more == set->slot_count) return true;
    WordSlot *slots = malloc((size_t)more * sizeof(WordSlot));
    if (!slots) return false;
    memset(slots, 0xFF, (size_t)more * sizeof(WordSlot));
    const int64_t wrap = more - 1;
    /* Old slots in their order are new ones in nearly theirs: the top bits of a hash say where. */
    for (int64_t i = 0; i < set->slot_count; i++) {
        const WordSlot slot = set->slots[i];
        if (slot.number < 0) continue;
        int64_t at = (int64_t)(set->hashes[slot.number] >> shift);
        while (slots[at].number >= 0) at = (at + 1) & wrap;
        slots[at] = slot;
    }
    free(set->slots);
    set->slots = slots;
    set->slot_count = more;
    set->shift = shift;
    return true;
}

static inline int32_t words_find(const WordSet *set, const uint8_t *text, int64_t size, uint64_t head, uint64_t hash) {
    if (!set->slot_count) return UNKNOWN;
    const uint32_t mark = word_mark(hash, size);
    const int64_t wrap = set->slot_count - 1;
    for (int64_t at = (int64_t)(hash >> set->shift);; at = (at + 1) & wrap) {
        const WordSlot *slot = set->slots + at;
        if (slot->number < 0) return UNKNOWN;
        if (slot->head != head || slot->mark != mark) continue;
        if (size <= 8) return slot->number;
        if (word_size(set, slot->number) == size &&
            !memcmp(word_text(set, slot->number) + 8, text + 8, (size_t)size - 8))
            return slot->number;
    }
}

/* A string that the set is known not to hold. Returns its number, or NO_MEMORY or TOO_MANY. */
static int32_t words_append(WordSet *set, const uint8_t *text, int64_t size, uint64_t head, uint64_t hash) {
    if (set->size >= INT32_MAX) return TOO_MANY;
    const int64_t start = words_bytes(set);
    if (size > INT64_MAX - PADDING - start) return NO_MEMORY;
    if (!make_room((void **)&set->bytes, &set->bytes_room, start + size + PADDING, 1) ||
        !make_room((void **)&set->ends, &set->ends_room, set->size + 2, sizeof *set->ends) ||
        !make_room((void **)&set->hashes, &set->hashes_room, set->size + 1, sizeof *set->hashes) ||
        !words_reserve(set, set->size + 1))
        return NO_MEMORY;
    const int32_t number = (int32_t)set->size;
    memcpy(set->bytes + start, text, (size_t)size);
    memset(set->bytes + start + size, 0, PADDING);
    set->ends[0] = 0;
    set->ends[number + 1] = start + size;
    set->hashes[number] = hash;
    const int64_t wrap = set->slot_count - 1;
    int64_t at = (int64_t)(hash >> set->shift);
    while (set->slots[at].number >= 0) at = (at + 1) & wrap;
    set->slots[at] = (WordSlot){head, word_mark(hash, size), number};
    set->size++;
    return number;
}

/* The number of a string in any memory, which must not be the set's own; UNKNOWN if it is new and the set may not grow. */
static int32_t words_number(WordSet *set, const uint8_t *text, int64_t size, bool grow) {
    const uint64_t head = first_bytes_only(text, size), hash = string_hash(text, size, head);
    const int32_t number = words_find(set, text, size, head, hash);
    return number == UNKNOWN && grow ? words_append(set, text, size, head, hash) : number;
}

/* Adds string `number` of another set; hashes are a process's, so the other's will do. */
static inline int32_t words_adopt(WordSet *set, const WordSet *other, int64_t number, bool *known) {
    const uint8_t *text = word_text(other, number);
    const int64_t size = word_size(other, number);
    const uint64_t head = first_bytes(text, size), hash = other->hashes[number];
    const int32_t found = words_find(set, text, size, head, hash);
    *known = found != UNKNOWN;
    return *known ? found : words_append(set, text, size, head, hash);
}

enum { AHEAD = 16 }; /* how many steps before its use a slot is asked for */

/* to[i] = where string i of the other set went. */
static int words_merge(WordSet *set, const WordSet *other, int32_t *to) {
    bool known;
    for (int64_t i = 0; i < other->size; i++) {
        if (i + AHEAD < other->size && set->slot_count) FETCH(set->slots + (other->hashes[i + AHEAD] >> set->shift));
        const int32_t number = words_adopt(set, other, i, &known);
        if (number < 0) return number;
        to[i] = number;
    }
    return 0;
}

/* to[i] = where string i of the other set is, −1 if it is not. */
static void words_locate(const WordSet *set, const WordSet *other, int32_t *to) {
    for (int64_t i = 0; i < other->size; i++) {
        if (i + AHEAD < other->size && set->slot_count) FETCH(set->slots + (other->hashes[i + AHEAD] >> set->shift));
        const uint8_t *text = word_text(other, i);
        const int64_t size = word_size(other, i);
        const int32_t number = words_find(set, text, size, first_bytes(text, size), other->hashes[i]);
        to[i] = number < 0 ? -1 : number;
    }
}

/* Appends these strings of another set, which must be new here. */
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
    memset(set, 0, sizeof *set);
    if (!other->size) return 0;
    const int64_t bytes = words_bytes(other) + PADDING;
    if (!make_room((void **)&set->bytes, &set->bytes_room, bytes, 1) ||
        !make_room((void **)&set->ends, &set->ends_room, other->size + 1, sizeof *set->ends) ||
        !make_room((void **)&set->hashes, &set->hashes_room, other->size, sizeof *set->hashes))
        return NO_MEMORY;
    memcpy(set->bytes, other->bytes, (size_t)bytes);
    memcpy(set->ends, other->ends, (size_t)(other->size + 1) * sizeof *set->ends);
    memcpy(set->hashes, other->hashes, (size_t)other->size * sizeof *set->hashes);
    if (!(set->slots = malloc((size_t)other->slot_count * sizeof(WordSlot)))) return NO_MEMORY;
    memcpy(set->slots, other->slots, (size_t)other->slot_count * sizeof(WordSlot));
    set->slot_count = other->slot_count;
    set->shift = other->shift;
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
#if defined(__GNUC__)
    return __builtin_bswap64(bytes);
#else
    uint64_t out = 0;
    for (int i = 0; i < 8; i++) out = out << 8 | (bytes >> 8 * i & 0xFF);
    return out;
#endif
}

static inline void swap_sorted(Sorted *a, Sorted *b) {
    const Sorted held = *a;
    *a = *b;
    *b = held;
}

/* Whether a comes before b; both are alike in their first `depth` bytes. */
static inline bool word_before(const WordSet *set, Sorted a, Sorted b, int64_t depth) {
    if (a.key != b.key) return a.key < b.key;
    const int64_t left = word_size(set, a.number), right = word_size(set, b.number);
    const int64_t both = left < right ? left : right;
    const int64_t from = depth + 8 < both ? depth + 8 : both;
    const int order = memcmp(word_text(set, a.number) + from, word_text(set, b.number) + from, (size_t)(both - from));
    return order ? order < 0 : left < right;
}

/* order[i] = the number of the i-th string. Three-way quicksort on eight bytes at a time; what is alike in all of them
 * goes eight bytes deeper. Stretches that wait to be sorted never overlap: there are fewer of them than strings. */
static int words_order(const WordSet *set, int32_t *order) {
    const int64_t size = set->size;
    if (!size) return 0;
    Sorted *sorted = malloc((size_t)size * sizeof(Sorted));
    Stretch *waiting = NULL;
    int64_t room = 0, count = 0;
    uint64_t chance = secret[0] | 1;
    int out = NO_MEMORY;
    if (!sorted || !make_room((void **)&waiting, &room, 64, sizeof *waiting)) goto done;
    for (int64_t i = 0; i < size; i++) sorted[i] = (Sorted){sort_key(set, (int32_t)i, 0), (int32_t)i};
    waiting[count++] = (Stretch){0, size, 0};
    while (count) {
        const Stretch now = waiting[--count];
        if (now.stop - now.start <= 16) {
            for (int64_t i = now.start + 1; i < now.stop; i++) {
                const Sorted held = sorted[i];
                int64_t j = i;
                for (; j > now.start && word_before(set, held, sorted[j - 1], now.depth); j--) sorted[j] = sorted[j - 1];
                sorted[j] = held;
            }
            continue;
        }
        /* A pivot that nobody can foresee: the middle one of three drawn. */
        uint64_t drawn[3];
        for (int d = 0; d < 3; d++) {
            chance = chance * 6364136223846793005u + 1442695040888963407u;
            drawn[d] = sorted[now.start + (int64_t)((chance >> 33) % (uint64_t)(now.stop - now.start))].key;
        }
        const uint64_t low = drawn[0] < drawn[1] ? drawn[0] : drawn[1], high = drawn[0] < drawn[1] ? drawn[1] : drawn[0];
        const uint64_t pivot = drawn[2] < low ? low : drawn[2] > high ? high : drawn[2];
        int64_t less = now.start, i = now.start, more = now.stop;
        while (i < more) {
            if (sorted[i].key < pivot) swap_sorted(sorted + less++, sorted + i++);
            else if (sorted[i].key > pivot) swap_sorted(sorted + i, sorted + --more);
            else i++;
        }
        /* Those that end within these eight bytes come first, the shorter before the longer: zeros are real there. They
         * are nine at most, for strings are distinct. */
        int64_t ended = less;
        for (i = less; i < more; i++)
            if (word_size(set, sorted[i].number) <= now.depth + 8) swap_sorted(sorted + ended++, sorted + i);
        for (i = less + 1; i < ended; i++)
            for (int64_t j = i; j > less && word_size(set, sorted[j].number) < word_size(set, sorted[j - 1].number); j--)
                swap_sorted(sorted + j, sorted + j - 1);
        for (i = ended; i < more; i++) sorted[i].key = sort_key(set, sorted[i].number, now.depth + 8);
        if (!make_room((void **)&waiting, &room, count + 3, sizeof *waiting)) goto done;
        const Stretch parts[3] = {{now.start, less, now.depth}, {ended, more, now.depth + 8}, {more, now.stop, now.depth}};
        for (int p = 0; p < 3; p++)
            if (parts[p].stop - parts[p].start > 1) waiting[count++] = parts[p];
    }
    for (int64_t i = 0; i < size; i++) order[i] = sorted[i].number;
    out = 0;
done:
    free(sorted);
    free(waiting);
    return out;
}

/* ---- pairs of numbers ---- */

typedef struct {
    uint64_t pair;
    int32_t number; /* -1: nobody's */
} PairSlot;

typedef struct {
    uint64_t *pairs; /* first << 32 | second */
    int64_t pairs_room;
    int64_t size;
    PairSlot *slots;
    int64_t slot_count;
    int shift;
} PairSet;

static void pairs_free(PairSet *set) {
    free(set->pairs);
    free(set->slots);
    memset(set, 0, sizeof *set);
}

static inline uint64_t pair_of(int32_t first, int32_t second) {
    return (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
}

static inline uint64_t pair_hash(uint64_t pair) { return fold(pair ^ secret[0], secret[1]); }

static bool pairs_reserve(PairSet *set, int64_t count) {
    if (LIKELY(count * 2 <= set->slot_count)) return true;
    int64_t more = set->slot_count ? set->slot_count : 1024;
    int shift = set->slot_count ? set->shift : 54;
    while (more < count * 2) more *= 2, shift--;
    if ((uint64_t)more > (uint64_t)PTRDIFF_MAX / sizeof(PairSlot)) return false;
    if (more == set->slot_count) return true;
    PairSlot *slots = malloc((size_t)more * sizeof(PairSlot));
    if (!slots) return false;
    memset(slots, 0xFF, (size_t)more * sizeof(PairSlot));
    const int64_t wrap = more - 1;
    for (int64_t i = 0; i < set->slot_count; i++) {
        const PairSlot slot = set->slots[i];
        if (slot.number < 0) continue;
        int64_t at = (int64_t)(pair_hash(slot.pair) >> shift);
        while (slots[at].number >= 0) at = (at + 1) & wrap;
        slots[at] = slot;
    }
    free(set->slots);
    set->slots = slots;
    set->slot_count = more;
    set->shift = shift;
    return true;
}

/* The number of a pair; UNKNOWN if it is new and the set may not grow. */
static inline int32_t pairs_number(PairSet *set, uint64_t pair, uint64_t hash, bool grow) {
    if (set->slot_count) {
        const int64_t wrap = set->slot_count - 1;
        for (int64_t at = (int64_t)(hash >> set->shift);; at = (at + 1) & wrap) {
            const PairSlot *slot = set->slots + at;
            if (slot->number < 0) break;
            if (slot->pair == pair) return slot->number;
        }
    }
    if (!grow) return UNKNOWN;
    if (set->size >= INT32_MAX) return TOO_MANY;
    if (!make_room((void **)&set->pairs, &set->pairs_room, set->size + 1, sizeof *set->pairs) ||
        !pairs_reserve(set, set->size + 1))
        return NO_MEMORY;
    const int32_t number = (int32_t)set->size;
    const int64_t wrap = set->slot_count - 1;
    int64_t at = (int64_t)(hash >> set->shift);
    while (set->slots[at].number >= 0) at = (at + 1) & wrap;
    set->slots[at] = (PairSlot){pair, number};
    set->pairs[set->size++] = pair;
    return number;
}

static inline void pairs_fetch(const PairSet *set, uint64_t hash) {
    if (set->slot_count) FETCH(set->slots + (hash >> set->shift));
}

/* to[i] = the number of (first[i], second[i]); negative numbers are unknown, and an error where the set may grow. */
static int pairs_numbers(PairSet *set, const int32_t *first, const int32_t *second, int64_t count, bool grow,
                         int32_t *to) {
    uint64_t pairs[AHEAD], hashes[AHEAD];
    for (int64_t i = 0; i < count + AHEAD; i++) {
        const int slot = (int)(i % AHEAD);
        if (i >= AHEAD) {
            const int64_t at = i - AHEAD;
            int32_t number = UNKNOWN;
            if (pairs[slot] & 0x8000000080000000u) {
                if (grow) return BAD_NUMBER;
            } else if ((number = pairs_number(set, pairs[slot], hashes[slot], grow)) < UNKNOWN) return number;
            to[at] = number;
        }
        if (i < count) {
            pairs[slot] = pair_of(first[i], second[i]);
            hashes[slot] = pair_hash(pairs[slot]);
            pairs_fetch(set, hashes[slot]);
        }
    }
    return 0;
}

/* Adds (first_to[a], second_to[b]) for every pair (a, b) of another set; to[i] = where pair i went. */
static int pairs_merge(PairSet *set, const PairSet *other, const int32_t *first_to, int64_t first_size,
                       const int32_t *second_to, int64_t second_size, int32_t *to) {
    uint64_t pairs[AHEAD], hashes[AHEAD];
    for (int64_t i = 0; i < other->size + AHEAD; i++) {
        const int slot = (int)(i % AHEAD);
        if (i >= AHEAD) {
            const int32_t number = pairs_number(set, pairs[slot], hashes[slot], true);
            if (number < 0) return number;
            to[i - AHEAD] = number;
        }
        if (i < other->size) {
            const int64_t a = (int64_t)(other->pairs[i] >> 32), b = (int64_t)(other->pairs[i] & 0xFFFFFFFF);
            if (a >= first_size || b >= second_size) return BAD_NUMBER;
            pairs[slot] = pair_of(first_to[a], second_to[b]);
            if (pairs[slot] & 0x8000000080000000u) return BAD_NUMBER;
            hashes[slot] = pair_hash(pairs[slot]);
            pairs_fetch(set, hashes[slot]);
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
    memset(set, 0, sizeof *set);
    if (!other->size) return 0;
    if (!make_room((void **)&set->pairs, &set->pairs_room, other->size, sizeof *set->pairs)) return NO_MEMORY;
    memcpy(set->pairs, other->pairs, (size_t)other->size * sizeof *set->pairs);
    if (!(set->slots = malloc((size_t)other->slot_count * sizeof(PairSlot)))) return NO_MEMORY;
    memcpy(set->slots, other->slots, (size_t)other->slot_count * sizeof(PairSlot));
    set->slot_count = other->slot_count;
    set->shift = other->shift;
    set->size = other->size;
    return 0;
}

#endif
