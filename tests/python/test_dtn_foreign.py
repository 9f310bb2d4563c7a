"""A foreign node's bundles go to and from nodes on real sockets: pyD3TN's over MTCP, dtn7's where ``dtnd`` is found."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import cbor2
import pytest
from pyd3tn import bundle7
from pyd3tn.bundle7 import BlockType, Bundle, BundleProcFlag, CRCType
from pyd3tn.mtcp import MTCPConnection

import realtime
from bentpipe.lab.free_port import free_port
from bundle_peers import WAIT_S, Listening, a_node, until
from commands import bentpipe

pytestmark = pytest.mark.live

CRCS = (CRCType.NONE, CRCType.CRC16, CRCType.CRC32)
PREVIOUS, AGE, HOPS = int(BlockType.PREVIOUS_NODE), int(BlockType.BUNDLE_AGE), int(BlockType.HOP_COUNT)


def way(name: str, listen: int, peer: int) -> str:
    return (
        f'[[neighbour]]\nname = "{name}"\nlayer = "mtcp"\nconnections = "each"\n'
        f'listen = "127.0.0.1:{listen}"\npeer = "127.0.0.1:{peer}"\n'
    )


def made(number: int, payload: bytes, destination: str = "ipn:3.5", **options: Any) -> Bundle:
    """A bundle of pyD3TN's node 1, made now."""
    return bundle7.create_bundle7(
        "ipn:1.1", destination, payload, report_to_eid="ipn:1.1000", creation_timestamp=int(time.time()),
        sequence_number=number, **options,
    )  # fmt: skip


def blocks(bundle: Bundle) -> dict[int, Any]:
    """Return the contents of the blocks between the first and the last, by type."""
    return {int(one.block_type): cbor2.loads(one.data) for one in bundle.blocks}


def pattern(length: int) -> bytes:
    return bytes(at * 31 % 251 for at in range(length))


def various() -> list[Bundle]:
    """Bundles with every CRC, block and border of CBOR's lengths."""
    lengths = (1, 23, 24, 255, 256, 65_535, 65_536, 1_000_000)
    options: tuple[dict[str, Any], ...] = (
        {}, {"hop_limit": 30, "hop_count": 2}, {"bundle_age": 12}, {"previous_node_eid": "ipn:9.0"},
        {"hop_limit": 9, "bundle_age": 3, "previous_node_eid": "dtn://there/"},
        {"flags": BundleProcFlag.IS_FRAGMENT, "fragment_offset": 10, "total_adu_length": 3_000_000},
        {"destination": "dtn://three/inbox"},
    )  # fmt: skip
    kinds = itertools.product(options, CRCS[1:], CRCS)
    found = [
        made(number, pattern(1000), crc_type_primary=first, crc_type_canonical=rest, **more)
        for number, (more, first, rest) in enumerate(kinds)
    ]
    return found + [made(100 + number, pattern(length)) for number, length in enumerate(lengths)]


def test_bundles_of_pyd3tn_go_through_a_node_and_come_out_as_they_were(tmp_path: Path) -> None:
    ports, sent = (free_port(), free_port()), various()
    with Listening() as three:
        (tmp_path / "two.toml").write_text(
            'name = "2"\nnode = [{ name = "three" }]\nroute = [{ at = "2", to = "three", via = "3" }]\n'
            + way("1", ports[0], three.port)
            + way("3", ports[1], three.port)
        )
        with a_node(tmp_path / "two.toml", "--json") as (_, out):
            assert json.loads(out.readline())["event"] == "started"
            with MTCPConnection("127.0.0.1", ports[0], WAIT_S) as one:
                for bundle in sent:
                    one.send_bundle(bytes(bundle))
                came = [three.next() for _ in sent]
            until(out, "forwarded", len(sent))
        assert three.no_more()
    for before, after in zip(sent, came, strict=True):
        assert bytes(after.primary_block) == bytes(before.primary_block)
        assert bytes(after.payload_block) == bytes(before.payload_block)
        had, has = blocks(before), blocks(after)
        assert has.keys() == had.keys() | {PREVIOUS}
        assert has[PREVIOUS] == [2, [2, 0]]
        assert (HOPS in had) == (HOPS in has)
        if HOPS in had:
            assert has[HOPS] == [had[HOPS][0], had[HOPS][1] + 1]
        if AGE in had:
            assert had[AGE] <= has[AGE] < had[AGE] + 1000 * WAIT_S


