"""An access as a lab has it: the path of a preset or of a scenario, and what splits TCP on it."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.background_traffic import MIX, flows
from bentpipe.lab.process_plans import GROUND
from bentpipe.lab.requirements import WAY_OUTSIDE, program
from bentpipe.plan.document import ScenarioDocument, load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.queries import delays_ns
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.presets import presets
from bentpipe.scenario.quantities import Duration
from bentpipe.scenario.sweep import axes_of, is_scenario_key, swept_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.lab.process_plans import LabSpec
    from bentpipe.plan.spec.run_spec import LinkSpec, ProxySpec, RunSpec, TopologySpec

__all__ = [
    "MTU",
    "PEP_SETUPS",
    "access_document",
    "insert_proxy",
    "lab",
    "led_outside",
    "other_ways",
    "resolve_graph",
    "resolve_path",
    "resolve_with_users",
]

MTU = 1500
"""Of the emulated link: Ethernet's."""


def lab(access: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]] = ()) -> LabSpec:
    """The path of a preset, or of a scenario file, as the emulator reads it.

    Raises:
        ScenarioError: no such preset; what is wrong with the scenario.
    """
    return resolve_path(access, overrides)[0]


def resolve_path(
    access: str | Mapping[str, Any],
    overrides: Sequence[tuple[str, object]] = (),
    *,
    pep: str | None = None,
) -> tuple[LabSpec, list[ProxySpec]]:
    """The path of a preset or of a scenario file, and the proxies on it.

    Args:
        access: a preset, a scenario file, or the table it would parse to; of these the path or graph is enough.
        overrides: dotted keys and values, as ``--set`` gives them.
        pep: set-up of a proxy that is put behind the longest segment of a path without one; a
            path of one segment gets a wire without delay behind it.

    Raises:
        ScenarioError: no such preset; what is wrong with the scenario.
    """
    document = access_document(access, overrides)
    spec = build_plan(document, "", check_cost=False).runs[0].spec
    if problems := other_ways(spec["graph"]):
        raise ScenarioError(problems, document.name)
    spec = insert_proxy(spec, pep)
    return _lab(spec), list(spec.get("proxies", ()))


def resolve_graph(access: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]] = ()) -> LabSpec:
    """The graph of a scenario with a namespace for every host, and the links and ways between them as they change.

    Client and server are those of the first flow, or, where there is none, the first two hosts.

    Args:
        access: a scenario file, or the table it would parse to, of which the graph is enough.
        overrides: dotted keys and values, as ``--set`` gives them.

    Raises:
        ScenarioError: what is wrong with the scenario.
    """
    document = _with_flow(load_scenario(access, overrides), several=True)
    spec = build_plan(document, "", check_cost=False).runs[0].spec
    found = _lab(spec)
    ends = (found["client"], found["server"])
    hosts = [node["name"] for node in spec["graph"]["nodes"] if node["kind"] == "host"]
    if others := [name for name in hosts if name not in ends]:
        found["hosts"] = others
    return found


def resolve_with_users(
    access: str | Mapping[str, Any],
    overrides: Sequence[tuple[str, object]] = (),
    *,
    users: int,
    mix: str = MIX,
    pep: str | None = None,
) -> tuple[LabSpec, RunSpec]:
    """The path of an access, and the run of simulated users who share it with user 0, the real one.

    The run has the proxies of the path: they split its users' TCP, and the lab of the real one is to have the same.

    Args:
        access: as for :func:`path_of`.
        overrides: as there.
        users: how many.
        mix: what they do.
        pep: as for :func:`path_of`.

    Raises:
        ScenarioError: as :func:`path_of`; no such users.
    """
    document = access_document(access, overrides)
    data = dict(document.data)
    shell = {"name": "shell", "transport": "tcp", "congestion": "cubic", "send": "down"}
    ends = {key: data["flow"][0][key] for key in ("client", "server") if key in data["flow"][0]}
    theirs = [{**flow, **ends} for flow in flows(users, mix)]
    data |= {"duration": LONG, "flow": [shell | ends, *theirs], "seeds": 1}
    data.pop("sweep", None)
    spec = insert_proxy(build_plan(replace(document, data=data), "", check_cost=False).runs[0].spec, pep)
    if problems := other_ways(spec["graph"]):
        raise ScenarioError(problems, document.name)
    return _lab(spec), {**spec, "flows": spec["flows"][1:]}


def other_ways(graph: TopologySpec) -> list[tuple[str, str]]:
    """Why a graph is no access, which is one way, while links go in and out of use."""
    events = [event for event in graph.get("changes", ()) if event["at_ns"] > 0 and event.get("links")]
    if not events:
        return []
    link, at = events[0]["links"][0], Duration(events[0]["at_ns"])
    what = f'at {at} the link "{link["link"]}" {"comes into" if link["in_use"] else "goes out of"} use'
    why = "an access can change delay, rate, queue and loss, and no ways; expected no gap and no other link"
    return [("handover", f"{what}; {why}")]


def _lab(spec: RunSpec) -> LabSpec:
    """The path of a resolved run, from client to server of its first flow."""
    flow = spec["flows"][0]
    return {
        "graph": spec["graph"],
        "client": flow["client"],
        "server": flow["server"],
        "seed": spec["seed"],
        "mtu": MTU,
    }


