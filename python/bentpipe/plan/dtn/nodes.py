"""Bundle nodes, their links and their clients (``DtnSpec``).

The default node id is ``ipn:N.0`` by the order of the nodes. The default epoch is that of the contact plan, else the
beginning of 2026. Without any contact, nodes know their neighbours. A node with one neighbour forwards all other
bundles to it.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, cast

from bentpipe.plan.dtn.integrity import integrity_spec
from bentpipe.scenario.dtn.nodes import Dtn
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import ClaSpec, ContactStartSpec, DtnPerfSpec, DtnSpec, PlanSpec, RunSpec
    from bentpipe.scenario.dtn.nodes import BundleNode, Bundles, Dtnperf
    from bentpipe.scenario.model import Flow, Scenario

__all__ = ["CONTACT_START", "SINCE_2000_S", "add_dtn", "check_ltp_rate", "perf_spec"]

SINCE_2000_S = 946_684_800
"""2000-01-01 in seconds since 1970: zero of DTN time (RFC 9171 section 4.2.6)."""
EPOCH_S = 1_767_225_600
"""2026-01-01 in seconds since 1970: the default epoch of a run."""

CONTACT_START: dict[str, ContactStartSpec] = {
    "alone": "keep",
    "reopen": "reopen",
    "resume": "resume",
    "cue": "link_up",
}
"""Action on an open connection when a contact starts, by its name in a scenario."""


def _bundles(flow: Flow) -> Bundles | None:
    return None if flow.load is None else flow.load.bundles


def add_dtn(scenario: Scenario, spec: RunSpec, folder: Path) -> None:
    """Add the bundle nodes of a scenario to its run, and move the flows between them behind all others.

    Args:
        scenario: the scenario.
        spec: the run, modified in place.
        folder: folder of the files that clients send.

    Raises:
        ScenarioError: keys that cannot be combined.
    """
    if dtn := _dtn_spec(scenario, spec, folder):
        spec["dtn"] = dtn
        spec["flows"] = sorted(spec["flows"], key=lambda flow: flow["load"]["kind"] == "bundles")


def _dtn_spec(scenario: Scenario, spec: RunSpec, folder: Path) -> DtnSpec | None:
    """Return nodes, links, contact plan and clients; None without bundle nodes. Raises ScenarioError."""
    links = [(flow, bundles) for flow in scenario.flow if (bundles := _bundles(flow)) is not None]
    if not links:
        return None
    dtn = scenario.dtn or Dtn()
    flows = {flow["name"]: flow for flow in spec["flows"]}
    pairs = {flow.name: (flows[flow.name]["client"], flows[flow.name]["server"]) for flow, _ in links}
    tables = {node.name: node for node in dtn.node}
    names = list(dict.fromkeys([*tables, *(end for pair in pairs.values() for end in pair)]))
    _check_return_flows(links, pairs)
    plan = dtn.spec()
    _check_plan(plan)
    routes: dict[str, list[dict[str, str | None]]] = {name: [] for name in names}
    for route in dtn.route:
        routes[route.at].append({"to": route.to, "via": route.via})
    if not plan["contacts"] and dtn.routing == "sabr":
        _add_neighbour_routes(routes, pairs)
    epoch = plan["epoch_unix_s"] if plan["epoch_unix_s"] is not None else EPOCH_S
    dtn_spec = {
        "epoch_ms": (epoch - SINCE_2000_S) * 1000,
        "nodes": [
            {
                "name": name,
                "eid": (tables[name].eid if name in tables else None) or f"ipn:{number}.0",
                "store_bytes": store.bytes if name in tables and (store := tables[name].store) else None,
                "routes": routes[name],
                **({} if name not in tables else _store_delay_and_stops(tables[name])),
                **({} if name not in tables else _integrity(tables[name], names)),
            }
            for number, name in enumerate(names, 1)
        ],
        "links": [
            {
                "flow": flow.name,
                "cla": _cla(bundles, flow.name, pairs[flow.name], plan),
                "shared": bundles.connections == "shared",
                "opens_with_contact": bundles.opened == "with_contact",
                "closes_after_contact": bundles.closes,
                **(
                    {}
                    if bundles.on_return is None
                    else {"on_contact_start": CONTACT_START[bundles.on_return]}
                ),
            }
            for flow, bundles in links
        ],
        "plan": cast("PlanSpec", plan),
        "perf": [
            perf_spec(
                _with_file_size(client, folder, f"flow.{flow.name}.load.bundles.dtnperf"),
                flow.name,
                (pairs[flow.name][0], bundles.to or pairs[flow.name][1], bundles.monitor),
                (flow.start.ns, scenario.duration.ns),
            )
            for flow, bundles in links
            if (client := bundles.client) is not None
        ],
    }
    if any(node.integrity is not None for node in dtn.node):
        dtn_spec["derive_keys_from_names"] = True
    if dtn.backlog == "ignored":
        dtn_spec["backlog_ignored"] = True
    if dtn.routing == "epidemic":
        dtn_spec["epidemic"] = {} if dtn.copies is None else {"copies": dtn.copies}
    return cast("DtnSpec", dtn_spec)


def _store_delay_and_stops(node: BundleNode) -> dict[str, object]:
    """Return the keys for the delay of a node's store and for its outages, if configured."""
    keys: dict[str, object] = {}
    if node.store_delay.ns > 0:
        keys["store_delay_ns"] = node.store_delay.ns
    if node.outages:
        keys["outages"] = [
            {
                "at_ns": outage.at.ns,
                "until_ns": None if outage.duration is None else outage.at.ns + outage.duration.ns,
                "keeps_store": outage.store == "kept",
            }
            for outage in node.outages
        ]
    return keys


