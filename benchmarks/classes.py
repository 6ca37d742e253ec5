"""Growth with the number of classes, beside naive Bayes and logistic regression of scikit-learn.

Texts are made up, like tickets to be routed: about a dozen words each, most of them from one Zipf distribution that all
classes share, a third from thirty words that the class favours, some of which other classes favour too. Each class has
eight documents to learn and two to be evaluated on. Tables have twelve columns, half of them rounded to whole numbers,
normal in each class, with 32 rows a class. Seconds are those of the processor in all threads, so that other programs
count little; the log loss of a model that knows nothing is the logarithm of the number of classes. `--threads 4` takes
20newsgroups' threads of four posts or more, by the first 60 words of a post; 30 % of each are held out.

    python benchmarks/classes.py --classes 100 1000 3000 --peers
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import unequal_texts as unequal
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import deciban

LEARNED, HELD_OUT = 8, 2  # documents a class
WORDS, OWN_WORDS, OWN_SHARE = 20_000, 30, 0.35
COLUMNS, ROWS = 12, 32
MAX_CLASSES_OF_REGRESSION = 300  # logistic regression takes minutes with more


class Part(NamedTuple):
    X: Any
    y: np.ndarray


def router(k: int, seed: int = 0) -> tuple[Part, Part]:
    """Documents of k classes to learn, and to be evaluated on."""
    rng = np.random.default_rng(seed)
    zipf, own_zipf = (1.0 / np.arange(1, size + 1) for size in (WORDS, OWN_WORDS))
    often = zipf**0.5 / (zipf**0.5).sum()
    favoured = rng.choice(WORDS, size=(k, OWN_WORDS), p=often)
    y = np.repeat(np.arange(k), LEARNED + HELD_OUT)
    texts = []
    for c in y.tolist():
        words = rng.choice(WORDS, size=1 + rng.poisson(11), p=zipf / zipf.sum())
        own = rng.random(len(words)) < OWN_SHARE
        words[own] = favoured[c, rng.choice(OWN_WORDS, size=own.sum(), p=own_zipf / own_zipf.sum())]
        texts.append(" ".join(f"w{word}" for word in words.tolist()))
    held_out = np.arange(len(y)) % (LEARNED + HELD_OUT) >= LEARNED
    return tuple(Part([texts[i] for i in np.flatnonzero(at)], y[at]) for at in (~held_out, held_out))


def table(k: int, seed: int = 0) -> tuple[Part, Part]:
    """Rows of k classes to learn, and to be evaluated on."""
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.normal(size=(k, COLUMNS))
    y = rng.integers(0, k, ROWS * k + 2_000)
    X = means[y] + rng.normal(size=(len(y), COLUMNS))
    X[:, COLUMNS // 2 :] = np.floor(X[:, COLUMNS // 2 :])
    return Part(X[:-2_000], y[:-2_000]), Part(X[-2_000:], y[-2_000:])


def threads(least: int) -> tuple[Part, Part]:
    """Posts of threads with at least so many, to learn and to be evaluated on."""
    posts, _ = unequal.posts()
    subjects = [unequal.subject(post) for post in posts]
    count = Counter(subject for subject in subjects if subject)
    rows = [
        (unequal.clipped(unequal.body(p), 60), s) for p, s in zip(posts, subjects, strict=True) if count[s] >= least
    ]
    y, rng = np.array([subject for _, subject in rows]), np.random.default_rng(0)
    held_out = np.zeros(len(y), dtype=bool)
    for subject in np.unique(y):
        mine = rng.permutation(np.flatnonzero(y == subject))
        held_out[mine[: max(1, int(0.3 * len(mine)))]] = True
    return tuple(Part([rows[i][0] for i in np.flatnonzero(at)], y[at]) for at in (~held_out, held_out))


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return work(), time.process_time() - start


def line(name: str, model: Any, learned: Part, held_out: Part) -> None:
    """Fits and predicts, and prints how long it takes and how good it is."""
    fitted, fit = seconds(lambda: model.fit(*learned))
    predict, proba = np.inf, None
    for _ in range(3):
        proba, took = seconds(lambda: fitted.predict_proba(held_out.X))
        predict = min(predict, took)
    at = np.arange(len(held_out.y)), np.searchsorted(fitted.classes_, held_out.y)
    accuracy, loss = (proba.argmax(axis=1) == at[1]).mean(), -np.log(np.maximum(proba[at], 1e-300)).mean()
    rate = len(held_out.y) / predict
    print(
        f"{len(fitted.classes_):7,} {len(learned.y):10,}  {name:22} {fit:8.2f} {rate:12,.0f}"
        f"   {accuracy:.3f}     {loss:6.3f}      {proba.max(axis=1).mean():.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--classes", type=int, nargs="*", default=[30, 100, 300, 1000])
    parser.add_argument("--tables", type=int, nargs="*", default=[30, 100])
    parser.add_argument("--threads", type=int, nargs="*", default=[])
    parser.add_argument("--peers", action="store_true", help="scikit-learn's models too")
    options = parser.parse_args()
    heads = "classes  documents  model                   fit s  predicted/s  accuracy  log loss  mean of highest P"
    print(heads)
    for k in options.classes:
        sets = router(k)
        line("TextClassifier", deciban.TextClassifier(), *sets)
        if options.peers:
            line("MultinomialNB", make_pipeline(CountVectorizer(), MultinomialNB(alpha=0.1)), *sets)
        if options.peers and k <= MAX_CLASSES_OF_REGRESSION:
            regression = LogisticRegression(C=10.0, max_iter=300)
            line("TF-IDF, regression", make_pipeline(TfidfVectorizer(), regression), *sets)
    for least in options.threads:
        line("TextClassifier, threads", deciban.TextClassifier(), *threads(least))
    for k in options.tables:
        line("Classifier, a table", deciban.Classifier(), *table(k))


if __name__ == "__main__":
    main()
