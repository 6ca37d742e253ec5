"""T(x) in SQL is T(x): every measure beside its definition in NumPy, in every database that can be run here."""

import numpy as np
import pyarrow as pa
import pytest
import stored_tables
from hypothesis import given
from hypothesis import strategies as st

from deciban import score
from deciban.algebra import Stats
from deciban.dialects import DIALECTS, dialect_of
from deciban.engines.base import Question
from deciban.engines.sql.engine import table as table_of
from deciban.engines.sql.push_down import Pivots, PushDown, SumStatements, shared_pivot
from deciban.errors import DecibanError, SchemaError
from deciban.export.joints import formula_of_joint
from deciban.export.sql import to_sql
from deciban.families import Bernoulli, Categorical, Gaussian, Multinomial, MultivariateGaussian, Poisson, Tree
from deciban.formula import ColumnReading
from deciban.joint import Block, Joint, Model
from deciban.schema import Bins, Columns, Schema

sqlglot = pytest.importorskip("sqlglot")

EVERYWHERE = [
    pytest.param("duckdb", marks=pytest.mark.engine("duckdb")),
    pytest.param("sqlite", marks=pytest.mark.engine("sqlite")),
    pytest.param("postgresql", marks=pytest.mark.engine("postgresql")),
]
CLOSE = 1e-9  # of each sum: a thousand rows of doubles, added in another order, agree to about 1e-13


@pytest.fixture(params=EVERYWHERE)
def stored(request):
    """A function that puts a table into a database and gives its rows there."""
    opened = []

    def store(table, name="rows"):
        if request.param == "postgresql":
            connection = stored_tables.in_postgresql(table, request.getfixturevalue("postgres"), name)
        else:
            put = stored_tables.in_sqlite if request.param == "sqlite" else stored_tables.in_duckdb
            connection = put(table, name)
        opened.append(connection)
        return table_of(connection, name)

    yield store
    for connection in opened:
        connection.close()


# ---------------------------------------------------------------------- the definition


def question_about(table, families, names, *, kinds=None, categories=None, parents=None, weight=None, classes=None):
    """A question about some columns, one family per block; pivots and categories are those of the first rows."""
    labels = table["y"].to_pylist()
    classes = sorted({y for y in labels if y is not None}) if classes is None else classes
    blocks = []
    for b, (family, own) in enumerate(zip(families, names, strict=True)):
        known = None if categories is None else categories[b]
        pivot = None
        if family.pivoted:
            pivot = np.array([[first(table, y, name) for name in own] for y in classes])
        blocks.append(Columns(len(own), tuple(own), known, pivot, None if parents is None else parents[b]))
    joint = Joint(tuple(Block(family) for family in families))
    kinds = kinds or {name: kind_of(table[name].type) for own in names for name in own}
    return Question(joint, Schema(np.array(classes), tuple(blocks)), kinds, "y", weight)


def kind_of(kind):
    return "number" if pa.types.is_floating(kind) else "boolean" if pa.types.is_boolean(kind) else "category"


def first(table, y, name):
    """Some value of a class, for a pivot."""
    rows = zip(table["y"].to_pylist(), table[name].to_pylist(), strict=True)
    return float(next((v for label, v in rows if label == y and v is not None and np.isfinite(v)), 0.0))


