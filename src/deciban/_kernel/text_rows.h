/* Texts as rows: the distinct items of each, in the order in which they first come.
 *
 * Items are looked up in sets that stay as they are, and what these do not know either joins sets that grow, where texts
 * are learned, or is strange, where they are asked about: then it has a number only to differ from others, and is
 * UNKNOWN in the end. A strange item counts as one of the items of its text all the same. */
#ifndef DECIBAN_TEXT_ROWS_H
#define DECIBAN_TEXT_ROWS_H

#include "text_loops.h"

/* ---- what a text has had so far ---- */

typedef struct {
    uint64_t key;
    uint32_t text;  /* that it was seen in last */
    uint32_t place; /* among what is distinct in that text */
} Met;

/* A table that need not be emptied between texts. */
typedef struct {
    Met *slots;
    int64_t room; /* a power of two, or 0 at first */
    int64_t wrap; /* of those in use for the present text */
    int shift;
    uint32_t text;
} Seen;

/* A new text of up to `count` items. */
static bool seen_begin(Seen *seen, int64_t count) {
    int64_t room = 16;
    int bits = 4;
    while (room < count * 2) room *= 2, bits++;
    if (room > seen->room || seen->text == UINT32_MAX) {
        Met *slots = calloc((size_t)(room > seen->room ? room : seen->room), sizeof *slots);
        if (!slots) return false;
        free(seen->slots);
        seen->slots = slots;
        if (room > seen->room) seen->room = room;
        seen->text = 0;
    }
    seen->wrap = room - 1;
    seen->shift = 64 - bits;
    seen->text++;
    return true;
}

/* Where a key is; *fresh is whether the text did not have it before. */
static inline Met *seen_at(Seen *seen, uint64_t key, bool *fresh) {
    int64_t at = (int64_t)((key ^ secret[0]) * secret[1] >> seen->shift);
    for (;; at = (at + 1) & seen->wrap) {
        Met *met = seen->slots + at;
        if (met->text != seen->text) {
            *met = (Met){key, seen->text, 0};
            *fresh = true;
            return met;
        }
        if (met->key == key) {
            *fresh = false;
            return met;
        }
    }
}

static inline bool seen_first(Seen *seen, uint64_t key) {
    bool fresh;
    seen_at(seen, key, &fresh);
    return fresh;
}

/* ---- rows ---- */

typedef struct {
    int32_t *ids;
    int64_t *indptr; /* the caller's */
    int64_t room, size;
} Row;

static bool row_room(Row *row, int64_t more) {
    return make_room((void **)&row->ids, &row->room, row->size + more, sizeof *row->ids);
}

/* Numbers from `known` on become UNKNOWN. */
static void row_end(Row *row, int64_t known) {
    int32_t *const ids = row->ids;
    const int32_t first = known < INT32_MAX ? (int32_t)known : INT32_MAX; /* itself the number of no item */
    for (int64_t i = 0; i < row->size; i++) ids[i] = ids[i] >= first ? UNKNOWN : ids[i];
}

enum { STAMPED_SHARE = 8 }; /* items that are known for each one that texts have, up to which all of them are stamped */

/* What is found out about the words of texts: times[i] = how often the i-th distinct one comes in its text, and
 * again[i] = whether token i comes more than once in its text; place[i] is room for as many. */
typedef struct {
    uint32_t *times, *place;
    uint8_t *again;
} Recurring;

static void recurring_free(Recurring *words) {
    free(words->times);
    free(words->place);
    free(words->again);
}

static bool recurring_room(Recurring *words, int64_t tokens) {
    const size_t size = (size_t)tokens + 1;
    words->times = malloc(size * sizeof *words->times);
    words->place = malloc(size * sizeof *words->place);
    words->again = malloc(size);
    return words->times && words->place && words->again;
}

/* distinct_words of a text where texts are many: `last` has for each word 1 + the text that had it last, and its place
 * there. */
static inline void stamp_words(const int32_t *ids, int64_t count, uint64_t stamp, uint64_t *last, Row *out,
                               uint32_t *times, uint32_t *place) {
    const int64_t first = out->size;
    for (int64_t i = 0; i < count; i++) {
        const int32_t id = ids[i];
        const bool fresh = last[id] < stamp;
        const uint64_t mine = fresh ? stamp | (uint64_t)(out->size - first) : last[id];
        last[id] = mine;
        place[i] = (uint32_t)mine;
        times[out->size] = 0; /* room for one more */
        times[first + (int64_t)place[i]]++;
        out->ids[out->size] = id; /* stays if it is new */
        out->size += fresh;
    }
}

