"""Bundle nodes: options of dtnperf, resolved scenarios, and a run with its tables and figure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.scenario.dtn.nodes import parse_dtnperf
from bentpipe.store.reader import open_store
from commands import bentpipe

if TYPE_CHECKING:
    from pathlib import Path

HOP = """
duration = "20 s"

[[path.segment]]
name = "link"
delay = "50 ms"
both = { rate = "100 Mbit/s" }

[[flow]]
name = "hop"
congestion = "cubic"
load = { bundles = { layer = "quiccl", dtnperf = "-W 10 -P 1M -D 10M -r" } }
"""

TRIANGLE = """
duration = "20 s"
[graph]
node = ["vm1", "vm3", "vm6"]
[[graph.link]]
name = "direct"
client_side = "vm1"
server_side = "vm6"
delay = "5 ms"
both = { rate = "10 Mbit/s", outages = [{ at = "4 s", duration = "6 s" }] }
[[graph.link]]
name = "first"
client_side = "vm1"
server_side = "vm3"
delay = "5 ms"
both = { rate = "10 Mbit/s" }
[[graph.link]]
name = "second"
client_side = "vm3"
server_side = "vm6"
delay = "5 ms"
both = { rate = "10 Mbit/s" }

[[flow]]
name = "one-six"
client = "vm1"
server = "vm6"
congestion = "cubic"
load = { bundles = { layer = "quiccl-each", dtnperf = "-W 8 -P 100k -T 15" } }
[[flow]]
name = "one-three"
client = "vm1"
server = "vm3"
congestion = "cubic"
load = { bundles = "quiccl-each" }
[[flow]]
name = "three-six"
client = "vm3"
server = "vm6"
congestion = "cubic"
load = { bundles = "quiccl-each" }

