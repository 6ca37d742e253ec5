"""Texts and mail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from deciban._typing import Floats
from deciban.readers.base import Reader
from deciban.reading.labels import Labels
from deciban.text.documents import Texts


@dataclass(frozen=True, slots=True)
class TextReader(Reader):
    """Documents of any type. To explain, a single string is one text."""

    lower: bool = True

    form: ClassVar[str] = "texts"
    sparse: ClassVar[bool] = False
    strings: ClassVar[bool] = True

    def texts(self, X: Any) -> Texts:
        return X if isinstance(X, Texts) else Texts.of(X, self.lower)

    def learn(self, X: Any, known: Any, labels: Labels, weight: Floats | None) -> Texts:
        del known, labels, weight
        return self.texts(X)

    def score(self, X: Any, model: Any) -> Texts:
        del model
        return self.texts(X)

    def native(self, rows: list[str], model: Any) -> list[str]:
        del model
        return rows

    def kinds(self, names: tuple[str, ...], model: Any) -> None:
        """No database splits texts into words as we do."""
        del names, model


@dataclass(frozen=True, slots=True)
class MailReader(TextReader):
    """Mails: raw messages, `email` messages, paths of message files, or what `deciban.text.mail` reads."""

    headers: tuple[str, ...] | None = None

    def texts(self, X: Any) -> Texts:
        if isinstance(X, Texts):
            return X
        from deciban.text import mail

        read, headers = mail.read, self.headers
        mails = (one if isinstance(one, mail.Mail) else read(one, headers) for one in self.opened(X))
        return Texts([one.text for one in mails], self.lower)

    def opened(self, mails: Any) -> Iterator[Any]:
        """The mails of a mailbox, a list, a column, or a single one."""
        from email.message import Message  # importing it takes longer than scoring a text

        from deciban.text import mail

        if isinstance(mails, os.PathLike):
            return mail.read_mailbox(mails, self.headers)
        if isinstance(mails, str | bytes | Message | mail.Mail):
            return iter([mails])
        return iter(mails.to_pylist() if hasattr(mails, "to_pylist") else mails)  # a column of Arrow
