from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from deciban._typing import Codes, Floats

Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]

def recode(codes: Bytes, maps: Bytes, out: Bytes) -> None: ...
def pair_information(
    codes: Bytes, levels: Codes, y: Codes, weight: Floats | None, k: int, with_class: Floats, between: Floats
) -> None: ...
def count(codes: Bytes, parents: Codes, y: Codes, weight: Floats | None, k: int) -> tuple[Places, Keys, Floats]: ...

class Contexts:
    def __init__(self, ptr: Places, keys: Keys, counts: Floats, parents: Codes, levels: Codes, k: int) -> None: ...
    def without(self, ptr: Places, keys: Keys, counts: Floats, residue: float) -> Contexts: ...
    def score(
        self,
        codes: Bytes,
        depth: int,
        strength: float,
        out: Floats,
        own: Codes | None = None,
        weight: Floats | None = None,
    ) -> None: ...
    def score_each(
        self,
        codes: Bytes,
        depths: Codes,
        strengths: Floats,
        out: Floats,
        own: Codes | None = None,
        weight: Floats | None = None,
    ) -> None: ...
    def terms(self, codes: Bytes, depth: int, strength: float, out: Floats) -> None: ...
    def sample(self, order: Codes, y: Codes, depth: int, strength: float, uniforms: Floats, out: Bytes) -> None: ...
