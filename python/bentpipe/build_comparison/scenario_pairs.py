"""Scenario with two builds, each with its own ``bentpipe run``, and a comparison of their stores.

Each build is a separate process with a command line, because the command line is stable between versions. Both builds
check the scenario before either runs it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
from typing import TYPE_CHECKING

from bentpipe.build_comparison.build import name_controllers
from bentpipe.build_comparison.result import BuildComparison, Side
from bentpipe.lab.process import defer_signals
from bentpipe.metrics.store_comparison import compare_stores
from bentpipe.plan.document import load_scenario
from bentpipe.runners import engine
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.sweep import parse_sweep, swept_keys
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
    """Failure of the ``run`` of a build, which has printed the reason."""


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
    """Run ``file`` with both builds into two stores below ``out``, and compare their metrics.

    Args:
        file: scenario file.
        before: first build.
        after: second build.
        out: directory of the new stores.
        options: arguments of ``bentpipe run`` and ``check`` for both builds.
        jobs: number of worker processes of each build.
        confidence: confidence level of the intervals.
        criteria: metrics, and smallest changes that get a verdict.
        tell: called with a progress message.

    Raises:
        ScenarioError: the scenario or a build is wrong, with the message of the build.
        BuildFailed: a build made no run.
        StoreError: a store cannot be read.
        ValueError: the stores have no runs in common.
        KeyboardInterrupt: Ctrl-C. Finished runs are saved, and the same command resumes.
    """
    builds = name_controllers(before, after, _controlled_flows(file, options))
    versions = [_version(build, file, options) for build in builds]
    sides: list[Side] = []
    stores: list[Path] = []
    for build, version in zip(builds, versions, strict=True):
        store, whole = build.store, True
        if store is None:
            store = out / build.folder
            tell(f"{build.side}: {build.word}, engine {version}, into {store}")
            whole = _run(build, file, store, options, jobs)
        stores.append(store)
        sides.append(Side(build.word, version, store, whole))
    comparison = compare_stores(
        stores[0], stores[1], confidence, criteria, engine.catalogue, is_unchanged_left_out=True
    )
    return BuildComparison(sides[0], sides[1], comparison)


def _controlled_flows(file: Path, options: Sequence[str]) -> dict[str, bool]:
    """Return the flows of a scenario with a controller, and whether the sweep sets it. Raises ScenarioError."""
    sweeps = [text for option, text in itertools.pairwise(options) if option == "--sweep"]
    data = load_scenario(file, [parse_sweep(text) for text in sweeps]).data
    swept, flows = swept_keys(data.get("sweep")), data.get("flow")
    tables = [flow for flow in flows if isinstance(flow, dict)] if isinstance(flows, list) else []
    names = [str(flow.get("name")) for flow in tables if flow.get("transport") != "udp"]
    return {name: f"flow.{name}.congestion" in swept for name in names}


def _version(build: Build, file: Path, options: Sequence[str]) -> str:
    """Check the scenario and return the version of the engine. Raises ScenarioError or StoreError."""
    if build.store is not None:
        return Store(build.store).engine
    command = [*build.command, "check", str(file), *options, *build.options, "--json"]
    try:
        process = subprocess.run(command, env=build.environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise _error(build, f"{build.word} does not start: {error.strerror}") from None
    if process.returncode != 0:
        lines = [line for line in process.stderr.splitlines() if line.strip()]
        message = next((line for line in lines if line.startswith("error: ")), lines[-1] if lines else "")
        reason = message.removeprefix("error: ") or f"it ended with status {process.returncode}"
        raise _error(build, f"{build.word}: {reason}")
    try:
        return str(json.loads(process.stdout)["engine"])
    except (ValueError, LookupError, TypeError):
        raise _error(build, f"{build.word} is not bentpipe: `check --json` failed") from None


def _run(build: Build, file: Path, store: Path, options: Sequence[str], jobs: int | None) -> bool:
    """Run the scenario and return True if no run failed. Raises BuildFailed or KeyboardInterrupt."""
    command = [*build.command, "run", str(file), *options, *build.options, "--out", str(store)]
    command += ["--jobs", str(jobs)] if jobs is not None else []
    with (
        defer_signals(),
        subprocess.Popen(command, env=build.environment, stdout=subprocess.DEVNULL) as process,
    ):
        try:
            status = process.wait()
        except BaseException as end:
            # The child receives Ctrl-C too and reports the saved runs. Any other exception must end it.
            if not isinstance(end, KeyboardInterrupt):
                process.terminate()
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
            raise
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status == BAD_INPUT or status < 0 or not (store / "plan.json").is_file():
        exit_text = f"signal {-status}" if status < 0 else f"status {status}"
        raise BuildFailed(f"{build.side}: `run` of {build.word} ended with {exit_text}")
    return status == 0


def _error(build: Build, message: str) -> ScenarioError:
    return ScenarioError([(build.side, message)], SOURCE_ARGUMENT)
