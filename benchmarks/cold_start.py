"""How long a saved model takes to answer from a cold start: a new process for every question, as on a command line.

Models are learned from real texts, mails and tables and saved; then each question is one process, from its start to its
end. Beside it stand a process that imports NumPy alone, which no answer can be quicker than, and one that imports
scikit-learn's naive Bayes and does nothing with it. All take turns, so that a busy machine slows all of them. Files are
in the system's cache by then, as those of a program in use are. An editable install takes longer: it looks for changes
at every start. DECIBAN_DATA names where the data is; by default `../shared/data` next to the project.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import deciban
from deciban.client import Client

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
GOAL = 0.5  # seconds for an explanation
TEXT = "Subject: free prize\n\nYou have won a free prize: call now to claim your cash."
BESIDE = {
    "`python -c 'import numpy'`": "import numpy",
    "`python -c 'import deciban'`": "import deciban",
    "`python -c 'import sklearn.naive_bayes'`": "import sklearn.naive_bayes",
}


def documents(path: Path) -> tuple[list[str], list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def messages() -> tuple[Any, str]:
    with open(DATA / "sms_spam" / "SMSSpamCollection.tsv", encoding="utf-8", newline="") as file:
        labels, texts = zip(*csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), strict=True)
    return deciban.TextClassifier().fit(list(texts), list(labels)), f"{len(texts):,} short messages"


def newsgroups() -> tuple[Any, str]:
    texts, labels = documents(DATA / "20newsgroups" / "20news-bydate-train.jsonl.gz")
    return deciban.TextClassifier().fit(texts, labels), f"{len(texts):,} posts in 20 groups"


def mails() -> tuple[Any, str]:
    texts, labels = documents(DATA / "spamassassin" / "spamassassin.jsonl.gz")
    return deciban.SpamFilter().fit(texts, labels), f"{len(texts):,} mails"


def adult() -> tuple[Any, str]:
    schema = json.loads((DATA / "adult" / "schema.json").read_text())
    rows: list[dict[str, Any]] = []
    for path in sorted((DATA / "adult").glob("*.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file)
    names = [column["name"] for column in schema["columns"] if column["name"] != schema["target"]]
    X = {name: [None if row[name] == "?" else row[name] for row in rows] for name in names}
    y = [row[schema["target"]] for row in rows]
    return deciban.Classifier().fit(X, y), f"a table of {len(rows):,} rows and {len(names)} columns"


MODELS: dict[str, Callable[[], tuple[Any, str]]] = {
    "sms_spam": messages,
    "20newsgroups": newsgroups,
    "spamassassin": mails,
    "adult": adult,
}


def saved(folder: Path, wanted: list[str]) -> Iterator[tuple[str, Path, str]]:
    """Each model that there is data for: its name, its file, and a description of its data."""
    for name in wanted:
        if (DATA / name).is_dir():
            model, what = MODELS[name]()
            model.save(path := folder / f"{name}.deciban")
            yield name, path, f"{type(model).__name__}, {what}, {path.stat().st_size / 1e6:.1f} MB"


def questions(folder: Path, name: str, path: Path) -> dict[str, list[str]]:
    """The command lines to time."""
    if name == "adult":
        row = {"age": "39", "education": "Bachelors", "hours-per-week": "40", "sex": "Male"}
        asked = [part for column, value in row.items() for part in ("--set", f"{column}={value}")]
        data = folder / "rows.csv"
        names = [column["name"] for column in json.loads((DATA / "adult" / "schema.json").read_text())["columns"]]
        data.write_text(",".join(names) + "\n" + ",".join(row.get(column, "") for column in names) + "\n")
    else:
        asked, data = ["--text", TEXT], folder / "rows.jsonl"
        data.write_text(json.dumps({"text": TEXT}) + "\n")
    command = [sys.executable, "-m", "deciban"]
    return {
        "explain": [*command, "explain", str(path), *asked],
        "show": [*command, "show", str(path)],
        "predict": [*command, "predict", str(path), str(data)],
    }


@contextmanager
def filters(folder: Path, path: Path) -> Iterator[dict[str, list[str]]]:
    """The command lines of filters, which get a mail on standard input: with a server, alone, and bogofilter's."""
    program, socket = str(Path(sys.executable).with_name("deciban-filter")), folder / "socket"
    command = [sys.executable, "-m", "deciban", "serve", str(path), "--socket", str(socket), "--no-auth"]
    store = ["--store", str(folder / "store.sqlite"), "--log-level", "error"]
    with subprocess.Popen([*command, *store], stderr=subprocess.DEVNULL) as server:
        try:
            while not Client(f"unix:{socket}").ready():
                time.sleep(0.1)
            out = {
                "`deciban-filter --socket`": [program, "--socket", str(socket)],
                "`deciban filter --socket`": [sys.executable, "-m", "deciban", "filter", "--socket", str(socket)],
                "`deciban-filter --model`": [program, "--model", str(path)],
            }
            if shutil.which("bogofilter"):
                texts, labels = documents(DATA / "spamassassin" / "spamassassin.jsonl.gz")
                for label, option in (("ham", "-n"), ("spam", "-s")):
                    (box := folder / label).mkdir()
                    for number, text in enumerate(t for t, y in zip(texts, labels, strict=True) if y == label):
                        (box / str(number)).write_bytes(text.encode("latin-1"))
                    subprocess.run(["bogofilter", "-C", "-d", str(folder), option, "-B", str(box)], check=True)
                out["`bogofilter -p`"] = ["bogofilter", "-C", "-d", str(folder), "-p", "-e"]
            yield out
        finally:
            server.terminate()
            server.wait(60)


def seconds(command: list[str], where: Path, mail: str = "") -> float:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, input=mail)
    spent = time.perf_counter() - start
    if done.returncode or "X-Deciban: error" in done.stdout:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="processes for each question (default 15)")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS), help="which (default: all)")
    arguments = parser.parse_args()
    start = time.perf_counter()
    lines = [
        "# A saved model from a cold start",
        "",
        f"Milliseconds from the start of a process to its end: the median of {arguments.runs} runs, and the least. All",
        f"rows take turns. An explanation is to take less than {GOAL * 1e3:.0f} ms. `predict` reads a file of one row,",
        "for which pyarrow is imported. Filters read a mail from standard input: by the socket of a running server, or",
        "by a model and its index. The least is what a quiet machine takes.",
        f"Written by `python benchmarks/cold_start.py` with deciban {deciban.__version__}, Python "
        f"{sys.version.split()[0]}.",
        "",
        "| process | median | least |",
        "|---|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as made, ExitStack() as held:
        folder = Path(made)
        commands = {what: [sys.executable, "-c", code] for what, code in BESIDE.items()}
        for name, path, what in saved(folder, arguments.models):
            (own := folder / name).mkdir()
            for verb, command in questions(own, name, path).items():
                commands[f"`deciban {verb}`: {what}"] = command
            if name == "spamassassin":
                asked = held.enter_context(filters(own, path))
                commands |= {f"{program}: {what}": command for program, command in asked.items()}
        times: dict[str, list[float]] = {what: [] for what in commands}
        for run in range(arguments.runs + 1):
            for what, command in commands.items():
                spent = seconds(command, folder, TEXT)
                if run:  # the first one fills the cache
                    times[what].append(spent)
    print("\n".join(lines[-2:]))
    for what, spent in times.items():
        lines.append(f"| {what} | {statistics.median(spent) * 1e3:.0f} | {min(spent) * 1e3:.0f} |")
        print(lines[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    path = OUT / "cold_start.md"
    path.write_text("\n".join(lines) + "\n")
    print(f"table written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
