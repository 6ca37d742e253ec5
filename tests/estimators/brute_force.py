# ruff: noqa: ARG001 - every law has one signature
"""Naive Bayes straight from the equations, with loops, as a reference: slow, and easy to read.

It never imports deciban. Rows are any sequences; a missing entry (None, NaN) is left out of every sum.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy
from scipy.stats import dirichlet_multinomial, nbinom, norm, t


def there(value) -> bool:
    return value is not None and value == value


def moments(values, weights):
    """Mean and (biased) variance, in two passes."""
    mean = np.average(values, weights=weights)
    return mean, np.average((np.asarray(values) - mean) ** 2, weights=weights)


def column(X, weight, j, rows):
    """The entries of column j that are not missing, and their weights."""
    kept = [i for i in rows if there(X[i][j])]
    return [X[i][j] for i in kept], [weight[i] for i in kept]


def gaussian(x, mine, weights, every, every_weight, floor, alpha=0.0, predictive=False):
    """alpha pseudo-rows with the column's mean and variance; a class without a value has the column's law."""
    all_mean, all_variance = moments(every, every_weight)
    if sum(weights) + alpha == 0:
        mean, variance, n = all_mean, all_variance, 1.0
    else:
        n = sum(weights) + alpha
        mean = (np.dot(weights, mine) + alpha * all_mean) / n
        variance = np.dot(weights, (np.asarray(mine, dtype=float) - mean) ** 2)
        variance = (variance + alpha * (all_variance + (all_mean - mean) ** 2)) / n
    if predictive:
        return t.logpdf(x, df=n, loc=mean, scale=np.sqrt((variance + floor) * (n + 1) / n))
    return norm.logpdf(x, mean, np.sqrt(variance + floor))


def poisson(x, mine, weights, every, every_weight, floor, alpha=1.0, predictive=False):
    n = sum(weights) + alpha
    events = np.dot(weights, mine) + alpha * 1.0
    if predictive:
        return nbinom.logpmf(x, events, n / (n + 1))
    return xlogy(x, events / n) - events / n - gammaln(x + 1)


def bernoulli(x, mine, weights, every, every_weight, floor, alpha=1.0):
    p = (sum(w for v, w in zip(mine, weights, strict=True) if v > 0) + alpha) / (sum(weights) + 2 * alpha)
    return np.log(p if x > 0 else 1 - p)


def categorical(x, mine, weights, every, every_weight, floor, alpha=1.0):
    count = sum(w for v, w in zip(mine, weights, strict=True) if v == x)
    return np.log((count + alpha) / (sum(weights) + alpha * len({*every, x})))


def log_joint(law, X, y, new, weight=None, smoothing=0.0, **options):
    """log p(x, y) for the rows `new`, classes in sorted order, after learning from X and y."""
    weight = np.ones(len(y)) if weight is None else weight
    everyone, d = range(len(y)), len(X[0])
    widest = max(moments(*column(X, weight, j, everyone))[1] for j in range(d)) if smoothing else 0.0
    floor = smoothing * widest
    out = np.zeros((len(new), len(set(y))))
    for c, label in enumerate(sorted(set(y))):
        rows = [i for i in everyone if y[i] == label]
        out[:, c] = np.log(sum(weight[i] for i in rows) / sum(weight))
        for j in range(d):
            learned = (*column(X, weight, j, rows), *column(X, weight, j, everyone), floor)
            for i, row in enumerate(new):
                if there(row[j]):
                    out[i, c] += law(row[j], *learned, **options)
    return out


def multinomial_log_joint(X, y, new, alpha=1.0, predictive=False):
    """A bag of words has one law for all its columns."""
    X, new = np.nan_to_num(X), np.nan_to_num(new)
    out = np.zeros((len(new), len(set(y))))
    for c, label in enumerate(sorted(set(y))):
        mine = X[[i for i in range(len(y)) if y[i] == label]]
        pseudo = mine.sum(axis=0) + alpha
        for i, row in enumerate(new):
            if predictive:
                n = row.astype(int)
                orders = gammaln(n.sum() + 1) - gammaln(n + 1).sum()  # our law is of words in order
                log_likelihood = dirichlet_multinomial.logpmf(n, pseudo, n.sum()) - orders
            else:
                log_likelihood = sum(row * np.log(pseudo / pseudo.sum()))
            out[i, c] = np.log(len(mine) / len(y)) + log_likelihood
    return out


def posterior(log_joint):
    top = log_joint.max(axis=1, keepdims=True)
    return log_joint - top - np.log(np.exp(log_joint - top).sum(axis=1, keepdims=True))


def log_marginal(law, X, y, alpha):
    """log p(X | y), parameters integrated out, up to a constant in alpha, from the raw counts."""
    total = 0.0
    for label in sorted(set(y)):
        rows = [i for i in range(len(y)) if y[i] == label]
        if law == "multinomial":
            counts = np.nan_to_num(X)[rows].sum(axis=0)
            total += dirichlet(counts, alpha)
            continue
        for j in range(len(X[0])):
            mine, _ = column(X, np.ones(len(y)), j, rows)
            if law == "categorical":
                values = sorted({v for v in (row[j] for row in X) if there(v)})
                total += dirichlet(np.array([mine.count(v) for v in values]), alpha)
            elif law == "bernoulli":
                present = sum(v > 0 for v in mine)
                total += dirichlet(np.array([present, len(mine) - present]), alpha)
            elif law == "poisson":
                a, b = alpha + sum(mine), alpha + len(mine)
                total += gammaln(a) - gammaln(alpha) + alpha * np.log(alpha) - a * np.log(b)
            else:  # the chain rule: each value under the law learned from those before it
                every, ones = column(X, np.ones(len(y)), j, range(len(y)))
                for i, x in enumerate(mine):
                    total += gaussian(x, mine[:i], [1.0] * i, every, ones, 0.0, alpha, predictive=True)
    return total


def dirichlet(counts, alpha):
    a = alpha * len(counts)
    return (gammaln(counts + alpha) - gammaln(alpha)).sum() + gammaln(a) - gammaln(a + counts.sum())
