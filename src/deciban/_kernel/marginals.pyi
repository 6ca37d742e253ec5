from deciban._typing import Array, Floats

WIDTH: int

def forms(
    X: Floats,
    rows: Array,
    start: Array,
    there: Array,
    mean: Floats,
    sigma: Floats,
    precision: Floats,
    whole: Floats,
    q: Floats,
    log_det: Floats,
) -> None: ...
