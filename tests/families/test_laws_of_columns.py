"""Families as laws of table columns."""

from __future__ import annotations

import pytest

from deciban import NaiveBayes
from deciban.errors import DecibanError
from deciban.families import FAMILIES, Complement, Gaussian, Tree
from deciban.families.covariance import ALIASES, SHAPES

TABLE = {"a": [1.0, 2.0, 3.0, 5.0], "b": [9.0, 4.0, 4.0, 1.0], "y": ["u", "v", "u", "v"]}


def blocks(law):
    return len(NaiveBayes({"a": law, "b": law}).fit(TABLE, "y").model_.joint.blocks)


def test_columns_of_one_law_are_one_block_unless_one_depends_on_the_other():
    assert blocks("gaussian") == blocks("geometric") == blocks(Gaussian(smoothing=0.0)) == 1
    assert blocks(Gaussian(smoothing=0.1)) == 2  # a variance is raised by a share of the largest
    assert blocks(Gaussian(smoothing=0.0, guess_mean=(0.0,))) == 2  # a guess for each column of the block
    assert blocks(Gaussian(smoothing=0.0, guess_variance=(1.0,))) == 2


def test_words_are_those_that_families_have():
    words = {word for family in FAMILIES.values() for word in family.by_name()}
    assert words == {"gaussian", "categorical", "bernoulli", "poisson", "geometric", "multinomial", *ALIASES, *SHAPES}
    for family in (Tree(), Complement()):
        with pytest.raises(DecibanError, match="mixed table"):
            NaiveBayes({"a": family}).fit(TABLE, "y")


def test_what_columns_hold():
    held = {name: family.values for name, family in FAMILIES.items()}
    assert held == {
        "bernoulli": "truths",
        "categorical": "categories",
        "complement": "counts",
        "gaussian": "numbers",
        "geometric": "counts",
        "multinomial": "counts",
        "multivariate_gaussian": "numbers",
        "poisson": "counts",
        "tree": "categories",
    }
