"""The ASGI application: routes, access, limits, errors as JSON, security headers, one log line per request."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deciban.server.limits import RateLimit
from deciban.server.milter import MilterFilter
from deciban.server.page import page_routes
from deciban.server.problems import RequestError, document, problem_of
from deciban.server.routes import ROUTES, ApiRoute, Exchange, JSONResponse, Rates, caller_of
from deciban.server.service import Service
from deciban.server.tokens import NOBODY

SECURITY_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]", "testserver"})
OWN_SITE = ("same-origin", "none")  # of Sec-Fetch-Site: from our own page, or typed into the address bar

MODELS = "/v1/models/"
ACTION = MODELS + "{model}/"  # then the name of what to do: predict, learn, …

Endpoint = Callable[[Request], Awaitable[Response]]

access = logging.getLogger("deciban.server.access")
errors = logging.getLogger("deciban.server")


def make_app(service: Service) -> Guard:
    """The application of a service, which it starts and stops."""
    settings = service.settings
    milter = None if settings.milter is None else MilterFilter(service)
    rates = Rates(RateLimit(settings.rate, "requests"), RateLimit(settings.teach_rate, "examples to learn"))

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        del app
        if milter is not None and settings.milter is not None:
            await milter.start(settings.milter)
        service.start()
        try:
            yield
        finally:
            if milter is not None:
                await milter.stop()
            service.stop()

    endpoints = {one: endpoint(one, service, rates) for one in ROUTES}
    routes = [Route(one.path, own, methods=[one.method], name=one.name) for one, own in endpoints.items()]
    routes += page_routes() if settings.page else []
    handlers: dict[Any, Any] = {HTTPException: http_problem, Exception: unexpected}
    app = Starlette(routes=routes, lifespan=life, exception_handlers=handlers)
    actions = {one.path.removeprefix(ACTION): own for one, own in endpoints.items() if is_action(one)}
    return Guard(app, actions, service, rates)


def is_action(route: ApiRoute) -> bool:
    return route.method == "POST" and route.path.startswith(ACTION)


def endpoint(route: ApiRoute, service: Service, rates: Rates) -> Endpoint:
    """What Starlette calls: checks the caller, and turns errors about the input into responses."""

    async def answer(request: Request) -> Response:
        try:
            caller = await caller_of(request, service)
            if route.scope is not None:
                if caller is NOBODY:
                    raise no_token(request)
                caller.require(route.scope)
            rates.requests.take(caller.name or client_of(request))
            return await route.handler(Exchange(request, service, caller, rates))
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return answered(problem)

    answer.__name__ = route.name
    return answer


def no_token(request: Request) -> RequestError:
    if "authorization" in request.headers:
        return RequestError(
            "the token is unknown or was revoked: make one with `deciban token create`, and send it as in "
            "`Authorization: Bearer TOKEN`",
            status=401,
            code="unknown_token",
        )
    return RequestError("send a token, as in `Authorization: Bearer TOKEN`", status=401, code="no_token")


def client_of(request: Request) -> str:
    return request.client.host if request.client is not None else "socket"


def answered(problem: RequestError) -> JSONResponse:
    headers = {}
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if problem.status in (429, 503):
        headers["retry-after"] = "1"
    return JSONResponse(document(problem), problem.status, headers)


async def http_problem(request: Request, error: HTTPException) -> Response:
    """Starlette's own errors, in our form."""
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
    message = {
        404: "there is no {value!r}: /openapi.json lists all routes",
        405: "{value!r} does not support this method",
    }
    problem = RequestError(
        message.get(error.status_code, str(error.detail)), status=error.status_code, code=code, value=request.url.path
    )
    response = answered(problem)
    response.headers.update(error.headers or {})
    return response


async def unexpected(request: Request, error: Exception) -> Response:
    """An internal error: the response reveals nothing else."""
    del request, error
    return internal_error()


def internal_error() -> JSONResponse:
    return answered(RequestError("internal error in deciban, not in the request", status=500, code="fault"))


class Guard:
    """Outermost: allowed origins, security headers, metrics and the log, which has no content.

    Requests to predict, learn and so on are most of all requests: they go to their endpoints directly, which takes half
    as long as through Starlette's routes and layers.
    """

    def __init__(self, app: ASGIApp, actions: Mapping[str, Endpoint], service: Service, rates: Rates) -> None:
        self.app, self.actions, self.service, self.rates = app, actions, service, rates
        settings = service.settings
        self.hosts = LOOPBACK_HOSTS | {host.lower() for host in (*settings.allowed_hosts, settings.host)}
        self.check_hosts = settings.local and settings.socket is None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                have = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k, v) for k, v in HEADER_BYTES if k not in have),
                ]
            await send(message)

        try:
            problem = self.problem(scope["method"], dict(scope["headers"]))
            if problem is not None:
                await answered(problem)(scope, receive, send_with_headers)
            elif (own := self.direct(scope)) is not None:
                await responded(own, scope, receive, send_with_headers)
            else:
                await self.app(scope, receive, send_with_headers)
        finally:
            self.observe(scope["method"], route_of(scope), status, time.perf_counter() - start)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request, and log it without its content."""
        self.service.metrics.observe(route, status, seconds)
        if access.isEnabledFor(logging.INFO):
            access.info("%s %s %d %.1f ms", method, route, status, seconds * 1e3)

    def direct(self, scope: Scope) -> Endpoint | None:
        """The endpoint of a request to do something with a model."""
        path: str = scope["path"]
        if scope["method"] != "POST" or not path.startswith(MODELS):
            return None
        name, _, action = path[len(MODELS) :].partition("/")
        own = self.actions.get(action) if name else None
        if own is not None:
            scope["path_params"], scope["endpoint"] = {"model": name}, own
        return own

    def problem(self, method: str, headers: Mapping[bytes, bytes]) -> RequestError | None:
        """Pages of other sites must not reach a server on this machine through its user's browser."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] if ":" in host else host
        if self.check_hosts and name not in self.hosts:
            return RequestError(
                "the host {value!r} is not allowed: add it to allowed_hosts", status=421, code="host", value=name
            )
        site = headers.get(b"sec-fetch-site", b"none").decode("latin-1")
        if method not in ("GET", "HEAD") and site not in OWN_SITE:
            return RequestError("pages of other sites may not make changes", status=403, code="cross_site")
        return None


async def responded(own: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
    """Send what an endpoint returns; after an internal error, which uvicorn logs, a response that reveals nothing."""
    request = Request(scope, receive)
    try:
        response = await own(request)
    except Exception as error:
        await (await unexpected(request, error))(scope, receive, send)
        raise
    await response(scope, receive, send)


HEADER_BYTES = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


def route_of(scope: Scope) -> str:
    """The route's pattern, not the path, which may hold an id."""
    endpoint_ = scope.get("endpoint")
    return getattr(endpoint_, "__name__", "none")
