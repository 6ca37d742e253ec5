"""Text models as ONNX graphs: texts in, `label` and `probabilities` out.

Texts are split by onnxruntime's operator Tokenizer, which other runtimes lack. What it cannot split as deciban does has
no answer: its probabilities are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from deciban.export.onnx import ML, ML_OPSET, OPSET, Graph, check_size
from deciban.formula import Formula

MICROSOFT = "com.microsoft"  # operators that only onnxruntime has


class TextGraph(Graph):
    """A graph whose only input is `text`, (n, 1) strings."""

    domains: ClassVar[dict[str, int]] = {"": OPSET, ML: ML_OPSET, MICROSOFT: 1}

    def __init__(self, formula: Formula) -> None:
        super().__init__(formula, {}, named=False)

    def read_texts(self, strange: str) -> str:
        """The texts, (n,); those where this regular expression is found are uncertain."""
        self.add_input("text", self.onnx.TensorProto.STRING)
        self.flat = self.op("Squeeze", "text", self.integers([1]))
        found = self.tokens(self.flat, strange)
        self.uncertain = self.op("Greater", self.row_sums(self.is_token(found)), self.integers(0))
        return self.flat

    def lower_case(self, texts: str) -> str:
        return self.op("StringNormalizer", texts, case_change_action="LOWER", locale="C")

    def tokens(self, texts: str, pattern: str) -> str:
        """All matches of a regular expression in each text, (n, most matches + 1), "" after the last."""
        found = self.tokenizer(texts, tokenexp=pattern)
        shape = self.op("Concat", self.op("Shape", texts), self.integers([1]), axis=0)
        return self.op("Concat", found, self.op("Expand", self.constant(b"", object), shape), axis=1)

    def tokenizer(self, texts: str, **how: Any) -> str:
        return self.op("Tokenizer", texts, domain=MICROSOFT, mark=0, mincharnum=1, pad_value="", **how)

    def is_token(self, tokens: str) -> str:
        """1 if a string is not empty."""
        return self.numbers_of(tokens, {"": 0}, 1)

    def numbers_of(self, strings: str, known: Mapping[str, int], unknown: int) -> str:
        how: dict[str, Any] = {"keys_strings": list(known), "values_int64s": list(known.values())}
        return self.op("LabelEncoder", strings, domain=ML, default_int64=unknown, **how)


# ---------------------------------------------------------------------- counts of words


class WordsOfTexts(NamedTuple):
    """How texts are split: the characters of words, others between words, and the word of each column.

    A text with any other character is not split here.
    """

    inside: str
    outside: str
    shortest: int  # characters of a word
    lower: bool
    words: tuple[str, ...]
    once: bool = False  # whether a word counts once, however often it occurs


def words_to_onnx(formula: Formula, texts: WordsOfTexts) -> Any:
    """The graph of a model whose columns are counts of words."""
    check_size(formula.cells)
    return WordGraph(formula, texts).model()


class WordGraph(TextGraph):
    """A formula of counts of words."""

    def __init__(self, formula: Formula, texts: WordsOfTexts) -> None:
        super().__init__(formula)
        self.texts = texts

    def add_inputs(self) -> None:
        """The counts of words, "X", (n, d)."""
        texts = self.texts
        flat = self.read_texts(f"[^{ranges(texts.inside + texts.outside)}]")
        flat = self.lower_case(flat) if texts.lower else flat
        tokens = self.tokens(flat, f"[{ranges(texts.inside)}]{{{texts.shortest},}}")
        inside, size = set(texts.inside), len(texts.words)
        known = {word: j for j, word in enumerate(texts.words) if inside.issuperset(word)}
        at = self.numbers_of(tokens, known | {"": size}, size)  # the last column is of unknown words, and of none
        n = self.op("Slice", self.op("Shape", "text"), self.integers([0]), self.integers([1]))
        zeros = self.op("Expand", self.constant(0.0), self.op("Concat", n, self.integers([size + 1]), axis=0))
        ones = self.op("Expand", self.constant(1.0), self.op("Shape", at))
        how: dict[str, Any] = {} if texts.once else {"reduction": "add"}  # without it, a cell is what was written last
        counts = self.op("ScatterElements", zeros, at, ones, axis=1, **how)
        self.op("Slice", counts, self.integers([0]), self.integers([size]), self.integers([1]), output="X")


def ranges(characters: str) -> str:
    """Characters as ranges of codes, for the brackets of a regular expression."""
    codes = np.unique([ord(c) for c in characters])
    runs = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    return "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
