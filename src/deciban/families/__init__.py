"""Families: one file each. `FAMILIES` is every family there is, by name.

A model needs one or two of them, so each is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deciban.families.base import Family

if TYPE_CHECKING:
    from deciban.families.bernoulli import Bernoulli
    from deciban.families.categorical import Categorical
    from deciban.families.complement import Complement
    from deciban.families.gaussian import Gaussian
    from deciban.families.multinomial import Multinomial
    from deciban.families.multivariate_gaussian import MultivariateGaussian
    from deciban.families.poisson import Poisson
    from deciban.families.tree import Tree

_CLASSES = {
    "bernoulli": "Bernoulli",  # a family's name, which is that of its file, and its class
    "categorical": "Categorical",
    "complement": "Complement",
    "gaussian": "Gaussian",
    "multinomial": "Multinomial",
    "multivariate_gaussian": "MultivariateGaussian",
    "poisson": "Poisson",
    "tree": "Tree",
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


class Families(Mapping[str, type[Family]]):
    """Every family by its name.

    >>> from deciban.families import FAMILIES
    >>> FAMILIES["tree"].__name__, len(FAMILIES)
    ('Tree', 8)
    """

    def __getitem__(self, name: str) -> type[Family]:
        called = _CLASSES[name]
        found: type[Family] = getattr(importlib.import_module(f"deciban.families.{name}"), called)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


FAMILIES = Families()


def __getattr__(name: str) -> Any:
    for family, called in _CLASSES.items():
        if called == name:
            return FAMILIES[family]
    raise AttributeError(f"module 'deciban.families' has no attribute {name!r}")
