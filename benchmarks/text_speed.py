"""From raw text to counts and to fitted models: speed, memory and growth beside scikit-learn.

On the training part of the 20 newsgroups (11,314 texts, 22 MB; asking is on the 7,532 of the test part). Ours and
scikit-learn's take turns in one process, garbage is collected before each, and the best of equally many turns is kept,
so that a busy machine slows both. Ratios are scikit-learn's seconds ÷ ours. Shown beside them: MB/s, and how many times
as long as one pass over the bytes it takes (their sum, by NumPy in one thread). Memory is measured in processes of
their own: the peak above what is there once the texts are loaded. MB are 10⁶ bytes of UTF-8. DECIBAN_DATA names where
the data is; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import gzip
import json
import os
import string
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import deciban

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
EVERY_NTH = 8  # texts, for runs of characters
N_HASH_BUCKETS = 2**18
LETTERS = string.ascii_lowercase
CLEAR_REFS = Path("/proc/self/clear_refs")  # Linux: writing here resets the peak memory

Task = Callable[[list[str], np.ndarray], object]


def logistic(**settings: Any) -> Any:
    return make_pipeline(TfidfVectorizer(**settings), LogisticRegression(max_iter=1000))


# Tasks that are also measured in their own process, by name.
OURS: dict[str, Task] = {
    "CountVectorizer().fit_transform": lambda texts, y: deciban.CountVectorizer().fit_transform(texts, y),
    "TextClassifier(reliability=None).fit": lambda texts, y: deciban.TextClassifier(reliability=None).fit(texts, y),
    "TextClassifier().fit": lambda texts, y: deciban.TextClassifier().fit(texts, y),
}
THEIRS: dict[str, Task] = {
    "scikit-learn's CountVectorizer().fit_transform": lambda texts, y: CountVectorizer().fit_transform(texts, y),
    "CountVectorizer() + MultinomialNB(), fit": lambda texts, y: make_pipeline(CountVectorizer(), MultinomialNB()).fit(
        texts, y
    ),
    "TfidfVectorizer() + LogisticRegression(), fit": lambda texts, y: logistic().fit(texts, y),
}
TASKS = OURS | THEIRS


def newsgroups(part: str) -> tuple[list[str], np.ndarray]:
    path = DATA / "20newsgroups" / f"20news-bydate-{part}.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"there is no {path}: DECIBAN_DATA names where the data sets are")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        posts = [json.loads(line) for line in file]
    return [post["text"] for post in posts], np.array([post["label"] for post in posts])


def megabytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def best(*functions: Callable[[], object], repeats: int, patience: float) -> list[float]:
    """Best wall time of each, taking turns; after two turns, none starts once `patience` seconds are over."""
    times = [float("inf")] * len(functions)
    begun = time.perf_counter()
    for turn in range(repeats):
        if turn > 1 and time.perf_counter() - begun > patience:
            break
        for i, function in enumerate(functions):
            gc.collect()
            start = time.perf_counter()
            result = function()
            times[i] = min(times[i], time.perf_counter() - start)
            del result  # not timed
    return times


# ---------------------------------------------------------------------- side by side


class Sheet:
    """Pairs as they are timed: printed at once, and kept as rows of a table."""

    HEAD = (
        "| what | ours, ms | scikit-learn, ms | ratio | target | | ours, MB/s | theirs, MB/s | passes |",
        "|---|---:|---:|---:|---:|---|---:|---:|---:|",
    )

    def __init__(self, repeats: int, patience: float, one_pass: float) -> None:
        self.repeats, self.patience, self.one_pass = repeats, patience, one_pass  # one_pass: seconds a MB
        self.rows: list[str] = []
        self.met: list[bool] = []

    def pair(
        self,
        what: str,
        mb: float,
        ours: Callable[[], object],
        theirs: Callable[[], object],
        target: float | None = None,
    ) -> None:
        mine, other = best(ours, theirs, repeats=self.repeats, patience=self.patience)
        ratio, verdict = other / mine, ""
        if target is not None:
            self.met.append(ratio >= target)
            verdict = "met" if self.met[-1] else "MISSED"
        self.rows.append(
            f"| {what} | {mine * 1e3:.0f} | {other * 1e3:.0f} | {ratio:.1f}× | {f'{target:g}×' if target else ''} | "
            f"{verdict} | {mb / mine:.1f} | {mb / other:.1f} | {mine / mb / self.one_pass:.0f} |"
        )
        print(self.rows[-1], flush=True)


def check_same(texts: list[str]) -> None:
    """Check that both count the same, so that the comparison is fair."""
    for settings in ({}, {"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (3, 5)}):
        mine, other = deciban.CountVectorizer(**settings), CountVectorizer(**settings)
        X, Y = mine.fit_transform(texts), other.fit_transform(texts)
        if X.shape != Y.shape or (X != Y).nnz or mine.vocabulary_ != other.vocabulary_:
            raise SystemExit(f"counts differ from scikit-learn's with {settings}")
    X = deciban.CountVectorizer(n_features=N_HASH_BUCKETS).transform(texts)
    if (X != HashingVectorizer(n_features=N_HASH_BUCKETS, alternate_sign=False, norm=None).transform(texts)).nnz:
        raise SystemExit("hashed counts differ from scikit-learn's")


def counting(sheet: Sheet, texts: list[str]) -> None:
    some = texts[::EVERY_NTH]
    mb, mb_some = megabytes(texts), megabytes(some)

    def pair(what: str, target: float | None = None, of: list[str] = texts, **settings: Any) -> None:
        sheet.pair(
            what,
            mb if of is texts else mb_some,
            lambda: deciban.CountVectorizer(**settings).fit_transform(of),
            lambda: CountVectorizer(**settings).fit_transform(of),
            target,
        )

    pair("`CountVectorizer()`, fit_transform", 15.0)
    ours, theirs = deciban.CountVectorizer().fit(texts), CountVectorizer().fit(texts)
    sheet.pair(
        "`CountVectorizer()`, transform", mb, lambda: ours.transform(texts), lambda: theirs.transform(texts), 15.0
    )
    pair("`ngram_range=(1, 2)`, fit_transform", 10.0, ngram_range=(1, 2))

    def read_vocabulary(kind: Any) -> object:
        vectorizer = kind(ngram_range=(1, 2))
        return vectorizer.fit_transform(texts), vectorizer.vocabulary_

    sheet.pair(
        "the same, and `vocabulary_` read",
        mb,
        lambda: read_vocabulary(deciban.CountVectorizer),
        lambda: read_vocabulary(CountVectorizer),
        10.0,
    )
    share = f"on every {EVERY_NTH}th text"
    pair(f'`analyzer="char_wb"`, (3, 5), {share}', None, some, analyzer="char_wb", ngram_range=(3, 5))
    pair(f'`analyzer="char"`, (3, 3), {share}', None, some, analyzer="char", ngram_range=(3, 3))
    sheet.pair(
        "hashed to 2¹⁸ columns, transform",
        mb,
        lambda: deciban.CountVectorizer(n_features=N_HASH_BUCKETS).transform(texts),
        lambda: HashingVectorizer(n_features=N_HASH_BUCKETS, alternate_sign=False, norm=None).transform(texts),
    )


def models(sheet: Sheet, texts: list[str], y: np.ndarray, unseen: list[str]) -> None:
    mb, mb_unseen = megabytes(texts), megabytes(unseen)

    def pair(
        what: str, ours: Callable[[], Any], theirs: Callable[[], Any], target: float | None = None, ask: str = ""
    ) -> None:
        """Time fitting, and then prediction by models that were fitted again, untimed."""
        sheet.pair(f"{what}, fit", mb, lambda: ours().fit(texts, y), lambda: theirs().fit(texts, y), target)
        if ask:
            mine, other = (getattr(make().fit(texts, y), ask) for make in (ours, theirs))
            sheet.pair(f"{what}, {ask}", mb_unseen, lambda: mine(unseen), lambda: other(unseen))

    pair(
        "plain: `TextClassifier(reliability=None)` beside counts + MultinomialNB",
        lambda: deciban.TextClassifier(reliability=None),
        lambda: make_pipeline(CountVectorizer(), MultinomialNB()),
        15.0,
        "predict",
    )
    pair(
        "default: `TextClassifier()` beside TF-IDF + LogisticRegression",
        deciban.TextClassifier,
        logistic,
        8.0,
        "predict_proba",
    )
    pair(
        "default: `TextClassifier()` beside TF-IDF (sublinear) + LogisticRegression",
        deciban.TextClassifier,
        lambda: logistic(sublinear_tf=True),
    )


def threads(texts: list[str], y: np.ndarray, unseen: list[str], repeats: int, patience: float) -> Iterator[str]:
    """One thread beside two."""
    yield from ("| what | n_jobs=1, ms | n_jobs=2, ms | ratio |", "|---|---:|---:|---:|")
    fitted = {jobs: deciban.TextClassifier(n_jobs=jobs).fit(texts, y) for jobs in (1, 2)}
    counted = {jobs: deciban.CountVectorizer(n_jobs=jobs).fit(texts) for jobs in (1, 2)}
    work: dict[str, Callable[[int], object]] = {
        "`CountVectorizer()`, fit_transform": lambda jobs: deciban.CountVectorizer(n_jobs=jobs).fit_transform(texts),
        "`CountVectorizer()`, transform": lambda jobs: counted[jobs].transform(texts),
        "`ngram_range=(1, 2)`, fit_transform": lambda jobs: deciban.CountVectorizer(
            ngram_range=(1, 2), n_jobs=jobs
        ).fit_transform(texts),
        "`TextClassifier(reliability=None)`, fit": lambda jobs: deciban.TextClassifier(
            reliability=None, n_jobs=jobs
        ).fit(texts, y),
        "`TextClassifier()`, fit": lambda jobs: deciban.TextClassifier(n_jobs=jobs).fit(texts, y),
        "`TextClassifier()`, predict_proba": lambda jobs: fitted[jobs].predict_proba(unseen),
    }
    for what, run in work.items():
        one, two = best(lambda: run(1), lambda: run(2), repeats=repeats, patience=patience)
        yield f"| {what} | {one * 1e3:.0f} | {two * 1e3:.0f} | {one / two:.2f}× |"


# ---------------------------------------------------------------------- in separate processes


def grown(texts: list[str], y: np.ndarray, copies: int, changed: bool) -> tuple[list[str], np.ndarray]:
    """Several copies of the texts; if `changed`, each copy's letters are shifted by one more, for new words."""
    out = list(texts)
    for i in range(1, copies):
        moved = LETTERS[i:] + LETTERS[:i]
        table = str.maketrans(LETTERS + LETTERS.upper(), moved + moved.upper())
        # Unchanged texts are copied too: shared objects would stay in the cache.
        out += [text.translate(table) if changed else "".join([text[:1], text[1:]]) for text in texts]
    return out, np.tile(y, copies)