static inline void meet_words(const int32_t *ids, int64_t count, Seen *seen, Row *out, uint32_t *times,
                              uint32_t *place) {
    const int64_t first = out->size;
    for (int64_t i = 0; i < count; i++) {
        bool fresh;
        Met *met = seen_at(seen, (uint32_t)ids[i], &fresh);
        if (fresh) {
            met->place = (uint32_t)(out->size - first);
            times[out->size] = 0;
            out->ids[out->size++] = ids[i];
        }
        place[i] = met->place;
        times[first + met->place]++;
    }
}

/* The distinct words of each text, strange ones too, of which `known` have numbers. */
static int distinct_words(const int32_t *ids, const int64_t *indptr, int64_t count, int64_t known, Seen *seen, Row *out,
                          Recurring *words) {
    uint64_t *last = NULL;
    out->indptr[0] = 0;
    if (!row_room(out, indptr[count] - indptr[0] + 1) || !recurring_room(words, indptr[count])) return NO_MEMORY;
    if (indptr[count] > known / STAMPED_SHARE && count < UINT32_MAX && !(last = calloc((size_t)known + 1, sizeof *last)))
        return NO_MEMORY;
    int failed = 0;
    for (int64_t d = 0; d < count && !failed; d++) {
        const int64_t begin = indptr[d], size = indptr[d + 1] - begin, first = out->size;
        uint32_t *const place = words->place + begin;
        if (last) stamp_words(ids + begin, size, (uint64_t)(d + 1) << 32, last, out, words->times, place);
        else if (seen_begin(seen, size)) meet_words(ids + begin, size, seen, out, words->times, place);
        else failed = NO_MEMORY;
        for (int64_t i = 0; i < size && !failed; i++) words->again[begin + i] = words->times[first + place[i]] > 1;
        out->indptr[d + 1] = out->size;
    }
    free(last);
    return failed;
}

/* ---- pairs ---- */

/* Pairs are found one text after the other, and looked up all at once. */
typedef struct {
    uint64_t *keys;
    int64_t room, size;
} Keys;

/* Adds a key unless the text has had it; a key that cannot come twice is not noted. */
static inline void add_key(Keys *keys, Seen *seen, uint64_t key, bool recurs) {
    if (!recurs || seen_first(seen, key)) keys->keys[keys->size++] = key;
}

static bool keys_room(Keys *keys, int64_t more) {
    return make_room((void **)&keys->keys, &keys->room, keys->size + more, sizeof *keys->keys);
}

/* The distinct pairs (ids[i], ids[i + shift]) of each text, for each of the shifts; with a mark those at both ends too. A
 * pair that comes again has a word that does, and both of its words do unless there are several shifts. */
static int keys_of_pairs(const int32_t *ids, const uint8_t *again, const int64_t *indptr, int64_t count,
                         const int64_t *shifts, int n_shifts, int32_t mark, Seen *seen, Keys *out, int64_t *out_indptr) {
    out_indptr[0] = 0;
    if (!keys_room(out, (indptr[count] - indptr[0]) * n_shifts + 2 * count)) return NO_MEMORY;
    for (int64_t d = 0; d < count; d++) {
        const int32_t *const a = ids + indptr[d];
        const uint8_t *const recurs = again + indptr[d];
        const int64_t size = indptr[d + 1] - indptr[d];
        uint64_t *to = out->keys + out->size;
        if (!seen_begin(seen, size * n_shifts)) return NO_MEMORY;
        if (mark >= 0 && size) *to++ = pair_of(mark, a[0]);
        for (int s = 0; s < n_shifts; s++)
            for (int64_t i = 0, j = shifts[s]; j < size; i++, j++) {
                const bool both = n_shifts > 1 ? recurs[i] | recurs[j] : recurs[i] & recurs[j];
                *to = pair_of(a[i], a[j]);
                to += !both || seen_first(seen, *to);
            }
        if (mark >= 0 && size) *to++ = pair_of(a[size - 1], mark);
        out_indptr[d + 1] = out->size = to - out->keys;
    }
    return 0;
}

/* The distinct pairs of a header field and a word in it. */
static int keys_of_fields(const int32_t *fields, const int32_t *ids, const uint8_t *again, const int64_t *indptr,
                          int64_t count, Seen *seen, Keys *out, int64_t *out_indptr) {
    out_indptr[0] = 0;
    if (!keys_room(out, indptr[count] - indptr[0])) return NO_MEMORY;
    for (int64_t d = 0; d < count; d++) {
        if (!seen_begin(seen, indptr[d + 1] - indptr[d])) return NO_MEMORY;
        for (int64_t i = indptr[d]; i < indptr[d + 1]; i++)
            if (fields[i] >= 0) add_key(out, seen, pair_of(fields[i], ids[i]), again[i]);
        out_indptr[d + 1] = out->size;
    }
    return 0;
}

