"""A mail scored by a model file, in a process of its own, and the index beside the file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deciban
from deciban._kernel import filter_index as kernel
from deciban.cli import alone
from deciban.text.filter_index import SUFFIX, FilterIndex, packed, stamp, write

from .conftest import HAM, SPAM
from .programs import filtered

WORDS = [
    "you",
    "win",
    "Claim",
    "cash",
    "lunch",
    "noon",
    "room",
    "!",
    "不好",
    "Ωmega",
    "ﬁsh",
    "İ",
    "pаypal",
    "\u0301",
    "née",
]
mails = st.lists(st.sampled_from(WORDS), max_size=30).flatmap(
    lambda words: st.permutations(["Subject: " + " ".join(words[:5]), "From: me", "X-Other: " + "".join(words)]).map(
        lambda fields: "\n".join(fields) + "\n\n" + " ".join(words) + "\n"
    )
) | st.text(max_size=200)


@pytest.fixture
def model(model_file, tmp_path):
    return str(shutil.copy(model_file, tmp_path / "mail.deciban"))


def index_of(path):
    scorer = deciban.read(path, n_jobs=1)
    assert write(path, scorer.model, scorer.costs, scorer.reader.headers, stamp(path))
    index = FilterIndex.open(path)
    assert index is not None
    return scorer, index


@pytest.fixture(scope="module")
def both(model_file, tmp_path_factory):
    """A model and its index."""
    return index_of(str(shutil.copy(model_file, tmp_path_factory.mktemp("index"))))


def same(header, other):
    """Whether two headers say the same, up to the last digit shown."""
    verdicts = [
        re.search(r"X-Deciban: (\w+); probability=([\d.]+); decibans=([-\d.]+)", one).groups()
        for one in (header, other)
    ]
    assert verdicts[0][0] == verdicts[1][0]
    np.testing.assert_allclose([float(x) for x in verdicts[0][1:]], [float(x) for x in verdicts[1][1:]], atol=0.11)


@given(mails)
def test_the_index_answers_as_the_model_does(both, text):
    scorer, index = both
    raw = text.encode("utf-8", "surrogatepass")
    log_proba = scorer.predict_log_proba([raw])[0]
    log_odds, items = index.score(deciban.text.mail.read(raw).text, 500)
    np.testing.assert_allclose(log_odds, log_proba[1] - log_proba[0], rtol=1e-5, atol=1e-5)
    verdict, other = index.verdict(raw, "mail", 5), scorer.verdict([raw], scorer.predict_proba([raw]), "mail", most=5)
    assert verdict.label == other.label
    np.testing.assert_allclose(
        [verdict.probability, verdict.decibans], [other.probability, other.decibans], rtol=1e-4, atol=1e-4
    )
    mine, theirs = dict(verdict.evidence), dict(other.evidence)
    weakest = min(map(abs, theirs.values()), default=0.0) + 1e-3  # of equal ones, either may be shown
    for name in {*mine, *theirs}:
        if max(abs(mine.get(name, 0.0)), abs(theirs.get(name, 0.0))) > weakest:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-3)
    assert len(items) <= 500


def test_evidence_adds_up(both):
    """The prior, all items, and the absence of common items are the total."""
    scorer, index = both
    raw = b"Subject: you win\n\nSee cash at noon\n"
    why = scorer.explain([raw], by="item")
    total, items = index.score(deciban.text.mail.read(raw).text, 500)
    others = sum(db for name, kind, db in why.items if not kind)
    np.testing.assert_allclose(
        sum(nats for *_, nats in items) * 10 / np.log(10) + others + why.prior, why.total, rtol=1e-5
    )
    np.testing.assert_allclose(total * 10 / np.log(10), why.total, rtol=1e-5)


def test_other_settings_are_kept(tmp_path):
    path = str(tmp_path / "m.deciban")
    filter_ = deciban.SpamFilter(headers=["subject"], unsure=0.4, prior={"viagra": {"spam": 50}})
    filter_.train(SPAM, "spam").train(HAM[:10], "ham").save(path)
    scorer, index = index_of(path)
    assert (index.headers, index.costs) == (("subject",), (1.0, 0.4, 20.0))
    for raw in (b"Subject: viagra\nFrom: lunch@noon.example\n\nroom", SPAM[0].encode(), HAM[0].encode(), b""):
        other = scorer.verdict([raw], scorer.predict_proba([raw]), "m")
        assert index.verdict(raw, "m", 5).label == other.label
        np.testing.assert_allclose(index.verdict(raw, "m", 5).decibans, other.decibans, atol=1e-4)


def test_models_without_an_index(tmp_path):
    hashed = deciban.SpamFilter(n_features=1 << 12).train(SPAM, "spam").train(HAM, "ham")
    assert packed(hashed.model_, (1.0, 0.2, 20.0), (0, 0, 0)) is None
    one = deciban.SpamFilter().partial_fit(SPAM, ["spam"] * len(SPAM))
    assert packed(one.model_, (1.0, 0.2, 20.0), (0, 0, 0)) is None
    for model in (hashed, one):
        model.save(path := tmp_path / "m.deciban")
        assert alone.header(str(path), SPAM[0].encode(), 3).startswith("X-Deciban: ")
        assert not os.path.exists(f"{path}{SUFFIX}")


def test_the_index_is_made_once_and_again_when_the_model_changes(model):
    os.chmod(model, 0o640)
    first = alone.header(model, SPAM[0].encode(), 3)
    made = os.stat(model + SUFFIX)
    assert made.st_mode & 0o777 == 0o640
    assert first.startswith("X-Deciban: spam;")
    same(first, alone.header(model, SPAM[0].encode(), 3))
    assert os.stat(model + SUFFIX).st_ino == made.st_ino
    deciban.SpamFilter().train(SPAM, "ham").train(HAM, "spam").save(model)
    assert alone.header(model, SPAM[0].encode(), 3).startswith("X-Deciban: ham;")
    assert os.stat(model + SUFFIX).st_ino != made.st_ino


@given(data=st.data())
def test_a_damaged_index_is_no_danger(both, data, tmp_path_factory):
    """Any bytes: a wrong answer at worst, which whoever can write the file could have anyway."""
    raw = bytearray(both[1]._data[:])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, 700) | st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)) | st.just(len(raw)))
    folder = tmp_path_factory.mktemp("damaged")
    path = str(folder / "m.deciban")
    (folder / "m.deciban").touch()
    (folder / f"m.deciban{SUFFIX}").write_bytes(raw[:cut])
    assert FilterIndex.open(path) is None  # it is not of this model
    if kernel.about(raw[:cut]) is not None:
        with contextlib.suppress(ValueError):
            kernel.score(bytes(raw[:cut]), "subject: you win\n\ncash", "subject: you win\n\ncash", 5, 256)


def test_a_damaged_index_is_replaced(model):
    expected = alone.header(model, SPAM[0].encode(), 3)
    with open(model + SUFFIX, "r+b") as file:
        file.seek(9 * 8)
        file.write(np.array([np.nan]).tobytes())  # the prior
    same(alone.header(model, SPAM[0].encode(), 3), expected)
    index = FilterIndex.open(model)
    assert index is not None
    same(index.verdict(SPAM[0].encode(), "mail", 3).header(), expected)


def test_by_command(model):
    for _ in range(2):  # by the model, and by its index
        out = filtered(SPAM[0].encode(), "--model", model).stdout.decode()
        assert out.endswith(SPAM[0])
        assert re.match(
            r"X-Deciban: spam; probability=0\.99\d+; decibans=\d+\.\d; model=mail\nX-Deciban-Evidence: \+", out
        )
    assert "Evidence" not in filtered(SPAM[0].encode(), "--model", model, "--evidence=0").stdout.decode()
    codes = [
        filtered(raw.encode(), "--model", model, "--verdict", check=False).returncode for raw in (SPAM[0], HAM[0], "")
    ]
    assert codes == [0, 1, 2]


def test_learning_from_standard_input(model):
    new = b"Subject: offer\n\nA new car for you\n"

    def label():
        return re.match(r"X-Deciban: (\w+);", alone.header(model, new, 0))[1]

    assert label() == "unsure"
    for _ in range(5):
        alone.change(model, new, "--learn", "spam")
    assert deciban.load(model).class_count_.tolist() == [40, 45]
    assert FilterIndex.open(model) is not None, "it is made when the model changes"
    assert label() == "spam"
    alone.change(model, new, "--correct", "ham")
    assert deciban.load(model).class_count_.tolist() == [41, 44]
    for learned in ("ham", "spam", "spam", "spam", "spam"):
        alone.change(model, b"X-Deciban: spam\n" + new, "--forget", learned)
    assert deciban.load(model).class_count_.tolist() == [40, 40]
    assert label() == "unsure"
    with pytest.raises(deciban.ForgetError):
        alone.change(model, new, "--forget", "spam")
    with pytest.raises(ValueError, match="maybe"):
        alone.change(model, new, "--learn", "maybe")


@pytest.mark.slow
def test_learning_by_command(model):
    new = b"Subject: offer\n\nA new car for you\n"
    done = filtered(new, "--model", model, "--learn", "spam")
    assert (done.stdout, done.stderr) == (b"", b"")
    assert deciban.load(model).class_count_.tolist() == [40, 41]
    done = filtered(new, "--model", model, "--forget", "ham", check=False)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"learned" in done.stderr


def test_faults_pass_the_mail(model, tmp_path):
    raw = b"Subject: x\n\ny\n"
    (tmp_path / "bad.deciban").write_bytes(b"no model")
    deciban.GaussianNB().fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "numbers.deciban")
    for path, message in [
        ("none.deciban", "No such file"),
        ("bad.deciban", "not a complete deciban model file"),
        ("numbers.deciban", "is a GaussianNB"),
    ]:
        out = filtered(raw, "--model", tmp_path / path).stdout
        head = b" ".join(out.removesuffix(raw).split()).decode()
        assert out.endswith(raw)
        assert head.startswith("X-Deciban: error;")
        assert message in head
    out = filtered(raw, "--model", model, "--timeout", "0.01").stdout
    assert out == b"X-Deciban: error; no answer within 0.01 seconds\n" + raw


@pytest.mark.slow
def test_texts_are_filtered_too(tmp_path):
    """A model of texts knows classes of its own."""
    deciban.TextClassifier().fit(SPAM + HAM, ["offers"] * 40 + ["meetings"] * 40).save(tmp_path / "topics.deciban")
    out = filtered(SPAM[0].encode(), "--model", tmp_path / "topics.deciban").stdout
    assert out.startswith(b"X-Deciban: offers; probability=")
    done = filtered(SPAM[0].encode(), "--model", tmp_path / "topics.deciban", "--verdict", check=False)
    assert (done.returncode, done.stderr) == (3, b"deciban-filter: the verdict is 'offers', which has no exit code\n")


def test_little_is_imported_for_a_mail(model):
    filtered(SPAM[0].encode(), "--model", model)  # makes the index
    code = (
        "import sys\nfrom deciban.cli import alone\n"
        f"assert alone.main(['--alone', {model!r}]) == 0\n"
        "slow = ('numpy', 'scipy', 'typer', 'rich', 'email', 'json', 'hashlib', 'logging', 'subprocess')\n"
        "print([name for name in slow if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=SPAM[0].encode(), capture_output=True, check=True)
    assert done.stdout.startswith(b"X-Deciban: spam")
    assert done.stderr.decode().strip() == "[]"
