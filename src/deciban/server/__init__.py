"""`deciban serve`: models that classify, explain, learn and forget over HTTP, and lose nothing.

A model is a value that is swapped whole, so readers never wait; and a sum, so what was learned since a snapshot is
added to it after a crash, and what other servers learned is added as sums. The packages that this needs (Starlette,
uvicorn) are imported here alone.
"""
