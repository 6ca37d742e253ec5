from deciban._typing import Array, Codes, Floats

def class_sums(
    indptr: Array, indices: Codes, y: Codes, amount: Floats, v: int, k: int, ptr: Array, cls: Codes, val: Floats
) -> int: ...
def combine(
    a_ptr: Array,
    a_cls: Codes,
    a_val: Floats,
    b_ptr: Array,
    b_cls: Codes,
    b_val: Floats,
    b_row: Codes,
    sign: float,
    residue: float,
    ptr: Array,
    cls: Codes,
    val: Floats,
) -> tuple[int, int]: ...
def tables(
    ptr: Array,
    cls: Codes,
    val: Floats,
    pseudo: Floats,
    strength: Floats,
    lift: Floats,
    known: Floats,
    total: Floats,
    dense_row: Codes,
    dense: Floats,
    first: int,
    last: int,
) -> None: ...
def evidence(
    indptr: Array,
    indices: Codes,
    damp: Floats,
    own: Codes,
    taken: Floats,
    ptr: Array,
    cls: Codes,
    val: Floats,
    lift: Floats,
    known: Floats,
    total: Floats,
    dense_row: Codes,
    dense: Floats,
    pseudo: Floats,
    pseudo_left: Floats,
    entropy: Floats,
    group: Codes,
    factor: Floats,
    strength: Floats,
    knots: Floats,
    least: float,
    most: float,
    out: Floats,
    first: int,
    last: int,
    wanted: Codes | None = None,
    column: Codes | None = None,
) -> None: ...

class ItemScale:
    def __init__(
        self,
        pseudo: Floats,
        group: Codes,
        factor: Floats,
        strength: Floats,
        knots: Floats,
        weights: Floats,
        entropy: float,
        least: float,
        most: float,
    ) -> None: ...
    @property
    def says_nothing(self) -> bool: ...
    def records(
        self, ptr: Array, cls: Codes, val: Floats, column: Codes, slopes: Floats | None
    ) -> tuple[Codes, Codes, Codes, Floats]: ...
    def fill(
        self,
        ptr: Array,
        cls: Codes,
        val: Floats,
        column: Codes,
        slopes: Floats | None,
        which: Codes,
        place: Codes,
        room: Floats,
        first: int,
        last: int,
    ) -> None: ...
    def terms(self, ptr: Array, cls: Codes, val: Floats, damp: float, target: int, against: int) -> Floats: ...
    def answer(
        self,
        indptr: Array,
        indices: Codes,
        damp: Floats,
        x: Floats,
        column: Codes,
        slopes: Floats | None,
        out: Floats,
        there: Array,
        ptr: Array,
        cls: Codes,
        val: Floats,
    ) -> None: ...
    def answer_by_records(
        self,
        indptr: Array,
        indices: Codes,
        damp: Floats,
        x: Floats,
        column: Codes,
        slopes: Floats | None,
        out: Floats,
        there: Array,
        record_of: Codes,
        room: Floats,
        first: int,
        last: int,
    ) -> None: ...
