"""Messages about wrong command lines: an unknown command or option, a missing or wrong value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typer.core import TyperGroup

__all__ = ["report_usage_errors", "unknown_command"]

_RELATIONS = (
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "more than"),
    ("less than", "less than"),
)
"""Words of the validation library, and those of the messages."""


_LISTS = '"examples" lists example scenarios, "presets" lists access networks'
_REPLACEMENTS = {
    "init": '"new" writes a scenario',
    "list": _LISTS,
    "ls": _LISTS,
    "brief": '"report --brief" writes the brief of a store',
}
"""Words that name no command, and the commands of bentpipe with the same purpose."""

_SYNONYMS = {
    "pep": ("proxy", "proxies", "peps"),
    "down": ("bandwidth", "rate", "downlink", "download", "capacity"),
    "up": ("uplink", "upload"),
    "rtt": ("delay", "latency", "ping"),
    "loss": ("packet-loss", "plr", "per", "losses"),
    "background-users": ("users", "load"),
    "mix": ("users", "traffic"),
    "controllers": ("congestion", "cc", "controller"),
    "tcp": ("congestion", "cc"),
    "congestion": ("cc", "controller"),
    "out": ("output", "folder", "dir"),
    "jobs": ("workers", "threads", "parallel"),
}
"""Options, and other words of the field for them."""

_SETTINGS = {"loss": "path.SEGMENT.both.loss=1%", "delay": "path.SEGMENT.delay=300ms"}
"""Words without an option of their own in commands with ``--set``, and the setting with the same purpose."""


def report_usage_errors(base: type[TyperGroup]) -> type[TyperGroup]:
    """Return the class of groups with usage errors of one line: cause, expected value, nearest right word."""

    class Reporting(base):  # type: ignore[misc, valid-type]
        def make_context(self, *arguments: Any, **options: Any) -> Any:
            try:
                return super().make_context(*arguments, **options)
            except Exception as error:
                _refuse(error)
                raise

        def invoke(self, ctx: typer.Context) -> Any:
            try:
                return super().invoke(ctx)
            except Exception as error:
                _refuse(error)
                raise

    return Reporting


def _refuse(error: Any) -> None:
    """Exit with the message of a usage error. Other errors pass; so does the help of a command without arguments."""
    from bentpipe.cli.common import refuse

    # Typer's copy of Click is private, so that only names and attributes identify the error.
    kind = type(error).__name__
    if not hasattr(error, "format_message") or not hasattr(error, "exit_code") or kind == "NoArgsIsHelpError":
        return
    context = getattr(error, "ctx", None)
    hint = getattr(
        error, "hint", f"see {context.command_path} --help" if context is not None else "see --help"
    )
    refuse(f"{_message(kind, error, context)}; {hint}")


def _message(kind: str, error: Any, context: Any) -> str:
    text = str(error.message)
    if kind == "NoSuchOption":
        return _unknown(error.option_name, _options(context), "option")
    if kind == "BadOptionUsage":
        return f"{error.option_name}: missing, expected a value" if "requires" in text else text.rstrip(".")
    if kind == "MissingParameter" and error.param is not None:
        help_text = re.match(r"[^;:\[]*[^;:\[ ]", getattr(error.param, "help", None) or "")
        return f"{_name(error.param)}: missing" + (f", expected: {help_text[0]}" if help_text else "")
    if kind == "BadParameter" and error.param is not None:
        return f"{_name(error.param)}: {_expectation(error)}"
    if command := re.fullmatch(r"No such command '(.*)'\..*", text, re.DOTALL):
        return _unknown(command[1], context.command.list_commands(context), "command")
    if extra := re.fullmatch(r"Got unexpected extra argument\(s\) \((.*)\)", text, re.DOTALL):
        return f'unexpected argument "{extra[1]}"'
    return text.rstrip(".")


def _unknown(found: str, names: list[str], kind: str) -> str:
    """Return the message for an unknown word, with the nearest one, or with all of a short list."""
    from bentpipe.scenario.quantity_text import nearest

    if kind == "command":
        return unknown_command(found, names)
    word, options = found.lstrip("-"), [name.lstrip("-") for name in names]
    near = next((name for name in options if word in _SYNONYMS.get(name, ())), None)
    if near is None and "set" in options and word in _SETTINGS:
        return f'no {kind} "{found}"; did you mean --set "{_SETTINGS[word]}"?'
    if near is None and word == "users":
        hint = '"bentpipe capacity" finds how many users fit; "count" of a flow sets their number'
        return f'no {kind} "{found}"; {hint}'
    near = near or nearest(word, options)
    return f'no {kind} "{found}"' + (f'; did you mean "--{near}"?' if near else "")


def unknown_command(found: str, names: Iterable[str]) -> str:
    """Return the message for an unknown command among ``names``: the one with its purpose, or the nearest one."""
    from bentpipe.scenario.errors import unknown_name

    names = list(names)
    if "new" in names and found in _REPLACEMENTS:
        return f'no command "{found}"; {_REPLACEMENTS[found]}'
    return unknown_name(found, names, "command")


def _options(context: Any) -> list[str]:
    return [
        word
        for parameter in context.command.params
        for word in (*parameter.opts, *parameter.secondary_opts)
        if word.startswith("--")
    ]


def _name(parameter: Any) -> str:
    """Return an option as it is written, or an argument as the help shows it."""
    words = [word for word in parameter.opts if word.startswith("--")]
    return str(words[0] if words else re.split(r"\W", parameter.metavar or parameter.name.upper())[0])


def _expectation(error: Any) -> str:
    """Return found and expected value of a wrong parameter."""
    text, found = str(error.message), ""
    details = getattr(error.__cause__, "errors", None)
    if details is not None:
        detail = details()[0]
        text, found = str(detail["msg"]), f'found "{detail["input"]}", '
    choices = re.search(r"'(.*)' is not one of (.*?)\.?$", text)
    if choices:
        return f'found "{choices[1]}", expected one of: {choices[2].replace(chr(39), "")}'
    for words, relation in _RELATIONS:
        if limit := re.search(rf"{words} (\S+?)\.?$", text):
            return f"{found}expected {relation} {limit[1]}"
    if "valid integer" in text:
        return f"{found}expected a whole number"
    if "valid number" in text:
        return f"{found}expected a number"
    return text.rstrip(".")
