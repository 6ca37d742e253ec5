"""Ham or spam: bogofilter and ours on the SpamAssassin mails, three folds of unseen mails each.

Everyone gets the raw bytes with all of their header. Headers of this set leak (mailing lists and weeks differ between
ham and spam), for all alike: read the rows against each other, and not as what to expect of new mail; the row with
CONTENT_HEADERS shows how much there is to it. Bogofilter's spamicity is the tail of a χ² test and no probability, near
0 or 1 almost always and 0.52 where it knows nothing: its log loss says what happens to those who take it for one, and
its own three verdicts are the fairer columns. DECIBAN_DATA names where the data is; by default `../shared/data` beside
the project.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

import deciban
from deciban.text import mail

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
COLUMNS = {
    "log loss": "{:.4f}",
    "accuracy at 0.5": "{:.2%}",
    "ham over 0.5": "{:.2%}",
    "spam under 0.5": "{:.2%}",
    "unsure": "{:.2%}",
    "ham called spam": "{:.2%}",
    "spam called ham": "{:.2%}",
    "learn": "{:.1f} s",
    "ask": "{:.1f} s",
}
MIN_PROBABILITY = 1e-6  # for clipping, so that one certain mistake costs 13.8 nats and not infinity


class Bogofilter:
    """The filter as Debian packages it, without any configuration, as an estimator.

    `learned_in` are the seconds of its own processes, without those it takes here to write a file for each mail; the
    seconds of prediction include it.
    """

    classes_ = np.array(["ham", "spam"])
    cutoffs = (0.45, 0.99)  # ham up to the first, spam from the second; its defaults: `bogofilter -C -Q`

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="bogofilter-")
        self.learned_in = 0.0

    def fit(self, mails: list[bytes], labels: np.ndarray) -> Bogofilter:
        for label, option in (("ham", "-n"), ("spam", "-s")):
            names = self._files([raw for raw, given in zip(mails, labels, strict=True) if given == label], label)
            start = time.perf_counter()
            self._run(names, option)
            self.learned_in += time.perf_counter() - start
        return self

    def predict_proba(self, mails: list[bytes]) -> np.ndarray:
        names = self._files(mails, "unseen")
        spamicity_by_name = dict(line.rsplit(" ", 1) for line in self._run(names, "-TT").splitlines())
        spamicity = np.array([float(spamicity_by_name[name]) for name in names])
        return np.column_stack([1.0 - spamicity, spamicity])

    def predict(self, mails: list[bytes]) -> np.ndarray:
        spamicity = self.predict_proba(mails)[:, 1]
        ham, spam = self.cutoffs
        return np.select([spamicity <= ham, spamicity >= spam], ["ham", "spam"], "unsure")

    def _files(self, mails: list[bytes], folder: str) -> list[str]:
        place = Path(self._home.name, folder)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        names = [str(place / f"{number:06}") for number in range(len(mails))]
        for name, raw in zip(names, mails, strict=True):
            Path(name).write_bytes(raw)
        return names

    def _run(self, names: list[str], option: str) -> str:
        """-C: no configuration; -d: its database; -b: file names on standard input."""
        command = ["bogofilter", "-C", "-d", self._home.name, option, "-b"]
        done = subprocess.run(command, input="\n".join(names) + "\n", text=True, capture_output=True, check=False)
        if done.returncode > 2:  # 0, 1 and 2 are its verdicts on the last mail
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout


def words(model: Any, headers: tuple[str, ...] | None = None) -> Any:
    """A model of the words that occur in a mail, those of its header marked with the field."""
    marked = CountVectorizer(
        analyzer=lambda raw: mail.tokens(mail.read(raw, headers)),
        encoding="latin-1",  # one character per byte, as mail.read expects
        binary=True,
        dtype=np.float64,
    )
    return make_pipeline(marked, model)


MODELS: dict[str, Callable[[], Any]] = {
    "bogofilter": Bogofilter,
    "MultinomialNB(alpha=0.01)": lambda: words(deciban.MultinomialNB(alpha=0.01)),
    "the same, CONTENT_HEADERS": lambda: words(deciban.MultinomialNB(alpha=0.01), mail.CONTENT_HEADERS),
    "BernoulliNB(alpha=0.01)": lambda: words(deciban.BernoulliNB(alpha=0.01)),
    # Here SpamFilter is plugged in: other settings of it go below as further rows.
    "SpamFilter()": deciban.SpamFilter,
}


def why_unavailable(name: str) -> str:
    """Why a model cannot be tried, or an empty string."""
    if name == "bogofilter" and shutil.which("bogofilter") is None:
        return "there is no program bogofilter here (Debian: apt-get install bogofilter)"
    if name.startswith("SpamFilter") and not hasattr(deciban, "SpamFilter"):
        return f"deciban {deciban.__version__} has no SpamFilter"
    return ""


def load() -> tuple[list[bytes], np.ndarray]:
    path = DATA / "spamassassin" / "spamassassin.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"there is no {path}: DECIBAN_DATA names where the data sets are")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["text"].encode("latin-1") for row in rows], np.array([row["label"] for row in rows])


def judge(make: Callable[[], Any], mails: list[bytes], y: np.ndarray, folds: int) -> dict[str, float]:
    """Cross-validated figures of a model, all folds judged together."""
    spam = y == "spam"
    chance, verdict = np.empty(len(y)), np.empty(len(y), dtype=object)
    learn = ask = 0.0
    for learned, unseen in StratifiedKFold(folds, shuffle=True, random_state=0).split(mails, y):
        start = time.perf_counter()
        model = make().fit([mails[i] for i in learned], y[learned])
        learn += getattr(model, "learned_in", time.perf_counter() - start)
        some = [mails[i] for i in unseen]
        start = time.perf_counter()
        chance[unseen] = model.predict_proba(some)[:, list(model.classes_).index("spam")]
        ask += time.perf_counter() - start
        verdict[unseen] = model.predict(some)
    clipped = np.clip(chance, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return {
        "log loss": -np.log(np.where(spam, clipped, 1.0 - clipped)).mean(),
        "accuracy at 0.5": ((chance >= 0.5) == spam).mean(),
        "ham over 0.5": (chance[~spam] >= 0.5).mean(),
        "spam under 0.5": (chance[spam] < 0.5).mean(),
        "unsure": (verdict == "unsure").mean(),
        "ham called spam": (verdict[~spam] == "spam").mean(),
        "spam called ham": (verdict[spam] == "ham").mean(),
        "learn": learn / folds,
        "ask": ask / folds,
    }


def line(name: str, figures: dict[str, float]) -> str:
    return f"| {name} | " + " | ".join(form.format(figures[column]) for column, form in COLUMNS.items()) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=3, help="folds of the mails (default 3)")
    parser.add_argument("--only", nargs="+", default=list(MODELS), choices=list(MODELS), help="models to try")
    arguments = parser.parse_args()
    start = time.perf_counter()
    mails, y = load()
    lines = [
        "# Ham or spam",
        "",
        f"{len(y):,} mails of the SpamAssassin corpus, {(y == 'spam').mean():.0%} of them spam, in {arguments.folds} "
        "stratified folds, each judged by",
        "what was learned of the others. The log loss is in nats, with probabilities clipped to "
        f"{MIN_PROBABILITY:g} and 1 − {MIN_PROBABILITY:g}. Unsure,",
        "*called spam* and *called ham* are by the filter's own verdict: bogofilter's cutoffs are 0.45 and 0.99, and",
        "those who know no *unsure* cut at 0.5. Seconds are for learning a fold and for asking about the unseen one,",
        f"with the reading of mail. Written by `python benchmarks/spam.py` with deciban {deciban.__version__}.",
        "",
        f"| model | {' | '.join(COLUMNS)} |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    print("\n".join(lines[-2:]))
    for name in arguments.only:
        reason = why_unavailable(name)
        if reason:
            print(f"{name} is left out: {reason}")
            continue
        lines.append(line(name, judge(MODELS[name], mails, y, arguments.folds)))
        print(lines[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    path = OUT / "spam.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
