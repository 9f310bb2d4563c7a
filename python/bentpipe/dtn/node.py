"""``bentpipe dtn node`` and ``bentpipe dtn perf``: a node on real sockets, what happens at it, and
what that comes to."""

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
    from bentpipe.dtn.node_config import Shown
    from bentpipe.dtn.node_tables import Tables
    from bentpipe.lab.process_plans import BundleNodePlan
    from bentpipe.scenario.dtn.nodes import Dtnperf

__all__ = ["Client", "line", "plan_of", "run", "unused"]

Row = dict[str, Any]


def plan_of(
    file: Path, name: str | None = None, store: Path | None = None, shown: Shown | None = None
) -> BundleNodePlan:
    """The plan of the node of a file, whose store is the folder ``store`` or in memory; what is ``shown`` goes before
    what the file says of certificates. Raises ScenarioError."""
    found, contacts = node_file(file, shown)
    plan = node_plan(found, contacts, name, str(file))
    if store is not None:
        plan["store"] = str(store)
    return plan


def unused(plan: BundleNodePlan) -> list[str]:
    """Neighbours that the node of ``plan`` sends nothing to, since neither its contacts nor its routes say that it
    can."""
    if plan["dtn"].get("epidemic") is not None:
        return []
    own = next(one for one in plan["dtn"]["nodes"] if one["name"] == plan["name"])
    known = {one["to"] for one in plan["dtn"]["plan"]["contacts"] if one["from"] == plan["name"]}
    known |= {hop["via"] for hop in own.get("routes", ())}
    return [name for name in dict.fromkeys(door["neighbour"] for door in plan["doors"]) if name not in known]


def run(
    plan: BundleNodePlan,
    each: Callable[[Row], None],
    client: Client | None = None,
    tables: Tables | None = None,
    monitor: Monitor | None = None,
) -> CommandOutput:
    """Runs a node until Ctrl-C, or until its client is done; ``each`` is told what happens, ``tables`` get all of it
    and ``monitor`` what a monitor writes.

    Raises:
        ScenarioError: the plan cannot be run.
        RunnerError: the node failed.
    """
    counted: Counter[tuple[str, str]] = Counter()
    payload: Counter[tuple[str, str]] = Counter()
    contacts, reached = _contacts(plan), NeighbourStatus()
    takers = [one for one in (tables, monitor, client) if one is not None]
    begun = time.monotonic()
    with run_node(plan) as node:
        for row in node.messages():
            now = time.monotonic() - begun
            if row is not None and row.get("ready"):
                begun, now = time.monotonic(), 0.0
                each(_started(row, plan))
                for one in [*_found(row, plan), *_over(plan)]:
                    each(one)
            while contacts and contacts[0]["time_s"] <= now:
                each(contacts.pop(0))
            if row is not None:
                for taker in takers:
                    taker.take(row)
                if (said := _said(row, reached)) is not None:
                    each(said)
            if row is not None and "event" in row:
                which = (row["event"], row["kind"])
                counted[which] += 1
                payload[which] += row["payload_bytes"]
            if client is not None and client.done(now):
                node.end()
    duration = time.monotonic() - begun
    _write(tables, monitor, client)
    if client is not None:
        return client.answer(reached.problems())
    rows: list[Row] = [
        {"bundles": kind, "event": event, "count": count, "payload_bytes": payload[event, kind]}
        for (event, kind), count in sorted(
            counted.items(), key=lambda one: (one[0][1], _ORDER.index(one[0][0]))
        )
    ]
    shown = [{"bundles": one["bundles"], "event": one["event"], "count": one["count"],
              "payload, MB": one["payload_bytes"] / 1e6} for one in rows]  # fmt: skip
    data = {"event": "ended", "node": plan["name"], "duration_s": duration, "counts": rows}
    head = f"Node {plan['name']} ran for {duration:.1f} s."
    return CommandOutput(data, (head, TextTable("", shown)) if rows else (f"{head} It had no bundles.",))


_ORDER = (
    "generated", "received", "reassembled", "joined", "cut", "part", "sent", "returned", "forwarded", "delivered",
    "acknowledged", "deleted",
)  # fmt: skip


def _write(tables: Tables | None, monitor: Monitor | None, client: Client | None) -> None:
    """Writes what is written at the end."""
    if tables is not None:
        tables.write()
    if monitor is not None:
        monitor.end(*(client.stopped() if client is not None else ()))


