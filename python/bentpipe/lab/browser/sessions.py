"""From a scenario to units: each a run of the store, with its cell of the sweep and its number as the seed."""

from __future__ import annotations

import copy
import dataclasses
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.access import access_document, find_route_changes, insert_proxy
from bentpipe.lab.browser.chromium import MODES
from bentpipe.lab.browser.spec import browser_of, page_load, web_transport
from bentpipe.lab.kernel_tcp import Machine, check_controller, check_fixed_options, check_proxies
from bentpipe.plan.document import ScenarioDocument, load_scenario
from bentpipe.plan.network.graph import proxy_keys
from bentpipe.plan.plan import Plan, Run, build_plan
from bentpipe.plan.spec.queries import needs_tcp
from bentpipe.plan.spec.run_id import canonical, run_id
from bentpipe.runners import engine as engines
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.har import read_har
from bentpipe.scenario.sweep import overrides, parse_override, swept_keys
from bentpipe.scenario.web_page import is_har

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.lab.browser.spec import BrowserSpec, UnitSpec
    from bentpipe.plan.spec.run_spec import CongestionSpec, FlowSpec, RunSpec, TcpSides

__all__ = [
    "BOTH",
    "PAUSE_S",
    "Options",
    "engine_name",
    "in_order",
    "page_flow",
    "page_named",
    "pauses",
    "plan_sessions",
    "real_path",
    "tcp_controller",
]

BOTH = ("3", "2")
"""What is compared where the scenario says nothing."""

PAUSE_S = (5.0, 15.0)
"""Between loads, uniform (Thomas 2018, section 4.2.4)."""

UNITS = 10

IPV4_HEADER_BYTES = 40
"""With TCP's."""


@dataclass(frozen=True)
class Options:
    """What the command line says of units."""

    units: int = UNITS
    http: tuple[str, ...] = ()
    """Modes to compare; empty: the scenario's, or :data:`BOTH`."""
    loads: int | None = None
    pause_s: tuple[float, float] | None = None
    timeout_s: float | None = None
    netlog: bool = False
    field_host: str | None = None
    """On a real access: the server; None: in a lab."""
    access: str | None = None
    """Of a page that is no scenario's, in a lab: a preset, or a scenario with a path."""
    pep: str | None = None
    """As for :func:`bentpipe.lab.access.resolve_path`."""
    har_page: str | None = None
    """A page of a HAR file: its id, or its number from 1 on; None: the first."""
    settings: tuple[str, ...] = ()
    """``KEY=VALUE`` of ``--set``."""
    same_tcp: bool = False
    """The kernel's TCP stands beside the simulated one: what the scenario leaves open has to be the same too."""
    real: tuple[str, str] | None = None
    """What else makes a unit another one: the port and the key of a real server."""


def engine_name(version: str, browser: str) -> str:
    """What made a store of page loads: other versions of either give a store of their own."""
    name = browser.split(" built on ", maxsplit=1)[0].strip()
    return f"{version}-browser, {name}"


def plan_sessions(source: str, options: Options, engine: str, catalogue: Sequence[Mapping[str, Any]]) -> Plan:
    """The units of a scenario, of a HAR file, or of a page by its name.

    Raises:
        ScenarioError: what is wrong with the scenario, or what a browser cannot be made to do.
    """
    document = _document(source, options)
    document = _with_modes(document, options)
    plan = build_plan(
        document, engine, seeds=(1,), catalogue=catalogue, orbits=engines.orbit,
        check_cost=options.field_host is None and options.access is None,
    )  # fmt: skip
    runs: list[Run] = []
    for cell in plan.cells:
        spec = insert_proxy(cell.resolved.spec, options.pep)
        problems = _refusals(spec, options, catalogue, proxy_keys(cell.scenario))
        if problems:
            raise ScenarioError(problems, document.name)
        runs += [_unit(cell.values, seed, spec, engine, options) for seed in range(1, options.units + 1)]
    cells = tuple(dataclasses.replace(cell, seeds=tuple(range(1, options.units + 1))) for cell in plan.cells)
    return dataclasses.replace(plan, cells=cells, runs=tuple(runs))


