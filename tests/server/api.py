"""A server inside the test: requests go to the application without a network."""

from __future__ import annotations

import asyncio
import json as json_
from dataclasses import dataclass
from urllib.parse import unquote

from deciban.server.app import make_app
from deciban.server.config import ServerSettings
from deciban.server.service import Service


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json_.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Api:
    """A service and its application, from start to stop; `get`, `post` and `put` ask it."""

    def __init__(self, models, store, *, rebuild=False, store_object=None, **settings):
        settings = {"auth": False, "models": {name: str(path) for name, path in models.items()}} | settings
        self.service = Service(ServerSettings(store=str(store), **settings), store_object, rebuild=rebuild)
        self.app = make_app(self.service)
        self.token = None
        self.runner = asyncio.Runner()

    def __enter__(self):
        self.service.start()
        return self

    def __exit__(self, *error):
        self.service.stop()
        self.runner.close()

    def get(self, path, **headers):
        return self.request("GET", path, b"", headers)

    def post(self, path, json=None, raw=None, content_type="application/json", **headers):
        body = json_.dumps(json).encode() if raw is None else raw
        return self.request("POST", path, body, {"content-type": content_type} | headers)

    def put(self, path, body, content_type="application/octet-stream"):
        return self.request("PUT", path, body, {"content-type": content_type})

    def request(self, method, path, body, headers):
        return self.runner.run(self.call(method, path, body, headers))

    def together(self, requests):
        """Several (method, path, document) at the same time."""

        async def all_of_them():
            made = [
                self.call(m, p, json_.dumps(d).encode(), {"content-type": "application/json"}) for m, p, d in requests
            ]
            return await asyncio.gather(*made)

        return self.runner.run(all_of_them())

    async def call(self, method, path, body, headers):
        where, _, query = path.partition("?")
        headers = {"host": "localhost"} | {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(where),
            "raw_path": where.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), str(value).encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8470),
        }
        parts = [{"type": "http.request", "body": body, "more_body": False}]
        sent = []

        async def receive():
            if parts:
                return parts.pop(0)
            await asyncio.sleep(3600)  # the client waits for the answer
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        try:
            await self.app(scope, receive, send)
        except Exception:
            if not sent:
                raise
        start = sent[0]
        answer = b"".join(part.get("body", b"") for part in sent[1:])
        return Reply(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, answer)