def test_a_node_delivers_what_pyd3tn_sends_and_puts_its_fragments_together(tmp_path: Path) -> None:
    port = free_port()
    asked = BundleProcFlag.REPORT_DELIVERY | BundleProcFlag.REPORT_STATUS_TIME
    with Listening() as one:
        (tmp_path / "two.toml").write_text('name = "2"\n' + way("1", port, one.port))
        with a_node(tmp_path / "two.toml", "--json") as (_, out):
            out.readline()
            payload = b"dtnperf w" + pattern(5000)
            whole = [
                made(number, payload, "ipn:2.2000", flags=asked, crc_type_canonical=crc)
                for number, crc in enumerate(CRCS)
            ]
            # a piece after the other, the last one first, and some bytes twice
            parts = [
                made(
                    9, payload[begin:end], "ipn:2.2000", flags=asked | BundleProcFlag.IS_FRAGMENT,
                    fragment_offset=begin, total_adu_length=len(payload),
                )
                for begin, end in ((4000, len(payload)), (0, 1500), (1000, 4500))
            ]  # fmt: skip
            stamp = parts[0].primary_block.creation_time
            for part in parts:
                part.primary_block.creation_time = stamp
            with MTCPConnection("127.0.0.1", port, WAIT_S) as peer:
                for bundle in [*whole, *parts]:
                    peer.send_bundle(bytes(bundle))
                message = until(out, "delivered", 4)
            answers = [one.next() for _ in range(8)]
        assert one.no_more()
    delivered = [row for row in message if row["event"] == "delivered" and row["kind"] == "data"]
    assert [(row["sequence"], row["payload_bytes"]) for row in delivered] == [
        (number, len(payload)) for number in (0, 1, 2, 9)
    ]
    reports, acknowledgements = [], []
    for answer in answers:
        to = str(answer.primary_block.destination)
        if answer.primary_block.has_flag(BundleProcFlag.ADMINISTRATIVE_RECORD):
            assert to == "ipn:1.1000"
            record = bundle7.BundleStatusReport.from_cbor(cbor2.loads(answer.payload_block.data))
            assert [one[0] for one in record.status_info] == [False, False, True, False]
            # now, in milliseconds since 2000
            assert abs(record.delivered_time / 1e3 + 946_684_800 - time.time()) < 60
            assert str(record.subject_source_eid) == "ipn:1.1"
            reports.append(record.subject_creation_timestamp[1])
        else:
            assert (to, str(answer.primary_block.source)) == ("ipn:1.1", "ipn:2.2000")
            assert answer.payload_block.data.startswith(b"dtnperf ack ")
            acknowledgements.append(answer.payload_block.data)
    assert reports == [0, 1, 2, 9]
    assert len(set(acknowledgements)) == 4


@pytest.mark.parametrize("crc", ["0", "16", "32"])
def test_pyd3tn_reads_what_dtn_perf_sends(tmp_path: Path, crc: str) -> None:
    port = free_port()
    with Listening() as two:
        (tmp_path / "one.toml").write_text('name = "1"\n' + way("2", port, two.port))
        environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
        words = ["-R", "400M", "-D", "2500k", "-P", "1M", "-l", "30", "--crc", crc, "-N"]
        done = bentpipe(tmp_path, "dtn", "perf", "one.toml", "ipn:2.0", *words, environment=environment)
        assert done.returncode == 0, done.stderr
        came = [two.next() for _ in range(3)]
        assert two.no_more()
    kind = CRCS[("0", "16", "32").index(crc)]
    for bundle, length in zip(came, (1_000_000, 1_000_000, 500_000), strict=True):
        primary = bundle.primary_block
        assert (str(primary.source), str(primary.destination)) == ("ipn:1.3000", "ipn:2.2000")
        assert primary.lifetime == 30_000
        assert primary.has_flag(BundleProcFlag.MUST_NOT_BE_FRAGMENTED)
        assert primary.crc_type is (CRCType.CRC16 if crc == "0" else kind)
        assert bundle.payload_block.crc_type is kind
        assert bundle.payload_block.data == b"dtnperf r".ljust(length, b"\0")
        assert blocks(bundle) == {}
    assert len({one.primary_block.creation_time for one in came}) == 3


