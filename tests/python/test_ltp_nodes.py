"""LTP between bundle nodes on sockets: their files, two of them over loopback, and a dark link on both clocks."""

from __future__ import annotations

import json
import os
import re
import signal
import tomllib
from pathlib import Path

import pytest

import realtime
from bentpipe.dtn.node import plan_of
from bentpipe.lab.emulation.build import lab_plan
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.lab.free_port import free_port
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bundle_peers import a_node
from commands import bentpipe

MANUAL = Path(__file__).resolve().parents[2] / "docs/how-to/bundle-node.md"


def near() -> str:
    """The file of the manual."""
    section = MANUAL.read_text().partition("## LTP between two nodes")[2]
    [text] = re.findall(r"^```toml\n(.*?)^```", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    return str(text)


def file(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_a_neighbour_over_ltp_has_a_rate_and_an_address_on_both_sides(tmp_path: Path) -> None:
    more = 'owlt = "2 s"\nmtu = "1000 B"\n'
    [door] = plan_of(file(tmp_path, near() + more))["neighbours"]
    assert (door["listen"], door["peer"], door["can_send"]) == ("127.0.0.1:1113", "127.0.0.1:1114", True)
    assert door["cla"] == {
        "kind": "ltp", "colour": "red", "rate_bit_s": 20_000_000, "owlt_ns": 2 * 10**9,
        "header_bytes": 28, "segment_bytes": 1000,
    }  # fmt: skip
    # The default port is LTP's, and headers are those of the address.
    text = near().replace('listen = "127.0.0.1:1113"\n', "").replace("127.0.0.1:1114", "[::1]:1114")
    [door] = plan_of(file(tmp_path, text))["neighbours"]
    assert door["listen"] == "[::]:1113"
    assert door["cla"].get("header_bytes") == 48
    planned = near().replace('rate = "20 Mbit/s"\n', "")
    planned += '[[contact]]\nfrom = "2"\nto = "1"\nstop = "1 h"\nrate = "1 Mbit/s"\nowlt = "1 s"\n'
    [door] = plan_of(file(tmp_path, planned))["neighbours"]
    assert "rate_bit_s" not in door["cla"]


@pytest.mark.parametrize(
    ("was", "put", "message"),
    [
        ('rate = "20 Mbit/s"\n', "", "neighbour.2.rate: missing, expected one: LTP sends at the rate of a contact"),
        ('peer = "127.0.0.1:1114"\n', "", 'found no peer with layer = "ltp"'),
        ("rate", 'connections = "each"\nrate', 'found connections = "each" with layer = "ltp"'),
        ("rate", 'congestion = "bbr"\nrate', "which has neither connections nor a controller"),
        ("rate", 'on_return = "reopen"\nrate', 'found on_return = "reopen"'),
        ("rate", 'tls = "require"\nrate', "which has no TLS"),
        ("rate", f'pin = "{"ab" * 32}"\nrate', 'found pin with layer = "ltp", which has no TLS'),
        ("rate", 'mtu = "100 B"\nrate', "found mtu = 100 B, expected 200 B"),
        ('"ltp"', '"quiccl"', "found rate with layer"),
    ],
)  # fmt: skip
def test_options_without_a_meaning_in_ltp_are_refused(
    tmp_path: Path, was: str, put: str, message: str
) -> None:
    assert was in near()
    with pytest.raises(ScenarioError) as caught:
        plan_of(file(tmp_path, near().replace(was, put, 1)))
    assert message in str(caught.value)


def two(folder: Path, layer: str = "ltp") -> None:
    """The manual's node and the other one, at ports that are free."""
    listens, peers = free_port(), free_port()
    text = near().replace('"ltp"', f'"{layer}"')
    for name, other, own, its in (("1", "2", listens, peers), ("2", "1", peers, listens)):
        # In one go: a port may hold what the next word is found by (":11148").
        words = {
            'name = "1"': f'name = "{name}"', 'name = "2"': f'name = "{other}"',
            ":1113": f":{own}", ":1114": f":{its}",
        }  # fmt: skip
        page = re.sub("|".join(words), lambda found, words=words: words[found[0]], text)
        (folder / f"{name}.toml").write_text(page)


@pytest.mark.live
@pytest.mark.parametrize("layer", ["ltp", "ltp-green"])
def test_two_nodes_exchange_bundles_and_end_in_order(tmp_path: Path, layer: str) -> None:
    two(tmp_path, layer)
    with a_node(tmp_path / "2.toml", "--json") as (process, out):
        assert json.loads(out.readline())["event"] == "started"
        environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
        words = ["-W", "4", "-D", "1M", "-P", "100k", "-l", "30", "--json"]
        done = bentpipe(tmp_path, "dtn", "perf", "1.toml", "2", *words, environment=environment)
        assert done.returncode == 0, done.stderr
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    sent, rows = json.loads(done.stdout), [json.loads(text) for text in rest.splitlines()]
    assert (sent["generated"], sent["acknowledged"]) == (10, 10)
    came = [one["sequence"] for one in rows if one["event"] == "delivered" and one["kind"] == "data"]
    assert sorted(came) == list(range(10))
    # At the configured rate, with headers of UDP and IP; a busy machine takes longer.
    assert sent["goodput_bit_s"] < 20e6 * 1452 / 1480


@pytest.mark.live
def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    two(tmp_path)
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    with a_node(tmp_path / "2.toml", "--json") as (_, out):
        assert json.loads(out.readline())["event"] == "started"
        second = bentpipe(tmp_path, "dtn", "node", "2.toml", environment=environment)
    assert second.returncode == 2
    assert "in use" in second.stderr


DARK = """
title = "LTP over a way that is dark for a second"
duration = "4.5 s"
sample_interval = "100 ms"

[[path.segment]]
name = "link"
delay = "100 ms"
both = { rate = "20 Mbit/s", queue = "67 packets", outages = [{ at = "1.5 s", duration = "1 s" }] }

[[flow]]
name = "hop"
transport = "udp"
udp = { ip = 6 }
load = { bundles = { layer = "ltp", dtnperf = "-W 8 -P 100k -T 3 -l 600" } }

[dtn]
contact = [
  { from = "client", to = "server", stop = "1.5 s", rate = "18 Mbit/s", both = true },
  { from = "client", to = "server", start = "2.5 s", stop = "600 s", rate = "18 Mbit/s", both = true },
]
range = [{ from = "client", to = "server", owlt = "100 ms" }]
"""


def test_both_nodes_of_a_lab_know_the_others_address(tmp_path: Path) -> None:
    document = load_scenario(tomllib.loads(DARK.replace("ip = 6", 'ip = 6, mtu = "1200 B"')))
    spec = build_plan(document, "test", catalogue=engine.catalogue()).runs[0].spec
    assert refusals(spec, engine.catalogue()) == []
    lab = lab_plan(spec, tmp_path, "/bin/rt")
    words = {one["name"]: one["command"][-2:] for one in lab.plan.get("services", ())}
    assert words == {"client.node": ["-e", "s/@0@/{server6}/g"], "server.node": ["-e", "s/@0@/{client6}/g"]}
    for number in (0, 1):
        [door] = json.loads((tmp_path / f"node.{number}.json").read_text())["neighbours"]
        assert (door["listen"], door["peer"], door["can_send"]) == ("[::]:4433", "[@0@]:4433", True)
        assert (door["cla"]["header_bytes"], door["cla"]["segment_bytes"]) == (48, 1200)


@pytest.mark.nightly
@pytest.mark.lab
def test_a_dark_link_is_the_same_on_both_clocks(tmp_path: Path) -> None:
    realtime.need_namespaces()
    (tmp_path / "dark.toml").write_text(DARK)

    def run(clock: str, out: str) -> tuple[int, list[float]]:
        store = realtime.ran(tmp_path, "dark.toml", out, "--engine", clock)
        rows = store.rows("bundles").filter(kind="data")
        came = rows.filter(event="delivered")
        assert came.height == rows.filter(event="generated").height, f"{clock}: all that were sent arrive"
        # Data sent before the gap arrives one light time later; later data waits for the end of the gap.
        times = came["time_s"]
        return came.height, times.filter((times > 1.65) & (times < 2.6)).to_list()

    simulated, dark = run("sim", "sim")
    assert dark == []

    def judge(number: int) -> list[object]:
        real, dark = run("emu", f"emu{number}")
        return [*dark, *([] if real == pytest.approx(simulated, rel=0.1) else [(real, simulated)])]

    realtime.tried(judge)