def by_definition(table, question, pushed):
    """The same sums by `measure.of`, in the schema of `pushed`, and how many rows do not count."""
    labels = table["y"].to_pylist()
    data = [matrix(table, columns) for columns in pushed.schema.blocks]
    gaps = np.zeros(table.num_rows, dtype=bool)
    for block, X in zip(question.joint.blocks, data, strict=True):
        if block.family.whole_rows:
            gaps |= np.isnan(X).any(axis=1)
    weight = np.ones(table.num_rows)
    if question.weight is not None:
        weight = table[question.weight].to_numpy()
    own = np.array([list(pushed.classes).index(y) if y is not None else -1 for y in labels], dtype=int)
    k = len(pushed.classes)
    sums = []
    for block, columns, X in zip(question.joint.blocks, pushed.schema.blocks, data, strict=True):
        pivot = columns.pivot if columns.pivot is not None else np.zeros((k, columns.size))
        assert "" not in [value for known in columns.categories or () for value in known]
        sums.append({})
        for measure in block.family.measures(columns):
            by_class = []
            for c in range(k):
                rows = np.flatnonzero((own == c) & ~gaps)
                each = measure.of(X[rows], pivot[c])
                by_class.append(np.tensordot(weight[rows], each, axes=1))
            sums[-1][measure.name] = np.array(by_class).reshape(k, *measure.shapes(columns)[-1])
    counted = (own >= 0) & ~gaps
    n = np.bincount(own[counted], weights=weight[counted], minlength=k)
    return Stats(pushed.schema, n, tuple(sums)), int((own < 0).sum()), int(((own >= 0) & gaps).sum())


def matrix(table, columns):
    """A block's rows: numbers with NaN where they are missing, or codes of categories, −1 where they are."""
    out = np.empty((table.num_rows, columns.size))
    for j, name in enumerate(columns.names):
        values = table[name].to_pylist()
        known = None if columns.categories is None else columns.categories[j]
        if known is None or isinstance(known, Bins):
            numbers = np.array([np.nan if v is None else float(v) for v in values], dtype=float)
            out[:, j] = numbers if known is None else known.codes(numbers)
        else:
            place = {value: code for code, value in enumerate(known)}
            out[:, j] = [-1 if stored_tables.is_missing(v) else place.get(v, -1) for v in values]
    return out


