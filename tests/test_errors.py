"""Errors have fields, and a message formatted from them last: wherever raised, renumbered, pickled and shown."""

from __future__ import annotations

import copy
import datetime
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest

from deciban import Classifier, GaussianNB, TextClassifier, errors, stream
from deciban.engines.stream import Place, error_at
from deciban.errors import DataWarning, DecibanError, EngineError, FileError, ForgetError, KindError, LocatedError, warn
from deciban.reading.categories import check_codes, code_sizes
from deciban.reading.convert import as_kind
from deciban.reading.frames import read_frame, split_target
from deciban.reading.kinds import infer
from deciban.reading.labels import read_labels, read_weights
from deciban.reading.table import TableColumns
from deciban.results.evaluation import evaluate
from deciban.schema import Columns
from deciban.storage.files import encode, read
from deciban.text import background, mail

INF, NAN = float("inf"), float("nan")
DAY = datetime.date(2020, 1, 2)
HOSTILE = ("{row}", "{value!r}", "{column", "}{", "{{row}}", "%s %(row)d", "{0}", "two\nlines", "row 7", "{file}")


@pytest.fixture(scope="module")
def table():
    """A model of two columns and two classes."""
    rng = np.random.default_rng(0)
    return Classifier().fit({"n": rng.normal(size=40), "c": ["u", "v"] * 20}, ["a", "b"] * 20)


@pytest.fixture(scope="module")
def texts():
    return TextClassifier().fit(["good film", "bad film", "good plot", "bad plot"], ["+", "-", "+", "-"])


def file_of_nothing(folder):
    path = folder / "model.deciban"
    path.write_bytes(b"")
    return str(path)


