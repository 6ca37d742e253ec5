from deciban._typing import Array, Floats

def strange(values: Array) -> bool: ...
def csr_fault(indices: Array, indptr: Array, columns: int) -> int: ...
def label_range(y: Array) -> tuple[int, int]: ...
def label_codes(y: Array, low: int, seen: Array, out: Array) -> int: ...
def class_weights(y: Array, weight: Floats | None, out: Floats) -> None: ...
def code_counts(X: Array, y: Array, weight: Floats | None, offset: Array, counts: Floats) -> None: ...
def code_counts_soft(X: Array, labels: Floats, offset: Array, counts: Floats) -> None: ...
def csr_sums(
    data: Array,
    indices: Array,
    indptr: Array,
    y: Array,
    weight: Floats | None,
    x: Floats,
    square: bool,
    binary: bool = False,
    threshold: float = 0.0,
) -> None: ...
def csc_sums(
    data: Array,
    indices: Array,
    indptr: Array,
    y: Array,
    weight: Floats | None,
    x: Floats,
    square: bool,
    binary: bool = False,
    threshold: float = 0.0,
) -> None: ...
