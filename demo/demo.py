"""deciban in one minute: learn, judge, explain, forget, merge, and do without what is missing.

Run it with `make demo`. The messages in messages.csv were written for this project; the flowers come with
scikit-learn. Nothing is downloaded, and every number is computed as it is printed.
"""

from __future__ import annotations

import copy
import csv
import time
from pathlib import Path

import numpy as np
import sklearn.naive_bayes
from rich.console import Console
from rich.markup import escape
from sklearn.datasets import load_iris

import deciban
from deciban import GaussianNB, TextClassifier

MESSAGES = Path(__file__).parent / "messages.csv"
NEW = "Free tickets for the meeting tomorrow! Click here and claim them now."

console = Console(width=88, highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    console.print(text)


def heading(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def read_messages() -> tuple[list[str], np.ndarray]:
    with MESSAGES.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [row["message"] for row in rows], np.array([row["label"] for row in rows])


def furthest(a: np.ndarray, b: np.ndarray) -> str:
    """The largest difference of two arrays, in words."""
    return f"{np.abs(a - b).max():.1g}"


def main() -> None:
    say(f"[bold]deciban {deciban.__version__}[/bold]: a classifier whose model is a sum.")
    say("What it learned can be added to, taken back, merged, and read.")

    messages, y = read_messages()
    model = TextClassifier().fit(messages, y)
    heading("1. Learn")
    counts = ", ".join(f"{int(n)} {label}" for label, n in zip(model.classes_, model.class_count_, strict=True))
    say(
        f"{len(y)} messages ({counts}), {len(model.vocabulary_)} different words: one pass, one sum per word and class."
    )
    say(f"Evidence is taken of {', '.join(model.model_.sums.blocks)}; how far each is believed, leave-one-out says.")

    heading("2. Judge: every message by the model that never saw it")
    start = time.perf_counter()
    judged = model.leave_one_out(messages, y)
    quick = time.perf_counter() - start
    say(f"Leave-one-out accuracy {judged.accuracy:.1%}, log loss {judged.log_loss:.3f} nats.")
    start = time.perf_counter()
    refits = np.empty_like(judged.proba)
    for i in range(len(y)):
        without = copy.copy(model).forget(messages[i : i + 1], y[i : i + 1])
        refits[i] = without.predict_proba(messages[i : i + 1])[0]
    slow = time.perf_counter() - start
    gap = furthest(judged.proba, refits)
    say(f"Forgetting them one by one differs from it by at most {gap}, and takes {slow / quick:.0f} times as long.")

    heading("3. Explain: evidence adds up, in decibans (10 dB is ten to one)")
    why = model.explain(NEW)
    console.print(why)
    strongest, _, most = why.items[0]
    factor = 10 ** (abs(most) / 10)
    side = why.target if most > 0 else why.against
    say(f"“{strongest}” alone multiplies the odds of {side} by {factor:.0f}; all of it together says {why.target}.")

    heading("4. Forget: as if it had never been seen")
    gone = int(np.argmax(judged.log_losses))
    say(f"The message the others find most surprising ({y[gone]}): “{escape(messages[gone])}”")
    rest = np.arange(len(y)) != gone
    never = TextClassifier().fit([m for m, kept in zip(messages, rest, strict=True) if kept], y[rest])
    model.forget(messages[gone : gone + 1], y[gone : gone + 1]).refit_reliability()
    lost = len(never.vocabulary_) == len(model.vocabulary_)
    gap = furthest(model.predict_proba(messages), never.predict_proba(messages))
    say(
        f"Forgotten{', its words too' if lost else ''}: probabilities differ from a model's that never saw it by {gap}."
    )

    heading("5. Merge: two that learned apart are one that learned both")
    half = len(y) // 2
    parts = [slice(half), slice(half, None), slice(None)]
    one, two, whole = (TextClassifier(blocks=["words", "pairs"]).fit(messages[part], y[part]) for part in parts)
    gap = furthest((one + two).refit_reliability().predict_proba(messages), whole.predict_proba(messages))
    say(f"{half} + {len(y) - half} messages = all {len(y)}: probabilities differ by {gap}.")

    heading("6. Do without what is missing")
    flowers, kinds = load_iris(return_X_y=True)
    holes = flowers.copy()
    holes[np.random.default_rng(0).random(holes.shape) < 0.3] = np.nan
    say(f"{len(holes)} irises, four measurements each, {np.isnan(holes).mean():.0%} of the numbers taken away.")
    for name, data in (("whole", flowers), ("with holes", holes)):
        loo = GaussianNB().fit(data, kinds).leave_one_out(data, kinds)
        say(f"deciban, {name}: leave-one-out accuracy {loo.accuracy:.1%}")
    try:
        sklearn.naive_bayes.GaussianNB().fit(holes, kinds)
        say("scikit-learn, with holes: it learns from them too")
    except ValueError as error:
        say(f"scikit-learn, with holes: “{escape(str(error).splitlines()[0])}”")


if __name__ == "__main__":
    main()
