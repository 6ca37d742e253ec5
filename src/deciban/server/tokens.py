"""Tokens: who may read, teach and administer. The store keeps only their hashes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass

from deciban.errors import DecibanError
from deciban.server.problems import RequestError
from deciban.server.store.base import Store, StoredToken

SCOPES = ("read", "teach", "admin")  # each includes those before it
PREFIX = "deciban_"  # so that secret scanners recognise one
TOKEN_BYTES = 32
REFRESH_SECONDS = 2.0  # until a revoked token is refused
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and what it may do."""

    name: str
    scopes: frozenset[str]

    def require(self, scope: str) -> None:
        if scope not in self.scopes:
            raise RequestError(
                "the token {value!r} does not have the scope {scope!r}",
                status=403,
                code="forbidden",
                value=self.name,
                scope=scope,
            )


EVERYTHING = Caller("local", frozenset(SCOPES))  # if tokens are not required
NOBODY = Caller("", frozenset())


def make_token(store: Store, name: str, scope: str) -> str:
    """A new token, which is shown once."""
    if scope not in SCOPES:
        raise DecibanError("--scope is {value!r}: it must be one of {scopes}", value=scope, scopes=", ".join(SCOPES))
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        raise DecibanError("a token's name must have 1 to {most} printable characters", most=MAX_NAME_CHARACTERS)
    secret = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    scopes = SCOPES[: SCOPES.index(scope) + 1]
    store.put_token(StoredToken(name, hashed(secret), scopes, time.time(), None))
    return secret


def hashed(secret: str) -> str:
    """256 random bits cannot be guessed, so a plain hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


class TokenTable:
    """The tokens of a store, reread every few seconds."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock, self._read = threading.Lock(), -REFRESH_SECONDS
        self._tokens: dict[str, StoredToken] | None = None

    def caller(self, secret: str) -> Caller | None:
        """The caller with this token, as last read; None if it is unknown or revoked."""
        mine = hashed(secret)
        token = (self._tokens or {}).get(mine)
        if token is None or token.revoked is not None or not hmac.compare_digest(token.hash, mine):
            return None
        return Caller(token.name, frozenset(token.scopes))

    @property
    def fresh(self) -> bool:
        """Whether the tokens need not be reread."""
        return self.known and time.monotonic() - self._read < REFRESH_SECONDS

    @property
    def known(self) -> bool:
        """Whether they were ever read."""
        return self._tokens is not None

    def refresh(self) -> None:
        """Read the tokens, unless another thread has just done so."""
        with self._lock:
            if not self.fresh:
                self._tokens = {token.hash: token for token in self.store.tokens()}
                self._read = time.monotonic()

    def retry_later(self) -> None:
        """Use those that are known for as long as if they had been reread."""
        self._read = time.monotonic()
