"""Runs on a dask.distributed cluster whose workers have the same engine.

The cluster returns the files of a run; or the engine's bytes, from a worker that would encode them otherwise (another
Polars). The coordinator alone writes them, so the store is the same as from local workers. A worker that is killed has
its runs moved to others by the scheduler.
"""

from __future__ import annotations

import time
import uuid
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
            RunnerError: no cluster there, or a worker with another engine.
        """
        from bentpipe.store.codec import encoder

        client, as_completed = self._connect()
        batch, encodes = uuid.uuid4().hex, encoder()
        try:
            self._check_workers(client)
            futures: dict[Any, Run] = {
                client.submit(
                    execute,
                    run.spec_json(),
                    self.controllers,
                    self.version,
                    encodes,
                    key=f"bentpipe-{run.id}-{batch}",
                    pure=False,
                    retries=RETRIES,
                ): run
                for run in runs
            }
            for future in as_completed(list(futures), loop=client.loop):
                yield self._outcome(future, futures.pop(future))
                future.release()
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
        error = answer.decode(errors="replace")
        if error.startswith(WRONG):
            raise RunnerError(f"{error}, here {self.version}: results would differ")
        return Outcome(run, None, error, seconds)
