"""Arrow tables loaded into databases, independently of deciban."""

import datetime
import math
import sqlite3

import pyarrow as pa

TYPES = {  # Arrow's → SQLite's, PostgreSQL's
    pa.string(): ("TEXT", "text"),
    pa.float64(): ("REAL", "float8"),
    pa.float32(): ("REAL", "float4"),
    pa.int64(): ("INTEGER", "int8"),
    pa.bool_(): ("BOOLEAN", "boolean"),
    pa.date32(): ("DATE", "date"),
    pa.timestamp("us"): ("TIMESTAMP", "timestamp"),
}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def create(table, name, place):
    columns = ", ".join(f"{quoted(field.name)} {TYPES[field.type][place]}" for field in table.schema)
    return f"CREATE TABLE {quoted(name)} ({columns})"


def in_sqlite(table, name="rows", path=":memory:"):
    """A connection to a database that has the table."""
    connection = sqlite3.connect(path)
    connection.execute(create(table, name, 0))
    marks = ", ".join("?" * table.num_columns)
    rows = [tuple(map(for_sqlite, row.values())) for row in table.to_pylist()]
    connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)
    connection.commit()
    return connection


def for_sqlite(value):
    return value.isoformat() if isinstance(value, datetime.date) else value


def in_duckdb(table, name="rows"):
    import duckdb

    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM given")
    connection.unregister("given")
    return connection


def in_postgresql(table, server, name="rows"):
    """A connection to the server, where the table is temporary: it is dropped with the connection."""
    connection = server.connect()
    connection.execute(create(table, name, 1).replace("CREATE", "CREATE TEMPORARY", 1))
    with connection.cursor() as cursor:
        names = ", ".join(map(quoted, table.column_names))
        with cursor.copy(f"COPY {quoted(name)} ({names}) FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    connection.commit()
    return connection


def is_missing(value):
    """NULL, or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))
