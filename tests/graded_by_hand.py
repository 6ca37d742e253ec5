"""The equations of graded evidence, written out document by document from their definitions. Slow, and easy to read."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import numpy as np
from tokens_by_hand import runs, tokens

HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*:")


def items(text: str, block: str) -> set:
    """The distinct items of a text; a pair is a pair of strings, and "" is the mark of either end."""
    words, fields = fields_of(text) if block == "headers" else (tokens(text), [])
    if block == "words":
        return set(words)
    if block == "pairs":
        marked = ["", *words, ""]
        return set(pairwise(marked)) if words else set()
    if block == "headers":
        return {(name, word) for name, word in zip(fields, words, strict=True) if name}
    if block == "repeats":
        return {(word, str(n)) for word, times in Counter(words).items() for n in (2, 3, 5) if times >= n}
    if block == "gaps":
        return {(a, b) for gap in (2, 3) for a, b in zip(words, words[gap:], strict=False)}
    return runs(text)


def fields_of(text: str) -> tuple[list, list]:
    """The tokens, and the header field of each ("" in the body, and for a field's name itself with its colon)."""
    words, names, field, inside = [], [], "", True
    for number, line in enumerate(text.split("\n")):
        match = HEADER.match(line)
        value = line
        if inside and match:
            field = match.group()[:-1].lower()
            value = line[len(field) + 1 :]
            words += tokens(match.group())
            names += [""] * len(tokens(match.group()))
        elif inside and field and line[:1] in (" ", "\t"):
            pass
        elif inside and number == 0 and line.startswith("From "):
            words += tokens(line)
            names += [""] * len(tokens(line))
            continue
        else:
            inside, field = False, ""
        words += tokens(value)
        names += [field] * len(tokens(value))
    return words, names


def presence(size: int) -> float:
    """u^−¾, to a multiple of 2^−30."""
    return round(size**-0.75 * 2**30) / 2**30 if size else 0.0


def sums(documents: list, y: list, weight: list) -> dict:
    """N[item][class], by literally adding up."""
    out: dict = {}
    for mine, c, w in zip(documents, y, weight, strict=True):
        for item in mine:
            out.setdefault(item, Counter())[c] += presence(len(mine)) * w
    return out


def shares(y: list, weight: list, k: int) -> np.ndarray:
    total = np.bincount(np.asarray(y, dtype=int), np.asarray(weight, dtype=float), minlength=k)
    return total / total.sum()


def evidence(
    document: set, N: dict, pi: np.ndarray, strengths, knots, least: float, most: float, size=None, factor=1.0
):
    """The vectors of one document, (strengths, knots + 2, k), for classes with rows (π > 0; NaN for others), and
    beside each vector how large a rounding error of it can be: see `tolerance`."""
    k, there = len(pi), pi > 0
    entropy = -sum(p * np.log(p) for p in pi[there])
    known = [item for item in document if item in N]
    out = np.full((len(strengths), len(knots) + 2, k), np.nan)
    error = np.zeros((len(strengths), len(knots) + 2))
    u = presence(len(document) if size is None else size)
    for s, m in enumerate(strengths):
        lam, kappa = np.zeros((len(known), k)), np.zeros(len(known))
        for i, item in enumerate(known):
            n = np.array([N[item][c] for c in range(k)])
            P, B = n + m * factor * pi, n.sum() * pi + m * factor * pi
            lam[i, there] = np.log(P[there] / B[there])
            P /= P.sum()
            kappa[i] = np.clip(P[there] @ lam[i, there] / entropy, least, most)
        at = np.clip(np.log(kappa), knots[0], knots[-1])
        hats = np.array([np.interp(at, knots, unit) for unit in np.eye(len(knots))]).reshape(len(knots), -1)
        one, two = np.sqrt(kappa.sum()), np.sqrt((kappa**2).sum())
        out[s, :-2, there] = (hats @ lam / (one or 1.0)).T[there]
        out[s, -2, there] = u * lam.sum(axis=0)[there]
        out[s, -1, there] = (kappa @ lam / (two or 1.0))[there]
        error[s] = tolerance(lam, kappa, m, entropy)
    return out, error


def tolerance(lam: np.ndarray, kappa: np.ndarray, m: float, entropy: float) -> np.ndarray:
    """How far the difference of two classes may be off between two ways of computing the vectors.

    κ is a difference of logarithms over H(π), off by some units of 2^−52 of those; the weights and norms made of it
    magnify that, and multiply what classes differ by. The other way adds up lifts, which are λ + log(1 + N/m), as
    large as |log m| and more, each rounded.
    """
    if not len(kappa):
        return np.full(10, 1e-300)  # no evidence
    differ = np.ptp(lam, axis=1).sum()
    size = np.abs(lam).sum() + len(kappa) * (abs(np.log(m)) + 5.0)
    off = 1e-15 * (2.0 + abs(np.log(m))) / entropy  # of each κ
    one, two = kappa.sum(), (kappa**2).sum()
    rising = off / 0.003 / 0.4  # hats rise with log κ between knots, from κ = 0.003 on and over 0.4 or more
    by_one = differ / np.sqrt(one) * (off * len(kappa) / one + rising) + 1e-15 * size / np.sqrt(one)
    by_two = differ / np.sqrt(two) * off * (
        1.0 + len(kappa) * kappa.max() ** 2 / two
    ) + 1e-15 * size * kappa.max() / np.sqrt(two)
    return np.array([by_one] * 8 + [1e-15 * size, by_two])
