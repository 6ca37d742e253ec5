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
    axes: Floats | None,
    triangular: bool,
    by: Floats,
    shared: Floats,
    own_share: float,
    residue: float,
    taken: Floats,
    grown: Floats,
    count: Floats,
    whole: Floats,
    own_count: Floats,
    own_whole: Floats,
    q: Floats,
    log_det: Floats,
) -> None: ...
def densities(q: Floats, log_det: Floats, tails: float, dimension: float, constant: float, out: Floats) -> None: ...
def by_class(
    log_density: Floats,
    log_share: Floats,
    owner: Codes,
    own: Codes | None,
    own_share: Floats | None,
    shift: Floats | None,
    out: Floats,
) -> None: ...
