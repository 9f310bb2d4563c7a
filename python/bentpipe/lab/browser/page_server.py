"""``bentpipe serve``: the page server of a unit, for browsers on other machines."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.browser.session_lab import PORT, server_plan
from bentpipe.lab.browser.sessions import page_flow, page_named, real_path, tcp_controller
from bentpipe.lab.browser.spec import web_transport
from bentpipe.lab.executable import executable
from bentpipe.lab.kernel_tcp import Machine, twin_name, wrong_controller
from bentpipe.lab.process import handed
from bentpipe.plan.analysis.lint import lint_pages
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import parse_override
from bentpipe.scenario.web_page import is_har

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bentpipe.lab.process_plans import ServePlan
    from bentpipe.plan.plan import Plan
    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["Serving", "plan", "run"]


@dataclass(frozen=True)
class Serving:
    """What the command line says."""

    page: str
    listen: str = f"[::]:{PORT}"
    name: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    congestion: str | None = None
    access_log: Path | None = None
    settings: tuple[str, ...] = ()
    har_page: str | None = None
    """A page of a HAR file: its id, or its number from 1 on; None: the first."""


def plan(serving: Serving, tell: Callable[[str], object] = lambda _: None) -> ServePlan:
    """The plan of ``bentpipe-rt serve``; ``tell`` gets what a HAR file left open, a line each.

    Raises:
        ScenarioError: no such page, wrong settings, half of a certificate.
    """
    if (serving.certificate is None) != (serving.key is None):
        raise ScenarioError(
            [("--certificate", "found one of --certificate and --key, expected both or none")]
        )
    port = re.fullmatch(r".*:(\d{1,5})", serving.listen)
    if port is None:
        raise ScenarioError([("--listen", f'found "{serving.listen}", expected ADDR:PORT')])
    if not 0 < int(port.group(1)) < 65536:
        # the page's addresses have it in them before the kernel could choose one
        raise ScenarioError([("--listen", f"found port {port.group(1)}, expected 1 to 65535")])
    if serving.name is not None and not re.fullmatch(
        r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*", serving.name
    ):
        raise ScenarioError(
            [("--name", f'found "{serving.name}", expected a host such as "host.example.org"')]
        )
    made = _planned(serving)
    for remark in lint_pages(made):
        tell(f"note: {remark.text}")
    spec = made.runs[0].spec
    tcp = _tcp(spec)
    found = server_plan(spec, listen=serving.listen, port=int(port.group(1)), name=serving.name, tcp=tcp)
    if Path(serving.page).is_dir():
        found["content"] = {"root": str(Path(serving.page).absolute())}
    if serving.certificate is not None and serving.key is not None:
        found["certificate"] = {
            "certificate": str(serving.certificate.absolute()), "key": str(serving.key.absolute())
        }  # fmt: skip
        found["certificate_bytes"] = None
    found["access_log"] = str(serving.access_log.absolute()) if serving.access_log is not None else None
    return found


def _tcp(spec: RunSpec) -> str | None:
    """The controller of TCP; None for one of QUIC alone, unless it is asked for of TCP."""
    flow = spec["flows"][0]
    named, catalogue = tcp_controller(flow), engine.catalogue()
    if web_transport(flow).get("tcp_congestion"):
        key = f"flow.{flow['name']}.tcp.congestion"
        if problems := wrong_controller(named, key, catalogue, Machine(), whole=False):
            raise ScenarioError(problems)
    return named["name"] if twin_name(named["name"], catalogue) else None


def _planned(serving: Serving) -> Plan:
    """A plan whose first run has the page, as every other one has."""
    given = [parse_override(text) for text in serving.settings]
    if not serving.page.strip():  # Path("") is the folder that one happens to be in
        raise ScenarioError([("PAGE", "found nothing, expected a page, a scenario, or a folder such as .")])
    source = Path(serving.page)
    if source.suffix == ".toml":
        if serving.har_page is not None:
            raise ScenarioError([("--har-page", f"found it beside {source}, which is no HAR file")])
        document = load_scenario(source, given, serving.settings)
        flow = page_flow(document.data, document.name)
        if serving.congestion is not None:
            instead = f"--set flow.{flow.get('name')}.congestion={serving.congestion}"
            problem = f"found it with {source}, which names its own; {instead} changes it"
            raise ScenarioError([("--congestion", problem)])
    else:
        if source.is_dir():
            page: object = "target-a"  # options of the transports alone are taken from it
            if serving.har_page is not None:
                problem = f"found it beside the folder {serving.page}, expected a HAR file"
                raise ScenarioError([("--har-page", problem)])
        elif "/" in serving.page and not is_har(serving.page):
            raise ScenarioError([("PAGE", f'no file or folder "{serving.page}"')])
        else:
            page = page_named(serving.page, "PAGE", "a file or folder", serving.har_page)
        data = {
            "title": "served",
            "duration": "1 h",
            "path": real_path(),
            "flow": [
                {"name": "browser", "congestion": serving.congestion or "cubic", "load": {"page": page}}
            ],
        }
        document = load_scenario(data, given, serving.settings)
    try:
        return build_plan(document, "", catalogue=engine.catalogue(), orbits=engine.orbit, priced=False)
    except ScenarioError as error:
        if source.suffix == ".toml":
            raise
        asked = {"flow.browser.congestion": "--congestion"}
        raise ScenarioError([(asked.get(key, key), text) for key, text in error.problems]) from None


def run(serving: Serving, tell: Callable[[str], object]) -> int:
    """Serves until it is interrupted; the exit status. ``tell`` gets a line when it listens, and one at the end."""
    words = plan(serving, tell)
    program = executable()
    with handed(words) as descriptor:
        command = [str(program), "serve", f"/proc/self/fd/{descriptor}"]
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[descriptor]) as process:
            ended = False
            try:
                try:
                    _follow(process, serving, words, tell)
                    ended = True
                except KeyboardInterrupt:
                    # From the terminal it has the same signal already. It says what it has done.
                    process.terminate()
                if not ended:
                    _follow(process, serving, words, tell)
            except Exception:
                process.terminate()  # or the wait that ends `with` would be for ever
                process.communicate()  # its last words have no reader
                raise
            return process.wait()


def _follow(
    process: subprocess.Popen[str], serving: Serving, plan: Mapping[str, Any], tell: Callable[[str], object]
) -> None:
    for line in process.stdout or ():
        for words in _words(json.loads(line), serving, plan):
            tell(words)


def _words(said: Mapping[str, Any], serving: Serving, plan: Mapping[str, Any]) -> Iterator[str]:
    """What the server says, for people."""
    if said.get("ready"):
        ways = f"listening at {', '.join(said['listen'])} by {', '.join(said['protocols'])}"
        if plan["tcp"]["congestion"] is None:
            name = plan["congestion"]["name"]
            yield f"{name} is QUIC's; TCP has the kernel's default controller"
        if "document" not in said:
            yield f"{ways}: the folder {serving.page}"
            return
        yield f"{ways}: {said['document']}"
        if serving.certificate is None:
            yield f"there: bentpipe browse {serving.page} --field HOST:{said['port']} --spki {said['spki']}"
    elif said.get("end"):
        count = sum(said["requests"].values())
        yield f"{count} requests, {said['body_bytes'] / 1e6:,.1f} MB, {said['wall_s']:.1f} s"