# (what is done, the kind of error, row, column, value): value ... is one that the message is not about.
READERS = {
    "infinite cell": (lambda: read_frame({"a": [1.0, -INF]}), DecibanError, 1, "a", -INF),
    "object in a cell": (lambda: read_frame({"a": ["x", {1: 2}]}), DecibanError, 1, "a", {1: 2}),
    "number too large": (lambda: read_frame({"a": [1.5, None, 10**400]}), DecibanError, 2, "a", 10**400),
    "column that is a scalar": (lambda: read_frame({"a": 5}), DecibanError, None, "a", 5),
    "column of two dimensions": (lambda: read_frame({"a": np.eye(2)}), DecibanError, None, "a", ...),
    "column of complex numbers": (lambda: read_frame({"a": np.array([1j])}), DecibanError, None, "a", ...),
    "columns of two lengths": (lambda: read_frame({"a": [1, 2], "b": [1]}), DecibanError, None, "b", ...),
    "names that come twice": (lambda: read_frame({"1": [1], 1: [2]}), DecibanError, None, "1", ...),
    "row that is no row": (lambda: read_frame([[1, 2], 3]), DecibanError, 1, None, 3),
    "row among dicts": (lambda: read_frame([{"a": 1}, {"a": 2}, [3]]), DecibanError, 2, None, [3]),
    "row that is too short": (lambda: read_frame([[1, 2], [3, 4], [5]]), DecibanError, 2, None, ...),
    "target that is not there": (lambda: split_target({"a": [1]}, "y"), DecibanError, None, "y", ...),
    "target without names": (lambda: split_target(np.eye(2), "y"), DecibanError, None, "y", ...),
    "column not chosen": (lambda: read_frame({"a": [1]}, ["b"]), DecibanError, None, "b", ...),
    "column that a reader misses": (
        lambda: TableColumns.of(read_frame({"a": [1.5, 2.5], "b": [0.5, 3.5]})).read({"a": [1.5]}),
        DecibanError,
        None,
        "b",
        ...,
    ),
    "kind that is unknown": (lambda: infer(read_frame({"a": [1]}), {"a": "colour"}), DecibanError, None, "a", ...),
    "kind of no column": (lambda: infer(read_frame({"a": [1]}), {"b": "number"}), DecibanError, None, "b", ...),
    "count that is none": (lambda: infer(read_frame({"a": [1, -2]}), {"a": "count"}), DecibanError, 1, "a", -2.0),
    "number that is none": (
        lambda: infer(read_frame({"a": ["1", "?", "x"]}), {"a": "number"}),
        DecibanError,
        2,
        "a",
        "x",
    ),
    "date that is none": (
        lambda: infer(read_frame({"a": ["2020-01-01", "soon"]}), {"a": "date"}), DecibanError, 1, "a", "soon"
    ),
    "negative code": (lambda: check_codes(np.array([[0.0, 1.0], [2.0, -1.0]]), "X"), DecibanError, 1, 1, -1.0),
    "infinite code": (lambda: check_codes(np.array([[0.0, INF]]), "X"), DecibanError, 0, 1, INF),
    "huge code": (lambda: check_codes(np.array([[0.0], [2.0**70]]), "X"), DecibanError, 1, 0, 2.0**70),
    "code without a table": (
        lambda: code_sizes(np.array([[0.0, 1e12]]), "X", np.zeros(2)),
        DecibanError,
        None,
        1,
        10**12,
    ),
    "infinite label": (lambda: read_labels([0.0, NAN, -INF], 3), DecibanError, 2, None, -INF),
    "fraction as a label": (lambda: read_labels([0.0, NAN, 0.5], 3), DecibanError, 2, None, 0.5),
    "fraction among objects": (lambda: read_labels([None, 1, 2.5], 3), DecibanError, 2, None, 2.5),
    "infinite label of Arrow": (lambda: read_labels(pa.array([1.0, None, INF]), 3), DecibanError, 2, None, INF),
    "fraction of Arrow": (lambda: read_labels(pa.array([1.0, None, 2.0, 0.5]), 4), DecibanError, 3, None, 0.5),
    "label of another type": (
        lambda: read_labels(np.array([None, b"a"], dtype=object), 2),
        KindError,
        1,
        None,
        b"a",
    ),
    "labels of two types": (lambda: read_labels(np.array(["a", None, 2], dtype=object), 3), KindError, 2, None, 2),
    "soft label": (lambda: read_labels([[0.5, 0.5], [0.9, 0.3]], 2), DecibanError, 1, None, [0.9, 0.3]),
    "infinite weight": (lambda: read_weights([1.0, INF], 2), DecibanError, 1, "sample_weight", INF),
    "text that is missing": (lambda: background(["x", None]), DecibanError, 1, None, None),
    "text that is a number": (lambda: background(["x", "y", 5]), DecibanError, 2, None, 5),
    "mail that is none": (lambda: mail.read(5), KindError, None, None, 5),
    "label that cannot be saved": (lambda: encode(DAY), KindError, None, None, DAY),
    "columns that differ": (
        lambda: Columns(1, ("a",)).union(Columns(1, ("b",))),
        errors.SchemaError,
        None,
        "a",
        ...,
    ),
}  # fmt: skip

MODELS = {
    "infinity": (lambda _: GaussianNB().fit([[1.0, 2.0], [3.0, INF]], [0, 1]), DecibanError, 1, "x1", INF),
    "row not learned": (
        lambda models: models["table"].forget({"n": [0.1], "c": ["w"]}, ["a"]),
        ForgetError,
        0,
        "c",
        ...,
    ),
    "class not learned": (
        lambda models: models["table"].forget({"n": [0.1], "c": ["u"]}, ["z"]),
        ForgetError,
        None,
        None,
        "z",
    ),
    "document not learned": (lambda models: models["texts"].forget(["good film"], ["?"]), ForgetError, None, None, "?"),
    "document without a label": (
        lambda models: evaluate(models["texts"], ["good", "bad"], ["+", None]),
        DecibanError,
        1,
        None,
        None,
    ),
    "text in a table": (lambda models: models["texts"].predict(["good", 5]), DecibanError, 1, None, 5),
    "weight below zero": (
        lambda models: evaluate(models["texts"], ["good", "bad"], ["+", "-"], weight=[1.0, -2.0]),
        DecibanError,
        1,
        "weight",
        -2.0,
    ),
    "labels of other classes": (
        lambda models: evaluate(models["texts"], ["good"], ["yes"]),
        DecibanError,
        None,
        None,
        "yes",
    ),
}


