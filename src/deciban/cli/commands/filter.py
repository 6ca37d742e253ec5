"""`deciban filter`: a mail through the filter. The work is done by `deciban-filter`, which starts in a millisecond."""

from __future__ import annotations

import subprocess
from typing import Annotated

import typer

from deciban.cli.filter_program import PROGRAM, program
from deciban.errors import DecibanError


def filter(  # noqa: A001 - the command's name
    socket: Annotated[
        str | None, typer.Option(help="The server's Unix socket (/run/deciban/socket).", metavar="FILE")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="The server's address: http://HOST:PORT or unix:FILE (DECIBAN_URL).", metavar="URL"),
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(help="A file with the token to send (DECIBAN_TOKEN).", metavar="FILE")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A model's name on the server; or its file, to score without a server.", metavar="MODEL"),
    ] = None,
    verdict: Annotated[
        bool,
        typer.Option(
            "--verdict", help="Write nothing; leave with 0 for spam, 1 for ham, 2 for unsure, 3 for an error."
        ),
    ] = False,
    learn: Annotated[str | None, typer.Option(help="Learn the mail as spam or ham.", metavar="LABEL")] = None,
    correct: Annotated[
        str | None, typer.Option(help="Learn it as this, whatever it was learned as before.", metavar="LABEL")
    ] = None,
    forget: Annotated[str | None, typer.Option(help="Forget it, which was learned as this.", metavar="LABEL")] = None,
    evidence: Annotated[int, typer.Option(help="Items of evidence in the header.", metavar="NUMBER")] = 5,
    max_size: Annotated[int, typer.Option(help="Larger mails pass unchecked.", metavar="BYTES")] = 10_000_000,
    timeout: Annotated[
        float | None,
        typer.Option(help="Then the mail passes unchecked (10; 60 to learn, correct or forget).", metavar="SECONDS"),
    ] = None,
) -> int:
    """Pass a mail from standard input to standard output, with an X-Deciban header field: spam, ham or unsure.

    A server answers (`deciban serve`), or a model file is read for each mail. After any fault the mail passes
    unchanged, the field has the reason, and the exit code is 0. `deciban-filter` is the same without the time that
    Python needs to start: use it in a mail server.

    \b
    Examples:
      deciban filter --socket /run/deciban/socket < new.eml
      deciban filter --model mail.deciban < new.eml
      deciban filter --model mail.deciban --verdict < new.eml
      deciban filter --correct spam < missed.eml
    """
    given = {
        "socket": socket,
        "server": server,
        "token-file": token_file,
        "model": model,
        "learn": learn,
        "correct": correct,
        "forget": forget,
        "evidence": evidence,
        "max-size": max_size,
        "timeout": timeout,
    }
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    path = program()
    if path is None:
        raise DecibanError("there is no program {value!r} beside deciban: install the package again", value=PROGRAM)
    command = [path, *options, *["--verdict"] * verdict]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - the user's own options