def test_pyd3tn_puts_together_what_a_node_has_cut(tmp_path: Path) -> None:
    def judge(_: int) -> list[object]:
        ports = (free_port(), free_port())
        sent = made(5, pattern(40_000), flags=BundleProcFlag.NONE, hop_limit=7)
        # the first contact carries 30 kB, and all of it would be through before the second one
        contacts = "".join(
            f'[[contact]]\nfrom = "2"\nto = "3"\nstart = "{start} ms"\nstop = "{stop} ms"\nrate = "{rate} kbit/s"\nowlt = "1 ms"\n'
            for start, stop, rate in ((0, 1500, 160), (2500, 30_000, 8000))
        )
        with Listening() as three:
            (tmp_path / "two.toml").write_text(
                'name = "2"\n' + way("1", ports[0], three.port) + way("3", ports[1], three.port) + contacts
            )
            with a_node(tmp_path / "two.toml", "--json") as (_, out):
                out.readline()
                with MTCPConnection("127.0.0.1", ports[0], WAIT_S) as one:
                    one.send_bundle(bytes(sent))
                    parts = [three.next()]
                    if len(parts[0].payload_block.data) == 40_000:
                        return ["it came when the first contact was over"]
                    parts.append(three.next())
        payload = b""
        for part in parts:
            primary = part.primary_block
            assert (primary.fragment_offset, primary.total_payload_length) == (len(payload), 40_000)
            assert primary.creation_time == sent.primary_block.creation_time
            assert blocks(part)[HOPS] == [7, 1]
            payload += part.payload_block.data
        assert payload == sent.payload_block.data
        assert 1000 < len(parts[0].payload_block.data) < 30_000
        return []

    realtime.tried(judge)


@pytest.mark.skipif(
    shutil.which("dtnd") is None, reason="needs dtnd (cargo install dtn7 --version 0.21.0 --locked)"
)
def test_dtn7_carries_bundles_and_their_acknowledgements_between_two_nodes(tmp_path: Path) -> None:
    ports = {name: free_port() for name in ("one", "two", "middle", "web")}
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(
            f'name = "{name}"\nnode = [{{ name = "one" }}, {{ name = "two" }}]\n'
            + way("middle", ports[name], ports["middle"])
        )
    words = [
        "dtnd", "-n", "middle", "-D", "mem", "--disable_nd", "-r", "epidemic", "-j", "500ms", "-w", str(ports["web"]),
        "-C", f"mtcp:port={ports['middle']}:bind=127.0.0.1",
        *(word for name in ("one", "two") for word in ("-s", f"mtcp://127.0.0.1:{ports[name]}/{name}")),
    ]  # fmt: skip
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    with a_node(tmp_path / "two.toml", "--json") as (_, out):
        out.readline()
        log = (tmp_path / "dtnd.log").open("w")
        with log, subprocess.Popen(words, cwd=tmp_path, stdout=log, stderr=log) as dtnd:
            try:
                _answers(ports["middle"])
                asked = ["-W", "2", "-D", "3M", "-P", "1M", "-l", "20", "--crc", "32", "--json"]
                done = bentpipe(
                    tmp_path, "dtn", "perf", "one.toml", "dtn://two/", *asked, environment=environment
                )
            finally:
                dtnd.kill()
    assert done.returncode == 0, done.stderr + (tmp_path / "dtnd.log").read_text()[-2000:]
    sent = json.loads(done.stdout)
    assert (sent["generated"], sent["acknowledged"], sent["acknowledged_bytes"]) == (3, 3, 3_000_000)


def _answers(port: int) -> None:
    """Waits until something listens there."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)
        else:
            return
