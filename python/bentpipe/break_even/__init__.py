"""Break-even map: object sizes and round-trip times at which split TCP is faster than QUIC and TCP without a proxy.

``access``: bottleneck of an access network
``config``: input of a map, and its scenario
``execution``: runs of a map in stages, each with a page
``ratios``: ratios of page load times from the store of a map
``gains``: sizes at which split TCP is faster or slower, and by how much
``recommendation``: headline of the map
``summary``: tables and data of the map
``page``: HTML page, figures and JSON of the map

:func:`run` is ``bentpipe break-even``, and :func:`break_even_map` is ``bentpipe.break_even_map``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.break_even.access import Access, access, numbers, with_loss
from bentpipe.break_even.config import SIZES, BreakEvenConfig, parse_config
from bentpipe.plan.access import check_given
from bentpipe.scenario.sweep import format_override, parse_override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.break_even.ratios import Map
    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.runners.execute import ExecutionSummary, Observer

__all__ = ["BreakEvenConfig", "break_even_map", "parse_config", "resolve_access", "run"]

PATH = "path."
"""Prefix of settings that apply to a preset or scenario file; others apply to the scenario of the map."""


def resolve_access(
    name: str | None,
    down: str | None,
    up: str | None,
    rtt: str | None,
    settings: Sequence[str] = (),
    loss: str | None = None,
) -> tuple[Access, tuple[str, ...]]:
    """Resolve the access (preset, scenario or numbers) and return the remaining settings of the map.

    Args:
        name: preset or scenario file (TOML); None if the access is given as numbers.
        down: rate towards the client, such as ``"50 Mbit/s"``.
        up: rate towards the server.
        rtt: round-trip time of the whole path, such as ``"620 ms"``.
        settings: ``KEY=VALUE`` texts; those of ``path.`` apply to the access.
        loss: probability of losing a packet, in both directions; None: as the access has it.

    Raises:
        ScenarioError: the access is missing, incomplete, given twice or wrong, by the argument of
            :func:`break_even_map`.
    """
    check_given(name, down, up, rtt)
    if name is None:
        return with_loss(numbers(down, up, rtt), loss), tuple(settings)
    path_settings = [text for text in settings if text.startswith(PATH)]
    resolved = with_loss(access(name, [parse_override(text) for text in path_settings]), loss)
    return resolved, tuple(text for text in settings if text not in path_settings)


def run(
    config: BreakEvenConfig,
    out: Path,
    *,
    jobs: int | None = None,
    settings: tuple[str, ...] = (),
    watch: Observer | None = None,
    files: FigureExport | None = None,
) -> CommandOutput:
    """Compute the missing runs of a map, write its files and return the break-even sizes.

    The files are ``map.html``, ``map.json`` and the figure as SVG and PDF.

    Args:
        config: input of the map.
        out: directory of the map; its store is ``out/store``.
        jobs: number of worker processes (default: one for each processor).
        settings: ``KEY=VALUE`` texts that change the scenario, as ``--set`` does.
        watch: callbacks for progress and messages.
        files: export of the figure to further files.

    Raises:
        ScenarioError: the input or ``files`` is wrong, by the argument of :func:`break_even_map`.
        bentpipe.StoreError: ``out`` holds another map.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    from bentpipe.break_even.execution import compute
    from bentpipe.break_even.page import KEYS, figure
    from bentpipe.break_even.recommendation import headline_text, kinds_text, supporting_text
    from bentpipe.break_even.summary import data, load_time_rows, size_rows, titles
    from bentpipe.metrics.format import CommandOutput, TextTable

    if files is not None:
        files.check(KEYS)
    result, report = compute(config, out, jobs, settings, watch)
    own_title, sizes_title = titles(result)
    output = CommandOutput(
        data(result),
        (f"{headline_text(result)}\n", *(f"{text}\n" for text in kinds_text(result)), f"{supporting_text(result)}\n",
         TextTable(own_title, load_time_rows(result)), "", TextTable(sizes_title, size_rows(result)),
         _summary_line(report, out / "map.html")),
        tuple(f"failed: {failure.run}: {failure.error}" for failure in report.failed[:10]),
        not report.failed, out / "map.html",
    )  # fmt: skip
    return output if files is None else files.added(output, [figure(result)])


def break_even_map(
    access: str | None = None,
    *,
    down: str | None = None,
    up: str | None = None,
    rtt: str | None = None,
    loss: str | None = None,
    controllers: Sequence[str] | None = None,
    windows: Sequence[int] = (10,),
    tcp: str = "cubic",
    pep: Sequence[str] | None = None,
    sizes: Sequence[str] = SIZES,
    rtts: Sequence[str] | None = None,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
) -> Map:
    """Compute the ratios of page load times, QUIC and TCP to split TCP, by object size and round-trip time.

    Only missing runs are computed. ``map.html``, ``map.json`` and the figure are written beside the store.

    Args:
        access: a preset (:func:`bentpipe.presets`) or a scenario file, which needs a path only. Without it, ``down``,
            ``up`` and ``rtt`` define the access.
        down: rate towards the client, such as ``"50 Mbit/s"``; the queue is 1 BDP.
        up: rate towards the server.
        rtt: round-trip time of the whole path, such as ``"620 ms"``.
        loss: probability of losing a packet on the access, in both directions, such as ``"1 %"``.
        controllers: congestion controllers of QUIC (default: cubic, and bbr too with ``loss``).
        windows: initial windows of QUIC, in packets.
        tcp: controller of TCP servers, clients and proxies.
        pep: kinds of PEPs, ``"plain"``, ``"pooled"`` and ``"line-rate"`` (default: plain and line-rate, or plain
            and pooled for an access with slots).
        sizes: object sizes, such as ``"1 MB"``.
        rtts: round-trip times, such as ``"600 ms"`` (default: seven from 20 to 800 ms, including that of the access).
        seeds: number of seeds of stochastic runs (default: 5 if packets are lost or delayed at random, else 1).
        settings: dotted keys to set: those of the path of a preset or file, and any key of the map's scenario.
        jobs: number of worker processes (default: one for each processor).
        out: directory of the map (default: ``out/break-even-ACCESS``).

    Raises:
        bentpipe.ScenarioError: an argument is wrong.
        bentpipe.StoreError: ``out`` holds another map.
        bentpipe.RunsFailedError: some runs failed.
    """
    from bentpipe.api.results import Results
    from bentpipe.api.run import RunsFailedError
    from bentpipe.break_even.execution import compute

    overrides = [format_override(*item) for item in (settings or {}).items()]
    resolved, map_settings = resolve_access(access, down, up, rtt, overrides, loss)
    config = parse_config(
        resolved,
        controllers=_as_tuple(controllers),
        windows=tuple(map(str, windows)),
        tcp=tcp,
        pep=_as_tuple(pep),
        sizes=tuple(sizes),
        rtts=_as_tuple(rtts),
        seeds=seeds,
    )
    directory = Path(out) if out is not None else Path("out") / f"break-even-{resolved.name}"
    result, report = compute(config, directory, jobs, map_settings)
    if report.failed:
        raise RunsFailedError(Results(directory / "store"), report)
    return result


def _as_tuple(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _summary_line(report: ExecutionSummary, page: Path) -> str:
    reused = f", {report.reused} from earlier runs" if report.reused else ""
    return f"\n{report.done} runs in {report.seconds:.0f} s{reused}. Map: {page}; for print: {page.with_suffix('.pdf')}"
