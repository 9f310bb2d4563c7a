"""Node on real sockets (``bentpipe dtn node``, ``bentpipe dtn perf``): its events and their summary."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.dtn.neighbour_status import NeighbourStatus
from bentpipe.dtn.node_config import node_file
from bentpipe.dtn.node_plan import node_plan
from bentpipe.lab.bundle_node import run_node
from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.plan.dtn.nodes import perf_spec
from bentpipe.scenario.dtn.nodes import parse_dtnperf
from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe.dtn.dtnperf_monitor import Monitor
    from bentpipe.dtn.node_config import IdentityOptions
    from bentpipe.dtn.node_tables import Tables
    from bentpipe.lab.process_plans import BundleNodePlan
    from bentpipe.scenario.dtn.nodes import Dtnperf

__all__ = ["Client", "line", "plan_of", "run", "unused_neighbours"]

Row = dict[str, Any]


def plan_of(
    file: Path, name: str | None = None, store: Path | None = None, shown: IdentityOptions | None = None
) -> BundleNodePlan:
    """Return the plan of the node of a file.

    Args:
        file: file of the node.
        name: name of the node; None: that of the file.
        store: directory of the bundle store; None: in memory.
        shown: options about certificates, which override the file.

    Raises:
        ScenarioError: invalid file.
    """
    config, contacts = node_file(file, shown)
    plan = node_plan(config, contacts, name, str(file))
    if store is not None:
        plan["store"] = str(store)
    return plan


def unused_neighbours(plan: BundleNodePlan) -> list[str]:
    """Return the neighbours that get no bundles, since the node has no contact with them and no route over them."""
    if plan["dtn"].get("epidemic") is not None:
        return []
    node = next(entry for entry in plan["dtn"]["nodes"] if entry["name"] == plan["name"])
    reachable = {entry["to"] for entry in plan["dtn"]["plan"]["contacts"] if entry["from"] == plan["name"]}
    reachable |= {hop["via"] for hop in node.get("routes", ())}
    return [
        neighbour
        for neighbour in dict.fromkeys(door["neighbour"] for door in plan["neighbours"])
        if neighbour not in reachable
    ]


def run(
    plan: BundleNodePlan,
    each: Callable[[Row], None],
    client: Client | None = None,
    tables: Tables | None = None,
    monitor: Monitor | None = None,
) -> CommandOutput:
    """Run a node until Ctrl-C, or until its client is done.

    Args:
        plan: plan of the node.
        each: callback for each event.
        client: dtnperf client at the node.
        tables: tables of all rows.
        monitor: monitor of dtnperf.

    Raises:
        ScenarioError: invalid plan.
        RunnerError: the node failed.
    """
    counts: Counter[tuple[str, str]] = Counter()
    payload: Counter[tuple[str, str]] = Counter()
    contacts, status = _contact_events(plan), NeighbourStatus()
    receivers = [entry for entry in (tables, monitor, client) if entry is not None]
    start = time.monotonic()
    with run_node(plan) as node:
        for row in node.messages():
            now = time.monotonic() - start
            if row is not None and row.get("ready"):
                start, now = time.monotonic(), 0.0
                each(_started_event(row, plan))
                for entry in [*_store_events(row, plan), *_contact_end_events(plan)]:
                    each(entry)
            while contacts and contacts[0]["time_s"] <= now:
                each(contacts.pop(0))
            if row is not None:
                for receiver in receivers:
                    receiver.take(row)
                if (event := _event(row, status)) is not None:
                    each(event)
            if row is not None and "event" in row:
                key = (row["event"], row["kind"])
                counts[key] += 1
                payload[key] += row["payload_bytes"]
            if client is not None and client.done(now):
                node.end()
    duration = time.monotonic() - start
    _finish(tables, monitor, client)
    if client is not None:
        return client.answer(status.problems())
    rows: list[Row] = [
        {"bundles": kind, "event": event, "count": count, "payload_bytes": payload[event, kind]}
        for (event, kind), count in sorted(
            counts.items(), key=lambda entry: (entry[0][1], _ORDER.index(entry[0][0]))
        )
    ]
    table_rows = [{"bundles": entry["bundles"], "event": entry["event"], "count": entry["count"],
              "payload, MB": entry["payload_bytes"] / 1e6} for entry in rows]  # fmt: skip
    data = {"event": "ended", "node": plan["name"], "duration_s": duration, "counts": rows}
    head = f"Node {plan['name']} ran for {duration:.1f} s."
    return CommandOutput(
        data, (head, TextTable("", table_rows)) if rows else (f"{head} It handled no bundles.",)
    )


_ORDER = (
    "generated", "received", "reassembled", "fragment_merged", "fragmented", "fragment_created", "sent", "returned",
    "forwarded", "delivered", "acknowledged", "deleted",
)  # fmt: skip


def _finish(tables: Tables | None, monitor: Monitor | None, client: Client | None) -> None:
    """Write the tables and the rest of the monitor at the end."""
    if tables is not None:
        tables.write()
    if monitor is not None:
        monitor.end(*(client.stopped() if client is not None else ()))


def _started_event(row: Mapping[str, Any], plan: BundleNodePlan) -> Row:
    eid = next(node["eid"] for node in plan["dtn"]["nodes"] if node["name"] == plan["name"])
    doors = [
        {
            "neighbour": door["neighbour"],
            "layer": door["cla"]["kind"],
            "listens": address,
            "peer": door["peer"],
        }
        for door, address in zip(plan["neighbours"], row["listen"], strict=True)
    ]
    return {"time_s": 0.0, "node": plan["name"], "event": "started", "eid": eid, "neighbours": doors}


def _store_events(row: Mapping[str, Any], plan: BundleNodePlan) -> list[Row]:
    """Return events for the content of the node's store and for each damaged item."""
    if (store := row.get("store")) is None:
        return []
    head = {"time_s": 0.0, "node": plan["name"]}
    totals = {key: store[key] for key in ("bundles", "bytes", "delivered")}
    damaged = [{**head, "event": "store_damaged", **item} for item in store["damaged"]]
    return [{**head, "event": "store_found", "folder": plan.get("store"), **totals}, *damaged]


