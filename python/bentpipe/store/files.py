"""Files of a store: atomic writes, and checksums at each read.

Lists of checksums have the format of sha256sum(1). SHA-256, because every system has the tool, Python has the
function, and current processors have instructions for it.
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
"""File with the checksums of a directory."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk."""


class StoreError(ValueError):
    """Directory that is not a store, or not the expected one; the message is for users."""


class EmptyStoreError(StoreError):
    """Missing store, or a store without finished runs."""


class MissingTableError(StoreError):
    """Table that no finished run has."""


class DiskError(StoreError):
    """Disk that is full or refuses an operation."""


def checksum(data: bytes) -> str:
    """Return the checksum of ``data``."""
    return hashlib.sha256(data).hexdigest()


def listing(sums: Mapping[str, str]) -> bytes:
    """Return the content of ``SHA256SUMS`` for checksums by file name."""
    return "".join(_line(name, sums[name]) for name in sorted(sums)).encode()


def _line(name: str, checksum: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    prefix = "" if escaped == name else "\\"  # as sha256sum(1) does
    return f"{prefix}{checksum}  {escaped}\n"


_LINE = re.compile(r"(\\?)([0-9a-f]{64})  ([^/\n]+)")


def read_listing(text: str) -> dict[str, str] | None:
    """Parse the result of :func:`listing`; None: not a list of checksums."""
    sums = {}
    for line in text.removesuffix("\n").split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        name = match[3]
        if match[1]:
            name = re.sub(r"\\(.)", lambda escape: {"n": "\n", "r": "\r"}.get(escape[1], escape[1]), name)
        sums[name] = match[2]
    return sums if text.endswith("\n") else None


_verified: dict[Path, tuple[int, int, int, str]] = {}
"""Verified files, each with inode, size, modification time and checksum."""


def changed(files: list[tuple[Path, str | None]]) -> dict[Path, str]:
    """Return the damaged files, each with a description of the damage.

    A file without a checksum must be a regular file of bounded size, so that readers of tables never block on a pipe.
    Ctrl-C ends the threads that read large files.

    Args:
        files: paths with their checksums; None: unknown checksum.
    """
    damage = {path: reason for path, checksum in files if checksum is None and (reason := _irregular(path))}
    summed = [(path, checksum) for path, checksum in files if checksum is not None]
    if not summed:
        return damage
    large = [file for file in summed if _size(file[0]) >= _LARGE]
    results = {}
    if len(large) > 1:
        from concurrent.futures import ThreadPoolExecutor

        stop = threading.Event()
        with ThreadPoolExecutor(min(len(large), os.cpu_count() or 1)) as pool:
            try:
                results = dict(zip(large, pool.map(partial(_find_damage, stop=stop), large), strict=True))
            except BaseException:
                stop.set()  # or the pool would first read each file to its end
                raise
    damage |= {file[0]: results[file] if file in results else _find_damage(file) for file in summed}
    return {path: reason for path, reason in damage.items() if reason}


def _irregular(path: Path) -> str:
    try:
        state = path.lstat()
        check_kind(path, state)
        _check_size(path, state)
    except InputFileError as error:
        return f"{path} is damaged: {error.strerror}"
    except OSError:
        return ""  # the reader of the file reports it
    return ""


MOST_MEMBER_BYTES = 64 << 30
"""Maximum size of a file of a run: the writer had it in memory as a whole."""


def _check_size(path: Path, state: os.stat_result) -> None:
    """Raise InputFileError for a file above the maximum size: a sparse file may have 8 EB."""
    if state.st_size > MOST_MEMBER_BYTES:
        raise InputFileError(f"it is larger than {MOST_MEMBER_BYTES:,} bytes", path)


def check_no_folder(file: Path) -> None:
    """Raise StoreError if a folder has the place of a store's own file: the user may need its content."""
    if file.is_dir() and not file.is_symlink():
        raise StoreError(f"{file} is a folder, expected a regular file; remove it and rerun the command")


def check_folder(folder: Path) -> None:
    """Raise StoreError if a folder of a store is a symbolic link: it would lead out of the store."""
    if folder.is_symlink():
        raise StoreError(f"{folder} is a link, expected a folder")


_LARGE = 1 << 20
"""Size in bytes from which files are read in parallel: for smaller files a thread costs ten times the read."""


def _size(path: Path) -> int:
    """Return the size of a file; 0 for an inaccessible one, which its reader reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _find_damage(file: tuple[Path, str], stop: threading.Event | None = None) -> str:
    path, checksum = file
    try:
        with open_input(path, links=False) as handle:
            state = os.fstat(handle.fileno())
            _check_size(path, state)
            key = (state.st_ino, state.st_size, state.st_mtime_ns, checksum)
            if _verified.get(path) == key:
                return ""
            if _checksum(handle, stop) != checksum:
                return f"{path} is damaged: checksum mismatch"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} is damaged: {error.strerror}"
    _verified[path] = key
    return ""


def _checksum(file: FileIO, stop: threading.Event | None) -> str:
    """Return the checksum of an open file; of its beginning only, once ``stop`` is set."""
    digest = hashlib.sha256()
    block = memoryview(bytearray(1 << 18))
    while (length := file.readinto(block)) and not (stop is not None and stop.is_set()):
        digest.update(block[:length])
    return digest.hexdigest()


@contextmanager
def readable(store: Path, table: str) -> Iterator[None]:
    """Convert errors of Polars and DuckDB about a damaged file without a checksum into a StoreError with its name."""
    try:
        yield
    except Exception as error:
        import duckdb  # only after an error: the import takes longer than the read
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
                    f"{file} is damaged; remove {file.parent} and rerun the command to repeat this run"
                ) from error
        raise StoreError(f"{store}: table {table} cannot be read: {error}") from error


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file beside ``path``, which replaces ``path`` when it is complete.

    A failure leaves nothing of the new file.

    Raises:
        OSError: the write failed; the error names ``path``.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    part = path.with_name(f".new-{path.name}")
    try:
        with _lock_temporary(part):
            try:
                yield part
                sync(part)
                replace_file(part, path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _name_error(error, path) from error


@contextmanager
def _lock_temporary(part: Path) -> Iterator[None]:
    """Lock the temporary file: other processes that write the same file wait and find it gone."""
    while True:
        remove_leftover(part, keep=stat.S_ISREG)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_at(descriptor, part):
                continue
            os.ftruncate(descriptor, 0)  # content of a killed process
            yield
            return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _name_error(error: OSError, path: Path) -> OSError:
    """Return the error with the name of the file. Polars has the error number only in its text."""
    match = re.search(r"\(os error (\d+)\)", str(error))
    number = error.errno or (int(match[1]) if match else errno.EIO)
    return OSError(number, os.strerror(number), str(path))


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically.

    Raises:
        OSError: the write failed; the error names the file.
    """
    with atomic_file(path) as part:
        part.write_bytes(data)


def write_soon(path: Path, data: bytes) -> None:
    """Write a file that :func:`sync_all` will synchronise soon.

    The call asks the system to start writing at once. All files of a run are then written in parallel while the first
    fsync waits, and the others find little to do.
    """
    with path.open("wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        if sys.platform == "linux":
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_directory_atomic(store: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Create or replace a directory of a store with all its files atomically.

    Raises:
        OSError: the write failed; the old directory remains, and nothing of the new one.
    """
    new, target = _temporary_path(store, folder), store / folder
    try:
        remove_leftover(new)
        new.mkdir()
        for name, content in files.items():
            write_soon(new / name, content)
        sync_all([*(new / name for name in files), new])
        if target.is_dir() and not target.is_symlink():
            remove_folders(store, [folder])
        else:
            target.unlink(missing_ok=True)
        replace_file(new, target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def remove_folders(store: Path, folders: Sequence[str]) -> None:
    """Remove directories of a store, each atomically: half a directory would be a damaged run."""
    removed = []
    for folder in folders:
        aside = _temporary_path(store, folder, "-gone")
        remove_leftover(aside)
        (store / folder).rename(aside)
        removed.append(aside)
    for parent in {(store / folder).parent for folder in folders}:
        _sync_names(parent)
    for aside in removed:
        remove_leftover(aside)


def remove_leftover(path: Path, keep: Callable[[int], bool] = lambda _: False) -> None:
    """Remove a file, folder or link (not its target) that another process left at ``path``.

    Args:
        path: place of a new file or folder.
        keep: returns for a mode (stat(2)) whether the entry may stay.

    Raises:
        OSError: the removal failed.
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


def _temporary_path(store: Path, folder: str, suffix: str = "") -> Path:
    """Return the temporary place of a directory; the next writer of the store removes leftovers there."""
    return store / f".part-{folder.rpartition('/')[2]}{suffix}"


def sync_all(paths: Iterable[Path]) -> None:
    """Synchronise all paths in order: threads cost more than they save."""
    for path in paths:
        sync(path)


def sync(path: Path) -> None:
    """Synchronise a file, or the names of a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(part: Path, path: Path) -> None:
    """Rename a synchronised file or folder, and synchronise its new name.

    Without the second step a system crash may restore the previous file (fsync(2)).

    Raises:
        OSError: the rename or the synchronisation failed.
    """
    part.rename(path)
    _sync_names(path.parent)


def _sync_names(folder: Path) -> None:
    """Synchronise the names of a directory, where file system and permissions allow it."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM):
            raise
