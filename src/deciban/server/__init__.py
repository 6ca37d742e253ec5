"""`deciban serve`: models that classify, explain, learn and forget over HTTP, without losing an acknowledged change.

A model is a value that is replaced as a whole, so readers never wait. It is also a sum: after a crash, what was learned
since the last snapshot is added to it, and so is what other servers learned. Starlette and uvicorn are imported only
here.
"""
