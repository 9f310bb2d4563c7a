"""Bundle nodes of a scenario in a lab: input of their processes, their output as tables, and a disruption with both engines."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import realtime
from bentpipe.engine_validation.bundles import delivered
from bentpipe.lab.emulation.build import RunLab, lab_plan
from bentpipe.lab.emulation.bundle_tables import BundleFlow, NodeEndedError, read_nodes
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.lab.plan_validation import validate_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.run_spec import RunSpec
from bentpipe.runners import engine
from bentpipe.store.reader import Store

THREE = """
title = "a relay for 2 s"
duration = "6 s"
sample_interval = "100 ms"
graph.node = ["v1", "v3", "v6"]
graph.link = [
  { name = "direct", client_side = "v1", server_side = "v6", delay = "10 ms", both = { rate = "20 Mbit/s", queue = "67 packets", outages = [{ at = "1.5 s", duration = "2 s" }] } },
  { name = "up", client_side = "v1", server_side = "v3", delay = "10 ms", both = { rate = "20 Mbit/s", queue = "67 packets" } },
  { name = "down", client_side = "v3", server_side = "v6", delay = "10 ms", both = { rate = "20 Mbit/s", queue = "67 packets" } },
]
flow = [
  { name = "f16", client = "v1", server = "v6", congestion = "cubic", load = { bundles = { layer = "quiccl", dtnperf = "-W 8 -P 200k -T 4 -l 600 -r" } } },
  { name = "f13", client = "v1", server = "v3", transport = "tcp", congestion = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" }, load = { bundles = { layer = "tcpcl", tls = "require" } } },
  { name = "f36", client = "v3", server = "v6", congestion = "cubic", quic = { ip = 6 }, load = { bundles = "quiccl-each" } },
]
[dtn]
contact = [
  { from = "v1", to = "v6", stop = "1.5 s", rate = "20 Mbit/s", both = true },
  { from = "v1", to = "v6", start = "3.5 s", stop = "600 s", rate = "20 Mbit/s", both = true },
  { from = "v1", to = "v3", stop = "600 s", rate = "20 Mbit/s", both = true },
  { from = "v3", to = "v6", stop = "600 s", rate = "20 Mbit/s", both = true },
]
range = [
  { from = "v1", to = "v6", owlt = "10 ms" },
  { from = "v1", to = "v3", owlt = "10 ms" },
  { from = "v3", to = "v6", owlt = "10 ms" },
]
"""


def spec_of(text: str = THREE) -> RunSpec:

    document = load_scenario(tomllib.loads(text))
    plan = build_plan(document, engine.version(), catalogue=engine.catalogue(), orbits=engine.orbit)
    return plan.runs[0].spec


def test_a_node_is_a_process_with_a_port_for_each_side(tmp_path: Path) -> None:
    spec = spec_of()
    assert refusals(spec, engine.catalogue()) == []
    lab = lab_plan(spec, tmp_path, "/bin/rt")
    validate_plan(lab.plan)
    far = {one["name"]: one for one in lab.plan.get("services", ())}
    # who is waited for comes last
    assert list(far) == ["v1.node", "v6.node", "v3.node"]
    assert [one.get("listen_port") for one in far.values()] == [None, 4435, 4434]
    assert [one["node"] for one in far.values()] == ["v1", "v6", "v3"]
    assert far["v1.node"]["command"][-4:] == ["-e", "s/@0@/{server}/g", "-e", "s/@1@/{host:v3}/g"]
    assert far["v3.node"]["command"][-2:] == ["-e", "s/@2@/{server6}/g"]
    (near,) = lab.plan["commands"]
    assert near["name"] == "bundles"
    plans = {
        name: json.loads((tmp_path / f"node.{n}.json").read_text())
        for n, name in enumerate(("v1", "v6", "v3"))
    }
    ways = {
        name: [
            (one["neighbour"], one["cla"]["kind"], one["listen"], one["peer"]) for one in plan["neighbours"]
        ]
        for name, plan in plans.items()
    }
    assert ways == {
        "v1": [
            ("v6", "quiccl", "0.0.0.0:0", "@0@:4433"),
            ("v3", "tcpcl", "0.0.0.0:0", "@1@:4434"),
        ],
        "v3": [("v1", "tcpcl", "0.0.0.0:4434", None), ("v6", "quiccl", "[::]:0", "[@2@]:4435")],
        "v6": [("v1", "quiccl", "0.0.0.0:4433", None), ("v3", "quiccl", "[::]:4435", None)],
    }
    for plan in plans.values():
        assert (plan["dtn"], plan["duration_ns"]) == (spec.get("dtn"), 6 * 10**9)
        assert plan["time_zero_file"] == str(tmp_path / "zero")
        assert all(one["can_send"] and one["adapts_to_plan"] for one in plan["neighbours"])
        assert [one["quic"]["crypto"] for one in plan["neighbours"]] == ["rustls", "rustls"]
    assert plans["v1"]["neighbours"][1]["congestion"]["name"] == "cubic"
    doors = [(door.flow, door.side, door.end) for node in lab.nodes for door in node.ends]
    assert doors == [
        ("f16", "client", 0), ("f13", "client", 1), ("f16", "server", 0), ("f36", "server", 1), ("f13", "server", 0),
        ("f36", "client", 1),
    ]  # fmt: skip


def bundle(event: str, time_s: float, node: str, **more: Any) -> dict[str, Any]:
    return {"time_s": time_s, "node": node, "event": event, "kind": "data", "source": "ipn:1.3000",
            "destination": "ipn:2.2000", "created_ms": 5, "sequence": 0, "offset_bytes": None,
            "payload_bytes": 1000, "peer": None, "reason": None, **more}  # fmt: skip


def carried(time_s: float, end: int, **more: Any) -> dict[str, Any]:
    return {"table": "connections", "time_s": time_s, "end": end, "begun": 1, "ended": 0, "lost": 0, "begun_s": 0.1,
            "written_bytes": 0, "received_bytes": 0, **more}  # fmt: skip


def say(lab: RunLab, lines: dict[str, list[dict[str, Any]]], cut: str = "") -> None:
    for node in lab.nodes:
        last = {"table": "node", "node": node.name, "lateness_p95_ns": 100}
        rows = [{"ready": True}, *lines.get(node.name, []), last]
        node.lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + cut)


def test_output_of_nodes_becomes_tables(tmp_path: Path) -> None:
    spec = spec_of()
    lab = lab_plan(spec, tmp_path, "/bin/rt")
    say(
        lab,
        {
            "v1": [
                bundle("generated", 1.0, "v1"),
                carried(1.0, 0, written_bytes=900, first_written_s=1.0),
                {
                    "table": "bundle_store",
                    "node": "v1",
                    "received_s": 2.0,
                    "source": "ipn:1.3000",
                    "payload_bytes": 1000,
                },
            ],
            "v6": [bundle("delivered", 1.5, "v6"), carried(1.6, 0, received_bytes=900, last_received_s=1.5)],
            "v3": [bundle("received", 1.0, "v3", peer="v1")],
        },
        cut='{"table": "bund',
    )
    nodes = read_nodes(lab.nodes)
    nodes.check()
    assert list(nodes.late_ns()) == [100] * 3
    rows = nodes.rows()
    assert [(row["time_s"], row["node"]) for row in rows["bundles"]] == [
        (1.0, "v1"),
        (1.0, "v3"),
        (1.5, "v6"),
    ]
    assert [row["peer"] for row in rows["bundles"]] == ["", "v1", ""]
    assert [row["received_s"] for row in rows["bundle_store"]] == [2.0]
    linked = BundleFlow(spec["flows"][0], nodes)
    found = linked.totals(9.0, [0.5, 1.2, 9.0])
    client, server = found["flow_summary"]
    assert (client["flow"], client["congestion"], client["delivered_bytes"]) == ("f16", "cubic", 900)
    assert (client["data_start_s"], client["data_end_s"], client["sent_packets"]) == (1.0, 1.5, None)
    assert (server["received_in_order_bytes"], server["delivered_bytes"]) == (900, 0)
    samples = [(row["time_s"], row["side"], row["written_bytes"]) for row in found["flows"]]
    assert samples[:3] == [(0.5, "client", 0), (1.2, "client", 900), (9.0, "client", 900)]
    # a run that was over before it ended is no result
    assert BundleFlow(spec["flows"][1], nodes).totals(9.0, [9.0])["flow_summary"][0]["connections"] == 0
    lab.nodes[2].lines.write_text("")
    with pytest.raises(NodeEndedError, match="bundle node v3"):
        read_nodes(lab.nodes).check()


def test_early_data_is_refused_by_its_key() -> None:
    text = THREE.replace('name = "f16",', 'name = "f16", quic = { handshake = "0-rtt" },')
    ((key, why),) = refusals(spec_of(text), engine.catalogue())
    assert key == "flow.f16.quic.handshake"
    assert why == 'found "0-rtt"; a bundle node on real sockets has no session ticket'


def test_stores_that_take_time_and_nodes_that_stop_are_refused() -> None:
    nodes = (
        '[dtn]\nnode = [{ name = "v3", store_delay = "5 ms" }, { name = "v6", outages = [{ at = "1 s" }] }]\n'
    )
    text = THREE.replace("[dtn]\n", nodes).replace(
        'layer = "quiccl", dtnperf', 'layer = "quiccl", on_return = "resume", dtnperf'
    )
    keys = [key for key, _ in refusals(spec_of(text), engine.catalogue())]
    assert sorted(keys) == [
        "dtn.node.v3.store_delay",
        "dtn.node.v6.outages",
        "flow.f16.load.bundles.on_return",
    ]


@pytest.mark.lab
def test_a_relay_carries_as_many_bundles_on_both_clocks(tmp_path: Path) -> None:
    """The direct way is dark for 2 s that are in the plan.

    A process that waits for a processor is late; the runner notices.
    """
    realtime.need_namespaces()
    (tmp_path / "three.toml").write_text(THREE)

    def run(name: str, *clock: str) -> tuple[Store, tuple[int, int], list[object]]:
        store = realtime.ran(tmp_path, "three.toml", name, *clock)
        rows = store.rows("bundles").filter(kind="data")
        generated = rows.filter(event="generated")
        came = rows.filter(event="delivered")
        ids = [(row["source"], row["created_ms"], row["sequence"]) for row in came.to_dicts()]
        assert len(set(ids)) == len(ids), "each once"
        assert len(ids) == generated.height, f"{name}: all that were sent arrive"
        assert rows.filter(event="acknowledged").height == len(ids)
        by_relay = rows.filter(node="v3", event="received")
        dark = by_relay.filter((pl.col("time_s") > 1.6) & (pl.col("time_s") < 3.5))
        direct = came.filter((pl.col("time_s") > 1.6) & (pl.col("time_s") < 3.5), peer="v1")
        off: list[object] = [direct.height and f"{direct.height} by the way that is dark"]
        if dark.height * 200_000 * 8 != pytest.approx(20e6 * 1.9, rel=0.2):
            off.append(f"the relay is not busy all the time: {dark.height}")
        planned = store.rows("bundle_routes").filter(node="v1", decision="planned")
        assert set(planned["next"]) == {"v3", "v6"}
        assert set(store.rows("bundle_status_reports").filter(node="v1")["reason"]) == {0}
        assert store.rows("bundle_store").height == 0
        assert delivered(store)["delivered_bundles"].to_list() == [len(ids)]
        return store, (len(ids), by_relay["sequence"].n_unique()), off

    simulated, counted, off = run("sim")
    assert not any(off), off

    def judge(number: int) -> list[object]:
        real, counts, off = run(f"emu{number}", "--engine", "emu")
        assert real.flow_summary.select("flow", "side").equals(simulated.flow_summary.select("flow", "side"))
        arrived = [store.flow_summary["delivered_bytes"].sum() for store in (real, simulated)]
        near = arrived[0] == pytest.approx(arrived[1], rel=0.05)
        near &= counts[0] == pytest.approx(counted[0], rel=0.03)
        near &= counts[1] == pytest.approx(counted[1], rel=0.2)
        return [*off, not near and (arrived, counts, counted)]

    realtime.tried(judge)
