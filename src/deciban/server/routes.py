"""The routes, as data: method, path, scope and handler."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import deciban
from deciban.server.config import BOOLEANS
from deciban.server.examples import Example, examples_of, of_message
from deciban.server.limits import RateLimit, body_of
from deciban.server.model import Answer, ServedModel
from deciban.server.play import picture, scene_of
from deciban.server.problems import RequestError
from deciban.server.recent import ORDERS
from deciban.server.service import Service
from deciban.server.store.base import StoreError
from deciban.server.tokens import EVERYTHING, NOBODY, Caller
from deciban.server.writer import LiveModel

MAIL = "message/rfc822"
JSON = "application/json"
MODEL_FILE = ANY_FILE = "application/octet-stream"
MAX_LISTED = 1000
UPLOADS = ("contained", "learn")  # whether an uploaded model already contains the store's examples, or must learn them
MAX_MODEL_FILE = 1 << 30  # bytes, of an upload
EVIDENCE_ITEMS, MAX_EVIDENCE_ITEMS = 5, 20  # in the header of a mail
MAX_TOKEN_SECONDS = 1.0  # to wait for the tokens in the store, if earlier ones are known
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Exchange:
    """A request, with the service and the caller."""

    def __init__(self, request: Request, service: Service, caller: Caller, rates: Rates) -> None:
        self.request, self.service, self.caller, self.rates = request, service, caller, rates

    @property
    def live(self) -> LiveModel:
        return self.service.live(self.request.path_params["model"])

    def number(self, name: str, default: int, most: int = MAX_LISTED, least: int = 0) -> int:
        """A whole number from the query."""
        given = self.request.query_params.get(name)
        if given is None:
            return default
        if not re.fullmatch(r"-?\d{1,18}", given) or not least <= int(given) <= most:
            raise RequestError(
                "{name} is {value!r}: it must be a whole number from {least} to {most}",
                name=name,
                least=least,
                most=most,
                value=given,
            )
        return int(given)

    def flag(self, name: str) -> bool:
        """True or false from the query; false if it is not there."""
        given = self.request.query_params.get(name, "false")
        if given.lower() not in BOOLEANS:
            raise RequestError("{name} is {value!r}: it must be true or false", name=name, value=given)
        return BOOLEANS[given.lower()]

    def require_kind(self, *kinds: str) -> str:
        """The content type of the body, which must be one of these."""
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in kinds:
            raise RequestError(
                "the content type is {value!r}: send {kinds}",
                status=415,
                code="content_type",
                value=kind,
                kinds=" or ".join(kinds),
            )
        return kind

    async def body(self, *kinds: str) -> dict[str, Any]:
        """The request as JSON; a raw message becomes {"message": …}, with id and label from the query."""
        kind = self.require_kind(*kinds)
        settings = self.service.settings
        raw = await body_of(self.request, settings.max_body, settings.timeout)
        if kind == MAIL:
            query = self.request.query_params
            return dict(await self.service.in_thread(of_message, raw, query.get("label"), query.get("id")))
        return parsed_json(raw)

    async def examples(self, *, label: str = "never", content: str = "always") -> tuple[list[Example], dict[str, Any]]:
        body = await self.body(JSON, MAIL)
        return examples_of(body, self.service.settings.max_examples, label=label, content=content), body


def parsed_json(raw: bytes) -> dict[str, Any]:
    try:
        body = DECODER.decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        why = (
            str(error)
            if isinstance(error, json.JSONDecodeError | RequestError)
            else "it is not UTF-8, or nested too deeply"
        )
        raise RequestError("the request is not JSON: {why}", status=400, code="not_json", why=why) from None
    if not isinstance(body, dict):
        raise RequestError('the request must be a JSON object: one example, or {"examples": […]}')
    return body


def no_constant(name: str) -> None:
    raise RequestError("{value} is not a number in JSON: send null for a missing value", value=name)


# Made once: `json.loads` and `json.dumps` make new ones for every request.
DECODER = json.JSONDecoder(parse_constant=no_constant)
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JSONResponse(Response):
    """A document as JSON."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        return ENCODER.encode(content).encode()


@dataclass(frozen=True, slots=True)
class Rates:
    """Rate limits for each caller."""

    requests: RateLimit
    examples: RateLimit