def check(rows, table, question):
    """The database's sums equal those of the definition: counts exactly, sums to rounding."""
    pushed = rows.pushed(question)
    assert pushed is not None
    expected, unlabelled, incomplete = by_definition(table, question, pushed.stats)
    assert (pushed.unlabelled, pushed.incomplete) == (unlabelled, incomplete)
    assert sorted({y for y in table["y"].to_pylist() if y is not None}) == pushed.stats.classes.tolist()
    if question.weight is None:
        assert np.array_equal(pushed.stats.weight, expected.weight)
    np.testing.assert_allclose(pushed.stats.weight, expected.weight, rtol=CLOSE)
    for mine, theirs in zip(pushed.stats.sums, expected.sums, strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            if name in ("one", "is", "pair") and question.weight is None:
                assert np.array_equal(np.broadcast_to(mine[name], theirs[name].shape), theirs[name]), name
            scale = np.abs(theirs[name]).max(initial=1.0)
            np.testing.assert_allclose(mine[name] + 0 * theirs[name], theirs[name], rtol=CLOSE, atol=CLOSE * scale)
    return pushed


def mixed(n=400, seed=0, gone=0.1):
    """Numbers, categories and booleans with NULL and NaN, a rare class, and some rows without a label."""
    rng = np.random.default_rng(seed)

    def holes(values, nan=False):
        lost = rng.random(n) < gone
        out = [None if hole else value for hole, value in zip(lost, values, strict=True)]
        return [float("nan") if nan and rng.random() < gone else value for value in out]

    return pa.table(
        {
            "y": pa.array(
                holes([["ham", "spam", "Spam", "rare"][i] for i in rng.choice(4, n, p=[0.5, 0.3, 0.18, 0.02])])
            ),
            "x0": pa.array(holes(rng.normal(size=n).tolist(), nan=True)),
            "x1": pa.array(holes((1e9 + rng.normal(size=n)).tolist())),
            "n": pa.array(holes(rng.poisson(2.0, n).astype(float).tolist())),
            "c0": pa.array(holes([["red", "Red", "blue", "", "o'hare"][i] for i in rng.integers(5, size=n)])),
            "c1": pa.array(holes(rng.choice([True, False], n).tolist())),
            "c2": pa.array(holes([["x", "y"][i] for i in rng.integers(2, size=n)])),
            "w": pa.array(rng.random(n).tolist()),
        }
    )


# ---------------------------------------------------------------------- every measure


@pytest.mark.parametrize(
    ("family", "names"),
    [
        (Gaussian(), ("x0", "x1")),
        (Poisson(), ("n",)),
        (Multinomial(), ("n",)),
        (Bernoulli(threshold=0.5), ("x0", "n")),
        (Bernoulli(threshold=None), ("n",)),
        (MultivariateGaussian("full"), ("x0", "x1", "n")),
        (MultivariateGaussian("diag"), ("x0", "x1")),
        (MultivariateGaussian("full", sphere="auto"), ("x0", "n")),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("weight", [None, "w"])
def test_sums_of_numbers_are_those_of_the_definition(stored, family, names, weight):
    table = mixed()
    check(stored(table), table, question_about(table, [family], [names], weight=weight))


@pytest.mark.parametrize("weight", [None, "w"])
def test_counts_of_categories_are_those_of_the_definition(stored, weight):
    table = mixed()
    known = [(("blue",), (False, True))]  # of the first rows; the others join
    question = question_about(table, [Categorical()], [("c0", "c1")], categories=known, weight=weight)
    pushed = check(stored(table), table, question)
    assert pushed.stats.schema.blocks[0].categories == (("blue", "Red", "o'hare", "red"), (False, True))
    assert weight or pushed.stats.sums[0]["is"].sum() > table.num_rows  # two columns, of which less than half is gone


@pytest.mark.parametrize("weight", [None, "w"])
def test_counts_of_pairs_are_those_of_the_definition(stored, weight):
    table = mixed()
    bins = Bins((-0.5, 0.5), (-1.0, 0.0, 1.0))
    question = question_about(
        table,
        [Tree()],
        [("c0", "c1", "c2", "x0")],
        categories=[((), (False, True), ("y",), bins)],
        parents=[(-1, 0, 1, 2)],
        weight=weight,
    )
    check(stored(table), table, question)


def test_a_mixed_table_is_one_statement(stored):
    table = mixed()
    families = [Gaussian(), Poisson(), Categorical(), Categorical(), MultivariateGaussian("full")]
    names = [("x0",), ("n",), ("c0", "c2"), ("c1",), ("x0", "x1")]
    known = [None, None, ((), ()), ((False, True),), None]
    question = question_about(table, families, names, categories=known)
    rows = stored(table)
    statements = []
    run = rows._run
    rows._run = lambda some: statements.extend(some) or run(some)
    pushed = check(rows, table, question)
    assert len(statements) == 1
    assert pushed.incomplete > 0, "the table has rows with gaps, or it tests nothing"


def test_numbers_may_be_categories_and_codes(stored):
    table = pa.table(
        {
            "y": pa.array([1, 0, None, 1, 0], pa.int64()),
            "code": pa.array([0, 3, 9, 1, None], pa.int64()),
            "size": pa.array([1.0, 2.5, 7.0, 1.0, float("nan")]),
        }
    )
    question = question_about(
        table,
        [Categorical()],
        [("code", "size")],
        categories=[(range(2), (2.5,))],
        kinds={"code": "code", "size": "number"},
    )
    pushed = stored(table).pushed(question)
    assert pushed.stats.schema.blocks[0].categories == (range(4), (2.5, 1))
    assert pushed.stats.sums[0]["is"].tolist() == [[0, 0, 0, 1, 1, 0], [1, 1, 0, 0, 0, 2]]
    assert pushed.stats.classes.tolist() == [0, 1]
    assert pushed.stats.classes.dtype.kind == "i"


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pa.array([True, False, None, True]), [False, True]),
        (pa.array([2.0, 1.0, float("nan"), 2.0]), [1, 2]),
        (pa.array([2, -1, None, 2], pa.int64()), [-1, 2]),
        (pa.array(["b", "", None, "b"]), ["", "b"]),
    ],
    ids=["booleans", "floats", "integers", "texts"],
)
def test_labels_are_what_they_are(stored, labels, classes):
    table = pa.table({"y": labels, "x": pa.array([1.0, 2.0, 3.0, 5.0])})
    question = question_about(table.set_column(0, "y", pa.array([None] * 4, pa.string())), [Gaussian()], [("x",)])
    pushed = stored(table).pushed(question)
    assert pushed.stats.classes.tolist() == classes
    assert [type(c) for c in pushed.stats.classes.tolist()] == [type(c) for c in classes]
    assert pushed.unlabelled == 1
    assert pushed.stats.weight.tolist() == [1.0, 2.0]


