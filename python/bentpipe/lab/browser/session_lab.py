"""What a unit's lab is: the path, its proxies, the page server at the far end, the browser at the near one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.browser.sessions import pauses, tcp_controller
from bentpipe.lab.browser.spec import browser_of, page_load, web_transport
from bentpipe.lab.kernel_tcp import ETHERNET_MTU
from bentpipe.lab.process_plans import to_json
from bentpipe.plan.spec.queries import needs_tcp

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import LabPlan, ServePlan, Sides
    from bentpipe.plan.plan import Run
    from bentpipe.plan.spec.run_spec import PageSpec, RunSpec, TcpSpec

__all__ = ["PORT", "authorities", "lab_plan", "object_of", "server_plan", "unit_plan"]

PORT = 4433

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")


def authorities(page: PageSpec, name: str | None = None) -> dict[str, str]:
    """Names of the page's hosts, by label: LABEL.example; with a name of one's own LABEL.NAME. Labels that are no names
    are numbered. The name itself is the first host's with TLS, whose certificate has it; without any, the first host's.
    """
    found: dict[str, str] = {}
    covered = (number for number, host in enumerate(page["hosts"]) if host.get("tls", True))
    own = next(covered, 0)
    for number, host in enumerate(page["hosts"]):
        label = host["name"]
        word = label if _NAME.fullmatch(label) and label not in found.values() else f"host{number}"
        found[label] = f"{word}.example" if name is None else name if number == own else f"{word}.{name}"
    return found


def server_plan(
    spec: RunSpec,
    *,
    listen: str,
    port: int,
    name: str | None = None,
    tcp: str | None = None,
    mss_bytes: int | None = None,
) -> ServePlan:
    """The plan of ``bentpipe-rt serve`` for the page of a resolved run.

    Args:
        spec: the run.
        listen: address and port.
        port: in the page's addresses.
        name: of the server, if it has one of its own.
        tcp: controller of TCP; None: the kernel's default.
        mss_bytes: largest segment of TCP; None: what the way lets pass.
    """
    flow = spec["flows"][0]
    load, transport = page_load(flow), web_transport(flow)
    names = authorities(load["page"], name)
    return {
        "listen": [listen],
        "certificate": None,
        "certificate_bytes": load["tls"]["certificate_bytes"],
        "content": {
            "page": load["page"],
            "authorities": {label: f"{host}:{port}" for label, host in names.items()},
        },
        "alt_svc": True,
        "quic": transport["quic"],
        "congestion": flow["server_congestion"],
        "tcp": {"congestion": tcp, "mss_bytes": mss_bytes},
        "tls": {"resumption": load["tls"]["resumption"], "early_data": load["tls"]["early_data"]},
    }


def unit_plan(
    run: Run, folder: Path, home: Path, address: str, *, port: int, spki: str | None, ready: Path | None,
    name: str | None, program: Path, sandbox: bool,
) -> dict[str, Any]:  # fmt: skip
    """The plan of the unit's process (:class:`bentpipe.lab.browser.session_process.Plan`)."""
    load, browser = page_load(run.spec["flows"][0]), browser_of(run.spec)
    page = load["page"]
    names = authorities(page, name)
    first = page["hosts"][page["objects"][0]["host"]]
    scheme = "https" if first.get("tls", True) else "http"
    return {
        "directory": str(folder),
        "home": str(home),
        "mode": load["http"],
        "tls12": load["tls"]["version"] != "1.3",
        "hosts": dict.fromkeys(names.values(), address),
        "port": port,
        "url": f"{scheme}://{names[first['name']]}:{port}/",
        "spki": spki,
        "ready": str(ready) if ready is not None else None,
        "plain": [names[host["name"]] for host in page["hosts"] if not host.get("tls", True)],
        "opened": [names[host["name"]] for host in page["hosts"] if host["open"]],
        "loads": browser["loads"],
        "pauses_s": pauses(run),
        "profile": load["profile"],
        "timeout_s": browser["timeout_s"],
        "netlog": browser["netlog"],
        "sandbox": sandbox,
        "chromium": str(program),
    }


def object_of(page: PageSpec, url: str) -> tuple[str, str] | None:
    """Name and host's label of the object that ``url`` is: the first is /, object I is /I.EXT; None for others."""
    found = re.fullmatch(r"https?://[^/]+/(?:(\d{1,5})\.[a-z0-9]+)?", url)
    if found is None:
        return None
    number = int(found.group(1) or 0)
    if number >= len(page["objects"]):
        return None
    one = page["objects"][number]
    return one["name"], page["hosts"][one["host"]]["name"]


def lab_plan(
    run: Run, folder: Path, home: Path, program: Path, executable: Path, *, check: bool, sandbox: bool
) -> LabPlan:
    """The plan of a lab; those of its server and of its unit are written into ``folder``. ``home`` is the browser's."""
    spec = run.spec
    flow = spec["flows"][0]
    server, unit = folder / "server.json", folder / "plan.json"
    ready = folder / "server.out"
    over_tcp = tcp_controller(flow)["name"] if needs_tcp(page_load(flow)) else None
    mtu, mss = _packets(spec)
    server.write_bytes(
        to_json(server_plan(spec, listen=f"[::]:{PORT}", port=PORT, tcp=over_tcp, mss_bytes=mss))
    )
    _write(
        unit,
        unit_plan(
            run,
            folder,
            home,
            "{far}",
            port=PORT,
            spki=None,
            ready=ready,
            name=None,
            program=program,
            sandbox=sandbox,
        ),
    )
    lab: LabPlan = {
        "lab": {
            "graph": spec["graph"], "client": flow["client"], "server": flow["server"],
            "seed": spec["seed"], "mtu": mtu,
        },
        "proxies": spec.get("proxies") or [],
        "private": True,
        "outside": False,
        "check": check,
        "far": [{
            "name": "server", "command": [str(executable), "serve", str(server)], "listens": PORT, "output": str(ready),
        }],
        "near": [{
            "name": "browser",
            "command": [sys.executable, "-P", "-m", "bentpipe.lab.browser.session_process", str(unit), "{far}"],
            "start_ns": 0, "output": str(folder / "unit.log"),
        }],
        "tcp": _kernel(spec),
        "record": {"directory": str(folder / "links"), "interval_ns": spec["sample_ns"]},
        "result": str(folder / "lab.json"),
    }  # fmt: skip
    (folder / "links").mkdir()
    return lab


def _kernel(spec: RunSpec) -> Sides[TcpSpec | None]:
    """Options of TCP of each side's kernel."""
    tcp = web_transport(spec["flows"][0])["tcp"]
    return {"near": tcp["client"], "far": tcp["server"]}


def _packets(spec: RunSpec) -> tuple[int, int | None]:
    """MTU of the links, and the segment size that the server announces and keeps to: the smaller end's, if the links
    would let pass another one."""
    tcp = web_transport(spec["flows"][0])["tcp"]
    smaller = min((tcp["client"], tcp["server"]), key=lambda end: end["mss_bytes"])
    mss, whole = smaller["mss_bytes"], smaller["mss_bytes"] + smaller["header_bytes"]
    return max(ETHERNET_MTU, whole), None if whole == ETHERNET_MTU else mss


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value), encoding="utf-8")
