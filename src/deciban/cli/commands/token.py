"""`deciban token`: manage access to a server."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Annotated

import typer

from deciban.cli import options
from deciban.cli.terminal import note, print_line, show, show_json
from deciban.errors import DecibanError
from deciban.show import Table

ACTIONS = ("create", "list", "revoke", "key")


def token(
    action: Annotated[str, typer.Argument(help="Action: create, list, revoke or key.", metavar="ACTION")],
    name: Annotated[
        str | None, typer.Argument(help="Name of the token; for `key`, the file to write.", show_default=False)
    ] = None,
    scope: Annotated[
        str, typer.Option(help="Scope: read, teach (and read), or admin (and teach).", metavar="SCOPE")
    ] = "read",
    store: Annotated[
        str | None,
        typer.Option(help="Store for examples: an SQLite file (deciban.sqlite), or postgresql://…", metavar="URL"),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help="File of settings (TOML).", metavar="FILE")
    ] = None,
    json: options.Json = False,
) -> None:
    """Create, list and revoke the tokens of a server, and create the key for encrypted content.

    A token is shown once; the store keeps only its hash. A running server applies changes within seconds.

    \b
    Examples:
      deciban token create mailserver --scope teach
      deciban token list
      deciban token revoke mailserver
      deciban token key content.key
    """
    if action not in ACTIONS:
        raise DecibanError("{value!r} is not an action: choose {actions}", value=action, actions=", ".join(ACTIONS))
    if action != "list" and name is None:
        raise DecibanError("give a name: deciban token {action} NAME", action=action)
    if action == "key":
        write_key(str(name))
        return
    from deciban.server.config import settings_of
    from deciban.server.store import open_store
    from deciban.server.tokens import make_token

    opened = open_store(settings_of(config, os.environ, {"store": store}).store, existing=action != "create")
    try:
        if action == "create":
            secret = make_token(opened, str(name), scope)
            if json:
                show_json({"name": name, "scope": scope, "token": secret})
            else:
                note("note", "this is shown only once: store it like a password")
                print_line(secret)
        elif action == "revoke":
            opened.revoke_token(str(name), time.time())
            print_line(f"Revoked {name}.")
        else:
            rows = [(one.name, one.scopes[-1], date(one.created), date(one.revoked)) for one in opened.tokens()]
            table = Table("tokens", ("name", "scope", "created", "revoked"), rows)
            show_json(table.to_dict()) if json else show(table)
    finally:
        opened.close()


def date(when: float | None) -> str:
    return "" if when is None else datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M")


def write_key(path: str) -> None:
    """A new key, in a file that only its owner can read; an existing file is never overwritten."""
    from deciban.server.store.content import fernet_class

    key = fernet_class().generate_key()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DecibanError(
            "{file!r} already exists, and a new key would make encrypted content unreadable: give another name",
            file=path,
        ) from None
    with open(descriptor, "wb") as file:
        file.write(key + b"\n")
    print_line(f"Wrote {path}. Without it, encrypted content cannot be read: keep a copy separate from the store.")
