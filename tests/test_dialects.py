"""Names and texts in every database's quotes; statements do not depend on the order of sets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deciban.dialects import DIALECTS, FORMULA_DIALECTS, dialect_of
from deciban.errors import DecibanError

sqlglot = pytest.importorskip("sqlglot")

HOSTILE = "a\"b`c]d;--x'\n/*\\\r{}"
READ = {"postgresql": "postgres", "mssql": "tsql"}  # what sqlglot calls them


@pytest.mark.parametrize("name", DIALECTS)
def test_a_name_is_read_as_what_it_is(name):
    statement = f"SELECT {DIALECTS[name].identifier(HOSTILE)} FROM t"
    (column,) = sqlglot.parse_one(statement, read=READ.get(name, name)).find_all(sqlglot.exp.Column)
    assert column.name == HOSTILE
    with pytest.raises(DecibanError, match="name of a table"):
        DIALECTS[name].identifier("a\0b")


@pytest.mark.parametrize("name", DIALECTS)
def test_a_text_is_read_as_what_it_is_or_is_not_written(name):
    for text in ("it's", "''", 'say "x"\n', "雪"):
        quoted = DIALECTS[name].text(text)
        assert sqlglot.parse_one(f"SELECT {quoted}", read=READ.get(name, name)).find(sqlglot.exp.Literal).this == text
    assert DIALECTS[name].text("\ud800") is None
    assert (DIALECTS[name].text("back\\slash") is None) == (name not in FORMULA_DIALECTS)


def test_a_database_has_several_names():
    assert dialect_of("postgres") is DIALECTS["postgresql"]
    assert dialect_of("sqlite3") is dialect_of("sqlite")
    assert dialect_of("mariadb").name == "mysql"
    assert dialect_of("tsql").name == "mssql"
    with pytest.raises(DecibanError, match="dialect is 'oracle': it must be one of 'duckdb', 'postgresql', 'sqlite', "):
        dialect_of("oracle")


def test_the_first_rows_are_asked_for_in_every_dialect():
    assert dialect_of("mssql").limited("a FROM t", 3) == "SELECT TOP 3 a FROM t"
    assert dialect_of("duckdb").limited("a FROM t", 3) == "SELECT a FROM t LIMIT 3"


STATEMENT = """
from deciban import BernoulliNB
X = [[1, 0, 1, 0, 1, 1], [0, 0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0], [1, 1, 0, 0, 1, 0]]
print(BernoulliNB().fit(X, ["u", "v", "u", "v", "w"]).to_sql())
"""


@pytest.mark.slow
def test_a_statement_is_the_same_every_time(thorough, capsys):
    """In processes with different hash seeds; this process's is unknown."""
    exec(STATEMENT, {})
    statements = {capsys.readouterr().out} | {
        subprocess.run(
            [sys.executable, "-c", STATEMENT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (("1",), ("0", "1", "2"))[thorough]
    }
    assert len(statements) == 1
