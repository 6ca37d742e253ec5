"""Compiled loops. Each works on one block of rows without the GIL; engines run blocks in threads and add.

Every function here has a plain NumPy definition that the tests hold it to.
"""