def _event(row: Row, status: NeighbourStatus) -> Row | None:
    """Return the event of a row; None: not an event."""
    if "event" in row:
        return row
    if row.get("table") == "connections":
        return status.take(row)
    return _file_event(row) if row.get("table") == "files" else None


def _file_event(row: Row) -> Row:
    """Return the event of a received file."""
    keys = ("time_s", "node", "source", "name", "bytes", "path", "problem")
    return {"event": "file" if row["problem"] is None else "file_lost", **{key: row[key] for key in keys}}


def _contact_end_events(plan: BundleNodePlan) -> list[Row]:
    """Return an event for each neighbour whose contacts of the plan are over."""
    head = {"time_s": 0.0, "node": plan["name"], "event": "contacts_over"}
    past = {
        neighbour["to"]
        for neighbour in plan["dtn"]["plan"].get("expired_pairs", ())
        if neighbour["from"] == plan["name"]
    }
    neighbours = dict.fromkeys(door["neighbour"] for door in plan["neighbours"])
    return [{**head, "neighbour": neighbour} for neighbour in neighbours if neighbour in past]


def _contact_events(plan: BundleNodePlan) -> list[Row]:
    """Return the begins and ends of the node's contacts of the plan."""
    rows: list[Row] = []
    for contact in plan["dtn"]["plan"]["contacts"]:
        if plan["name"] in (contact["from"], contact["to"]):
            fields = {
                "node": plan["name"],
                "from": contact["from"],
                "to": contact["to"],
                "rate_bit_s": contact["rate_bit_s"],
            }
            rows.append({"time_s": contact["start_ns"] / 1e9, "event": "contact_begins", **fields})
            rows.append({"time_s": contact["stop_ns"] / 1e9, "event": "contact_ends", **fields})
    return sorted(rows, key=lambda row: float(row["time_s"]))


