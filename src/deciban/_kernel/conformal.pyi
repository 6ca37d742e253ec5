from deciban._typing import Array, Codes, Floats

WIDTH: int

def at_least(
    tiles: Floats,
    owner: Codes,
    gaps: Array,
    weight: Floats,
    base: Floats,
    moved: Floats,
    new: Floats,
    sums: Floats,
    everything: Floats,
    more: Floats,
    all_more: Floats,
    unit: Floats,
    smoothing: float,
    kappa: float,
    prior: Floats,
    limit: Floats,
    by_class: bool,
    counts: Floats,
) -> None: ...
def tied_at_least(
    along: Floats,
    products: Floats,
    near: Floats,
    length: Floats,
    squares: Floats,
    offsets: Floats,
    codes: Codes,
    weight: Floats | None,
    rows: Floats,
    total: float,
    power: float,
    least: float,
    prior: Floats,
    limit: Floats,
    by_class: bool,
    counts: Floats,
) -> None: ...