def _document(source: str, options: Options) -> ScenarioDocument:
    shown = list(options.settings)
    given = [parse_override(text) for text in shown]
    if is_har(source) or not (source.endswith(".toml") or Path(source).is_file()):
        return _of_page(source, options, given, shown)
    if options.har_page is not None:
        raise ScenarioError([("--har-page", f"found it beside {source}, which is no HAR file")])
    if options.access is not None:
        raise ScenarioError(
            [("--access", f"found it beside the scenario {source}, which has a path of its own")]
        )
    document = load_scenario(source, given, shown)
    if options.field_host is None:
        return document
    # The path is the real one: that of the scenario has no part in it.
    data = copy.deepcopy(dict(document.data))
    data["path"] = real_path()
    for flow in data.get("flow", []):
        for key in ("client", "server"):
            flow.pop(key, None)
    data.pop("graph", None)
    return dataclasses.replace(document, data=data)


def _of_page(
    source: str, options: Options, given: Sequence[tuple[str, object]], shown: Sequence[str]
) -> ScenarioDocument:
    """A scenario that loads a page, a HAR file or one by its name, behind an access or on a real one."""
    load = {"page": page_named(source, "FILE", "a HAR file, or a scenario (TOML)", options.har_page)}
    data: dict[str, Any] = {
        "duration": "1 h",
        "flow": [{"name": "browser", "congestion": "cubic", "load": load}],
    }
    if options.field_host is not None:
        found = data | {"title": f"{source} from {options.field_host}", "path": real_path()}
        return load_scenario(found, given, shown)
    if options.access is None:
        others = "--access ACCESS or --field HOST beside it, or a scenario with a path"
        raise ScenarioError([("FILE", f'found the page "{source}", expected {others}')])
    theirs = [one for one in given if one[0].split(".")[0] in ("path", "graph")]
    access = access_document(options.access, theirs)
    data |= {"title": f"{Path(source).name} behind {options.access}"}
    data |= {key: access.data[key] for key in ("path", "graph", "orbit") if key in access.data}
    ends = {key: access.data["flow"][0][key] for key in ("client", "server") if key in access.data["flow"][0]}
    data["flow"] = [data["flow"][0] | ends]
    document = load_scenario(data, [one for one in given if one not in theirs], shown)
    return dataclasses.replace(document, folder=access.folder)


def page_named(source: str, key: str, others: str, har_page: str | None = None) -> object:
    """What a load has as its page for the word that a command was given: a HAR file, or a page by its name.

    Raises:
        ScenarioError: at ``key``; ``others`` are what else the command takes.
    """
    from bentpipe.scenario import presets

    if is_har(source):
        read_har(Path(source), select=har_page)  # what is wrong with the file is not wrong with a scenario
        page = {"har": str(Path(source).absolute())}
        return page | ({"har_page": har_page} if har_page is not None else {})
    if har_page is not None:
        raise ScenarioError([("--har-page", f"found it beside {source}, which is no HAR file")])
    names = [page.name for page in presets.pages()]
    if source not in names:
        raise ScenarioError([(key, f"{unknown_name(source, names, 'page')}; or {others}")])
    return source


def real_path() -> dict[str, Any]:
    """In place of a path that nothing emulates: a scenario has to have one."""
    return {"segment": [{"name": "access", "delay": "0 s"}]}


