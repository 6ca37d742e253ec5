"""Kinds of columns: each rule, kinds given by the user, and real tables."""

from __future__ import annotations

import datetime as dt
import json
import uuid
import warnings

import numpy as np
import pytest
from conftest import DATA
from effort import growth

from deciban.errors import DecibanError
from deciban.reading.columns import Levels, Numbers
from deciban.reading.frames import read_frame
from deciban.reading.kinds import LEFT_OUT, ColumnKind, as_kind, infer, kinds_table
from deciban.show import Table

N = 60
RNG = np.random.default_rng(0)
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "many", "red", "birds", "fly", "over", "old", "houses"]


def sentences(words: int, distinct: int, rows: int = N) -> list[str]:
    texts = [f"{' '.join(RNG.choice(WORDS, words - 1))} {i}" for i in range(distinct)]
    return [texts[i % distinct] for i in range(rows)]


def kind_of(values, name: str = "column") -> ColumnKind:
    (kind,) = infer(read_frame({name: values}))
    return kind


CASES = {
    "numbers with fractions": ([0.5, 2.0] * 30, "number"),
    "whole numbers below zero": ([-1, 2] * 30, "number"),
    "whole numbers": ([0, 1, 2] * 20, "count"),
    "whole numbers with gaps, which are floats to pandas": ([0.0, np.nan, 7.0] * 20, "count"),
    "zeros and ones": ([0, 1] * 30, "count"),
    "booleans": ([True, False, None] * 20, "boolean"),
    "yes and no": (["yes", "No", None] * 20, "boolean"),
    "y, n and ?": (["y", "n", "?"] * 20, "boolean"),
    "t and f": (["t", "f"] * 30, "boolean"),
    "true and false": (["True", "False"] * 30, "boolean"),
    "two names": (["male", "female"] * 30, "category"),
    "yes, no and another": (["yes", "no", "perhaps"] * 20, "category"),
    "names": (["red", "green", "blue"] * 20, "category"),
    "strings that are numbers": (["1.5", "?", "-2"] * 20, "number"),
    "strings that are counts": (["1", "NA", "2", " 3"] * 15, "count"),
    "every marker of none": (["1.5", "2", "", "?", "NA", "n/a", "NaN", "NULL", "None", "-"] * 6, "number"),
    "one number and a word": (["1.5", "none", "?"] * 20, "category"),
    "only markers of none": (["?", ""] * 30, "constant"),
    "one string among numbers": (["1", "2", "many"] * 20, "category"),
    "postcodes": (["01067", "04109", "50667"] * 20, "category"),
    "a lonely zero is no postcode": (["0", "5", "12"] * 20, "count"),
    "dates": ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)] * 30, "date"),
    "strings that are dates": (["2020-01-31", "2021-02-28", ""] * 20, "date"),
    "strings that are moments": (["2020-01-31T12:30:00Z", "2021-02-28 08:15"] * 30, "date"),
    "a date that is none": (["2020-01-31", "2021-02-30"] * 30, "category"),
    "one value": (["a"] * N, "constant"),
    "one number": ([3.5] * N, "constant"),
    "nothing": ([None] * N, "constant"),
    "no rows": ([], "constant"),
    "one value or none": (["a", None] * 30, "category"),
    "one number or none": ([3.5, None] * 30, "category"),
    "texts": (sentences(8, N), "text"),
    "short texts": (sentences(3, N), "text"),
    "long texts that come again": (sentences(12, 60, 240), "text"),
    "long labels": (sentences(12, 4), "category"),
    "few texts": (sentences(8, 5, 5), "text"),
    "texts without spaces": (["今日は天気がいいですね" + chr(0x4E00 + i) for i in range(N)], "text"),
    "texts in Lao": (["ມື້ນີ້ອາກາດດີ" + chr(0x0E81 + i % 2) + chr(0x4E00 + i) for i in range(N)], "text"),
    "uuids": ([str(uuid.UUID(int=int(i))) for i in RNG.integers(0, 2**60, N)], "identifier"),
    "hashes": ([f"{int(i):016x}" for i in RNG.integers(2**40, 2**60, N)], "identifier"),
    "addresses": ([f"{'abcdefgh'[i % 8]}{i}@example.org" for i in range(N)], "identifier"),
    "codes": ([f"A-{i:04d}" for i in range(N)], "identifier"),
    "all names different": ([f"{a}{b}" for a in "abcdefgh" for b in "ijklmnop"][:N], "identifier"),
    "one name twice": ([f"u{i}" for i in range(N - 1)] + ["u0"], "identifier"),
    "few names, all different": ([f"u{i}" for i in range(10)], "category"),
    "many names": ([f"town{i % 500}" for i in range(5000)], "category"),
    "half the names different": ([f"ticket{i // 2}" for i in range(N)], "category"),
    "a run of integers": (list(range(N)), "identifier"),
    "a run in another order": (RNG.permutation(N).tolist(), "identifier"),
    "part of a run": (np.sort(RNG.choice(80, N, replace=False)).tolist(), "identifier"),
    "strings that are a run": ([str(i) for i in range(N)], "identifier"),
    "few integers, a run": (list(range(10)), "count"),
    "integers that all differ": ((RNG.choice(10**6, N, replace=False) + 5).tolist(), "count"),
    "floats are measured": ([float(i) for i in range(N)], "count"),
    "floats that all differ": (RNG.normal(size=N).tolist(), "number"),
}


