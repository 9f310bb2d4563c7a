"""Files of a store: written whole or not at all, and read as they were written.

Checksums are lists of them as sha256sum(1) has them. SHA-256 because every system has the tool, every Python the
function, and today's processors instructions for it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path

from bentpipe.scenario.input_file import InputFileError, check_kind, open_input

__all__ = [
    "FULL",
    "SUMS",
    "DiskError",
    "EmptyStoreError",
    "MissingTableError",
    "StoreError",
    "atomic_file",
    "changed",
    "check_folder",
    "check_no_folder",
    "checksum",
    "listing",
    "read_listing",
    "readable",
    "remove_folders",
    "remove_leftover",
    "replace_file",
    "sync",
    "sync_all",
    "write_atomic",
    "write_directory_atomic",
    "write_soon",
]

SUMS = "SHA256SUMS"

FULL = (errno.ENOSPC, errno.EDQUOT)


class StoreError(ValueError):
    """A directory that is not a store, or not the one that is needed; the message is for people."""


class EmptyStoreError(StoreError):
    """No store is there yet, or no run of it has finished."""


class MissingTableError(StoreError):
    """A table that no finished run has."""


class DiskError(StoreError):
    """The disk is full, or refuses."""


def checksum(data: bytes) -> str:
    """The checksum of ``data``."""
    return hashlib.sha256(data).hexdigest()


def listing(files: Mapping[str, str]) -> bytes:
    """``SHA256SUMS`` of files by their names and checksums."""
    return "".join(_line(name, files[name]) for name in sorted(files)).encode()


def _line(name: str, checksum: str) -> str:
    plain = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "" if plain == name else "\\"  # as sha256sum(1) does
    return f"{mark}{checksum}  {plain}\n"


_LINE = re.compile(r"(\\?)([0-9a-f]{64})  ([^/\n]+)")


def read_listing(text: str) -> dict[str, str] | None:
    """Names and checksums of :func:`listing`; None where it is no list of them."""
    found = {}
    for line in text.removesuffix("\n").split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        name = match[3]
        if match[1]:
            name = re.sub(r"\\(.)", lambda escape: {"n": "\n", "r": "\r"}.get(escape[1], escape[1]), name)
        found[name] = match[2]
    return found if text.endswith("\n") else None


_seen: dict[Path, tuple[int, int, int, str]] = {}
"""Files that were as they were written, with what changes when they do."""


def changed(files: list[tuple[Path, str | None]]) -> dict[Path, str]:
    """Which files are not as they were written, and what is wrong with them.

    A file without a checksum has to be a regular one of a bounded size, so that a reader of tables does not wait for a
    pipe. Ctrl-C ends the threads that read large files.
    """
    found = {path: text for path, checksum in files if checksum is None and (text := _irregular(path))}
    wanted = [(path, checksum) for path, checksum in files if checksum is not None]
    if not wanted:
        return found
    large = [file for file in wanted if _size(file[0]) >= _LARGE]
    said = {}
    if len(large) > 1:
        from concurrent.futures import ThreadPoolExecutor

        stop = threading.Event()
        with ThreadPoolExecutor(min(len(large), os.cpu_count() or 1)) as pool:
            try:
                said = dict(zip(large, pool.map(partial(_wrong, stop=stop), large), strict=True))
            except BaseException:
                stop.set()  # or leaving `with` would wait until each is read to its end
                raise
    found |= {file[0]: said[file] if file in said else _wrong(file) for file in wanted}
    return {path: text for path, text in found.items() if text}


def _irregular(path: Path) -> str:
    try:
        state = path.lstat()
        check_kind(path, state)
        _check_size(path, state)
    except InputFileError as error:
        return f"{path} is damaged: {error.strerror}"
    except OSError:
        return ""  # said by whoever reads it
    return ""


MOST_MEMBER_BYTES = 64 << 30
"""A file of a run: it was in memory as a whole when it was written."""


def _check_size(path: Path, state: os.stat_result) -> None:
    """Raise InputFileError for a file that is larger than any of a run: a sparse one may have 8 EB."""
    if state.st_size > MOST_MEMBER_BYTES:
        raise InputFileError(f"it is larger than {MOST_MEMBER_BYTES:,} bytes", path)


def check_no_folder(file: Path) -> None:
    """Raise StoreError where a folder is in the place of a store's own file: somebody may need what is in it."""
    if file.is_dir() and not file.is_symlink():
        raise StoreError(
            f"{file} is a folder, expected a regular file; remove it, and the same command writes it anew"
        )


def check_folder(folder: Path) -> None:
    """Raise StoreError where a folder of a store is a link: it would lead a reader, and a writer, out of the store."""
    if folder.is_symlink():
        raise StoreError(
            f"{folder} is a link, expected a folder: what is in a store is read and written there alone"
        )


_LARGE = 1 << 20
"""Bytes from which on a file is read beside others: of a smaller one handing it to a thread takes ten times as long."""


