"""Scoring rows in threads: log-joints, posteriors, best classes, and leave-one-out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from deciban._kernel import posterior as posterior_kernel
from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats, Labels, Matrix
from deciban.algebra import Stats
from deciban.bayes import report
from deciban.collect import collect, long_blocks, over_rows
from deciban.families.linear import Affine
from deciban.joint import Model
from deciban.matrix import raise_overflow, row_slice
from deciban.measure import RESIDUE
from deciban.schema import Columns, Schema
from deciban.threads import ENTRIES_PER_BLOCK


def check_finite(data: Data, model: Model) -> None:
    """Raise an error if there is an infinity, with its place."""
    for X, columns in zip(data, model.schema.blocks, strict=True):
        values: Any = X.data if issparse(X) else X
        if values.dtype.kind == "f" and np.isinf(values).any():
            raise_overflow(X, columns)


def apply(data: Data, model: Model, how: str = "log_joint", n_jobs: int | None = None) -> Array:
    """Score rows in threads: "log_joint", "posterior" or "log_posterior", of shape (n, k); or of shape (n,), "best",
    which are class codes, or "log_evidence", log p(x)."""
    n, k = data[0].shape[0], len(model.classes)
    by_class = how not in ("best", "log_evidence")
    out: Array = np.empty((n, k)) if by_class else np.empty(n, dtype=np.intp if how == "best" else np.float64)
    relative = how not in ("log_joint", "log_evidence")
    model.scorers(relative)  # made once, before the threads share them
    log_prior = model.log_prior
    room: list[Floats] = []  # for log-joints that are not the answer: used again, since fresh memory is slow

    def work(rows: slice) -> tuple[int, int]:
        size = rows.stop - rows.start
        whole = out[rows] if by_class else room.pop() if room else np.empty((size, k))
        part = whole[:size] if len(whole) >= size else np.empty((size, k))
        model.write_log_joint([row_slice(X, rows) for X in data], part, relative)
        ties, bad = 0, -1
        if how == "best":
            ties, bad = posterior_kernel.best(part, log_prior, out[rows])
        elif how == "log_evidence":
            posterior_kernel.normalise(part, log_prior, out[rows], False)
        elif relative:
            ties, bad = posterior_kernel.normalise(part, log_prior, None, how == "log_posterior")
        if not by_class:
            room.append(whole)
        return ties, bad + rows.start if bad >= 0 else -1

    entries = ENTRIES_PER_BLOCK if any(issparse(X) for X in data) else ENTRIES_PER_BLOCK // 4
    parts = over_rows(data, n_jobs, work, entries) if n else []
    ties, bad = sum(ties for ties, _ in parts), min((bad for _, bad in parts if bad >= 0), default=-1)
    if ties or bad >= 0:
        check_finite(data, model)
    report(ties, bad, n)
    return out


def affine(X: Matrix, form: Affine, n_jobs: int | None = None) -> tuple[Floats, bool]:
    """offsets + (x − centre)·weights of dense rows, in threads; and whether all are complete: others get no score."""
    out, start = np.empty((X.shape[0], len(form.offsets))), np.zeros(len(form.offsets))
    complete = over_rows([X], n_jobs, lambda rows: form.write(X[rows], start, out[rows]), ENTRIES_PER_BLOCK // 4)
    return out, all(complete)


def leave_one_out(
    data: Data, model: Model, y: Labels, weight: Floats | None = None, n_jobs: int | None = None
) -> Floats:
    """log P(y | x_i) without row i, (n, k), in threads. For an impossible row, the prior without row i.

    NaN for a row so extreme that rounding hides the sums of its class without it.
    """
    out = np.empty((data[0].shape[0], len(model.classes)))
    for b in range(len(data)):
        model.alpha(b)
    log_prior = np.ascontiguousarray(model.log_prior)

    def work(rows: slice) -> bool:
        w = None if weight is None else weight[rows]
        part, strange = model.log_joint_without([row_slice(X, rows) for X in data], y[rows], w)
        _, bad = posterior_kernel.normalise(part, log_prior, None, True)
        out[rows] = part
        return strange or bad >= 0

    # Each block prepares tables of its own, so blocks are large.
    if len(out) and any(over_rows(data, n_jobs, work, long_blocks(data, n_jobs))):
        check_finite(data, model)
    return out


def learned_without(data: Data, model: Model, y: Labels, weight: Floats | None, row: int) -> Model | None:
    """The model with the row's class learned again from its other rows; None if they are not all here."""
    c, stats = int(y[row]), model.stats
    mine = np.flatnonzero(y == c)
    each = np.ones(len(mine)) if weight is None else weight[mine]
    if abs(float(each.sum()) - float(stats.weight[c])) > RESIDUE * float(stats.weight[c]):
        return None
    others, each = mine[mine != row], each[mine != row]
    rows = [X[others] for X in data]
    blocks = tuple(about_rows(columns, X, each, c) for columns, X in zip(model.schema.blocks, rows, strict=True))
    alone = Schema(model.classes[c : c + 1], blocks)
    fresh = collect(rows, model.joint, alone, np.zeros(len(others), dtype=np.int32), each, 1)
    return Model(model.joint, but_class(stats, c) + fresh)


def about_rows(columns: Columns, X: Matrix, weight: Floats, c: int) -> Columns:
    """The columns for only class c, with a pivot at the weighted mean of its rows."""
    if columns.pivot is None:
        return columns
    if issparse(X):  # summed about zero, where most of the entries are
        return replace(columns, pivot=np.zeros((1, columns.size)))
    gap = X - columns.pivot[c]
    there = np.where(np.isnan(gap), 0.0, weight[:, None])
    total = there.sum(axis=0)
    mean = (np.where(there > 0, gap, 0.0) * there).sum(axis=0) / np.where(total > 0, total, 1.0)
    return replace(columns, pivot=(columns.pivot[c] + mean)[None])


def but_class(stats: Stats, c: int) -> Stats:
    """The statistics of all classes but one."""
    keep = np.arange(len(stats.classes)) != c
    blocks = [
        columns if columns.pivot is None else replace(columns, pivot=columns.pivot[keep])
        for columns in stats.schema.blocks
    ]
    sums = tuple({name: array[keep] for name, array in block.items()} for block in stats.sums)
    return Stats(Schema(stats.classes[keep], tuple(blocks)), stats.weight[keep], sums)
