"""Dask: frames, arrays and bags, on threads or on a cluster."""
