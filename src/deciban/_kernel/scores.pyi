from deciban._typing import Array, Codes, Floats

PANEL_SHAPE: tuple[int, int]

def code_scores(X: Array, offset: Array, table: Floats, start: Floats, out: Floats) -> None: ...
def code_own(X: Array, y: Array, offset: Array, table: Floats, out: Floats) -> None: ...
def csr_own_logs(
    data: Array,
    indices: Array,
    indptr: Array,
    y: Array,
    weight: Floats | None,
    counts: Floats,
    prior: Floats,
    once: Floats,
    residue: float,
    out: Floats,
) -> None: ...
def csr_dot(
    data: Array,
    indices: Array,
    indptr: Array,
    table: Floats,
    start: Floats,
    out: Floats,
    binary: bool = False,
    threshold: float = 0.0,
) -> None: ...
def dense_dot(
    X: Array,
    panels: Floats,
    start: Floats,
    out: Floats,
    centre: Floats | None = None,
    binary: bool = False,
    threshold: float = 0.0,
) -> bool: ...
def code_evidence_without(
    X: Codes,
    y: Codes,
    taken: Floats,
    offset: Array,
    counts: Floats,
    back: Floats,
    own: Floats,
    strength: Floats,
    total: Floats,
    faint: float,
    weights: Floats,
    place: Array,
    out: Floats,
    each: Floats,
) -> None: ...
def cosines(angles: Floats, phase: Floats, factor: float) -> None: ...
def limit(evidence: Floats, most: float, out: Floats) -> None: ...
def losses(evidence: Floats, log_prior: Floats, y: Codes, out: Floats) -> None: ...
def limited_losses(
    evidence: Floats, scales: Floats, most: float, log_prior: Floats, y: Codes, weight: Floats | None, out: Floats
) -> None: ...
def smoothing_losses(
    counts: Floats,
    smooth: Floats,
    rest: Floats,
    kept: Floats,
    strength: Floats,
    log_prior: Floats,
    taken: float,
    out: Floats,
) -> None: ...
