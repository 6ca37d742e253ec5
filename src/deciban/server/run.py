"""Start a server and run it until a signal stops it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import ssl
import stat
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from deciban.errors import DecibanError
from deciban.server.config import ServerSettings

END_SECONDS = 30  # for requests in progress, after SIGTERM
SWITCH_SECONDS = 0.0001  # how long the event loop waits for the interpreter while another thread learns; usually 0.005


def serve(settings: ServerSettings, *, rebuild: bool = False, announce: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or SIGINT; accepted requests are finished first."""
    try:
        import uvicorn

        from deciban.server.app import make_app
        from deciban.server.http import HttpServer, connections_of, max_connections
    except ImportError as error:
        raise DecibanError(
            "the server needs {package!r}: pip install 'deciban[server]'", package=error.name or "starlette"
        ) from None
    from deciban.server.service import Service

    check_files(settings)
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(LogFormat("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[lines])
    warnings.simplefilter("ignore")  # a warning may quote content; errors go only to the sender
    sys.setswitchinterval(SWITCH_SECONDS)
    service = Service(settings, rebuild=rebuild)
    if settings.auth and not service.store.tokens():
        announce("there is no token yet: create one with `deciban token create NAME --scope teach`")
    where = settings.socket or f"{'https' if settings.tls_key else 'http'}://{bracketed(settings.host)}:{settings.port}"
    app = make_app(service)
    config = uvicorn.Config(
        app,
        http=connections_of(app),
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
        os.unlink(settings.socket)  # left by an earlier server: see `check_socket`
    what = f"serving {', '.join(settings.models)} at {where}"
    server = HttpServer(config, settings.timeout, lambda: announce(what))
    gc.collect()
    gc.freeze()  # modules and models stay: to search them for cycles would now and then delay all requests by 80 ms
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: None)  # uvicorn shuts down, and then raises it again
    try:
        server.run()
    except SystemExit:  # uvicorn has logged why
        if server.started:
            raise
    if not server.started:
        raise DecibanError("the server did not start at {where}: see the lines above", where=where)


class LogFormat(logging.Formatter):
    """Exceptions as their types and places: their messages may quote content."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        error, seen = ei[1], []
        while error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            seen.append("".join(f"  {one.filename}:{one.lineno} in {one.name}\n" for one in frames))
            seen[-1] += type(error).__name__
            error = error.__cause__ or error.__context__
        return "\n".join(reversed(seen))


def check_files(settings: ServerSettings) -> None:
    """Raise for files that uvicorn would report without their names."""
    for file in (settings.tls_certificate, settings.tls_key):
        if file is not None:
            open(file, "rb").close()
    if settings.tls_certificate is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_certificate, settings.tls_key)
        except ssl.SSLError as error:
            raise DecibanError(
                "{file!r} and {key!r} are not a certificate and its key: {why}",
                file=settings.tls_certificate,
                key=settings.tls_key,
                why=str(error),
            ) from None
    if settings.socket is not None:
        check_socket(settings.socket)


def check_socket(path: str) -> None:
    """Raise if a server cannot listen here, or another one does."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise DecibanError("cannot listen at {file!r}: the folder {folder!r} does not exist", file=path, folder=folder)
    if os.path.exists(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
        raise DecibanError("{file!r} exists and is not a socket: remove it, or choose another path", file=path)
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(1.0)
        try:
            other.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return  # there is none, or one left by a server that was killed
        except OSError as error:  # such as a path that is too long
            raise DecibanError("cannot listen at {file!r}: {why}", file=path, why=str(error)) from None
    raise DecibanError("another server listens at {file!r}: stop it, or choose another path", file=path)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
