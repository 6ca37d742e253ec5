"""A process that learns may be killed at any moment: its model file is always complete, old or new.

The processes to kill are forked from one that has imported everything, so that hundreds of kills take seconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import deciban
from deciban.storage import atomic, files

KILLS = 24, 200  # in `make test`, and in `make test-all`
ROWS_PER_BATCH = 8  # learned at a time
N_COLUMNS = 5_000  # so many that reading, learning and writing take milliseconds each

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def batch():
    """Always the same rows, so that what was learned is a multiple of their sums, and nothing else is."""
    rng = np.random.default_rng(0)
    return rng.poisson(0.2, (ROWS_PER_BATCH, N_COLUMNS)).astype(float), np.arange(ROWS_PER_BATCH) % 2


class CallHook:
    """Hooks the system calls of a learner: at a given one it reports, and may stop there."""

    CALLS = "open", "close", "fstat", "lstat", "fchmod", "fsync", "replace"

    def __init__(self, last: float, tell: int = -1, stay: bool = False) -> None:
        self.made, self.last, self.tell, self.stay = 0, last, tell, stay
        for name in self.CALLS:
            setattr(os, name, partial(self.call, getattr(os, name)))

    def call(self, real, *given, **named):
        self.made += 1
        if self.made == self.last:
            os.write(self.tell, b".")
            while self.stay:
                signal.pause()
        return real(*given, **named)


def learn(place: Path, X, y) -> None:
    """Read, learn, write."""
    with files.exclusively(place):
        deciban.load(place).partial_fit(X, y).save(place)


def calls_of(place: Path, X, y) -> int:
    """How many calls an undisturbed learner makes."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        counted = CallHook(np.inf)
        learn(place, X, y)
        os.write(write, str(counted.made).encode())
        os._exit(0)
    os.waitpid(child, 0)
    made = int(os.read(read, 20))
    os.close(read)
    os.close(write)
    return made


def times_learned(place: Path, X, y) -> int:
    """How often the rows were learned; an error if the file is not one of its complete states."""
    model = deciban.load(place)
    times = round(model.class_count_.sum() / ROWS_PER_BATCH)
    np.testing.assert_array_equal(model.class_count_, times * np.bincount(y))
    sums = np.array([X[y == c].sum(axis=0) for c in range(2)])
    np.testing.assert_array_equal(model.feature_count_, times * sums)  # whole numbers: exact
    return times


def start(place: Path, X, y, last: int, tell: int, stay: bool) -> int:
    child = os.fork()
    if child == 0:
        try:
            CallHook(last, tell, stay)
            while True:
                learn(place, X, y)
        finally:
            os._exit(1)  # it ends only by being killed
    return child


def kill_learners(place: Path, writers: int, kills: int) -> None:
    """Start, kill, check: the file is complete, and what was learned stays learned.

    Half of the learners are killed at one of their calls, whichever it is, and the others some time after it.
    """
    X, y = batch()
    deciban.MultinomialNB().fit(X, y).save(place)
    calls = calls_of(place, X, y)
    rng, before, cut_off, rounds = random.Random(0), 2, 0, kills // writers
    while rounds > 0 or not cut_off:  # of several writers, chance decides which holds the lock
        rounds -= 1
        hear, tell = os.pipe()
        learners = [start(place, X, y, rng.randint(1, 3 * calls), tell, rng.random() < 0.5) for _ in range(writers)]
        os.close(tell)
        assert os.read(hear, 1), "all of them failed"
        os.close(hear)
        for child in learners:
            os.kill(child, signal.SIGKILL)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it failed before it was killed"
        now = times_learned(place, X, y)
        assert now >= before, "what was learned is lost"
        before = now
        litter = {p.name for p in place.parent.iterdir()} - {place.name}
        assert litter <= {atomic.temporary_path(place).name}, litter
        cut_off += len(litter)
    learned = deciban.load(place).partial_fit(X, y)
    learned.save(place)
    assert {p.name for p in place.parent.iterdir()} == {place.name}, "the next to write leaves nothing behind"
    print(json.dumps({"learned": before, "cut off while writing": cut_off}))  # noqa: T201 - to the test


@pytest.mark.parametrize("writers", [pytest.param(1, marks=pytest.mark.slow), 3])  # of three, one writes at a time
def test_killed_at_any_moment_the_file_is_whole(writers, thorough, tmp_path):
    place = tmp_path / "model.deciban"
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(place), str(writers), str(KILLS[thorough])]
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    outcome = json.loads(done.stdout)
    assert outcome["learned"] > 10, "learners got somewhere"
    assert outcome["cut off while writing"] > (0, 5)[thorough], "and some were killed in the middle of it"


@pytest.mark.slow
def test_the_command_killed_at_any_moment(tmp_path):
    """The same with `deciban learn` as people run it."""
    rng = random.Random(0)
    rows = ["colour,size,kind"] + [f"{c},{s},{k}" for c, s, k in zip("rgbrgb" * 8, range(48), "xy" * 24, strict=True)]
    data, place = tmp_path / "data.csv", tmp_path / "model.deciban"
    data.write_text("\n".join(rows) + "\n")
    train = [sys.executable, "-m", "deciban", "train", data, "--target", "kind", "-o", place]
    subprocess.run(train, check=True, capture_output=True)
    learn_ = [sys.executable, __file__, "learn", place, data]
    calls = int(subprocess.run([*learn_, "inf", "go"], check=True, capture_output=True).stdout)
    before, ended = 2, 0
    for _ in range(max(KILLS)):
        when = [str(rng.randint(1, calls)), rng.choice(["stay", "go"])]
        with subprocess.Popen([*learn_, *when], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            began = child.stdout.read(1)
            child.kill()
            errors = child.communicate()[1]
        assert began == b".", errors
        assert child.returncode == -signal.SIGKILL or (child.returncode == 0 and when[1] == "go"), errors
        ended += child.returncode == 0
        count = deciban.load(place).class_count_
        np.testing.assert_array_equal(count, [count[0], count[0]])
        now = int(count.sum()) // 48
        assert count.sum() == 48 * now, "a part of the rows"
        assert now - before in (0, 1), "what was learned is lost, or learned twice"
        before = now
    assert ended <= before - 2, "who came to an end has learned"
    assert ended < max(KILLS), "and not all did"
    assert {p.name for p in tmp_path.iterdir()} <= {"data.csv", place.name, atomic.temporary_path(place).name}


def learn_by_command(place: str, data: str, last: str, then: str) -> None:
    """`deciban learn`, which reports one of its system calls on standard output, and finally how many there were."""
    from deciban.cli.run import run

    tell = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # output of the command
    counted = CallHook(float(last), tell, then == "stay")
    code = run(["learn", place, data])
    os.write(tell, str(counted.made).encode())
    sys.exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "learn":
        learn_by_command(*sys.argv[2:])
    kill_learners(Path(sys.argv[1]), *map(int, sys.argv[2:]))
