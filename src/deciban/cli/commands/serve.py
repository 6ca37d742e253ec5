"""`deciban serve`: answer, learn and forget over HTTP."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from deciban.cli.terminal import note, show_json


def serve(
    models: Annotated[
        list[str] | None, typer.Argument(help="Model files, or NAME=FILE.", metavar="MODEL", show_default=False)
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Where examples are kept: an SQLite file (deciban.sqlite), or postgresql://…", metavar="URL"),
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on (127.0.0.1).", metavar="ADDRESS")] = None,
    port: Annotated[int | None, typer.Option(help="The port (8470).", metavar="NUMBER")] = None,
    socket: Annotated[
        str | None, typer.Option(help="Listen on a Unix socket at this path instead.", metavar="FILE")
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Require no tokens: on loopback or a socket only.")
    ] = False,
    content: Annotated[
        str | None, typer.Option(help="How the content of examples is kept: plain, encrypted or none.", metavar="FORM")
    ] = None,
    key_file: Annotated[
        str | None, typer.Option(help="The key of encrypted content; `deciban token key` writes one.", metavar="FILE")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help="A file of settings (TOML).", metavar="FILE")
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Begin with MODEL, and learn all examples of the store again.")
    ] = False,
    show_config: Annotated[bool, typer.Option("--show-config", help="Print the settings, and leave.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.", metavar="LEVEL")] = None,
) -> None:
    """Serve models over HTTP: they classify, explain, learn, take corrections and forget.

    What was learned is in the store before it is acknowledged, and in the model after any crash. Settings come from a
    file, then from the environment (DECIBAN_PORT=…), then from options. SIGTERM finishes what was accepted.

    \b
    Examples:
      deciban serve spam.deciban
      deciban serve spam.deciban tickets=queue.deciban --store store.sqlite
      deciban serve spam.deciban --socket deciban.socket --no-auth
      deciban serve --config deciban.toml --show-config
    """
    from deciban.server.config import models_of, settings_of

    options = {
        "models": models_of(models) if models else None,
        "store": store,
        "host": host,
        "port": port,
        "socket": socket,
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
