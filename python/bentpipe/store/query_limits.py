"""Limits of a query: memory, threads, temporary files and Ctrl-C.

DuckDB checks for an interrupt only between two blocks of rows, and counts only the memory of its buffers. Each call
therefore has its own thread, while the thread of the caller handles Ctrl-C and the memory of the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.store.files import StoreError
from bentpipe.store.query_frame import OPTIONAL_PACKAGES, require, to_polars

if TYPE_CHECKING:
    import duckdb
    import polars

__all__ = ["Guard", "QueryLimitError", "QueryLimits", "Relation", "SpillFolder"]

_Result = TypeVar("_Result")

DEFAULT_MEMORY = "2 GB"
DEFAULT_SPILL = "4 GB"

POLL_S = 0.1
"""Interval of the checks for Ctrl-C and memory."""

INTERRUPT_S = 1.0
"""Time after an interrupt until a query that goes on is abandoned."""

SLACK_BYTES = 256 << 20
"""Permitted growth of the process above the memory limit: freed blocks that the allocator still holds."""


class QueryLimitError(StoreError):
    """Query that exceeds its limit of memory or temporary space."""


@dataclass(frozen=True)
class QueryLimits:
    """Limits of a query.

    Args:
        memory: bytes.
        threads: processors; None: those that this process may use.
        spill: bytes of temporary files, for data that exceeds the memory.
    """

    memory: int
    threads: int | None
    spill: int

    @classmethod
    def parse(
        cls, memory: str | None = None, threads: int | None = None, spill: str | None = None
    ) -> QueryLimits:
        """Parse limits of options, such as ``"2 GB"``; None is the default.

        Raises:
            ScenarioError: invalid limit; the source is the name of the argument.
        """
        from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
        from bentpipe.scenario.quantities import Size, UnitError

        sizes = {}
        for name, text in (("memory", memory or DEFAULT_MEMORY), ("spill", spill or DEFAULT_SPILL)):
            try:
                sizes[name] = Size.parse(text).bytes
            except (UnitError, ValueError) as error:
                raise ScenarioError([(name, str(error))], SOURCE_ARGUMENT) from None
        if sizes["memory"] < LEAST_MEMORY:
            raise ScenarioError([("memory", f'found "{memory}", expected at least "32 MB"')], SOURCE_ARGUMENT)
        if threads is not None and threads < 1:
            raise ScenarioError([("threads", f"found {threads}, expected at least 1")], SOURCE_ARGUMENT)
        if threads is not None and threads > MOST_THREADS:
            raise ScenarioError(
                [("threads", f"found {threads}, expected at most {MOST_THREADS}")], SOURCE_ARGUMENT
            )
        return cls(sizes["memory"], threads, sizes["spill"])

    def apply(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        """Apply the limits to a connection; temporary files go into ``folder``."""
        threads = self.threads or len(os.sched_getaffinity(0))
        place = str(folder).replace("'", "''")
        for setting in (
            f"memory_limit = '{self.memory}B'",
            f"threads = {threads}",
            f"temp_directory = '{place}'",
            f"max_temp_directory_size = '{self.spill}B'",
        ):
            connection.execute(f"SET {setting}")


LEAST_MEMORY = 32_000_000
"""Minimum memory: with less, DuckDB refuses the statements that open a store."""

MOST_THREADS = 1024
"""Maximum threads: DuckDB starts all of them at once."""

PREFIX = "bentpipe-query-"

UNUSED_S = 60.0
"""Age in s from which a folder without an owner is removed: the owner of a younger one may not have its lock yet."""


class SpillFolder:
    """Folder for temporary files, removed with its query, or by a later query after a kill.

    The owner holds a lock of the folder (flock(2)), which the system releases at any end of the process.
    """

    def __init__(self) -> None:
        """Create the folder, after removing folders without owners."""
        for other in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            _remove_unowned(other)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._descriptor: int | None = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove the folder and its files; repeated calls and calls of signal handlers are valid."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(descriptor)


def _remove_unowned(folder: Path) -> None:
    """Remove the folder of a killed query, unless it is in use, young or of another user."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            state = os.fstat(descriptor)
            if state.st_uid == os.getuid() and time.time() - state.st_mtime > UNUSED_S:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


