"""What a monitor of dtnperf wrote: status reports, servers' acknowledgements and clients' ends as its CSV, of a run in
a store or of a node while it runs."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import unknown_name
from bentpipe.store.files import StoreError
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import TextIO

    from bentpipe.store.reader import Store

__all__ = ["COLUMNS", "Monitor", "monitor_csv"]

COLUMNS = (
    "RX_TIME", "Report_SRC", "Report_TST", "Report_SQN", "Report_Type", "Bndl_SRC", "Bndl_TST", "Bndl_SQN", "Bndl_FO",
    "Bndl_FL", "Dlv", "Ct", "Rcv", "Fwd", "Del", "Reason", "CRC",
)  # fmt: skip

_REASONS = {
    0: "no additional information", 1: "lifetime expired", 2: "forwarded over unidirectional link",
    3: "transmission canceled", 4: "depleted storage", 5: "destination endpoint unavailable",
    6: "no known route", 7: "no timely contact", 8: "block unintelligible", 9: "hop limit exceeded",
    10: "traffic pared", 11: "block unsupported", 12: "missing security operation", 13: "unknown security operation",
    14: "unexpected security operation", 15: "failed security operation", 16: "conflicting security operation",
}  # fmt: skip
"""RFC 9171 section 9.5, RFC 9172 section 11.3."""


def monitor_csv(directory: Path | Store, run: str | None = None) -> str:
    """The monitors' CSV of a run, by default the store's first, in order of ``RX_TIME``, seconds since the run began.

    ``CLIENT_STOP`` is the instant at which a client had sent all that it was to, and had all of it acknowledged where
    that is what it waits for: in a run it is known without a bundle that says so.

    Raises:
        bentpipe.StoreError: not a store, no such run, or one without bundle nodes.
    """
    store = open_store(directory)
    runs = store.runs["run"].to_list()
    if run is not None and run not in runs:
        raise StoreError(f"{store.path}: {unknown_name(run, runs, 'run')}")
    run = run or runs[0]
    spec: Any = store.specs([run])[run]
    if "dtn" not in spec:
        raise StoreError(f"{store.path}: run {run} has no bundle nodes")
    tables = {name: _rows(store, name, run) for name in ("bundles", "reports")}
    rows = [
        *map(_report, tables["reports"]),
        *_acknowledgements(tables["bundles"]),
        *_stops(tables["bundles"], spec),
    ]
    rows.sort(key=_when)
    return "".join([_HEAD, *map(_line, rows)])


HELD_S = 0.2
"""What a node tells at a look of 100 ms is in order by table, not by time."""


class Monitor:
    """The monitor of a node on real sockets: its reports and what its client knows, in order of ``RX_TIME``."""

    def __init__(self, out: TextIO) -> None:
        """``out`` gets the CSV."""
        self._out = out
        self._held: list[dict[str, Any]] = []
        self._came: deque[Mapping[str, Any]] = deque()
        out.write(_HEAD)
        out.flush()

    def take(self, row: Mapping[str, Any]) -> None:
        """The node has said this."""
        if row.get("table") == "reports":
            self._held.append(_report(row))
        elif row.get("kind") == "acknowledgement" and row.get("event") == "delivered":
            self._came.append(row)
        elif row.get("event") == "acknowledged":
            while self._came and (own := self._came.popleft())["time_s"] <= row["time_s"]:
                if (own["time_s"], own["destination"]) == (row["time_s"], row["source"]):
                    self._held.append(_acknowledgement(own, row))
                    break
        if "time_s" in row:
            self._write(row["time_s"] - HELD_S)

    def end(self, client: str | None = None, stopped_s: float | None = None) -> None:
        """Nothing more comes; ``client`` was done at ``stopped_s``, if it was."""
        if client is not None and stopped_s is not None:
            self._held.append(_stop(client, stopped_s))
        self._write(float("inf"))

    def _write(self, until_s: float) -> None:
        self._held.sort(key=_when)
        while self._held and _when(self._held[0]) <= until_s:
            self._out.write(_line(self._held.pop(0)))
        self._out.flush()


_HEAD = ";".join(COLUMNS) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    return ";".join(str(row.get(name, "")) for name in COLUMNS) + "\n"


def _when(row: Mapping[str, Any]) -> float:
    return float(row["RX_TIME"])


def _rows(store: Store, table: str, run: str) -> list[dict[str, Any]]:
    frame = store.rows(table)
    return frame.filter(frame["run"] == run).to_dicts() if frame.width > 1 else []


def _id(prefix: str, row: Mapping[str, Any], of: str = "") -> dict[str, Any]:
    parts = (("SRC", "source"), ("TST", "created_ms"), ("SQN", "sequence"))
    return {f"{prefix}_{name}": row[of + column] for name, column in parts}


def _whole(value: float | None) -> int | str:
    return "" if value is None else int(value)


def _report(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "RX_TIME": f"{row['time_s']:.6f}", **_id("Report", row, "report_"), "Report_Type": "STATUS_REPORT",
        **_id("Bndl", row), "Bndl_FO": _whole(row["offset_bytes"]), "Bndl_FL": _whole(row["total_bytes"]),
        "Dlv": _whole(row["delivered_ms"]), "Rcv": _whole(row["received_ms"]),
        "Fwd": _whole(row["forwarded_ms"]), "Del": _whole(row["deleted_ms"]),
        "Reason": _REASONS.get(row["reason"], row["reason"]),
    }  # fmt: skip


def _acknowledgement(own: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The acknowledgement ``own`` of the bundle of ``row``."""
    return {
        "RX_TIME": f"{row['time_s']:.6f}",
        **_id("Report", own),
        "Report_Type": "SERVER_ACK",
        **_id("Bndl", row),
    }


def _stop(client: str, time_s: float) -> dict[str, Any]:
    return {"RX_TIME": f"{time_s:.6f}", "Report_SRC": client, "Report_Type": "CLIENT_STOP"}


def _acknowledgements(bundles: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """An acknowledgement is delivered, and then its bundle is acknowledged, at one instant and in this order."""
    came: dict[tuple[float, str], deque[dict[str, Any]]] = defaultdict(deque)
    for row in bundles:
        if row["kind"] == "acknowledgement" and row["event"] == "delivered":
            came[row["time_s"], row["destination"]].append(row)
    for row in bundles:
        if row["event"] == "acknowledged":
            yield _acknowledgement(came[row["time_s"], row["source"]].popleft(), row)


def _stops(bundles: list[dict[str, Any]], spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    eids = {node["name"]: node["eid"] for node in spec["dtn"]["nodes"]}
    for number, perf in enumerate(spec["dtn"].get("perf", [])):
        own = eids[perf["client"]]
        client = f"{own}dtnperf/client-{number}" if own.startswith("dtn:") else f"{own[:-1]}{3000 + number}"
        mine = [row for row in bundles if row["source"] == client and row["offset_bytes"] is None]
        made = [row for row in mine if row["event"] == "generated"]
        known = [row for row in mine if row["event"] == "acknowledged"]
        if perf["amount"]["kind"] == "time":
            sent_s = (perf["start_ns"] + perf["amount"]["duration_ns"]) / 1e9
        elif sum(row["payload_bytes"] for row in made) >= perf["amount"]["bytes"]:
            sent_s = made[-1]["time_s"]
        else:
            continue
        waits = perf["pace"]["kind"] == "window"
        if (waits and len(known) < len(made)) or sent_s > spec["duration_ns"] / 1e9:
            continue
        last = known[-1]["time_s"] if waits and known else 0.0
        yield _stop(client, max(sent_s, last))
