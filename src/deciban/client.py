"""A client for `deciban serve` that needs only Python's standard library.

>>> client = Client("http://127.0.0.1:8470", token="deciban_…")  # or unix:/run/deciban/socket
>>> client.predict("Win a free phone now")["label"]                     # doctest: +SKIP
'spam'
>>> client.learn("Win a free phone now", "spam", id="message-17")       # doctest: +SKIP
{'id': 'message-17', 'status': 'learned', 'label': 'spam'}
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import os
import socket
import ssl
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from deciban.errors import DecibanError, EngineError

UNIX = "unix:"
TRIES = 2  # of a request whose connection the server has closed

Content = str | bytes | Mapping[str, Any]


class ServerError(EngineError):
    """The server refused a request, or cannot be reached: `status` is the HTTP status (0: not reached), `code` the
    server's.

    >>> try:
    ...     Client("http://127.0.0.1:9", timeout=1).predict("win cash")  # nobody is listening there
    ... except ServerError as error:
    ...     print(error.status, error.code)
    0 unreachable
    """

    status: int = 0
    code: str = "unreachable"


class Client:
    """A server's models, to classify, explain, teach and forget.

    An example is a text (str), a raw message (bytes) or a row of a table (a mapping). For one example
    the result is one; for a list it is a list. Learning is safe to repeat with the same id.

    Parameters
    ----------
    url : str
        http://HOST:PORT, https://…, or unix:PATH for a socket. By default the environment variable
        DECIBAN_URL, or port 8470 on this machine.
    token : str, optional
        By default the environment variable DECIBAN_TOKEN.
    model : str, optional
        The name of the model; can be left out if the server has only one.
    timeout : float, default=30
        Seconds to wait for a response.

    >>> client = Client("http://127.0.0.1:8470", model="spam")  # connects at the first request
    >>> client.url, client.timeout
    ('http://127.0.0.1:8470', 30.0)
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, model: str | None = None, timeout: float = 30.0
    ) -> None:
        self.url = url or os.environ.get("DECIBAN_URL", "http://127.0.0.1:8470")
        self._token = os.environ.get("DECIBAN_TOKEN") if token is None else token
        self._model, self.timeout = model, timeout
        self._idle: list[http.client.HTTPConnection] = []  # connections that no thread is using
        parts = urlsplit(self.url)
        if not self.url.startswith(UNIX) and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise DecibanError(
                "{value!r} is not the address of a server: give http://HOST:PORT or unix:PATH", value=self.url
            )

    # ------------------------------------------------------------------ answers

    def predict(self, examples: Content | Sequence[Content], *, id: str | None = None) -> Any:  # noqa: A002 - the API's name
        """Classify examples: {"id", "label", "probability", "probabilities"}."""
        return self._ask("predict", "predictions", examples, id=id)

    def explain(
        self, examples: Content | Sequence[Content], target: Any = None, against: Any = None, most: int = 50
    ) -> Any:
        """Explain predictions, in decibans: {"target", "against", "prior", "evidence", "total", "probability"}."""
        options = {"target": target, "against": against, "most": most}
        given = {name: value for name, value in options.items() if value is not None}
        return self._ask("explain", "explanations", examples, given)

    def evaluate(self, examples: Sequence[Content], labels: Sequence[Any]) -> dict[str, Any]:
        """Evaluate the model on labelled examples, without learning them."""
        labels = as_many(labels, examples, "labels")
        body = {"examples": [{**content_of(one), "label": y} for one, y in zip(examples, labels, strict=True)]}
        return self._json("POST", self._path("evaluate"), body)

    # ------------------------------------------------------------------ changes

    def learn(
        self,
        examples: Content | Sequence[Content] | None,
        label: Any,
        *,
        id: Any = None,  # noqa: A002 - the API's name
        new_class: bool = False,
    ) -> Any:
        """Learn an example, or several with a list of labels: once this returns, it is in the store and in the model.

        A recently classified example can be learned by its id alone: learn(None, "spam", id=…).
        """
        return self._ask("learn", "results", examples, {"new_class": True} if new_class else {}, label=label, id=id)

    def correct(self, id: Any, label: Any, example: Content | Sequence[Content] | None = None) -> Any:  # noqa: A002 - the API's name
        """Change the label of a learned example; pass the example too if the server does not store content.

        Several are given as lists of ids, labels and examples.
        """
        return self._ask("correct", "results", example, label=label, id=id)

    def forget(self, id: str | None = None, example: Content | None = None, label: Any = None) -> Any:  # noqa: A002 - the API's name
        """Forget an example by its id; or one that the model learned before it was served, by its content and label."""
        return self._ask("forget", "results", example, label=label, id=id)

    # ------------------------------------------------------------------ models

    @property
    def model(self) -> str:
        """The name of the model."""
        if self._model is None:
            names = [one["name"] for one in self.models()]
            if len(names) != 1:
                raise DecibanError("the server has several models, {names}: pass model=", names=", ".join(names))
            self._model = names[0]
        return self._model

    def models(self) -> list[dict[str, Any]]:
        return list(self._json("GET", "/v1/models")["models"])

    def describe(self) -> dict[str, Any]:
        return self._json("GET", self._path())

    def quality(self) -> dict[str, Any]:
        """The model's quality over time, and alarms."""
        return self._json("GET", self._path("quality"))

    def importance(self, most: int = 50) -> dict[str, Any]:
        """What decides: the evidence of columns or words on average, as computed when the model was trained."""
        return self._json("GET", f"{self._path('importance')}?{urlencode({'most': most})}")

    def evidence(self, most: int = 20) -> list[dict[str, Any]]:
        """The strongest evidence for each class."""
        return list(self._json("GET", f"{self._path('evidence')}?{urlencode({'most': most})}")["evidence"])

    def recent(self, most: int = 50, order: str = "newest", untaught: bool = False) -> list[dict[str, Any]]:
        """Recent decisions; with order="unsure", the most useful ones to label come first."""
        query = urlencode({"most": most, "order": order, "untaught": str(untaught).lower()})
        return list(self._json("GET", f"{self._path('recent')}?{query}")["decisions"])

    def decision(self, id: str) -> dict[str, Any]:  # noqa: A002 - the API's name
        """A recent decision, with its whole content."""
        return dict(self._json("GET", f"{self._path('recent')}/{quote(id, safe='')}")["decision"])

    def read(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """The examples in a file of CSV, JSON lines, mail or text, as the server reads them for this model.

        "examples" are as requests have them; "more" is true if the file has more of them than a request may have.
        """
        with open(path, "rb") as file:
            data = file.read()
        return self._json("POST", f"{self._path('read')}?{urlencode({'name': os.path.basename(path)})}", data)

    def log(self, after: int = -1, most: int = 100) -> list[dict[str, Any]]:
        """The audit log."""
        return list(self._json("GET", f"{self._path('log')}?{urlencode({'after': after, 'most': most})}")["log"])

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, which `deciban.load` reads."""
        _, data = self._request("GET", self._path("file"))
        with open(path, "wb") as file:
            file.write(data)

    def upload(self, path: str | os.PathLike[str], examples: str | None = None) -> dict[str, Any]:
        """Replace the model with a model file.

        If the server has examples, pass examples="contained" if the file has learned them (as an exported one has), or
        examples="learn" if it must learn them.
        """
        with open(path, "rb") as file:
            data = file.read()
        query = "" if examples is None else f"?{urlencode({'examples': examples})}"
        return self._json("PUT", self._path("file") + query, data)

    def play(self, points: Sequence[Sequence[float | None]], **settings: Any) -> dict[str, Any]:
        """A Gaussian model of points [x, y, class] on a plane, as the page shows it; the server keeps nothing.

        Settings are those of the API: model, classes, prior, alpha, components, steps, seed, leave_one_out, view.
        """
        return self._json("POST", "/v1/play", {"points": [list(point) for point in points], **settings})

    def ready(self) -> bool:
        """Whether the server is ready: it answers and can write."""
        try:
            return self._request("GET", "/readyz", refused=False)[0] == http.client.OK
        except ServerError:
            return False

    # ------------------------------------------------------------------ requests

    def _path(self, what: str = "") -> str:
        return f"/v1/models/{quote(self.model, safe='')}" + (f"/{what}" if what else "")

    def _ask(
        self,
        what: str,
        answer: str,
        examples: Any,
        options: Mapping[str, Any] | None = None,
        *,
        label: Any = None,
        id: Any = None,  # noqa: A002 - the API's name
    ) -> Any:
        """One example as a request and its response, or several."""
        options = dict(options or {})
        per_example = {"new_class": options.pop("new_class")} if "new_class" in options else {}
        if examples is None or isinstance(examples, str | bytes | Mapping):
            named = {"id": id_for(what, id)} | ({} if label is None else {"label": plain(label)})
            named = {name: value for name, value in named.items() if value is not None}
            body = {**({} if examples is None else content_of(examples)), **named, **per_example, **options}
            return self._json("POST", self._path(what), body)[answer][0]
        if not hasattr(examples, "__len__"):
            content_of(examples)  # raises for what is no example
        labels = [None] * len(examples) if label is None else as_many(label, examples, "labels")
        ids = [id_for(what, one) for one in ([None] * len(examples) if id is None else as_many(id, examples, "ids"))]
        several = [
            content_of(one) | {k: v for k, v in (("id", i), ("label", y)) if v is not None} | per_example
            for one, y, i in zip(examples, labels, ids, strict=True)
        ]
        return self._json("POST", self._path(what), {"examples": several, **options})[answer]

    def _json(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        _, data = self._request(method, path, body)
        return dict(json.loads(data))

    def _request(self, method: str, path: str, body: Any = None, *, refused: bool = True) -> tuple[int, bytes]:
        """The status and the body of an answer; a ServerError for an error."""
        headers = {} if self._token is None else {"authorization": f"Bearer {self._token}"}
        if isinstance(body, bytes):
            data: bytes | None = body
            headers["content-type"] = "application/octet-stream"
        else:
            data = None if body is None else json.dumps(body, allow_nan=False).encode()
            headers |= {} if body is None else {"content-type": "application/json"}
        status, answer = self._answer(method, path, data, headers)
        if refused and status >= http.client.BAD_REQUEST:
            raise refusal(status, answer)
        return status, answer

    def _answer(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        for attempt in range(1, TRIES + 1):
            kept = bool(self._idle)
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                kept, connection = False, self._connected()
            try:
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if kept and attempt < TRIES and not isinstance(error, TimeoutError):
                    continue  # the server had closed it; every request is safe to repeat
                raise ServerError(
                    "the server at {file} does not answer ({why})",
                    file=self.url,
                    why=str(error) or type(error).__name__,
                ) from None
            self._idle.append(connection)
            return response.status, answer
        raise AssertionError  # the last try returns or raises

    def _connected(self) -> http.client.HTTPConnection:
        if self.url.startswith(UNIX):
            return UnixConnection(self.url.removeprefix(UNIX), timeout=self.timeout)
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=self.timeout, context=context)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=self.timeout)

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"  # without the token


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self.path)
        except OSError:
            self.sock.close()
            raise


def id_for(what: str, id_: str | None) -> str | None:
    """The id of an example; one is generated for a change, so that it is safe to repeat."""
    return uuid.uuid4().hex if id_ is None and what in ("learn", "forget") else id_


def content_of(example: Content) -> dict[str, Any]:
    """An example in the form of a request."""
    if isinstance(example, str):
        return {"text": example}
    if isinstance(example, bytes):
        return {"message_base64": base64.b64encode(example).decode()}
    if isinstance(example, Mapping):
        return {"row": {name: sent(name, value) for name, value in example.items()}}
    raise DecibanError(
        "an example is a text, a message (bytes) or a row (a mapping), not a {kind}", kind=type(example).__name__
    )


def as_many(given: Any, examples: Sequence[Content], what: str) -> list[Any]:
    """The labels or ids of several examples."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DecibanError("several examples need a list of {what}, one for each", what=what)
    values = [plain(one) for one in given]
    if len(values) != len(examples):
        raise DecibanError(
            "there are {examples} examples, but {given} {what}", examples=len(examples), given=len(values), what=what
        )
    return values


def sent(column: str, value: Any) -> Any:
    """A value of a row as JSON has it: NaN is a missing value."""
    value = plain(value)
    if isinstance(value, float) and math.isinf(value):
        raise DecibanError("column {column!r} is infinite: send None for a missing value", column=column)
    return None if isinstance(value, float) and math.isnan(value) else value


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def refusal(status: int, answer: bytes) -> ServerError:
    """The server's error, with its fields."""
    try:
        given = json.loads(answer)["error"]
        fields = {name: given[name] for name in ("row", "column", "value") if name in given}
        error = ServerError("{text}", text=given["message"], **fields)
        error.code = str(given["code"])
    except (ValueError, LookupError, TypeError):
        error = ServerError("the server answered with status {status}", status=status)
        error.code = "http"
    error.status = status
    return error