@pytest.mark.parametrize("case", CASES)
def test_rules(case):
    values, kind = CASES[case]
    column = kind_of(values)
    assert column.kind == kind, column
    assert column.why
    assert column.name == "column"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("id", "identifier"),
        ("customer_id", "identifier"),
        ("customerId", "identifier"),
        ("ID", "identifier"),
        ("order no", "identifier"),
        ("invoice_nr", "identifier"),
        ("index", "identifier"),
        ("humidity", "count"),
        ("population", "count"),
        ("price_index", "count"),
        ("no_of_rooms", "count"),
    ],
)
def test_integers_that_all_differ_are_identifiers_by_name(name, kind):
    scattered = (RNG.choice(10**7, N, replace=False)).tolist()
    assert kind_of(scattered, name).kind == kind
    assert kind_of([float(v) + 0.5 for v in scattered], name).kind == "number"


def test_integers_that_come_again_are_codes_by_name():
    assert kind_of([17, 4, 99] * 20, "store_id").kind == "category"
    assert kind_of([10115, 50667] * 30, "zip_code").kind == "category"
    assert kind_of([17, 4, 99] * 20, "store").kind == "count"


def test_years_in_a_row_are_no_identifiers():
    assert kind_of(list(range(1960, 2020)), "year").kind == "count"
    assert kind_of(list(range(1960, 2020)), "number").kind == "identifier"


def test_counts_of_values():
    column = kind_of(["a", "b", "?", None, "", "a"])
    assert (column.distinct, column.missing) == (2, 3)
    assert column.why == "2 distinct values in 6 rows"
    assert (kind_of([1, 5, 5, None]).distinct, kind_of([1.5, 2.5, None]).missing) == (2, 1)
    word = kind_of(["1.5", "none", "?"])
    assert (word.distinct, word.missing, word.why) == (2, 1, "2 distinct values in 3 rows")
    assert kind_of(["a", None, None]).why == "one value, missing in 2 of 3 rows: whether it is missing may be evidence"
    # Sorting, and counting in a table without sorting, agree.
    wide, narrow = RNG.integers(0, 10**9, 500), RNG.integers(-200, 200, 500)
    assert kind_of(wide).distinct == len(set(wide.tolist()))
    assert kind_of(narrow).distinct == len(set(narrow.tolist()))


def test_categories_of_a_library():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": pd.Categorical([3, 1] * 30), "b": pd.Categorical([str(i % 4) for i in range(N)])})
    numbers, strings = infer(read_frame(table))
    assert numbers.kind == "category"
    assert strings.kind == "category"  # strings of digits would be numbers, but the table calls them categories


def test_the_kinds_agree_in_every_library():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    table = {case: values for case, (values, _) in CASES.items() if len(values) == N and case != "nothing"}
    expected = infer(read_frame(table))
    for make in (pl.DataFrame(table), pa.table(table), pd.DataFrame(table)):
        assert infer(read_frame(make)) == expected


def test_given_kinds():
    frame = read_frame({"a": [1, 2, 3], "b": ["1", "2", "x"], "c": ["2020-01-01", None, "?"], "d": ["x y", "z", ""]})
    kinds = infer(frame, {"a": "category", "b": "skip", "c": "text", "d": "identifier"})
    assert [own.kind for own in kinds] == ["category", "skip", "text", "identifier"]
    assert {own.why for own in kinds} == {"given"}
    assert infer(frame, {"c": "date"})[2].missing == 2
    assert infer(frame, {"a": "number"})[0].kind == "number"
    assert infer(read_frame({"a": [None, None]}), {"a": "text"})[0].kind == "text"


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1, 2], "colour", "choose one of number, count, category, boolean, text, date, constant, identifier, skip"),
        (["1", "2", "x"], "number", "column 'a' holds 'x' in row 2, which is not a number"),
        (["1", "y", "x"], "count", "column 'a' holds 'y' in row 1, which is not a number"),
        ([1.0, 2.5], "count", r"column 'a' holds 2.5 in row 1, and so cannot be of kind 'count'"),
        ([1, -2], "count", r"column 'a' holds -2 in row 1, and so cannot be of kind 'count'"),
        ([1, 2], "text", "column 'a' does not hold strings, and so cannot be of kind 'text'"),
        ([True, False], "text", "column 'a' does not hold strings"),
        ([1, 2, 3], "boolean", "column 'a' has 3 different values"),
        ([1, 2, 3], "date", "column 'a' holds numbers, not dates"),
        (["2020-01-01", "soon"], "date", "column 'a' holds 'soon' in row 1, which is not a date"),
        (["1", "inf"], "number", "column 'a' holds inf in row 1: infinite numbers"),
    ],
)
def test_given_kinds_must_fit(values, kind, message):
    with pytest.raises(DecibanError, match=message):
        infer(read_frame({"a": values}), {"a": kind})


