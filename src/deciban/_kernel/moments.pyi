from deciban._typing import Array, Floats

def class_sums(
    X: Array,
    y: Array,
    weight: Floats | None,
    pivot: Floats,
    one: Floats,
    x: Floats,
    xx: Floats | None,
    missing: bool,
    binary: bool = False,
    threshold: float = 0.0,
) -> None: ...
def soft_sums(
    X: Array,
    labels: Floats,
    pivot: Floats,
    one: Floats,
    x: Floats,
    xx: Floats | None,
    missing: bool,
    binary: bool = False,
    threshold: float = 0.0,
) -> None: ...
