from deciban._typing import Array, Codes, Floats

def gather(indptr: Array, indices: Codes, column: Codes, ends: Array, at: Codes | None) -> None: ...
def sums(
    indptr: Array,
    at: Codes,
    x: Floats,
    y: Codes,
    weight: Floats,
    by_class: Floats,
    products: Floats,
    first: int,
    last: int,
) -> None: ...
def project(indptr: Array, at: Codes, x: Floats, matrix: Floats, out: Floats, first: int, last: int) -> None: ...
def square(indptr: Array, at: Codes, x: Floats, matrices: Floats, out: Floats, first: int, last: int) -> None: ...
def mirror(matrix: Floats) -> None: ...
