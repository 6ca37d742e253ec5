"""A filter's sums in a file beside the model, for processes that read one mail: no NumPy, and no model is read.

The file is made of a model, and is no model: it is written again whenever the model has changed, and may be deleted at
any time. Sums have single precision there, so that answers differ from the model's in the sixth digit of log-odds.
"""

from __future__ import annotations

import mmap
import os
from math import exp, log
from typing import TYPE_CHECKING

from deciban._kernel import filter_index as kernel
from deciban.text.item_names import item_name
from deciban.text.mail.message import read
from deciban.text.mail.verdict import Verdict

if TYPE_CHECKING:
    from deciban._typing import Array
    from deciban.text.graded import Graded

SUFFIX = ".index"
DECIBANS = 10.0 / log(10.0)
ANSWERS = ("ham", "unsure", "spam")  # of equal cost, the first
ALL_FIELDS = "*"
MAX_WORD_CHARACTERS = 256  # as in tokens.py
BLOCKS = ("words", "pairs", "headers")
MAX_LOAD = 0.9  # of the table

Stamp = tuple[int, int, int]  # size, time of change and inode of the model file that an index was made of
Costs = tuple[float, float, float]
Item = tuple[int, str, str, float]  # block, one or two words, log-odds


class FilterIndex:
    """An index that is open: `score` gives the log-odds of spam, and its strongest items.

    `costs` are those of a spam let through, of an unsure answer and of a ham lost; `headers` the fields that are read,
    None for all.
    """

    def __init__(self, data: mmap.mmap, normalise: bool, costs: Costs, headers: tuple[str, ...] | None) -> None:
        self._data, self._normalise, self.costs, self.headers = data, normalise, costs, headers

    @classmethod
    def open(cls, model: str) -> FilterIndex | None:
        """The index of a model file; None if there is none of the model as it is now."""
        try:
            with open(model + SUFFIX, "rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None
        about = kernel.about(data)
        if about is None or about[0] != stamp(model):
            return None
        fields = data[about[3] :].decode("utf-8", "replace")
        return cls(data, about[1], about[2], None if fields == ALL_FIELDS else tuple(fields.split("\n")))

    def close(self) -> None:
        self._data.close()

    def verdict(self, raw: bytes, name: str, most: int) -> Verdict:
        """What the filter writes into a mail."""
        log_odds, items = self.score(read(raw, self.headers).text, most)
        odds = exp(-abs(log_odds))
        small, large = odds / (1.0 + odds), 1.0 / (1.0 + odds)
        ham, spam = (large, small) if log_odds < 0 else (small, large)
        let_through, unsure, lost = self.costs
        costs = (spam * let_through, unsure, ham * lost)
        label = ANSWERS[costs.index(min(costs))]
        evidence = tuple((item_name(BLOCKS[b], (x, y)[: 1 + (b > 0)]), nats * DECIBANS) for b, x, y, nats in items)
        return Verdict(label, spam, log_odds * DECIBANS, name, evidence=evidence)

    def score(self, text: str, most: int) -> tuple[float, list[Item]]:
        """The log-odds of spam over ham of a mail's text, and of its strongest items."""
        normal = text
        if self._normalise and not text.isascii():
            from unicodedata import normalize

            normal = normalize("NFKC", text)
        return kernel.score(self._data, normal, text, most, MAX_WORD_CHARACTERS)


def stamp(model: str) -> Stamp:
    status = os.stat(model)
    return status.st_size, status.st_mtime_ns, status.st_ino


def write(path: str, model: Graded, costs: Costs, headers: tuple[str, ...] | None, made_of: Stamp) -> bool:
    """Write the index of a model beside its file; False if the model is of a kind that has none, or it cannot be
    written."""
    tables = packed(model, costs, made_of)
    if tables is None:
        return False
    data = tables + (ALL_FIELDS if headers is None else "\n".join(headers)).encode()
    from deciban.errors import WriteError
    from deciban.storage import atomic

    try:
        with_mode_of(path, path + SUFFIX)
        atomic.replace(path + SUFFIX, lambda file: file.write(data))
    except (OSError, WriteError):  # a folder where others keep models: then every mail is scored by the model itself
        return False
    return True


def with_mode_of(model: str, path: str) -> None:
    """Make an empty file that those can read who can read the model, unless there is one: replacing it keeps that."""
    try:
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    os.fchmod(new, os.stat(model).st_mode & 0o666)
    os.close(new)


def packed(model: Graded, costs: Costs, made_of: Stamp) -> bytes | None:
    """The bytes of an index; None if the model is of a kind that has none."""
    import numpy as np

    from deciban.text.items import Lexicon
    from deciban.text.tables import KNOTS, MAX_KNOWLEDGE, MIN_KNOWLEDGE

    sums, lexicon, choice = model.sums, model.sums.lexicon, model.effective_choice
    if model.classes.tolist() != ["ham", "spam"] or sums.blocks != BLOCKS or not (model.weight > 0).all():
        return None
    if not isinstance(lexicon, Lexicon):
        return None
    shares, gaussians = model.shares(), model.gaussians()
    constant = 0.0
    slopes = np.zeros(0 if sums.common is None else sums.common.size)
    parts = () if gaussians is None else gaussians.parts
    for weight, gaussian in zip(choice.ridge_weights.tolist(), parts, strict=True):
        slope, offset = gaussian.weights()
        slopes += weight * (slope[:, 1] - slope[:, 0])
        constant += weight * float(offset[1] - offset[0])
    prior = model.log_prior + choice.pool.offsets
    items = sum(cells.size for cells in sums.cells.values())
    slots, common_slots = power_of_two(items / MAX_LOAD + 1), power_of_two(2.0 * len(slopes) + 1)
    whole = [kernel.FORMAT, *made_of, slots, common_slots, int(model.rule.scripts), int(model.rule.normalise)]
    real = [
        float(prior[1] - prior[0]),
        constant,
        float(shares.entropy[-1]),
        MIN_KNOWLEDGE,
        MAX_KNOWLEDGE,
        *shares.share,
        *(shares.share * shares.factor),
        *(value for block in BLOCKS for value in model.strengths()[block]),
        *(value for block in BLOCKS for value in choice.weights(block).ravel()),
        *KNOTS,
        *costs,
    ]
    header = kernel.MAGIC + np.array(whole, dtype=np.int64).tobytes() + np.array(real, dtype=np.float64).tobytes()
    if len(header) != kernel.HEADER_BYTES or not np.isfinite(real).all():
        return None
    table = np.zeros(slots * kernel.SLOT_BYTES, dtype=np.uint8)
    for block in BLOCKS:
        one, other = hashes(lexicon, block)
        by_class = np.zeros((2, sums.cells[block].size))
        cells = model.cells(block)
        by_class[cells.cls, np.repeat(np.arange(cells.size), np.diff(cells.ptr))] = cells.val
        if not kernel.put(table, BLOCKS.index(block), one, other, by_class[0], by_class[1]):
            return None
    return header + table.tobytes() + common_table(model, slopes, common_slots)


def common_table(model: Graded, slopes: Array, slots: int) -> bytes:
    """The slopes of the items that are modelled jointly, by key."""
    import numpy as np

    from deciban.text.items import BLOCKS as ALL_BLOCKS
    from deciban.text.items import Lexicon

    table = np.zeros(slots, dtype=[("key", np.uint64), ("slope", np.float64)])
    common = model.sums.common
    if common is None:
        return table.tobytes()
    assert isinstance(common.items, Lexicon)
    for number, block in enumerate(BLOCKS):
        mine = np.flatnonzero(common.block == ALL_BLOCKS.index(block))
        one, other = (part[common.number[mine]] for part in hashes(common.items, block))
        keys = np.empty(len(mine), dtype=np.uint64)
        kernel.keys(number, np.ascontiguousarray(one), np.ascontiguousarray(other), keys)
        for key, slope in zip(keys.tolist(), slopes[mine].tolist(), strict=True):
            at = key & (slots - 1)
            while table["key"][at]:
                at = (at + 1) & (slots - 1)
            table[at] = key, slope
    return table.tobytes()


def hashes(lexicon: object, block: str) -> tuple[Array, Array]:
    """The hashes of the one or two words of a block's items."""
    import numpy as np

    from deciban.text.items import Lexicon

    assert isinstance(lexicon, Lexicon)
    data, ends = lexicon.words.buffers()
    words = np.empty(len(ends) - 1, dtype=np.uint64)
    kernel.hashes(data, ends, words)
    if block == "words":
        return words, np.zeros_like(words)
    first, second = getattr(lexicon, block).arrays()
    return words[first], words[second]


def power_of_two(least: float) -> int:
    return 1 << max(0, int(least) - 1).bit_length()
