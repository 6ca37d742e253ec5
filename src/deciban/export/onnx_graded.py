"""Graded evidence of texts as an ONNX graph.

Items are integers all along. The distinct words of all texts are numbered, whether they are known or not, since unknown
ones count as items of their text too. A pair is an integer made of two such numbers, a run of characters one made of
their codes; sorted, equal ones of a text are neighbours, and each counts once. Lists of items have no padding, so that
a long text costs the others little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from deciban._typing import Array
from deciban.export.onnx import ML, check_size
from deciban.export.onnx_text import TextGraph, ranges
from deciban.export.text_items import BlockRecords, block_records
from deciban.formula import Formula, Scores
from deciban.scorer import MAIL_ANSWERS
from deciban.text.common import COMMON_GRAIN
from deciban.text.graded import Graded
from deciban.text.items import GAPS, REPEAT_TIMES, RUNS, Lexicon
from deciban.text.mail.message import MAX_BODY_CHARACTERS
from deciban.text.store import GRAIN
from deciban.text.sums import DAMPING
from deciban.text.tokens import MAX_WORD_CHARACTERS, simple_characters

BLANK, FIRST_CODE = 1, 2  # codes of characters: 0 is none, and a blank is on both sides of a word
LARGEST_KEY = 2.0**62  # of integers that stand for an item of a text
TINY = 1e-300  # below any sum that is not zero
LAST = np.iinfo(np.int64).max  # as the end of a slice: all of it
PIECE = 100  # characters
HEADER_FIELD = r"\A(?:From |[A-Za-z][A-Za-z0-9-]*:)"  # how a text begins that may have header fields


def graded_to_onnx(model: Graded, lower: bool, mail_costs: tuple[float, float, float] | None = None) -> Any:
    """The graph of a model that keeps its words. With the costs of `mail_answers`, it is a filter for mail."""
    records = block_records(model)
    check_size(sum(each.size for each in records.values()) + 2 * model.sums.n_items)
    if mail_costs is None:
        return GradedGraph(model, lower, records).model()
    return MailGraph(model, lower, records, mail_costs).model()


class ItemsOfTexts(NamedTuple):
    """Items of texts, each once: the text of each, (items,), and its record."""

    text: str
    record: str


class GradedGraph(TextGraph):
    """A method for each block of items gives its entries, and `evidence` what these add to the scores."""

    def __init__(self, model: Graded, lower: bool, records: Mapping[str, BlockRecords]) -> None:
        self.graded, self.lower, self.records = model, lower, records
        offsets = model.effective_choice.pool.offsets + model.log_prior
        super().__init__(Formula(model.classes, (), (), (), Scores((), offsets), model.log_prior, ()))
        self.characters_read = simple_characters(lower, model.rule)
        letters, signs, _ = self.characters_read
        read = [one for one in letters + signs if not (lower and one.isascii() and one.isupper())]
        self.codes = {one: code for code, one in enumerate(read, FIRST_CODE)}
        self.base = FIRST_CODE + len(read)  # of the numbers that are made of codes
        assert isinstance(model.sums.lexicon, Lexicon)
        self.lexicon = model.sums.lexicon
        words = self.lexicon.words.strings()
        readable = np.array([self.codes.keys() >= set(word) for word in words])  # so is the mark, which is empty
        self.number = np.where(readable, np.cumsum(readable) - 1, -1)  # in the graph, of each word; 0 is the mark
        self.words = [word for word, mine in zip(words, readable.tolist(), strict=True) if mine]

    # ------------------------------------------------------------------ tools

    def several(self, operator: str, *inputs: str, outputs: int, **settings: Any) -> list[str]:
        """An operator with several outputs."""
        names = [f"{self.prefix}v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), names, **settings))
        return names

    def part(self, x: str, start: int, stop: int = LAST, axis: int = 0) -> str:
        return self.op("Slice", x, self.integers([start]), self.integers([stop]), self.integers([axis]))

    def joined(self, *lists: str) -> str:
        return lists[0] if len(lists) == 1 else self.op("Concat", *lists, axis=0)

    def listed(self, x: str) -> str:
        """All numbers as one list."""
        return self.op("Reshape", x, self.integers([-1]))

    def column(self, x: str) -> str:
        """A list as a matrix of one column."""
        return self.op("Unsqueeze", x, self.integers([1]))

    def before(self, x: str, first: str) -> str:
        """A list of what comes before each."""
        return self.joined(first, self.part(x, 0, -1))

    def differ(self, x: str, y: str) -> str:
        return self.op("Not", self.op("Equal", x, y))

    def found(self, keys: str, known: Mapping[int, int], unknown: int) -> str:
        """The records of items, by the integers that stand for them."""
        known = {-1: unknown, **known}  # there must be one
        how: dict[str, Any] = {"keys_int64s": list(known), "values_int64s": list(known.values())}
        return self.op("LabelEncoder", keys, domain=ML, default_int64=unknown, **how)

    def distinct(self, keys: str) -> tuple[str, str]:
        """The distinct keys, ascending, and how often each occurs."""
        ascending, _ = self.several("TopK", keys, self.op("Shape", keys), outputs=2, largest=0)
        new = self.differ(ascending, self.before(ascending, self.integers([-1])))
        starts = self.listed(self.op("NonZero", new))
        ends = self.joined(self.part(starts, 1), self.op("Shape", keys))
        return self.op("Compress", ascending, new), self.op("Sub", ends, starts)

    def taken_apart(self, keys: str, base: str) -> tuple[str, str]:
        """a and b of the keys a · base + b."""
        return self.op("Div", keys, base), self.op("Mod", keys, base)

    def put_together(self, base: str, *parts: str) -> str:
        """a · base + b, and so on."""
        key = parts[0]
        for each in parts[1:]:
            key = self.op("Add", self.op("Mul", key, base), each)
        return key

    def by_text(self, values: str, text: str, width: int) -> str:
        """The sums over the items of each text, (n, width), of values (items, width)."""
        at = self.op("Mul", self.column(text), self.integers(width))
        at = self.listed(self.op("Add", at, self.integers(np.arange(width)[None])))
        zeros = self.op("Expand", self.constant(0.0), self.op("Mul", self.n, self.integers([width])))
        sums = self.op("ScatterElements", zeros, at, self.listed(values), axis=0, reduction="add")
        return self.op("Reshape", sums, self.integers([-1, width]))

    # ------------------------------------------------------------------ words

    def add_inputs(self) -> None:
        """The distinct words of all texts, and the text and the word of every token."""
        letters, signs, spaces = map(ranges, self.characters_read)
        texts = self.read_texts("|".join([f"[^{letters}{signs}{spaces}]", *self.strange()]))
        texts = self.op("Where", self.listed(self.uncertain), self.constant(b"", object), texts)
        # A text of our own comes last, so that no list of items is empty. It is dropped in the end.
        texts = self.joined(texts, self.constant([b"a " * max(REPEAT_TIMES)], object))
        self.n = self.op("Shape", texts)
        tokens = self.tokens(self.lower_case(texts) if self.lower else texts, f"[{letters}]+|[{signs}]+")
        there = self.cast(self.is_token(tokens), "BOOL")
        self.text = self.listed(self.part(self.op("NonZero", there), 0, 1))
        whole, _, place = self.several("Unique", self.op("Compress", tokens, self.listed(there)), outputs=3)
        # Of a very long word, only the start is read.
        start = self.tokenizer(whole, tokenexp=rf"\A(?s:.{{1,{MAX_WORD_CHARACTERS}}})")
        self.strings, _, word = self.several("Unique", self.listed(start), outputs=3)
        self.word, self.n_words = self.op("Gather", word, place), self.op("Shape", self.strings)
        self.n_marked = self.op("Add", self.n_words, self.integers([1]))  # with the mark
        known = {word: i for i, word in enumerate(self.words)}
        numbers = self.numbers_of(self.strings, known, len(self.words))
        self.known_word = self.joined(numbers, self.integers([0]))  # after the last word is the mark
        keys, times = self.distinct(self.put_together(self.n_words, self.text, self.word))
        self.text_words, self.times = self.taken_apart(keys, self.n_words), times
        self.check_keys()

    def strange(self) -> list[str]:
        """Regular expressions that are found in texts that the graph cannot read, although it knows their
        characters."""
        return [HEADER_FIELD] if "headers" in self.graded.sums.blocks else []

    def check_keys(self) -> None:
        """There is no answer if integers are too small for the items of so many texts."""
        pairs = self.op("Mul", self.n_marked, self.n_marked)
        most = self.cast(self.op("Max", pairs, self.integers([self.base ** RUNS[1]])), "DOUBLE")
        keys = self.op("Mul", most, self.cast(self.n, "DOUBLE"))
        self.uncertain = self.op("Or", self.uncertain, self.op("Greater", keys, self.constant([LARGEST_KEY])))

    # ------------------------------------------------------------------ items

    def of_words(self, records: BlockRecords) -> ItemsOfTexts:
        text, word = self.text_words
        by_word = np.full(len(self.words) + 1, records.unknown)
        by_word[self.number[self.number >= 0]] = records.of_item[self.number >= 0]
        return ItemsOfTexts(text, self.op("Gather", self.integers(by_word), self.op("Gather", self.known_word, word)))

    def of_pairs(self, records: BlockRecords) -> ItemsOfTexts:
        """Neighbours, and the mark before the first word of a text and after the last."""
        first = self.differ(self.text, self.before(self.text, self.integers([-1])))
        last = self.differ(self.text, self.joined(self.part(self.text, 1), self.integers([-1])))
        left = self.op("Where", first, self.n_words, self.before(self.word, self.integers([0])))
        keys = self.pairs(self.text, left, self.word)
        end, final = (self.op("Compress", x, last) for x in (self.text, self.word))
        ends = self.pairs(end, final, self.n_words)
        return self.of_keys("pairs", records, keys, ends)

    def of_gaps(self, records: BlockRecords) -> ItemsOfTexts:
        keys = []
        for gap in GAPS:
            text, after = self.part(self.text, 0, -gap), self.part(self.text, gap)
            pairs = self.pairs(text, self.part(self.word, 0, -gap), self.part(self.word, gap))
            keys.append(self.op("Compress", pairs, self.op("Equal", text, after)))
        return self.of_keys("gaps", records, *keys)

    def pairs(self, text: str, left: str, right: str) -> str:
        """The keys of pairs of words, among which is the mark."""
        return self.put_together(self.n_marked, text, left, right)

    def of_keys(self, block: str, records: BlockRecords, *keys: str) -> ItemsOfTexts:
        """The entries of pairs by their keys."""
        rest, right = self.taken_apart(self.distinct(self.joined(*keys))[0], self.n_marked)
        text, left = self.taken_apart(rest, self.n_marked)
        base = len(self.words) + 1
        both = (self.op("Gather", self.known_word, word) for word in (left, right))
        first, second = (self.number[words] for words in getattr(self.lexicon, block).arrays())
        known = known_keys(records, first * base + second, (first >= 0) & (second >= 0))
        return ItemsOfTexts(text, self.found(self.put_together(self.integers(base), *both), known, records.unknown))

    def of_repeats(self, records: BlockRecords) -> ItemsOfTexts:
        """Words that a text has often enough; one of them may be several items."""
        texts, keys, base = [], [], max(REPEAT_TIMES) + 1
        for times in REPEAT_TIMES:
            often = self.op("GreaterOrEqual", self.times, self.integers(times))
            text, word = (self.op("Compress", x, often) for x in self.text_words)
            texts.append(text)
            number = self.op("Gather", self.known_word, word)
            keys.append(self.put_together(self.integers(base), number, self.integers(times)))
        words, least = self.lexicon.repeats.arrays()
        first = self.number[words]
        known = known_keys(records, first * base + least, first >= 0)
        return ItemsOfTexts(self.joined(*texts), self.found(self.joined(*keys), known, records.unknown))

    def of_characters(self, records: BlockRecords) -> ItemsOfTexts:
        """Runs of characters: those of each distinct word, handed on to the texts that have it."""
        of_each = self.runs()  # (words, runs), 0 for none
        there = self.op("Greater", of_each, self.integers(0))
        runs = self.op("Compress", self.listed(of_each), self.listed(there))
        how_many = self.row_sums(self.cast(there, "INT64"), 0)
        text, word = self.text_words
        starts = self.op("Gather", self.op("CumSum", how_many, self.integers(0), exclusive=1), word)
        owner, place = self.spread(self.op("Gather", how_many, word))
        run = self.op("Gather", runs, self.op("Add", self.op("Gather", starts, owner), place))
        most = self.integers(self.base ** RUNS[1])
        keys, _ = self.distinct(self.put_together(most, self.op("Gather", text, owner), run))
        text, run = self.taken_apart(keys, most)
        return ItemsOfTexts(text, self.found(run, self.known_runs(records), records.unknown))

    def spread(self, sizes: str) -> tuple[str, str]:
        """For the members of lists of these sizes, of which none is empty: the list of each, and its place there."""
        starts = self.op("CumSum", sizes, self.integers(0), exclusive=1)
        total = self.op("ReduceSum", sizes, keepdims=1)
        zeros = self.op("Expand", self.integers(0), total)
        ones = self.op("Expand", self.integers(1), self.op("Shape", sizes))
        owner = self.op("CumSum", self.op("ScatterElements", zeros, starts, ones), self.integers(0))
        owner = self.op("Sub", owner, self.integers(1))
        every = self.op("Range", self.integers(0), self.op("Squeeze", total), self.integers(1))
        return owner, self.op("Sub", every, self.op("Gather", starts, owner))

    def runs(self) -> str:
        """The keys of the runs of each distinct word with a blank on both sides, (words, runs); 0 for none."""
        shortest, longest = RUNS
        codes = self.numbers_of(self.tokenizer(self.strings, separators=[""]), {"": 0, **self.codes}, 0)
        rows = self.joined(self.n_words, self.integers([1]))
        blank, none = (self.op("Expand", self.integers([[code]]), rows) for code in (BLANK, 0))
        codes = self.op("Concat", blank, codes, *[none] * (longest - 2), axis=1)
        earlier = self.op("Concat", blank, self.part(codes, 0, -1, axis=1), axis=1)
        ends = self.op("And", self.op("Equal", codes, self.integers(0)), self.op("Greater", earlier, self.integers(0)))
        codes = self.op("Where", ends, self.integers(BLANK), codes)
        out, key = [], ""
        for i in range(longest):
            mine = self.part(codes, i, i - longest + 1 or LAST, axis=1)
            key = self.put_together(self.integers(self.base), key, mine) if key else mine
            if i + 1 >= shortest:
                out.append(self.op("Where", self.op("Greater", mine, self.integers(0)), key, self.integers(0)))
        return self.side_by_side(out)

    def known_runs(self, records: BlockRecords) -> dict[int, int]:
        codes, known = {" ": BLANK, **self.codes}, {}
        for run, record in zip(self.lexicon.characters.strings(), records.of_item.tolist(), strict=True):
            if record != records.unknown and codes.keys() >= set(run):
                key = 0
                for one in run:
                    key = key * self.base + codes[one]
                known[key] = record
        return known

    # ------------------------------------------------------------------ scores

    def scores(self, scores: Scores) -> str:
        """Scores by class, (n, k)."""
        entries: dict[str, Callable[[BlockRecords], ItemsOfTexts]] = {
            "words": self.of_words,
            "pairs": self.of_pairs,
            "gaps": self.of_gaps,
            "characters": self.of_characters,
            "repeats": self.of_repeats,
        }  # a text that may have header fields is uncertain
        terms = [self.op("Expand", self.constant(scores.offsets[None]), self.joined(self.n, self.integers([self.k])))]
        jointly = []
        for block, records in self.records.items():
            if block not in entries:
                continue
            mine = entries[block](records)
            terms.append(self.evidence(records, mine))
            if len(records.slopes) > 1:
                is_common = self.op("Less", mine.record, self.integers(len(records.slopes) - 1))
                jointly.append(self.by_text(self.cast(is_common, "DOUBLE"), mine.text, 1))
        joint = self.graded.joint_slopes()
        if joint is not None and jointly:
            there = self.op("Greater", self.total(jointly), self.constant(0.0))
            terms.append(self.op("Where", there, self.constant(joint[1][None]), self.constant(0.0)))
        return self.part(self.total(terms), 0, -1)

    def evidence(self, records: BlockRecords, entries: ItemsOfTexts) -> str:
        """What the items of a block add to the scores, (n, k)."""
        text, record = entries
        items = self.by_text(self.op("Expand", self.constant(1.0), self.op("Shape", record)), text, 1)
        terms = []
        if records.know.size:
            factors = self.column(self.factors(records, entries, items))  # (items, 1, strengths)
            sums = self.op("MatMul", factors, self.op("Gather", self.constant(records.evidence), record))
            terms.append(self.op("Squeeze", sums, self.integers([1])))
        if len(records.slopes) > 1:
            column = self.op("Min", record, self.integers(len(records.slopes) - 1))
            x = self.op("Gather", self.power(items, 0.5, COMMON_GRAIN), text)
            terms.append(self.op("Mul", x, self.op("Gather", self.constant(records.slopes), column)))
        return self.by_text(self.total(terms), text, self.k)

    def factors(self, records: BlockRecords, entries: ItemsOfTexts, items: str) -> str:
        """What the evidence of each item is multiplied by, (items, strengths): belief / √Σκ + κ / √Σκ² + u^−¾, the last
        two times their weights."""
        text, record = entries
        know = self.op("Gather", self.constant(records.know), record)
        width, (belief, alike, by_know) = records.know.shape[1], (records.belief, records.alike, records.by_know)
        root = self.op("Gather", self.over_root(self.by_text(know, text, width)), text)
        terms = [self.op("Mul", self.op("Gather", self.constant(belief), record), root)]
        if by_know.any():
            squares = self.by_text(self.op("Mul", know, know), text, width)
            by_text = self.op("Mul", self.over_root(squares), self.constant(by_know[None]))
            terms.append(self.op("Mul", know, self.op("Gather", by_text, text)))
        if alike.any():
            by_text = self.op("Mul", self.power(items, DAMPING, GRAIN), self.constant(alike[None]))
            terms.append(self.op("Gather", by_text, text))
        return self.total(terms)

    def over_root(self, x: str) -> str:
        """1 / √x. If x is 0, it is multiplied by zeros."""
        return self.op("Reciprocal", self.op("Sqrt", self.op("Max", x, self.constant(TINY))))

    def power(self, items: str, power: float, grain: float) -> str:
        """u^−power of texts with u items, rounded as in the model."""
        u = self.op("Max", items, self.constant(1.0))
        scaled = self.op("Mul", self.op("Pow", u, self.constant(-power)), self.constant(grain))
        return self.op("Div", self.op("Round", scaled), self.constant(grain))


class MailGraph(GradedGraph):
    """A filter for mail, applied to texts that are no mail: header fields, parts and HTML cannot be read in a graph."""

    def __init__(
        self, model: Graded, lower: bool, records: Mapping[str, BlockRecords], costs: tuple[float, float, float]
    ) -> None:
        super().__init__(model, lower, records)
        self.costs = costs

    def add_inputs(self) -> None:
        super().add_inputs()
        # The end of a long body is not read. How long a text is can only be counted in pieces.
        pieces = self.row_sums(self.is_token(self.tokens(self.flat, f"(?s:.{{{PIECE}}})")))
        too_long = self.op("GreaterOrEqual", pieces, self.integers(MAX_BODY_CHARACTERS // PIECE))
        self.uncertain = self.op("Or", self.uncertain, too_long)

    def strange(self) -> list[str]:
        return [
            r"\A[!-9;-~]+[ \t]*:",  # a header field
            r"\A>?From ",  # the line before a mail in a mailbox
            r"(?:\A|[\r\n])--[^\r\n]+[\r\n]+Content-",  # parts
            rf"\A[{ranges(self.characters_read.spaces)}]*<[!A-Za-z]",  # HTML
            r"[\x{c2}-\x{f4}][\x{80}-\x{bf}]",  # characters that may be bytes of UTF-8
        ]

    @property
    def labels(self) -> Array:
        return MAIL_ANSWERS

    def best(self, scores: str, impossible: str) -> str:
        """The answer of least expected cost: see `mail_answers`."""
        del scores, impossible
        let_through, unsure, lost = self.costs
        if not self.graded.weight.all():  # the one that is always least
            let_through, unsure, lost = 1.0, -1.0, 1.0
        by_class = self.op("MatMul", "probabilities", self.constant([[0.0, 0.0, lost], [let_through, 0.0, 0.0]]))
        costs = self.op("Add", by_class, self.constant([[0.0, unsure, 0.0]]))
        return self.op("ArgMin", costs, axis=1, keepdims=0)


def known_keys(records: BlockRecords, keys: Array, readable: Array) -> dict[int, int]:
    """{key: record} of the items that are known, and made of words that the graph can read."""
    which = readable & (records.of_item != records.unknown)
    return dict(zip(keys[which].tolist(), records.of_item[which].tolist(), strict=True))
