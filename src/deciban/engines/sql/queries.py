"""A SELECT that a user gives: that it is one statement, and that it reads.

It is nested in other SELECTs, which databases allow only for statements that read. But text that closes the bracket
could continue with anything, so it must be a statement of its own as well. DuckDB, PostgreSQL and SQLite parse it to
decide; for other databases its semicolons and brackets are counted.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

from deciban.errors import DecibanError
from deciban.show import one_line

NAME_QUOTES = {"mysql": "`", "bigquery": "`", "sqlite": "`[", "mssql": "["}  # besides " and '
BACKSLASHED = {"mysql": "'\"", "bigquery": "'\"", "snowflake": "'"}  # quotes between which a backslash escapes
TRIPLE_QUOTED = ("bigquery",)
LINE_COMMENTS = {"mysql": r"#|--(?=\s|\Z)", "bigquery": r"#|--", "snowflake": r"//|--"}
NESTED_COMMENTS = ("postgresql", "duckdb", "mssql")
DOLLAR_QUOTE = re.compile(r"\$(?:[^\W\d]\w*)?\$")
DOLLAR_QUOTED = ("postgresql", "duckdb", "snowflake")
COMMENT_MARK = re.compile(r"/\*|\*/")


def select_text(query: str, database: str) -> str:
    """The query without semicolons at its end, so that it can be nested."""
    code, characters = list(code_characters(query, database)), list(query)
    while code and code[-1][1] == ";":
        characters[code.pop()[0]] = " "
    if not code:
        raise DecibanError("the query is empty: give a SELECT")
    if database not in CHECKS:
        check_code("".join(character for _, character in code))
    return "".join(characters).strip()


def check_code(code: str) -> None:
    """Refuse several statements, and brackets that are closed before they are opened. Strings are not in the code."""
    depth = 0
    for character in code:
        depth += (character == "(") - (character == ")")
        if depth < 0 or character == ";":
            break
    if ";" in code:
        raise DecibanError("the query has several statements, with semicolons between them: give one SELECT")
    if depth:
        raise DecibanError("the brackets of the query do not match: give one SELECT")


def code_characters(query: str, database: str) -> Iterator[tuple[int, str]]:
    """Positions and characters outside of strings, quoted names, comments and blanks."""
    line_comment = re.compile(LINE_COMMENTS.get(database, "--"))
    quotes = "'\"" + NAME_QUOTES.get(database, "")
    at = 0
    while at < len(query):
        character = query[at]
        if line_comment.match(query, at):
            at = (query.find("\n", at) + 1) or len(query)
        elif query.startswith("/*", at):
            if database == "mysql" and query.startswith("/*!", at):
                raise DecibanError("the query has a comment that MySQL runs, /*! … */: leave it out")
            at = end_of_comment(query, at, database in NESTED_COMMENTS)
        elif character in quotes:
            at = end_of_quoted(query, at, database)
        elif database in DOLLAR_QUOTED and (tag := DOLLAR_QUOTE.match(query, at)) and not ends_a_name(query[:at]):
            at = closed(query.find(tag[0], tag.end()), "a string") + len(tag[0])
        else:
            if not character.isspace():
                yield at, character
            at += 1


def end_of_comment(query: str, at: int, nested: bool) -> int:
    depth = 0
    for mark in COMMENT_MARK.finditer(query, at):
        if mark[0] == "*/":
            depth -= 1
        elif nested or not depth:
            depth += 1
        if not depth:
            return mark.end()
    return closed(-1, "a comment")


def end_of_quoted(query: str, at: int, database: str) -> int:
    """The end of a string or a quoted name. A doubled quote ends one and starts the next, which has the same effect."""
    quote = query[at]
    end = "]" if quote == "[" else 3 * quote if database in TRIPLE_QUOTED and query[at : at + 3] == 3 * quote else quote
    escaped = quote in BACKSLASHED.get(database, "") or (
        quote == "'"
        and database in ("postgresql", "duckdb")
        and re.search(r"(?<!\w)[eE]\Z", query[max(0, at - 2) : at])
    )
    at += len(end)
    while at < len(query):
        if escaped and query[at] == "\\":
            at += 2
        elif query.startswith(end, at):
            return at + len(end)
        else:
            at += 1
    return closed(-1, "a name" if quote in "`[" else "a string or a name")


def ends_a_name(before: str) -> bool:
    """Whether a $ that follows is part of a name."""
    return bool(re.search(r"[\w$]\Z", before))


def closed(end: int, what: str) -> int:
    if end < 0:
        raise DecibanError("{what} in the query is not closed: close it", what=what)
    return end


# ---------------------------------------------------------------------- the database's own parser


def check_select(cursor: Any, query: str, database: str) -> None:
    """Let the database parse the query: its error if this is not a statement, ours if it does not only read."""
    check = CHECKS.get(database)
    if check is not None:
        check(cursor, query)


def check_in_duckdb(cursor: Any, query: str) -> None:
    del cursor  # the parser is that of the package
    import duckdb  # the rows come from it, so it is installed

    kinds = [statement.type.name for statement in duckdb.extract_statements(query)]
    if kinds != ["SELECT"]:
        what = f"{len(kinds)} statements" if len(kinds) != 1 else f"a {kinds[0].replace('_', ' ')} statement"
        raise DecibanError("the query is {what}: give one SELECT", what=one_line(what))


def check_in_postgresql(cursor: Any, query: str) -> None:
    """A cursor is opened for it, and nothing fetched: PL/pgSQL takes one statement that returns rows.

    Statements that write and return rows cannot be nested, and functions that write fail in a read-only transaction.
    """
    tag = f"$deciban_{secrets.token_hex(8)}$"
    literal = "E'" + query.replace("\\", "\\\\").replace("'", "''") + "'"
    cursor.execute(f"DO {tag} DECLARE one refcursor; BEGIN OPEN one FOR EXECUTE {literal}; CLOSE one; END {tag}")


def check_in_sqlite(cursor: Any, query: str) -> None:
    """The driver takes one statement at a time, and EXPLAIN compiles it without running it."""
    cursor.execute(f"EXPLAIN {query}")
    cursor.fetchall()


CHECKS = {"duckdb": check_in_duckdb, "postgresql": check_in_postgresql, "sqlite": check_in_sqlite}
