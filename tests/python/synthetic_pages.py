"""Stores with page loads, without an engine: known medians, known byte counts, packets of a small model of a load."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from store_edit import put

ONE_WAY = 0.375
EDGE = 0.0005
CORE = 0.015
SEGMENT = 1460
RATE = 25e6 / 8

PAGES = {"http": pl.String, "protocol": pl.String}
TIMES = (
    "start_s", "connect_start_s", "connect_end_s", "request_start_s", "response_start_s", "response_end_s",
    "content_loaded_s", "load_event_end_s",
)  # fmt: skip
PACKETS = {
    "packet": pl.Int64, "flow": pl.String, "connection": pl.Int64, "transport": pl.String, "from_node": pl.String,
    "to_node": pl.String, "sent_s": pl.Float64, "received_s": pl.Float64, "dropped": pl.String, "bytes": pl.Int64,
    "payload_bytes": pl.Int64, "label": pl.String, "sequence": pl.Float64, "retransmission": pl.Int64,
}  # fmt: skip


class Recorder:
    """Packets of a flow, numbered in order of sending."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def leg(
        self, connection: int, transport: str, ends: tuple[str, str], sent: float, takes: float, label: str,
        payload: int, sequence: float | None = None, lost: bool = False,
    ) -> float:  # fmt: skip
        """Send one packet over one connection; return its arrival."""
        header = 28 if transport == "quic" else 40
        self.rows.append(
            {
                "flow": "chrome", "connection": connection, "transport": transport, "from_node": ends[0],
                "to_node": ends[1], "sent_s": sent, "received_s": None if lost else sent + takes,
                "dropped": "satellite.down: loss" if lost else "", "bytes": payload + header,
                "payload_bytes": payload, "label": label, "sequence": sequence, "retransmission": 0,
            }
        )  # fmt: skip
        return sent + takes

    def table(self) -> pl.DataFrame:
        """All packets, by the time of sending."""
        frame = pl.DataFrame(self.rows, schema_overrides=PACKETS)
        return frame.sort("sent_s", maintain_order=True).with_row_index("packet").select(
            pl.col(name).cast(kind) for name, kind in PACKETS.items()
        )  # fmt: skip


def _quic(out: Recorder, connection: int, start: float, size: int, slow: float) -> tuple[float, float, float]:
    up, down = ("client", "server"), ("server", "client")
    arrived = out.leg(connection, "quic", up, start, ONE_WAY, "Initial", 1200)
    for label in ("Initial", "Handshake", "Handshake"):
        back = out.leg(connection, "quic", down, arrived, ONE_WAY, label, 1200)
    asked = out.leg(connection, "quic", up, back, ONE_WAY, "Handshake", 200)
    out.leg(connection, "quic", up, back, ONE_WAY, "1-RTT", 300)
    sent, window, at, last = 0, 32, asked, asked
    first = asked + ONE_WAY
    while sent < size:
        for index in range(window):
            if sent >= size:
                break
            part = min(SEGMENT, size - sent)
            gone = at + index * part / RATE
            if sent // SEGMENT == 100:
                out.leg(connection, "quic", down, gone, ONE_WAY, "1-RTT", part, lost=True)
            last = out.leg(connection, "quic", down, gone + 1e-5, ONE_WAY, "1-RTT", part)
            out.leg(connection, "quic", up, last, ONE_WAY, "1-RTT", 30)
            sent += part
        at = max(at + 2 * ONE_WAY * slow, gone + part / RATE)
        window = min(2 * window, 1600)
    return back, first, last


