"""Settings from a file, the environment and options; later ones override earlier ones."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from deciban.errors import DecibanError, did_you_mean, similar, warn
from deciban.server.store import without_secret
from deciban.server.store.content import FORMS

ENVIRONMENT = "DECIBAN_"
VARIABLES = tuple(ENVIRONMENT + name for name in ("IMAP_PASSWORD", "TOKEN", "TRACEBACK", "URL"))  # of other commands
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
LEVELS = ("debug", "info", "warning", "error")
MAX_PORT = 65_535
LOOPBACK_NAMES = ("localhost",)
MILTER = re.compile(r"(127(\.\d{1,3}){3}|localhost|\[::1\]):\d{1,5}|unix:.+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """All settings, by their names in a file; in the environment they are in capitals, with the prefix DECIBAN_."""

    models: Mapping[str, str] = field(default_factory=dict)  # name → model file
    store: str = "deciban.sqlite"
    host: str = "127.0.0.1"
    port: int = 8470
    socket: str | None = None
    milter: str | None = None  # where mail servers connect: ADDRESS:PORT of loopback, or unix:PATH
    milter_model: str | None = None
    page: bool = True  # whether to serve the page
    auth: bool = True  # False: no tokens; only on loopback or a socket
    allowed_hosts: tuple[str, ...] = ()  # allowed Host headers, besides those of loopback
    tls_certificate: str | None = None
    tls_key: str | None = None
    content: str = "plain"  # or "encrypted" or "none"
    key_file: str | None = None
    keep_examples: int = 0  # forget the oldest beyond this number; 0: no limit
    keep_days: float = 0.0  # forget those older than this; 0: no limit
    max_body: int = 10_000_000  # bytes
    max_examples: int = 1000  # of a request
    max_waiting: int = 10_000  # changes
    rate: float = 0.0  # requests per second and caller; 0: no limit
    teach_rate: float = 0.0  # examples learned, corrected or forgotten per second and caller; 0: no limit
    timeout: float = 30.0  # seconds
    recent: int = 1000  # decisions kept in memory
    recent_content: bool = True  # whether their content is
    quality_window: int = 10_000  # examples
    snapshot_seconds: float = 60.0
    threads: int = 2  # that answer
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name in self.models:
            if not MODEL_NAME.fullmatch(name):
                raise DecibanError(
                    "{value!r} cannot be the name of a model: use letters, digits, '.', '_' and '-', as in NAME=PATH",
                    value=name,
                )
        if self.content not in FORMS:
            raise DecibanError(
                "content is {value!r}: it must be one of {forms}", value=self.content, forms=", ".join(FORMS)
            )
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise DecibanError("{name} is {value}: it must be above 0", name=name, value=getattr(self, name))
        for name in NOT_NEGATIVE:
            if not getattr(self, name) >= 0:
                raise DecibanError("{name} is {value}: it must not be negative", name=name, value=getattr(self, name))
        if self.port > MAX_PORT:
            raise DecibanError("port is {value}: it must be at most {most}", value=self.port, most=MAX_PORT)
        if not self.store:
            raise DecibanError("store is empty: give the path of an SQLite file, or postgresql://…")
        if self.log_level not in LEVELS:
            raise DecibanError(
                "log_level is {value!r}: it must be one of {levels}", value=self.log_level, levels=", ".join(LEVELS)
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise DecibanError("tls_certificate and tls_key belong together: give both or neither")
        if self.milter is not None and not is_milter(self.milter):
            raise DecibanError(
                "milter is {value!r}: it must be 127.0.0.1:PORT or unix:PATH, since it knows no tokens",
                value=self.milter,
            )
        if self.content == "none" and (self.keep_examples or self.keep_days):
            raise DecibanError(
                "keep_examples and keep_days forget the oldest examples, which needs their content: content must not "
                "be 'none'"
            )
        if not self.auth and not self.local:
            raise DecibanError(
                "without tokens the server listens only on loopback or a socket, and {value!r} is neither: make a "
                "token with `deciban token create`, and leave out --no-auth",
                value=self.host,
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return self.socket is not None or is_loopback(self.host)

    def shown(self) -> dict[str, Any]:
        """The settings without secrets, for `--show-config`."""
        return asdict(self) | {"store": without_secret(self.store), "models": dict(self.models)}


POSITIVE = ("max_body", "max_examples", "max_waiting", "timeout", "snapshot_seconds", "threads", "quality_window")
NOT_NEGATIVE = ("keep_examples", "keep_days", "rate", "teach_rate", "recent", "port")
TYPES = {one.name: one.type for one in fields(ServerSettings)}


def is_milter(address: str) -> bool:
    return MILTER.fullmatch(address) is not None and (
        address.startswith("unix:") or int(address.rpartition(":")[2]) <= MAX_PORT
    )


def is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def settings_of(file: str | None, environment: Mapping[str, str], options: Mapping[str, Any]) -> ServerSettings:
    """The settings from the file, then the environment, then options that were given (are not None)."""
    values: dict[str, Any] = {}
    file = file or environment.get(ENVIRONMENT + "CONFIG")
    if file is not None:
        values |= of_file(file)
    values |= of_environment(environment)
    values |= {name: value for name, value in options.items() if value is not None}
    return replace(ServerSettings(), **values)


def of_file(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        try:
            document = tomllib.load(file)
        except ValueError as error:  # also if it is not UTF-8
            raise DecibanError("{file!r} is not TOML: {why}", file=path, why=str(error)) from None
    return {name: checked(name, value, f"{path!r}") for name, value in document.items()}


def of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    names = {ENVIRONMENT + name.upper(): name for name in TYPES}
    for key in environment:
        if key.startswith(ENVIRONMENT) and key not in (*names, ENVIRONMENT + "CONFIG", *VARIABLES):
            check_unknown(key)
    given = {names[key]: value for key, value in environment.items() if key in names}
    return {name: checked(name, parsed(name, value), ENVIRONMENT + name.upper()) for name, value in given.items()}


def check_unknown(variable: str) -> None:
    """Refuses the misspelt name of a setting; a variable that is not similar to any may be another program's."""
    known = [name.upper() for name in (*TYPES, "config")]
    if close := similar(variable.removeprefix(ENVIRONMENT), known):  # the prefix would make all of them similar
        raise DecibanError(
            "{value} is not a setting: did you mean {names}?",
            value=variable,
            names=" or ".join(ENVIRONMENT + name for name in close),
        )
    warn(f"{variable} is not a setting: it is ignored; `deciban serve --show-config` lists all settings")


