"""Engines: wherever rows are, they are added up there, and answered there.

local.py has arrays in memory, in threads. base.py is the contract of all others, one file each: stream.py (files,
record batches, generators), duckdb.py, sql.py, dask.py and spark.py. choosing.py finds the one that rows belong to.
"""