def _started(row: Mapping[str, Any], plan: BundleNodePlan) -> Row:
    eid = next(one["eid"] for one in plan["dtn"]["nodes"] if one["name"] == plan["name"])
    doors = [
        {"neighbour": door["neighbour"], "layer": door["layer"]["kind"], "listens": at, "peer": door["peer"]}
        for door, at in zip(plan["doors"], row["listens"], strict=True)
    ]
    return {"time_s": 0.0, "node": plan["name"], "event": "started", "eid": eid, "neighbours": doors}


def _found(row: Mapping[str, Any], plan: BundleNodePlan) -> list[Row]:
    """What the node's store had, and each thing in it that was damaged."""
    if (store := row.get("store")) is None:
        return []
    head = {"time_s": 0.0, "node": plan["name"]}
    counts = {key: store[key] for key in ("bundles", "bytes", "delivered")}
    damaged = [{**head, "event": "store_damaged", **one} for one in store["damaged"]]
    return [{**head, "event": "store_found", "folder": plan.get("store"), **counts}, *damaged]


def _said(row: Row, reached: NeighbourStatus) -> Row | None:
    """What a row says that is to be shown."""
    if "event" in row:
        return row
    if row.get("table") == "connections":
        return reached.take(row)
    return _file(row) if row.get("table") == "files" else None


def _file(row: Row) -> Row:
    """What has become of a file that a client has sent."""
    keys = ("time_s", "node", "source", "name", "bytes", "path", "problem")
    return {"event": "file" if row["problem"] is None else "file_lost", **{key: row[key] for key in keys}}


def _over(plan: BundleNodePlan) -> list[Row]:
    """Each neighbour that this node cannot send to any more by its plan."""
    head = {"time_s": 0.0, "node": plan["name"], "event": "contacts_over"}
    ended = {one["to"] for one in plan["dtn"]["plan"].get("over", ()) if one["from"] == plan["name"]}
    neighbours = dict.fromkeys(door["neighbour"] for door in plan["doors"])
    return [{**head, "neighbour": one} for one in neighbours if one in ended]


def _contacts(plan: BundleNodePlan) -> list[Row]:
    """When contacts of the node begin and end by its plan."""
    rows: list[Row] = []
    for one in plan["dtn"]["plan"]["contacts"]:
        if plan["name"] in (one["from"], one["to"]):
            what = {
                "node": plan["name"],
                "from": one["from"],
                "to": one["to"],
                "rate_bit_s": one["rate_bit_s"],
            }
            rows.append({"time_s": one["start_ns"] / 1e9, "event": "contact_begins", **what})
            rows.append({"time_s": one["stop_ns"] / 1e9, "event": "contact_ends", **what})
    return sorted(rows, key=lambda row: float(row["time_s"]))


def line(row: Mapping[str, Any]) -> str:
    """What happened, for people."""
    event = str(row["event"])
    if event == "started":
        ways = [
            f"{one['neighbour']} by {one['layer']} at {one['listens']}"
            + (f", which answers at {one['peer']}" if one["peer"] else "")
            for one in row["neighbours"]
        ]
        return f"node {row['node']} ({row['eid']}) has started; neighbours: {'; '.join(ways)}"
    head = f"{row['time_s']:11.6f} s  "
    if event.startswith("contact_"):
        return f"{head}contact {row['from']} to {row['to']} {event[8:]}, {row['rate_bit_s'] / 1e6:g} Mbit/s"
    if event == "contacts_over":
        ends = f"{row['node']} to {row['neighbour']}"
        return f"{head}all contacts of the plan from {ends} are over: bundles for it stay here, none is sent to it"
    if event == "store_found":
        ids = f", {row['delivered']:,} ids of delivered ones" if row["delivered"] else ""
        return f"{head}store {row['folder']}: {row['bundles']:,} bundles, {row['bytes'] / 1e6:.6g} MB{ids}"
    if event == "store_damaged":
        which = f" {row['source']} no. {row['sequence']}" if "source" in row else ""
        file = f"; set aside as {row['file']}" if row["file"] else ""
        return f"{head}damaged in the store{which}: {row['why']}{file}"
    if event == "connection_lost":
        return f"{head}a connection with {row['neighbour']} is lost: {row['reason']}"
    if event.startswith("file"):
        what = f"is whole: {row['path']}" if event == "file" else f"is given up: {row['problem']}"
        return f"{head}file {row['name']!r} of {row['source']}, {row['bytes']:,} B, {what}"
    kind = "" if row["kind"] == "data" else f" ({row['kind']})"
    way = {"received": "from", "sent": "to", "forwarded": "to", "returned": "by"}.get(event)
    peer = f" {way} {row['peer']}" if way and row["peer"] else ""
    part = "" if row["offset_bytes"] is None else f" from byte {row['offset_bytes']:,} on"
    why = f": {row['reason']}" if row["reason"] else ""
    which = f"{row['source']} no. {row['sequence']}{part} for {row['destination']}"
    return f"{head}{event}{peer}  {which}, {row['payload_bytes']:,} B{kind}{why}"


