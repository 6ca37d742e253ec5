from deciban._typing import Array, Floats

def class_scatter(
    X: Array,
    codes: Array,
    weight: Floats | None,
    pivot: Floats,
    one: Floats,
    x: Floats,
    xy: Floats,
) -> None: ...
def soft_scatter(X: Array, shares: Floats, pivot: Floats, one: Floats, x: Floats, xy: Floats) -> None: ...
def log_density(
    X: Array,
    mean: Floats,
    root: Floats,
    constant: Floats,
    scale: Floats | None,
    power: Floats | None,
    out: Floats,
) -> None: ...
def project(X: Array, mean: Floats, basis: Floats, out: Floats) -> None: ...
def leave_one_out(
    X: Array,
    y: Array,
    weight: Floats | None,
    n: Floats,
    mean: Floats,
    basis: Floats,
    spread: Floats,
    tie: float,
    sphere: float,
    unbiased: bool,
    student: bool,
    out: Floats,
    slow: Array,
) -> None: ...
