"""Bundle nodes in the engine's words (``DtnSpec``).

Node ids are ``ipn:N.0`` by the order of the nodes where nothing is said. Time zero is the contact plan's epoch, else
the beginning of 2026. Without any contact, nodes know their neighbours, and whoever has one neighbour sends all else
to it.
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

    from bentpipe.plan.spec.run_spec import ClaSpec, DtnPerfSpec, DtnSpec, PlanSpec, RunSpec
    from bentpipe.scenario.dtn.nodes import BundleNode, Bundles, Dtnperf
    from bentpipe.scenario.model import Flow, Scenario
    from bentpipe.scenario.quantities import Duration, Rate

__all__ = ["SINCE_2000_S", "add_dtn", "add_ltp_rate", "cla_spec", "perf_spec"]

SINCE_2000_S = 946_684_800
"""2000-01-01 in seconds since 1970: zero of bundles' times (RFC 9171 section 4.2.6)."""
EPOCH_S = 1_767_225_600
"""2026-01-01 in seconds since 1970: time zero where nothing is said."""

_COLOURS = {"ltp": "red", "ltp-green": "green"}
_STREAMS = {"quiccl": "one", "quiccl-each": "each", "quiccl-priorities": "priorities"}


def _bundles(flow: Flow) -> Bundles | None:
    return None if flow.load is None else flow.load.bundles


def add_dtn(scenario: Scenario, spec: RunSpec, folder: Path) -> None:
    """Bundle nodes become part of a run that has some, the flows between them behind all others.

    Files of clients are in ``folder``.

    Raises:
        ScenarioError: what does not go together.
    """
    if dtn := _words(scenario, spec, folder):
        spec["dtn"] = dtn
        spec["flows"] = sorted(spec["flows"], key=lambda flow: flow["load"]["kind"] == "bundles")


def _words(scenario: Scenario, spec: RunSpec, folder: Path) -> DtnSpec | None:
    """Nodes, links, contact plan and clients of a scenario; None where it has no bundle nodes.

    Raises:
        ScenarioError: what does not go together.
    """
    links = [(flow, one) for flow in scenario.flow if (one := _bundles(flow)) is not None]
    if not links:
        return None
    dtn = scenario.dtn or Dtn()
    flows = {flow["name"]: flow for flow in spec["flows"]}
    pairs = {flow.name: (flows[flow.name]["client"], flows[flow.name]["server"]) for flow, _ in links}
    own = {node.name: node for node in dtn.node}
    names = list(dict.fromkeys([*own, *(end for pair in pairs.values() for end in pair)]))
    _reachable(links, pairs)
    plan = dtn.spec()
    _in_order(plan)
    hands: dict[str, list[dict[str, str | None]]] = {name: [] for name in names}
    for hop in dtn.route:
        hands[hop.at].append({"to": hop.to, "via": hop.via})
    if not plan["contacts"] and dtn.routing == "sabr":
        _by_neighbours(hands, pairs)
    epoch = plan["epoch_unix_s"] if plan["epoch_unix_s"] is not None else EPOCH_S
    words = {
        "epoch_ms": (epoch - SINCE_2000_S) * 1000,
        "nodes": [
            {
                "name": name,
                "eid": (own[name].eid if name in own else None) or f"ipn:{number}.0",
                "store_bytes": store.bytes if name in own and (store := own[name].store) else None,
                "routes": hands[name],
                **({} if name not in own else _stopping(own[name])),
                **({} if name not in own else _proving(own[name], names)),
            }
            for number, name in enumerate(names, 1)
        ],
        "links": [
            {
                "flow": flow.name,
                "layer": _layer(one, flow.name, pairs[flow.name], plan),
                "shared": one.connections == "shared",
                "with_contact": one.opened == "with_contact",
                "closes": one.closes,
                **({} if one.on_return is None else {"on_return": one.on_return}),
            }
            for flow, one in links
        ],
        "plan": cast("PlanSpec", plan),
        "perf": [
            perf_spec(
                _sized(client, folder, f"flow.{flow.name}.load.bundles.dtnperf"),
                flow.name,
                (pairs[flow.name][0], one.to or pairs[flow.name][1], one.monitor),
                (flow.start.ns, scenario.duration.ns),
            )
            for flow, one in links
            if (client := one.client) is not None
        ],
    }
    if any(node.integrity is not None for node in dtn.node):
        words["keys_of_names"] = True
    if dtn.backlog == "ignored":
        words["backlog_ignored"] = True
    if dtn.routing == "epidemic":
        words["epidemic"] = {} if dtn.copies is None else {"copies": dtn.copies}
    return cast("DtnSpec", words)


def _stopping(node: BundleNode) -> dict[str, object]:
    """How long a node's store takes, and when the node stops, if anything is said of it."""
    words: dict[str, object] = {}
    if node.store_delay.ns > 0:
        words["store_ns"] = node.store_delay.ns
    if node.stops:
        words["stops"] = [
            {
                "at_ns": stop.at.ns,
                "until_ns": None if stop.length is None else stop.at.ns + stop.length.ns,
                "keeps": stop.store == "kept",
            }
            for stop in node.stops
        ]
    return words


def _proving(node: BundleNode, names: list[str]) -> dict[str, object]:
    """What a node signs and checks, if it does. Raises ScenarioError."""
    if node.integrity is None:
        return {}
    return {"integrity": integrity_spec(node.integrity, names, f"dtn.node.{node.name}.integrity")}


def _sized(client: Dtnperf, folder: Path, key: str) -> Dtnperf:
    """A client that sends a file sends so much. Raises ScenarioError."""
    if client.file is None:
        return client
    try:
        size = (folder / client.file).stat().st_size
    except (OSError, ValueError):  # ValueError: no file can have such a name
        raise ScenarioError([(key, f'-F: found "{client.file}", which is not a file here')]) from None
    if not size:
        raise ScenarioError([(key, f'-F: found "{client.file}", which is empty')])
    return dataclasses.replace(client, bytes=size)


