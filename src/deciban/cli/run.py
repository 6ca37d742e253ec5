"""Run a command: errors as one line, exit codes, closed pipes, warnings as notes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from deciban.cli.terminal import note
from deciban.errors import NotAvailableError
from deciban.show import one_line

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
            message = usage_message(error)
            return fail(message) if message else EXIT_WRONG_INPUT  # the help was shown already
        except BrokenPipeError:
            return discard_output()
        except SystemExit as exiting:  # so typer and rich exit on a closed pipe, and typer after completion
            return discard_output() if isinstance(exiting.__context__, BrokenPipeError) else int(exiting.code or 0)
        except OSError as error:
            return fail(os_error_message(error))
        except (ValueError, ImportError) as error:
            return fail(str(error))
        except AttributeError as error:
            # scikit-learn wraps the error of a method that is not available.
            return fail(str(error.__cause__)) if isinstance(error.__cause__, NotAvailableError) else report_bug(error)
        except MemoryError:
            return fail("there is not enough memory for this: give less data at a time, or a smaller model", EXIT_BUG)
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
    note("error", f"this is a fault in deciban ({type(error).__name__}), not in what you gave it; please report it")
    return EXIT_BUG


def usage_message(error: Any) -> str:
    """What was wrong with the arguments, and how to get help; empty if the help was shown."""
    context = getattr(error, "ctx", None)
    if not error.format_message():
        return ""
    return f"{error.format_message()} (see {'deciban' if context is None else context.command_path} --help)"


def os_error_message(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.strerror}: {os.fspath(error.filename)!r}"


def warning_as_note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning as one line."""
    del where, more
    if issubclass(category, UserWarning):
        note("note", one_line(str(message)))