def status(field: str) -> float:
    """A line of /proc/self/status in MB."""
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) * 1024 / 1e6


def run_task(task: str, copies: int, changed: bool, repeats: int) -> None:
    """Run a task in this process; print the texts' size, the peak above them and the best time as JSON."""
    texts, y = grown(*newsgroups("train"), copies, changed)
    run = TASKS[task]
    run(texts[::500], y[::500])  # first use imports and sets up things, which should not count
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # so that memory freed after loading is not reused unnoticed
    before = status("VmRSS")
    CLEAR_REFS.write_text("5")  # measure the peak from here on
    result = run(texts, y)
    above = status("VmHWM") - before
    del result
    seconds = best(lambda: run(texts, y), repeats=repeats, patience=60.0)[0] if repeats else None
    print(json.dumps({"mb": megabytes(texts), "above": above, "seconds": seconds}))


def in_a_process(task: str, copies: int = 1, changed: bool = False, repeats: int = 0) -> dict[str, float]:
    command = [sys.executable, __file__, "--alone", task, "--copies", str(copies), "--repeats", str(repeats)]
    done = subprocess.run(command + ["--changed"] * changed, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def memory() -> Iterator[str]:
    """The peak above the texts, ours and theirs."""
    yield from ("| what | MB above the texts | MB a MB of text | scikit-learn ÷ ours |", "|---|---:|---:|---:|")
    for ours, theirs in zip(OURS, THEIRS, strict=True):
        mine, other = in_a_process(ours), in_a_process(theirs)
        ratio = f"{other['above'] / mine['above']:.1f}×"
        for name, measured, ratio_text in ((ours, mine, ratio), (theirs, other, "")):
            yield f"| {name} | {measured['above']:.0f} | {measured['above'] / measured['mb']:.1f} | {ratio_text} |"


def growth(repeats: int) -> Iterator[str]:
    """Time and memory a MB, of more and more text."""
    yield from ("| what | texts | MB | ms a MB | MB above the texts, a MB |", "|---|---|---:|---:|---:|")
    for task in (*OURS, next(iter(THEIRS))):
        for copies, changed in ((1, False), (2, False), (4, False), (2, True), (4, True)):
            measured = in_a_process(task, copies, changed, max(1, min(2, repeats)))
            copies_text = (
                "once" if copies == 1 else f"{copies} times, {'each with its own words' if changed else 'the same'}"
            )
            yield (
                f"| {task} | {copies_text} | {measured['mb']:.0f} | {measured['seconds'] * 1e3 / measured['mb']:.1f} | "
                f"{measured['above'] / measured['mb']:.1f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="turns for each pair, at most (default 5)")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for a pair's turns (default 60)")
    parser.add_argument("--without", nargs="*", default=[], choices=["models", "memory", "growth"], help="leave out")
    parser.add_argument("--alone", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--copies", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--changed", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.alone:
        run_task(arguments.alone, arguments.copies, arguments.changed, arguments.repeats)
        return
    start = time.perf_counter()
    repeats, patience = arguments.repeats, arguments.patience
    (texts, y), (unseen, _) = newsgroups("train"), newsgroups("test")
    check_same(texts[::100])
    deciban.TextClassifier().fit(texts[::100], y[::100])  # so that lazy imports are not timed
    mb = megabytes(texts)
    everything = np.frombuffer("".join(texts).encode().ljust(-(-int(mb * 1e6) // 8) * 8), dtype=np.uint8)
    bytewise, wordwise = best(
        everything.sum, lambda: everything.view(np.uint64).sum(), repeats=4 * repeats, patience=patience
    )
    lines = [
        "# Text beside scikit-learn",
        "",
        f"deciban {deciban.__version__}, scikit-learn {sklearn.__version__}, NumPy {np.__version__}, "
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores; written by",
        "`python benchmarks/text_speed.py`. Ratios are scikit-learn's seconds ÷ ours, by the best of at most "
        f"{repeats} turns each.",
        f"{len(texts):,} texts ({mb:.1f} MB) to learn from, {len(unseen):,} ({megabytes(unseen):.1f} MB) to ask about.",
        f"*Passes*: our time in sums over the same bytes by NumPy in one thread, each {bytewise * 1e3:.1f} ms for "
        f"{mb:.0f} MB, or {mb / bytewise:,.0f} MB/s;",
        f"eight bytes at a time it would be {wordwise * 1e3:.1f} ms, {mb / wordwise:,.0f} MB/s.",
        "",
    ]
    print("\n".join(lines[2:]))
    sheet = Sheet(repeats, patience, bytewise / mb)
    print("\n".join(Sheet.HEAD))
    counting(sheet, texts)
    if "models" not in arguments.without:
        models(sheet, texts, y, unseen)
    lines += [*Sheet.HEAD, *sheet.rows, "", f"{sum(sheet.met)} of {len(sheet.met)} targets met."]
    print("\n".join(lines[-2:]))

    def section(title: str, rows: Iterator[str]) -> None:
        for row in chain(("", f"## {title}", ""), rows):
            lines.append(row)
            print(row, flush=True)

    section("Two threads", threads(texts, y, unseen, repeats, patience))
    if not CLEAR_REFS.exists():
        print(f"memory and growth are left out: there is no {CLEAR_REFS} here")
        arguments.without += ["memory", "growth"]
    if "memory" not in arguments.without:
        section("Memory", memory())
    if "growth" not in arguments.without:
        section("Growth", growth(repeats))
    OUT.mkdir(exist_ok=True)
    path = OUT / "text_speed.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"\ntable written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
