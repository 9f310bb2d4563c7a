"""``bentpipe fit`` and outages: runs of losses that single ones do not make, wherever in a slot they begin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bentpipe.fit import run
from bentpipe.fit.estimate import fit_delays
from bentpipe.fit.losses import direction_losses, drawn_mean
from bentpipe.fit.model import Distribution, Model, Points, sample
from bentpipe.fit.outages import outages
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from traced_runs import made, spec_of

EVERY_S, SLOTS = 15.0, 60


def log(*away: tuple[float, float], step_s: float = 0.05, single: float = 0.0, slots: int = SLOTS) -> Points:
    """Pings of some slots that lose everything for the times ``away`` (begin, length), and some by themselves."""
    draw = np.random.default_rng(2)
    at_s = np.arange(0, EVERY_S * slots, step_s)
    lost = draw.random(len(at_s)) < single
    for begin_s, length_s in away:
        lost |= (at_s >= begin_s - 1e-6) & (at_s < begin_s + length_s - 1e-6)
    return Points(at_s, np.where(lost, np.nan, draw.uniform(40, 50, len(at_s))))


def fit_model(points: Points) -> Model:
    model = Model(EVERY_S, 0.0)
    fit_delays(points, model)
    return model


def outage_s(model: Model) -> float:
    """Time in outages of so many slots as the log has."""
    assert model.bursts is not None
    return SLOTS * model.bursts.probability * drawn_mean(model.bursts.length_ms) / 1000


@pytest.mark.parametrize(("step_s", "single"), [(0.02, 0.002), (0.1, 0.004), (1.0, 0.01)])
def test_an_obstruction_within_a_slot_is_an_outage(step_s: float, single: float) -> None:
    """The bound of retransmissions is then of the single losses alone, and leaves those of quiet slots as they are."""
    model = fit_model(log((30 * EVERY_S + 4, 5.0), step_s=step_s, single=single))
    assert model.bursts is not None
    assert model.bursts.probability == pytest.approx(1 / SLOTS)
    assert model.bursts.length_ms[-1] == pytest.approx(5000, abs=1000 * step_s)
    assert outage_s(model) == pytest.approx(5, abs=step_s)
    own = np.isnan(log(step_s=step_s, single=single).delay_ms).mean()
    assert drawn_mean(model.loss) == pytest.approx(own, rel=0.15)
    model.most_loss = {"down": single / 4}
    down = direction_losses(model, 0.5, "down")
    assert drawn_mean(down) == pytest.approx(single / 4, rel=1e-6)
    assert down == pytest.approx([one * single / 4 / drawn_mean(model.loss) for one in model.loss])


@pytest.mark.parametrize(
    ("begin_s", "parts_s"),
    [
        (12.0, [3, 15, 2]),  # the rest of a slot, a whole one, the first part of the next
        (0.0, [15, 5]),
        (
            14.5,
            [15, 5],
        ),  # begins with the handover behind it, whose boundary is not known better (14.0, [1, 15, 4]),
    ],
)
def test_an_outage_of_several_slots_is_one_of_each(begin_s: float, parts_s: list[float]) -> None:
    points = log((20 * EVERY_S + begin_s, 20.0))
    model = fit_model(points)
    assert model.bursts is not None
    assert model.bursts.probability == pytest.approx(len(parts_s) / SLOTS)
    # Each value has a point of the table of its own.
    assert model.bursts.length_ms[1::2] == pytest.approx([1000 * one for one in sorted(parts_s)], abs=1)
    assert set(model.loss) == {0.0}
    assert outage_s(model) == pytest.approx(20)
    samples = [sample(model, points.at_s, seed) for seed in range(200)]
    assert np.mean([one.lost for one in samples]) == pytest.approx(points.lost, rel=0.2)


def test_flickering_is_an_outage_each_time() -> None:
    """An obstruction by branches: second by second. Its losses are no single ones, though half of the slot is lost."""
    away = [(30 * EVERY_S + 2 * second, 1.0) for second in range(1, 7)]
    model = fit_model(log(*away))
    assert outage_s(model) == pytest.approx(6)
    assert max(model.loss) == 0


@pytest.mark.parametrize("single", [0.002, 0.013, 0.1, 0.4])
def test_losses_by_themselves_make_hardly_any_outage(single: float) -> None:
    """Their runs become longer with their chance, and so does what counts as an outage."""
    points = log(single=single, slots=400)
    found = outages(points, EVERY_S, 0.0)
    assert len(found.lost_s) <= 0.03 * 400
    lost = np.isnan(points.delay_ms)
    assert lost[~found.inside].mean() == pytest.approx(lost.mean(), rel=0.05)


def test_a_slot_with_many_single_losses_keeps_them() -> None:
    points = log()
    draw = np.random.default_rng(3)
    bad = (points.at_s // EVERY_S == 9) & (draw.random(len(points.at_s)) < 0.5)
    model = fit_model(Points(points.at_s, np.where(bad, np.nan, points.delay_ms)))
    assert model.bursts is None
    assert max(model.loss) == pytest.approx(0.5, abs=0.08)
    assert drawn_mean(model.loss) == pytest.approx(0.5 / SLOTS, rel=0.16)


# Tables


@pytest.mark.parametrize("count", [1, 2, 60, 400, 5000])
@pytest.mark.parametrize("points", [41, 801])
def test_tables_of_averages_have_the_mean_of_their_values(count: int, points: int) -> None:
    """One slot in many, far above the others: quantiles alone draw evenly up to it, or not at all."""
    values = np.full(count, 0.001)
    values[-1] = 0.9
    table = Distribution.of(values).averages(points)
    assert drawn_mean(table.tolist()) == pytest.approx(values.mean(), rel=1e-9)
    assert list(table) == sorted(table)
    assert values.min() <= table[0]
    assert table[-1] <= values.max()
    weighted = Distribution(np.array([1.0, 3.0]), np.array([3.0, 1.0])).averages(points)
    assert drawn_mean(weighted.tolist()) == pytest.approx(1.5)


def test_the_engine_draws_the_mean_that_the_page_says(tmp_path: Path) -> None:
    """A log with one interval of many losses and an outage: the report, the written preset, and the losses of a run."""
    points = log((30 * EVERY_S + 4, 5.0), single=0.002)
    draw = np.random.default_rng(4)
    bad = (points.at_s // EVERY_S == 9) & (draw.random(len(points.at_s)) < 0.6)
    rows = [
        f"{at:.2f},{-1 if lost or np.isnan(delay) else delay:.3f}"
        for at, delay, lost in zip(points.at_s, points.delay_ms, bad, strict=True)
    ]
    (tmp_path / "pings.csv").write_text("\n".join(["time_s,rtt", *rows]) + "\n")
    answer = run([str(tmp_path / "pings.csv")], [], tmp_path / "o", "dish", "15 s", "0 s")
    (sentence,) = [one for one in answer.shown if "or an outage (" in str(one)]
    expected = "1 of the 60 intervals whose start is in the log (1.67 %) have a loss burst or an outage "
    assert f"{expected}(median 5000 ms, maximum 5000 ms)" in str(sentence)
    message = answer.data
    single = message["single_losses"]
    assert single["pings"] == pytest.approx(0.002 + 0.6 / SLOTS, rel=0.15)
    (link,) = build_plan(load_scenario(tmp_path / "o/scenario.toml"), "test").runs[0].spec["graph"]["links"]
    (stage,) = [stage for stage in link["up"] if stage["kind"] == "loss"]
    model = stage["model"]
    assert model["kind"] == "reconfiguration"
    assert drawn_mean(model["probability"]) == pytest.approx(single["up"]["preset"], rel=1e-3)
    assert single["up"]["preset"] == pytest.approx(single["pings"] / 2)
    assert drawn_mean([one / 1e6 for one in model["burst_ns"]]) == pytest.approx(5000, abs=50)

    losses = [f"{100 * one:.4g} %" for one in model["probability"]]
    spec = spec_of({
        "duration": "400 s",
        "trace": {"packet_steps": True},
        "path": {"segment": [{"name": "dish", "up": {"reconfiguration": {"interval": "20 ms", "loss": losses}},
                              "down": {"delay": "10 ms"}}]},
        "flow": [{"name": "f", "congestion": {"name": "bbr"}, "direction": "up",
                  "load": {"on_off": {"on": "1 s", "off": "1 ms", "rate": "1 Mbit/s", "time": "400 s"}}}],
    })  # fmt: skip
    steps = made(spec)["packet_steps"].filter(pl.col("link") == "dish.up")
    arrived = steps.filter(pl.col("stage") == 0).height
    lost = steps.filter(pl.col("dropped") != "").height
    assert arrived > 30_000
    assert lost / arrived == pytest.approx(single["up"]["preset"], rel=0.2)