def _reachable(links: list[tuple[Flow, Bundles]], pairs: dict[str, tuple[str, str]]) -> None:
    """Where each side opens its own, there is a flow each way. Raises ScenarioError."""
    for flow, one in links:
        there, back = pairs[flow.name]
        if one.connections == "each" and (back, there) not in pairs.values():
            text = (
                f'found "each", and no flow from {back} to {there} for the other side\'s connections; expected one, '
                'or "shared"'
            )
            raise ScenarioError([(f"flow.{flow.name}.load.bundles.connections", text)])


def _in_order(plan: dict[str, Any]) -> None:
    """Contacts and ranges are between two nodes, end after their start, and follow each other. Raises ScenarioError."""
    for one in [*plan["contacts"], *plan["ranges"]]:
        if one["from"] == one["to"]:
            raise ScenarioError(
                [(f"dtn.{one['at']}", f"found {one['from']} at both ends, expected two nodes")]
            )
        if one["stop_ns"] <= one["start_ns"]:
            raise ScenarioError([(f"dtn.{one['at']}.stop", "found a stop that is not after the start")])
    for kind in ("contact", "range"):
        ordered = sorted(plan[f"{kind}s"], key=lambda one: (one["from"], one["to"], one["start_ns"]))
        for one, other in itertools.pairwise(ordered):
            if (one["from"], one["to"]) == (other["from"], other["to"]) and other["start_ns"] < one[
                "stop_ns"
            ]:
                text = f"found a {kind} from {one['from']} to {one['to']} that overlaps dtn.{one['at']}"
                raise ScenarioError([(f"dtn.{other['at']}", text)])


def _by_neighbours(hands: dict[str, list[dict[str, str | None]]], pairs: dict[str, tuple[str, str]]) -> None:
    """Routes of nodes that know of no contacts."""
    near: dict[str, list[str]] = {name: [] for name in hands}
    for one, other in pairs.values():
        near[one].append(other)
        near[other].append(one)
    for name, found in near.items():
        neighbours = list(dict.fromkeys(found))
        told = {hand["to"] for hand in hands[name]}
        hands[name] += [{"to": to, "via": to} for to in neighbours if to not in told]
        if len(neighbours) == 1 and None not in told:
            hands[name].append({"to": None, "via": neighbours[0]})


def _layer(one: Bundles, flow: str, pair: tuple[str, str], plan: dict[str, Any]) -> ClaSpec:
    """A link's layer. Raises ScenarioError."""
    words = cla_spec(one.layer, one.tls)
    key = f"flow.{flow}.load.bundles.rate"
    return add_ltp_rate(words, (one.rate, one.owlt), pair, plan["contacts"], key)


def add_ltp_rate(
    words: ClaSpec,
    own: tuple[Rate | None, Duration | None],
    pair: tuple[str, str],
    contacts: Iterable[Mapping[str, Any]],
    key: str,
) -> ClaSpec:
    """A layer that, if it has no controller, has a rate.

    Args:
        words: the layer.
        own: its rate, and light one way, where no contact has one.
        pair: the two nodes.
        contacts: the plan's.
        key: that of the rate, for messages.

    Raises:
        ScenarioError: nothing says the rate.
    """
    if words["kind"] != "ltp":
        return words
    rate, owlt = own
    if owlt is not None:
        words["owlt_ns"] = owlt.ns
    if rate is not None:
        words["rate_bit_s"] = rate.bit_s
    elif not any({contact["from"], contact["to"]} == set(pair) for contact in contacts):
        text = (
            f"missing, expected one: LTP sends at the rate of a contact, and none between {pair[0]} and "
            f"{pair[1]} is planned"
        )
        raise ScenarioError([(key, text)])
    return words


def cla_spec(layer: str, tls: str = "no") -> ClaSpec:
    """A convergence layer of the scenario's words, and whether it begins TLS (RFC 9174 section 4.4)."""
    if tls != "no":
        return cast("ClaSpec", {"kind": layer, "tls": tls})
    if layer in _COLOURS:
        return cast("ClaSpec", {"kind": "ltp", "colour": _COLOURS[layer]})
    if layer in _STREAMS:
        return cast("ClaSpec", {"kind": "quiccl", "streams": _STREAMS[layer]})
    return cast("ClaSpec", {"kind": layer})


def perf_spec(
    client: Dtnperf, name: str, ends: tuple[str, str, str | None], times_ns: tuple[int, int]
) -> DtnPerfSpec:
    """A client of dtnperf.

    Args:
        client: dtnperf's words.
        name: what it is called.
        ends: client, server and monitor.
        times_ns: when it begins, and when all is over.
    """
    start_ns, end_ns = times_ns
    rest_ns = end_ns - start_ns
    amount: dict[str, object] = {"kind": "time", "duration_ns": rest_ns}
    if client.time_s is not None:
        amount["duration_ns"] = min(rest_ns, round(client.time_s * 1e9))
    if client.bytes is not None:
        amount = {"kind": "data", "bytes": client.bytes}
    pace: dict[str, object] = {"kind": "window", "bundles": client.window}
    if client.window is None:
        rate = client.rate_bit_s or round((client.bundles_per_s or 0) * client.payload_bytes * 8)
        pace = {"kind": "rate", "bit_s": rate}
    words = {
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
        "whole": client.whole,
        "reports": {key: key in client.reports for key in ("received", "forwarded", "delivered", "deleted")},
    }
    return cast("DtnPerfSpec", words)
