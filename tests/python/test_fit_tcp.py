"""``bentpipe fit`` and TCP: single losses by its retransmissions, and CUBIC over the preset beside the log's own."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import bentpipe
from bentpipe.fit import export, run, simulated
from bentpipe.fit.estimate import fit_delays, fit_rates
from bentpipe.fit.log_formats import Transfer
from bentpipe.fit.log_merge import MergedLogs
from bentpipe.fit.losses import drawn_mean, single_loss_bound
from bentpipe.fit.model import Model, Points, Rates, interpolate
from bentpipe.metrics.format import CommandOutput
from bentpipe.scenario.presets import segments
from bentpipe.scenario.quantities import Duration, Probability
from synthetic_dish import Dish, pings

BEGIN_S = 1_767_225_600
SECONDS = 300
SEED = 3
PING_LOSS = 0.013
"""Losses of pings at a gateway that answers them with low priority; other packets have none."""

SCENARIO = """
duration = "{seconds} s"
sample_interval = "1 s"
[[path.segment]]
name = "dish"
both = {{ queue = "50 ms", delay = {{ trace = "delay.csv" }}, loss = {{ trace = "loss.csv" }} }}
down = {{ rate = {{ trace = "rate.csv" }} }}
up = {{ rate = "8 Mbit/s" }}
[[flow]]
name = "download"
transport = "tcp"
congestion = "cubic"
direction = "down"
load = {{ time = "{seconds} s" }}
"""


def download(folder: Path) -> list[dict[str, Any]]:
    """Sums of each second of one flow of CUBIC over a dish's path: its delays, its handovers, rates of slots."""
    dish = Dish(SEED, loss=0.0)
    delays, losses, state = ["time_us,delay_ms"], ["time_us,loss"], -1
    for at_us in range(0, SECONDS * 1_000_000, 10_000):
        took = dish.ping(BEGIN_S + at_us / 1e6)
        if took is not None:
            delays.append(f"{at_us},{took / 2:.4f}")
        if state != (took is None):
            state = took is None
            losses.append(f"{at_us},{int(state)}")
    draw = random.Random(SEED)  # noqa: S311
    rates = [f"{max(0, at)},{draw.uniform(30, 70):.2f}" for at in range(-3, SECONDS, 15)]
    traces = {"delay": delays, "loss": losses, "rate": ["time_s,rate_Mbit_s", *rates]}
    for name, rows in traces.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
    (folder / "link.toml").write_text(SCENARIO.format(seconds=SECONDS))
    flows = bentpipe.run(folder / "link.toml").flows
    received, again = (
        np.diff(flows.filter(pl.col("side") == side)[column].to_numpy(), prepend=0)
        for side, column in (("client", "received_bytes"), ("server", "retransmitted_bytes"))
    )
    assert len(received) == SECONDS
    return [
        {
            "start": at, "end": at + 1, "bytes": int(bytes_), "bits_per_second": 8.0 * bytes_,
            "retransmits": round(count / 1448), "omitted": False, "sender": True,
        }
        for at, (bytes_, count) in enumerate(zip(received, again, strict=True))
    ]  # fmt: skip


def as_iperf3(sums: list[dict[str, Any]]) -> str:
    """The server's ``iperf3 --json`` file of a download."""
    test = {"protocol": "TCP", "num_streams": 1, "reverse": 1}
    start = {
        "timestamp": {"timesecs": BEGIN_S},
        "accepted_connection": {},
        "tcp_mss_default": 1448,
        "test_start": test,
    }
    document = {
        "start": start, "intervals": [{"sum": one} for one in sums], "end": {"sender_tcp_congestion": "cubic"},
    }  # fmt: skip
    return json.dumps(document)