def check(raised, kind, row, column, value):
    assert type(raised) is kind
    assert (raised.row, raised.column) == (row, column)
    assert type(raised.row) in (int, type(None)), "not NumPy's"
    if value is not ...:
        assert raised.value == value
        assert type(raised.value) is type(value)
    message = str(raised)
    assert "{" not in message.replace(repr(value), ""), "every place is filled"
    if row is not None and "{row}" in raised.message:
        moved = raised.located(numbers=range(100, 200), file="people.csv")
        assert moved.row == 100 + row
        assert f"{100 + row}" in str(moved)
        assert str(moved).startswith("people.csv: ")
        assert moved.value is raised.value
    for again in (pickle.loads(pickle.dumps(raised)), copy.copy(raised)):
        assert type(again) is kind
        assert str(again) == message
        assert (again.row, again.column, again.file) == (raised.row, raised.column, raised.file)
        assert again.value == raised.value


@pytest.mark.parametrize("case", READERS)
def test_what_is_read_wrong_has_fields(case):
    act, *expected = READERS[case]
    with pytest.raises(DecibanError) as caught:
        act()
    check(caught.value, *expected)


@pytest.mark.parametrize("case", MODELS)
def test_what_is_learned_wrong_has_fields(case, table, texts):
    act, *expected = MODELS[case]
    with pytest.raises(DecibanError) as caught:
        act({"table": table, "texts": texts})
    check(caught.value, *expected)


def test_a_file_is_named(tmp_path):
    path = file_of_nothing(tmp_path)
    with pytest.raises(FileError) as caught:
        read(path)
    assert caught.value.file == path
    assert str(caught.value) == f"{path!r} is not a complete deciban model file: it is empty", "once"


def test_a_warning_has_fields():
    with pytest.warns(DataWarning, match="column 'a': 1 value is not a number") as caught:
        as_kind(read_frame({"a": ["1", "2", "x{row}"]}).columns[0], "number", "a")
    warning = caught[0].message
    assert (warning.row, warning.column, warning.value) == (2, "a", "x{row}")
    assert str(warning) == "column 'a': 1 value is not a number ('x{row}' in row 2) and treated as missing"
    assert "row 12" in str(warning.located(numbers=[10, 11, 12]))
    assert caught[0].filename == __file__, "at the line outside of the package"


def test_a_warning_may_be_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        with pytest.raises(DataWarning):
            warn(DataWarning("row {row}", row=1))


# ------------------------------------------------------------------ the message


def test_only_what_was_given_is_filled_in():
    assert str(DecibanError("{row} {column} {file} {value} {other}")) == "{row} {column} {file} {value} {other}"
    assert str(DecibanError("{row} is {value!r}", value=None)) == "{row} is None"
    assert (
        str(DecibanError("{value:g}, {n:,} of {value!short}", value=1e9, n=10**6)) == "1e+09, 1,000,000 of 1000000000.0"
    )
    assert str(DecibanError("{value!short}", value="x" * 1000)) == "'xxxxxxxxxxxx...xxxxxxxxxxxxx'"
    assert str(DecibanError()) == ""


@pytest.mark.parametrize("data", HOSTILE)
def test_data_is_shown_as_it_is(data):
    error = DecibanError("row {row} of {column!r} is {value!r} and {what}", row=3, column=data, value=data, what=data)
    expected = f"row 3 of {data!r} is {data!r} and {data}"
    assert str(error) == expected
    assert str(error.located(file=data)) == f"{data}: {expected}"
    assert str(pickle.loads(pickle.dumps(error))) == expected


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("value", HOSTILE)
def test_cells_and_names_are_shown_as_they_are(name, value):
    with pytest.raises(DecibanError) as caught:
        infer(read_frame({name: ["1", value]}), {name: "number"})
    assert (caught.value.row, caught.value.column, caught.value.value) == (1, name, value)
    assert str(caught.value).startswith(f"column {name!r} holds {value!r} in row 1, which is not a number")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_are_not_there_are_shown_as_they_are(name):
    with pytest.raises(DecibanError) as caught:
        read_frame({"zz": [1]}, [name])
    assert str(caught.value) == f"there is no column {name!r}: the table has 'zz'"