LONG = "24 h"
"""Users of a session go on for as long as it lasts."""


def access_document(
    access: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]]
) -> ScenarioDocument:
    """The scenario of an access, with a flow from end to end. Raises ScenarioError."""
    if not isinstance(access, str) or access.endswith(".toml") or Path(access).is_file():
        return _with_flow(_one_path(load_scenario(access, overrides)))
    names = [preset.name for preset in presets()]
    if access not in names:
        raise ScenarioError([("ACCESS", unknown_name(access, names, "preset"))])
    data = {
        "title": access,
        "duration": "1 h",
        "path": {"preset": access},
        "flow": [{"name": "shell", "congestion": "cubic"}],
    }
    return load_scenario(data, overrides)


def _one_path(document: ScenarioDocument) -> ScenarioDocument:
    """``document``, if its sweep leaves its path as it is. Raises ScenarioError."""
    for key, values in axes_of(document.data.get("sweep")).items():
        if len(values) > 1 and any(
            place.split(".")[0] in ("path", "graph") for place in swept_keys({key: values})
        ):
            text = f"has {len(values)} values, and an access is one path"
            one = (
                f"; one of them is had by --set {shlex.quote(f'{key}={values[0]}')}"
                if is_scenario_key(key)
                else ""
            )
            raise ScenarioError([(f"sweep.{key}", f"{text}{one}")], document.name)
    return document


def _with_flow(document: ScenarioDocument, *, several: bool = False) -> ScenarioDocument:
    """A path alone becomes a scenario: its flow leads from end to end, and only says which these are. Of ``several``
    hosts it leads from the first to the second."""
    data = dict(document.data)
    if data.get("flow"):
        return document
    flow: dict[str, Any] = {"name": "shell", "congestion": "cubic"}
    graph = data.get("graph")
    if isinstance(graph, dict):
        nodes = graph.get("node")
        tables = (
            [{"name": one} if isinstance(one, str) else one for one in nodes]
            if isinstance(nodes, list)
            else []
        )
        hosts = [
            one.get("name") for one in tables if isinstance(one, dict) and one.get("kind", "host") == "host"
        ]
        if len(hosts) < 2 or (len(hosts) > 2 and not several):
            named = ", ".join(map(str, hosts)) or "none"
            problem = f"missing, expected a flow that names its client and server among the hosts: {named}"
            raise ScenarioError([("flow", problem)], document.name)
        flow |= {"client": hosts[0], "server": hosts[1]}
    return replace(document, data={"duration": "1 h", **data, "flow": [flow]})


def insert_proxy(spec: RunSpec, setup: str | None) -> RunSpec:
    """The resolved run with a proxy where the ground begins, at the far end of its longest segment: if one is asked
    for and it has none."""
    if setup is None or spec.get("proxies"):
        return spec
    if setup not in PEP_SETUPS:
        raise ScenarioError([("--pep", unknown_name(setup, PEP_SETUPS, "set-up"))])
    links = list(spec["graph"]["links"])
    place = max(range(len(links)), key=lambda at: _delay_ns(links[at]))
    longest = links[place]
    example = {
        "title": "a proxy",
        "duration": "1 s",
        "path": {
            "segment": [{"name": "a", "delay": "1 ms"}, {"name": "b", "delay": "1 ms"}],
            "proxy": [{"name": PEP, "between": ["a", "b"], "setup": setup}],
        },
        "flow": [{"name": "any", "congestion": "cubic", "transport": "tcp"}],
    }
    # A proxy as a scenario's is by default; its node takes the place of the end or router behind the segment.
    proxy = build_plan(load_scenario(example), "").runs[0].spec["proxies"][0]
    behind = longest["server_side"]
    nodes = list(spec["graph"]["nodes"])
    if behind == spec["flows"][0]["server"]:
        nodes.append({"name": PEP, "kind": "proxy"})
        wire: LinkSpec = {"name": GROUND, "client_side": PEP, "server_side": behind, "up": [], "down": []}
        links = [*links[:place], {**longest, "server_side": PEP}, *links[place + 1 :], wire]
        proxy = {**proxy, "node": PEP}
    else:
        nodes = [{**node, "kind": "proxy"} if node["name"] == behind else node for node in nodes]
        proxy = {**proxy, "node": behind}
    return {**spec, "graph": {**spec["graph"], "nodes": nodes, "links": links}, "proxies": [proxy]}


def led_outside(pep: str | None) -> str | None:
    """The set-up of the proxy of a path that leads outside: an ordinary user's has one also where none is asked for.

    What leads outside then is a TCP of its own, with a window of 64 kB or without congestion control; it is not to be
    the one that crosses the path (docs/decisions/0074).
    """
    if pep is not None or os.geteuid() == 0 or not all(program(*words).good for words in WAY_OUTSIDE):
        return pep
    return "relayed"


def _delay_ns(link: LinkSpec) -> int:
    """Propagation upwards: constant delays, and the least of traced ones."""
    return sum(min(delays_ns(stage, changed=False), default=0) for stage in link["up"])


PEP = "gateway"
PEP_SETUPS = ("early", "relayed")
"""A pool needs a proxy at its far end: that is a scenario's to say."""
