"""Run a command: errors as one line that says what to do, exit codes, pipes that close, warnings as notes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from deciban.cli.terminal import note
from deciban.errors import NotAvailableError
from deciban.show import one_line

DONE, FAULT, WRONG, INTERRUPTED = 0, 1, 2, 130


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command."""
    import typer

    from deciban.cli.app import app

    given = sys.argv[1:] if arguments is None else list(arguments)
    if os.environ.get("NO_COLOR") and (not given or {"-h", "--help"} & set(given)):
        from typer import rich_utils

        rich_utils.COLOR_SYSTEM = None
    # Some versions of typer bring a click of their own: these are the exceptions of whichever it is.
    complaint: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = as_note
        try:
            code = app(given)(given, prog_name="deciban", standalone_mode=False)
            sys.stdout.flush()
        except typer.Exit as leaving:
            return int(leaving.exit_code)
        except (typer.Abort, KeyboardInterrupt):
            return wrong("interrupted; nothing was written", INTERRUPTED)
        except complaint as error:
            message = usage(error)
            return wrong(message) if message else WRONG  # help was shown instead
        except BrokenPipeError:
            return seen_enough()
        except SystemExit as leaving:  # so typer and rich leave where a pipe is closed, and typer when it has completed
            return seen_enough() if isinstance(leaving.__context__, BrokenPipeError) else int(leaving.code or 0)
        except OSError as error:
            return wrong(in_words(error))
        except (ValueError, ImportError) as error:
            return wrong(str(error))
        except AttributeError as error:
            # scikit-learn says it in an error of its own where a method is not available.
            return wrong(str(error.__cause__)) if isinstance(error.__cause__, NotAvailableError) else fault(error)
        except MemoryError:
            return wrong("there is not enough memory for this: give less data at a time, or a smaller model", FAULT)
        except Exception as error:
            return fault(error)
    if code == INTERRUPTED:  # some versions of typer catch what interrupts
        return wrong("interrupted; nothing was written", INTERRUPTED)
    return DONE if code is None else int(code)


def seen_enough() -> int:
    """Whoever read what is printed has closed the pipe, as `head` does: what is left goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def wrong(message: str, code: int = WRONG) -> int:
    """Say what is wrong in a line, unless a developer wants to see where."""
    if os.environ.get("DECIBAN_TRACEBACK") and sys.exc_info()[0] is not None:
        raise  # noqa: PLE0704 - the caller handles one
    note("error", " ".join(message.split("\n")))
    return code


def fault(error: Exception) -> int:
    """Something that should not happen: where it did is worth knowing."""
    import traceback

    traceback.print_exc()
    note("error", f"this is a fault in deciban ({type(error).__name__}), not in what you gave it; please report it")
    return FAULT


def usage(error: Any) -> str:
    """What was wrong with the command, and how to see what it takes."""
    context = getattr(error, "ctx", None)
    if not error.format_message():
        return ""
    return f"{error.format_message()} (see {'deciban' if context is None else context.command_path} --help)"


def in_words(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.strerror}: {os.fspath(error.filename)!r}"


def as_note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning as one line."""
    del where, more
    if issubclass(category, UserWarning):
        note("note", one_line(str(message)))
