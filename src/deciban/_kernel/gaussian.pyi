from typing import Any

from deciban._typing import Array, Floats

def log_density(
    X: Array,
    mean: Floats,
    precision: Floats,
    constant: Floats,
    start: Floats,
    power: Floats | None,
    out: Floats,
) -> None: ...
def leave_one_out(X: Array, y: Array, weight: Floats | None, *statistics: Any) -> None: ...