def test_dates_are_days(stored):
    days = pa.array([0, 18262, None, 18263], pa.int32()).cast(pa.date32())
    moments = pa.array([0, 18262 * 86_400_000_000 + 43_200_000_000, None, 0], pa.int64()).cast(pa.timestamp("us"))
    table = pa.table({"y": pa.array(["a", "a", "a", "b"]), "day": days, "at": moments})
    plain = table.set_column(1, "day", pa.array([0.0, 18262.0, None, 18263.0]))
    plain = plain.set_column(2, "at", pa.array([0.0, 18262.5, None, 0.0]))
    question = question_about(plain, [Gaussian()], [("day", "at")], kinds={"day": "date", "at": "date"})
    pushed = stored(table).pushed(question)
    expected, *_ = by_definition(plain, question, pushed.stats)
    assert pushed.stats.same_as(expected)


def test_no_rows_at_all_are_no_classes(stored):
    table = mixed(50).slice(0, 0)
    question = question_about(table, [Gaussian(), Categorical()], [("x0",), ("c0",)], categories=[None, ((),)])
    pushed = stored(table).pushed(question)
    assert len(pushed.stats.classes) == 0
    assert pushed.stats.sums[1]["is"].shape == (0, 0)
    assert (pushed.unlabelled, pushed.incomplete) == (0, 0)


def test_declared_classes_stay_and_others_are_refused(stored):
    table = pa.table({"y": pa.array(["a", "b"]), "x": pa.array([1.0, 2.0])})
    rows = stored(table)

    def asked(classes):
        question = question_about(table, [Gaussian()], [("x",)], classes=classes)
        closed = Schema(question.schema.classes, question.schema.blocks, closed=True)
        return Question(question.joint, closed, question.kinds, "y")

    pushed = rows.pushed(asked(["a", "b", "c"]))
    assert pushed.stats.classes.tolist() == ["a", "b", "c"]
    assert pushed.stats.weight.tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(SchemaError, match="'b'"):
        rows.pushed(asked(["a", "c"]))


# ---------------------------------------------------------------------- digits


@pytest.mark.parametrize("family", [Gaussian(), MultivariateGaussian("full")], ids=["gaussian", "full"])
def test_classes_far_apart_keep_their_digits(stored, family):
    """Means of 0 and ±1e9, spreads of 1: a pivot between them would leave nothing of a variance of 1 beside 1e18."""
    rng = np.random.default_rng(1)
    n = 3000
    y = rng.choice(["a", "b", "c"], n)
    far = np.select([y == "a", y == "b"], [1e9, 0.0], -1e9)
    table = pa.table({"y": y, "x0": far + rng.normal(size=n), "x1": rng.normal(size=n) - far})
    pushed = check(stored(table), table, question_about(table, [family], [("x0", "x1")]))
    for c, label in enumerate(pushed.stats.classes):
        x = table["x0"].to_numpy()[y == label]
        sums = pushed.stats.sums[0]
        squares = sums["xx"][c, 0] if "xx" in sums else sums["xy"][c, 0, 0]
        one, first_sum = pushed.stats.weight[c], sums["x"][c, 0]
        # Values at 1e9 have steps of 1.2e-7, which is what their spread can be known to.
        assert squares / one - (first_sum / one) ** 2 == pytest.approx(x.var(), rel=1e-7)


def test_a_class_that_the_sample_did_not_have_keeps_its_digits(stored):
    rng = np.random.default_rng(2)
    y = np.array(["known"] * 500 + ["new"] * 500)
    x = np.where(y == "new", 1e9, 0.0) + rng.normal(size=1000)
    table = pa.table({"y": y, "x": x})
    question = question_about(table, [Gaussian()], [("x",)], classes=["known"])
    stats = stored(table).pushed(question).stats
    one, first_sum, squares = (stats.sums[0][name][1, 0] for name in ("one", "x", "xx"))
    assert squares / one - (first_sum / one) ** 2 == pytest.approx(x[500:].var(), rel=1e-7)


