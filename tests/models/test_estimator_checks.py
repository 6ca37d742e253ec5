"""scikit-learn's checks of what an estimator must be."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from deciban import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB, PoissonNB


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(
    [GaussianNB(), MultinomialNB(), BernoulliNB(), CategoricalNB(), ComplementNB(), PoissonNB()],
)
def test_estimator(estimator, check):
    check(estimator)