[dtn]
contact = [
  { from = "vm1", to = "vm6", stop = "4 s", rate = "10 Mbit/s", owlt = "5 ms", both = true },
  { from = "vm1", to = "vm6", start = "10 s", stop = "60 s", rate = "10 Mbit/s", owlt = "5 ms", both = true },
  { from = "vm1", to = "vm3", stop = "60 s", rate = "10 Mbit/s", owlt = "5 ms", both = true },
  { from = "vm3", to = "vm6", stop = "60 s", rate = "10 Mbit/s", owlt = "5 ms", both = true },
]
"""


def run(tmp_path: Path, text: str) -> Path:
    (tmp_path / "scenario.toml").write_text(text)
    done = bentpipe(tmp_path, "run", "scenario.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    return tmp_path / "out"


def test_words_of_dtnperf_mean_what_they_mean_there() -> None:
    one = parse_dtnperf("-W 32 -P 1M -T 30 -l 300 -p expedited -C -f -r --del --crc 32 -N")
    assert (one.window, one.payload_bytes, one.time_s, one.lifetime_s) == (32, 1_000_000, 30.0, 300.0)
    assert (one.priority, one.crc, one.whole) == ("expedited", "crc32c", True)
    assert one.reports == {"received", "forwarded", "delivered", "deleted"}
    plain = parse_dtnperf("")
    assert (plain.window, plain.payload_bytes, plain.lifetime_s) == (1, 50_000, 60.0)
    assert parse_dtnperf("-R2M -D1G").rate_bit_s == 2_000_000
    assert parse_dtnperf("-R 10b -D1G").bundles_per_s == 10.0
    assert (parse_dtnperf("-T 0.7 -l 2.5").time_s, parse_dtnperf("-T 0.7 -l 2.5").lifetime_s) == (0.7, 2.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-W 3 -R 1M", "-W and -R"),
        ("-T 3 -D 1M", "-T and -D"),
        ("-F a.bin -D 1M", "-D and -F"),
        ("-F", "expected a file"),
        ("-T 0", "expected seconds such as 30 or 0.5"),
        ("-X", 'found "-X"'),
        ("-P 8", "at least 16"),
        ("-W many", 'found "many"'),
        ("-p urgent", 'found "urgent"'),
    ],
)
def test_words_that_mean_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_dtnperf(text)


def test_ten_bundles_are_generated_delivered_acknowledged_and_reported(tmp_path: Path) -> None:
    store = open_store(run(tmp_path, HOP))
    bundles = store.rows("bundles")
    data = bundles.filter(pl.col("kind") == "data")
    counts = dict(data.group_by("event").len().iter_rows())
    assert counts == dict.fromkeys(
        ("generated", "sent", "received", "delivered", "forwarded", "acknowledged"), 10
    )
    # each byte passes once, after a round trip
    last = data.filter(pl.col("event") == "delivered")["time_s"].max()
    assert isinstance(last, float)
    assert last > 10e6 * 8 / 100e6 + 0.15
    assert store.rows("bundle_status_reports").height == 10
    figure = FIGURES["bundles"](FigureContext(store))
    assert figure is not None
    assert figure.rows == 30


def test_a_relay_is_used_while_the_direct_contact_is_over(tmp_path: Path) -> None:
    out = run(tmp_path, TRIANGLE)
    store = open_store(out)
    routes = store.rows("bundle_routes").filter((pl.col("node") == "vm1") & (pl.col("decision") == "planned"))
    meanwhile = routes.filter(pl.col("time_s").is_between(4.0, 8.0))
    assert set(meanwhile["next"].to_list()) == {"vm3"}
    assert "vm6" in routes.filter(pl.col("time_s") > 10.5)["next"].to_list()
    data = store.rows("bundles").filter(pl.col("kind") == "data")
    relayed = data.filter((pl.col("event") == "forwarded") & (pl.col("node") == "vm3"))
    assert relayed.filter(pl.col("time_s").is_between(4.0, 10.0)).height > 30
    generated = data.filter(pl.col("event") == "generated")
    delivered = data.filter(pl.col("event") == "delivered")
    key = ["source", "created_ms", "sequence"]
    assert delivered.select(key).is_duplicated().sum() == 0
    assert delivered.height == generated.height
    assert bentpipe(tmp_path, "report", "out").returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('layer = "quiccl"', 'layer = "tcpcl"', 'expected transport = "tcp"'),
        ('layer = "quiccl"', 'layer = "carrier-pigeon"', "bundles"),
        ("-W 10", "-W 10 -R 5", "-W and -R"),
        ('layer = "quiccl"', 'layer = "quiccl", connections = "each"', "no flow from server to client"),
        ('layer = "quiccl"', 'layer = "quiccl", to = "mars"', '"mars"'),
    ],
)
def test_impossible_settings_are_reported_by_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "scenario.toml").write_text(HOP.replace(old, new))
    done = bentpipe(tmp_path, "check", "scenario.toml")
    assert done.returncode == 2
    assert message in done.stderr
    assert "flow" in done.stderr


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('contact = [{ from = "client", to = "server", start = "5 s", stop = "4 s", rate = "1 Mbit/s" }]',
         "dtn.contact[1].stop: found a stop that is not after the start"),
        (('contact = [{ from = "client", to = "server", stop = "4 s", rate = "1 Mbit/s" }, '
         '{ from = "client", to = "server", start = "3 s", stop = "5 s", rate = "1 Mbit/s" }]'),
         "dtn.contact[2]: found a contact from client to server that overlaps dtn.contact[1]"),
        ('range = [{ from = "client", to = "server", start = "5 s", stop = "5 s", owlt = "1 s" }]', "dtn.range[1].stop"),
        (('range = [{ from = "client", to = "server", owlt = "1 s" }, '
         '{ from = "client", to = "server", start = "3 s", stop = "5 s", owlt = "2 s" }]'),
         "dtn.range[2]: found a range from client to server that overlaps dtn.range[1]"),
        (('contact = [{ from = "client", to = "server", stop = "4 s", rate = "1 Mbit/s", owlt = "1 s" }]\n'
         'range = [{ from = "client", to = "server", start = "3 s", owlt = "2 s" }]'),
         "dtn.range[1]: found a range from client to server that overlaps dtn.contact[1]"),
        ('contact = [{ from = "client", to = "client", stop = "4 s", rate = "1 Mbit/s" }]',
         "dtn.contact[1]: found client at both ends"),
        ('node = [{ name = "client", eid = "ipn:x" }]', 'dtn.node.client.eid: found "ipn:x", expected a node id'),
        ("copies = 2", 'copies: found with routing = "sabr"'),
        ('routing = "epidemic"\nroute = [{ at = "client", to = "server", via = "server" }]', 'route: found with routing = "epidemic"'),
        ('routing = "epidemic"\nbacklog = "ignored"', 'backlog: found with routing = "epidemic"'),
        ('routing = "epidemc"', "epidemic"),
        ('routing = "epidemic"\ncopies = 0', "dtn.copies"),
    ],
)  # fmt: skip
def test_limits_of_a_plan_are_reported_before_anything_runs(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "scenario.toml").write_text(HOP + f"\n[dtn]\n{table}\n")
    done = bentpipe(tmp_path, "check", "scenario.toml")
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_a_file_is_sent_as_so_many_bytes(tmp_path: Path) -> None:
    (tmp_path / "image.bin").write_bytes(bytes(123_456))
    out = run(tmp_path, HOP.replace("-D 10M", "-F image.bin").replace("-P 1M", "-P 50k"))
    data = (
        open_store(out)
        .rows("bundles")
        .filter((pl.col("kind") == "data") & (pl.col("event") == "acknowledged"))
    )
    assert data["payload_bytes"].to_list() == [50_000, 50_000, 23_456]
    (tmp_path / "scenario.toml").write_text(HOP.replace("-D 10M", "-F nowhere.bin"))
    done = bentpipe(tmp_path, "check", "scenario.toml")
    assert (done.returncode, 'dtnperf: -F: no file "nowhere.bin"' in done.stderr) == (2, True), done.stderr


def test_a_time_and_an_amount_end_a_client(tmp_path: Path) -> None:
    timed = run(tmp_path, HOP.replace("-D 10M", "-T 2"))
    made = (
        open_store(timed)
        .rows("bundles")
        .filter((pl.col("kind") == "data") & (pl.col("event") == "generated"))
    )
    assert made.height > 10
    assert max(made["time_s"].to_list()) < 2.0


def test_goodput_is_counted_by_acknowledgements_and_as_the_thesis_does(tmp_path: Path) -> None:
    out = run(tmp_path, HOP.replace("-D 10M", "-T 2"))
    [message] = json.loads(bentpipe(tmp_path, "dtn", "show", "out", "--json").stdout)
    data = open_store(out).rows("bundles").filter(pl.col("kind") == "data")
    times = {
        event: data.filter(pl.col("event") == event)["time_s"].to_list()
        for event in ("generated", "delivered", "acknowledged")
    }
    assert message["generated_bundles"] == message["acknowledged_bundles"] == len(times["generated"])
    # generated bundles over the 2 s for which it sends; acknowledged bytes until the last acknowledgement
    assert message["generated_bit_s"] == pytest.approx(len(times["generated"]) * 8e6 / 2)
    assert message["acknowledged_bit_s"] == pytest.approx(
        len(times["acknowledged"]) * 8e6 / max(times["acknowledged"])
    )
    assert message["generated_bit_s"] > message["acknowledged_bit_s"]
    assert 0.15 < message["bundle_delay_p50_s"] < 2
    shown = bentpipe(tmp_path, "show", "out").stdout
    assert "Clients of bundle nodes" in shown
    assert "generated Mbit/s" in shown


def test_a_monitor_writes_its_csv(tmp_path: Path) -> None:
    run(tmp_path, HOP.replace("-r", "-C -f -r --del -l 60"))
    done = bentpipe(tmp_path, "dtn", "show", "out", "--monitor", "monitor.csv")
    assert done.returncode == 0, done.stderr
    head, *lines = (tmp_path / "monitor.csv").read_text().splitlines()
    names = (
        "RX_TIME;Report_SRC;Report_TST;Report_SQN;Report_Type;Bndl_SRC;Bndl_TST;Bndl_SQN;Bndl_FO;Bndl_FL;"
        "Dlv;Ct;Rcv;Fwd;Del;Reason;CRC"
    )
    assert head == names
    rows = [dict(zip(names.split(";"), line.split(";"), strict=True)) for line in lines]
    kinds = [row["Report_Type"] for row in rows]
    # each bundle: received and delivered there, forwarded here, acknowledged
    assert [kinds.count(kind) for kind in ("STATUS_REPORT", "SERVER_ACK", "CLIENT_STOP")] == [30, 10, 1]
    assert kinds[-1] == "CLIENT_STOP"
    assert [float(row["RX_TIME"]) for row in rows] == sorted(float(row["RX_TIME"]) for row in rows)
    assert {row["Bndl_SQN"] for row in rows if row["Report_Type"] == "SERVER_ACK"} == {
        str(n) for n in range(10)
    }
    assert {row["Report_SRC"] for row in rows if row["Report_Type"] == "SERVER_ACK"} == {"ipn:2.2000"}
    zero = open_store(tmp_path / "out").rows("bundles")["created_ms"].min()
    for row in rows:
        messages = [int(row[name]) for name in ("Dlv", "Rcv", "Fwd", "Del") if row[name]]
        assert len(messages) == (row["Report_Type"] == "STATUS_REPORT")
        # what is reported has happened before the report came
        assert all(0 <= time - zero <= float(row["RX_TIME"]) * 1000 for time in messages)
    assert bentpipe(tmp_path, "dtn", "show", "out", "--monitor", "m.csv", "--run", "x").returncode == 2