def test_a_second_statement_is_only_for_classes_far_apart(stored):
    rng = np.random.default_rng(3)
    y = rng.choice(["a", "b"], 500)
    for distance, times in ((3.0, 1), (1e6, 2)):
        table = pa.table({"y": y, "x": rng.normal(size=500) + np.where(y == "a", distance, 0.0)})
        rows = stored(table, f"rows {distance}")
        statements, run = [], rows._run
        rows._run = lambda some, statements=statements, run=run: statements.append(some) or run(some)
        rows.pushed(question_about(table, [Gaussian()], [("x",)]))
        assert len(statements) == times


def test_labels_in_a_statement_mean_what_they_are(stored):
    """Pivots by class are chosen inside the statement, where labels are quoted."""
    labels = ["it's", 'say "so"', "a\\b", "50% ; -- x", "ünï\ncode", "spam"]
    rng = np.random.default_rng(4)
    y = np.repeat(labels, 50)
    x = np.repeat(np.arange(6) * 1e7, 50) + rng.normal(size=300)
    table = pa.table({"y": y, "x": x})
    check(stored(table), table, question_about(table, [Gaussian()], [("x",)]))


# ---------------------------------------------------------------------- scored where it was learned


def test_what_was_pushed_down_scores_the_same_inside_the_database(stored):
    """Sums and scores read the same columns in the same way: missing ones, true and false, texts and numbers."""
    table = mixed()
    labels = ["eggs" if y == "Spam" else y for y in table["y"].to_pylist()]  # columns of answers are told apart by name
    table = table.set_column(0, "y", pa.array(labels))
    families = [Gaussian(), Poisson(), Categorical(), Categorical()]
    names = [("x0", "x1"), ("n",), ("c0",), ("c1",)]
    known = [None, None, ((),), ((False, True),)]
    question = question_about(table, families, names, categories=known)
    rows = stored(table)
    model = Model(question.joint, rows.pushed(question).stats)
    features = tuple(name for own in names for name in own)
    formula = formula_of_joint(model, ColumnReading(features, {"c1": "boolean"}, ("",)))
    dialect = "duckdb" if rows.name == "duckdb" else rows.link.database.name
    statement = to_sql(formula, "rows", dialect, output="all", keep=("x0", "w"))
    scored = (rows.scored(statement, "rows") if dialect == "duckdb" else rows.scored(statement)).to_arrow()
    proba = score.apply([matrix(table, columns) for columns in model.schema.blocks], model, "posterior")
    place = {w: i for i, w in enumerate(table["w"].to_pylist())}  # rows of a database have no order
    order = [place[w] for w in scored["w"].to_pylist()]
    for c, label in enumerate(model.classes):
        np.testing.assert_allclose(scored[f"proba_{label}"].to_numpy(), proba[order, c], rtol=1e-8, atol=1e-12)
    assert scored["prediction"].to_pylist() == model.classes[proba[order].argmax(axis=1)].tolist()


# ---------------------------------------------------------------------- what is wrong with the data


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Bernoulli(), MultivariateGaussian("full")])
@pytest.mark.parametrize("values", [[1.0, float("inf")], [1.0, float("-inf")], [float("inf"), float("-inf")]])
def test_infinities_are_an_error_that_names_the_column(stored, family, values):
    table = pa.table({"y": ["a", "a"], "fine": [1.0, 2.0], "too 'large'": values})
    question = question_about(table, [family], [("fine", "too 'large'")])
    with pytest.raises(DecibanError, match="too 'large'"):
        stored(table).pushed(question)


def test_counts_are_never_negative(stored):
    table = pa.table({"y": ["a", "b"], "n": [1.0, -2.0]})
    rows = stored(table)
    for family in (Poisson(), Multinomial()):
        with pytest.raises(DecibanError, match="'n' of table 'rows' holds -2"):
            rows.pushed(question_about(table, [family], [("n",)]))