def _size(path: Path) -> int:
    """Bytes of a file; 0 where it cannot be looked at, which is said when it is read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _wrong(file: tuple[Path, str], stop: threading.Event | None = None) -> str:
    path, checksum = file
    try:
        with open_input(path, links=False) as opened:
            state = os.fstat(opened.fileno())
            _check_size(path, state)
            key = (state.st_ino, state.st_size, state.st_mtime_ns, checksum)
            if _seen.get(path) == key:
                return ""
            if _checksum(opened, stop) != checksum:
                return f"{path} is damaged: it is not what was written"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} is damaged: {error.strerror}"
    _seen[path] = key
    return ""


def _checksum(file: FileIO, stop: threading.Event | None) -> str:
    """Return the checksum of an open file; that of its beginning once ``stop`` is set."""
    found = hashlib.sha256()
    part = memoryview(bytearray(1 << 18))
    while (length := file.readinto(part)) and not (stop is not None and stop.is_set()):
        found.update(part[:length])
    return found.hexdigest()


@contextmanager
def readable(store: Path, table: str) -> Iterator[None]:
    """Turns what Polars and DuckDB say of a damaged file that has no checksum into a StoreError that names it."""
    try:
        yield
    except Exception as error:
        import duckdb  # not before there is something wrong: it takes longer than what is read here
        import polars as pl

        if not isinstance(error, (pl.exceptions.PolarsError, duckdb.Error)):
            raise
        for file in sorted((store / "runs").glob(f"*/{table}.parquet")):
            if _irregular(file):
                continue
            try:
                pl.read_parquet(file)
            except (pl.exceptions.PolarsError, OSError):
                raise StoreError(
                    f"{file} is damaged; remove {file.parent} and run the scenario again, which makes just this run"
                ) from error
        raise StoreError(f"{store}: table {table} cannot be read: {error}") from error


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A new file beside ``path``, which takes its place when it is whole; nothing of it stays if that fails.

    Raises:
        OSError: it cannot be written; it names ``path``.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    part = path.with_name(f".new-{path.name}")
    try:
        with _own(part):
            try:
                yield part
                sync(part)
                replace_file(part, path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _named(error, path) from error


@contextmanager
def _own(part: Path) -> Iterator[None]:
    """A file that is this process' alone: others that write the same one wait, and find it gone."""
    while True:
        remove_leftover(part, keep=stat.S_ISREG)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        try:
            with suppress(OSError):  # a disk without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_at(descriptor, part):
                continue
            os.ftruncate(descriptor, 0)  # what one left that was killed
            yield
            return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _named(error: OSError, path: Path) -> OSError:
    """The error with the file's name. Polars says the system's number in words alone."""
    told = re.search(r"\(os error (\d+)\)", str(error))
    number = error.errno or (int(told[1]) if told else errno.EIO)
    return OSError(number, os.strerror(number), str(path))


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all. Raises OSError that names it."""
    with atomic_file(path) as part:
        part.write_bytes(data)


def write_soon(path: Path, data: bytes) -> None:
    """Writes a file that :func:`sync_all` comes for soon.

    The system is asked to begin at once, so that all files of a run are on their way to the disk together when the
    first fsync waits, and little is left to the others.
    """
    with path.open("wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        if sys.platform == "linux":
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_directory_atomic(store: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Makes a directory of a store with all its files at once, in place of what is there.

    Raises:
        OSError: it cannot be written; nothing of it stays, and what is there does.
    """
    part, place = _aside(store, folder), store / folder
    try:
        remove_leftover(part)
        part.mkdir()
        for name, content in files.items():
            write_soon(part / name, content)
        sync_all([*(part / name for name in files), part])
        if place.is_dir() and not place.is_symlink():
            remove_folders(store, [folder])
        else:
            place.unlink(missing_ok=True)
        replace_file(part, place)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def remove_folders(store: Path, folders: Sequence[str]) -> None:
    """Removes directories of a store, each at once: half of one in its place would be a damaged run."""
    gone = []
    for folder in folders:
        aside = _aside(store, folder, "-gone")
        remove_leftover(aside)
        (store / folder).rename(aside)
        gone.append(aside)
    for parent in {(store / folder).parent for folder in folders}:
        _sync_names(parent)
    for aside in gone:
        remove_leftover(aside)


def remove_leftover(path: Path, keep: Callable[[int], bool] = lambda _: False) -> None:
    """Remove what an ended process, or a stranger, left at ``path``: a file, a folder, or a link but not its target.

    Args:
        path: the place of a file or folder that is about to be made.
        keep: of a mode (stat(2)): whether it may stay.

    Raises:
        OSError: it cannot be removed.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if keep(mode):
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _aside(store: Path, folder: str, more: str = "") -> Path:
    """Where what is not in its place yet, or any more, is: whoever writes to the store next removes it."""
    return store / f".part-{folder.rpartition('/')[2]}{more}"


def sync_all(paths: Iterable[Path]) -> None:
    """Synchronises all, one after the other: once the disk has been told, threads cost more than they save."""
    for path in paths:
        sync(path)


def sync(path: Path) -> None:
    """Hands a file, or a directory's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(part: Path, path: Path) -> None:
    """Rename a file or folder whose content is on the disk, and hand its new name to the disk.

    Without the second step a crash of the system may bring back the file that was there before (fsync(2)).

    Raises:
        OSError: it cannot be renamed, or the disk refuses.
    """
    part.rename(path)
    _sync_names(path.parent)


def _sync_names(folder: Path) -> None:
    """Hand a directory's names to the disk, where its file system and its permissions let one do so."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM):
            raise