/* Words and the least numbers of times that they come, for those of `levels` that they reach. */
static int keys_of_repeats(const Row *words, const uint32_t *times, int64_t count, const int32_t *levels, int n_levels,
                           Keys *out, int64_t *out_indptr) {
    out_indptr[0] = 0;
    for (int64_t d = 0; d < count; d++) {
        if (!keys_room(out, (words->indptr[d + 1] - words->indptr[d]) * n_levels)) return NO_MEMORY;
        for (int64_t i = words->indptr[d]; i < words->indptr[d + 1]; i++)
            for (int l = 0; l < n_levels && times[i] >= (uint32_t)levels[l]; l++)
                out->keys[out->size++] = pair_of(words->ids[i], levels[l]);
        out_indptr[d + 1] = out->size;
    }
    return 0;
}

typedef struct {
    PairSet *fixed; /* not changed; NULL: none */
    PairSet *pairs; /* NULL: none */
    bool grow;
    int64_t fixed_words; /* the words that pairs of `fixed` are of have numbers below this, */
    int64_t known_words; /* and those of any pair below this */
    bool of_words;       /* whether the second number is a word too */
} PairLayers;

enum { FAR = 64 }; /* pairs before its use a line is asked for; a power of two */

/* The numbers of pairs. */
static int find_keys(const Keys *keys, const PairLayers *layers, Row *out) {
    const int64_t before = layers->fixed ? layers->fixed->size : 0, count = keys->size;
    const PairSet *const first = layers->fixed ? layers->fixed : layers->pairs;
    uint64_t hashes[FAR];
    if (!row_room(out, count)) return NO_MEMORY;
    for (int64_t i = 0; i < count + FAR; i++) {
        uint64_t *const ring = hashes + (uint64_t)i % FAR;
        if (i >= FAR) {
            const uint64_t pair = keys->keys[i - FAR];
            const int64_t a = (int64_t)(pair >> 32), b = layers->of_words ? (int64_t)(pair & 0xFFFFFFFF) : 0;
            const int64_t most = a > b ? a : b;
            int32_t number = layers->fixed ? pairs_find(layers->fixed, pair, *ring) : UNKNOWN;
            number = most < layers->fixed_words ? number : UNKNOWN; /* afterwards: nobody can guess which are strange */
            if (number == UNKNOWN && layers->pairs && most < layers->known_words) {
                number = pairs_number(layers->pairs, pair, *ring, layers->grow);
                if (number < UNKNOWN) return number;
                if (number >= 0 && before + number > INT32_MAX) return TOO_MANY;
                if (number >= 0) number += (int32_t)before;
            }
            out->ids[out->size++] = number;
        }
        if (i < count) {
            *ring = pair_hash(keys->keys[i]);
            if (first) pairs_fetch(first, *ring);
        }
    }
    return 0;
}

/* ---- runs of characters ---- */

static const uint8_t *layered_text(const Layers *layers, int64_t number, int64_t *size) {
    for (int l = 0; l <= FIXED; l++) {
        const WordSet *set = l < FIXED ? layers->fixed[l] : layers->words;
        if (!set) continue;
        if (number < set->size) {
            *size = word_size(set, number);
            return word_text(set, number);
        }
        number -= set->size;
    }
    *size = 0;
    return (const uint8_t *)"";
}

/* The runs of words that are known, in a set of which all of them are: of word w they begin at ids[at[w]], and their
 * number is in front of them. 0: its runs are not all known. */
typedef struct {
    int64_t *at;
    int64_t words;
    Stream runs;
} Noted;

/* Notes the runs of all words; `at` has room for them. */
static int note_runs(const WordSet *words, WordSet *grams, Lengths lengths, bool scripts, Noted *out) {
    Stream *runs = &out->runs;
    Asking asking = {.layers = layers_of(grams, false), .out = runs};
    Spaced spaced = {0};
    int failed = 0;
    runs->total = words_bytes(words);
    for (int64_t w = 0; w < words->size && !failed; w++) {
        if (!stream_room(runs, 1, false)) {
            failed = NO_MEMORY;
            break;
        }
        const int64_t begin = ++runs->size;
        failed = runs_of_word(word_text(words, w), word_size(words, w), &spaced, lengths, scripts, &asking);
        bool whole = runs->size - begin <= INT32_MAX;
        for (int64_t r = begin; r < runs->size; r++) whole &= runs->ids[r] != UNKNOWN;
        runs->ids[begin - 1] = (int32_t)(runs->size - begin);
        out->at[w] = whole ? begin : 0;
        if (!whole) runs->size = begin - 1;
        runs->done += word_size(words, w);
    }
    out->words = words->size;
    free(spaced.text);
    return failed;
}

