"""One text at a time, many at once, and texts made to fill the memory.

Models of 5,574 short messages, of the 11,314 posts of 20 Newsgroups, and of 6,000 mails. *One text*: milliseconds to
predict, explain, learn and forget one text: the median over 200 texts, by the clock and by the process's own time,
which a busy machine changes less, and the best by the clock. *By vocabulary*: the same for a document of 60 words and
models that know more and more words. *At once*: texts a second beside TF-IDF and logistic regression, taking turns in
one process, the best of several turns; one thread each by the process's own time, and ours with all cores by the clock.
*Hostile texts*: the memory of the process as a model reads documents of words, or of header fields, that nobody has
seen before. DECIBAN_DATA names where the data is; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import csv
import gc
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import deciban

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
ONE_TARGETS = {"predict_proba": 0.3, "explain": 3.0}  # ms
BATCH_TARGET = 5.0  # times the speed of TF-IDF and logistic regression
VOCABULARIES = (10_000, 100_000, 1_000_000)
LETTERS = "bcdfghklmnprst"


def jsonl(path: Path) -> tuple[list[str], list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def messages() -> tuple[list[str], list[str]]:
    with open(DATA / "sms_spam" / "SMSSpamCollection.tsv", encoding="utf-8", newline="") as file:
        labels, texts = zip(*csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), strict=True)
    return list(texts), list(labels)


def corpora() -> Iterator[tuple[str, Any, list[str], list[str]]]:
    yield "`TextClassifier`, short messages", deciban.TextClassifier, *messages()
    yield (
        "`TextClassifier`, posts",
        deciban.TextClassifier,
        *jsonl(DATA / "20newsgroups" / "20news-bydate-train.jsonl.gz"),
    )
    yield "`SpamFilter`, mails", deciban.SpamFilter, *jsonl(DATA / "spamassassin" / "spamassassin.jsonl.gz")


def split(texts: list[str], labels: list[str], every: int = 5) -> tuple[list[str], list[str], list[str], list[str]]:
    """Texts to learn from and their labels, and a fifth to ask about."""
    new = set(range(0, len(texts), every))
    learn = [i for i in range(len(texts)) if i not in new]
    return [texts[i] for i in learn], [labels[i] for i in learn], [texts[i] for i in new], [labels[i] for i in new]


class Times(NamedTuple):
    """Milliseconds of a call."""

    median: float
    own: float  # the median of the process's time
    best: float

    def __str__(self) -> str:
        return " | ".join(f"{value:.2f}" for value in self)


def times(run: Callable[[int], object], n: int) -> Times:
    """Of n calls, after one that is not timed."""
    run(0)
    wall, own = [], []
    for i in range(n):
        start, begun = time.perf_counter(), time.process_time()
        run(i)
        own.append((time.process_time() - begun) * 1e3)
        wall.append((time.perf_counter() - start) * 1e3)
    return Times(statistics.median(wall), statistics.median(own), min(wall))


def one_text(n: int) -> Iterator[str]:
    yield "| model | method | median, ms | own time, ms | best, ms | target, ms |"
    yield "|---|---|---:|---:|---:|---:|"
    for name, kind, texts, labels in corpora():
        learn, y, new, truth = split(texts, labels)
        model = kind(n_jobs=1).fit(learn, y)
        size = min(n, len(new) - 1)
        tasks: dict[str, Callable[[int], object]] = {
            "predict_proba": lambda i: model.predict_proba([new[i]]),
            "explain": lambda i: model.explain(new[i]),
            "partial_fit": lambda i: model.partial_fit([new[i]], [truth[i]]),
            "partial_fit, then predict_proba": lambda i: model.partial_fit([new[i]], [truth[i]]).predict_proba(
                [new[i]]
            ),
            "forget": lambda i: model.forget([new[i]], [truth[i]]),
        }
        for method, run in tasks.items():
            mine = times(run, size - (method == "forget"))
            target = f"{ONE_TARGETS[method]:g}" if method in ONE_TARGETS else ""
            yield f"| {name} | {method} | {mine} | {target} |"


def word(rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=9))


def by_vocabulary(n: int) -> Iterator[str]:
    yield "| words known | method | median, ms | own time, ms | best, ms |"
    yield "|---:|---|---:|---:|---:|"
    for size in VOCABULARIES:
        rng = random.Random(size)
        words = list({word(rng) for _ in range(size)})
        documents = [" ".join(words[start : start + 100]) for start in range(0, len(words), 100)]
        model = deciban.TextClassifier(blocks=["words"], n_jobs=1)
        model.fit(documents, [("a", "b")[i % 2] for i in range(len(documents))])
        new = [" ".join([*rng.sample(words, 50), *(word(rng) for _ in range(10))]) for _ in range(n + 1)]
        tasks: dict[str, Callable[[int], object]] = {
            "partial_fit": lambda i: model.partial_fit([new[i]], ["a"]),
            "predict_proba": lambda i: model.predict_proba([new[i]]),
            "forget": lambda i: model.forget([new[i]], ["a"]),
        }
        for method, run in tasks.items():
            yield f"| {len(words):,} | {method} | {times(run, n)} |"


def at_once(turns: int) -> Iterator[str]:
    yield "| model | one thread, texts/s | theirs | ratio | all cores, texts/s | theirs | ratio | target |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, kind, texts, labels in corpora():
        learn, y, new, _ = split(texts, labels)
        ours = kind(n_jobs=1).fit(learn, y)
        theirs = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000)).fit(learn, y)
        best = {"one": [float("inf")] * 2, "all": [float("inf")] * 2}
        for _ in range(turns):
            for jobs, clock, mine in ((1, time.process_time, best["one"]), (None, time.perf_counter, best["all"])):
                ours.set_params(n_jobs=jobs)
                for side, model in enumerate((ours, theirs)):
                    gc.collect()
                    start = clock()
                    model.predict_proba(new)
                    mine[side] = min(mine[side], clock() - start)
        speeds = " | ".join(
            f"{len(new) / own:,.0f} | {len(new) / other:,.0f} | {other / own:.1f}×" for own, other in best.values()
        )
        yield f"| {name} | {speeds} | {BATCH_TARGET:g}× |"


STREAMS: dict[str, Callable[[random.Random], str]] = {
    "new words": lambda rng: " ".join(word(rng) for _ in range(60)),
    "new header fields": lambda rng: "".join(f"X-{word(rng)}: {word(rng)}\n" for _ in range(60)) + "\nhello",
}
LIMITS = {"limit": 20_000, "no limit": None}


def megabytes() -> float:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_hostile(stream: str, limit: str, n: int) -> None:
    """Learn a stream in this process; print how much memory was added at four times, as JSON."""
    rng, warned = random.Random(0), 0
    texts, labels = messages()
    model = deciban.TextClassifier(blocks=["words", "pairs", "headers"], max_features=LIMITS[limit], n_jobs=1)
    model.fit(texts, labels)
    before, added = megabytes(), []
    for i in range(1, n + 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", deciban.VocabularyWarning)
            model.partial_fit([STREAMS[stream](rng)], [labels[i % len(labels)]])
        warned += len(caught)
        if i % (n // 4) == 0:
            added.append(megabytes() - before)
    print(json.dumps({"added": added, "warned": warned, "dropped": model.n_dropped_}))


def hostile(n: int) -> Iterator[str]:
    quarters = [f"{n * quarter // 4:,} documents" for quarter in (1, 2, 3, 4)]
    yield f"| stream | max_features | MB added after {' | '.join(quarters)} | warnings | items dropped |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for stream in STREAMS:
        for limit, most in LIMITS.items():
            command = [sys.executable, __file__, "--hostile", stream, "--limit", limit, "--documents", str(n)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
            found = json.loads(done.stdout.splitlines()[-1])
            added = " | ".join(f"{mb:.0f}" for mb in found["added"])
            yield f"| {stream} | {most or 'None'} | {added} | {found['warned']} | {found['dropped']:,} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["one", "vocabulary", "batch", "hostile"], help="this part only")
    parser.add_argument("--texts", type=int, default=200, help="texts that are asked about one at a time (default 200)")
    parser.add_argument("--turns", type=int, default=7, help="turns of predicting at once (default 7)")
    parser.add_argument("--documents", type=int, default=8000, help="of a hostile stream (default 8000)")
    parser.add_argument("--hostile", choices=list(STREAMS), help=argparse.SUPPRESS)
    parser.add_argument("--limit", choices=list(LIMITS), default="limit", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.hostile:
        run_hostile(options.hostile, options.limit, options.documents)
        return
    if not DATA.exists():
        raise SystemExit(f"there is no {DATA}: DECIBAN_DATA names where the data sets are")
    lines = [
        "# Answers of text models",
        "",
        f"deciban {deciban.__version__}, scikit-learn {sklearn.__version__}; written by "
        "`python benchmarks/text_answers.py`.",
    ]
    parts: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
        "one": ("One text", lambda: one_text(options.texts)),
        "vocabulary": ("By vocabulary", lambda: by_vocabulary(options.texts)),
        "batch": ("At once", lambda: at_once(options.turns)),
        "hostile": ("Hostile texts", lambda: hostile(options.documents)),
    }
    for name, (title, rows) in parts.items():
        if options.part in (None, name):
            for line in ("", f"## {title}", ""):
                lines.append(line)
                print(line)
            for line in rows():
                lines.append(line)
                print(line, flush=True)
    if options.part is None:
        OUT.mkdir(exist_ok=True)
        (OUT / "text_answers.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
