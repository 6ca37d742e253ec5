"""Codes and coordinates of columns: fixed functions of a row that do not use labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import rankdata
from small_tables import NAMES, random_frame, random_sample, strange_frame

from deciban._kernel import counts as kernel
from deciban.errors import DecibanError
from deciban.reading.columns import Levels, Numbers
from deciban.reading.frames import Frame, read_frame
from deciban.reading.table import TableColumns, calendar
from deciban.tables.encode import (
    MAX_BINS,
    MAX_COORDINATES,
    MAX_DEVIATIONS,
    MAX_INDICATORS,
    MIN_BINS,
    MIN_INDICATOR_SHARE,
    N_SMALL_CODES,
    ROWS_PER_BIN,
    UNSEEN,
    USUAL_BINS,
    Cuts,
    Known,
    choose_cuts,
    choose_encoding,
    choose_known,
    coarse_codes,
    first_of_bins,
    marks,
)

NUMBERS = st.lists(
    st.none() | st.integers(-3, 3).map(float) | st.floats(-1e9, 1e9, allow_nan=False, width=32),
    min_size=1,
    max_size=200,
).map(lambda values: np.array([np.nan if v is None else v for v in values]))


def real(column, coded, out=None):
    out = np.empty((len(column), coded.width)) if out is None else out
    coded.coordinates(column, coded.codes(column), out)
    return out


# ------------------------------------------------------------------ numbers


@given(NUMBERS)
def test_bins_hold_the_values_between_their_ends(values):
    column = Numbers(values)
    cuts = choose_cuts(column, "x")
    codes = cuts.codes(column)
    present = ~np.isnan(values)
    assert ((codes == 0) == ~present).all()
    assert codes.max(initial=0) < cuts.size
    assert (np.diff(cuts.cuts) > 0).all()
    assert (cuts.low <= cuts.high).all()
    assert (cuts.high[:-1] <= cuts.cuts).all()
    assert (cuts.cuts <= cuts.low[1:]).all()
    np.testing.assert_allclose(cuts.missing, 1 - present.mean(), atol=1e-15)
    if present.any():
        bins = codes[present] - 1
        assert set(bins.tolist()) == set(range(len(cuts.low))), "no bin is empty"
        np.testing.assert_allclose(np.bincount(bins) / present.sum(), cuts.mass)
        for b in range(len(cuts.low)):
            mine = values[present][bins == b]
            assert (mine.min(), mine.max()) == (cuts.low[b], cuts.high[b])
        assert cuts.whole == (values[present] == np.floor(values[present])).all()


def test_few_values_are_a_bin_each_and_many_share():
    rng = np.random.default_rng(0)
    few = choose_cuts(Numbers(rng.integers(0, USUAL_BINS, 500).astype(float)), "x")
    assert (few.low == few.high).all()
    assert few.size == USUAL_BINS + 1
    assert [len(choose_cuts(Numbers(rng.normal(size=n)), "x").low) for n in (3, 10, 40, 1000, 3600, 90_000)] == [
        3,
        MIN_BINS,
        40 // ROWS_PER_BIN,
        USUAL_BINS,
        60,
        MAX_BINS,
    ]
    many = choose_cuts(Numbers(rng.normal(size=3600)), "x")
    np.testing.assert_allclose(many.mass, 1 / 60, atol=1 / 3600)


def test_frequent_values_do_not_take_the_bins_of_the_others():
    rng = np.random.default_rng(0)
    values = rng.normal(size=3600)
    values[:3312] = 0.0  # 92 % of the rows
    cuts = choose_cuts(Numbers(values), "x")
    (at,) = np.flatnonzero((cuts.low == 0.0) & (cuts.high == 0.0))
    assert cuts.mass[at] == 0.92
    others = np.delete(cuts.mass, at) * 3600
    assert 58 <= len(others) <= 60
    assert others.max() <= 2 * 288 / 59
    assert (np.sort(others)[2:] >= 4).all()  # the frequent value cuts one bin in two


def test_many_frequent_values_between_others_leave_codes_that_fit_in_a_byte():
    # Every tenth of 1,900 values is frequent, so that each of them also ends a bin of its neighbours.
    values = np.repeat(np.arange(1900.0), np.where(np.arange(1900) % 10 == 0, 200, 2))
    cuts = choose_cuts(Numbers(values), "x")
    assert cuts.size < N_SMALL_CODES
    assert (cuts.codes(Numbers(values)) > 0).all()


def test_bins_depend_on_ranks_alone():
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    one, two = (choose_cuts(Numbers(v), "x") for v in (values, np.exp(values)))
    assert (one.codes(Numbers(values)) == two.codes(Numbers(np.exp(values)))).all()


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (1e9, 1.0), (-3.0, 1e-9), (1e12, 1e6)])
def test_coordinates_are_standard_deviations_from_the_mean(mean, scale):
    rng = np.random.default_rng(0)
    plain = rng.normal(size=500)
    column = Numbers(mean + scale * plain)
    coded = choose_cuts(column, "x")
    actual = real(column, coded)[:, 0]
    # At 1e9 a number has seven decimals: what is standardised cannot have more.
    precision = max(1e-9, 8 * np.spacing(abs(mean)) / scale)
    np.testing.assert_allclose(actual, (plain - plain.mean()) / plain.std(), atol=precision)
    far = real(Numbers(np.array([mean + 1e9 * scale, mean - 1e9 * scale])), coded)[:, 0]
    assert far.tolist() == [MAX_DEVIATIONS, -MAX_DEVIATIONS]


def test_a_missing_number_is_at_the_mean_and_has_an_indicator():
    values = np.array([1.0, 2.0, np.nan, 3.0])
    column = Numbers(values)
    coded = choose_cuts(column, "x")
    assert coded.width == 2
    out = real(column, coded)
    assert out[2, 0] == 0.0
    np.testing.assert_allclose(out[:, 1].mean(), 0, atol=1e-15)
    np.testing.assert_allclose(out[:, 1].std(), 1)
    whole = choose_cuts(Numbers(values[[0, 1, 3]]), "x")  # none was missing when this was chosen
    assert whole.width == 1
    assert real(column, whole)[2, 0] == 0.0


def test_normal_scores_are_those_of_ranks():
    """Up to N_KNOTS values they are exact; between knots they are interpolated."""
    rng = np.random.default_rng(0)
    values = np.round(rng.gamma(1.0, size=300), 1)
    coded, out = choose_cuts(Numbers(values), "x"), np.empty((300, 1))
    coded.normal_scores(values, out[:, 0])
    expected = ndtri(rankdata(values) / 301)  # tied values share the middle of their ranks
    np.testing.assert_allclose(out[:, 0], expected, atol=1e-9)
    many = rng.gamma(1.0, size=5000)
    out, coded = np.empty((5000, 1)), choose_cuts(Numbers(many), "x")
    coded.normal_scores(many, out[:, 0])
    expected = ndtri(rankdata(many) / 5001)
    middle = np.abs(expected) < 2  # a knot for every 39 rows: beyond, few knots stand for a long tail
    np.testing.assert_allclose(out[middle, 0], expected[middle], atol=0.03)
    assert np.corrcoef(out[:, 0], expected)[0, 1] > 0.999
    ends = np.empty(3)
    coded.normal_scores(np.array([-1e300, np.nan, 1e300]), ends)
    assert ends.tolist() == [coded.scores[0], 0.0, coded.scores[-1]]


def test_a_constant_and_an_empty_column():
    for values in (np.full(5, 7.0), np.full(5, np.nan), np.zeros(0)):
        column = Numbers(values)
        coded = choose_cuts(column, "x")
        assert coded.scale == 1.0
        assert np.isfinite(real(column, coded)).all()
        assert coded.codes(column).tolist() == [1 if v == 7 else 0 for v in values]


def test_numbers_too_large_to_square_are_refused_by_name():
    with pytest.raises(DecibanError, match=r"column 'mass' holds 1e\+200"):
        choose_cuts(Numbers(np.array([1.0, 1e200])), "mass")
    with pytest.raises(DecibanError, match=r"column 'mass' holds -1e\+200"):
        choose_cuts(Numbers(np.array([1.0, -1e200])), "mass")


def test_bins_have_names():
    coded = choose_cuts(Numbers(np.array([1.0, 2.0, np.nan])), "x")
    assert [coded.label(code) for code in range(3)] == ["missing", "1", "2"]
    assert choose_cuts(Numbers(np.arange(64.0)), "x").label(1) == "0 to 3"


# ------------------------------------------------------------------ categories


def test_categories_are_coded_by_how_often_they_came():
    column = Levels(np.array([2, 1, 1, -1, 2, 2], dtype=np.int32), ("never", "some", "often"))
    known = choose_known(column)
    assert known.levels == ("often", "some")
    assert known.codes(column).tolist() == [1, 2, 2, 0, 1, 1]
    other = Levels(np.array([0, 1, -1], dtype=np.int32), ("new", "often"))
    assert known.codes(other).tolist() == [-1, 1, 0]
    wider = known.with_new(other)
    assert wider.levels == ("often", "some", "new")
    assert wider.codes(other).tolist() == [3, 1, 0]
    assert known.with_new(column) is known
    assert [wider.label(code) for code in range(4)] == ["missing", "often", "some", "new"]


def test_categories_are_indicators_in_standard_deviations():
    rng = np.random.default_rng(0)
    codes = rng.choice([-1, 0, 1, 2], 400, p=[0.1, 0.5, 0.3, 0.1]).astype(np.int32)
    column = Levels(codes, ("a", "b", "c"))
    known = choose_known(column)
    out = real(column, known)
    assert out.shape == (400, 4)
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(out.std(axis=0), 1)
    for j, level in enumerate(known.indicator_levels):
        assert ((out[:, j] > 0) == (known.codes(column) == level + 1)).all()
    assert ((out[:, 3] > 0) == (codes < 0)).all()
    unseen = real(Levels(np.array([0], dtype=np.int32), ("new",)), known)
    later = real(Levels(np.array([0], dtype=np.int32), ("new",)), known.with_new(Levels(np.zeros(1, int), ("new",))))
    assert (unseen == 0).all(), "at the mean: it is no evidence"
    assert (unseen == later).all(), "what came later has no coordinate"


def test_two_categories_need_one_coordinate_and_rare_ones_do_not_dominate():
    assert choose_known(Levels(np.array([0, 1, 0, 1], dtype=np.int32), ("a", "b"))).width == 1
    once = choose_known(Levels(np.array([0, 1], dtype=np.int32), ("a", "b")))
    assert once.width == 0, "a category of one row has no coordinate"
    rare = Levels(np.array([0] * 9998 + [1] * 2, dtype=np.int32), ("a", "b"))
    coordinates = real(rare, choose_known(rare))
    assert np.abs(coordinates).max() < np.sqrt((1 - MIN_INDICATOR_SHARE) / MIN_INDICATOR_SHARE) + 1e-9


def test_coordinates_are_limited():
    many = Levels((np.arange(300) % 30).astype(np.int32), tuple(f"v{i}" for i in range(30)))
    assert choose_known(many).width == MAX_INDICATORS
    frame = Frame(tuple(f"c{j}" for j in range(40)), (many,) * 40, 300)
    encoding = choose_encoding(frame)
    assert len(encoding.owner) <= MAX_COORDINATES
    assert len(encoding.owner) >= 40
    wide = Frame(tuple(f"c{j}" for j in range(400)), (many,) * 400, 300)
    assert len(choose_encoding(wide).owner) == 0
    numbers = Frame(("x", *wide.names), (Numbers(np.arange(300.0)), *wide.columns), 300)
    rows = choose_encoding(numbers).rows(numbers)
    assert rows.real.shape == (300, 1)


# ------------------------------------------------------------------ rows


def test_rows_hold_every_column_in_its_place():
    sample = random_sample(0, 30)
    rows = sample.rows
    assert rows.codes.shape == (30, 4)
    widths = [coded.width for coded in sample.encoding.columns]
    assert np.bincount(sample.encoding.owner, minlength=4).tolist() == widths
    assert rows.real.shape == rows.scores.shape == (30, sum(widths))
    same = np.isin(sample.encoding.owner, (2, 3))
    assert (rows.real[:, same] == rows.scores[:, same]).all()
    assert sample.encoding.ordered.tolist() == [1, 1, 0, 0]
    assert np.diff(sample.encoding.offsets).tolist() == [coded.size for coded in sample.encoding.columns]
    assert ((rows.codes >= 0) & (rows.codes < np.diff(sample.encoding.offsets))).all()


@given(st.integers(0, 1000))
def test_a_row_is_read_by_itself(seed):
    """Beside any rows and in any order: statistics of parts add up to those of the whole."""
    sample = random_sample(seed, 20)
    for frame in (sample.frame, strange_frame(seed, 20)):
        whole = sample.encoding.rows(frame, marked=True)
        order = np.random.default_rng(seed).permutation(20)[:7]
        some, taken = sample.encoding.rows(frame.take(order), marked=True), whole.take(order)
        for name in ("codes", "small", "real", "scores", "mark"):
            assert (getattr(some, name) == getattr(whole, name)[order]).all(), name
            assert (getattr(taken, name) == getattr(whole, name)[order]).all(), name
        assert len(whole.take(slice(0))) == 0


def test_marks_distinguish_rows():
    rng = np.random.default_rng(0)
    codes, real_ = rng.integers(0, 3, (500, 3)).astype(np.int32), rng.normal(size=(500, 2))
    hashes = marks(codes, real_, ())
    assert len(set(hashes.tolist())) == 500
    assert abs(np.mean(hashes & np.uint64(1)) - 0.5) < 0.12  # five standard errors of a fair coin
    zero = marks(codes, np.zeros((500, 2)), ())
    assert (zero == marks(codes, -np.zeros((500, 2)), ())).all(), "-0.0 is 0.0"
    assert (marks(np.zeros((2, 0), np.int32), np.zeros((2, 0)), ()) == 0).all()
    swapped = marks(codes[:, ::-1].copy(), real_, ())
    assert (swapped != hashes).mean() > 0.5, "which column a code is in matters"


@pytest.mark.parametrize("gap", [True, False])
def test_small_codes(gap):
    codes = np.concatenate([np.arange(300), np.arange(300), [-1] * gap]).astype(np.int32)
    many = Levels(codes, tuple(f"v{i}" for i in range(300)))
    encoding = choose_encoding(Frame(("c",), (many,), len(codes)))
    later = encoding.with_new(Frame(("c",), (Levels(np.zeros(1, np.int32), ("new",)),), 1))
    asked = np.array([-1, 0, 1, 252, 253, 254, 300, 301], dtype=np.int32)
    expected = [UNSEEN, 0 if gap else UNSEEN, 1, 252, N_SMALL_CODES - 1, N_SMALL_CODES - 1, N_SMALL_CODES - 1, UNSEEN]
    assert later.small(asked[:, None])[:, 0].tolist() == expected, (
        "a missing value in a column that had none was never seen either"
    )
    assert later.small_of(0, asked).tolist() == expected
    assert later.levels.tolist() == [N_SMALL_CODES]
    assert later.columns[0].size == 302


def test_categories_of_one_row_are_treated_as_those_never_seen():
    names = ("often", "twice", "once", "too")
    column = Levels(np.array([0, 0, 0, 1, 1, 2, 3], dtype=np.int32), names)
    encoding = choose_encoding(Frame(("c",), (column,), 7))
    later = encoding.with_new(Frame(("c",), (Levels(np.zeros(1, np.int32), ("new",)),), 1))
    codes = np.array([-1, 0, 1, 2, 3, 4, 5], dtype=np.int32)
    assert later.small(codes[:, None])[:, 0].tolist() == [3, UNSEEN, 1, 2, 3, 3, 3]
    assert later.small_by_place(0).tolist() == [UNSEEN, 1, 2, 3, 3, 3, 3], "the last place is one never seen"
    assert later.levels.tolist() == [4]
    rows = later.rows(Frame(("c",), (Levels(np.array([2, 0], np.int32), ("new", "often", "once")),), 2))
    assert (rows.real[0] == rows.real[1]).all(), "nor have they another coordinate"
    assert (rows.real[0] != 0).any()


@pytest.mark.parametrize("bins", [5, 10])
def test_coarse_codes_join_neighbours(bins):
    sample = random_sample(0, 300)
    maps, levels = coarse_codes(sample.encoding, bins)
    assert maps.shape == (4, 256)
    assert levels[0] == bins + 1
    for table, coded, many in zip(maps, sample.encoding.columns, levels, strict=True):
        known = table[: coded.distinct]
        assert known[0] == 0, "missing values have a code of their own"
        assert known.max() == many - 1
        assert (table[coded.distinct :] == UNSEEN).all()
        assert (np.diff(known[1:].astype(int)) >= 0).all()
    first = sample.encoding.columns[0]
    share = np.bincount(maps[0][sample.rows.small[:, 0]][sample.rows.codes[:, 0] > 0], minlength=bins + 1)[1:]
    np.testing.assert_allclose(share / share.sum(), 1 / bins, atol=2 / len(first.low))
    many = Levels((np.arange(600) % 100).astype(np.int32), tuple(f"v{i}" for i in range(100)))
    maps, levels = coarse_codes(choose_encoding(Frame(("c",), (many,), 600)), bins)
    assert levels[0] == 61, "rare categories share the last"


def test_new_categories_are_appended():
    sample = random_sample(0)
    assert sample.encoding.with_new(sample.frame) is sample.encoding
    later = random_frame(np.random.default_rng(1), 5, 0, ("teal", "red", "plum"))
    wider = sample.encoding.with_new(later)
    assert (wider.rows(later).codes >= 0).all()
    assert (wider.rows(sample.frame).codes == sample.rows.codes).all()
    assert (wider.rows(sample.frame, marked=True).mark == sample.rows.mark).all()
    assert (sample.encoding.rows(later).codes[:, 2] < 0).any()


def test_columns_of_another_kind_are_an_error():
    with pytest.raises(TypeError, match="numbers"):
        choose_cuts(Numbers(np.zeros(2)), "x").codes(Levels(np.zeros(2, np.int32), ("a",)))
    with pytest.raises(TypeError, match="levels"):
        choose_known(Levels(np.zeros(2, np.int32), ("a",))).codes(Numbers(np.zeros(2)))
    assert isinstance(choose_cuts(Numbers(np.zeros(2)), "x"), Cuts)
    assert isinstance(choose_known(Levels(np.zeros(2, np.int32), ("a",))), Known)


# ------------------------------------------------------------------ reading


def test_a_reader_takes_the_informative_columns():
    table = {
        "id": list(range(100, 130)),
        "same": ["x"] * 30,
        "age": [20 + i % 7 for i in range(30)],
        "day": [f"2024-0{1 + i % 3}-1{i % 7}" for i in range(30)],
        "note": [f"the {i} quick brown foxes jump" for i in range(30)],
    }
    reader = TableColumns.of(read_frame(table))
    assert [kind.kind for kind in reader.kinds] == ["identifier", "constant", "count", "date", "text"]
    assert reader.names == ("age", "day", "day (month)", "day (weekday)")
    assert reader.texts == ("note",)
    frame = reader.read(table)
    assert frame.names == (*reader.names, "note")
    assert frame["day (month)"].objects()[:3].tolist() == ["Jan", "Feb", "Mar"]
    assert frame["day (weekday)"].objects()[0] == "Wed"  # the tenth of January 2024
    del table["id"], table["same"]
    assert reader.read(table).names == frame.names, "what is not used need not be there"
    del table["age"]
    with pytest.raises(DecibanError, match="column 'age' is not in this table, which has 'day', 'note'"):
        reader.read(table)


def test_an_array_is_read_by_place():
    reader = TableColumns.of(read_frame(np.array([[1.5, 2.0], [3.5, 4.0]])))
    assert reader.read(np.array([[7.5, 8.0]]))["x0"].values.tolist() == [7.5]


def test_the_calendar_knows_its_days():
    days = np.array(["1969-12-31", "1970-01-01", "2000-02-29", "NaT"], dtype="datetime64[D]")
    values = np.where(np.isnat(days), np.nan, days.astype(float))
    month, weekday = calendar(Numbers(values, dates="days"))
    assert month.objects().tolist() == ["Dec", "Jan", "Feb", None]
    assert weekday.objects().tolist() == ["Wed", "Thu", "Tue", None]


def test_names_are_those_of_the_sample():
    assert random_sample(0).encoding.names == NAMES


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([1.25, 2.5, 3.0, 4.75], 2),
        ([1.5, 2.5, np.nan], 1),
        ([3.0, 4.0, 5.0], 0),
        ([0.1 + 0.2, 0.7], None),
        ([1 / 3, 0.5], None),
        ([24537.55, 1e7 + 0.01], 2),
        ([np.nan, np.nan], 0),
    ],
)
def test_bins_know_how_many_decimals_values_have(values, decimals):
    assert choose_cuts(Numbers(np.array(values)), "x").decimals == decimals


def bins_by_hand(count, bins):
    frequent = count >= count.sum() / bins
    while True:
        rest = np.where(frequent, 0, count)
        share = rest.sum() / max(1, bins - int(frequent.sum()))
        opens = np.diff(np.floor((np.cumsum(rest) - rest / 2) / max(share, 1.0)), prepend=-1.0) > 0
        opens |= frequent
        opens[1:] |= frequent[:-1]
        if opens.sum() < N_SMALL_CODES:
            return np.flatnonzero(opens)
        frequent &= count >= 2 * count[frequent].min()


@pytest.mark.parametrize("seed", range(8))
def test_bins_are_as_even_as_frequent_values_let_them_be(seed):
    rng = np.random.default_rng(seed)
    for size, most, bins in ((5, 3, 4), (60, 9, 32), (900, 40, 200), (600, 1_000, 150)):
        count = np.where(rng.random(size) < 0.2, rng.integers(1, most, size) ** 2, rng.integers(1, 4, size))
        assert first_of_bins(count, bins).tolist() == bins_by_hand(count, bins).tolist()
    every_other = np.where(np.arange(800) % 2 == 0, 50 + seed, 1)  # frequent values split the others
    every_other[::4] = 200
    assert first_of_bins(every_other, 200).tolist() == bins_by_hand(every_other, 200).tolist()


def test_counts_that_are_none_are_refused():
    with pytest.raises(ValueError, match="count 1 is 0"):
        kernel.first_of_bins(np.array([1, 0]), 4, 254, np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="2 counts and 1 places"):
        kernel.first_of_bins(np.array([1, 1]), 4, 254, np.zeros(1, dtype=np.int64))
