"""A scenario by two builds, each with its own ``bentpipe run``, and the two stores compared.

Every build is a process of its own, which is asked by the words of the command line: these hold from version to
version. Both check the scenario before either runs it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import TYPE_CHECKING

from bentpipe.build_comparison.result import BuildComparison, Side
from bentpipe.lab.process import defer_signals
from bentpipe.metrics.store_comparison import compare_stores
from bentpipe.runners import engine
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bentpipe.build_comparison.build import Build
    from bentpipe.metrics.compare import Criteria

__all__ = ["BuildFailed", "regress"]

BAD_INPUT = 2
INTERRUPTED = 130


class BuildFailed(RuntimeError):
    """The command of a build could not make its runs; it has said why."""


def regress(
    file: Path,
    before: Build,
    after: Build,
    out: Path,
    *,
    options: Sequence[str] = (),
    jobs: int | None = None,
    confidence: float,
    criteria: Criteria,
    tell: Callable[[str], None],
) -> BuildComparison:
    """Runs ``file`` with both builds into ``out/before`` and ``out/after``, and compares what they measured.

    Args:
        file: a scenario.
        before: one build.
        after: the other.
        out: folder of the stores that are made.
        options: words of ``bentpipe run`` and ``check`` for both.
        jobs: worker processes of each.
        confidence: level of the intervals.
        criteria: which metrics, and the smallest changes that get a verdict.
        tell: told what is done.

    Raises:
        ScenarioError: what is wrong with the scenario or a build, as the build says it.
        BuildFailed: a build made no run.
        StoreError: a store that cannot be read.
        ValueError: the stores have nothing in common.
        KeyboardInterrupt: Ctrl-C; what is finished is kept, and the same command goes on.
    """
    builds = (before, after)
    versions = [_version(build, file, options) for build in builds]
    sides: list[Side] = []
    stores: list[Path] = []
    for build, version in zip(builds, versions, strict=True):
        store, whole = build.store, True
        if store is None:
            store = out / build.side
            tell(f"{build.side}: {build.word}, engine {version}, into {store}")
            whole = _made(build, file, store, options, jobs)
        stores.append(store)
        sides.append(Side(build.word, version, store, whole))
    found = compare_stores(stores[0], stores[1], confidence, criteria, engine.catalogue)
    return BuildComparison(sides[0], sides[1], found)


def _version(build: Build, file: Path, options: Sequence[str]) -> str:
    """The engine of a build, which takes the scenario. Raises ScenarioError, StoreError."""
    if build.store is not None:
        return Store(build.store).engine
    words = [*build.command, "check", str(file), *options, *build.options, "--json"]
    try:
        asked = subprocess.run(words, env=build.environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise _wrong(build, f"{build.word} does not start: {error.strerror}") from None
    if asked.returncode != 0:
        lines = [line for line in asked.stderr.splitlines() if line.strip()]
        said = next((line for line in lines if line.startswith("error: ")), lines[-1] if lines else "")
        why = said.removeprefix("error: ") or f"it ended with status {asked.returncode}"
        raise _wrong(build, f"{build.word}: {why}")
    try:
        return str(json.loads(asked.stdout)["engine"])
    except (ValueError, LookupError, TypeError):
        raise _wrong(build, f"{build.word} is no bentpipe: it does not answer `check --json`") from None


def _made(build: Build, file: Path, store: Path, options: Sequence[str], jobs: int | None) -> bool:
    """Whether every run is there. Raises BuildFailed, KeyboardInterrupt."""
    words = [*build.command, "run", str(file), *options, *build.options, "--out", str(store)]
    words += ["--jobs", str(jobs)] if jobs is not None else []
    with (
        defer_signals(),
        subprocess.Popen(words, env=build.environment, stdout=subprocess.DEVNULL) as process,
    ):
        try:
            status = process.wait()
        except BaseException as end:
            # Ctrl-C is the child's too, which says what it keeps; whatever else ends this ends it.
            if not isinstance(end, KeyboardInterrupt):
                process.terminate()
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
            raise
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status == BAD_INPUT or status < 0 or not (store / "plan.json").is_file():
        how = f"signal {-status}" if status < 0 else f"status {status}"
        raise BuildFailed(f"{build.side}: `run` of {build.word} ended with {how}")
    return status == 0


def _wrong(build: Build, message: str) -> ScenarioError:
    return ScenarioError([(build.side, message)], SOURCE_ARGUMENT)
