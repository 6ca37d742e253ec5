from deciban._typing import Array, Codes, Floats

def class_sums(
    indptr: Array, indices: Codes, y: Codes, amount: Floats, v: int, k: int, ptr: Array, cls: Codes, val: Floats
) -> int: ...
def combine(
    a_ptr: Array,
    a_cls: Codes,
    a_val: Floats,
    b_ptr: Array,
    b_cls: Codes,
    b_val: Floats,
    b_row: Codes,
    sign: float,
    residue: float,
    ptr: Array,
    cls: Codes,
    val: Floats,
) -> tuple[int, int]: ...
def tables(
    ptr: Array,
    cls: Codes,
    val: Floats,
    share: Floats,
    strength: Floats,
    lift: Floats,
    known: Floats,
    total: Floats,
    dense_row: Codes,
    dense: Floats,
    first: int,
    last: int,
) -> None: ...
def evidence(
    indptr: Array,
    indices: Codes,
    damp: Floats,
    own: Codes,
    taken: Floats,
    ptr: Array,
    cls: Codes,
    val: Floats,
    lift: Floats,
    known: Floats,
    total: Floats,
    dense_row: Codes,
    dense: Floats,
    share: Floats,
    share_left: Floats,
    entropy: Floats,
    strength: Floats,
    knots: Floats,
    least: float,
    most: float,
    out: Floats,
    first: int,
    last: int,
) -> None: ...
