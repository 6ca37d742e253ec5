"""Engines: wherever rows are, they are added up there, and answered there.

base.py is the contract. stream.py has files, record batches and generators; sql/ has databases, dask/ and spark/ have
clusters. dispatch.py finds the one that rows belong to; learn.py adds up and answers on any of them.
"""
