"""`deciban serve`: predict, learn and forget over HTTP."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from deciban.cli.terminal import note, show_json


def serve(
    models: Annotated[
        list[str] | None, typer.Argument(help="Model files, or NAME=FILE.", metavar="MODEL...", show_default=False)
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Store for examples: an SQLite file (deciban.sqlite), or postgresql://…", metavar="URL"),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (127.0.0.1).", metavar="ADDRESS")] = None,
    port: Annotated[int | None, typer.Option(help="Port (8470).", metavar="NUMBER")] = None,
    socket: Annotated[
        str | None, typer.Option(help="Listen on a Unix socket at this path instead.", metavar="FILE")
    ] = None,
    milter: Annotated[
        str | None,
        typer.Option(help="Where mail servers connect as to a milter: 127.0.0.1:PORT or unix:FILE.", metavar="ADDRESS"),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Require no tokens; only on loopback or a socket.")
    ] = False,
    content: Annotated[
        str | None,
        typer.Option(help="How the content of examples is stored: plain, encrypted or none.", metavar="FORM"),
    ] = None,
    key_file: Annotated[
        str | None, typer.Option(help="Key for encrypted content; create one with `deciban token key`.", metavar="FILE")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help="File of settings (TOML).", metavar="FILE")
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Start from MODEL, and learn all examples of the store again.")
    ] = False,
    show_config: Annotated[bool, typer.Option("--show-config", help="Print the settings and exit.")] = False,
    log_level: Annotated[
        str | None, typer.Option(help="Log level: debug, info, warning or error.", metavar="LEVEL")
    ] = None,
) -> None:
    """Serve models over HTTP: they classify, explain, learn, take corrections and forget.

    A change is in the store before it is acknowledged, and survives a crash. Settings come from a file, then from the
    environment (DECIBAN_PORT=…), then from options. After SIGTERM, accepted requests are finished.

    \b
    Examples:
      deciban serve spam.deciban
      deciban serve spam.deciban tickets=queue.deciban --store store.sqlite
      deciban serve spam.deciban --socket deciban.socket --no-auth
      deciban serve mail.deciban --milter 127.0.0.1:8471
      deciban serve --config deciban.toml --show-config
    """
    from deciban.server.config import models_of, settings_of

    options = {
        "models": models_of(models) if models else None,
        "store": store,
        "host": host,
        "port": port,
        "socket": socket,
        "milter": milter,
        "auth": False if no_auth else None,
        "content": content,
        "key_file": key_file,
        "log_level": log_level,
    }
    settings = settings_of(config, os.environ, options)
    if show_config:
        show_json(settings.shown())
        return
    from deciban.server.run import serve as run_server

    run_server(settings, rebuild=rebuild, announce=lambda line: note("note", line))