def test_the_file_is_named_once():
    error = DecibanError("{file!r} has no row {row}", row=1, file="a.csv")
    assert str(error) == "'a.csv' has no row 1"
    assert error.located(file="b.csv").file == "a.csv", "who knows the file best is who was nearest"


def test_renumbering():
    error = DecibanError("row {row} and {other}", row=2, other="row 2")
    assert str(error.located(numbers=np.array([5, 6, 70]))) == "row 70 and row 2", "only its own row"
    assert error.located(numbers=[5]).row == 2, "of rows that are not among these, nothing is known"
    assert DecibanError("no row").located(numbers=[5, 6]).row is None
    assert error.row == 2, "the error itself stays as it is"


def test_the_command_line_has_its_own_words():
    error = DecibanError("row {row}: give y=", row=2, file="a.csv", command_line="row {row}: give --target")
    assert str(error) == "a.csv: row 2: give y="
    for same in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert same.on_command_line() == "a.csv: row 2: give --target"
    located = error.located(numbers=[7, 8, 9])
    assert (str(located), located.on_command_line()) == ("a.csv: row 9: give y=", "a.csv: row 9: give --target")
    assert DecibanError("one for both").on_command_line() == "one for both"
    assert DataWarning("in {column}", column="a", command_line="column {column}").on_command_line() == "column a"


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("lable", ["label", "message", "table"], ["label"]),
        ("AGE", ["page", "age"], ["age"]),
        ("cvs", ["csv", "tsv"], ["csv"]),
        ("message", ["age", "plan"], []),
        ("anything", [], []),
        ("", ["a"], []),
        (3, ["3", "4"], ["3"]),
    ],
)
def test_names_that_may_have_been_meant(name, names, expected):
    assert errors.similar(name, names) == expected
    hint = f"did you mean {' or '.join(map(repr, expected))}?" if expected else "look"
    assert errors.did_you_mean(name, names, "look") == hint


def test_files_that_may_have_been_meant(tmp_path):
    for name in ("customers.csv", "customers.deciban", "other.csv", "odd.csv"):
        (tmp_path / name).touch()
    both = " or ".join(repr(str(tmp_path / f"customers.{ending}")) for ending in ("csv", "deciban"))
    for name in ("custmers.csv", "customers", "Customers.tsv"):
        assert errors.did_you_mean_file(str(tmp_path / name), "look") == f"did you mean {both}?"
    assert errors.did_you_mean_file(str(tmp_path / "new.csv"), "look") == "look", "the same ending is no likeness"
    assert (
        errors.did_you_mean_file(str(tmp_path / "no" / "a.csv"), "look") == f"the folder '{tmp_path}/no' does not exist"
    )


def test_the_trace_stays():
    with pytest.raises(DecibanError) as caught:
        read_frame({"a": [INF]})
    assert caught.value.located(file="x").__traceback__ is caught.value.__traceback__ is not None


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LocatedError)]
)
def test_every_kind_is_pickled(kind):
    error = kind("row {row} of {what}", row=np.int64(4), what="x", value=(1, "2"))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "row 4 of x"
    assert (again.row, again.value) == (4, (1, "2"))


def test_a_value_that_cannot_be_sent_is_sent_as_it_is_shown():
    error = DecibanError("row {row} is {value!r}", row=1, value=lambda: None)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.row == 1
    assert again.value == repr(error.value)


# ------------------------------------------------------------------ engines


def frames(*bad):
    """A function that gives two tables, the second with this value at its end."""
    return lambda: iter([pa.table({"x": [1.0, 2.0], "y": ["a", "b"]}), pa.table({"x": [1.0, *bad], "y": ["a", "b"]})])


