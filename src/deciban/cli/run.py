"""Run a command: errors as one line, exit codes, closed pipes, warnings as notes."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from deciban.cli.terminal import note
from deciban.errors import LocatedError, did_you_mean, similar
from deciban.show import one_line

NOT_A_NUMBER = re.compile(r"is not a valid (int|float)\w*( range)?")  # as click writes it
EXIT_OK, EXIT_BUG, EXIT_WRONG_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command."""
    import typer

    from deciban.cli.app import app

    argv = sys.argv[1:] if arguments is None else list(arguments)
    if os.environ.get("NO_COLOR") and (not argv or {"-h", "--help"} & set(argv)):
        from typer import rich_utils

        rich_utils.COLOR_SYSTEM = None
    # Some versions of typer vendor click: take the exception class of the click in use.
    click_exception: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = warning_as_note
        try:
            code = app(argv)(argv, prog_name="deciban", standalone_mode=False)
            sys.stdout.flush()
        except typer.Exit as exiting:
            return int(exiting.exit_code)
        except (typer.Abort, KeyboardInterrupt):
            return fail("interrupted; nothing was written", EXIT_INTERRUPTED)
        except click_exception as error:
            message = usage_message(error, argv)
            return fail(message) if message else EXIT_WRONG_INPUT  # the help was already shown
        except BrokenPipeError:
            return discard_output()
        except SystemExit as exiting:  # typer and rich exit like this on a closed pipe, and typer after completion
            return discard_output() if isinstance(exiting.__context__, BrokenPipeError) else int(exiting.code or 0)
        except OSError as error:
            return fail(os_error_message(error))
        except LocatedError as error:
            return fail(error.on_command_line())
        except (ValueError, ImportError) as error:
            return fail(str(error))
        except MemoryError:
            return fail("not enough memory: give less data at a time, or use a smaller model", EXIT_BUG)
        except Exception as error:
            return report_bug(error)
    if code == EXIT_INTERRUPTED:  # some versions of typer catch KeyboardInterrupt
        return fail("interrupted; nothing was written", EXIT_INTERRUPTED)
    return EXIT_OK if code is None else int(code)


def discard_output() -> int:
    """The reader has closed the pipe, as `head` does: discard further output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_OK


def fail(message: str, code: int = EXIT_WRONG_INPUT) -> int:
    """Print the error in one line; with DECIBAN_TRACEBACK set, raise it instead."""
    if os.environ.get("DECIBAN_TRACEBACK") and sys.exc_info()[0] is not None:
        raise  # noqa: PLE0704 - the caller handles one
    note("error", " ".join(message.split("\n")))
    return code


def report_bug(error: Exception) -> int:
    """An unexpected error: print the traceback too."""
    import traceback

    traceback.print_exc()
    note("error", f"this is a bug in deciban ({type(error).__name__}), not in your input: please report it")
    return EXIT_BUG


def usage_message(error: Any, argv: Sequence[str]) -> str:
    """What was wrong with the arguments, and how to get help; empty if the help was shown."""
    from deciban.cli.app import COMMANDS

    context, message = getattr(error, "ctx", None), error.format_message()
    if not message:
        return ""
    if type(error).__name__ == "NoSuchOption":  # its `possibilities` are options that are spelled like it
        known = [name.lstrip("-") for name in error.possibilities or []]  # dashes would make all of them similar
        close = [f"--{name}" for name in similar(error.option_name.lstrip("-"), known)]
        hint = f"did you mean {' or '.join(close)}?" if close else "check its name"
        message = f"there is no option {error.option_name}: {hint}"
    elif context is not None and context.parent is None and argv and argv[0] not in COMMANDS and argv[0][:1] != "-":
        message = f"there is no command {argv[0]!r}: {did_you_mean(argv[0], COMMANDS, 'check its name')}"
    message = NOT_A_NUMBER.sub(lambda match: f"is not a {'' if match[1] == 'float' else 'whole '}number", message)
    return f"{message} (see {'deciban' if context is None else context.command_path} --help)"


def os_error_message(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    file = os.path.relpath(error.filename) if os.path.isabs(error.filename) else error.filename
    if isinstance(error, PermissionError):
        return f"no permission to read or write {file!r}: check the permissions of the file and of its folder"
    return f"{file!r}: {error.strerror}"


def warning_as_note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning as one line."""
    del where, more
    if issubclass(category, UserWarning):
        note("note", one_line(message.on_command_line() if isinstance(message, LocatedError) else str(message)))