def _integrity(node: BundleNode, names: list[str]) -> dict[str, object]:
    """Return the key for signatures and their verification, if configured. Raises ScenarioError."""
    if node.integrity is None:
        return {}
    return {"integrity": integrity_spec(node.integrity, names, f"dtn.node.{node.name}.integrity")}


def _with_file_size(client: Dtnperf, folder: Path, key: str) -> Dtnperf:
    """Return a client that sends as many bytes as its file has. Raises ScenarioError."""
    if client.file is None:
        return client
    try:
        size = (folder / client.file).stat().st_size
    except (OSError, ValueError):  # ValueError: a name that no file can have
        raise ScenarioError([(key, f'-F: no file "{client.file}"')]) from None
    if not size:
        raise ScenarioError([(key, f'-F: found "{client.file}", which is empty')])
    return dataclasses.replace(client, bytes=size)


def _check_return_flows(links: list[tuple[Flow, Bundles]], pairs: dict[str, tuple[str, str]]) -> None:
    """Check that a flow exists in both directions if each side opens connections. Raises ScenarioError."""
    for flow, bundles in links:
        client, server = pairs[flow.name]
        if bundles.connections == "each" and (server, client) not in pairs.values():
            text = (
                f'found "each", and no flow from {server} to {client} for the other side\'s connections; '
                'expected one, or "shared"'
            )
            raise ScenarioError([(f"flow.{flow.name}.load.bundles.connections", text)])


def _check_plan(plan: dict[str, Any]) -> None:
    """Check ends, start, stop and overlaps of contacts and ranges. Raises ScenarioError."""
    for one in [*plan["contacts"], *plan["ranges"]]:
        if one["from"] == one["to"]:
            raise ScenarioError(
                [(f"dtn.{one['declared_at']}", f"found {one['from']} at both ends, expected two nodes")]
            )
        if one["stop_ns"] <= one["start_ns"]:
            raise ScenarioError(
                [(f"dtn.{one['declared_at']}.stop", "found a stop that is not after the start")]
            )
    for kind in ("contact", "range"):
        ordered = sorted(plan[f"{kind}s"], key=lambda one: (one["from"], one["to"], one["start_ns"]))
        for before, after in itertools.pairwise(ordered):
            same_pair = (before["from"], before["to"]) == (after["from"], after["to"])
            if same_pair and after["start_ns"] < before["stop_ns"]:
                other = f"dtn.{before['declared_at']}"
                text = f"found a {kind} from {before['from']} to {before['to']} that overlaps {other}"
                raise ScenarioError([(f"dtn.{after['declared_at']}", text)])


