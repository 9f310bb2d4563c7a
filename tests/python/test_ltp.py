"""LTP between bundle nodes: its keys, what they become, and runs that lose segments and not bundles."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import pytest

import bentpipe as library
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.trace_check import bundle_findings

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.store.reader import Store

BUNDLES: dict[str, Any] = {"layer": "ltp", "dtnperf": "-W 10 -P 100k -D 1M -l 6000"}
HOP: dict[str, Any] = {
    "duration": "2000 s",
    "path": {"segment": [{"name": "link", "delay": "60 s", "both": {"rate": "10 Mbit/s", "loss": "1 %"}}]},
    "flow": [{"name": "hop", "transport": "udp", "load": {"bundles": BUNDLES}}],
    "dtn": {
        "contact": [
            {"from": "client", "to": "server", "start": start, "stop": stop, "rate": "10 Mbit/s", "owlt": "60 s", "both": True}
            for start, stop in (("0 s", "300 s"), ("600 s", "2000 s"))
        ]
    },
}  # fmt: skip
OF = "flow.hop.load.bundles"


def spec(*settings: tuple[str, object]) -> dict[str, Any]:
    document = load_scenario(copy.deepcopy(HOP), settings)
    return cast("dict[str, Any]", build_plan(document, "test", catalogue=engine.catalogue()).runs[0].spec)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([("flow.hop.transport", "quic"), ("flow.hop.congestion", "cubic")], 'expected transport = "udp"'),
        ([(f"{OF}.connections", "each")], 'connections: found "each" with layer = "ltp"'),
        ([(f"{OF}.closed", "with_contact")], 'closed: found "with_contact"'),
        ([(f"{OF}.on_return", "reopen")], "which has no connections"),
        ([("dtn", {})], "hop.load.bundles.rate: missing"),
        ([("flow.hop.congestion", "cubic")], "has no congestion control"),
        ([("flow.hop.udp.mtu", "100 B")], "expected 200 B"),
    ],
)
def test_unsupported_options_of_ltp_are_refused(settings: list[tuple[str, object]], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        spec(*settings)
    assert message in str(caught.value)


def test_a_rate_is_refused_where_a_controller_finds_it() -> None:
    settings = [(f"{OF}.layer", "quiccl"), ("flow.hop.transport", "quic"), ("flow.hop.congestion", "cubic")]
    with pytest.raises(ScenarioError, match='found rate beside "quiccl", expected it with ltp or ltp-green'):
        spec(*settings, (f"{OF}.rate", "1 Mbit/s"))


def test_its_keys_in_the_engines_words() -> None:
    found = spec(("flow.hop.udp.mtu", "1000 B"), ("flow.hop.udp.ip", 6))
    assert found["flows"][0]["transport"] == {"kind": "udp", "header_bytes": 48, "payload_bytes": 1000}
    link = found["dtn"]["links"][0]
    assert (link["cla"], link["closes_after_contact"], link["shared"]) == (
        {"kind": "ltp", "colour": "red"},
        False,
        True,
    )
    alone = spec(("dtn", {}), (f"{OF}.rate", "2 Mbit/s"), (f"{OF}.owlt", "3 s"), (f"{OF}.layer", "ltp-green"))
    assert alone["dtn"]["links"][0]["cla"] == {
        "kind": "ltp",
        "colour": "green",
        "rate_bit_s": 2_000_000,
        "owlt_ns": 3_000_000_000,
    }


def events(store: Store, event: str, node: str) -> int:
    rows = store.rows("bundles")
    return rows.filter((rows["event"] == event) & (rows["node"] == node) & (rows["kind"] == "data")).height


@pytest.mark.parametrize("layer", ["ltp", "ltp-green"])
def test_red_bundles_all_arrive_and_of_green_ones_some(tmp_path: Path, layer: str) -> None:
    store = library.run(copy.deepcopy(HOP), settings={f"{OF}.layer": layer}, out=tmp_path / "out")
    delivered = events(store, "delivered", "server")
    assert delivered == 10 if layer == "ltp" else 0 < delivered < 10
    # Forwarded bundles have arrived, according to the layer; green data has only been sent.
    assert events(store, "forwarded", "client") == 10
    assert events(store, "returned", "client") == 0


def test_verify_follows_it_and_takes_no_word_of_green_data(tmp_path: Path) -> None:
    for layer in ("ltp", "ltp-green"):
        store = library.run(copy.deepcopy(HOP), settings={f"{OF}.layer": layer}, out=tmp_path / layer)
        messages = spec((f"{OF}.layer", layer))
        tables = {
            name: store.rows(name)
            for name in ("bundles", "bundle_routes", "bundle_status_reports", "bundle_store")
        }
        assert list(bundle_findings(messages, tables)) == []
        # A bundle that did not arrive, though its sender reports it as sent.
        rows = tables["bundles"]
        came = (rows["event"] == "received") & (rows["node"] == "server") & (rows["sequence"] == 0)
        false = tables | {"bundles": rows.filter(~came)}
        found = {finding.rule for finding in bundle_findings(messages, false)}
        assert ("forwarded bundles" in found) == (layer == "ltp")