/* The distinct ones of the runs in `lists` of each text's words, and of its stretches. */
static int distinct_runs(const Row *words, int64_t count, const int32_t *const *lists, const int32_t *stretches,
                         const int64_t *stretches_indptr, int64_t known, Seen *seen, Row *out) {
    int64_t total = stretches ? stretches_indptr[count] : 0;
    for (int64_t i = 0; i < words->size; i++) total += lists[i][-1];
    uint32_t *last = NULL; /* by run: 1 + the text that had it last */
    if (total > known / STAMPED_SHARE && count < UINT32_MAX && !(last = calloc((size_t)known + 1, sizeof *last)))
        return NO_MEMORY;
    int failed = row_room(out, total + 1) ? 0 : NO_MEMORY;
    out->indptr[0] = 0;
    for (int64_t d = 0; d < count && !failed; d++) {
        const int64_t more = stretches ? stretches_indptr[d + 1] - stretches_indptr[d] : 0;
        int64_t most = more;
        for (int64_t i = words->indptr[d]; i < words->indptr[d + 1]; i++) most += lists[i][-1];
        if (!last && !seen_begin(seen, most)) failed = NO_MEMORY;
        const uint32_t stamp = (uint32_t)d + 1;
        for (int64_t i = words->indptr[d]; i <= words->indptr[d + 1] && !failed; i++) {
            const bool of_word = i < words->indptr[d + 1];
            const int32_t *list = of_word ? lists[i] : more ? stretches + stretches_indptr[d] : NULL;
            const int64_t size = of_word ? list[-1] : more;
            if (last) {
                int32_t *to = out->ids + out->size;
                for (int64_t r = 0; r < size; r++) {
                    const int32_t run = list[r];
                    *to = run; /* stays if it is new */
                    to += last[run] != stamp;
                    last[run] = stamp;
                }
                out->size = to - out->ids;
            } else
                for (int64_t r = 0; r < size; r++)
                    if (seen_first(seen, (uint32_t)list[r])) out->ids[out->size++] = list[r];
        }
        out->indptr[d + 1] = out->size;
    }
    free(last);
    return failed;
}

/* The distinct runs of each text: those inside its words, and stretches of letters that stand alone. `noted` may be
 * empty. */
static int runs_of_rows(const Row *words, int64_t count, const Layers *spelled, const Noted *noted,
                        const int32_t *stretches, const int64_t *stretches_indptr, const Layers *grams, Lengths lengths,
                        bool scripts, Seen *seen, Row *out) {
    Stream runs = {0};
    Asking asking = {.layers = *grams, .out = &runs};
    Spaced spaced = {0};
    const int64_t total = words->size;
    const int64_t known = fixed_size(spelled) + (spelled->words ? spelled->words->size : 0);
    const bool often = total > known / 4; /* then a word comes often enough to note its runs */
    int64_t *memo = often ? calloc((size_t)known + 1, sizeof *memo) : NULL; /* where they begin, 0: not yet */
    int64_t *begin = malloc((size_t)(total + 1) * sizeof *begin); /* 0: they are noted already */
    const int32_t **lists = malloc((size_t)(total + 1) * sizeof *lists);
    int failed = begin && lists && (memo || !often) ? 0 : NO_MEMORY;
    runs.total = total;
    for (int64_t i = 0; i < total && !failed; i++) {
        const int32_t word = words->ids[i];
        runs.done = i;
        begin[i] = 0;
        if (word < noted->words && noted->at[word]) {
            lists[i] = noted->runs.ids + noted->at[word];
            continue;
        }
        if (memo && memo[word]) {
            begin[i] = memo[word];
            continue;
        }
        if (!stream_room(&runs, 1, false)) {
            failed = NO_MEMORY;
            break;
        }
        begin[i] = ++runs.size; /* their number is in front of them */
        if (memo) memo[word] = begin[i];
        int64_t bytes;
        const uint8_t *text = layered_text(spelled, word, &bytes);
        failed = runs_of_word(text, bytes, &spaced, lengths, scripts, &asking);
        if (runs.size - begin[i] > INT32_MAX) failed = TOO_MANY;
        runs.ids[begin[i] - 1] = (int32_t)(runs.size - begin[i]);
    }
    for (int64_t i = 0; i < total && !failed; i++)
        if (begin[i]) lists[i] = runs.ids + begin[i];
    if (!failed)
        failed = distinct_runs(words, count, lists, stretches, stretches_indptr,
                               fixed_size(grams) + (grams->words ? grams->words->size : 0), seen, out);
    free(runs.ids);
    free(spaced.text);
    free(memo);
    free(begin);
    free(lists);
    return failed;
}

#endif