def test_a_stream_names_the_file_and_keeps_the_row():
    with pytest.raises(DecibanError) as caught:
        GaussianNB().fit(stream(frames(INF), n_jobs=1), "y")
    error = caught.value
    assert (error.row, error.column, error.value) == (3, "x", INF)
    assert str(error).startswith("a sample of the function: ")
    assert error.file == "a sample of the function"


def test_predictions_of_a_stream_name_the_row(table):
    parts = [pa.table({"n": [1.0, 0.0], "c": ["u", "v"]}), pa.table({"n": [1.0, INF], "c": ["u", "v"]})]
    with pytest.raises(DecibanError) as caught:
        list(table.predict(stream(lambda: iter(parts))))
    error = caught.value
    assert (error.row, error.column, error.value, error.file) == (1, "n", INF, "table 1 of the function")
    assert str(error).startswith("table 1 of the function: column 'n' holds inf in row 1: ")


def test_errors_of_others_become_ours():
    own = error_at(DecibanError("row {row}", row=3), Place("table 1"))
    assert (own.row, own.file, str(own)) == (3, "table 1", "table 1: row 3")
    others = error_at(TypeError("{row} is {file}"), Place("table 1"))
    assert type(others) is EngineError
    assert str(others) == "table 1: {row} is {file}"
    assert str(error_at(OSError("gone"), Place("table 1"))) == "table 1: OSError: gone"
    assert isinstance(error_at(KeyboardInterrupt(), Place("table 1")), KeyboardInterrupt)


def test_a_column_that_changes_is_named():
    late = lambda: iter([pa.table({"x{row}": [1.0]}), pa.table({"x{row}": ["a"]})])  # noqa: E731 - an iterator each time
    with pytest.raises(EngineError, match=r"table 1 of the function: column 'x\{row\}' holds string") as caught:
        GaussianNB().fit(stream(late), "x{row}")
    assert (caught.value.column, caught.value.file) == ("x{row}", "table 1 of the function")


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_dask_names_the_partition_and_keeps_the_fields(scheduler):
    dask, bags = pytest.importorskip("dask"), pytest.importorskip("dask.bag")
    from deciban.engines.dask.engine import Dask

    bag = bags.from_sequence([{"a": 1.0}, {"a": 2.0}, {"a": 3.0}, ["{row}"]], npartitions=2)
    with dask.config.set(scheduler=scheduler), pytest.raises(DecibanError) as caught:
        Dask(bag).sample(10)
    error = caught.value
    assert (error.row, error.value) == (1, ["{row}"])
    assert error.file == "partition 1 (counted from 0) of the Dask Bag"
    assert str(error).startswith(f"{error.file}: row 1 is ['{{row}}']: the rows of a Bag must all be dicts")


def test_rows_of_a_long_partition_have_their_numbers(monkeypatch):
    from deciban.engines.dask import partitions

    monkeypatch.setattr(partitions, "MAX_TABLE_ROWS", 2)
    reader = partitions.PartitionReader(partitions.columns_of_bag, None, pa.schema([("a", pa.float64())]))
    with pytest.raises(DecibanError) as caught:
        list(reader.tables([{"a": 1.0}, {"a": 2.0}, {"a": 3.0}, {"a": {1: 2}}, {"a": 4.0}]))
    assert (caught.value.row, caught.value.column, caught.value.value) == (3, "a", {1: 2})


def test_spark_sends_errors_with_their_fields():
    """An executor returns a row with a pickled error; this is how the driver raises it."""
    from types import SimpleNamespace

    from deciban.engines.spark.engine import checked_parts

    packed = pickle.dumps(DecibanError("row {row} is {value!r}", row=2, column="a", value="{row}"))
    with pytest.raises(DecibanError) as caught:
        checked_parts([SimpleNamespace(part=3, error=packed)], "the Spark DataFrame")
    error = caught.value
    assert (error.row, error.column, error.value) == (2, "a", "{row}")
    assert str(error) == "partition 3 of the Spark DataFrame: row 2 is '{row}'"
