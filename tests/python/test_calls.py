"""Calls: their loads in a scenario, what is counted of them, and how they are judged (ITU-T G.107)."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import bentpipe as package
from bentpipe.cli import app
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.metrics.call_quality import EModel, PlayoutError, RatingConfig, ie_eff, mos, parse, rate_calls
from bentpipe.plan.cost import estimate_cost
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.plan.randomness import RandomInput, random_inputs
from bentpipe.report.store_page import write_report
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.codec import decode
from bentpipe.store.reader import open_store
from commands import bentpipe

GEO: dict[str, Any] = {"name": "s", "delay": "250 ms", "both": {"rate": "1 Mbit/s"}}
CALL: dict[str, Any] = {"name": "call", "transport": "udp", "load": {"call": "g711"}}


def scenario(*flows: dict[str, Any], segment: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    return {"duration": "20 s", "path": {"segment": [segment or GEO]}, "flow": list(flows), **top}


def plan_of(data: dict[str, Any]) -> Plan:
    return build_plan(load_scenario(data), "test")


def spec_of(data: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(plan_of(data).runs[0].spec_json())
    return spec


def refused(**flow: Any) -> tuple[str, str]:
    with pytest.raises(ScenarioError) as error:
        plan_of(scenario({**CALL, **flow}))
    ((key, text),) = error.value.problems
    return key, text


# --- the scenario ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "name", "payload", "interval_ms", "silent"),
    [
        # RFC 3551 section 4.5.14: 160 bytes of G.711 in 20 ms; 4.5.6: 10 bytes of G.729 in 10 ms.
        ("g711", "g711", 12 + 160, 20, False),
        ({"codec": "g711", "packet": "30 ms", "vad": True}, "g711", 12 + 240, 30, True),
        ("g729", "g729", 12 + 20, 20, False),
        ({"codec": "g729", "packet": "10 ms"}, "g729", 12 + 10, 10, False),
        ("g729a-vad", "g729a-vad", 12 + 20, 20, True),
        ({"codec": "g729a-vad", "vad": False}, "g729a-vad", 12 + 20, 20, False),
    ],
)
def test_a_call_sends_what_its_codec_gives(
    load: Any, name: str, payload: int, interval_ms: int, silent: bool
) -> None:
    words = spec_of(scenario({**CALL, "load": {"call": load}}))["flows"][0]
    assert words["transport"] == {"kind": "udp", "header_bytes": 28}
    assert words["client_congestion"]["name"] == "none"
    source = words["load"]["up"]
    assert source == words["load"]["down"], "both ways"
    assert (source["name"], source["payload_bytes"]) == (name, payload)
    assert source["interval_ns"] == interval_ms * 1_000_000
    assert (source["periods"] is not None) == silent
    if silent:
        # ITU-T P.59 table 1: 38.53 % of the time.
        periods = source["periods"]
        share = periods["on_ns"] / (periods["on_ns"] + periods["off_ns"])
        # The table's means give 38.75 %, its percentages were measured apart.
        assert share == pytest.approx(0.3853, abs=0.003)


def test_streams_and_on_off_sources_keep_their_rate() -> None:
    live = spec_of(scenario({**CALL, "load": {"cbr": "2 Mbit/s"}, "direction": "down", "udp": {"ip": 6}}))[
        "flows"
    ][0]
    assert live["load"]["up"] is None
    source = live["load"]["down"]
    assert source["payload_bytes"] * 8e9 / source["interval_ns"] == pytest.approx(2e6, rel=1e-6)
    assert live["transport"]["header_bytes"] == 48
    # Tauran 2018, table 6.2.
    on_off = {"on": "500 ms", "off": "50 ms", "periods": "pareto", "rate": "64 kbit/s"}
    thesis = spec_of(scenario({**CALL, "load": {"on_off": on_off}, "direction": "down"}))["flows"][0]["load"][
        "down"
    ]
    assert (thesis["payload_bytes"], thesis["interval_ns"]) == (210, 26_250_000)
    assert thesis["periods"]["distribution"] == {"kind": "pareto", "shape": 1.5}


def test_over_streams_an_on_off_source_is_what_it_was() -> None:
    flow = {"name": "call", "congestion": "cubic"}
    source = {"on": "1 s", "off": "2 s", "exponential": True}
    before = spec_of(scenario({**flow, "load": {"on_off": source}}))["flows"][0]["load"]
    assert before == {
        "kind": "on_off", "on_ns": 10**9, "off_ns": 2 * 10**9, "exponential": True, "rate_bit_s": None, "direction": "up",
        "duration_ns": 20 * 10**9,
    }  # fmt: skip
    pareto = {"on": "1 s", "off": "2 s", "periods": "pareto", "shape": 1.2}
    found = spec_of(scenario({**flow, "load": {"on_off": pareto}}))["flows"][0]["load"]
    assert found["pareto_shape"] == 1.2
    sent = {}
    for periods in ("fixed", "exponential", "pareto"):
        load = {"on_off": {"on": "500 ms", "off": "500 ms", "periods": periods, "rate": "100 kbit/s"}}
        data = scenario({**flow, "load": load}, duration="200 s")
        tables = decode(engine.run(json.dumps(spec_of(data)))).tables
        sent[periods] = tables["streams"]["up_bytes"][0]
    # Fixed periods: half the time; drawn ones differ from it and from each other.
    assert sent["fixed"] == pytest.approx(100e3 / 8 * 100, rel=0.03)
    assert len(set(sent.values())) == 3


@pytest.mark.parametrize(
    ("flow", "key", "text"),
    [
        ({"load": {"call": "g79"}}, "flow.call.load.call", 'no codec "g79", expected one of: g711, g729, g729a-vad; did you mean "g729"?'),
        ({"load": {"call": {"codec": "G711"}}}, "flow.call.load.call.codec", 'no codec "G711", expected one of: g711, g729, g729a-vad; did you mean "g711"?'),
        ({"load": {"call": {"codec": "g729", "packet": "15 ms"}}}, "flow.call.load.call.packet", "found 15 ms, expected a multiple of 10 ms up to 200 ms"),
        ({"load": {"on_off": {"on": "1 s", "off": "1 s", "periods": "pareto", "shape": 1, "rate": "1 Mbit/s"}}},
         "flow.call.load.on_off.shape", "found 1, expected more than 1: Pareto periods of that shape have no mean"),
        ({"load": {"on_off": {"on": "1 s", "off": "1 s"}}}, "flow.call.load.on_off.rate", "missing, expected a rate: a source of datagrams sends at its rate"),
        ({"load": {"on_off": {"on": "1 s", "off": "1 s", "rate": "1 Mbit/s", "shape": 2}}}, "flow.call.load.on_off", 'found a shape, which requires periods = "pareto"'),
        ({"load": {"cbr": {"rate": "1 Mbit/s", "packet": "70 kB"}}}, "flow.call.load.cbr", "found packet = 70 kB, expected 22 B to 65507 B (payload of UDP)"),
        ({"congestion": "cubic"}, "flow.call.congestion", 'found a controller, expected none: transport = "udp" has no congestion control'),
        ({"transport": "quic"}, "flow.call.congestion", 'missing, expected a controller such as "cubic"'),
        ({"transport": "tcp", "congestion": "cubic"}, "flow.call", 'found a load of datagrams with transport = "tcp", which has none; expected "udp" or "quic"'),
        ({"transport": "quic", "congestion": "cubic", "load": {"cbr": {"rate": "1 Mbit/s", "packet": "1450 B"}}},
         "flow.call.load", "found datagrams of 1450 B, expected at most 1414 B in a packet of QUIC (quic.mtu)"),
        ({"quic": {"mtu": "1300 B"}}, "flow.call", 'found quic options in a flow with transport = "udp", expected none (page loads take both); put options of several flows into [quic]'),
    ],
)  # fmt: skip
def test_impossible_settings_name_their_key(flow: dict[str, Any], key: str, text: str) -> None:
    assert refused(**flow) == (key, text)


def test_udp_wants_a_load_of_datagrams() -> None:
    key, text = refused(load={"time": "5 s"})
    assert key == "flow.call"
    assert text.startswith('found transport = "udp" without a load of datagrams; expected one such as')


def test_random_parts() -> None:
    def draws(load: dict[str, Any]) -> bool:
        return RandomInput.LOAD in random_inputs(plan_of(scenario({**CALL, "load": load})).runs[0].spec)

    assert not draws({"call": "g711"})
    assert draws({"call": "g729a-vad"})
    fixed = {"on": "1 s", "off": "1 s", "rate": "64 kbit/s"}
    assert not draws({"on_off": fixed})
    assert draws({"on_off": {**fixed, "periods": "pareto"}})


@pytest.mark.parametrize("load", [{"call": "g711"}, {"call": "g729a-vad"}, {"cbr": "3 Mbit/s"}])
@pytest.mark.parametrize("transport", ["udp", "quic"])
def test_the_price_is_right_within_a_factor_of_two(load: dict[str, Any], transport: str) -> None:
    extra = {} if transport == "udp" else {"congestion": "cubic"}
    plan = plan_of(scenario({**CALL, **extra, "transport": transport, "load": load}, duration="60 s"))
    priced = estimate_cost(plan.cells[0].resolved).events
    done = decode(engine.run(plan.runs[0].spec_json()))
    assert priced / 2 < done.events < priced * 2


# --- judging --------------------------------------------------------------------------------------------------------

JITTERY = {
    "name": "s", "delay": "100 ms", "up": {"rate": "1 Mbit/s", "loss": "3 %", "jitter": {"exponential": "15 ms", "reorder": True}},
    "down": {"rate": "1 Mbit/s", "jitter": {"normal": {"mean": "30 ms", "deviation": "8 ms"}, "reorder": False}},
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flows = (
        {**CALL, "load": {"call": {"codec": "g711", "time": "40 s"}}},
        {**CALL, "name": "video", "load": {"cbr": "200 kbit/s"}},
    )
    data = scenario(*flows, segment=JITTERY, duration="50 s", trace={"packets": True}, seeds=2)
    return Path(package.run(data, out=tmp_path_factory.mktemp("calls") / "store", jobs=1).path)


def _delays(store: Path) -> Iterator[tuple[str, str, list[float | None]]]:
    """For each run and direction of the call: delays in the order of sending, ms; None: lost. From the trace."""
    packets = open_store(store).rows("packets").filter(pl.col("flow") == "call")
    for (run, start), own in packets.sort("sent_s", "packet").group_by(
        "run", "from_node", maintain_order=True
    ):
        way = "up" if start == "client" else "down"
        took = [
            None if row["received_s"] is None else 1e3 * (row["received_s"] - row["sent_s"])
            for row in own.iter_rows(named=True)
        ]
        yield str(run), way, took


def _bursts(good: list[bool]) -> int:
    return sum(before and not after for before, after in itertools.pairwise(good))


@pytest.mark.parametrize("rule", ["20 ms", "60 ms", "p50", "p90", "p99"])
def test_late_packets_are_those_of_the_trace(store: Path, rule: str) -> None:
    found = rate_calls(open_store(store), RatingConfig(playout=parse(rule)))
    rows = {(row["run"], row["direction"]): row for row in found.filter(flow="call").iter_rows(named=True)}
    traced = list(_delays(store))
    assert len(traced) == len(rows) == 4
    for run, way, took in traced:
        come = sorted(delay for delay in took if delay is not None)
        if rule.startswith("p"):
            last = come[math.ceil(float(rule[1:]) / 100 * len(come)) - 1]
            deadline = math.floor(last) + 1
        else:
            deadline = math.ceil(come[0] + float(rule.split(maxsplit=1)[0]))
        good = [delay is not None and delay < deadline for delay in took]
        row = rows[run, way]
        assert row["playout_ms"] == deadline
        assert row["sent_packets"] == len(took)
        assert row["lost_ratio"] * len(took) == pytest.approx(len(took) - len(come))
        assert (row["lost_ratio"] + row["late_ratio"]) * len(took) == pytest.approx(good.count(False))
        assert row["delay_ms"] == pytest.approx(sum(come) / len(come), rel=1e-6)
        loss = good.count(False) / len(good)
        # The histogram excludes losses before the first and after the last received datagram.
        burst = max(1.0, good.count(False) / max(_bursts(good), 1) * (1 - loss))
        assert row["burst_ratio"] == pytest.approx(burst, rel=0.02)
        wanted = EModel().rating(deadline + 20 + 0.125, ie_eff(0, 25.1, loss, row["burst_ratio"]))
        assert row["rating"] == pytest.approx(wanted)
        assert row["mos"] == pytest.approx(mos(wanted))


def test_adaptive_play_out_follows_the_window_before(store: Path) -> None:
    found = rate_calls(open_store(store)).filter(flow="call")
    for run, way, took in _delays(store):
        (row,) = found.filter(run=run, direction=way).iter_rows(named=True)
        late, before = 0, None
        for start in range(0, 2000, 500):
            # 20 ms apart: 499 datagrams are full before 10 s.
            own = took[max(0, start - 1) : start + 499]
            bins = [math.floor(delay) + 0.5 for delay in own if delay is not None]
            mean = sum(bins) / len(bins)
            estimate = math.ceil(mean + 4 * sum(abs(one - mean) for one in bins) / len(bins))
            deadline = estimate if before is None else before
            late += sum(one > deadline for one in bins)
            before = estimate
        assert row["late_ratio"] * row["sent_packets"] == pytest.approx(late, abs=2)
        assert row["mos"] > 1


def test_an_old_store_is_judged_with_another_codec(store: Path) -> None:
    saved = open_store(store)
    plain = rate_calls(saved).filter(flow="call")
    assert set(rate_calls(saved)["source"]) == {"g711", "live"}
    assert rate_calls(saved).filter(flow="video")["mos"].null_count() == 2, "a stream is no speech"
    assert rate_calls(saved, RatingConfig(codec="g711")).filter(flow="video")["mos"].null_count() == 0
    for how, better in (
        (RatingConfig(codec="g729"), False), (RatingConfig(advantage=20.0), True), (RatingConfig(plc=False), False),
    ):  # fmt: skip
        other = rate_calls(saved, how).filter(flow="call")
        assert ((other["mos"] > plain["mos"]) == better).all(), how
    assert rate_calls(saved, RatingConfig(advantage=5.0))["rating"].drop_nulls().to_list() == pytest.approx(
        [rating + 5 for rating in rate_calls(saved)["rating"].drop_nulls()]
    )


def test_a_judgement_that_cannot_be_is_refused(store: Path) -> None:
    saved = open_store(store)
    for how, key in (
        (RatingConfig(codec="g7"), "codec"),
        (RatingConfig(advantage=21.0), "advantage"),
        (RatingConfig("g729", plc=False), "plc"),
    ):
        with pytest.raises(ScenarioError) as error:
            rate_calls(saved, how)
        assert error.value.problems[0][0] == key
    for words, message in (
        (["--codec", "g722"], 'error: --codec: no codec "g722", expected one of: g711, g729, g729a-vad'),
        (["--advantage", "21"], "error: --advantage: found 21, expected 0 to 20"),
        (["--codec", "g729", "--no-plc"], "error: --plc: g729 always conceals"),
    ):
        done = bentpipe(store, "calls", ".", *words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(message), done.stderr
    for text in ("p0", "p101", "soon", "60"):
        with pytest.raises(PlayoutError):
            parse(text)


def test_commands_and_python_say_the_same(store: Path) -> None:
    shown = CliRunner().invoke(app, ["show", str(store)])
    assert "Calls and other datagrams" in shown.output
    args = ["calls", str(store), "--codec", "g729", "--playout", "40 ms", "--advantage", "20"]
    rows = json.loads(CliRunner().invoke(app, [*args, "--json"]).output)
    frame = package.Results(store).rate_calls("g729", "40 ms", 20.0)
    assert [row["mos"] for row in rows] == frame["mos"].to_list()
    text = CliRunner().invoke(app, args).output
    assert "play-out 40 ms, codec g729, A = 20" in text
    assert CliRunner().invoke(app, [*args, "--playout", "soon"]).exit_code == 2


def test_a_store_without_calls_has_nothing_to_judge(tmp_path: Path) -> None:
    data = scenario({"name": "bulk", "congestion": "cubic"}, duration="2 s")
    path = Path(package.run(data, out=tmp_path / "store", jobs=1).path)
    assert not rate_calls(open_store(path)).height
    assert "Calls" not in CliRunner().invoke(app, ["show", str(path)]).output
    messages = CliRunner().invoke(app, ["calls", str(path)])
    assert messages.exit_code == 2
    assert "no datagram flows in this store" in messages.output


TRACED = {"duration": "3 s", "trace": {"packet_steps": True}}


def tampered(column: str, by: int, table: str = "calls") -> Any:
    return lambda t: {**t, table: t[table].with_columns(pl.col(column) + by)}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (None, None),
        (tampered("sent_packets", 1), "counters"),
        (tampered("received_packets", -1), "counters"),
        (tampered("packets", 1, "call_delays"), "counters"),
        (tampered("delay_ms", 1, "call_delays"), "counters"),
        (lambda t: {name: table for name, table in t.items() if name != "calls"}, "counters"),
        (
            lambda t: {**t, "packets": t["packets"].with_columns(bytes=pl.col("bytes") + 1)},
            "source rate",
        ),
        (
            lambda t: {**t, "packets": t["packets"].with_columns(sent_s=pl.col("sent_s") + 0.001)},
            "source rate",
        ),
    ],
)
def test_verify_knows_what_a_source_sends(change: Any, rule: str | None) -> None:
    from bentpipe.trace_check import datagrams
    from bentpipe.trace_check.trace import load_trace

    pareto = {"on": "200 ms", "off": "100 ms", "periods": "pareto", "rate": "64 kbit/s"}
    flows = (CALL, {**CALL, "name": "thesis", "load": {"on_off": pareto}})
    spec = spec_of(scenario(*flows, segment={**GEO, "up": {"loss": "5 %"}}, **TRACED))
    tables = dict(decode(engine.run(json.dumps(spec))).tables)
    found = {
        one.rule for one in datagrams.check_datagrams(load_trace(spec, change(tables) if change else tables))
    }
    assert rule in found if rule else not found


def test_an_unsuitable_worker_is_refused(tmp_path: Path) -> None:
    from bentpipe.trace_check import verify

    calls = {**CALL, "name": "calls", "count": 12, "start_jitter": "6 s", "admission_rate": "250 kbit/s"}
    data = scenario(
        {**calls, "load": {"call": {"codec": "g711", "time": "4 s"}}},
        duration="9 s",
        trace={"packet_steps": True},
    )
    spec = spec_of(data)
    assert spec["admissions"] == [
        {"name": "calls", "flows": [f"calls-{n}" for n in range(1, 13)], "rate_bit_s": 250_000}
    ]
    path = Path(package.run(data, out=tmp_path / "store", jobs=1).path)
    saved = open_store(path)
    events = saved.rows("events").filter(pl.col("kind") == "refused")
    summary = saved.rows("flow_summary").filter(pl.col("side") == "client")
    starts = dict(summary.select("flow", "start_s").iter_rows())
    # 80 kbit/s each: 3 fit.
    ends: list[float] = []
    refused = set()
    for start, flow in sorted((start, flow) for flow, start in starts.items()):
        ends = [end for end in ends if end > start]
        if len(ends) < 3:
            ends.append(start + 4)
        else:
            refused.add(flow)
    assert 0 < len(refused) < 12
    assert set(events["flow"]) == refused
    assert all(row["time_s"] == pytest.approx(starts[row["flow"]]) for row in events.iter_rows(named=True))
    assert set(summary.filter(pl.col("sent_packets") == 0)["flow"]) == refused
    assert rate_calls(saved)["flow"].n_unique() == 12 - len(refused)
    (verdict,) = verify(saved)
    assert verdict.findings == ()
    assert "blocked" in CliRunner().invoke(app, ["show", str(path)]).output
    assert "blocked calls" in write_report(path, tmp_path / "report.html").read_text(encoding="utf-8")


def test_only_calls_are_admitted() -> None:
    with pytest.raises(ScenarioError) as error:
        plan_of(scenario({"name": "bulk", "congestion": "cubic", "admission_rate": "1 Mbit/s"}))
    assert error.value.problems[0][0] == "flow.bulk.admission_rate"


def test_calls_have_their_figures_and_a_part_of_the_report(tmp_path: Path) -> None:
    data = scenario(
        {**CALL, "name": "calls", "count": 3},
        duration="12 s",
        seeds=2,
        sweep={"path.s.delay": ["20 ms", "300 ms"]},
    )
    data["path"]["segment"][0] = {**JITTERY}
    path = Path(package.run(data, out=tmp_path / "store", jobs=1).path)
    material = FigureContext(open_store(path))
    delay = FIGURES["call-delay"](material)
    assert delay is not None
    rows = pl.concat((_drawn(delay.spec())), how="vertical_relaxed")
    ends = rows.group_by("series", "column").agg(pl.col("y").max())
    by = {(row["series"], row["column"]): row["y"] for row in ends.iter_rows(named=True)}
    # 3 % are lost upwards, nothing downwards.
    assert all(99.9 < y <= 100 if series == "down" else 90 < y < 99.5 for (series, _), y in by.items()), by
    opinion = FIGURES["call-mos"](material)
    assert opinion is not None
    points = pl.concat(_drawn(opinion.spec()))
    near, far = (points.filter(pl.col("label") == label)["mos"].to_list() for label in ("20 ms", "300 ms"))
    assert min(near) > max(far)
    text = write_report(path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>Calls</h2>" in text
    assert "mean opinion score" in text
    bulk = scenario({"name": "bulk", "congestion": "cubic"}, duration="2 s")
    other = Path(package.run(bulk, out=tmp_path / "bulk", jobs=1).path)
    assert FIGURES["call-delay"](FigureContext(open_store(other))) is None
    assert FIGURES["call-mos"](FigureContext(open_store(other))) is None
    assert "<h2>Calls</h2>" not in write_report(other, tmp_path / "bulk.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("sweep", "labels", "lines"),
    [
        # labels of tables, with a noun or without one that counts
        ({"many": [{"label": "2 users", "flow.calls.count": 2}, {"label": "1 user", "flow.calls.count": 1}]},
         ["2 users", "1 user"], 1),
        ({"way": [{"label": "fast", "path.s.delay": "20 ms"}, {"label": "slow", "path.s.delay": "300 ms"}]},
         ["fast", "slow"], 0),
        ({"path.s.up.queue": ["10 packets", "100 packets"]}, ["10 packets", "100 packets"], 1),
        ({"flow.calls.load.call": ["g711", "g729"]}, ["g711", "g729"], 0),
    ],
)  # fmt: skip
def test_every_sweep_of_calls_has_its_scores(
    tmp_path: Path, sweep: dict[str, Any], labels: list[str], lines: int
) -> None:
    """Lines join points of amounts, but not points of alternatives."""
    data = scenario({**CALL, "name": "calls", "count": 1}, duration="4 s", sweep=sweep)
    path = Path(package.run(data, out=tmp_path / "store", jobs=1).path)
    figure = FIGURES["call-mos"](FigureContext(open_store(path)))
    assert figure is not None
    (points,) = _drawn(figure.spec())
    assert points["label"].unique(maintain_order=True).to_list() == labels
    assert points["mos"].is_between(1, 4.5).all()
    marks = [layer["mark"]["type"] for layer in figure.spec()["layer"]]
    assert marks.count("line") == lines
    assert figure.write(tmp_path / "mos.svg").stat().st_size > 0


def _drawn(spec: dict[str, Any]) -> list[pl.DataFrame]:
    return [pl.read_csv(io.StringIO(text)) for text in spec["datasets"].values()]


def test_calls_of_a_group_are_shown_together(tmp_path: Path) -> None:
    data = scenario({**CALL, "name": "calls", "count": 5}, duration="6 s", seeds=2)
    path = Path(package.run(data, out=tmp_path / "store", jobs=1).path)
    assert rate_calls(open_store(path)).height == 2 * 5 * 2
    output = CliRunner().invoke(app, ["show", str(path)]).output
    assert "min MOS" in output
    table = output[output.index("Calls and") :].splitlines()
    assert len([line for line in table if line.startswith("calls")]) == 2
