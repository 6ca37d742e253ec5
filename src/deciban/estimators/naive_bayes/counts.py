"""What the models of counted features share: one sum per feature, read off dense or sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from deciban._typing import Floats, Matrix
from deciban.estimators.naive_bayes.discrete import DiscreteClassifier
from deciban.reading.labels import Labels
from deciban.schema import Columns


class CountClassifier(DiscreteClassifier):
    """A feature is a number of times something happened."""

    def _learn_rows(
        self, X: Any, columns: Columns | None, labels: Labels, weight: Floats | None
    ) -> tuple[Matrix, Columns]:
        self._check_finite_positive(X)
        return super()._learn_rows(X, columns, labels, weight)

    def _rows(self, X: Any, columns: Columns) -> Matrix:
        del columns
        self._check_finite_positive(X)
        return X.tocsr() if sp.issparse(X) and X.format != "csr" else X

    @property
    def feature_count_(self) -> Floats:
        """How often each feature was counted in each class, (k, d)."""
        check_is_fitted(self)
        return np.array(self.model_.stats.sums[0]["x"])
