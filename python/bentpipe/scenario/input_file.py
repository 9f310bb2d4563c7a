"""Reading of untrusted files: opened without blocking, with bounded size and bounded nesting.

A path can be a link to a device without an end or a pipe without a writer. Only regular files are accepted. A file that
the user or a scenario names may be a link; a member of a store may not (``links=False``). The command line also accepts
pipes that a shell has opened: ``/dev/stdin`` and ``/dev/fd/N`` of ``<(COMMAND)`` (``pipes=True``).
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
"""Size limit of files that people write: a scenario, a preset, the configuration of a node."""

MOST_DATA_BYTES = 512 << 20
"""Size limit of data: a trace, a log, a contact plan, the plan of a store. It holds 5,000,000 lines of 100 bytes."""

MOST_DEPTH = 100
"""Limit of nested tables and lists and of the parts of a dotted key. A scenario has fewer than 10."""


class InputFileError(OSError):
    """Path of no regular file, or of a file that is too large; ``strerror`` is the message."""

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
    """Raise InputFileError unless ``state`` belongs to a regular file."""
    if not stat.S_ISREG(state.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(state.st_mode)), "something else")
        raise InputFileError(f"it is {kind}, expected a regular file", path)


def _check_name(path: Path) -> None:
    """Raise InputFileError for an impossible file name, for which system functions raise ValueError."""
    try:
        if b"\0" not in os.fsencode(path):
            return
    except UnicodeEncodeError:
        pass
    raise InputFileError("no file can have such a name", path)


def open_input(path: Path, *, links: bool = True, pipes: bool = False) -> io.FileIO:
    """Open a file for reading, unbuffered and without blocking.

    Args:
        path: the file.
        links: whether the path itself may be a symbolic link.
        pipes: whether ``/dev/stdin`` and ``/dev/fd/N`` are the descriptors of the process, of any kind.

    Raises:
        OSError: the file cannot be opened; InputFileError: it is no regular file.
    """
    if pipes and (number := _descriptor(path)) is not None:
        return io.FileIO(os.dup(number))
    _check_name(path)
    # Opening some devices has side effects, hence the check before; the check after excludes a race.
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
    """Open a text of any length for reading by line. Raises OSError as :func:`open_input`."""
    return io.TextIOWrapper(io.BufferedReader(open_input(path)), "utf-8-sig", newline="")


def _descriptor(path: Path) -> int | None:
    """Return the number of an open descriptor that ``path`` names, or None."""
    text = str(path)
    if text == "/dev/stdin":
        return 0
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,9})", text)
    return int(match[1]) if match else None


def read_input(
    path: Path, max_bytes: int = MOST_DATA_BYTES, *, links: bool = True, pipes: bool = False
) -> bytes:
    """Return the content of a file of at max_bytes ``max_bytes`` bytes.

    Raises:
        OSError: as :func:`open_input`; InputFileError: the file is larger.
    """
    with open_input(path, links=links, pipes=pipes) as file:
        size = os.fstat(file.fileno()).st_size
        parts: list[bytes] = []
        length = 0
        while length <= max_bytes and size <= max_bytes:
            part = os.read(file.fileno(), min(max_bytes + 1 - length, max(size + 1 - length, 1 << 16)))
            if not part:
                return b"".join(parts)
            parts.append(part)
            length += len(part)
    raise InputFileError(f"it is larger than {max_bytes:,} bytes", path)


def read_input_text(
    path: Path,
    max_bytes: int = MOST_DATA_BYTES,
    *,
    links: bool = True,
    pipes: bool = False,
    encoding: str = "utf-8-sig",
    errors: str = "strict",
) -> str:
    """Return the text of a file like ``Path.read_text``, without the byte order mark of spreadsheets.

    Raises:
        OSError: as :func:`read_input`.
        UnicodeDecodeError: the file is not text in this encoding.
    """
    return decode_text(read_input(path, max_bytes, links=links, pipes=pipes), encoding, errors)


def decode_text(data: bytes, encoding: str = "utf-8-sig", errors: str = "strict") -> str:
    """Return bytes as text with universal newlines."""
    return io.TextIOWrapper(io.BytesIO(data), encoding, errors).read()


_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]++|\\[^\n])*+"|'[^'\n]*+')"""
_TOML_TOKENS = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5}|\\?\Z)'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5}|\Z)"
    r"|\#[^\n]*+"
    rf"|(?P<key>{_KEY}(?:[ \t]*+\.[ \t]*+{_KEY})*+)"
    r"""|["'].*+""",  # an unterminated text: parsers stop here
    re.DOTALL,
)
"""Tokens of TOML. Each match also ends, so that the scan reads each character only a few times."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table of a TOML document.

    The parser of Python takes memory and time quadratic in the parts of a dotted key, so that they are counted first.

    Raises:
        tomllib.TOMLDecodeError: not TOML.
        ValueError: an overlong number, or a key or value with too many levels.
    """
    for token in _TOML_TOKENS.finditer(text):
        key = token["key"]
        if key is not None and key.count(".") >= MOST_DEPTH:
            parts = len(re.findall(_KEY, key))
            if parts > MOST_DEPTH:
                line = text.count("\n", 0, token.start()) + 1
                raise ValueError(f"line {line}: a key of {parts:,} parts, expected at most {MOST_DEPTH}")
    try:
        return cast("dict[str, Any]", _check_depth(tomllib.loads(text)))
    except RecursionError:
        raise ValueError(_DEPTH_MESSAGE) from None


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Raises:
        json.JSONDecodeError: not JSON.
        ValueError: an overlong number, or a value with too many levels.
    """
    try:
        return _check_depth(json.loads(text))
    except RecursionError:
        raise ValueError(_DEPTH_MESSAGE) from None


_DEPTH_MESSAGE = f"it is nested more than {MOST_DEPTH} levels deep"


def _check_depth(value: Any) -> Any:
    """Return ``value``. Raises ValueError if it has too many levels for recursive functions."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            member
            for container in level
            for member in (
                container.values()
                if type(container) is dict
                else container
                if type(container) is list
                else ()
            )
            if type(member) is dict or type(member) is list
        ]
        if not level:
            return value
    raise ValueError(_DEPTH_MESSAGE)
