from deciban._typing import Array, Codes, Floats

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
def forms_without(
    X: Floats,
    means: Floats,
    own: Codes,
    mean: Floats,
    axes: Floats | None,
    by: Floats,
    shared: Floats,
    own_share: float,
    residue: float,
    taken: Floats,
    grown: Floats,
    q: Floats,
    remaining: Floats,
) -> None: ...
