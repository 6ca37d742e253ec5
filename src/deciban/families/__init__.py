"""Families: one file each. `FAMILIES` is every family there is, by name."""

from __future__ import annotations

from deciban.families.base import Family
from deciban.families.bernoulli import Bernoulli
from deciban.families.categorical import Categorical
from deciban.families.complement import Complement
from deciban.families.gaussian import Gaussian
from deciban.families.multinomial import Multinomial
from deciban.families.multivariate_gaussian import MultivariateGaussian
from deciban.families.poisson import Poisson
from deciban.families.tree import Tree

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (Bernoulli, Categorical, Complement, Gaussian, Multinomial, MultivariateGaussian, Poisson, Tree)
}

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Categorical",
    "Complement",
    "Family",
    "Gaussian",
    "Multinomial",
    "MultivariateGaussian",
    "Poisson",
    "Tree",
]
