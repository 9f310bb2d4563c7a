"""The command line. Exit status: 0 done, 1 a run failed (or got worse), 2 bad input.

A module holds a few commands of one kind; they are listed here in the order of ``--help``, and each is imported and
made when it is called (``table``). Heavy libraries are imported by the command that needs them. ``common``,
``terminal``, ``helping`` and ``drawing`` (figures as files) are what they share, ``streams`` is what they write to;
``visiting`` is the part of ``browse`` for a URL.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import sys
import warnings
from typing import Annotated

import typer

from bentpipe.cli import stdio
from bentpipe.cli.common import BAD_INPUT, FAILED, INTERRUPTED
from bentpipe.cli.lazy_group import group
from bentpipe.interrupts import interrupt, raise_unraisable
from bentpipe.launch import end_silently

__all__ = ["app", "main"]

_COMMANDS = {
    "Simulate": {
        "run": "run:run",
        "check": "check:check",
        "examples": "catalogue:examples",
        "presets": "catalogue:presets",
        "schema": "check:schema",
    },
    "Results": {
        "show": "results:show",
        "report": "report:report",
        "query": "results:query",
        "export": "report:export",
        "diff": "results:diff",
        "users": "results:users",
        "calls": "results:calls",
        "verify": "results:verify",
        "pack": "results:pack",
    },
    "Analyse a path": {
        "break-even": "break_even:break_even",
        "orbit": "orbit:orbit:PlacesCommand",
        "fit": "fit:fit",
        "import-har": "import_har:import_har",
    },
    "Real programs (Linux)": {
        "shell": "shell:shell:BeforeCommand",
        "change": "shell:change",
        "watch": "watch:watch",
        "time": "time_command:time:TimeCommand",
        "perf": "perf:perf",
        "browse": "browse:browse",
        "serve": "browse:serve",
    },
    "Validate and test": {
        "compare-engines": "compare_engines:compare_engines",
        "compare-builds": "compare_builds:compare_builds:CompareBuildsCommand",
        "check-controller": "catalogue:check_controller",
        "check-scheduler": "catalogue:check_scheduler",
    },
    "Delay-tolerant networking": {"dtn": "dtn:dtn"},
    "Setup": {"doctor": "doctor:doctor", "help": "help:helps"},
}
"""Commands by section of ``--help``: ``module:function`` or ``module:function:class``."""

app = typer.Typer(
    name="bentpipe",
    cls=group(_COMMANDS, "bentpipe.commands"),
    help="A laboratory for transport protocols over satellite paths.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """The console script: errors of the user's become one message and exit status 2."""
    # What modules make stays: to look through it again and again is a tenth of a short command's time.
    gc.set_threshold(GARBAGE)
    stdio.open_all()
    warnings.showwarning = _warn
    try:
        _work()
    except (KeyboardInterrupt, BrokenPipeError) as end:
        if isinstance(end, BrokenPipeError):
            stdio.drop()
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        if _is_interruption(error):
            raise SystemExit(INTERRUPTED) from None
        # The kinds of error are imported only once there is one.
        status, message = _told(error)
        if os.environ.get("BENTPIPE_TRACEBACK"):
            raise
        print(f"error: {message}", file=sys.stderr)
        raise SystemExit(status) from None


def _work() -> None:
    """Run the command. Ctrl-C is KeyboardInterrupt to it, and ends the process once it has ended."""
    handled = signal.getsignal(signal.SIGINT) is end_silently
    try:
        if handled:
            signal.signal(signal.SIGINT, interrupt)
            sys.unraisablehook = raise_unraisable
        app(prog_name="bentpipe")
    except SystemExit as end:
        if not end.code:
            stdio.close()
        raise
    finally:
        if handled:
            signal.signal(signal.SIGINT, end_silently)


def _is_interruption(error: BaseException | None) -> bool:
    """Whether a library made this error of Ctrl-C, as pydantic does while it builds a class.

    Its text ends with KeyboardInterrupt then, or its causes do. An error after a Ctrl-C that a command took as its
    ordinary end has neither.
    """
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, KeyboardInterrupt) or _MADE_OF_IT.search(str(error)):
            return True
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


_MADE_OF_IT = re.compile(r"\bKeyboardInterrupt:?\s*\Z")


GARBAGE = 50_000
"""New objects until garbage is looked for; Python's own is 700."""


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _told(error: Exception) -> tuple[int, str]:
    """Exit status and message of an error."""
    from bentpipe.runners.runner import RunnerError
    from bentpipe.scenario.errors import ScenarioError, UserCodeError
    from bentpipe.store.files import DiskError, StoreError

    if isinstance(error, (DiskError, UserCodeError)):
        return FAILED, str(error)
    if isinstance(error, (ScenarioError, StoreError, RunnerError)):
        return BAD_INPUT, str(error)
    if isinstance(error, ImportError):
        return BAD_INPUT, f"{error}; `bentpipe doctor` says what is missing"
    if isinstance(error, stdio.OutputError):
        stdio.drop()
        return BAD_INPUT, f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        where = f"{error.filename}: " if error.filename else ""
        return FAILED if full else BAD_INPUT, f"{where}{error.strerror or error}"
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == "bentpipe._engine":
        return (
            BAD_INPUT,
            f"the engine is older than the rest: it has no {error.name!r}; `make engine` builds it again",
        )
    again = "BENTPIPE_TRACEBACK=1 before the same command shows where"
    return FAILED, f"a fault of bentpipe's: {type(error).__name__}: {error}; {again}"


def _version(asked: bool) -> None:
    if asked:
        from bentpipe.runners import engine

        print(f"bentpipe {engine.version()}")
        raise typer.Exit


@app.callback()
def _everything(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="print the version of the engine"),
    ] = False,
) -> None:
    pass
