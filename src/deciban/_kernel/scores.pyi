from deciban._typing import Array, Floats

def code_scores(X: Array, offset: Array, table: Floats, unseen: Floats, out: Floats) -> None: ...
def code_own(X: Array, y: Array, offset: Array, table: Floats, out: Floats) -> None: ...
def csr_own_logs(
    data: Array,
    indices: Array,
    indptr: Array,
    y: Array,
    weight: Floats | None,
    counts: Floats,
    prior: Floats,
    once: Floats,
    residue: float,
    out: Floats,
) -> None: ...
def csr_dot(
    data: Array,
    indices: Array,
    indptr: Array,
    weights: Floats,
    out: Floats,
    binary: bool = False,
    threshold: float = 0.0,
) -> None: ...