def parsed(name: str, value: str) -> Any:
    """A value of the environment: a list is written with commas, models as NAME=PATH."""
    kind = TYPES[name]
    try:
        if kind == "bool":
            return BOOLEANS[value.lower()]
        if kind in ("int", "float"):
            return int(value) if kind == "int" else float(value)
    except (KeyError, ValueError):
        raise DecibanError(
            "{name} is {value!r}: it must be of type {kind}", name=ENVIRONMENT + name.upper(), value=value, kind=kind
        ) from None
    if name == "models":
        return models_of([part for part in value.split(os.pathsep) if part])
    return tuple(part.strip() for part in value.split(",") if part.strip()) if name == "allowed_hosts" else value


def models_of(given: list[str]) -> dict[str, str]:
    """Model files by name: NAME=PATH, or a PATH whose file name is the name."""
    out: dict[str, str] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not equals or not MODEL_NAME.fullmatch(name):
            path = one
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(one).removesuffix(".deciban")).lstrip("._-")[:64]
        if name in out:
            raise DecibanError(
                "two models are called {value!r}: give one another name, as in other={path}", value=name, path=path
            )
        out[name] = path
    return out


def checked(name: str, value: Any, where: str) -> Any:
    """A value of a file or the environment, of the right type."""
    if name not in TYPES:
        raise DecibanError(
            "{where} sets {value!r}, which is not a setting: {hint}",
            where=where,
            value=name,
            hint=did_you_mean(name, TYPES, "`deciban serve --show-config` lists all settings"),
        )
    kind = str(TYPES[name])
    if name == "models":
        if not isinstance(value, dict) or not all(isinstance(path, str) for path in value.values()):
            raise DecibanError("models in {where} must be a table: name = path", where=where)
        return value
    if name == "allowed_hosts":
        if isinstance(value, tuple | list) and all(isinstance(host, str) for host in value):
            return tuple(value)
        raise DecibanError("allowed_hosts in {where} must be a list of names", where=where)
    accepted: Any = {"int": int, "float": (int, float), "bool": bool}.get(kind, str)
    if not isinstance(value, accepted) or (kind != "bool" and isinstance(value, bool)):
        raise DecibanError(
            "{name} in {where} is {value!r}: it must be of type {kind}",
            name=name,
            where=where,
            value=value,
            kind=kind.removesuffix(" | None"),
        )
    return float(value) if kind == "float" else value
