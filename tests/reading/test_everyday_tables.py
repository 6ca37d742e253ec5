"""Tables as people have them: prices, percentages, dates and codes, from a frame to a model to a file and back."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest

import deciban
from deciban import Classifier, NaiveBayes, TreeAugmentedNB
from deciban.errors import DataWarning, DecibanError
from deciban.reading.dates import DateFormat
from deciban.reading.frames import read_frame
from deciban.reading.kinds import Conventions, infer
from deciban.reading.numerals import NumberFormat

N = 240


def kinds(table, given=None, **conventions):
    return {kind.name: kind for kind in infer(read_frame(table), given, Conventions(**conventions))}


def german(number, decimals=2):
    return f"{number:,.{decimals}f}".translate(str.maketrans(",.", ".,"))


@pytest.fixture(scope="module")
def export():
    """A German export, and the same table with numbers that are numbers."""
    rng = np.random.default_rng(0)
    y = np.array(["nein", "ja"])[np.arange(N) % 2]
    amount = np.round(np.exp(rng.normal(7 + 2 * (y == "ja"), 0.7)), 2)
    pieces = rng.integers(1, 4000, N) * (1 + (y == "ja"))
    share = np.round(rng.uniform(0, 100, N), 1)
    days = [datetime.date(2021, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 700, N)]
    plain = {"Betrag": amount, "Menge": pieces, "Anteil": share, "Datum": np.array(days, "M8[D]")}
    written = {
        "Betrag": [f"{german(value)} €" for value in amount],
        "Menge": [german(value, 0) for value in pieces],
        "Anteil": [f"{german(value, 1)} %" for value in share],
        "Datum": [day.strftime("%d.%m.%Y") for day in days],
    }
    return written, plain, y


def test_kinds_of_an_export(export):
    written, _, _ = export
    seen = kinds(written)
    assert [seen[name].kind for name in written] == ["number", "count", "number", "date"]
    assert seen["Betrag"].format == NumberFormat(",", ".", "€")
    assert seen["Menge"].format == NumberFormat(",", ".")  # 1.200 alone may be a fraction: the other columns decide
    assert seen["Datum"].format == DateFormat("day")


def test_a_model_of_an_export_is_that_of_its_numbers(export, tmp_path):
    written, plain, y = export
    model, same = Classifier().fit(written, y), Classifier().fit(plain, y)
    np.testing.assert_allclose(model.predict_proba(written), same.predict_proba(plain), rtol=1e-12)
    model.save(tmp_path / "m.deciban")
    for read in (deciban.load(tmp_path / "m.deciban"), deciban.read(tmp_path / "m.deciban")):
        one = {"Betrag": ["1.200 €"], "Menge": ["1.200"], "Anteil": ["3 %"], "Datum": ["1.2.2021"]}
        numbers = {"Betrag": [1200.0], "Menge": [1200], "Anteil": [3.0], "Datum": np.array(["2021-02-01"], "M8[D]")}
        np.testing.assert_array_equal(read.predict_proba(one), read.predict_proba(numbers))
    model.forget({name: column[:9] for name, column in written.items()}, y[:9])
    same.forget({name: column[:9] for name, column in plain.items()}, y[:9])
    np.testing.assert_allclose(model.predict_proba(written), same.predict_proba(plain), rtol=1e-9)


def in_file(path, written, y):
    names = [*written, "Klasse"]
    rows = zip(*written.values(), y, strict=True)
    path.write_text("\n".join(map(";".join, [names, *rows])), encoding="utf-8")
    return path


@pytest.mark.parametrize("make", [Classifier, NaiveBayes, TreeAugmentedNB])
def test_an_export_in_a_file(make, export, tmp_path):
    """Where every table is read by type, files are read as what they mean."""
    written, plain, y = export
    path = in_file(tmp_path / "export.csv", written, y)
    model = make().fit(path, "Klasse")
    same = make().fit(plain, y)
    np.testing.assert_allclose(model.predict_proba(path), same.predict_proba(plain), rtol=1e-9)
    one = in_file(tmp_path / "one.csv", {"Betrag": ["1.200 €"], "Menge": ["1.200"], "Anteil": ["3 %"],
                                         "Datum": ["1.2.2021"]}, ["ja"])  # fmt: skip
    numbers = {"Betrag": [1200.0], "Menge": [1200], "Anteil": [3.0], "Datum": np.array(["2021-02-01"], "M8[D]")}
    np.testing.assert_allclose(model.predict_proba(one), same.predict_proba(numbers), rtol=1e-9)


def test_thousands_that_look_like_fractions_are_read_by_what_other_columns_say(tmp_path):
    from deciban.sources import open_source

    path = tmp_path / "a.csv"
    path.write_text("a;b;c\n1.200;5,5;1.5\n3.400;6,25;2.5\n")
    assert open_source([path]).types == {"a": pa.string(), "b": pa.string(), "c": pa.float64()}
    path.write_text("a;b\n1.200;5.5\n3.400;6.25\n")
    assert open_source([path]).types == {"a": pa.float64(), "b": pa.float64()}
    assert open_source([path], decimal=",").types == {"a": pa.string(), "b": pa.float64()}


def test_what_can_be_read_in_two_ways_is_said():
    table = {"price": ["1,234", "5,678"] * 30, "when": ["5/12/2019", "6/1/2020", "7/2/2020"] * 20}
    y = ["a", "b"] * 30
    with pytest.warns(DataWarning) as warned:
        Classifier().fit(table, y)
    assert sorted(str(one.message).split(":")[0] for one in warned) == ["column 'price'", "column 'when'"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Classifier(decimal=",", day_first=True).fit(table, y)
    assert [kind.format for kind in model.model_.reader.kinds] == [NumberFormat(",", "."), DateFormat("day")]


def test_codes_stay_codes():
    seen = kinds(
        {
            "zip": ["01234", "99999", "00501"] * 20,
            "phone": ["+49 170 1234567", "+49 171 7654321"] * 30,
            "address": ["10.0.0.1", "192.168.100.200", "10.0.0.2"] * 20,
            "doors": ["2", "3", "4", "5more"] * 15,
            "amount": ["12", "13", "14"] * 20,
        }
    )
    assert [kind.kind for kind in seen.values()] == ["category", "category", "category", "category", "count"]
    assert "leading zeros" in seen["zip"].why
    assert "codes rather than numbers" in seen["phone"].why
    phones = kinds({"phone": [f"+1 415 555 {i:04d}" for i in range(60)]})["phone"]
    assert (phones.kind, phones.maybe_text) == ("identifier", False)


def test_dates_of_eight_digits():
    seen = kinds({"day": [20211231, 20200229, 19991231] * 20, "no": [20211231, 20200230, 19991231] * 20,
                  "text": ["20211231", "20200229", "19991231"] * 20})  # fmt: skip
    assert [kind.kind for kind in seen.values()] == ["date", "count", "date"]
    model = Classifier().fit({"day": [20211231, 20200229, 19991231] * 20}, ["a", "b", "c"] * 20)
    assert model.predict({"day": [19991230, 20211230]}).tolist() == ["c", "a"]


def test_given_kinds_are_read_as_written():
    table = {"amount": ["$1,200", "$3", "n/a"] * 20}
    assert kinds(table, {"amount": "number"})["amount"].format == NumberFormat(unit="$")
    assert kinds(table, {"amount": "category"})["amount"].format is None
    with pytest.raises(DecibanError, match="'twelve' in row 1, which is not a number"):
        kinds({"amount": ["$5", "twelve"]}, {"amount": "number"})


@pytest.mark.parametrize("wrong", [{"decimal": ";"}, {"thousands": "x"}, {"decimal": ",", "thousands": ","}])
def test_conventions_that_are_none(wrong):
    with pytest.raises(DecibanError, match=next(iter(wrong))):
        Conventions(**wrong)


def test_words_among_numbers_are_missing():
    values = [*(f"{i / 4}" for i in range(100)), *["unknown"] * 20]
    seen = kinds({"x": values})["x"]
    assert (seen.kind, seen.missing) == ("number", 20)
    assert "'unknown'" in seen.why


def test_arrow_reads_numbers_as_floats_where_they_are_plain(tmp_path):
    """Nothing changes for files with plain numbers."""
    path = tmp_path / "a.csv"
    arrow_csv.write_csv(pa.table({"x": [1.5, 2.0], "n": [1, 2], "s": ["a", "1,5"]}), path)
    source = deciban.sources.open_source([path])
    assert (source.types["x"], source.types["n"], source.types["s"]) == (pa.float64(), pa.float64(), pa.string())


def test_a_model_of_plain_numbers_reads_strings_whose_format_leaves_no_doubt():
    """As where a spreadsheet was learned, and an export of it as text is predicted."""
    days = [datetime.date(2022, 1, 1) + datetime.timedelta(days=i) for i in range(80)]
    amounts = (np.arange(80) * 10.25 + 1000.5).tolist()
    table = {"amount": amounts, "day": days, "y": [i >= 40 for i in range(80)]}
    model = Classifier().fit(table, "y")
    text = {"amount": [f"{german(v)} €" for v in amounts], "day": [day.strftime("%d.%m.%Y") for day in days]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(model.predict_proba(text), model.predict_proba({"amount": amounts, "day": days}))
    with pytest.warns(DataWarning, match="not a number"):
        model.predict(text | {"amount": ["1,234"] * 80})  # a thousand, or a fraction?