class Guard:
    """Calls of a connection with limits on memory, interruptible by Ctrl-C."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, limits: QueryLimits) -> None:
        self._connection = connection
        self._limits = limits
        self.abandoned = False
        """Whether a call did not end after an interrupt: its thread goes on, and the connection is unusable."""
        self._thread: threading.Thread | None = None
        """Thread of the latest call."""

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Return the result of ``function``, or raise its error. Calls inside ``function`` share its limits.

        Raises:
            KeyboardInterrupt: Ctrl-C; the query has ended or is abandoned.
            QueryLimitError: the query exceeds memory or temporary space.
        """
        import duckdb

        if self.abandoned:
            raise StoreError("an interrupted query is still running; connect again")
        if threading.current_thread() is self._thread:
            return function()
        results: list[_Result] = []
        errors: list[BaseException] = []
        start_lock, done = threading.Lock(), threading.Event()

        def run_function() -> None:
            if not start_lock.acquire(blocking=False):
                return  # the interrupt came before the start
            try:
                results.append(function())
            except BaseException as error:  # noqa: BLE001 - raised where the query was asked
                errors.append(error)
            done.set()

        max_bytes = _resident_bytes() + self._limits.memory + SLACK_BYTES
        self._thread = threading.Thread(target=run_function, daemon=True)
        try:
            self._thread.start()
            while not done.wait(POLL_S):
                if _resident_bytes() > max_bytes:
                    self._interrupt(start_lock, done)
                    raise self._error("memory")
        except KeyboardInterrupt:
            self._interrupt(start_lock, done)
            raise
        try:
            if errors:
                raise errors[0]
            return results[0]
        except duckdb.OutOfMemoryException as error:
            raise self._error("spill" if "max_temp_directory_size" in str(error) else "memory") from None
        except MemoryError:
            raise self._error("memory") from None
        finally:
            errors.clear()  # an error refers to this frame

    def _interrupt(self, start_lock: threading.Lock, done: threading.Event) -> None:
        """End a call; ``turn`` is locked since its start, ``done`` is set at its end."""
        self.abandoned = True  # for a second Ctrl-C during this call
        if start_lock.acquire(blocking=False):
            self.abandoned = False  # the call has not started and will not
            return
        self._connection.interrupt()
        self.abandoned = not done.wait(INTERRUPT_S)

    def _error(self, resource: str) -> QueryLimitError:
        from bentpipe.scenario.quantities import Size

        size = Size(getattr(self._limits, resource))
        resource_name = "memory" if resource == "memory" else "temporary space"
        fix = f'--{resource} SIZE (in Python: {resource}="SIZE") raises the limit'
        return QueryLimitError(f"the query needs more than {size} of {resource_name}; {fix}")


def _resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - ten times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


class Relation:
    """Relation of DuckDB with interruptible methods: they execute the query when they fetch rows."""

    def __init__(self, relation: Any, guard: Guard, owner: object = None) -> None:
        """Wrap a relation; ``owner`` exists as long as it."""
        self._relation = relation
        self._guard = guard
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = getattr(self._relation, name)
        if not callable(attribute):
            return self._wrap(attribute)
        require(*OPTIONAL_PACKAGES.get(name, ()))

        def method(*args: Any, **options: Any) -> Any:
            unwrapped = [one._relation if isinstance(one, Relation) else one for one in args]  # noqa: SLF001
            return self._wrap(self._guard.call(lambda: attribute(*unwrapped, **options)))

        return method

    def pl(self) -> polars.DataFrame:
        """Return the rows as a frame of Polars."""
        return self._guard.call(lambda: to_polars(self))

    def _wrap(self, value: Any) -> Any:
        return Relation(value, self._guard, self._owner) if type(value) is type(self._relation) else value

    def __repr__(self) -> str:
        return self._guard.call(lambda: repr(self._relation))

    def __len__(self) -> int:
        return self._guard.call(lambda: len(self._relation))

    def __contains__(self, name: object) -> bool:
        return name in self._relation.columns

    def __getitem__(self, name: str) -> Any:
        return self._wrap(self._relation[name])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._guard.call(lambda: self._relation.__arrow_c_stream__(requested_schema))
