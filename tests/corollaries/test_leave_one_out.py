"""What the figures of rows left out are compared with."""

from __future__ import annotations

import numpy as np
import pytest

from deciban.corollaries.leave_one_out import class_frequencies


def test_the_class_frequencies_are_those_without_the_row():
    """By hand: of 3 rows of a and 2 of b, one of a has 2 of 4 others beside it, and one of b 1 of 4."""
    assert class_frequencies(np.array([3.0, 2.0])) == pytest.approx(((3 * np.log(2) + 2 * np.log(4)) / 5, 3 / 5))


def test_rows_alone_in_their_class_do_not_count():
    loss, accuracy = class_frequencies(np.array([40.0, *[1.0] * 20, 0.0]))
    assert accuracy == 1.0
    assert loss == pytest.approx(np.log(59 / 39))
    assert np.isnan(class_frequencies(np.ones(3))).all()


def test_weights_that_are_not_whole_are_frequencies_of_all_rows():
    assert class_frequencies(np.array([0.25, 0.25])) == pytest.approx((np.log(2), 0.5))
