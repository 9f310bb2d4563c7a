"""Limits of a query: memory, threads, temporary files, and its end by Ctrl-C.

DuckDB looks for an interruption between two blocks of rows only, and counts only the memory of its buffers. A call
therefore has a thread of its own, while the caller's thread sees Ctrl-C and the memory of the process.
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

if TYPE_CHECKING:
    import duckdb

__all__ = ["Guard", "QueryLimitError", "QueryLimits", "Relation", "SpillFolder"]

_Found = TypeVar("_Found")

DEFAULT_MEMORY = "2 GB"
DEFAULT_SPILL = "4 GB"

POLL_S = 0.1
"""Ctrl-C and the memory are looked at this often."""

INTERRUPT_S = 1.0
"""A query that DuckDB does not end within this time after its interruption is left to itself."""

SLACK_BYTES = 256 << 20
"""Growth of the process beyond the limit of memory that passes: blocks that are freed and not given back yet."""


class QueryLimitError(StoreError):
    """A query that needs more memory or temporary space than it may have."""


@dataclass(frozen=True)
class QueryLimits:
    """Limits of a query.

    Args:
        memory: bytes.
        threads: processors; None: those that this process may use.
        spill: bytes of temporary files, for what does not fit into memory.
    """

    memory: int
    threads: int | None
    spill: int

    @classmethod
    def parse(
        cls, memory: str | None = None, threads: int | None = None, spill: str | None = None
    ) -> QueryLimits:
        """Read limits as options have them, such as ``"2 GB"``; None is the default.

        Raises:
            ScenarioError: a limit that is none, by the name of its argument.
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
        """Set the limits; temporary files go into ``folder``."""
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
"""With less, DuckDB refuses what opens a store."""

MOST_THREADS = 1024
"""DuckDB starts all of them at once."""

PREFIX = "bentpipe-query-"

UNUSED_S = 60.0
"""A folder without an owner is removed when it is older: a younger one may be about to have an owner."""


class SpillFolder:
    """A folder for temporary files that is removed with its query, or by a later one if that was killed.

    Its owner holds a lock of it (flock(2)), which the system releases however a process ends.
    """

    def __init__(self) -> None:
        """Make the folder, after removing those whose owners are gone."""
        for other in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            _remove_unowned(other)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._descriptor: int | None = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove the folder and what is in it. May be called again, and by a handler of signals."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(descriptor)


def _remove_unowned(folder: Path) -> None:
    """Remove the folder of a query that was killed; leave one that is in use, young, or another user's."""
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
    """Calls of a connection that end with Ctrl-C, and when they take too much memory."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, limits: QueryLimits) -> None:
        self._connection = connection
        self._limits = limits
        self.abandoned = False
        """Whether a call did not end: its thread goes on, and the connection is of no use any more."""
        self._thread: threading.Thread | None = None
        """That of the latest call."""

    def call(self, function: Callable[[], _Found]) -> _Found:
        """Return what ``function`` returns, or raise what it raises. Calls in ``function`` share its bounds.

        Raises:
            KeyboardInterrupt: Ctrl-C; the query has ended, or is abandoned.
            QueryLimitError: it needs more memory or temporary space.
        """
        import duckdb

        if self.abandoned:
            raise StoreError("an earlier query did not end when it was interrupted; connect again")
        if threading.current_thread() is self._thread:
            return function()
        answers: list[_Found] = []
        errors: list[BaseException] = []
        turn, done = threading.Lock(), threading.Event()

        def work() -> None:
            if not turn.acquire(blocking=False):
                return  # it was interrupted before it began
            try:
                answers.append(function())
            except BaseException as error:  # noqa: BLE001 - raised where the query was asked
                errors.append(error)
            done.set()

        most = _resident_bytes() + self._limits.memory + SLACK_BYTES
        self._thread = threading.Thread(target=work, daemon=True)
        try:
            self._thread.start()
            while not done.wait(POLL_S):
                if _resident_bytes() > most:
                    self._interrupt(turn, done)
                    raise self._error("memory")
        except KeyboardInterrupt:
            self._interrupt(turn, done)
            raise
        try:
            if errors:
                raise errors[0]
            return answers[0]
        except duckdb.OutOfMemoryException as error:
            raise self._error("spill" if "max_temp_directory_size" in str(error) else "memory") from None
        except MemoryError:
            raise self._error("memory") from None
        finally:
            errors.clear()  # an error refers to this frame

    def _interrupt(self, turn: threading.Lock, done: threading.Event) -> None:
        """End a call; ``turn`` is held once it has begun, and ``done`` is set when it has ended."""
        self.abandoned = True  # where Ctrl-C comes a second time meanwhile
        if turn.acquire(blocking=False):
            self.abandoned = False  # it has not begun, and will not
            return
        self._connection.interrupt()
        self.abandoned = not done.wait(INTERRUPT_S)

    def _error(self, what: str) -> QueryLimitError:
        from bentpipe.scenario.quantities import Size

        size = Size(getattr(self._limits, what))
        kind = "memory" if what == "memory" else "temporary space"
        more = f'--{what} SIZE (in Python: {what}="SIZE") raises the bound'
        return QueryLimitError(f"the query needs more than {size} of {kind}; {more}")


def _resident_bytes() -> int:
    """Return the memory of this process that is resident; 0 where the system does not say it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - ten times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


class Relation:
    """DuckDB's relation, whose methods end with Ctrl-C: they execute the query when its rows are asked for."""

    def __init__(self, relation: Any, guard: Guard) -> None:
        self._relation = relation
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._relation, name)
        if not callable(found):
            return self._wrap(found)

        def method(*args: Any, **options: Any) -> Any:
            plain = [one._relation if isinstance(one, Relation) else one for one in args]  # noqa: SLF001
            return self._wrap(self._guard.call(lambda: found(*plain, **options)))

        return method

    def _wrap(self, found: Any) -> Any:
        return Relation(found, self._guard) if type(found) is type(self._relation) else found

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
