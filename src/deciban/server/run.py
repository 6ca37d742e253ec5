"""Start a server and run it until a signal stops it."""

from __future__ import annotations

import logging
import os
import signal
import stat
import sys
import warnings
from collections.abc import Callable

from deciban.errors import DecibanError
from deciban.server.config import ServerSettings

LEVELS = ("debug", "info", "warning", "error")
END_SECONDS = 30  # for requests in progress, after SIGTERM
SWITCH_SECONDS = 0.0005  # how long the event loop waits for the interpreter while another thread learns; usually 0.005


def serve(settings: ServerSettings, *, rebuild: bool = False, announce: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or SIGINT; accepted requests are finished first."""
    try:
        import uvicorn

        from deciban.server.app import make_app
        from deciban.server.http import HttpServer, max_connections
    except ImportError as error:
        raise DecibanError(
            "the server needs {package!r}: pip install 'deciban[server]'", package=error.name or "starlette"
        ) from None
    from deciban.server.service import Service

    if settings.log_level not in LEVELS:
        raise DecibanError(
            "log_level is {value!r}: it must be one of {levels}", value=settings.log_level, levels=", ".join(LEVELS)
        )
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    warnings.simplefilter("ignore")  # a warning may quote content; errors go only to the sender
    sys.setswitchinterval(SWITCH_SECONDS)
    service = Service(settings, rebuild=rebuild)
    if settings.auth and not service.store.tokens():
        announce("there is no token yet: create one with `deciban token create NAME --scope teach`")
    where = settings.socket or f"{'https' if settings.tls_key else 'http'}://{bracketed(settings.host)}:{settings.port}"
    announce(f"serving {', '.join(settings.models)} at {where}")
    config = uvicorn.Config(
        make_app(service),
        host=settings.host,
        port=settings.port,
        uds=settings.socket,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        access_log=False,  # our own log has neither ids nor content
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=END_SECONDS,
        timeout_keep_alive=60,
        limit_concurrency=max_connections(),
    )
    if settings.socket is not None and os.path.exists(settings.socket):
        if not stat.S_ISSOCK(os.stat(settings.socket).st_mode):
            raise DecibanError(
                "{file!r} exists and is not a socket: remove it, or choose another path", file=settings.socket
            )
        os.unlink(settings.socket)  # left by a server that was killed
    server = HttpServer(config, settings.timeout)
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: None)  # uvicorn shuts down, and then raises it again
    server.run()
    if not server.started:
        raise DecibanError("the server could not listen at {where}: see the line above", where=where)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
