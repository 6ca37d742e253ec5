"""Files to learn from, and models that have learned them, made once for all tests of commands."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest

from deciban.cli.run import run

from .customers import people, write_people
from .shell import InProcess


@dataclass(frozen=True)
class Shop:
    """A folder with two files and a model of each: messages, and a table of customers with gaps."""

    folder: Path

    @property
    def messages(self) -> Path:
        return self.folder / "messages.csv"

    @property
    def spam(self) -> Path:
        return self.folder / "spam.deciban"

    @property
    def customers(self) -> Path:
        return self.folder / "customers.csv"

    @property
    def churn(self) -> Path:
        return self.folder / "churn.deciban"


@pytest.fixture(scope="session")
def shop(tmp_path_factory) -> Shop:
    made = Shop(tmp_path_factory.mktemp("shop"))
    source = resources.files("deciban").joinpath("demo/messages.csv")
    made.messages.write_bytes(source.read_bytes())
    write_people(people(200), made.customers)
    with contextlib.chdir(made.folder):
        assert run(["train", "messages.csv", "--target", "label", "-o", "spam.deciban"]) == 0
        assert run(["train", "customers.csv", "--target", "leaves", "-o", "churn.deciban"]) == 0
    return made


@pytest.fixture
def inside(capsys, tmp_path) -> InProcess:
    """Commands run in this process, in an empty folder."""
    return InProcess(capsys, tmp_path)
