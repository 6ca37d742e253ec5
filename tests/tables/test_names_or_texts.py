"""Names or texts: predictions decide where looks do not."""

from __future__ import annotations

import numpy as np
import pytest

from deciban import Classifier
from deciban.reading.frames import read_frame
from deciban.reading.kinds import infer
from deciban.reading.table import TableColumns
from deciban.tables.names_or_texts import halves, with_kinds_decided

SYLLABLES = ["an", "el", "ra", "to", "mi", "ka", "lu", "so", "ne", "vi"]
TOWNS = """New York, San Diego, Los Angeles, El Paso, St Louis, San Jose, New Orleans, Las Vegas, St Paul, Long Beach,
Salt Lake City, Fort Worth, Santa Ana, Des Moines, Kansas City, Cape Coral, Sioux Falls, Little Rock, Baton Rouge,
Jersey City, Corpus Christi, Oklahoma City""".replace("\n", " ").split(", ")


def table(n, seed=0):
    """People whose form of address tells the class, towns that do, and names that tell nothing."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.5).astype(np.int32)

    def name():
        return "".join(rng.choice(SYLLABLES, 3)).capitalize()

    address = np.where(rng.random(n) < np.where(y, 0.9, 0.1), "Frau", "Herr")
    lean = rng.uniform(0.05, 0.95, len(TOWNS))
    lean = np.stack([lean / lean.sum(), (1 - lean) / (1 - lean).sum()])
    return {
        "person": [f"{title} {name()}" for title in address],
        "town": [TOWNS[rng.choice(len(TOWNS), p=lean[c])] for c in y],
        "nobody": [f"{name()} {name()}" for _ in range(n)],
    }, y


def kinds(X, y, weight=None):
    frame = read_frame(X)
    return {kind.name: kind for kind in with_kinds_decided(TableColumns(infer(frame)), frame, y, 2, weight).kinds}


@pytest.mark.parametrize("n", [150, 600])
def test_words_that_predict_make_a_text(n):
    X, y = table(n)
    decided = kinds(X, y)
    assert decided["person"].kind == "text"
    assert "words predict better" in decided["person"].why
    assert decided["town"].kind == "category"
    assert decided["nobody"].kind in ("category", "identifier")


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_labels_change_nothing(seed):
    X, y = table(400, seed)
    before = {kind.name: kind.kind for kind in infer(read_frame(X))}
    shuffled = np.random.default_rng(seed).permutation(y)
    assert {name: kind.kind for name, kind in kinds(X, shuffled).items()} == before


def test_repeated_texts_whose_values_tell_are_a_category():
    rng = np.random.default_rng(0)
    words = ["the", "a", "of", "in", "on", "to", "and", "it"]
    forms = [" ".join(rng.permutation(words)) for _ in range(60)]  # the same words, so that only the whole tells
    which = rng.integers(0, 60, 500)
    y = (which % 2).astype(np.int32)
    frame = read_frame({"form": [forms[i] for i in which]})
    assert infer(frame)[0].kind == "text"
    assert Classifier().fit({"form": [forms[i] for i in which]}, y).summary().accuracy > 0.9


def test_given_kinds_are_left_alone():
    X, y = table(300)
    model = Classifier(schema={"person": "category", "town": "text"}).fit(X, y)
    assert [kind.kind for kind in model.model_.reader.kinds[:2]] == ["category", "text"]


def test_weights_count_and_rows_without_weight_do_not():
    X, y = table(300)
    weight = np.where(np.arange(300) < 150, 1.0, 0.0)
    first = {name: column[:150] for name, column in X.items()}
    assert kinds(X, y, weight)["person"].kind == kinds(first, y[:150])["person"].kind == "text"


def test_halves_part_rows_with_the_same_string():
    X, _ = table(300)
    column = read_frame(X)["town"]
    half = halves(column)
    for code in range(len(column.levels)):
        assert abs(int(half[column.codes == code].sum()) * 2 - int((column.codes == code).sum())) <= 1


def test_one_class_or_few_rows_decide_nothing():
    X, y = table(60)
    assert kinds(X, np.zeros(60, dtype=np.int32))["person"].kind in ("category", "identifier")
    tiny = {name: column[:5] for name, column in X.items()}
    assert kinds(tiny, y[:5])["person"].kind == "category"


def test_the_model_is_saved_with_what_was_decided(tmp_path):
    import deciban

    X, y = table(300)
    model = Classifier().fit(X, y)
    model.save(tmp_path / "m.deciban")
    again = deciban.load(tmp_path / "m.deciban")
    assert again.model_.reader.kinds[0].kind == "text"
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