REPORTS = ("received", "forwarded", "delivered", "deleted")


def _node(plan: BundleNodePlan, word: str, key: str) -> str:
    """The name of a node that is called so, or has this node id. Raises ScenarioError."""
    nodes = plan["dtn"]["nodes"]
    found = next((one["name"] for one in nodes if word in (one["name"], one["eid"])), None)
    if found is None:
        known = [name for one in nodes for name in (one["name"], one["eid"])]
        raise ScenarioError([(key, unknown_name(word, known, "node"))])
    return found


def _with_file(asked: Dtnperf, plan: BundleNodePlan) -> Dtnperf:
    """A client that sends this file, which the plan gets: so much payload (docs/models/bundles.md).

    Raises:
        ScenarioError: it cannot be sent.
    """
    path = Path(asked.file or "")
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError:
        size = None
    if size is None:
        raise ScenarioError([("-F", f'found "{path}", which is not a file here')])
    head = FILE_HEAD_BYTES + len(path.name.encode())
    if not size:
        raise ScenarioError([("-F", f'found "{path}", which is empty')])
    if asked.payload_bytes <= head:
        text = f"found {asked.payload_bytes} B, expected more than the {head} B that say which part it is"
        raise ScenarioError([("-P", text)])
    plan["file"] = str(path)
    return dataclasses.replace(asked, bytes=size + head * -(-size // (asked.payload_bytes - head)))


FILE_HEAD_BYTES = 36
"""Before a part of a file, besides its name."""


class Client:
    """A client of dtnperf at a node: what becomes of its bundles."""

    def __init__(self, plan: BundleNodePlan, to: str, words: str, monitor: str | None = None) -> None:
        """Bundles from the node of ``plan``, which gets them, for the node ``to``, a name or node id, in dtnperf's
        ``words``; reports go to the node ``monitor``, by default the same one.

        Raises:
            ScenarioError: what is wrong.
        """
        found = _node(plan, to, "TO")
        reports_to = plan["name"] if monitor is None else _node(plan, monitor, "-m")
        if found == plan["name"]:
            raise ScenarioError([("TO", f"found {to}, this node itself, expected another one")])
        try:
            self._asked: Dtnperf = parse_dtnperf(words)
        except ValueError as error:
            key, _, text = str(error).removeprefix("dtnperf").strip(" ").partition(": ")
            raise ScenarioError([("", f"{key}: {text}" if key else text)]) from None
        if self._asked.file is not None:
            self._asked = _with_file(self._asked, plan)
        if self._asked.time_s is None and self._asked.bytes is None:
            raise ScenarioError([("", "expected -T SECONDS, -D BYTES or -F FILE, how much is sent")])
        plan["dtn"]["perf"] = [perf_spec(self._asked, "perf", (plan["name"], found, reports_to), (0, 2**62))]
        self._name, self._to, self._reports_to = plan["name"], found, reports_to
        self._eid = next(one["eid"] for one in plan["dtn"]["nodes"] if one["name"] == plan["name"])
        self._reported: dict[str, set[int]] = {one: set() for one in REPORTS}
        self._times: dict[str, dict[int, float]] = {
            one: {} for one in ("generated", "forwarded", "acknowledged", "deleted")
        }
        self._bytes: dict[int, int] = {}
        self._last = 0.0

    def take(self, row: Mapping[str, Any]) -> None:
        """The node has said this."""
        if row.get("table") == "reports":
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
        for one in REPORTS:
            if row[f"{one}_ms"] is not None:
                self._reported[one].add(number)
                self._last = row["time_s"]

    @property
    def _hears(self) -> bool:
        """Whether reports say here what was delivered."""
        return "delivered" in self._asked.reports and self._reports_to == self._name

    def _gone(self) -> set[int]:
        return self._times["deleted"].keys() | self._reported["deleted"]

    def _missing(self) -> set[int]:
        """Bundles of which this node waits to hear that they came, or at a rate without reports that they went."""
        known: set[int] = set(self._times["acknowledged"])
        if self._asked.window is None:
            known = self._reported["delivered"] if self._hears else set(self._times["forwarded"])
        return self._bytes.keys() - known - self._gone()

    def _open(self) -> set[int]:
        reports = self._bytes.keys() - self._reported["delivered"] - self._gone() if self._hears else set()
        return self._missing() | reports

    def stopped(self) -> tuple[str, float | None]:
        """The client, and when it had sent all that it was to and knew what it waits for; None: it does not."""
        eid = f"{self._eid}dtnperf/client-0" if self._eid.startswith("dtn:") else f"{self._eid[:-1]}3000"
        whole = self._asked.bytes is None or sum(self._bytes.values()) >= self._asked.bytes
        if not whole or not self._bytes or (self._asked.window is not None and self._missing()):
            return eid, None
        sent_s = self._asked.time_s or max(self._times["generated"].values())
        return eid, max(sent_s, max(self._times["acknowledged"].values(), default=0.0))

    def done(self, now_s: float) -> bool:
        """Whether nothing more is to come: all is answered, or nothing has happened for a lifetime."""
        if now_s > self._last + self._asked.lifetime_s + 1 and now_s > (self._asked.time_s or 0):
            return True
        if self._asked.bytes is not None:
            return sum(self._bytes.values()) >= self._asked.bytes and not self._open()
        return now_s > (self._asked.time_s or 0) and not self._open()

    def answer(self, problems: tuple[str, ...] = ()) -> CommandOutput:
        """What came out, and ``problems``; ``duration_s`` is from the first bundle to the last event, by the node's
        clock."""
        import polars as pl

        made, known = self._times["generated"], self._times["acknowledged"]
        acknowledged = sum(self._bytes[number] for number in known)
        took = max(known.values()) - min(made.values()) if known else 0.0
        delays = pl.Series([known[number] - made[number] for number in known], dtype=pl.Float64)
        paced = self._asked.window is None
        goodput = acknowledged * 8 / took if took > 0 else None
        quantiles = {
            f"delay_{name}_s": delays.quantile(level, "linear")
            for name, level in (("min", 0.0), ("median", 0.5), ("p95", 0.95), ("max", 1.0))
        }
        delivered: int | None = None if paced else len(known)
        if paced and self._hears:
            delivered = len(self._reported["delivered"])
        data: Row = {
            "event": "ended", "node": self._name, "to": self._to,
            "duration_s": self._last - min(made.values(), default=self._last),
            "generated": len(made), "generated_bytes": sum(self._bytes.values()),
            # the server's word may come before the neighbour's
            "forwarded": len(self._times["forwarded"].keys() | known.keys()),
            "delivered": delivered,
            "acknowledged": None if paced else len(known), "acknowledged_bytes": None if paced else acknowledged,
            "deleted": len(self._gone()), "goodput_bit_s": goodput, **quantiles,
        }  # fmt: skip
        rows = [{
            "generated": data["generated"], "forwarded": data["forwarded"], "delivered": data["delivered"],
            "acknowledged": data["acknowledged"], "deleted": data["deleted"],
            "goodput, Mbit/s": None if goodput is None else goodput / 1e6,
            **{f"{name}, s": data[f"delay_{name}_s"] for name in ("min", "median", "p95", "max")},
        }]  # fmt: skip
        title = f"Bundles from {self._name} to {self._to}; delays are from generation to acknowledgement"
        shown: tuple[str | TextTable, ...] = (TextTable(title, rows),)
        if paced and not self._hears:
            shown += ("At a rate nothing is acknowledged: what was delivered, the other node says.",)
        if self._asked.reports and self._reports_to == self._name:
            data["reports"] = {one: len(self._reported[one]) for one in REPORTS if one in self._asked.reports}
            said = ", ".join(f"{count} {one}" for one, count in data["reports"].items())
            shown += (f"Bundles of which a report has come: {said}.",)
        missing = len(self._missing())
        problems += (f"{missing} bundles without an answer",) if missing else ()
        good = not missing and not self._gone() and bool(made)
        return CommandOutput(data, shown, problems, good)
