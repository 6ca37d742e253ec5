"""Names for the types that travel through the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.int32]
Matrix: TypeAlias = Any  # one block's rows: a dense array, or a SciPy sparse matrix
Data: TypeAlias = Sequence[Matrix]  # one matrix per block, all with the same rows
Labels: TypeAlias = Array  # hard: int32 class codes (−1 unknown); soft: (n, k) weights
Sums: TypeAlias = Mapping[str, Floats]  # a block's statistics: measure name → array with a leading class axis
Categories: TypeAlias = Sequence[Any]  # a column's values: a range of codes, a tuple of labels, or Bins of numbers