def line(row: Mapping[str, Any]) -> str:
    """Return an event as text."""
    event = str(row["event"])
    if event == "started":
        neighbours = [
            f"{neighbour['neighbour']} by {neighbour['layer']} at {neighbour['listens']}"
            + (f", peer {neighbour['peer']}" if neighbour["peer"] else "")
            for neighbour in row["neighbours"]
        ]
        return f"node {row['node']} ({row['eid']}) started; neighbours: {'; '.join(neighbours)}"
    head = f"{row['time_s']:11.6f} s  "
    if event.startswith("contact_"):
        return f"{head}contact {row['from']} to {row['to']} {event[8:]}, {row['rate_bit_s'] / 1e6:g} Mbit/s"
    if event == "contacts_over":
        ends = f"{row['node']} to {row['neighbour']}"
        return f"{head}no future contact from {ends} in the plan: bundles for it stay at this node"
    if event == "store_found":
        ids = f", {row['delivered']:,} ids of delivered bundles" if row["delivered"] else ""
        return f"{head}store {row['folder']}: {row['bundles']:,} bundles, {row['bytes'] / 1e6:.6g} MB{ids}"
    if event == "store_damaged":
        bundle = f" {row['source']} no. {row['sequence']}" if "source" in row else ""
        file = f"; moved to {row['file']}" if row["file"] else ""
        return f"{head}damaged store entry{bundle}: {row['reason']}{file}"
    if event == "connection_lost":
        return f"{head}lost a connection with {row['neighbour']}: {row['reason']}"
    if event.startswith("file"):
        outcome = f"complete: {row['path']}" if event == "file" else f"abandoned: {row['problem']}"
        return f"{head}file {row['name']!r} of {row['source']}, {row['bytes']:,} B, {outcome}"
    kind = "" if row["kind"] == "data" else f" ({row['kind']})"
    preposition = {"received": "from", "sent": "to", "forwarded": "to", "returned": "by"}.get(event)
    peer = f" {preposition} {row['peer']}" if preposition and row["peer"] else ""
    part = "" if row["offset_bytes"] is None else f" from byte {row['offset_bytes']:,} on"
    reason = f": {row['reason']}" if row["reason"] else ""
    bundle = f"{row['source']} no. {row['sequence']}{part} for {row['destination']}"
    return f"{head}{event}{peer}  {bundle}, {row['payload_bytes']:,} B{kind}{reason}"


REPORTS = ("received", "forwarded", "delivered", "deleted")


def _node(plan: BundleNodePlan, text: str, key: str) -> str:
    """Return the name of a node from its name or node id; raise ScenarioError."""
    nodes = plan["dtn"]["nodes"]
    name = next((node["name"] for node in nodes if text in (node["name"], node["eid"])), None)
    if name is None:
        names = [name for node in nodes for name in (node["name"], node["eid"])]
        raise ScenarioError([(key, unknown_name(text, names, "node"))])
    return name


