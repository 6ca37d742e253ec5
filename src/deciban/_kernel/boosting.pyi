from deciban._typing import Array, Codes, Floats

class Boosting:
    start: float
    losses: list[float]

    def __init__(
        self,
        codes: Array,
        levels: Codes,
        ordered: Array,
        y: Codes,
        weight: Floats | None,
        base: Floats,
        used: Array,
        max_leaves: int,
        max_depth: int,
        min_rows: int,
        ridge: float,
        smoothing: float,
        seed: int,
    ) -> None: ...
    def step(self, rate: float) -> None: ...
    def trees(self, rounds: int) -> tuple[Codes, Codes, Codes, Codes, Array, Array, Codes, Floats]: ...
    def refit(self, base: Floats, rates: Floats, ridges: Floats) -> Floats: ...