def _tcp(out: Recorder, connection: int, start: float, size: int, wait: float) -> tuple[float, float, float]:
    hops = (
        ("client", "terminal", EDGE),
        ("terminal", "gateway", ONE_WAY - EDGE - CORE),
        ("gateway", "server", CORE),
    )
    space = ONE_WAY - EDGE - CORE

    def across(label: str, at: float, payload: int, back: bool, sequence: float | None = None) -> float:
        for a, b, takes in reversed(hops) if back else hops:
            ends = (b, a) if back else (a, b)
            at = out.leg(connection, "tcp", ends, at, takes, label, payload, sequence)
        return at

    for a, b, takes in (hops[0], hops[2]):
        at = start if a == "client" else start + EDGE + space
        at = out.leg(connection, "tcp", (a, b), at, takes, "SYN", 0, 0.0)
        at = out.leg(connection, "tcp", (b, a), at, takes, "SYN-ACK", 0, 0.0)
        out.leg(connection, "tcp", (a, b), at, takes, "ACK", 0, 0.0)
    ready = start + 2 * EDGE
    hello = across("ClientHello", ready, 517, False, 517.0)
    keys = across("ServerHello", hello, 1460, True, 1460.0)
    across("Certificate", hello, 1460, True, 2920.0)
    across("ClientKeyExchange", keys, 126, False, 643.0)
    asked = across("data", keys + 1e-4, 300, False, 943.0) + wait
    sent, first, last = 0, 0.0, 0.0
    while sent < size:
        part = min(SEGMENT, size - sent)
        sent += part
        last = across("data", asked + sent / RATE, part, True, 2920.0 + sent)
        out.leg(connection, "tcp", ("client", "terminal"), last, EDGE, "ACK", 0, 943.0)
        first = first or last
    return keys, first, last


def write_tables(folder: Path, size: int, http: str, seed: int, packets: bool, loads: int = 3) -> None:
    """Tables ``pages``, ``requests`` and ``packets`` of one unit; the third load of seed 7 is never finished."""
    chance = random.Random(f"{seed} {http} {size}")  # noqa: S311 - reproducible draws
    out, pages, requests, begin = Recorder(), [], [], 1.0
    for load in range(1, loads + 1):
        start = begin + 0.002
        quic = http == "3" or (http == "alt-svc" and load > 1)
        # As the engine numbers them: packets by transport; requests of Alt-Svc have QUIC even and TCP odd.
        mixed = http == "alt-svc"
        connection = max(load - 2, 0) if mixed else load - 1
        number = 2 * connection + (not quic) if mixed else connection
        if quic:
            times = _quic(out, connection, start, size, 1 + 0.05 * chance.random())
        else:
            times = _tcp(out, connection, start, size, 0.3 * chance.random() ** 2)
        connected, first, last = times
        unfinished = seed == 7 and load == 3
        stamps = (begin, start, connected, connected, first, last, last, None if unfinished else last + 0.01)
        pages.append(
            {
                "flow": "chrome", "load": load, "http": http, "protocol": "h3" if quic else "h2",
                **dict(zip(TIMES, stamps, strict=True)), "ttr_s": first - start,
                "plt_s": None if unfinished else last + 0.01 - start, "objects": 0 if unfinished else 1,
                "bytes": size, "connections": 1, "completed": int(not unfinished),
            }
        )  # fmt: skip
        requests.append(
            {
                "flow": "chrome", "load": load, "object": "picture", "host": "pictures.example",
                "protocol": "h3" if quic else "h2", "connection": number, "queued_s": begin, "sent_s": connected,
                "response_start_s": first, "end_s": last, "bytes": size,
            }
        )  # fmt: skip
        begin = math.ceil(last) + 5 + 10 * chance.random()
    pl.DataFrame(pages).pipe(put, folder / "pages.parquet")
    pl.DataFrame(requests).pipe(put, folder / "requests.parquet")
    table = out.table() if packets else pl.DataFrame(schema=PACKETS)
    table.pipe(put, folder / "packets.parquet")


def page_store(
    path: Path, synthetic: ModuleType, seeds: int = 12, sizes: Sequence[tuple[str, int]] = (("target-a", 5_300_000),),
    arms: Sequence[str] = ("alt-svc", "2"), packets: bool = True, delays: Sequence[str] = (),
) -> Path:  # fmt: skip
    """The shape of the study: page x HTTP x units, with packets of the first two seeds."""
    runs, contents = [], []
    for (page, size), http, delay, seed in itertools.product(
        sizes, arms, delays or ("",), range(1, seeds + 1)
    ):
        cell = {"flow.chrome.load.page": page, "flow.chrome.load.http": http}
        cell |= {"path.satellite.delay": delay} if delay else {}
        flow = synthetic.Flow("chrome", "bbr", 4e6)
        runs.append((cell, seed, [flow], {"interval_s": 1.0}))
        contents.append((synthetic.run_id(cell, seed), size, http, seed))
    store: Path = synthetic.write_store(path, runs, "Page loads over a GEO access")
    for name, size, http, seed in contents:
        write_tables(store / "runs" / name, size, http, seed, packets and seed <= 2)
    return store
