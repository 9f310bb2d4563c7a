"""Plan of the browser sessions of a scenario: each is a run of the store, with its number as the seed."""

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
"""Default versions of HTTP to compare."""

PAUSE_S = (5.0, 15.0)
"""Minimum and maximum pause between loads in s, uniform (Thomas 2018, section 4.2.4)."""

UNITS = 10

IPV4_HEADER_BYTES = 40
"""Bytes of the headers of IPv4 and TCP."""


@dataclass(frozen=True)
class Options:
    """Options of sessions on the command line."""

    units: int = UNITS
    http: tuple[str, ...] = ()
    """Modes to compare; empty: the scenario's, or :data:`BOTH`."""
    loads: int | None = None
    pause_s: tuple[float, float] | None = None
    timeout_s: float | None = None
    netlog: bool = False
    field_host: str | None = None
    """Server on a real access; None in a lab."""
    access: str | None = None
    """Preset or scenario with a path, for a page in a lab that is not part of a scenario."""
    pep: str | None = None
    """Proxy as for :func:`bentpipe.lab.access.resolve_path`."""
    har_page: str | None = None
    """Page of a HAR file by id, or by number from 1; None for the first."""
    settings: tuple[str, ...] = ()
    """``KEY=VALUE`` texts of ``--set``."""
    same_tcp: bool = False
    """True for a comparison of kernel and simulated TCP, which must agree in unspecified options too."""
    real: tuple[str, str] | None = None
    """Port and key of a real server, which are part of the identity of a session."""


def engine_name(version: str, browser: str) -> str:
    """Return the engine name of a store of page loads; other versions of engine or browser need another store."""
    name = browser.split(" built on ", maxsplit=1)[0].strip()
    return f"{version}-browser, {name}"


def plan_sessions(source: str, options: Options, engine: str, catalogue: Sequence[Mapping[str, Any]]) -> Plan:
    """Plan the sessions of a scenario, of a HAR file or of a named page.

    Args:
        source: scenario file, HAR file or name of a page.
        options: options of the command line.
        engine: name from :func:`engine_name`.
        catalogue: congestion controllers of the engine.

    Raises:
        ScenarioError: the scenario is wrong, or a browser does not support it.
    """
    document = _document(source, options)
    document = _with_modes(document, options)
    plan = build_plan(
        document, engine, seeds=(1,), catalogue=catalogue, orbits=engines.orbit,
        is_simulated=options.field_host is None and options.access is None,
    )  # fmt: skip
    runs: list[Run] = []
    for cell in plan.cells:
        spec = insert_proxy(cell.resolved.spec, options.pep)
        problems = _unsupported(spec, options, catalogue, proxy_keys(cell.scenario))
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
        raise ScenarioError([("--har-page", f"requires a HAR file, found {source}")])
    if options.access is not None:
        raise ScenarioError(
            [("--access", f"cannot be combined with the scenario {source}, which has its own path")]
        )
    document = load_scenario(source, given, shown)
    if options.field_host is None:
        return document
    # On a real access, the path of the scenario is not used.
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
    """Return a scenario that loads a HAR file or a named page behind an emulated or a real access."""
    load = {"page": page_named(source, "FILE", "a HAR file, or a scenario (TOML)", options.har_page)}
    data: dict[str, Any] = {
        "duration": "1 h",
        "flow": [{"name": "browser", "congestion": "cubic", "load": load}],
    }
    if options.field_host is not None:
        found = data | {"title": f"{source} from {options.field_host}", "path": real_path()}
        return load_scenario(found, given, shown)
    if options.access is None:
        others = "--access ACCESS or --remote HOST with it, or a scenario with a path"
        raise ScenarioError([("FILE", f'found the page "{source}", expected {others}')])
    access_settings = [one for one in given if one[0].split(".")[0] in ("path", "graph")]
    access = access_document(options.access, access_settings)
    data |= {"title": f"{Path(source).name} behind {options.access}"}
    data |= {key: access.data[key] for key in ("path", "graph", "orbit") if key in access.data}
    ends = {key: access.data["flow"][0][key] for key in ("client", "server") if key in access.data["flow"][0]}
    data["flow"] = [data["flow"][0] | ends]
    document = load_scenario(data, [one for one in given if one not in access_settings], shown)
    return dataclasses.replace(document, folder=access.folder)