@dataclass
class Logs:
    """Logs of one link: pings with losses that other packets do not have, and a download."""

    pings: Path
    known: Path
    """With retransmissions of each second..."""
    blind: Path
    """... and without any."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    folder = tmp_path_factory.mktemp("link")
    sums = download(folder)
    blind = [{key: value for key, value in one.items() if key != "retransmits"} for one in sums]
    made = Logs(folder / "pings.txt", folder / "known.json", folder / "blind.json")
    made.pings.write_text(pings(SEED, SECONDS, begin_s=BEGIN_S, loss=PING_LOSS))
    made.known.write_text(as_iperf3(sums))
    made.blind.write_text(as_iperf3(blind))
    return made


def fit_model(logs: Logs, download: Path, out: Path) -> tuple[CommandOutput, Mapping[str, Any]]:
    message = run([str(logs.pings), str(download)], [], out, "dish", "15 s", "12 s")
    (row,) = message.data["simulated"]
    assert (row["direction"], row["congestion"], row["streams"]) == ("down", "cubic", 1)
    return message, row


def test_cubic_over_the_preset_has_the_logs_rate(logs: Logs, tmp_path: Path) -> None:
    """The pass mark: within 25 % of what the log's own CUBIC had."""
    message, row = fit_model(logs, logs.known, tmp_path / "o")
    assert row["preset_Mbit_s"] == pytest.approx(row["log_Mbit_s"], rel=0.25)
    assert row["agrees"]
    single = message.data["single_losses"]
    assert single["pings"] == pytest.approx(PING_LOSS, rel=0.15)
    assert single["down"]["preset"] <= single["down"]["retransmissions"] < 1e-4, "no packet is lost by itself"
    assert single["up"]["preset"] == pytest.approx(PING_LOSS / 2, rel=0.15)
    assert any("No log has TCP retransmissions up." in str(text) for text in message.shown)


