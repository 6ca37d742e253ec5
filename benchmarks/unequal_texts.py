"""Texts of many and very unequal classes, beside TF-IDF and logistic regression with its best C.

The sets are made of 20newsgroups, without headers, quotes and signatures, and of trec_qc's fine classes:

- *8 groups* as unequal as 70 to 1, whole and by their first 60 words;
- *20 groups by a power law*: the r-th has 900 r^−1.5 posts, the last about ten; whole and by their first 60 words;
- *52 threads*, distinguished by their subject lines, of three posts to a few dozen;
- *8 and 52 topics* that k-means found in TF-IDF of whole posts, classified by their first 80 words: what a linear model
  of TF-IDF is made for;
- *trec_qc, fine*: the 50 kinds of questions, half of them with fewer than 50, and its own test part.

Otherwise 30 % of each class are for judging, and classes of one text are learned and never asked for. Logistic
regression has the C of 1, 10, 100 and 1,000, and the term frequency (raw or logarithmic), that are best *on the test
part*, which nobody would know beforehand. DECIBAN_DATA names where the data is; by default `../shared/data` beside the
project.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np
import text_accuracy as texts
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

import deciban

GROUPS = {  # posts
    "rec.sport.hockey": 980,
    "sci.crypt": 550,
    "rec.autos": 87,
    "sci.med": 86,
    "soc.religion.christian": 71,
    "talk.politics.mideast": 65,
    "comp.windows.x": 37,
    "sci.space": 14,
}
STRENGTHS = (1, 10, 100, 1000)
QUOTED = re.compile(r"(writes in|writes:|wrote:|says:|said:|^In article|^Quoted from)")
Split = tuple[texts.Texts, texts.Texts]


# ---------------------------------------------------------------------- sets


def posts() -> texts.Texts:
    train, test = texts.published("20newsgroups")
    return train[0] + test[0], np.append(train[1], test[1])


def body(post: str) -> str:
    """Without headers, quotes and signature."""
    lines = post.partition("\n\n")[2].split("\n")
    own = "\n".join(line for line in lines if not line.lstrip().startswith((">", "|")) and not QUOTED.search(line))
    signature = own.rfind("\n--")
    return own[:signature] if signature > len(own) / 2 else own


def subject(post: str) -> str:
    match = re.search(r"^Subject: *(.*)$", post, re.MULTILINE)
    line = match.group(1).lower().strip() if match else ""
    while (shorter := re.sub(r"^(re|fwd?)[:\s]+", "", line).strip()) != line:
        line = shorter
    return re.sub(r"\W+", " ", line).strip()


def clipped(text: str, words: int | None) -> str:
    return text if words is None else " ".join(text.split()[:words])


def split(X: list[str], y: np.ndarray, rng: np.random.Generator) -> Split:
    """About 30 % of each class as test texts; at least one text of each is learned."""
    learned = np.zeros(len(y), dtype=bool)
    for c in np.unique(y):
        mine = rng.permutation(np.flatnonzero(y == c))
        learned[mine[: max(1, round(0.7 * len(mine)))]] = True
    return texts.among((X, y), np.flatnonzero(learned)), texts.among((X, y), np.flatnonzero(~learned))


def some_groups(sizes: dict[str, int], words: int | None, rng: np.random.Generator) -> Split:
    X, y = posts()
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == group))[:n] for group, n in sizes.items()])
    return split([clipped(body(X[i]), words) for i in rows], y[rows], rng)


def power_law(words: int | None, rng: np.random.Generator) -> Split:
    groups = rng.permutation(np.unique(posts()[1]))
    return some_groups({g: int(900 / (r + 1) ** 1.5) for r, g in enumerate(groups)}, words, rng)


def threads(rng: np.random.Generator) -> Split:
    X, y = posts()
    about = np.array([f"{group}: {subject(post)}" for group, post in zip(y, X, strict=True)])
    counts = Counter(a for a in about.tolist() if not a.endswith(": "))
    often = [a for a, _ in counts.most_common()]
    small = [a for n in (6, 3) for a in [a for a in often if counts[a] == n][:6]]
    rows = np.flatnonzero(np.isin(about, often[:40] + small))
    return split([body(X[i]) for i in rows], about[rows], rng)


def topics(k: int, rng: np.random.Generator) -> Split:
    X, _ = posts()
    whole = [body(X[i]) for i in rng.permutation(len(X))[:9000]]
    whole = [text for text in whole if len(text.split()) > 20]
    terms = TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.3, stop_words="english").fit_transform(whole)
    space = normalize(TruncatedSVD(100, random_state=0).fit_transform(terms))
    y = KMeans(k, n_init=1, random_state=0).fit_predict(space).astype(str)
    return split([clipped(text, 80) for text in whole], y, rng)


def questions(_: np.random.Generator) -> Split:
    parts = [texts.json_lines("trec_qc", f"trec_{part}.jsonl.gz") for part in ("train", "test")]
    train, test = (([row["text"] for row in rows], np.array([row["fine"] for row in rows])) for rows in parts)
    return train, texts.among(test, np.flatnonzero(np.isin(test[1], train[1])))


SETS: dict[str, Callable[[np.random.Generator], Split]] = {
    "8 groups": lambda rng: some_groups(GROUPS, None, rng),
    "8 groups, 60 words": lambda rng: some_groups(GROUPS, 60, rng),
    "20 groups by a power law": lambda rng: power_law(None, rng),
    "20 groups by a power law, 60 words": lambda rng: power_law(60, rng),
    "52 threads": threads,
    "8 topics": lambda rng: topics(8, rng),
    "52 topics": lambda rng: topics(52, rng),
    "trec_qc, fine": questions,
}


# ---------------------------------------------------------------------- evaluation


def logistic_regression(train: texts.Texts, test: texts.Texts) -> tuple[float, float]:
    """The lowest log loss, and its accuracy."""
    results = []
    for logarithmic, strength in product((False, True), STRENGTHS):
        terms = TfidfVectorizer(sublinear_tf=logarithmic)
        X = terms.fit_transform(train[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge, with C = 1,000
            model = LogisticRegression(C=strength, max_iter=300).fit(X, train[1])
        log_proba = model.predict_log_proba(terms.transform(test[0]))
        right = np.searchsorted(model.classes_, test[1])
        results.append((-log_proba[np.arange(len(right)), right].mean(), (log_proba.argmax(axis=1) == right).mean()))
    return min(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], help="all by default")
    parser.add_argument("--seeds", type=int, default=2, help="draws of each set (default 2)")
    asked, start = parser.parse_args(), time.perf_counter()
    lines = [
        "# Texts of unequal classes",
        "",
        f"Accuracy and log loss in nats, means of {asked.seeds} draws. *Stated* is what `leave_one_out` says.",
        f"deciban {deciban.__version__}; written by `python benchmarks/unequal_texts.py`.",
        "",
        "| set | learned | classes | largest to smallest | TextClassifier() | stated | TF-IDF + logistic regression |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines[2:]), flush=True)
    for name in asked.sets or SETS:
        ours, stated, theirs = [], [], []
        for seed in range(asked.seeds):
            train, test = SETS[name](np.random.default_rng(seed))
            judged = texts.judge(deciban.TextClassifier, train, test)
            ours.append((judged.log_loss, judged.accuracy))
            stated_figures = deciban.TextClassifier().fit(*train).leave_one_out(*train)
            stated.append((stated_figures.log_loss, stated_figures.accuracy))
            theirs.append(logistic_regression(train, test))
        sizes = np.unique(train[1], return_counts=True)[1]
        cells = (
            f"{accuracy:.3f} / {loss:.3f}" for loss, accuracy in (np.mean(f, axis=0) for f in (ours, stated, theirs))
        )
        row = f"| {name} | {len(train[1]):,} | {len(sizes)} | {sizes.max():,} to {sizes.min()} | {' | '.join(cells)} |"
        lines.append(row)
        print(row, flush=True)
    if not asked.sets:
        texts.OUT.mkdir(exist_ok=True)
        (texts.OUT / "unequal_texts.md").write_text("\n".join(lines) + "\n")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