def _with_file(options: Dtnperf, plan: BundleNodePlan) -> Dtnperf:
    """Return a client that sends its file, with the payload of the file (docs/explanation/bundles.md).

    Raises:
        ScenarioError: the file is missing, empty, or too large for the payload.
    """
    path = Path(options.file or "")
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError:
        size = None
    if size is None:
        raise ScenarioError([("-F", f'no file "{path}"')])
    header_bytes = FILE_HEAD_BYTES + len(path.name.encode())
    if not size:
        raise ScenarioError([("-F", f'found "{path}", which is empty')])
    if options.payload_bytes <= header_bytes:
        text = f"found {options.payload_bytes} B, expected more than the {header_bytes} B of the header of a file part"
        raise ScenarioError([("-P", text)])
    plan["file"] = str(path)
    return dataclasses.replace(
        options, bytes=size + header_bytes * -(-size // (options.payload_bytes - header_bytes))
    )


FILE_HEAD_BYTES = 36
"""Header of a part of a file, without the name of the file."""


class Client:
    """Client of dtnperf at a node, with the states of its bundles."""

    def __init__(self, plan: BundleNodePlan, to: str, words: str, monitor: str | None = None) -> None:
        """Create a client and add it to ``plan``.

        Args:
            plan: plan of the source node.
            to: name or node id of the destination.
            words: options of dtnperf.
            monitor: name or node id of the node that gets reports; None: the source node.

        Raises:
            ScenarioError: invalid options.
        """
        destination = _node(plan, to, "TO")
        reports_to = plan["name"] if monitor is None else _node(plan, monitor, "-m")
        if destination == plan["name"]:
            raise ScenarioError([("TO", f"found {to}, this node itself, expected another one")])
        try:
            self._options: Dtnperf = parse_dtnperf(words)
        except ValueError as error:
            key, _, text = str(error).removeprefix("dtnperf").strip(" ").partition(": ")
            raise ScenarioError([("", f"{key}: {text}" if key else text)]) from None
        if self._options.file is not None:
            self._options = _with_file(self._options, plan)
        if self._options.time_s is None and self._options.bytes is None:
            raise ScenarioError([("", "expected -T SECONDS, -D BYTES or -F FILE, how much is sent")])
        plan["dtn"]["perf"] = [
            perf_spec(self._options, "perf", (plan["name"], destination, reports_to), (0, 2**62))
        ]
        self._name, self._to, self._reports_to = plan["name"], destination, reports_to
        self._eid = next(event["eid"] for event in plan["dtn"]["nodes"] if event["name"] == plan["name"])
        self._reported: dict[str, set[int]] = {event: set() for event in REPORTS}
        self._times: dict[str, dict[int, float]] = {
            event: {} for event in ("generated", "forwarded", "acknowledged", "deleted")
        }
        self._bytes: dict[int, int] = {}
        self._last = 0.0

    def take(self, row: Mapping[str, Any]) -> None:
        """Process a row of the node."""
        if row.get("table") == "bundle_status_reports":
            self._take_report(row)
        if row.get("event") not in self._times or row["kind"] != "data" or row["offset_bytes"] is not None:
            return
        number = int(row["sequence"])
        if row["event"] == "generated":
            self._bytes[number] = row["payload_bytes"]
        if number in self._bytes:
            self._times[row["event"]].setdefault(number, row["time_s"])
            self._last = row["time_s"]

    def _take_report(self, row: Mapping[str, Any]) -> None:
        number = int(row["sequence"])
        if row["offset_bytes"] is not None or number not in self._bytes:
            return
        for event in REPORTS:
            if row[f"{event}_ms"] is not None:
                self._reported[event].add(number)
                self._last = row["time_s"]

    @property
    def _receives_reports(self) -> bool:
        """Whether delivery reports arrive at this node."""
        return "delivered" in self._options.reports and self._reports_to == self._name

    def _deleted(self) -> set[int]:
        return self._times["deleted"].keys() | self._reported["deleted"]

    def _missing(self) -> set[int]:
        """Return the bundles without an acknowledgement, or, at a rate without reports, not forwarded."""
        answered: set[int] = set(self._times["acknowledged"])
        if self._options.window is None:
            answered = (
                self._reported["delivered"] if self._receives_reports else set(self._times["forwarded"])
            )
        return self._bytes.keys() - answered - self._deleted()

    def _pending(self) -> set[int]:
        unreported = (
            self._bytes.keys() - self._reported["delivered"] - self._deleted()
            if self._receives_reports
            else set()
        )
        return self._missing() | unreported

    def stopped(self) -> tuple[str, float | None]:
        """Return the client, and when it was complete in s; None: it is not.

        A complete client has sent everything, and has its acknowledgements where it waits for them.
        """
        eid = f"{self._eid}dtnperf/client-0" if self._eid.startswith("dtn:") else f"{self._eid[:-1]}3000"
        is_complete = self._options.bytes is None or sum(self._bytes.values()) >= self._options.bytes
        if not is_complete or not self._bytes or (self._options.window is not None and self._missing()):
            return eid, None
        sent_s = self._options.time_s or max(self._times["generated"].values())
        return eid, max(sent_s, max(self._times["acknowledged"].values(), default=0.0))

    def done(self, now_s: float) -> bool:
        """Return whether the client is complete: all bundles are answered, or no event occurred for a lifetime."""
        if now_s > self._last + self._options.lifetime_s + 1 and now_s > (self._options.time_s or 0):
            return True
        if self._options.bytes is not None:
            return sum(self._bytes.values()) >= self._options.bytes and not self._pending()
        return now_s > (self._options.time_s or 0) and not self._pending()

    def answer(self, problems: tuple[str, ...] = ()) -> CommandOutput:
        """Return the results of the client.

        Args:
            problems: problems of connections.

        Returns:
            Results; ``duration_s`` is from the first bundle to the last event, in the time of the node.
        """
        import polars as pl

        generated, acknowledged = self._times["generated"], self._times["acknowledged"]
        acknowledged_bytes = sum(self._bytes[number] for number in acknowledged)
        duration_s = max(acknowledged.values()) - min(generated.values()) if acknowledged else 0.0
        delays = pl.Series(
            [acknowledged[number] - generated[number] for number in acknowledged], dtype=pl.Float64
        )
        has_rate = self._options.window is None
        goodput = acknowledged_bytes * 8 / duration_s if duration_s > 0 else None
        quantiles = {
            f"delay_{name}_s": delays.quantile(level, "linear")
            for name, level in (("min", 0.0), ("median", 0.5), ("p95", 0.95), ("max", 1.0))
        }
        delivered: int | None = None if has_rate else len(acknowledged)
        if has_rate and self._receives_reports:
            delivered = len(self._reported["delivered"])
        data: Row = {
            "event": "ended", "node": self._name, "to": self._to,
            "duration_s": self._last - min(generated.values(), default=self._last),
            "generated": len(generated), "generated_bytes": sum(self._bytes.values()),
            # the acknowledgement of the server may arrive before that of the neighbour
            "forwarded": len(self._times["forwarded"].keys() | acknowledged.keys()),
            "delivered": delivered,
            "acknowledged": None if has_rate else len(acknowledged),
            "acknowledged_bytes": None if has_rate else acknowledged_bytes,
            "deleted": len(self._deleted()), "goodput_bit_s": goodput, **quantiles,
        }  # fmt: skip
        rows = [{
            "generated": data["generated"], "forwarded": data["forwarded"], "delivered": data["delivered"],
            "acknowledged": data["acknowledged"], "deleted": data["deleted"],
            "goodput, Mbit/s": None if goodput is None else goodput / 1e6,
            **{f"{name}, s": data[f"delay_{name}_s"] for name in ("min", "median", "p95", "max")},
        }]  # fmt: skip
        title = f"Bundles from {self._name} to {self._to}; delays are from generation to acknowledgement"
        shown: tuple[str | TextTable, ...] = (TextTable(title, rows),)
        if has_rate and not self._receives_reports:
            shown += ("Bundles at a fixed rate are not acknowledged. The receiving node reports deliveries.",)
        if self._options.reports and self._reports_to == self._name:
            data["reports"] = {
                event: len(self._reported[event]) for event in REPORTS if event in self._options.reports
            }
            text = ", ".join(f"{count} {event}" for event, count in data["reports"].items())
            shown += (f"Bundles with a status report: {text}.",)
        missing = len(self._missing())
        problems += (f"{missing} bundles without an answer",) if missing else ()
        is_good = not missing and not self._deleted() and bool(generated)
        return CommandOutput(data, shown, problems, is_good)
