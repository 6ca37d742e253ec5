"""How an example's content is stored: plain, encrypted, or not at all."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any

from deciban.errors import DecibanError
from deciban.server.store.base import StoredExample

FORMS = ("plain", "encrypted", "none")


class ContentGoneError(DecibanError):
    """The content of an example is not stored, or cannot be decrypted."""


def canonical(value: Any) -> str:
    """Canonical JSON: equal values give equal strings."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, repr=False)
class ContentKeeper:
    """Writes content in one form, and reads any form that it has the key for."""

    form: str
    secret: bytes  # of the store, for digests
    cipher: Any = None  # Fernet's

    @classmethod
    def of(cls, form: str, secret: str, key_file: str | None) -> ContentKeeper:
        if form not in FORMS:
            raise DecibanError("--content is {value!r}: it must be one of {forms}", value=form, forms=", ".join(FORMS))
        if form == "encrypted" and key_file is None:
            raise DecibanError("--content encrypted needs --key-file, a file that `deciban token key` writes")
        return cls(form, bytes.fromhex(secret), None if key_file is None else cipher_of(key_file))

    def digest(self, label: Any, content: Any) -> str:
        """A keyed hash of an example: it shows only whether another example is the same."""
        return hmac.new(self.secret, canonical([label, content]).encode(), hashlib.sha256).hexdigest()

    def kept(self, id_: str, label: Any, content: Any, seq: int, now: float) -> StoredExample:
        data = None if self.form == "none" else canonical(content).encode()
        if data is not None and self.form == "encrypted":
            data = self.cipher.encrypt(data)
        return StoredExample(id_, canonical(label), self.form, data, self.digest(label, content), seq, now)

    def content(self, example: StoredExample) -> Any:
        """The content that was learned."""
        if example.content is None:
            raise ContentGoneError(
                "the content of example {value!r} is not stored: send it with the request", value=example.id
            )
        if example.form == "plain":
            return json.loads(example.content)
        if self.cipher is None:
            raise ContentGoneError("example {value!r} is encrypted: start the server with --key-file", value=example.id)
        from cryptography.fernet import InvalidToken

        try:
            return json.loads(self.cipher.decrypt(example.content))
        except InvalidToken:
            raise ContentGoneError(
                "example {value!r} was encrypted with a different key than the one in --key-file", value=example.id
            ) from None


def cipher_of(key_file: str) -> Any:
    fernet = fernet_class()
    with open(key_file, "rb") as file:
        key = file.read().strip()
    try:
        return fernet(key)
    except ValueError:
        raise DecibanError(
            "{file!r} does not contain a key: create one with `deciban token key`", file=key_file
        ) from None


def fernet_class() -> Any:
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise DecibanError("encrypted content needs the package cryptography: pip install cryptography") from None
    return Fernet
