"""Output of ``fit``: phase, distributions, and the distance of the model from data outside its fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.fit import export, log_merge, simulated
from bentpipe.fit.goodness_of_fit import DISTANCE, GoodnessOfFit, evaluate_fit, fit_model
from bentpipe.fit.losses import drawn_mean
from bentpipe.fit.model import interpolate
from bentpipe.fit.model_comparison import runs_of_loss
from bentpipe.fit.phase import BIN_S, MIN_INTERVALS
from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe.report.headline import join_names
from bentpipe.scenario.errors import ScenarioError, is_name
from bentpipe.scenario.input_file import read_input_text
from bentpipe.scenario.quantities import Duration, UnitError
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from bentpipe.figures.export import FigureExport
    from bentpipe.fit.log_merge import MergedLogs
    from bentpipe.fit.model import Model
    from bentpipe.fit.simulated import Comparison

__all__ = ["answer"]

MIN_EVERY_S = 4.0
RESERVED_NAMES = ("scenario", "replay")
"""Reserved names of files beside the preset."""


def answer(
    files: Sequence[str],
    up: Sequence[str],
    out: Path,
    name: str,
    every: str,
    phase: str | None,
    apart: FigureExport | None,
) -> CommandOutput:
    """Run ``bentpipe fit``."""
    if not is_name(name) or name in RESERVED_NAMES:
        others = " and ".join(RESERVED_NAMES)
        text = f'found "{name}", expected a name other than {others}: a letter, then letters, digits, _ or -'
        raise ScenarioError([("--name", text)])
    every_s = _seconds(every, "--interval")
    if every_s < MIN_EVERY_S or every_s % BIN_S:
        text = f"found {every}, expected a multiple of {BIN_S:g} s of at least {MIN_EVERY_S:g} s"
        raise ScenarioError([("--interval", text)])
    if apart is not None:
        from bentpipe.fit.figures import KEYS

        apart.check(KEYS)
    found = log_merge.gather(files, up, every_s, None if phase is None else _seconds(phase, "--phase"))
    source = log_merge.source(found.logs)
    replayed = export.replay(found, source)
    # Check the output files before the fit, which takes seconds.
    names = [f"{name}.toml", "scenario.toml", *replayed, "fit.html"]
    _refuse_overwrite(out, names, {log.path.resolve() for log in found.logs})
    model = fit_model(found, every_s)
    fit_quality = evaluate_fit(found, model)
    written, taken = export.preset(found, model, name, source)
    written |= replayed
    comparisons = simulated.compare_with_link(found, written[f"{name}.toml"])
    output = _summarise(found, model, fit_quality, source, comparisons, taken)
    from bentpipe.fit import page
    from bentpipe.fit.figures import figures

    drawings = figures(found, model, fit_quality)
    text = page.render_page(drawings, output, fit_quality, source)
    _refuse_overwrite(
        out, names, {log.path.resolve() for log in found.logs}
    )  # again: files may have been created meanwhile
    output = output if apart is None else apart.added(output, drawings)
    out.mkdir(parents=True, exist_ok=True)
    for file, content in {**written, "fit.html": text}.items():
        write_atomic(out / file, content.encode())
    for figure in drawings:
        figure.write_all([out / f"{figure.key}{suffix}" for suffix in (".svg", ".pdf")])
    shown = list(output.shown)
    shown.append(
        f"Written to {out}: {name}.toml (the preset), fit.html with its figures (.svg, .pdf), "
        + ", ".join(list(written)[1:])
    )
    return CommandOutput(
        {**output.data, "taken": taken, "preset": str(out / f"{name}.toml"), "page": str(out / "fit.html")},
        tuple(shown),
    )


def _refuse_overwrite(out: Path, names: Iterable[str], logs: AbstractSet[Path]) -> None:
    """Refuse to overwrite a log, or a TOML file of another origin.

    Raises:
        ScenarioError: a file in ``out`` would be overwritten.
    """
    for file in (out / name for name in names):
        if file.resolve() in logs:
            raise ScenarioError([("--out", f"{file} is an input log; choose another directory")])
        if file.suffix == ".toml" and file.exists():
            first = read_input_text(file, errors="replace").partition("\n")[0]
            if not (first.startswith("#") and "bentpipe" in first):
                raise ScenarioError(
                    [("--out", f"{file} exists and is not from bentpipe fit; choose another directory")]
                )


def _seconds(text: str, key: str) -> float:
    try:
        return Duration.parse(text).ns / 1e9
    except (UnitError, ValueError) as error:
        raise ScenarioError([(key, str(error))]) from None


def _summarise(
    found: MergedLogs,
    model: Model,
    fit_quality: GoodnessOfFit,
    source: str,
    comparisons: Sequence[Comparison],
    taken: Sequence[str],
) -> CommandOutput:
    data: dict[str, Any] = {
        "source": source,
        "every_s": model.every_s,
        "phase_s": model.phase_s,
        "of_day": found.of_day,
        "slots": model.slots,
        "delay": None if found.points is None else "one way" if found.one_way else "round trip",
        "judged": fit_quality.rows,
        "training_intervals": fit_quality.slots,
    }
    since = "the minute" if found.of_day else "the log"
    head = f"{source}: {model.slots} intervals of {model.every_s:g} s; "
    head += f"the first starts {model.phase_s:g} s after the start of {since}."
    if found.phase is not None:
        data |= {"spread": found.phase.spread, "worst_spread": found.phase.worst}
        unit = "ms" if found.points is not None else "Mbit/s"
        head += f" At this phase the mean standard deviation within intervals is {found.phase.spread:.3g} {unit}, "
        head += f"the least of all phases (at most {found.phase.worst:.3g} {unit})."
    shown: list[str | TextTable] = [head]
    notes = [f"{log.path.name}: {note}." for log in found.logs for note in log.notes]
    data["notes"] = notes
    shown += notes
    if taken:
        shown.append(
            f"The preset takes {join_names(taken)} from the values measured for Starlink (preset "
            f"{export.BASE_PRESET}), because no log has them."
        )
    rows = _distributions(found, model)
    data["distributions"] = rows
    shown.append(TextTable("Distributions over the intervals", rows))
    if model.bursts is not None:
        data["bursts"] = {
            "probability": model.bursts.probability,
            "length_ms": list(model.bursts.length_ms),
        }
        middle, most = (float(one) for one in interpolate(model.bursts.length_ms, np.array([0.5, 1.0])))
        shown.append(
            f"{model.bursts.count} of the {model.bursts.intervals} intervals whose start is in the log "
            f"({100 * model.bursts.probability:.3g} %) have a loss burst or an outage (median "
            f"{format_significant(middle, 3)} ms, maximum {format_significant(most, 3)} ms). The preset places it "
            "at the start of the interval."
        )
    if model.loss or found.points is None:
        data["single_losses"] = _single_losses(found, model)
        shown += _loss_sentences(data["single_losses"])
    data["simulated"] = [one.row() for one in comparisons]
    shown += [simulated.headline_text(one, found.transfers[one.side]) for one in comparisons]
    if found.points is not None:
        data["jitter"] = {"step_s": model.step_s, "correlation": model.correlation}
        data["runs_of_loss"] = {str(length): count for length, count in runs_of_loss(found.points).items()}
    shown.append(
        TextTable("Goodness of fit: model and data, of the whole log and of its halves", fit_quality.rows)
    )
    if fit_quality.slots:
        known = (
            ""
            if fit_quality.half is None or fit_quality.half.own_phase
            else "; the phase comes from the whole log"
        )
        shown.append(
            f"The training data are the first half of the log, {fit_quality.slots} intervals; the test data are "
            f"the second half{known}."
        )
        if fit_quality.half is not None:
            shown.append(
                f"The {DISTANCE.removesuffix(', %')} of the test data is that from the training data. That "
                "of the model of the training data is from the test data."
            )
    if model.slots < 4 * MIN_INTERVALS:
        shown.append(f"The log has only {model.slots} intervals, so their distribution is uncertain.")
    return CommandOutput(data, tuple(shown))


def _single_losses(found: MergedLogs, model: Model) -> dict[str, Any]:
    """Return the mean single losses of the pings and of each direction of the preset.

    Each direction has the bound of TCP's retransmissions beside it. Those of the pings are ``None`` without a
    log of delays.
    """
    return {
        "pings": None if found.points is None else drawn_mean(model.loss),
        **{
            side: {
                "preset": drawn_mean(export.single_losses(found, model, side)),
                "retransmissions": model.most_loss.get(side),
            }
            for side in export.SIDES
        },
    }


def _loss_sentences(single: dict[str, Any]) -> list[str]:
    known = [side for side in export.SIDES if single[side]["retransmissions"] is not None]
    sentences = []
    if single["pings"] is not None:
        sentences.append(
            f"{100 * single['pings']:.3g} % of the pings are single losses, outside bursts and outages: the mean "
            "of the intervals in the table."
        )
    for side in known:
        text = (
            f"TCP retransmissions {side} limit single losses to {100 * single[side]['retransmissions']:.3g} %"
        )
        text += f"; the preset has {100 * single[side]['preset']:.3g} %"
        if single["pings"] is None:
            base = drawn_mean(export.taken_losses(side))
            text += f" ({export.BASE_PRESET}: {100 * base:.3g} %)"
        sentences.append(f"{text}.")
    unknown = [side for side in export.SIDES if side not in known]
    if unknown and single["pings"]:
        sentences.append(
            f"No log has TCP retransmissions {' or '.join(unknown)}. The preset applies the ping "
            "loss to all packets there, which may give TCP much less goodput than the link does."
        )
    return sentences


def _distributions(found: MergedLogs, model: Model) -> list[dict[str, Any]]:
    what = "one-way delay" if found.one_way else "round trip"
    tables = [(f"{what} of an interval, ms", model.delay_ms), ("additional jitter, ms", model.jitter_ms)]
    tables += [
        (f"rate {side}, Mbit/s", [one / 1e6 for one in table]) for side, table in model.rate_bit_s.items()
    ]
    tables += [("single losses of an interval, %", [100 * one for one in model.loss])]
    heads = {"min": 0.0, "5 %": 0.05, "50 %": 0.5, "95 %": 0.95, "max": 1.0}
    return [
        {
            "quantity": name,
            "mean": drawn_mean(table),
            **dict(zip(heads, map(float, interpolate(table, np.array(list(heads.values())))), strict=True)),
        }
        for name, table in tables
        if table
    ]
