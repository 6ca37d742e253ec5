"""The page: a few static files, served by the same process. It has no data; its scripts ask the API for that.

Nothing is loaded from other hosts, and the content policy allows only scripts and styles of these files. Trusted types
are required and never created: so no script can turn a string into markup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

INDEX = "index.html"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


def page_routes() -> list[Route]:
    """A route for each file: the index at /, the others at /page/NAME."""
    folder = files("deciban.server") / "static"
    routes = []
    for file in folder.iterdir():
        kind = KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == INDEX else f"/page/{file.name}"
            routes.append(Route(path, answer_with(file.read_bytes(), kind), methods=["GET"], name=file.name))
    return routes


def answer_with(data: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    """A file that browsers may keep, if they ask each time whether it has changed."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "etag": tag}

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=None, headers=headers | {"content-type": kind})

    return page