def page_named(source: str, key: str, others: str, har_page: str | None = None) -> object:
    """Return the ``page`` of a load for an argument of a command: a HAR file, or the name of a page.

    Args:
        source: the argument.
        key: name of the argument in errors.
        others: further accepted values, for errors.
        har_page: page of a HAR file.

    Raises:
        ScenarioError: the HAR file is wrong, or the page does not exist.
    """
    from bentpipe.scenario import presets

    if is_har(source):
        read_har(Path(source), select=har_page)  # report errors of the file, not of a scenario
        page = {"har": str(Path(source).absolute())}
        return page | ({"har_page": har_page} if har_page is not None else {})
    if har_page is not None:
        raise ScenarioError([("--har-page", f"requires a HAR file, found {source}")])
    names = [page.name for page in presets.pages()]
    if source not in names:
        raise ScenarioError([(key, unknown_name(source, names, "page", others))])
    return source


def real_path() -> dict[str, Any]:
    """Return a placeholder for a real path, because a scenario needs a path."""
    return {"segment": [{"name": "access", "delay": "0 s"}]}


def page_flow(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the only flow of a scenario, which loads a page.

    Raises:
        ScenarioError: the scenario has not exactly one flow with a page.
    """
    flows = data.get("flow")
    found = [one for one in flows if isinstance(one, dict)] if isinstance(flows, list) else []
    pages = [one for one in found if isinstance(one.get("load"), dict) and "page" in one["load"]]
    if len(pages) != 1 or len(found) != 1:
        counts = f"{len(found)} flow{'s' if len(found) != 1 else ''}, {len(pages)} with a page"
        raise ScenarioError(
            [("flow", f'found {counts}, expected one flow with load = {{ page = "NAME" }}')], name
        )
    flow: Mapping[str, Any] = pages[0]
    return flow


def _with_modes(document: ScenarioDocument, options: Options) -> ScenarioDocument:
    """Add a sweep over ``load.http`` of the flow to the document."""
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
        raise ScenarioError([("--http", f'cannot be combined with the sweep over "{over[0]}"')])
    if "http" in flow["load"] and not options.http:
        return document
    data = copy.deepcopy(dict(document.data))
    data.setdefault("sweep", {})[key] = list(options.http or BOTH)
    shown = [*document.overrides, f"--http {','.join(options.http)}"] if options.http else document.overrides
    return dataclasses.replace(document, data=data, overrides=tuple(shown))


def _unsupported(
    spec: RunSpec, options: Options, catalogue: Sequence[Mapping[str, Any]], proxies: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return settings that Chromium or kernel TCP do not support; ``proxies`` are keys of proxies by node."""
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
        found += _unsupported_sizes(transport["tcp"], f"{where}.tcp", proxies=bool(spec.get("proxies")))
    return found


def _unsupported_sizes(tcp: TcpSides, key: str, *, proxies: bool) -> list[tuple[str, str]]:
    """Check segment and header sizes: a browser uses IPv4 and the MSS of its link, and the server may use less."""
    found = []
    client, server = tcp["client"], tcp["server"]
    if max(client["header_bytes"], server["header_bytes"]) > IPV4_HEADER_BYTES:
        found.append((f"{key}.ip", "found 6, expected 4: browsers in a lab use IPv4"))
    if proxies and client["mss_bytes"] != server["mss_bytes"]:
        client_mss, server_mss = (f"{end['mss_bytes']} B" for end in (client, server))
        found.append(
            (
                f"{key}.mss",
                f"found {client_mss}, and {server_mss} at the server; with proxies both must be equal",
            )
        )
    return found


def tcp_controller(flow: FlowSpec) -> CongestionSpec:
    """Return the controller of the server over TCP."""
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
    unit_spec: UnitSpec = {**spec, "seed": seed, "browser": browser}
    return Run(run_id(cell, unit_spec, engine, {}), cell, seed, unit_spec)


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Return sessions in order: by number, and in random order of the cells for each number."""
    by_seed: dict[int, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    ordered = []
    for seed, group in sorted(by_seed.items()):
        # The sample is of all cells of the number, in the order of the plan.
        rng = random.Random(f"order/{seed}")  # noqa: S311 - a reproducible sample
        ordered += rng.sample(group, len(group))
    return ordered


def pauses(run: Run) -> list[float]:
    """Return the pauses of a session in s."""
    browser = browser_of(run.spec)
    low, high = browser["pause_s"]
    rng = random.Random(f"pauses/{run.seed}/{canonical(run.cell)}")  # noqa: S311
    return [rng.uniform(low, high) for _ in range(browser["loads"] - 1)]