@pytest.mark.parametrize("bad", [None, -1.0, float("nan")])
def test_weights_are_numbers_of_zero_or_more(stored, bad):
    table = pa.table({"y": ["a", "b"], "x": [1.0, 2.0], "w": pa.array([1.0, bad])})
    with pytest.raises(DecibanError, match="weights in column 'w'"):
        stored(table).pushed(question_about(table, [Gaussian()], [("x",)], weight="w"))


def test_rows_of_no_weight_teach_no_category(stored):
    table = pa.table({"y": ["a", "a"], "c": ["seen", "not"], "w": [1.0, 0.0]})
    question = question_about(table, [Categorical()], [("c",)], categories=[((),)], weight="w")
    assert stored(table).pushed(question).stats.schema.blocks[0].categories == (("seen",),)


def test_labels_with_fractions_and_codes_below_zero_are_errors(stored):
    table = pa.table({"y": [1.0, 2.5], "c": pa.array([1, -1], pa.int64())})
    rows = stored(table)
    fine = table.set_column(0, "y", pa.array(["a", "b"]))
    with pytest.raises(DecibanError, match=r"'y' of table 'rows' holds 2\.5"):
        rows.pushed(question_about(fine, [Gaussian()], [("c",)], kinds={"c": "number"}))
    question = question_about(fine, [Categorical()], [("c",)], categories=[(range(1),)], kinds={"c": "code"})
    with pytest.raises(DecibanError, match=r"holds"):
        rows.pushed(question)


def test_a_column_that_is_not_there_is_named(stored):
    table = mixed(20)
    rows = stored(table)
    question = question_about(table, [Gaussian()], [("x0",)])
    gone = Question(question.joint, question.schema, question.kinds, "yy")
    with pytest.raises(DecibanError, match="there is no column 'yy'"):
        rows.pushed(gone)


def test_what_cannot_be_said_is_not_asked(stored):
    table = mixed(20)
    rows = stored(table)
    texts = question_about(table, [Gaussian()], [("x0",)], kinds={"x0": "number"})
    as_numbers = Columns(1, ("c0",), pivot=np.zeros((len(texts.schema.classes), 1)))
    question = Question(texts.joint, Schema(texts.schema.classes, (as_numbers,)), {"c0": "number"}, "y")
    assert "'c0'" in rows._push_down().expressible(question)
    assert rows.pushed(question) is None


# ---------------------------------------------------------------------- wide tables