def test_a_kind_for_a_column_that_does_not_exist():
    with pytest.raises(DecibanError, match="no column 'agee': did you mean 'age'"):
        infer(read_frame({"age": [1]}), {"agee": "number"})


def test_columns_converted_to_their_kind():
    strings = read_frame({"a": ["1", "2.5", "?", "x"]})["a"]
    with pytest.warns(
        UserWarning, match=r"column 'a': 1 value is not a number \('x' in row 3\) and treated as missing"
    ):
        numbers = as_kind(strings, "number", "a")
    np.testing.assert_array_equal(numbers.values, [1.0, 2.5, np.nan, np.nan])
    with pytest.warns(UserWarning, match=r"3 values are not a date"):
        assert as_kind(strings, "date", "a").dates == "days"
    days = as_kind(read_frame({"a": ["1970-01-02", "1970-01-01T12:00:00+00:00"]})["a"], "date")
    assert days.values.tolist() == [1.0, 0.5]
    assert as_kind(read_frame({"a": [True, False]})["a"], "number").values.tolist() == [1.0, 0.0]
    levels = as_kind(Numbers(np.array([2.0, np.nan, 0.5, 2.0])), "category")
    assert levels.objects().tolist() == [2, None, 0.5, 2]
    assert list(map(type, levels.levels)) == [float, int]
    assert as_kind(read_frame({"a": [dt.date(2020, 1, 2)]})["a"], "category").levels == ("2020-01-02",)
    names = as_kind(read_frame({"a": ["none", "?", "-", "NA", "nan", " "]})["a"], "category")
    assert names.objects().tolist() == ["none", None, "-", "NA", None, None]
    assert as_kind(strings, "text") is strings
    assert as_kind(strings, "skip") is strings


def test_levels_as_they_were_learned():
    ints, strings = read_frame({"a": [3, 4, 7]})["a"], read_frame({"a": ["3", "4", "7"]})["a"]
    assert as_kind(ints, "category", known=("3", "4")).levels == ("3", "4", "7")
    assert as_kind(strings, "category", known=(3, 4)).levels == (3, 4, "7")
    assert as_kind(strings, "category", known=("3",)).levels == ("3", "4", "7")
    assert as_kind(read_frame({"a": ["True", "False"]})["a"], "boolean", known=(False, True)).levels == (True, False)


