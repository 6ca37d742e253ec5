"""Engines: data in files, databases and clusters is summed and scored where it is.

base.py is the contract. stream.py has files, record batches and generators; sql/ has databases, dask/ and spark/ have
clusters. dispatch.py chooses the engine for given rows; learn.py learns and predicts on any of them.
"""