@pytest.mark.slow_where(r"duckdb")
def test_more_sums_than_a_result_has_columns(stored):
    """60 columns have 1,830 products: more than PostgreSQL and SQLite give in one row."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 60))
    X[3, 7] = np.nan
    table = pa.table({"y": rng.choice(["a", "b"], 40), **{f"x{j}": X[:, j] for j in range(60)}})
    names = tuple(f"x{j}" for j in range(60))
    check(stored(table), table, question_about(table, [MultivariateGaussian("full")], [names]))


@pytest.mark.engine("sqlite")
def test_more_columns_than_sqlite_takes_selects_at_once():
    rng = np.random.default_rng(6)
    d = 450
    codes = rng.integers(3, size=(20, d))
    table = pa.table({"y": rng.choice(["a", "b"], 20), **{f"c{j}": codes[:, j].astype(str) for j in range(d)}})
    names = tuple(f"c{j}" for j in range(d))
    question = question_about(table, [Categorical()], [names], categories=[((),) * d])
    rows = table_of(stored_tables.in_sqlite(table), "rows")
    check(rows, table, question)


def test_more_columns_of_categories_than_one_select_counts_by(stored, monkeypatch):
    monkeypatch.setattr("deciban.engines.sql.push_down.MAX_GROUPING_SETS", 2)
    table = mixed(100)
    question = question_about(
        table, [Tree()], [("c0", "c1", "c2")], categories=[((), (False, True), ())], parents=[(-1, 0, 1)]
    )
    check(stored(table), table, question)


# ---------------------------------------------------------------------- any small table

cells = st.one_of(st.none(), st.just(float("nan")), st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
names = st.one_of(st.none(), st.sampled_from(["", "a", "A", "a ", "é", "'", "--", "NULL"]))
small_rows = st.lists(st.tuples(names, cells, cells, names, st.sampled_from([0.0, 0.5, 2.0])), max_size=12)


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(stored_tables.in_duckdb, marks=pytest.mark.engine("duckdb")),
        pytest.param(stored_tables.in_sqlite, marks=pytest.mark.engine("sqlite")),
    ],
)
@given(rows=small_rows, weighted=st.booleans(), whole=st.booleans())
def test_any_small_table(put, rows, weighted, whole):
    kinds = (pa.string(), pa.float64(), pa.float64(), pa.string(), pa.float64())
    columns = list(zip(*rows, strict=True)) or [()] * 5
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    table = pa.table(dict(zip(("y", "x0", "x1", "c", "w"), arrays, strict=True)))
    families = [MultivariateGaussian("full") if whole else Gaussian(), Categorical()]
    known = [None, ((),)]
    weight = "w" if weighted else None
    question = question_about(table, families, [("x0", "x1"), ("c",)], categories=known, weight=weight)
    connection = put(table)
    try:
        pushed = table_of(connection, "rows").pushed(question)
    finally:
        connection.close()
    expected, unlabelled, incomplete = by_definition(table, question, pushed.stats)
    assert (pushed.unlabelled, pushed.incomplete) == (unlabelled, incomplete)
    assert pushed.stats.same_as(expected)
    learned = {c for y, x0, x1, c, w in rows if y is not None and (w or not weighted) and not (whole and gap(x0, x1))}
    assert set(pushed.stats.schema.blocks[1].categories[0]) == learned - {None, ""}


def gap(*values):
    return any(map(stored_tables.is_missing, values))


# ---------------------------------------------------------------------- databases that are not here


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_statements_are_sql_in_every_dialect(name):
    """They can be parsed again, including hostile names."""
    database = dialect_of(name)
    hostile = "a\"b`c]d;--x'\n/*"
    table = mixed(30).rename_columns(["y", hostile, "x1", "n", "c0", "c1", "select", "w"])
    families = [Gaussian(), Bernoulli(), Tree()]
    own = [(hostile, "x1"), ("n",), ("c0", "c1", "select")]
    known = [None, None, ((), (False, True), ())]
    question = question_about(table, families, own, categories=known, parents=[None, None, (-1, 0, 1)], weight="w")
    pushed = PushDown(database, database.identifier("my table"), table.schema)
    assert pushed.expressible(question) is None
    shared = Pivots((), tuple(map(shared_pivot, question.schema.blocks)))
    own_pivots = [
        None if p is None else np.vstack([c.pivot, p])
        for c, p in zip(question.schema.blocks, shared.blocks, strict=True)
    ]
    for pivots in (shared, Pivots(tuple(question.schema.classes.tolist()), tuple(own_pivots))):
        for statement in SumStatements(pushed, question, pivots).statements():
            assert ("GROUPING SETS" in statement) == database.grouping_sets
            tree = sqlglot.parse_one(statement, read={"postgresql": "postgres", "mssql": "tsql"}.get(name, name))
            columns = {column.name for column in tree.find_all(sqlglot.exp.Column) if column.table == "t"}
            assert columns == set(table.column_names)
            tables = {node.name for node in tree.find_all(sqlglot.exp.Table)}
            assert tables == {"my table"}


def test_dates_are_not_asked_of_databases_whose_days_are_not_known():
    schema = pa.schema([("y", pa.string()), ("day", pa.date32())])
    columns = Columns(1, ("day",), pivot=np.zeros((0, 1)))
    question = Question(Joint((Block(Gaussian()),)), Schema(np.zeros(0), (columns,)), {"day": "date"}, "y")
    assert "days" in PushDown(dialect_of("snowflake"), "t", schema).expressible(question)
    assert PushDown(dialect_of("duckdb"), "t", schema).expressible(question) is None
