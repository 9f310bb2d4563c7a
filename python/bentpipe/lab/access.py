"""Path of a lab and its PEPs, from a preset or a scenario."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.background_traffic import MIX, flows
from bentpipe.lab.process_plans import GROUND
from bentpipe.lab.requirements import OUTSIDE_PROGRAMS, check_program
from bentpipe.plan.document import ScenarioDocument, load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.randomness import is_path_stochastic
from bentpipe.plan.spec.queries import delays_ns
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.presets import presets
from bentpipe.scenario.quantities import Duration
from bentpipe.scenario.sweep import axes_of, is_scenario_key, swept_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bentpipe.lab.process_plans import LabSpec
    from bentpipe.plan.spec.run_spec import LinkSpec, ProxySpec, RunSpec, TopologySpec

__all__ = [
    "MTU",
    "PEP_SETUPS",
    "SharedPath",
    "access_document",
    "find_route_changes",
    "insert_proxy",
    "lab",
    "needs_uplink_proxy",
    "resolve_graph",
    "resolve_path",
    "resolve_shared_path",
    "resolve_with_users",
]

MTU = 1500
"""MTU of the emulated link, bytes: that of Ethernet."""


def lab(access: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]] = ()) -> LabSpec:
    """Return the path of a preset or a scenario file as the emulator reads it.

    Args:
        access: as for :func:`resolve_path`.
        overrides: as for :func:`resolve_path`.

    Raises:
        ScenarioError: the preset does not exist, or the scenario is invalid.
    """
    return resolve_path(access, overrides)[0]


def resolve_path(
    access: str | Mapping[str, Any],
    overrides: Sequence[tuple[str, object]] = (),
    *,
    pep: str | None = None,
    has_uplink: bool = False,
) -> tuple[LabSpec, list[ProxySpec]]:
    """Return the path of a preset or a scenario file, and the proxies on it.

    Args:
        access: a preset, a scenario file, or the table of one; the path or graph is enough.
        overrides: dotted keys and values, as ``--set`` gives them.
        pep: handshake of a proxy that is inserted behind the longest segment of a path without a proxy. A
            path of one segment gets a link without delay behind the proxy.
        has_uplink: the path leads to the network of this host, which may need a proxy
            (:func:`needs_uplink_proxy`).

    Raises:
        ScenarioError: the preset does not exist, or the scenario is invalid.
    """
    document = access_document(access, overrides)
    spec = build_plan(document, "", is_simulated=False).runs[0].spec
    if problems := find_route_changes(spec["graph"]):
        raise ScenarioError(problems, document.name)
    spec = _insert_proxies(spec, pep, has_uplink=has_uplink)
    return _lab(spec), list(spec.get("proxies", ()))


def resolve_graph(access: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]] = ()) -> LabSpec:
    """Return the graph of a scenario with a namespace for every host, and with its changing links and routes.

    Client and server are those of the first flow. Without a flow they are the first two hosts.

    Args:
        access: a scenario file, or the table of one; the graph is enough.
        overrides: dotted keys and values, as ``--set`` gives them.

    Raises:
        ScenarioError: the scenario is invalid.
    """
    document = _add_flow(load_scenario(access, overrides), allow_more_hosts=True)
    spec = build_plan(document, "", is_simulated=False).runs[0].spec
    path = _lab(spec)
    ends = (path["client"], path["server"])
    hosts = [node["name"] for node in spec["graph"]["nodes"] if node["kind"] == "host"]
    if other_hosts := [name for name in hosts if name not in ends]:
        path["hosts"] = other_hosts
    return path


def resolve_with_users(
    access: str | Mapping[str, Any],
    overrides: Sequence[tuple[str, object]] = (),
    *,
    users: int,
    mix: str = MIX,
    pep: str | None = None,
    has_uplink: bool = False,
) -> tuple[LabSpec, RunSpec]:
    """Return the path of an access, and the run of simulated users who share it with the real user 0.

    The run has the proxies of the path, which split the TCP connections of its users. The lab needs the same
    proxies.

    Args:
        access: as for :func:`resolve_path`.
        overrides: as for :func:`resolve_path`.
        users: number of simulated users.
        mix: shares of the users by kind (:data:`bentpipe.lab.background_traffic.MIX`).
        pep: as for :func:`resolve_path`.
        has_uplink: as for :func:`resolve_path`.

    Raises:
        ScenarioError: as :func:`resolve_path`, or an invalid number or mix of users.
    """
    document = access_document(access, overrides)
    data = dict(document.data)
    shell = {"name": "shell", "transport": "tcp", "congestion": "cubic", "direction": "down"}
    ends = {key: data["flow"][0][key] for key in ("client", "server") if key in data["flow"][0]}
    user_flows = [{**flow, **ends} for flow in flows(users, mix)]
    data |= {"duration": USER_DURATION, "flow": [shell | ends, *user_flows]}
    data.pop("sweep", None)
    spec = build_plan(replace(document, data=data), "", is_simulated=False).runs[0].spec
    spec = _insert_proxies(spec, pep, has_uplink=has_uplink)
    if problems := find_route_changes(spec["graph"]):
        raise ScenarioError(problems, document.name)
    return _lab(spec), {**spec, "flows": spec["flows"][1:]}


@dataclass(frozen=True)
class SharedPath:
    """Path of a command, and the simulated users who share it."""

    lab: LabSpec
    proxies: Sequence[ProxySpec]
    background: RunSpec | None = None
    """Run of the simulated users; None without users."""

    @property
    def is_stochastic(self) -> bool:
        """Whether two seeds give different paths, or different simulated users."""
        return self.background is not None or is_path_stochastic(self.lab["graph"])

    def with_seed(self, seed: int) -> SharedPath:
        """Return the same path with the random values of ``seed``."""
        background: RunSpec | None = None if self.background is None else {**self.background, "seed": seed}
        return replace(self, lab={**self.lab, "seed": seed}, background=background)


def resolve_shared_path(
    access: str | Mapping[str, Any],
    overrides: Sequence[tuple[str, object]] = (),
    *,
    users: int | None = None,
    mix: str | None = None,
    pep: str | None = None,
    has_uplink: bool = False,
) -> SharedPath:
    """Return the path of an access, its proxies, and the simulated users, if any.

    Args:
        access: as for :func:`resolve_path`.
        overrides: as for :func:`resolve_path`.
        users: number of simulated users; None: the command has the path to itself.
        mix: shares of the users by kind; None: the default.
        pep: as for :func:`resolve_path`.
        has_uplink: as for :func:`resolve_path`.

    Raises:
        ScenarioError: as :func:`resolve_with_users`, or a mix without users.
    """
    if users is not None:
        path, background = resolve_with_users(
            access, overrides, users=users, mix=mix or MIX, pep=pep, has_uplink=has_uplink
        )
        return SharedPath(path, list(background.get("proxies", ())), background)
    if mix is not None:
        raise ScenarioError([("--background-mix", "requires --background-users")])
    return SharedPath(*resolve_path(access, overrides, pep=pep, has_uplink=has_uplink))


def find_route_changes(graph: TopologySpec) -> list[tuple[str, str]]:
    """Return the reason why a graph is not an access: its routes change while links go in and out of use."""
    events = [event for event in graph.get("changes", ()) if event["at_ns"] > 0 and event.get("links")]
    if not events:
        return []
    link, time = events[0]["links"][0], Duration(events[0]["at_ns"])
    change = f'at {time} the link "{link["link"]}" {"comes into" if link["enabled"] else "goes out of"} use'
    reason = (
        "an access can change delay, rate, queue and loss, but no routes; expected no gap and no other link"
    )
    return [("handover", f"{change}; {reason}")]


def _lab(spec: RunSpec) -> LabSpec:
    """Return the path of a resolved run, from client to server of its first flow."""
    flow = spec["flows"][0]
    return {
        "graph": spec["graph"],
        "client": flow["client"],
        "server": flow["server"],
        "seed": spec["seed"],
        "mtu": MTU,
    }


USER_DURATION = "24 h"
"""Duration of the flows of simulated users: no lab is expected to run longer."""


def access_document(
    access: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]]
) -> ScenarioDocument:
    """Return the scenario of an access, with a flow from end to end.

    Raises:
        ScenarioError: the preset does not exist, the scenario is invalid, or its sweep changes the path.
    """
    if not isinstance(access, str) or access.endswith(".toml") or Path(access).is_file():
        return _add_flow(_require_one_path(load_scenario(access, overrides)))
    names = [preset.name for preset in presets()]
    if access not in names:
        raise ScenarioError([("ACCESS", unknown_name(access, names, "preset"))])
    data = {
        "title": access,
        "duration": "1 h",
        "path": {"preset": access},
        "flow": [{"name": "shell", "congestion": "cubic"}],
    }
    try:
        return replace(load_scenario(data, overrides), name=access)
    except ScenarioError as error:
        raise error.with_source(access) from None


def _require_one_path(document: ScenarioDocument) -> ScenarioDocument:
    """Return ``document``; raise ScenarioError if its sweep changes the path."""
    for key, values in axes_of(document.data.get("sweep")).items():
        if len(values) > 1 and any(
            key_of_sweep.split(".")[0] in ("path", "graph") for key_of_sweep in swept_keys({key: values})
        ):
            text = f"found {len(values)} values, but an access is one path"
            hint = (
                f"; choose one with --set {shlex.quote(f'{key}={values[0]}')}" if is_scenario_key(key) else ""
            )
            raise ScenarioError([(f"sweep.{key}", f"{text}{hint}")], document.name)
    return document


def _add_flow(document: ScenarioDocument, *, allow_more_hosts: bool = False) -> ScenarioDocument:
    """Return ``document`` with a flow between the ends of its path.

    Args:
        document: the scenario, perhaps only a path.
        allow_more_hosts: accept more than two hosts; the flow leads from the first to the second.

    Raises:
        ScenarioError: the ends of the path are ambiguous.
    """
    data = dict(document.data)
    if data.get("flow"):
        return document
    flow: dict[str, Any] = {"name": "shell", "congestion": "cubic"}
    graph = data.get("graph")
    if isinstance(graph, dict):
        nodes = graph.get("node")
        tables = (
            [{"name": node} if isinstance(node, str) else node for node in nodes]
            if isinstance(nodes, list)
            else []
        )
        hosts = [
            node.get("name")
            for node in tables
            if isinstance(node, dict) and node.get("kind", "host") == "host"
        ]
        if len(hosts) < 2 or (len(hosts) > 2 and not allow_more_hosts):
            names = ", ".join(map(str, hosts)) or "none"
            problem = f"missing, expected a flow that names its client and server among the hosts: {names}"
            raise ScenarioError([("flow", problem)], document.name)
        flow |= {"client": hosts[0], "server": hosts[1]}
    return replace(document, data={"duration": "1 h", **data, "flow": [flow]})


def _insert_proxies(spec: RunSpec, pep: str | None, *, has_uplink: bool) -> RunSpec:
    """Return the resolved run with the requested proxy, or with that of an uplink. Raises ScenarioError."""
    if pep is None and has_uplink and needs_uplink_proxy():
        return insert_proxy(spec, "relayed", at_server=True)
    return insert_proxy(spec, pep)


def insert_proxy(spec: RunSpec, setup: str | None, *, at_server: bool = False) -> RunSpec:
    """Return the resolved run with a proxy at the server side of its longest segment.

    A run that has a proxy is returned unchanged, and so is any run if ``setup`` is None.

    Args:
        spec: the run.
        setup: handshake of the proxy, one of :data:`PEP_SETUPS`; None: no proxy.
        at_server: behind the last segment instead, so that TCP crosses the whole path in one connection.

    Raises:
        ScenarioError: unknown handshake.
    """
    if setup is None or spec.get("proxies"):
        return spec
    if setup not in PEP_SETUPS:
        raise ScenarioError([("--pep", unknown_name(setup, PEP_SETUPS, "set-up"))])
    links, server = list(spec["graph"]["links"]), spec["flows"][0]["server"]
    last = [index for index, link in enumerate(links) if link["server_side"] == server]
    candidates = last if at_server and last else range(len(links))
    index = max(candidates, key=lambda index: _delay_ns(links[index]))
    longest = links[index]
    example = {
        "title": "a proxy",
        "duration": "1 s",
        "path": {
            "segment": [{"name": "a", "delay": "1 ms"}, {"name": "b", "delay": "1 ms"}],
            "proxy": [{"name": PEP, "between": ["a", "b"], "handshake": setup}],
        },
        "flow": [{"name": "any", "congestion": "cubic", "transport": "tcp"}],
    }
    # The proxy has the defaults of a scenario. It replaces the router behind the segment, or precedes the server.
    proxy = build_plan(load_scenario(example), "").runs[0].spec["proxies"][0]
    behind = longest["server_side"]
    nodes = list(spec["graph"]["nodes"])
    if behind == server:
        pep = _unused_name(PEP, (node["name"] for node in nodes))
        ground = _unused_name(GROUND, (link["name"] for link in links))
        nodes.append({"name": pep, "kind": "proxy"})
        link: LinkSpec = {"name": ground, "client_side": pep, "server_side": behind, "up": [], "down": []}
        links = [*links[:index], {**longest, "server_side": pep}, *links[index + 1 :], link]
        proxy = {**proxy, "node": pep}
    else:
        nodes = [{**node, "kind": "proxy"} if node["name"] == behind else node for node in nodes]
        proxy = {**proxy, "node": behind}
    return {**spec, "graph": {**spec["graph"], "nodes": nodes, "links": links}, "proxies": [proxy]}


def _unused_name(name: str, taken: Iterable[str]) -> str:
    """Return ``name``, with a number if it is taken."""
    names = set(taken)
    return next(one for one in chain([name], (f"{name}-{number}" for number in count(2))) if one not in names)


def needs_uplink_proxy() -> bool:
    """Return whether a path to the network of the host needs a proxy at its end.

    An unprivileged user reaches that network through pasta or slirp4netns. Their TCP has a window of 64 kB or
    no congestion control. A proxy, also where none is configured, prevents that TCP from crossing the path
    (docs/decisions/0074).
    """
    return os.geteuid() != 0 and all(check_program(*names).good for names in OUTSIDE_PROGRAMS)


def _delay_ns(link: LinkSpec) -> int:
    """Return the delay of the up direction, ns: constant delays and the minimum of traced ones."""
    return sum(min(delays_ns(stage, changed=False), default=0) for stage in link["up"])


PEP = "gateway"
"""Name of an inserted proxy."""
PEP_SETUPS = ("early", "relayed")
"""Handshakes of an inserted proxy. A connection pool needs a second proxy, which only a scenario can
configure."""