def test_learning_and_prediction_read_alike():
    """The kinds of a table and the converted columns are the same for any part of it."""
    table = {case: values for case, (values, _) in CASES.items() if len(values) == N}
    frame = read_frame(table)
    kinds = infer(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for own in [own for own in kinds if own.kind not in LEFT_OUT]:
            whole = as_kind(frame[own.name], own.kind, own.name, strict=True)
            values = table[own.name][:7]
            part = as_kind(read_frame({own.name: values})[own.name], own.kind, own.name)
            if isinstance(whole, Numbers):
                np.testing.assert_array_equal(part.values, whole.values[:7])
            else:
                assert isinstance(part, Levels)
                assert whole.take(slice(7)).objects().tolist() == part.objects().tolist()


def test_the_table_of_kinds():
    shown = kinds_table(infer(read_frame({"age": [1, 2], "town": ["x", None]})))
    assert isinstance(shown, Table)
    assert shown.columns == ("column", "kind", "distinct", "missing", "why")
    assert [row[:4] for row in shown.rows] == [("age", "count", 2, 0), ("town", "category", 1, 1)]
    assert "whole numbers from 1 to 2" in repr(shown)


DIGITS = "digits are numbers unless someone says otherwise"
SAME = "every row has the same value, or none"
EXCEPTIONS = {
    "anneal": {
        **dict.fromkeys(("formability", "enamelability", "bore", "packing"), DIGITS),
        **dict.fromkeys(("product-type", "m", "marvi", "corr", "jurofm", "s", "p"), SAME),
    },
    "cmc": {
        **dict.fromkeys(("Wifes_education", "Wifes_religion", "Wifes_now_working?", "Husbands_education"), DIGITS),
        **dict.fromkeys(("Husbands_occupation", "Standard-of-living_index", "Media_exposure"), DIGITS),
        "Contraceptive_method_used": DIGITS,
    },
    "credit_approval": {"A14": "five digits with leading zeros: postcodes, as far as anyone knows"},
    "heart_cleveland": dict.fromkeys(("sex", "cp", "fbs", "restecg", "exang", "slope", "thal", "num"), DIGITS),
    "ionosphere": {"a02": SAME},
    "mushroom": {"veil-type": SAME},
    "page_blocks": {"class": DIGITS},
    "pendigits": {"class": DIGITS},
    "satimage": {"class": DIGITS},
    "spambase": {"class": DIGITS},
    "zoo": {"animal": "the name of the row"},
}
REAL = ["adult", "anneal", "car", "cmc", "credit_approval", "glass", "heart_cleveland", "hepatitis", "ionosphere"]
REAL += ["kr_vs_kp", "letter", "mushroom", "nursery", "page_blocks", "pendigits", "pima", "satimage", "soybean"]
REAL += ["spambase", "vehicle", "voting", "zoo"]


@pytest.mark.parametrize("name", REAL)
def test_real_tables(name):
    """Every column read as strings: its kind is the one that the set's makers wrote down, apart from known cases."""
    pd = pytest.importorskip("pandas")
    if not (DATA / name / "schema.json").exists():
        pytest.skip(f"there is no data set {name!r}: DECIBAN_DATA says where the sets are")
    schema = {c["name"]: c["type"] for c in json.loads((DATA / name / "schema.json").read_text())["columns"]}
    files = sorted((DATA / name).glob("*.csv"))
    table = pd.concat([pd.read_csv(f, keep_default_na=False, dtype=str) for f in files])
    fits = {"numeric": ("number", "count"), "nominal": ("category", "boolean")}
    by_name = {own.name: own for own in infer(read_frame(table))}
    assert set(by_name) == set(schema)
    wrong = {own.name for own in by_name.values() if own.kind not in fits[schema[own.name]]}
    assert wrong == set(EXCEPTIONS.get(name, ())), [by_name[column] for column in sorted(wrong)]


def test_real_texts():
    path = DATA / "sms_spam" / "SMSSpamCollection.tsv"
    if not path.exists():
        pytest.skip("there is no data set 'sms_spam': DECIBAN_DATA says where the sets are")
    rows = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    label, text = infer(read_frame(rows, names=["label", "text"]))
    assert (label.kind, text.kind) == ("category", "text")


def test_five_thousand_columns():
    X = np.random.default_rng(0).normal(size=(50, 5000))
    few, many = read_frame(X[:, :500]), read_frame(X)
    assert {own.kind for own in infer(many)} == {"number"}
    assert growth(lambda: infer(few), lambda: infer(many), 30) <= 30, "10, were it linear"


def test_a_date_column_says_whether_the_day_or_the_month_comes_first():
    written = (["23.12.2021", "05.01.2022"], ["12/23/2021", "1/5/2022"], ["5 Jan 2021", "6 Jan 2021"])
    whys = [kind_of(values * 20).why for values in written]
    assert ["day first" in whys[0], "month first" in whys[1], "first" in whys[2]] == [True, True, False]


def test_numbers_of_which_some_lack_the_percent_sign():
    mixed = kind_of(["50%", "0.5", "20 %", "0.31"] * 20)
    assert mixed.why.endswith("; some lack the percent sign, and 0.5 is read as 0.5 %")
    assert "percent" not in kind_of(["50%", "20 %"] * 20).why


def test_what_is_not_obvious():
    rng = np.random.default_rng(0)
    n = 100
    table = read_frame(
        {
            "age": rng.integers(20, 60, n).tolist(),
            "town": rng.choice(["Ghent", "Bruges", "Antwerp"], n).tolist(),
            "day": [f"2024-05-{i % 28 + 1:02d}" for i in range(n)],
            "price": [f"${v:,.0f}" for v in rng.uniform(500, 9000, n)],
            "when": [f"{i % 28 + 1}.{i % 12 + 1}.2024" for i in range(n)],
            "zip": rng.choice(["01234", "07030", "90210"], n).tolist(),
            "shop_code": rng.integers(1, 5, n).tolist(),
            "id": list(range(n)),
            "same": ["x"] * n,
        }
    )
    surprising = {own.name: own.why for own in infer(table) if not own.is_obvious}
    assert list(surprising) == ["price", "when", "zip", "shop_code", "id", "same"]
    assert surprising["price"].endswith("with a comma between thousands")
    assert surprising["when"].endswith("with the day first")
    given = dict.fromkeys(("zip", "shop_code"), "category") | {"price": "number", "id": "skip", "same": "constant"}
    assert [own.name for own in infer(table, given) if not own.is_obvious] == ["when"]
