"""deciban in one minute: learn, judge, explain, forget, merge, and do without what is missing.

Run it with `make demo`. The messages in messages.csv were written for this project; the flowers come with
scikit-learn. Nothing is downloaded, and every number is computed as it is printed.
"""

from __future__ import annotations

import csv
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import sklearn.naive_bayes
from rich.console import Console
from rich.markup import escape
from sklearn.datasets import load_iris

import deciban
from deciban import GaussianNB, MultinomialNB

MESSAGES = Path(__file__).parent / "messages.csv"
NEW = "Free tickets for the meeting tomorrow! Click here and claim them now."

console = Console(width=88, highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    console.print(text)


def heading(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def tokens(message: str) -> list[str]:
    return re.findall(r"[a-z]+", message.lower())


def read_messages() -> tuple[list[str], np.ndarray]:
    with MESSAGES.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [row["message"] for row in rows], np.array([row["label"] for row in rows])


def count(messages: list[str], place: dict[str, int]) -> np.ndarray:
    """How often each word of the dictionary stands in each message; other words are left out."""
    X = np.zeros((len(messages), len(place)))
    for i, message in enumerate(messages):
        for word, times in Counter(tokens(message)).items():
            if word in place:
                X[i, place[word]] = times
    return X


def furthest(a: np.ndarray, b: np.ndarray) -> str:
    """The largest difference of two arrays, in words."""
    return f"{np.abs(a - b).max():.1g}"


def verdict(good: bool) -> str:
    return "[green]yes[/green]" if good else "[red]no[/red]"


def main() -> None:
    say(f"[bold]deciban {deciban.__version__}[/bold]: a classifier whose model is a sum.")
    say("What it learned can be added to, taken back, merged, and read.")

    messages, y = read_messages()
    words = sorted({word for message in messages for word in tokens(message)})
    place = {word: j for j, word in enumerate(words)}
    X = count(messages, place)
    model = MultinomialNB(alpha="loo").fit(X, y)
    heading("1. Learn")
    counts = ", ".join(f"{int(n)} {label}" for label, n in zip(model.classes_, model.class_count_, strict=True))
    say(f"{len(y)} messages ({counts}), {len(words)} different words: one pass, one sum per word and class.")
    say(f"Pseudo-counts with the least leave-one-out loss: α = {model.alpha_:.2f}.")

    heading("2. Judge: every message by the model that never saw it")
    start = time.perf_counter()
    judged = model.leave_one_out(X, y)
    quick = time.perf_counter() - start
    say(f"Leave-one-out accuracy {judged.accuracy:.1%}, log loss {judged.log_loss:.3f} nats.")
    start = time.perf_counter()
    refits = np.empty_like(judged.log_proba)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        refits[i] = MultinomialNB(alpha=model.alpha_).fit(X[others], y[others]).predict_log_proba(X[i : i + 1])[0]
    slow = time.perf_counter() - start
    gap = furthest(judged.log_proba, refits)
    say(f"{len(y)} literal refits differ from it by at most {gap}, and take {slow / quick:.0f} times as long.")

    heading("3. Explain: evidence adds up, in decibans (10 dB is ten to one)")
    say(f"“{escape(NEW)}”")
    why = model.explain(count([NEW], place), names=words)
    console.print(why)
    strongest, _, most = why.items[0]
    factor = 10 ** (abs(most) / 10)
    side = why.target if most > 0 else why.against
    say(f"“{strongest}” alone multiplies the odds of {side} by {factor:.0f}; all of it together says {why.target}.")

    heading("4. Forget: as if it had never been seen")
    gone = int(np.argmax(judged.log_losses))
    say(f"The message the others find most surprising ({y[gone]}): “{escape(messages[gone])}”")
    rest = np.arange(len(y)) != gone
    never = MultinomialNB(alpha=model.alpha_).fit(X[rest], y[rest])
    model.forget(X[gone : gone + 1], y[gone : gone + 1])
    same = model.model_.stats.same_as(never.model_.stats)
    gap = furthest(model.predict_log_proba(X), never.predict_log_proba(X))
    say(f"Forgotten. The sums of a model that never saw it? {verdict(same)}; log-probabilities differ by {gap}.")

    heading("5. Merge: two that learned apart are one that learned both")
    half = len(y) // 2
    one, two, whole = (MultinomialNB().fit(X[rows], y[rows]) for rows in (slice(half), slice(half, None), slice(None)))
    merged = one + two
    same = merged.model_.stats.same_as(whole.model_.stats)
    gap = furthest(merged.predict_log_proba(X), whole.predict_log_proba(X))
    say(f"{half} + {len(y) - half} messages = all {len(y)}? {verdict(same)}; log-probabilities differ by {gap}.")

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
