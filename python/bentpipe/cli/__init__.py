"""Command line. Exit status: 0 done, 1 a run failed or a comparison got worse, 2 bad input, 130 interrupted.

The commands are listed here in the order of ``--help``. ``lazy_group`` imports the module of a command when
the command is called. A command imports heavy libraries itself.

* ``common``: options, errors and plans that commands share.
* ``console``: tables, JSON, progress and messages.
* ``stdio``: standard output and standard error.
* ``figure_options``: options of figures as files.
* ``open_page``: option ``--open``.
* ``command_examples``: examples at the end of each ``--help``.
* ``lazy_group``: groups that import a command when it is used.
* ``usage_errors``: messages about wrong command lines.
* ``new``: ``new``.
* ``run``: ``run``.
* ``check``: ``check`` and ``schema``.
* ``results``: ``show``, ``calls``, ``users``, ``query``, ``diff``, ``pack`` and ``verify``.
* ``report``: ``report`` and ``export``.
* ``catalogue``: ``examples``, ``check-controller`` and ``check-scheduler``.
* ``presets``: ``presets``.
* ``capacity``: ``capacity``.
* ``break_even``: ``break-even``.
* ``link_layer``: ``link-layer``.
* ``orbit``: ``orbit``.
* ``fit``: ``fit``.
* ``import_har``: ``import-har``.
* ``shell``: ``shell`` and ``change``.
* ``watch``: ``watch``.
* ``time_command``: ``time``.
* ``perf``: ``perf``.
* ``browse``: ``browse`` and ``serve``.
* ``browse_site``: ``browse`` for a URL.
* ``suite``: ``suite``.
* ``compare_engines``: ``compare-engines``.
* ``compare_builds``: ``compare-builds``.
* ``dtn``: ``dtn``.
* ``doctor``: ``doctor``.
* ``help``: ``help``.
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
        "new": "new:new",
        "run": "run:run",
        "check": "check:check",
        "examples": "catalogue:examples",
        "presets": "presets:presets",
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
        "capacity": "capacity:capacity",
        "break-even": "break_even:break_even",
        "link-layer": "link_layer:link_layer",
        "orbit": "orbit:orbit:PlacesCommand",
        "fit": "fit:fit",
        "import-har": "import_har:import_har",
    },
    "Real programs (Linux)": {
        "shell": "shell:shell:TrailingCommand",
        "change": "shell:change",
        "watch": "watch:watch",
        "time": "time_command:time:TimeCommand",
        "perf": "perf:perf",
        "browse": "browse:browse",
        "serve": "browse:serve",
    },
    "Validate and test": {
        "suite": "suite:suite",
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
    """Run the command line; report an error of the user in one message with exit status 2."""
    # Objects of modules remain. Repeated collections would take a tenth of the time of a short command.
    gc.set_threshold(GARBAGE)
    stdio.open_all()
    warnings.showwarning = _print_warning
    try:
        _run_command()
    except (KeyboardInterrupt, BrokenPipeError) as end:
        if isinstance(end, BrokenPipeError):
            stdio.drop()
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        if _is_interruption(error):
            raise SystemExit(INTERRUPTED) from None
        # The classes of errors are imported only after an error.
        status, message = _classify_error(error)
        if os.environ.get("BENTPIPE_TRACEBACK"):
            raise
        print(f"error: {message}", file=sys.stderr)
        raise SystemExit(status) from None


def _run_command() -> None:
    """Run the command.

    Ctrl-C raises KeyboardInterrupt in the command. After the command it ends the process without a message.
    """
    is_handled = signal.getsignal(signal.SIGINT) is end_silently
    try:
        if is_handled:
            signal.signal(signal.SIGINT, interrupt)
            sys.unraisablehook = raise_unraisable
        app(prog_name="bentpipe")
    except SystemExit as end:
        if not end.code:
            stdio.close()
        raise
    finally:
        if is_handled:
            signal.signal(signal.SIGINT, end_silently)


def _is_interruption(error: BaseException | None) -> bool:
    """Return whether a library raised this error because of Ctrl-C.

    Pydantic, for example, wraps KeyboardInterrupt while it creates a class. The text of such an error ends
    with KeyboardInterrupt, or its causes do. An error after a Ctrl-C that ended a command regularly has
    neither.
    """
    visited: list[BaseException] = []
    while error is not None and error not in visited:
        if isinstance(error, KeyboardInterrupt) or _INTERRUPTED_TEXT.search(str(error)):
            return True
        visited.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


_INTERRUPTED_TEXT = re.compile(r"\bKeyboardInterrupt:?\s*\Z")


GARBAGE = 50_000
"""New objects until the garbage collector runs; Python's default is 700."""


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _classify_error(error: Exception) -> tuple[int, str]:
    """Return exit status and message of an error."""
    from bentpipe.runners.runner import RunnerError
    from bentpipe.scenario.errors import ScenarioError, UserCodeError
    from bentpipe.store.files import DiskError, StoreError

    if isinstance(error, (DiskError, UserCodeError)):
        return FAILED, str(error)
    if isinstance(error, (ScenarioError, StoreError, RunnerError)):
        return BAD_INPUT, str(error)
    if isinstance(error, ImportError):
        return BAD_INPUT, f"{error}; `bentpipe doctor` lists what is missing"
    if isinstance(error, stdio.OutputError):
        stdio.drop()
        return BAD_INPUT, f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        is_disk_full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        file_name = f"{error.filename}: " if error.filename else ""
        return FAILED if is_disk_full else BAD_INPUT, f"{file_name}{error.strerror or error}"
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == "bentpipe._engine":
        return (
            BAD_INPUT,
            f"the engine is older than the Python package: it has no {error.name!r}; `make engine` rebuilds it",
        )
    hint = "set BENTPIPE_TRACEBACK=1 for a traceback"
    return FAILED, f"internal error: {type(error).__name__}: {error}; {hint}"


def _version(requested: bool) -> None:
    """Print the version of the engine and exit."""
    if requested:
        from bentpipe.runners import engine

        print(f"bentpipe {engine.version()}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="print the version of the engine"),
    ] = False,
) -> None:
    pass
