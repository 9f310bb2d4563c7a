"""Lab of a session: the path, its proxies, the page server and the browser."""

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
    from bentpipe.lab.process_plans import LabPlan, PerHost, ServePlan
    from bentpipe.plan.plan import Run
    from bentpipe.plan.spec.run_spec import PageSpec, RunSpec, TcpSpec

__all__ = ["PORT", "authorities", "lab_plan", "object_of", "server_plan", "unit_plan"]

PORT = 4433

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")


def authorities(page: PageSpec, name: str | None = None) -> dict[str, str]:
    """Return the names of the hosts of a page, by label: LABEL.example, or LABEL.NAME with ``name``.

    Labels that are no valid host names are numbered. The first host with TLS has ``name`` itself, because its
    certificate has this name. Without TLS, the first host has it.
    """
    found: dict[str, str] = {}
    tls_hosts = (number for number, host in enumerate(page["hosts"]) if host.get("tls", True))
    named = next(tls_hosts, 0)
    for number, host in enumerate(page["hosts"]):
        label = host["name"]
        word = label if _NAME.fullmatch(label) and label not in found.values() else f"host{number}"
        found[label] = f"{word}.example" if name is None else name if number == named else f"{word}.{name}"
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
    """Return the plan of ``bentpipe-rt serve`` for the page of a resolved run.

    Args:
        spec: resolved run.
        listen: address and port.
        port: port in the URLs of the page.
        name: name of the server, if it has one.
        tcp: controller of TCP; None for the default of the kernel.
        mss_bytes: maximum segment size of TCP; None for that of the path.
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
    """Return the plan of the process of a session (:class:`bentpipe.lab.browser.session_process.Plan`)."""
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
    """Return the name and the host label of the object at ``url``; None for other URLs.

    The first object is /, object I is /I.EXT.
    """
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
    """Return the plan of a lab, and write the plans of its server and session into ``folder``.

    Args:
        run: run of the session.
        folder: working directory of the session.
        home: directory of the browser.
        program: path of Chromium.
        executable: path of ``bentpipe-rt``.
        check: measure the path first.
        sandbox: use the sandbox of Chromium.
    """
    spec = run.spec
    flow = spec["flows"][0]
    server, unit = folder / "server.json", folder / "plan.json"
    ready = folder / "server.out"
    tcp_name = tcp_controller(flow)["name"] if needs_tcp(page_load(flow)) else None
    mtu, mss = _packet_sizes(spec)
    server.write_bytes(
        to_json(server_plan(spec, listen=f"[::]:{PORT}", port=PORT, tcp=tcp_name, mss_bytes=mss))
    )
    _write(
        unit,
        unit_plan(
            run,
            folder,
            home,
            "{server}",
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
        "server_namespace": True,
        "has_uplink": False,
        "check": check,
        "services": [{
            "name": "server", "command": [str(executable), "serve", str(server)], "listen_port": PORT,
            "output": str(ready),
        }],
        "commands": [{
            "name": "browser",
            "command": [sys.executable, "-P", "-m", "bentpipe.lab.browser.session_process", str(unit), "{server}"],
            "start_ns": 0, "output": str(folder / "unit.log"),
        }],
        "tcp": _kernel_tcp(spec),
        "record": {"directory": str(folder / "links"), "interval_ns": spec["sample_interval_ns"]},
        "result": str(folder / "lab.json"),
    }  # fmt: skip
    (folder / "links").mkdir()
    return lab


def _kernel_tcp(spec: RunSpec) -> PerHost[TcpSpec | None]:
    """Return the TCP options of the kernel on each side."""
    tcp = web_transport(spec["flows"][0])["tcp"]
    return {"client": tcp["client"], "server": tcp["server"]}


def _packet_sizes(spec: RunSpec) -> tuple[int, int | None]:
    """Return the MTU of the links, and the maximum segment size of the server.

    The server announces and uses the smaller segment size of both sides, unless the MTU already implies it (None).
    """
    tcp = web_transport(spec["flows"][0])["tcp"]
    smaller = min((tcp["client"], tcp["server"]), key=lambda end: end["mss_bytes"])
    mss, whole = smaller["mss_bytes"], smaller["mss_bytes"] + smaller["header_bytes"]
    return max(ETHERNET_MTU, whole), None if whole == ETHERNET_MTU else mss


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value), encoding="utf-8")