Handler = Callable[[Exchange], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A route: `scope` is what a token needs, None for everyone."""

    method: str
    path: str
    scope: str | None
    handler: Handler
    summary: str

    @property
    def name(self) -> str:
        return self.handler.__name__


# ---------------------------------------------------------------------- answers


async def predict(exchange: Exchange) -> Response:
    examples, _ = await exchange.examples()
    model, answers = await exchange.service.predict(exchange.live, examples)
    return JSONResponse(predictions(exchange.live, model, examples, answers))


async def filter_mail(exchange: Exchange) -> Response:
    """The header fields that a filter adds to a message."""
    examples, body = await exchange.examples()
    if "examples" in body:
        raise RequestError('give one message, and not "examples"')
    most = exchange.number("evidence", EVIDENCE_ITEMS, most=MAX_EVIDENCE_ITEMS)
    verdict = await exchange.service.verdict(exchange.live, examples[0], most)
    return PlainTextResponse(verdict.header())


def predictions(
    live: LiveModel, model: ServedModel, examples: Sequence[Example], answers: Sequence[Answer]
) -> dict[str, Any]:
    made = [prediction(example, answer) for example, answer in zip(examples, answers, strict=True)]
    return {"model": live.name, "version": model.seq, "predictions": made}


def prediction(example: Example, answer: Answer) -> dict[str, Any]:
    return {
        "id": example.id,
        "label": answer.label,
        "probability": answer.probability,
        "probabilities": dict(zip(map(str, answer.classes), answer.probabilities.tolist(), strict=True)),
    }


async def explain(exchange: Exchange) -> Response:
    examples, body = await exchange.examples()
    live, model = exchange.live, exchange.live.current
    by, most = body.get("by", "column"), body.get("most", 50)
    if by not in ("column", "word", "item", "expert"):
        raise RequestError('"by" is {value!r}: it must be "column", "word", "item" or "expert"', value=by)
    if not isinstance(most, int) or isinstance(most, bool) or not 0 < most <= MAX_LISTED:
        raise RequestError('"most" must be a whole number from 1 to {most}', most=MAX_LISTED)
    target, against = (
        None if body.get(name) is None else model.class_of(name, body[name]) for name in ("target", "against")
    )
    if target is not None and target == against:
        raise RequestError('"target" and "against" are both {value!r}: give two classes', value=target)

    def work() -> list[dict[str, Any]]:
        contents = [example.content or {} for example in examples]
        evidence = [explained(model.explain(content, target, against, by), most) for content in contents]
        answers = map(prediction, examples, model.answers(contents))
        return [
            {"id": one["id"], "label": one["label"], "probabilities": one["probabilities"], **items}
            for one, items in zip(answers, evidence, strict=True)
        ]

    explanations = await exchange.service.in_thread(work)
    return JSONResponse({"model": live.name, "version": model.seq, "explanations": explanations})


def explained(evidence: dict[str, Any], most: int) -> dict[str, Any]:
    """An explanation with the items beyond `most` summed into one; infinities are strings, as JSON has none."""
    items = evidence["evidence"]
    rest = sum(item["decibans"] for item in items[most:])
    shown = [
        *items[:most],
        *([{"name": f"{len(items) - most} more", "value": "", "decibans": rest}] if items[most:] else []),
    ]
    return finite({**evidence, "evidence": shown})  # type: ignore[no-any-return]  # of a mapping


def finite(value: Any) -> Any:
    """A document without NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None if value != value else "infinity" if value > 0 else "-infinity"
    return value


async def evaluate(exchange: Exchange) -> Response:
    examples, _ = await exchange.examples(label="always")
    return JSONResponse(finite(await exchange.service.in_thread(exchange.service.evaluate, exchange.live, examples)))


async def read(exchange: Exchange) -> Response:
    """The examples in a file, to be sent in another request. Nothing is kept."""
    live, service = exchange.live, exchange.service
    exchange.require_kind(ANY_FILE)
    data = await body_of(exchange.request, service.settings.max_body, service.settings.timeout)
    name, most = exchange.request.query_params.get("name", ""), service.settings.max_examples
    from deciban.server.file_examples import examples_in  # it imports what reads files, which is not needed otherwise

    found = await service.in_thread(examples_in, data, name, live.current, most)
    return JSONResponse(finite({"model": live.name, **found}))


async def play(exchange: Exchange) -> Response:
    """Gaussian models of points on a plane, one request at a time: they must not delay predictions."""
    service = exchange.service
    scene = scene_of(await exchange.body(JSON))
    async with service.playing:
        return JSONResponse(finite(await service.in_thread(picture, scene)))


# ---------------------------------------------------------------------- changes


async def learn(exchange: Exchange) -> Response:
    return await changed(exchange, "learn", label="always")


async def correct(exchange: Exchange) -> Response:
    return await changed(exchange, "correct", label="always")


async def forget(exchange: Exchange) -> Response:
    return await changed(exchange, "forget", label="maybe")


async def changed(exchange: Exchange, kind: str, label: str) -> Response:
    live, service = exchange.live, exchange.service
    examples, _ = await exchange.examples(label=label, content="maybe")
    exchange.rates.examples.take(exchange.caller.name, len(examples))
    done = service.change(live, kind, examples, exchange.caller.name)
    results = await service.in_time(done, ", and may still be written: send it again with the same ids")
    return JSONResponse({"model": live.name, "version": live.current.seq, "results": results})


# ---------------------------------------------------------------------- models


async def models(exchange: Exchange) -> Response:
    service = exchange.service
    described = await service.from_store(lambda: [summary(service.describe(live)) for live in service.models.values()])
    return JSONResponse({"models": described})


def summary(description: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in description.items() if name != "columns"}


async def model(exchange: Exchange) -> Response:
    return JSONResponse(await exchange.service.from_store(exchange.service.describe, exchange.live))


async def quality(exchange: Exchange) -> Response:
    return JSONResponse(finite(await exchange.service.in_thread(exchange.service.quality, exchange.live)))


async def evidence(exchange: Exchange) -> Response:
    """The strongest evidence for each class."""
    live, most = exchange.live, exchange.number("most", 20, least=1)
    table = await exchange.service.in_thread(live.current.evidence, most)
    names = ["decibans" if name == "dB" else name for name in table]  # class, item, and rows if known
    items = [dict(zip(names, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return JSONResponse(finite({"model": live.name, "version": live.current.seq, "evidence": items}))


async def importance(exchange: Exchange) -> Response:
    """What decides: the evidence of every column or word on average, as computed when the model was trained."""
    live = exchange.live
    stored = live.current.importance
    if stored is None:
        raise RequestError(
            "the importance of columns and words is not stored with this model", status=404, code="no_importance"
        )
    most = exchange.number("most", 50, least=1)
    return JSONResponse(finite({"model": live.name, "version": live.current.seq, **first_items(stored, most)}))


def first_items(importance: dict[str, Any], most: int) -> dict[str, Any]:
    """The most important items, and their curves."""
    items = importance["items"][:most]
    names = {item["name"] for item in items}
    return importance | {"items": items, "curves": [one for one in importance["curves"] if one["name"] in names]}


async def recent(exchange: Exchange) -> Response:
    query, live = exchange.request.query_params, exchange.live
    order = query.get("order", "newest")
    if order not in ORDERS:
        raise RequestError("order is {value!r}: it must be one of {orders}", value=order, orders=", ".join(ORDERS))
    decisions = live.recent.list(exchange.number("most", 50), order, query.get("label"), exchange.flag("untaught"))
    return JSONResponse(finite({"model": live.name, "decisions": decisions}))


async def decision(exchange: Exchange) -> Response:
    live, id_ = exchange.live, exchange.request.path_params["id"]
    found = live.recent.one(id_)
    if found is None:
        raise RequestError("there is no recent decision {value!r}", status=404, code="unknown_id", value=id_)
    return JSONResponse(finite({"model": live.name, "decision": found}))


async def example(exchange: Exchange) -> Response:
    live, id_, service = exchange.live, exchange.request.path_params["id"], exchange.service
    stored = await service.from_store(service.store.example, live.name, id_)
    if stored is None:
        raise RequestError("no example with the id {value!r} was learned", status=404, code="unknown_id", value=id_)
    out = {
        "id": id_,
        "label": json.loads(stored.label),
        "seq": stored.seq,
        "time": stored.time,
        "content_kept": stored.form,
    }
    if stored.content is not None:
        out["content"] = service.keeper.content(stored)
    return JSONResponse(out)


async def log(exchange: Exchange) -> Response:
    live, service = exchange.live, exchange.service
    after, most = exchange.number("after", -1, most=1 << 62, least=-1), exchange.number("most", 100)
    lines = await service.from_store(service.store.lines, live.name, after, most)
    document = [{"seq": one.seq, "kind": one.kind, "id": one.id, "time": one.time, "actor": one.actor} for one in lines]
    return JSONResponse({"model": live.name, "log": document})


async def export(exchange: Exchange) -> Response:
    live = exchange.live
    data = await exchange.service.in_thread(live.current.to_bytes)
    headers = {"content-disposition": f'attachment; filename="{live.name}.deciban"'}
    return Response(data, media_type=MODEL_FILE, headers=headers)


async def upload(exchange: Exchange) -> Response:
    live, service = exchange.live, exchange.service
    exchange.require_kind(MODEL_FILE)
    examples = exchange.request.query_params.get("examples")
    if examples not in (None, *UPLOADS):
        raise RequestError("examples is {value!r}: it must be one of {ways}", value=examples, ways=", ".join(UPLOADS))
    data = await body_of(exchange.request, MAX_MODEL_FILE, service.settings.timeout)
    await service.upload(live, data, exchange.caller.name, examples)
    return JSONResponse({"model": live.name, "version": live.current.seq})


# ---------------------------------------------------------------------- the server


async def me(exchange: Exchange) -> Response:
    scopes = [scope for scope in ("read", "teach", "admin") if scope in exchange.caller.scopes]
    return JSONResponse({"name": exchange.caller.name, "scopes": scopes})


async def healthz(exchange: Exchange) -> Response:
    """Whether the process is running."""
    del exchange
    return JSONResponse({"status": "ok"})


async def readyz(exchange: Exchange) -> Response:
    """Whether the server is ready: models are loaded, and the store can be written."""
    service = exchange.service
    well = service.ready and service.writer.alive and service.writer.healthy
    if well:
        try:
            await service.from_store(service.store.ping)
        except Exception:
            well = False
    return JSONResponse({"status": "ready" if well else "not ready"}, 200 if well else 503)


async def metrics(exchange: Exchange) -> Response:
    service = exchange.service
    text = await service.in_thread(lambda: service.metrics.text(service.gauges()))
    return PlainTextResponse(text, headers={"content-type": PROMETHEUS})


async def openapi(exchange: Exchange) -> Response:
    from deciban.server.openapi import document

    del exchange
    return JSONResponse(document(deciban.__version__))


ROUTES = (
    ApiRoute("POST", "/v1/models/{model}/predict", "read", predict, "Classify examples"),
    ApiRoute("POST", "/v1/models/{model}/filter", "read", filter_mail, "The header fields to add to a mail"),
    ApiRoute("POST", "/v1/models/{model}/explain", "read", explain, "Explain predictions, in decibans"),
    ApiRoute("POST", "/v1/models/{model}/read", "read", read, "The examples in a file"),
    ApiRoute("POST", "/v1/models/{model}/evaluate", "read", evaluate, "Evaluate the model on labelled examples"),
    ApiRoute("POST", "/v1/models/{model}/learn", "teach", learn, "Learn labelled examples"),
    ApiRoute("POST", "/v1/models/{model}/correct", "teach", correct, "Change the labels of examples"),
    ApiRoute("POST", "/v1/models/{model}/forget", "teach", forget, "Forget examples"),
    ApiRoute("GET", "/v1/models", "read", models, "List the models"),
    ApiRoute("GET", "/v1/models/{model}", "read", model, "Describe a model"),
    ApiRoute("GET", "/v1/models/{model}/quality", "read", quality, "Quality over time, and alarms"),
    ApiRoute("GET", "/v1/models/{model}/evidence", "read", evidence, "The strongest evidence for each class"),
    ApiRoute("GET", "/v1/models/{model}/importance", "read", importance, "What decides, on average over rows"),
    ApiRoute("GET", "/v1/models/{model}/recent", "teach", recent, "Recent decisions, to be labelled"),
    ApiRoute("GET", "/v1/models/{model}/recent/{id:path}", "teach", decision, "A recent decision"),
    ApiRoute("GET", "/v1/models/{model}/examples/{id:path}", "teach", example, "A learned example"),
    ApiRoute("GET", "/v1/models/{model}/log", "admin", log, "The audit log"),
    ApiRoute("GET", "/v1/models/{model}/file", "admin", export, "The model file"),
    ApiRoute("PUT", "/v1/models/{model}/file", "admin", upload, "Replace the model with a model file"),
    ApiRoute("POST", "/v1/play", "read", play, "Gaussian models of points on a plane"),
    ApiRoute("GET", "/v1/me", "read", me, "Describe the token"),
    ApiRoute("GET", "/healthz", None, healthz, "Liveness check"),
    ApiRoute("GET", "/readyz", None, readyz, "Readiness check"),
    ApiRoute("GET", "/metrics", "read", metrics, "Metrics for Prometheus"),
    ApiRoute("GET", "/openapi.json", None, openapi, "This OpenAPI document"),
)


def bearer(authorization: str) -> str:
    """The token in a header field, or ""."""
    kind, _, secret = authorization.partition(" ")
    return secret if kind.lower() == "bearer" else ""


async def caller_of(request: Request, service: Service) -> Caller:
    """The caller: the token's name, or everyone if tokens are not required."""
    if not service.settings.auth:
        return EVERYTHING
    secret = bearer(request.headers.get("authorization", ""))
    if not secret:
        return NOBODY
    tokens = service.tokens
    if not tokens.fresh:
        try:
            async with asyncio.timeout(MAX_TOKEN_SECONDS):
                await service.from_store(tokens.refresh)
        except (TimeoutError, StoreError):
            if not tokens.known:
                raise StoreError("the tokens cannot be read from the store: try again") from None
            tokens.retry_later()  # predictions go on while the store is away
    caller = tokens.caller(secret)
    return NOBODY if caller is None else caller
