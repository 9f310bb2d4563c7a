"""Files that somebody else may have made: opened without a wait, read up to a bound, parsed up to a depth.

A path can be a link to a device without an end or a pipe that nobody writes to. Only regular files pass. A file that a
user or his scenario names may be a link; a member of a store may not (``links=False``). The command line also passes
pipes that a shell has opened: ``/dev/stdin`` and, of ``<(COMMAND)``, ``/dev/fd/N`` (``pipes=True``).
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, TextIO, cast

__all__ = [
    "MOST_DATA_BYTES",
    "MOST_DEPTH",
    "MOST_DOCUMENT_BYTES",
    "InputFileError",
    "check_kind",
    "decode_text",
    "open_input",
    "open_input_text",
    "parse_json",
    "parse_toml",
    "read_input",
    "read_input_text",
]

MOST_DOCUMENT_BYTES = 64 << 20
"""A scenario, a preset, a file of a node: what people write."""

MOST_DATA_BYTES = 512 << 20
"""A trace, a log, a contact plan, the plan of a store: 5,000,000 lines of 100 bytes."""

MOST_DEPTH = 100
"""Levels of tables and lists, and parts of a dotted key. A scenario has fewer than 10."""


class InputFileError(OSError):
    """A path that leads to no regular file, or to one that is too large; ``strerror`` is for people."""

    def __init__(self, text: str, path: Path) -> None:
        super().__init__(errno.EINVAL, text, str(path))


_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_kind(path: Path, state: os.stat_result) -> None:
    """Raise InputFileError unless ``state`` is a regular file's."""
    if not stat.S_ISREG(state.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(state.st_mode)), "something else")
        raise InputFileError(f"it is {kind}, expected a regular file", path)


def _check_name(path: Path) -> None:
    """Raise InputFileError for a name that no file can have, of which the system's functions raise ValueError."""
    try:
        if b"\0" not in os.fsencode(path):
            return
    except UnicodeEncodeError:
        pass
    raise InputFileError("no file can have such a name", path)


def open_input(path: Path, *, links: bool = True, pipes: bool = False) -> io.FileIO:
    """Open a file for reading, unbuffered, without waiting for anything.

    Args:
        path: the file.
        links: whether the path itself may be a symbolic link.
        pipes: whether ``/dev/stdin`` and ``/dev/fd/N`` are the process' own descriptors, whatever they are.

    Raises:
        OSError: it cannot be opened; InputFileError: it is no regular file.
    """
    if pipes and (number := _descriptor(path)) is not None:
        return io.FileIO(os.dup(number))
    _check_name(path)
    # Opening some devices has effects, so that the kind is looked at before and, of what was opened, again.
    check_kind(path, path.stat(follow_symlinks=links))
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    file = io.FileIO(os.open(path, flags))
    try:
        check_kind(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def open_input_text(path: Path) -> TextIO:
    """Open a text of any length, to be read line by line. Raises OSError as :func:`open_input`."""
    return io.TextIOWrapper(io.BufferedReader(open_input(path)), "utf-8-sig", newline="")


def _descriptor(path: Path) -> int | None:
    """Return the number of an open descriptor that ``path`` names, or None."""
    text = str(path)
    if text == "/dev/stdin":
        return 0
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,9})", text)
    return int(found[1]) if found else None


def read_input(path: Path, most: int = MOST_DATA_BYTES, *, links: bool = True, pipes: bool = False) -> bytes:
    """Return the content of a file of at most ``most`` bytes.

    Raises:
        OSError: as :func:`open_input`; InputFileError: it is larger.
    """
    with open_input(path, links=links, pipes=pipes) as file:
        size = os.fstat(file.fileno()).st_size
        parts: list[bytes] = []
        length = 0
        while length <= most and size <= most:
            part = os.read(file.fileno(), min(most + 1 - length, max(size + 1 - length, 1 << 16)))
            if not part:
                return b"".join(parts)
            parts.append(part)
            length += len(part)
    raise InputFileError(f"it is larger than {most:,} bytes", path)


def read_input_text(
    path: Path,
    most: int = MOST_DATA_BYTES,
    *,
    links: bool = True,
    pipes: bool = False,
    encoding: str = "utf-8-sig",
    errors: str = "strict",
) -> str:
    """Return the text of a file, as ``Path.read_text`` does; spreadsheets put a byte order mark in front.

    Raises:
        OSError: as :func:`read_input`.
        UnicodeDecodeError: it is not text in this encoding.
    """
    return decode_text(read_input(path, most, links=links, pipes=pipes), encoding, errors)


def decode_text(data: bytes, encoding: str = "utf-8-sig", errors: str = "strict") -> str:
    """Return bytes as text with the ends of lines of this system."""
    return io.TextIOWrapper(io.BytesIO(data), encoding, errors).read()


_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]++|\\[^\n])*+"|'[^'\n]*+')"""
_TOML_TOKENS = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5}|\\?\Z)'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5}|\Z)"
    r"|\#[^\n]*+"
    rf"|(?P<key>{_KEY}(?:[ \t]*+\.[ \t]*+{_KEY})*+)"
    r"""|["'].*+""",  # a text that its line does not end: no parser reads on
    re.DOTALL,
)
"""Tokens of TOML. Wherever one begins it also ends, so that the scan reads no letter more than a few times."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table of a TOML document.

    Python's parser takes memory and time by the square of the parts of a dotted key, so that these are counted first.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML.
        ValueError: a number without end, a key or a value that is nested too deeply.
    """
    for token in _TOML_TOKENS.finditer(text):
        key = token["key"]
        if key is not None and key.count(".") >= MOST_DEPTH:
            parts = len(re.findall(_KEY, key))
            if parts > MOST_DEPTH:
                line = text.count("\n", 0, token.start()) + 1
                raise ValueError(f"line {line}: a key of {parts:,} parts, expected at most {MOST_DEPTH}")
    try:
        return cast("dict[str, Any]", _checked(tomllib.loads(text)))
    except RecursionError:
        raise ValueError(_DEEP) from None


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Raises:
        json.JSONDecodeError: it is not JSON.
        ValueError: a number without end, or a value that is nested too deeply.
    """
    try:
        return _checked(json.loads(text))
    except RecursionError:
        raise ValueError(_DEEP) from None


_DEEP = f"it is nested more than {MOST_DEPTH} levels deep"


def _checked(value: Any) -> Any:
    """Return ``value``; raise ValueError if it is nested too deeply for the functions that go through it."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            member
            for one in level
            for member in (one.values() if type(one) is dict else one if type(one) is list else ())
            if type(member) is dict or type(member) is list
        ]
        if not level:
            return value
    raise ValueError(_DEEP)
