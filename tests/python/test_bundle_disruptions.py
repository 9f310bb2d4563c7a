"""Bundle nodes under disruption: connections at a new contact or on a dark link, failing nodes, and timers that follow the plan."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pytest

import bentpipe as library
from bentpipe.plan.document import load_scenario
from bentpipe.plan.dtn.nodes import CONTACT_START
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from commands import bentpipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.store.reader import Store

SCENARIOS = Path(__file__).parents[2] / "scenarios/dtn"

HOP: dict[str, Any] = {
    "duration": "20 s",
    "path": {"segment": [{"name": "link", "delay": "50 ms", "both": {"rate": "20 Mbit/s"}}]},
    "flow": [
        {
            "name": "hop",
            "congestion": "cubic",
            "load": {"bundles": {"layer": "quiccl", "dtnperf": "-W 4 -P 100k -D 1M"}},
        }
    ],
}


def specs(scenario: Mapping[str, Any], *settings: tuple[str, object]) -> list[dict[str, Any]]:
    document = load_scenario(copy.deepcopy(dict(scenario)), settings)
    return [
        cast("dict[str, Any]", run.spec)
        for run in build_plan(document, "test", catalogue=engine.catalogue()).runs
    ]


def spec(*settings: tuple[str, object]) -> dict[str, Any]:
    return specs(HOP, *settings)[0]


def contacts(
    *spans: tuple[str, str], owlt: str = "50 ms", rate: str = "20 Mbit/s"
) -> list[dict[str, object]]:
    return [
        {"from": "client", "to": "server", "start": start, "stop": stop, "rate": rate, "owlt": owlt, "both": True}
        for start, stop in spans
    ]  # fmt: skip


def results(tmp_path: Path, scenario: Mapping[str, Any], *settings: tuple[str, object]) -> Store:
    return library.run(copy.deepcopy(dict(scenario)), settings=dict(settings), out=tmp_path / "out")


ON = "flow.hop.load.bundles.on_return"
CLOSED = "flow.hop.load.bundles.closed"
LAYER = "flow.hop.load.bundles.layer"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([(LAYER, "tcpcl"), ("flow.hop.transport", "tcp"), (ON, "cue")], 'found "cue" with layer = "tcpcl"'),
        ([(LAYER, "tcpcl"), ("flow.hop.transport", "tcp"), (ON, "resume")], 'expected "alone" or "reopen"'),
        ([(LAYER, "qubicle"), (ON, "resume")], "forbids bundles in early data"),
        ([(ON, "cue"), (CLOSED, "with_contact")], 'expected closed = "never"'),
        ([(ON, "later")], "on_return"),
    ],
)
def test_unsupported_actions_at_a_new_contact_are_refused_by_key(
    settings: list[tuple[str, object]], message: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        spec(*settings)
    assert message in str(caught.value)
    assert "on_return" in str(caught.value)


@pytest.mark.parametrize(
    ("way", "closes"), [("alone", False), ("cue", False), ("reopen", True), ("resume", True), (None, True)]
)
def test_a_connection_stays_for_what_is_done_with_it(way: str | None, closes: bool) -> None:
    link = spec(*([(ON, way)] if way else []))["dtn"]["links"][0]
    assert (link.get("on_contact_start"), link["closes_after_contact"]) == (
        CONTACT_START[way] if way else None,
        closes,
    )


def test_an_outage_is_before_the_delay_or_behind_it() -> None:
    def kinds(*settings: tuple[str, object]) -> list[str]:
        window = {"windows": [{"at": "1 s", "duration": "1 s"}]}
        position = dict(settings).get("position")
        outages = window | ({"position": position} if position else {})
        netem = [("path.link.netem", True)] if dict(settings).get("netem") else []
        stages = spec(("path.link.outages", outages), *netem)["graph"]["links"][0]["up"]
        return [stage["kind"] for stage in stages]

    plain = kinds()
    assert plain == kinds(("position", "before-delay"))
    assert plain.index("outage") < plain.index("delay")
    assert kinds(("position", "after-stages")) == [*(kind for kind in plain if kind != "outage"), "outage"]
    netem = kinds(("netem", True))
    assert netem[-1] == "outage"
    assert kinds(("netem", True), ("position", "before-delay"))[0] == "outage"


def test_stops_of_a_node_are_in_order() -> None:
    outages = [{"at": "5 s", "duration": "2 s"}, {"at": "9 s", "store": "lost"}]
    node = {"name": "server", "store_delay": "30 ms", "outages": outages}
    found = {one["name"]: one for one in spec(("dtn.node", [node]))["dtn"]["nodes"]}
    second = 1_000_000_000
    assert found["server"]["store_delay_ns"] == 30_000_000
    assert found["server"]["outages"] == [
        {"at_ns": 5 * second, "until_ns": 7 * second, "keeps_store": True},
        {"at_ns": 9 * second, "until_ns": None, "keeps_store": False},
    ]
    assert not {"stops", "store_delay_ns"} & found["client"].keys()
    for wrong in ([outages[0], {"at": "6 s"}], [outages[1], {"at": "10 s"}]):
        with pytest.raises(ScenarioError, match=r"dtn\.node.*outages"):
            spec(("dtn.node", [{"name": "server", "outages": wrong}]))


def events(store: Store, kind: str) -> list[float]:
    rows = store.rows("events").filter((pl.col("kind") == kind) & (pl.col("side") == "client"))
    return rows["time_s"].to_list()


@pytest.mark.parametrize("opened", ["with_contact", "on_demand"])
@pytest.mark.parametrize("closed", ["with_contact", "never"])
def test_connections_open_and_close_as_configured(tmp_path: Path, opened: str, closed: str) -> None:
    scenario = copy.deepcopy(HOP)
    there = scenario["flow"][0]
    words = {"connections": "each", "opened": opened, "closed": closed}
    there["load"]["bundles"] |= words | {"dtnperf": "-R 10b -P 10k -T 2"}
    back = {"layer": "quiccl", **words}
    scenario["flow"].append({**there, "name": "back", "load": {"bundles": back}})
    there["start"] = "4 s"
    # a graph names the two ends; on a path every flow leads the same way
    scenario["graph"] = {"node": ["client", "server"], "link": [{**scenario.pop("path")["segment"][0], "client_side": "client", "server_side": "server"}]}  # fmt: skip
    there |= {"client": "client", "server": "server"}
    scenario["flow"][1] |= {"client": "server", "server": "client"}
    store = results(tmp_path, scenario, ("dtn.contact", contacts(("2 s", "10 s"))))
    rows = store.rows("events").filter((pl.col("flow") == "hop") & (pl.col("side") == "client"))
    found = {kind: rows.filter(pl.col("kind") == kind)["time_s"].to_list() for kind in ("start", "closed")}
    assert found["start"] == [2.0 if opened == "with_contact" else 4.0]
    # a round trip and a second after the contact
    assert found["closed"] == ([pytest.approx(11.1)] if closed == "with_contact" else [])
    delivered = store.rows("bundles").filter((pl.col("event") == "delivered") & (pl.col("kind") == "data"))
    assert delivered.height == 20


@pytest.mark.parametrize("layer", ["quiccl", "quiccl-each", "qubicle", "tcpcl"])
def test_twenty_minutes_of_light_need_no_key_set_by_hand(tmp_path: Path, layer: str) -> None:
    over_tcp = [("flow.hop.transport", "tcp")] if layer == "tcpcl" else []
    store = results(
        tmp_path,
        HOP,
        ("duration", "20000 s"),
        ("sample_interval", "1000 s"),
        ("path.link.delay", "1200 s"),
        ("path.link.rate", "100 kbit/s"),
        ("flow.hop.load.bundles.dtnperf", "-W 1 -P 500 -D 500 -l 100000"),
        (LAYER, layer),
        ("dtn.contact", contacts(("0 s", "100000 s"), owlt="1200 s", rate="100 kbit/s")),
        *over_tcp,
    )
    bundles = store.rows("bundles").filter(pl.col("kind") == "data")
    acknowledged = bundles.filter(pl.col("event") == "acknowledged")
    assert acknowledged.height == 1
    # light times: the layer's start-up (docs/explanation/convergence-layers.md), there and back
    start = {"quiccl": 4, "quiccl-each": 4, "qubicle": 2, "tcpcl": 6}[layer]
    times = acknowledged["time_s"].to_list()
    assert max(times) == pytest.approx((start + 2) * 1200, abs=60)
    # only lost data is retransmitted
    assert not events(store, "pto")
    assert not events(store, "timeout")


def whole(name: str) -> dict[str, Any]:
    scenario = tomllib.loads((SCENARIOS / f"{name}.toml").read_text())
    assert specs(scenario), "every cell can be run"
    return scenario


def shortened(name: str, **cells: object) -> dict[str, Any]:
    return whole(name) | {"seeds": 1, "sweep": cells}


def test_the_scenario_of_returns_runs(tmp_path: Path) -> None:
    scenario = shortened("return", **{ON: ["alone", "reopen", "resume", "cue"]})
    store = results(
        tmp_path,
        scenario,
        ("duration", "15 s"),
        ("flow.hop.load.bundles.dtnperf", "-W 16 -P 100k"),
        ("path.link.outages", [{"at": "4 s", "duration": "4 s"}]),
        ("dtn.contact", contacts(("0 s", "4 s"), ("8 s", "100 s"), owlt="62.5 ms")),
    )
    rows = store.rows("bundles").filter((pl.col("event") == "delivered") & (pl.col("kind") == "data"))
    runs = rows.group_by("run").agg(pl.col("time_s").filter(pl.col("time_s") > 8).min().alias("first"))
    assert runs.height == 4
    for first in runs["first"]:
        assert 8 + 0.0625 < first < 12, first


def test_the_scenario_of_disruptions_runs(tmp_path: Path) -> None:
    scenario = shortened("disruptions")
    store = results(tmp_path, scenario, ("flow.one-six.load.bundles.dtnperf", "-W 4 -P 100k -T 30 -l 600"))
    data = store.rows("bundles").filter(pl.col("kind") == "data")
    key = ["run", "source", "created_ms", "sequence"]
    delivered = data.filter(pl.col("event") == "delivered")
    assert delivered.select(key).is_duplicated().sum() == 0
    assert delivered.height == data.filter(pl.col("event") == "generated").height


@pytest.mark.parametrize("saved", [True, False])
def test_a_relay_that_stops_says_what_is_gone(tmp_path: Path, saved: bool) -> None:
    [quiccl] = [row for row in whole("stops")["sweep"]["layer"] if row["label"] == "quiccl"]
    scenario = shortened("stops", layer=[quiccl])
    stop = {"at": "5.03 s", "duration": "3 s", "store": "kept" if saved else "lost"}
    store = results(
        tmp_path,
        scenario,
        ("duration", "60 s"),
        ("flow.one-three.load.bundles.dtnperf", "-R 8M -P 100k -T 10 -l 600"),
        ("dtn.node", [{"name": "three", "store_delay": "30 ms", "outages": [stop]}]),
    )
    data = store.rows("bundles").filter(pl.col("kind") == "data")
    gone = data.filter((pl.col("event") == "deleted") & (pl.col("reason") == "the node stopped"))
    delivered = data.filter(pl.col("event") == "delivered")
    generated = data.filter(pl.col("event") == "generated")
    assert generated.height == 100
    lost = generated.height - delivered.height
    # over QUICCL a bundle that was not durable was not accepted, and is retransmitted
    assert lost == 0 if saved else 0 < lost <= gone.height
    done = bentpipe(tmp_path, "verify", "out")
    assert done.returncode == 0, done.stdout + done.stderr
