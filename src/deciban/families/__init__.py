"""Families: one file each. `FAMILIES` has all of them by name.

A file of this folder that is not among `HELPERS` is a family, and its class has the file's name: `waiting_time.py` has
`WaitingTime`. A model needs one or two of them, so each is imported on first use.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deciban.families.base import Family

if TYPE_CHECKING:  # for type checkers, which do not list folders; others are Any to them
    from deciban.families.bernoulli import Bernoulli as Bernoulli
    from deciban.families.categorical import Categorical as Categorical
    from deciban.families.complement import Complement as Complement
    from deciban.families.gaussian import Gaussian as Gaussian
    from deciban.families.multinomial import Multinomial as Multinomial
    from deciban.families.multivariate_gaussian import MultivariateGaussian as MultivariateGaussian
    from deciban.families.poisson import Poisson as Poisson
    from deciban.families.tree import Tree as Tree

HELPERS = frozenset({"base", "chow_liu", "covariance", "linear", "roots"})  # files that serve several families

_CLASSES = {  # the name of a family, which is that of its file, and of its class
    file.name: file.name.title().replace("_", "") for file in pkgutil.iter_modules(__path__) if file.name not in HELPERS
}

__all__ = ["FAMILIES", "Family", *_CLASSES.values()]  # noqa: PLE0604 - strings, of files that are there


class Families(Mapping[str, type[Family]]):
    """Every family by its name.

    >>> from deciban.families import FAMILIES
    >>> FAMILIES["multivariate_gaussian"].__name__, "covariance" in FAMILIES
    ('MultivariateGaussian', False)
    """

    def __getitem__(self, name: str) -> type[Family]:
        called = _CLASSES[name]
        family: type[Family] = getattr(importlib.import_module(f"deciban.families.{name}"), called)
        return family

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __len__(self) -> int:
        return len(_CLASSES)


FAMILIES = Families()


def __getattr__(name: str) -> Any:
    for family, called in _CLASSES.items():
        if called == name:
            return FAMILIES[family]
    raise AttributeError(f"module 'deciban.families' has no attribute {name!r}")