def test_the_page_says_why_cubic_has_less(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without retransmissions the losses of pings apply to all packets; a run without each cause identifies it."""
    monkeypatch.setattr(simulated, "SECONDS", 60)
    monkeypatch.setattr(simulated, "SEEDS", 2)
    _, row = fit_model(logs, logs.blind, tmp_path / "o")
    assert not row["agrees"]
    assert row["preset_Mbit_s"] < row["log_Mbit_s"] / 3
    assert set(row["without_Mbit_s"]) == {"single losses", "bursts of loss", "jitter"}
    assert max(row["without_Mbit_s"], key=row["without_Mbit_s"].get) == "single losses"
    assert row["without_Mbit_s"]["single losses"] > 3 * row["preset_Mbit_s"]
    page = (tmp_path / "o/fit.html").read_text()
    assert "not within 25 %. The simulated goodput is " in page
    assert "No log has TCP retransmissions down or up." in page


@pytest.mark.parametrize(("often", "seldom", "most"), [(0, 0, 0.0), (0, 1, 12 / 480_000), (4, 4, 4 / 4000)])
def test_the_losses_of_a_preset_are_bounded_where_iperf3_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: int, seldom: int, most: float
) -> None:
    """``starlink`` supplies values that no log has, within its bounds; the losses of the other direction stay."""
    monkeypatch.setattr(simulated, "SECONDS", 5)
    monkeypatch.setattr(simulated, "SEEDS", 1)
    sums = [
        {
            "start": at, "end": at + 1, "bytes": 1448 * 4000, "bits_per_second": 8.0 * 1448 * (4000 + at // 15),
            "retransmits": often if at % 10 else seldom, "omitted": False, "sender": True,
        }
        for at in range(120)
    ]  # fmt: skip
    (tmp_path / "down.json").write_text(as_iperf3(sums))
    message = run([str(tmp_path / "down.json")], [], tmp_path / "o", "dish", "15 s", "0 s")
    text = (tmp_path / "o/dish.toml").read_text()
    (mine,), (known,) = tomllib.loads(text)["path"]["segment"], segments("starlink")
    own = 0.0002  # a quarter each of 0-0, 0-0.01, 0.01-0.02 and 0.02-0.1 %
    for side, mean in (("down", min(own, most)), ("up", own)):
        losses = [Probability.parse(one).value for one in mine[side]["reconfiguration"].pop("loss")]
        assert drawn_mean(losses) == pytest.approx(mean, rel=1e-3)
        assert message.data["single_losses"][side]["preset"] == pytest.approx(mean, rel=1e-6)
        known[side]["reconfiguration"].pop("loss")
        for key in ("phase", *(["rate"] if side == "down" else [])):
            mine[side]["reconfiguration"].pop(key)
            known[side]["reconfiguration"].pop(key)
        assert mine[side]["reconfiguration"] == known[side]["reconfiguration"], (
            "what no log says is the preset's, with its steps"
        )
    allowed = f"TCP retransmissions down limit single losses to {100 * most:.3g} %; the preset has {100 * min(own, most):.3g} %"
    (sentence,) = [one for one in message.shown if str(one).startswith("TCP retransmissions")]
    assert sentence == f"{allowed} (starlink: 0.02 %)."
    assert f"# Single losses down: at most {100 * most:.3g} %, from the retransmissions of iperf3." in text


def test_the_bound_is_the_share_of_retransmissions_or_what_single_ones_say() -> None:
    quiet, one, burst = (1000.0, 0), (1000.0, 1), (1000.0, 50)
    assert single_loss_bound(Transfer(intervals=[quiet] * 8 + [one] * 2 + [burst])) == pytest.approx(2 / 8000)
    assert single_loss_bound(Transfer(intervals=[burst, one])) == pytest.approx(51 / 2000), "none without any"
    assert single_loss_bound(Transfer(intervals=[quiet] * 3)) == 0
    assert single_loss_bound(Transfer(whole=[(10_000.0, 7)])) == pytest.approx(7e-4)
    assert single_loss_bound(Transfer()) is None
    assert single_loss_bound(Transfer(whole=[(0.0, 0)])) is None, "an interrupted receiver knows nothing"


@pytest.mark.parametrize("chance", [1e-5, 1e-4, 5e-4])
def test_independent_losses_are_found_again_among_bursts(chance: float) -> None:
    draw = np.random.default_rng(4)
    segments = draw.uniform(500, 4000, 4000)
    counts = draw.poisson(chance * segments) + np.where(draw.random(4000) < 0.1, 80, 0)
    pairs = [(float(sent), int(count)) for sent, count in zip(segments, counts, strict=True)]
    assert single_loss_bound(Transfer(intervals=pairs)) == pytest.approx(chance, rel=0.25)


def test_a_slot_without_answers_loses_everything_in_both_directions() -> None:
    """It is the link's outage; what retransmissions bound are the single losses of the other slots."""
    at_s = np.arange(0, 300, 0.1)
    lost = (at_s // 15 == 7) | (np.arange(3000) % 100 == 50)
    points = Points(at_s, np.where(lost, np.nan, 40.0))
    model = Model(15.0, most_loss={"down": 0.001})
    fit_delays(points, model)
    written, _ = export.preset(MergedLogs([], points), model, "dish", "log")
    (segment,) = tomllib.loads(written["dish.toml"])["path"]["segment"]
    for side, mean in (("up", 0.005), ("down", 0.001)):
        slots = segment[side]["reconfiguration"]
        assert slots["loss_bursts"]["probability"] == "5 %"
        assert {Duration.parse(one).ns for one in slots["loss_bursts"]["duration"]} == {15 * 10**9}
        losses = [Probability.parse(one).value for one in slots["loss"]]
        assert drawn_mean(losses) == pytest.approx(mean, rel=0.02)
        assert losses[-1] == pytest.approx(mean, rel=0.5)


# Time and tails


def test_delays_weigh_as_long_as_they_last(tmp_path: Path) -> None:
    """Every other slot has ten times as many pings; half of the time is in each kind of slot."""
    draw = random.Random(5)  # noqa: S311
    rows = ["timestamp,rtt"]
    for slot in range(40):
        step_s, level = ((0.1, 20), (1.0, 80))[slot % 2]
        rows += [
            f"{BEGIN_S + 15 * slot + n * step_s:.2f},{level + draw.uniform(0, 4):.2f}"
            for n in range(round(15 / step_s))
        ]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(rows) + "\n")
    message = run([str(log)], [], tmp_path / "o", "dish", "15 s", "0 s").data
    judged = {row["quantity"]: row for row in message["judged"]}
    assert judged["95th percentile of the delay, ms"]["data"] == pytest.approx(83.6, abs=0.3), (
        "5 of 50 % are above"
    )
    assert judged["50th percentile of the delay, ms"]["data"] > 23.5
    assert judged["50th percentile of the delay, ms"]["model"] > 23.5


def test_losses_weigh_as_long_as_they_last() -> None:
    at_s = np.concatenate([np.arange(0, 15, 0.1), np.arange(15, 30, 0.5)])
    points = Points(at_s, np.where(at_s < 15, np.nan, 40.0))
    assert points.lost == pytest.approx(0.5, abs=0.01)
    hole = Points(np.array([0.0, 0.1, 0.2, 500.0, 500.1]), np.array([1.0, 1.0, np.nan, 1.0, 1.0]))
    assert hole.lost == pytest.approx(1 / 1.4), "of a hole in a log a second is known at most"


def test_tables_are_as_fine_as_their_tails_need() -> None:
    draw = np.random.default_rng(6)
    for values, most in ((draw.lognormal(3.5, 0.8, 4000), 801), (draw.uniform(20, 60, 4000), 41)):
        model = Model(15.0)
        fit_rates(Rates(15.0 * np.arange(4000.0), 1e6 * values), "down", model)
        table = model.rate_bit_s["down"]
        assert len(table) <= most
        ranks = np.array([0.01, 0.5, 0.98, 0.99, 0.995])
        assert interpolate(table, ranks) / 1e6 == pytest.approx(np.quantile(values, ranks), rel=0.025)
