"""Runs on a dask.distributed cluster whose workers have the same engine.

The cluster returns the files of a run; or the engine's bytes, from a worker that would encode them otherwise (another
Polars). The coordinator alone writes them, so the store is the same as from local workers. A worker that is killed has
its runs moved to others by the scheduler.
"""

from __future__ import annotations

import logging
import time
import uuid
import warnings
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bentpipe.runners.outcome import Outcome, RunnerError
from bentpipe.store.codec import RunFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.runs import Run

__all__ = ["DaskRunner", "execute", "worker_version"]

CONNECT_SECONDS = 10
RETRIES = 3


def worker_version() -> str:
    """Version of a worker's engine; runs there."""
    from bentpipe.runners import engine

    return engine.version()


def execute(
    spec: str, controllers: Mapping[str, str], version: str, encodes: str
) -> tuple[str, bytes, float]:
    """One run; runs on a worker.

    Returns:
        What came of it (FILES, MEASURED, or an error), that, or the error's text, and the seconds it took.
    """
    from bentpipe.runners import engine
    from bentpipe.runners.worker import serve
    from bentpipe.store.codec import encoder

    if engine.version() != version:
        return FAILED, f"{WRONG}{engine.version()}".encode(), 0.0
    began = time.perf_counter()
    encoded = encoder() == encodes
    status, answer = serve(spec, engine.load_controllers(controllers), encoded=encoded)
    what = FAILED if status != b"+" else FILES if encoded else MEASURED
    return what, answer, time.perf_counter() - began


FILES, MEASURED, FAILED = "files", "measured", "failed"
WRONG = "another engine on this worker: "


class DaskRunner:
    """A cluster by the address of its scheduler."""

    def __init__(self, address: str, version: str, controllers: Mapping[str, str] | None = None) -> None:
        """``address`` is ``dask://HOST:PORT`` or what ``distributed.Client`` takes."""
        self.address = (
            "tcp://" + address.removeprefix("dask://") if address.startswith("dask://") else address
        )
        self.version = version
        self.controllers = dict(controllers or {})

    def check(self) -> None:
        """Raises RunnerError without a cluster, or with a worker of another engine."""
        client, _ = self._connect()
        try:
            self._check_workers(client)
        finally:
            client.close()

    def run(self, runs: Sequence[Run]) -> Iterator[Outcome]:
        """Outcomes as they come.

        Raises:
            RunnerError: no cluster there, a worker with another engine at the beginning, or the scheduler is lost.
        """
        with _quiet():
            yield from self._outcomes(runs)

    def _outcomes(self, runs: Sequence[Run]) -> Iterator[Outcome]:
        client, as_completed = self._connect()
        batch = _Batch(client, self.controllers, self.version)
        try:
            self._check_workers(client)
            futures: dict[Any, Run] = {batch.submit(run): run for run in runs}
            completed = as_completed(list(futures), loop=client.loop)
            for future in completed:
                run = futures.pop(future)
                if future.status not in ("finished", "error"):
                    raise _lost(self.address)  # noqa: TRY301 - one of what ends the loop
                if (version := _other_version(future)) is not None:
                    again = batch.submit_again(run, version)
                    futures[again] = run
                    completed.add(again)
                else:
                    yield self._outcome(future, run)
                future.release()
        except Exception as error:
            # A connection that ends while something is asked has many errors.
            connected = client.status == "running" and not isinstance(error, CancelledError)
            if connected or isinstance(error, RunnerError):
                raise
            raise _lost(self.address) from error
        finally:
            client.close()

    def _connect(self) -> tuple[Any, Any]:
        try:
            from distributed import Client, as_completed
        except ImportError:
            raise RunnerError(
                "--on dask:// needs dask.distributed, which is not installed: pip install 'bentpipe[dask]'"
            ) from None
        try:
            return Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False), as_completed
        except (OSError, TimeoutError, ValueError) as error:
            raise RunnerError(f"no Dask scheduler at {self.address}: {error}") from None

    def _check_workers(self, client: Any) -> None:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise RunnerError(f"the cluster at {self.address} has no workers") from None
        try:
            versions: dict[str, str] = client.run(worker_version)
        except Exception as error:
            raise RunnerError(f"a worker of {self.address} cannot load the engine: {error}") from error
        for worker, version in sorted(versions.items()):
            if version != self.version:
                raise RunnerError(
                    f"worker {worker} has engine {version}, this is {self.version}: results would differ"
                )

    def _outcome(self, future: Any, run: Run) -> Outcome:
        if future.status == "error":
            return Outcome(run, None, f"lost on the cluster: {future.exception()}")
        what, answer, seconds = future.result()
        if what == FILES:
            return Outcome(run, RunFiles.from_bytes(answer), "", seconds)
        if what == MEASURED:
            return Outcome(run, answer, "", seconds)
        return Outcome(run, None, answer.decode(errors="replace"), seconds)


class _Batch:
    """The runs of a session, as tasks of a cluster."""

    def __init__(self, client: Any, controllers: Mapping[str, str], version: str) -> None:
        from bentpipe.store.codec import encoder

        self.client, self.controllers, self.version = client, controllers, version
        self.encodes = encoder()
        self.name = uuid.uuid4().hex
        self.tasks = 0
        self.warned: set[str] = set()

    def submit(self, run: Run, workers: Sequence[str] | None = None) -> Any:
        """Submit a run to any worker, or to one of ``workers``."""
        self.tasks += 1
        return self.client.submit(
            execute,
            run.spec_json(),
            self.controllers,
            self.version,
            self.encodes,
            key=f"bentpipe-{run.id}-{self.name}-{self.tasks}",
            pure=False,
            retries=RETRIES,
            workers=workers,
        )

    def submit_again(self, run: Run, version: str) -> Any:
        """Submit a run that came to a worker of another ``version`` to those of this one.

        Raises:
            RunnerError: there are none any more.
        """
        versions: dict[str, object] = self.client.run(worker_version, on_error="return")
        good = [worker for worker, found in versions.items() if found == self.version]
        for worker in sorted(versions.keys() - set(good) - self.warned):
            self.warned.add(worker)
            warnings.warn(
                f"worker {worker} has engine {versions[worker]}, this is {self.version}: it is left out",
                stacklevel=2,
            )
        if not good:
            raise RunnerError(f"{WRONG}{version}, here {self.version}: results would differ")
        return self.submit(run, good)


def _other_version(future: Any) -> str | None:
    """Return the version of a worker's engine where it made no run because of it."""
    if future.status != "finished":
        return None
    what, answer, _ = future.result()
    text = answer.decode(errors="replace") if what == FAILED else ""
    return text.removeprefix(WRONG) if text.startswith(WRONG) else None


def _lost(address: str) -> RunnerError:
    return RunnerError(
        f"the connection to the Dask scheduler at {address} was lost; what is finished is in the store, and the same "
        "command goes on where it stopped"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep distributed's log silent: it has tracebacks of a lost connection, of which there is an error already."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
