"""bentpipe from Python: the same runs, the same store, frames instead of files.

>>> results = bentpipe.run("scenarios/geo.toml")          # doctest: +SKIP
>>> results.summary.filter(pl.col("side") == "server")    # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import tempfile
import warnings
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.remarks import RemarkWarning, remarks
from bentpipe.plan.runs import make, open_document
from bentpipe.runners.conduct import Report, conduct
from bentpipe.scenario.sweep import written_override
from bentpipe.store.directory import Store, StoreError, Writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.runners.outcome import Runner

__all__ = ["Results", "RunsFailed", "run"]


class RunsFailed(RuntimeError):
    """Some runs failed; ``results`` holds the others."""

    def __init__(self, results: Results, report: Report) -> None:
        """``report`` says which and why."""
        self.results = results
        self.report = report
        first = report.failed[0]
        super().__init__(f"{len(report.failed)} of {report.planned} runs failed; {first.run}: {first.error}")


class Results(Store):
    """A store that shows itself in a notebook: ``.flows``, ``.links``, ``.summary``... are Polars frames.

    One made without ``out`` lives in a temporary directory, as long as this object does.
    """

    def __init__(self, path: str | Path, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """Opens the store at ``path``; keeps ``temporary`` alive."""
        super().__init__(path)
        self._temporary = temporary

    def __repr__(self) -> str:
        """Title, place and number of runs."""
        return f"<bentpipe results: {self.title}, {len(self.finished())} of {len(self.planned)} runs, {self.path}>"

    def _repr_html_(self) -> str | None:
        try:
            from bentpipe.report.notebook import html
        except ImportError:
            return None
        try:
            return html(self.path)
        except StoreError as error:
            return f"<strong>{escape(self.title)}</strong>\n<p>{escape(str(error))}</p>"


def run(
    scenario: str | Path | Mapping[str, Any],
    controllers: Mapping[str, type] | None = None,
    *,
    jobs: int | None = None,
    out: str | Path | None = None,
    on: str | None = None,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
) -> Results:
    """Runs a scenario and returns its results.

    Args:
        scenario: a TOML file, or the table it would parse to.
        controllers: congestion controllers of one's own, by the name the scenario gives them. A class of an
            importable module goes to the workers by its import path; one defined in ``__main__`` (a script, a
            notebook) or inside a function runs in this process, one run after the other.
        jobs: worker processes (default: one a processor); not beside ``on``.
        out: directory of the store, resumed if it has runs of the same scenario; a temporary one without.
        on: ``dask://HOST:PORT`` for a cluster.
        seeds: how many, instead of the scenario's.
        settings: dotted keys to set, as ``--set`` does.

    Warns:
        bentpipe.plan.remarks.RemarkWarning: what is in order and yet hardly meant, such as seeds without chance.

    Raises:
        bentpipe.ScenarioError: what is wrong with the scenario, by key.
        bentpipe.StoreError: ``out`` is not a store of this scenario.
        RunsFailed: some runs failed; the others are in its ``results``.
        ValueError: ``jobs`` beside ``on``.
    """
    from bentpipe.runners import engine

    if on is not None and jobs is not None:
        raise ValueError(
            "found jobs beside on, a cluster whose workers have a number of their own; expected one of them"
        )
    own = dict(controllers or {})
    given = dict(settings or {})
    document = open_document(scenario, given.items(), [written_override(*one) for one in given.items()])
    plan = make(
        document,
        engine.version(),
        seeds=tuple(range(1, seeds + 1)) if seeds is not None else None,
        catalogue=engine.catalogue(),
        own={name: fingerprint(kind) for name, kind in own.items()},
    )
    for remark in remarks(plan):
        warnings.warn(remark.line(document.name), RemarkWarning, stacklevel=2)
    runner = _runner(own, jobs, on)
    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="bentpipe-", ignore_cleanup_errors=True)
        out = Path(temporary.name) / "store"
    with Writer(Path(out), plan) as writer:
        report = conduct(plan, runner, writer, where=on or "local")
    results = Results(out, temporary)
    if report.failed:
        raise RunsFailed(results, report)
    return results


def _runner(own: Mapping[str, type], jobs: int | None, on: str | None) -> Runner:
    from bentpipe.runners.local import InProcess, LocalRunner

    places = {name: place for name, kind in own.items() if (place := import_place(kind)) is not None}
    if on is not None:
        from bentpipe.runners import engine
        from bentpipe.runners.dask import DaskRunner

        if len(places) < len(own):
            raise ValueError(
                "controllers for a cluster must be classes of modules that its workers can import"
            )
        cluster = DaskRunner(on, engine.version(), places)
        cluster.check()
        return cluster
    return LocalRunner(jobs, places) if len(places) == len(own) else InProcess(own)


def import_place(kind: type) -> str | None:
    """``module:Class`` from which another process can import a class; None if none can."""
    module, name = kind.__module__, kind.__qualname__
    if module in ("__main__", "builtins") or "<locals>" in name or module not in sys.modules:
        return None
    return f"{module}:{name}" if getattr(sys.modules[module], "__file__", None) else None


def fingerprint(kind: type) -> str:
    """A hash of a class's source (or byte code), so that a changed controller makes new runs."""
    try:
        text = inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):
        codes = [member.__code__ for _, member in sorted(inspect.getmembers(kind, inspect.isfunction))]
        text = repr([(code.co_code, code.co_consts, code.co_names) for code in codes])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