def page_flow(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The one flow of a scenario, which loads a page. Raises ScenarioError."""
    flows = data.get("flow")
    found = [one for one in flows if isinstance(one, dict)] if isinstance(flows, list) else []
    pages = [one for one in found if isinstance(one.get("load"), dict) and "page" in one["load"]]
    if len(pages) != 1 or len(found) != 1:
        said = f"{len(found)} flow{'s' if len(found) != 1 else ''}, {len(pages)} with a page"
        raise ScenarioError(
            [("flow", f'found {said}, expected one flow with load = {{ page = "NAME" }}')], name
        )
    flow: Mapping[str, Any] = pages[0]
    return flow


def _with_modes(document: ScenarioDocument, options: Options) -> ScenarioDocument:
    """``document`` with the modes that are compared: a sweep over the flow's ``load.http``."""
    for mode in options.http:
        if mode not in MODES:
            raise ScenarioError([("--http", unknown_name(mode, MODES, "version of HTTP"))])
    if len(set(options.http)) < len(options.http):
        raise ScenarioError([("--http", f"found {','.join(options.http)}, expected each version once")])
    flow = page_flow(document.data, document.name)
    key = f"flow.{flow.get('name')}.load.http"
    over = [
        place for place in swept_keys(document.data.get("sweep")) if place == key or overrides(place, key)
    ]
    if over and not options.http:
        return document
    if over and over != [key]:
        raise ScenarioError([("--http", f'found it beside a sweep over "{over[0]}", which sets it already')])
    if "http" in flow["load"] and not options.http:
        return document
    data = copy.deepcopy(dict(document.data))
    data.setdefault("sweep", {})[key] = list(options.http or BOTH)
    shown = [*document.overrides, f"--http {','.join(options.http)}"] if options.http else document.overrides
    return dataclasses.replace(document, data=data, overrides=tuple(shown))


def _refusals(
    spec: RunSpec, options: Options, catalogue: Sequence[Mapping[str, Any]], proxies: Mapping[str, str]
) -> list[tuple[str, str]]:
    """What Chromium, or the kernel's TCP, cannot be made to do; ``proxies`` are the keys of proxies by their nodes."""
    flow = spec["flows"][0]
    load, transport, where = page_load(flow), web_transport(flow), f"flow.{flow['name']}"
    found = find_route_changes(spec["graph"])
    tls = load["tls"]
    for wrong, key, text in (
        (tls["version"] == "1.2", "load.tls", 'found "1.2", expected "1.3" or "1.2-false-start"'),
        (tls["resumption"], "load.resumption", "found true, expected false: a restart loses tickets"),
        (load["keep_connections"], "load.keep_connections", "found true, expected false: browsers are closed between"),
        (load["udp_blocked"], "load.udp_blocked", "found true, expected false: block UDP on the path itself"),
    ):  # fmt: skip
        if wrong:
            found.append((f"{where}.{key}", text))
    over_tcp = needs_tcp(load)
    if options.field_host is None:
        send = {"server"} if over_tcp and options.same_tcp else ()
        found += check_proxies(spec, catalogue, Machine(), keys=proxies, senders=send)
    if options.field_host is None and over_tcp:
        key = f"{where}.tcp.congestion" if transport.get("tcp_congestion") else f"{where}.congestion"
        found += check_controller(
            tcp_controller(flow), key, catalogue, Machine(), all_options=options.same_tcp
        )
        found += check_fixed_options(transport["tcp"], f"{where}.tcp")
        found += _sizes(transport["tcp"], f"{where}.tcp", proxies=bool(spec.get("proxies")))
    return found


def _sizes(tcp: TcpSides, key: str, *, proxies: bool) -> list[tuple[str, str]]:
    """Segments and headers: a browser comes by IPv4 and announces what its link lets pass; the server can do less."""
    found = []
    client, server = tcp["client"], tcp["server"]
    if max(client["header_bytes"], server["header_bytes"]) > IPV4_HEADER_BYTES:
        found.append((f"{key}.ip", "found 6, expected 4: browsers in a lab come by IPv4"))
    if proxies and client["mss_bytes"] != server["mss_bytes"]:
        ours, theirs = (f"{end['mss_bytes']} B" for end in (client, server))
        found.append((f"{key}.mss", f"found {ours}, and {theirs} at the server; over proxies both have one"))
    return found


def tcp_controller(flow: FlowSpec) -> CongestionSpec:
    """The server's controller over TCP."""
    own = web_transport(flow).get("tcp_congestion")
    return own[1] if own else flow["server_congestion"]


def _unit(cell: Mapping[str, Any], seed: int, spec: RunSpec, engine: str, options: Options) -> Run:
    load = page_load(spec["flows"][0])
    pause = options.pause_s
    if pause is None:
        low, high = (float(ns) / 1e9 for ns in load["pause_ns"])
        pause = (low, high) if high > 0 else PAUSE_S
    browser: BrowserSpec = {
        "loads": options.loads or load["loads"],
        "pause_s": list(pause),
        "timeout_s": options.timeout_s or load["timeout_ns"] / 1e9,
        "netlog": options.netlog,
        "field": options.field_host,
    }
    if options.real is not None:
        browser["port"], browser["spki"] = options.real
    whole: UnitSpec = {**spec, "seed": seed, "browser": browser}
    return Run(run_id(cell, whole, engine, {}), cell, seed, whole)


def in_order(runs: Sequence[Run]) -> list[Run]:
    """The order in which units are made: by their number, and of one number the cells as drawn with it."""
    by_seed: dict[int, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    ordered = []
    for seed, group in sorted(by_seed.items()):
        # The draw is of all cells that the number has, in the plan's order.
        chance = random.Random(f"order/{seed}")  # noqa: S311 - a draw that can be made again
        ordered += chance.sample(group, len(group))
    return ordered


def pauses(run: Run) -> list[float]:
    """The pauses of a unit, s."""
    browser = browser_of(run.spec)
    low, high = browser["pause_s"]
    chance = random.Random(f"pauses/{run.seed}/{canonical(run.cell)}")  # noqa: S311
    return [chance.uniform(low, high) for _ in range(browser["loads"] - 1)]