def _add_neighbour_routes(
    routes: dict[str, list[dict[str, str | None]]], pairs: dict[str, tuple[str, str]]
) -> None:
    """Add routes to neighbours, and a default route to a single neighbour, unless configured."""
    adjacent: dict[str, list[str]] = {name: [] for name in routes}
    for client, server in pairs.values():
        adjacent[client].append(server)
        adjacent[server].append(client)
    for name, nodes in adjacent.items():
        neighbours = list(dict.fromkeys(nodes))
        configured = {route["to"] for route in routes[name]}
        routes[name] += [{"to": node, "via": node} for node in neighbours if node not in configured]
        if len(neighbours) == 1 and None not in configured:
            routes[name].append({"to": None, "via": neighbours[0]})


def _cla(bundles: Bundles, flow: str, pair: tuple[str, str], plan: dict[str, Any]) -> ClaSpec:
    """Return the convergence layer of a link. Raises ScenarioError."""
    cla = bundles.to_spec(bundles.layer)
    check_ltp_rate(cla, pair, plan["contacts"], f"flow.{flow}.load.bundles.rate")
    return cla


def check_ltp_rate(
    cla: ClaSpec, pair: tuple[str, str], contacts: Iterable[Mapping[str, Any]], key: str
) -> None:
    """Check that LTP, which has no congestion controller, has a rate or a contact.

    Args:
        cla: the convergence layer.
        pair: the two nodes.
        contacts: contacts of the contact plan.
        key: key of the rate, for errors.

    Raises:
        ScenarioError: neither a rate nor a contact of these nodes.
    """
    if cla["kind"] != "ltp" or "rate_bit_s" in cla:
        return
    if not any({contact["from"], contact["to"]} == set(pair) for contact in contacts):
        text = (
            f"missing, expected one: LTP sends at the rate of a contact, and none between {pair[0]} and "
            f"{pair[1]} is planned"
        )
        raise ScenarioError([(key, text)])


def perf_spec(
    client: Dtnperf, name: str, ends: tuple[str, str, str | None], times_ns: tuple[int, int]
) -> DtnPerfSpec:
    """Return the ``DtnPerfSpec`` of a dtnperf client.

    Args:
        client: options of dtnperf.
        name: name of the client.
        ends: client, server and monitor.
        times_ns: start of the client, and end of the run.
    """
    start_ns, end_ns = times_ns
    remaining_ns = end_ns - start_ns
    amount: dict[str, object] = {"kind": "time", "duration_ns": remaining_ns}
    if client.time_s is not None:
        amount["duration_ns"] = min(remaining_ns, round(client.time_s * 1e9))
    if client.bytes is not None:
        amount = {"kind": "data", "bytes": client.bytes}
    pace: dict[str, object] = {"kind": "window", "bundles": client.window}
    if client.window is None:
        rate = client.rate_bit_s or round((client.bundles_per_s or 0) * client.payload_bytes * 8)
        pace = {"kind": "rate", "bit_s": rate}
    spec = {
        "name": name,
        "client": ends[0],
        "server": ends[1],
        "monitor": ends[2],
        "start_ns": start_ns,
        "amount": amount,
        "pace": pace,
        "payload_bytes": client.payload_bytes,
        "lifetime_ns": round(client.lifetime_s * 1e9),
        "priority": client.priority,
        "critical": client.critical,
        "hop_limit": client.hop_limit,
        "crc": client.crc,
        "do_not_fragment": client.whole,
        "reports": {key: key in client.reports for key in ("received", "forwarded", "delivered", "deleted")},
    }
    return cast("DtnPerfSpec", spec)
