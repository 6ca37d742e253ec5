from deciban._typing import Array, Codes, Floats

def grow(
    codes: Array,
    levels: Codes,
    ordered: Array,
    y: Codes,
    weight: Floats | None,
    rows: Codes,
    k: int,
    tries: int,
    least: float,
    deepest: int,
    seed: int,
) -> tuple[Codes, Codes, Codes, Codes, Array, Array]: ...
def grow_forest(
    codes: Array,
    levels: Codes,
    ordered: Array,
    y: Codes,
    weight: Floats | None,
    member: Array,
    k: int,
    tries: int,
    least: float,
    deepest: int,
    seed: int,
    first_tree: int = 0,
) -> tuple[Codes, Codes, Codes, Codes, Array, Array, Codes]: ...
def check_forest(column: Codes, left: Codes, right: Codes, parent: Codes, start: Codes, d: int) -> None: ...
def leaves(
    codes: Array,
    levels: Codes,
    ordered: Array,
    column: Codes,
    left: Codes,
    right: Codes,
    cut: Array,
    mask: Array,
    start: Codes,
    out: Codes,
) -> None: ...
def members(mark: Array, seeds: Array, below: int, out: Array) -> None: ...
def node_counts(leaf: Codes, y: Codes, weight: Floats | None, parent: Codes, out: Floats) -> None: ...
def probabilities(parent: Codes, counts: Floats, prior: Floats, strength: float, out: Floats) -> None: ...
def evidence(
    leaf: Codes,
    parent: Codes,
    counts: Floats,
    prior: Floats,
    strength: float,
    member: Array | None,
    own: Codes | None,
    weight: Floats | None,
    geometric: bool,
    out: Floats,
    table: Floats | None = None,
    prior_rows: float = 0.0,
) -> None: ...
def terms(
    leaf: Codes,
    column: Codes,
    parent: Codes,
    counts: Floats,
    prior: Floats,
    strength: float,
    member: Array | None,
    out: Floats,
    rest: Floats,
) -> None: ...
def node_sums(
    codes: Array,
    levels: Codes,
    ordered: Array,
    column: Codes,
    left: Codes,
    right: Codes,
    cut: Array,
    mask: Array,
    start: Codes,
    values: Floats,
    first: int,
    last: int,
    out: Floats,
) -> None: ...
def value_terms(leaf: Codes, column: Codes, parent: Codes, values: Floats, out: Floats, rest: Floats) -> None: ...
