"""CSV file of a dtnperf monitor: status reports, acknowledgements of servers and ends of clients.

The source is a run in a store, or a running node.
"""

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
"""Columns of the file."""

_REASONS = {
    0: "no additional information", 1: "lifetime expired", 2: "forwarded over unidirectional link",
    3: "transmission canceled", 4: "depleted storage", 5: "destination endpoint unavailable",
    6: "no known route", 7: "no timely contact", 8: "block unintelligible", 9: "hop limit exceeded",
    10: "traffic pared", 11: "block unsupported", 12: "missing security operation", 13: "unknown security operation",
    14: "unexpected security operation", 15: "failed security operation", 16: "conflicting security operation",
}  # fmt: skip
"""Reason codes (RFC 9171 section 9.5, RFC 9172 section 11.3)."""


def monitor_csv(directory: Path | Store, run: str | None = None) -> str:
    """Return the CSV of the monitors of a run, in order of ``RX_TIME`` (s since the start of the run).

    ``CLIENT_STOP`` is when a client had sent everything, and, where it waits for acknowledgements, had them all. In a
    run
    it is known without a bundle that reports it.

    Args:
        directory: store, or its directory.
        run: id of the run; None: the first run of the store.

    Raises:
        bentpipe.StoreError: no store, no such run, or a run without bundle nodes.
    """
    store = open_store(directory)
    runs = store.runs["run"].to_list()
    if run is not None and run not in runs:
        raise StoreError(f"{store.path}: {unknown_name(run, runs, 'run')}")
    run = run or runs[0]
    spec: Any = store.specs([run])[run]
    if "dtn" not in spec:
        raise StoreError(f"{store.path}: run {run} has no bundle nodes")
    tables = {name: _rows(store, name, run) for name in ("bundles", "bundle_status_reports")}
    rows = [
        *map(_report_row, tables["bundle_status_reports"]),
        *_acknowledgement_rows(tables["bundles"]),
        *_stop_rows(tables["bundles"], spec),
    ]
    rows.sort(key=_receive_time)
    return "".join([_HEAD, *map(_line, rows)])


ORDER_DELAY_S = 0.2
"""Delay of rows in s: within a poll interval of 100 ms the node orders rows by table, not by time."""


class Monitor:
    """Monitor of a node on real sockets: its reports and the state of its client, in order of ``RX_TIME``."""

    def __init__(self, out: TextIO) -> None:
        """Create a monitor that writes to ``out``."""
        self._out = out
        self._pending: list[dict[str, Any]] = []
        self._deliveries: deque[Mapping[str, Any]] = deque()
        out.write(_HEAD)
        out.flush()

    def take(self, row: Mapping[str, Any]) -> None:
        """Process a row of the node."""
        if row.get("table") == "bundle_status_reports":
            self._pending.append(_report_row(row))
        elif row.get("kind") == "acknowledgement" and row.get("event") == "delivered":
            self._deliveries.append(row)
        elif row.get("event") == "acknowledged":
            while (
                self._deliveries
                and (acknowledgement := self._deliveries.popleft())["time_s"] <= row["time_s"]
            ):
                if (acknowledgement["time_s"], acknowledgement["destination"]) == (
                    row["time_s"],
                    row["source"],
                ):
                    self._pending.append(_acknowledgement_row(acknowledgement, row))
                    break
        if "time_s" in row:
            self._write(row["time_s"] - ORDER_DELAY_S)

    def end(self, client: str | None = None, stopped_s: float | None = None) -> None:
        """Write the remaining rows; ``client`` was complete at ``stopped_s``, if not None."""
        if client is not None and stopped_s is not None:
            self._pending.append(_stop_row(client, stopped_s))
        self._write(float("inf"))

    def _write(self, until_s: float) -> None:
        self._pending.sort(key=_receive_time)
        while self._pending and _receive_time(self._pending[0]) <= until_s:
            self._out.write(_line(self._pending.pop(0)))
        self._out.flush()


