"""`deciban mailbox`: sort a mailbox on an IMAP server, and learn from what its owner moves."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from deciban.cli.terminal import note, print_line
from deciban.errors import DecibanError

if TYPE_CHECKING:
    from deciban.mailbox.sort import Sorter

PASSWORD = "DECIBAN_IMAP_PASSWORD"  # noqa: S105 - the name of a variable


def mailbox(
    host: Annotated[str, typer.Argument(help="The mail server.", metavar="HOST", show_default=False)],
    user: Annotated[str, typer.Option("--user", "-u", help="Whose mailbox.", metavar="NAME", show_default=False)],
    password_file: Annotated[
        str | None, typer.Option(help=f"A file with the password; or set {PASSWORD}.", metavar="FILE")
    ] = None,
    password_command: Annotated[
        str | None, typer.Option(help='A command that prints it, as in "pass show mail".', metavar="COMMAND")
    ] = None,
    port: Annotated[int, typer.Option(help="The port (993; 143 without TLS).", metavar="NUMBER")] = 0,
    starttls: Annotated[bool, typer.Option("--starttls", help="Begin in the clear and change to TLS.")] = False,
    no_tls: Annotated[bool, typer.Option("--no-tls", help="No encryption: for servers on this machine only.")] = False,
    ca_file: Annotated[
        str | None, typer.Option(help="Certificates to trust, instead of the system's.", metavar="FILE")
    ] = None,
    inbox: Annotated[str, typer.Option(help="The folder whose new mail is sorted.", metavar="FOLDER")] = "INBOX",
    junk: Annotated[
        str | None, typer.Option(help="The folder for spam (the server's own for junk, or Junk).", metavar="FOLDER")
    ] = None,
    unsure: Annotated[
        str | None, typer.Option(help="A folder for what is unsure, which otherwise stays.", metavar="FOLDER")
    ] = None,
    learn: Annotated[
        list[str] | None,
        typer.Option(help="Learn all mail of a folder: spam=FOLDER or ham=FOLDER.", metavar="LABEL=FOLDER"),
    ] = None,
    learn_only: Annotated[
        bool, typer.Option("--learn-only", help="Move nothing: mail is sorted when it is delivered.")
    ] = False,
    existing: Annotated[
        bool, typer.Option("--existing", help="Sort the mail that is in the inbox already, too.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch/--once", help="Go on until interrupted; or look once, and leave.")
    ] = False,
    poll: Annotated[
        float, typer.Option(help="Seconds after which other folders are looked at again.", metavar="SECONDS", min=1)
    ] = 60.0,
    server: Annotated[
        str | None,
        typer.Option(help="The server's address: http://HOST:PORT or unix:FILE (DECIBAN_URL).", metavar="URL"),
    ] = None,
    socket: Annotated[
        str | None, typer.Option(help="The server's Unix socket (/run/deciban/socket).", metavar="FILE")
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(help="A file with the token to send (DECIBAN_TOKEN).", metavar="FILE")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name, if there are several.", metavar="NAME")] = None,
    state: Annotated[
        str | None, typer.Option(help="Where is noted which mail was seen (~/.local/state/deciban).", metavar="FILE")
    ] = None,
    max_size: Annotated[int, typer.Option(help="Larger mails are left alone.", metavar="BYTES", min=1)] = 5_000_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, and show what would be done.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every mail.")] = False,
) -> None:
    """Sort a mailbox: new spam goes to Junk, and whatever its owner moves is learned.

    Needs a running filter (`deciban serve`). A mail that you move out of Junk is learned as ham, and one that you move
    into Junk as spam; what the filter moves is not learned. Mails are noted by UID and a hash: a run that was
    interrupted is finished by the next.

    \b
    Examples:
      deciban mailbox imap.example.org -u ann --learn spam=Junk
      deciban mailbox imap.example.org -u ann --unsure Unsure --watch
    """
    from deciban.client import Client
    from deciban.mailbox.imap import Account, Imap
    from deciban.mailbox.sort import Rules, Sorter
    from deciban.mailbox.sort import watch as sort_for_ever
    from deciban.mailbox.state import MailboxState

    if starttls and no_tls:
        raise DecibanError("--starttls and --no-tls exclude each other: give one")
    account = Account(
        host=host,
        user=user,
        password=password_of(password_file, password_command),
        port=port,
        security="none" if no_tls else "starttls" if starttls else "tls",
        ca_file=ca_file,
    )
    folders = tuple((label, folder) for label, _, folder in (one.partition("=") for one in learn or []))
    client = Client(f"unix:{socket}" if socket else server, token=token_of(token_file), model=model)
    with MailboxState(state or default_state(user, host), f"{user}@{host}") as known:

        def connect() -> Sorter:
            imap = Imap(account)
            rules = Rules(
                inbox=inbox,
                junk=junk or imap.junk(),
                unsure=unsure,
                learn=folders,
                existing=existing,
                file=not learn_only,
                max_size=max_size,
            )
            if not dry_run:
                for folder in (rules.junk, rules.unsure):
                    if folder is not None:
                        imap.make(folder)
            return Sorter(imap, client, known, rules, dry_run, print_line if verbose or dry_run else lambda _: None)

        if watch:
            try:
                sort_for_ever(connect, poll, report, lambda line: note("note", line))
            except KeyboardInterrupt:
                note("note", "stopped; what was under way is finished by the next run")
            return
        sorter = connect()
        with sorter.imap:
            report(sorter.run(), quiet=False)


def report(counts: Counter[str], quiet: bool = True) -> None:
    """What was done, in one line."""
    if counts or not quiet:
        print_line(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing new")


def password_of(file: str | None, command: str | None) -> str:
    """The password from a file, a command or the environment: never from the command line, which others can read."""
    if file is not None and command is not None:
        raise DecibanError("--password-file and --password-command exclude each other: give one")
    if file is not None:
        with open(file, encoding="utf-8") as opened:
            password = opened.readline().rstrip("\r\n")
    elif command is not None:
        done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - the user's own
        if done.returncode:
            raise DecibanError("{value!r} fails with {code}", value=command, code=done.returncode)
        password = done.stdout.split("\n", 1)[0].rstrip("\r")
    else:
        password = os.environ.get(PASSWORD, "")
    if not password:
        raise DecibanError(
            "there is no password: give --password-file or --password-command, or set {name}", name=PASSWORD
        )
    return password


def token_of(file: str | None) -> str | None:
    if file is None:
        return None
    with open(file, encoding="utf-8") as opened:
        return opened.readline().strip()


def default_state(user: str, host: str) -> str:
    folder = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    safe = "".join(c if c.isalnum() or c in "@.-_" else "_" for c in f"{user}@{host}")
    return os.path.join(folder, "deciban", f"{safe}.sqlite")
