from deciban._typing import Array, Codes, Floats

def fit(
    x: Floats,
    y: Codes,
    share: Floats,
    log_prior: Floats,
    doubt: Floats,
    start: Floats,
    tie: float,
    r: Floats,
    b: Floats,
    steps: int,
    tolerance: float,
    rows: int,
    least: float,
) -> float: ...
def curvature(
    x: Floats,
    y: Codes,
    share: Floats,
    log_prior: Floats,
    doubt: Floats,
    tie: float,
    r: Floats,
    b: Floats,
    at: Array,
    out: Floats,
) -> None: ...
def spread(evidence: Floats, square: Floats, centre: Floats) -> None: ...
def arrange(evidence: Floats, spread: Floats, out: Floats) -> None: ...