_HEAD = ";".join(COLUMNS) + "\n"


def _line(row: Mapping[str, Any]) -> str:
    return ";".join(str(row.get(name, "")) for name in COLUMNS) + "\n"


def _receive_time(row: Mapping[str, Any]) -> float:
    return float(row["RX_TIME"])


def _rows(store: Store, table: str, run: str) -> list[dict[str, Any]]:
    frame = store.rows(table)
    return frame.filter(frame["run"] == run).to_dicts() if frame.width > 1 else []


def _id(prefix: str, row: Mapping[str, Any], of: str = "") -> dict[str, Any]:
    parts = (("SRC", "source"), ("TST", "created_ms"), ("SQN", "sequence"))
    return {f"{prefix}_{name}": row[of + column] for name, column in parts}


def _integer(value: float | None) -> int | str:
    return "" if value is None else int(value)


def _report_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "RX_TIME": f"{row['time_s']:.6f}", **_id("Report", row, "report_"), "Report_Type": "STATUS_REPORT",
        **_id("Bndl", row), "Bndl_FO": _integer(row["offset_bytes"]), "Bndl_FL": _integer(row["total_bytes"]),
        "Dlv": _integer(row["delivered_ms"]), "Rcv": _integer(row["received_ms"]),
        "Fwd": _integer(row["forwarded_ms"]), "Del": _integer(row["deleted_ms"]),
        "Reason": _REASONS.get(row["reason"], row["reason"]),
    }  # fmt: skip


def _acknowledgement_row(acknowledgement: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of the acknowledgement ``acknowledgement`` for the bundle of ``row``."""
    return {
        "RX_TIME": f"{row['time_s']:.6f}",
        **_id("Report", acknowledgement),
        "Report_Type": "SERVER_ACK",
        **_id("Bndl", row),
    }


def _stop_row(client: str, time_s: float) -> dict[str, Any]:
    return {"RX_TIME": f"{time_s:.6f}", "Report_SRC": client, "Report_Type": "CLIENT_STOP"}


def _acknowledgement_rows(bundles: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield acknowledgements: the delivery and the acknowledgement of its bundle share an instant, in this order."""
    deliveries: dict[tuple[float, str], deque[dict[str, Any]]] = defaultdict(deque)
    for row in bundles:
        if row["kind"] == "acknowledgement" and row["event"] == "delivered":
            deliveries[row["time_s"], row["destination"]].append(row)
    for row in bundles:
        if row["event"] == "acknowledged":
            yield _acknowledgement_row(deliveries[row["time_s"], row["source"]].popleft(), row)


def _stop_rows(bundles: list[dict[str, Any]], spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    eids = {node["name"]: node["eid"] for node in spec["dtn"]["nodes"]}
    for number, perf in enumerate(spec["dtn"].get("perf", [])):
        client_eid = eids[perf["client"]]
        client = (
            f"{client_eid}dtnperf/client-{number}"
            if client_eid.startswith("dtn:")
            else f"{client_eid[:-1]}{3000 + number}"
        )
        client_rows = [row for row in bundles if row["source"] == client and row["offset_bytes"] is None]
        generated = [row for row in client_rows if row["event"] == "generated"]
        acknowledged = [row for row in client_rows if row["event"] == "acknowledged"]
        if perf["amount"]["kind"] == "time":
            sent_s = (perf["start_ns"] + perf["amount"]["duration_ns"]) / 1e9
        elif sum(row["payload_bytes"] for row in generated) >= perf["amount"]["bytes"]:
            sent_s = generated[-1]["time_s"]
        else:
            continue
        has_window = perf["pace"]["kind"] == "window"
        if (has_window and len(acknowledged) < len(generated)) or sent_s > spec["duration_ns"] / 1e9:
            continue
        last_acknowledged = acknowledged[-1]["time_s"] if has_window and acknowledged else 0.0
        yield _stop_row(client, max(sent_s, last_acknowledged))
