"""Page server of a session for browsers on other machines: ``bentpipe serve``."""

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
from bentpipe.lab.kernel_tcp import Machine, check_controller, kernel_name
from bentpipe.lab.process import plan_descriptor
from bentpipe.plan.analysis.lint import lint_pages
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantity_text import nearest
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
    """Options of the command line."""

    page: str
    listen: str = f"[::]:{PORT}"
    name: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    congestion: str | None = None
    access_log: Path | None = None
    settings: tuple[str, ...] = ()
    har_page: str | None = None
    """Page of a HAR file by id, or by number from 1; None for the first."""


def plan(serving: Serving, tell: Callable[[str], object] = lambda _: None) -> ServePlan:
    """Return the plan of ``bentpipe-rt serve``.

    Args:
        serving: options of the command line.
        tell: called with each note on missing data of a HAR file.

    Raises:
        ScenarioError: the page does not exist, a setting is wrong, or a certificate has no key.
    """
    if (serving.certificate is None) != (serving.key is None):
        raise ScenarioError(
            [("--certificate", "found one of --certificate and --key, expected both or none")]
        )
    port = re.fullmatch(r".*:(\d{1,5})", serving.listen)
    if port is None:
        raise ScenarioError([("--listen", f'found "{serving.listen}", expected ADDR:PORT')])
    if not 0 < int(port.group(1)) < 65536:
        # The URLs of the page contain the port before the kernel could choose one.
        raise ScenarioError([("--listen", f"found port {port.group(1)}, expected 1 to 65535")])
    if serving.name is not None and not re.fullmatch(
        r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*", serving.name
    ):
        raise ScenarioError(
            [("--name", f'found "{serving.name}", expected a host such as "host.example.org"')]
        )
    planned = _planned(serving)
    for message in lint_pages(planned):
        tell(f"warning: {message.text}")
    spec = planned.runs[0].spec
    tcp = _tcp(spec)
    serve_plan = server_plan(spec, listen=serving.listen, port=int(port.group(1)), name=serving.name, tcp=tcp)
    if Path(serving.page).is_dir():
        serve_plan["content"] = {"root": str(Path(serving.page).absolute())}
    if serving.certificate is not None and serving.key is not None:
        serve_plan["certificate"] = {
            "certificate": str(serving.certificate.absolute()), "key": str(serving.key.absolute())
        }  # fmt: skip
        serve_plan["certificate_bytes"] = None
    serve_plan["access_log"] = str(serving.access_log.absolute()) if serving.access_log is not None else None
    return serve_plan


def _tcp(spec: RunSpec) -> str | None:
    """Return the controller of TCP; None for a controller of QUIC only, unless the scenario sets one for TCP."""
    flow = spec["flows"][0]
    named, catalogue = tcp_controller(flow), engine.catalogue()
    if web_transport(flow).get("tcp_congestion"):
        key = f"flow.{flow['name']}.tcp.congestion"
        if problems := check_controller(named, key, catalogue, Machine(), all_options=False):
            raise ScenarioError(problems)
    return named["name"] if kernel_name(named["name"], catalogue) else None


def _suggest_path(path: Path) -> str:
    """Return a hint with the file or folder that has the most similar name."""
    folder = path.parent
    if not folder.is_dir():
        return f'; there is no folder "{folder}"'
    similar = nearest(path.name, [entry.name for entry in folder.iterdir()])
    return f'; did you mean "{path.with_name(similar)}"?' if similar else ""


def _planned(serving: Serving) -> Plan:
    """Return a plan whose runs all have the page."""
    given = [parse_override(text) for text in serving.settings]
    if not serving.page.strip():  # Path("") is the folder that one happens to be in
        raise ScenarioError([("PAGE", "found nothing, expected a page, a scenario, or a folder such as .")])
    source = Path(serving.page)
    if source.suffix == ".toml":
        if serving.har_page is not None:
            raise ScenarioError([("--har-page", f"requires a HAR file, found {source}")])
        document = load_scenario(source, given, serving.settings)
        flow = page_flow(document.data, document.name)
        if serving.congestion is not None:
            instead = f"--set flow.{flow.get('name')}.congestion={serving.congestion}"
            problem = f"cannot be combined with {source}, which has its own; use {instead}"
            raise ScenarioError([("--congestion", problem)])
    else:
        if source.is_dir():
            page: object = "target-a"  # options of the transports alone are taken from it
            if serving.har_page is not None:
                problem = f"requires a HAR file, found the folder {serving.page}"
                raise ScenarioError([("--har-page", problem)])
        elif "/" in serving.page and not is_har(serving.page):
            raise ScenarioError([("PAGE", f'no file or folder "{serving.page}"{_suggest_path(source)}')])
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
        return build_plan(document, "", catalogue=engine.catalogue(), orbits=engine.orbit, is_simulated=False)
    except ScenarioError as error:
        if source.suffix == ".toml":
            raise
        options = {"flow.browser.congestion": "--congestion"}
        raise ScenarioError([(options.get(key, key), text) for key, text in error.problems]) from None


def run(serving: Serving, tell: Callable[[str], object]) -> int:
    """Serve until an interrupt and return the exit status.

    Args:
        serving: options of the command line.
        tell: called with a line when the server listens, and with one at the end.
    """
    words = plan(serving, tell)
    program = executable()
    with plan_descriptor(words) as descriptor:
        command = [str(program), "serve", f"/proc/self/fd/{descriptor}"]
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        # A new process group: the server's second signal ends it at once, and Ctrl-C at a terminal would be the first.
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, pass_fds=[descriptor], process_group=0
        ) as process:
            ended = False
            try:
                try:
                    _follow(process, serving, words, tell)
                    ended = True
                except KeyboardInterrupt:
                    process.terminate()  # it still prints its summary
                if not ended:
                    _follow(process, serving, words, tell)
            except Exception:
                process.terminate()  # otherwise the wait at the end of `with` would not return
                process.communicate()  # nothing reads the rest of its output
                raise
            return process.wait()


def _follow(
    process: subprocess.Popen[str], serving: Serving, plan: Mapping[str, Any], tell: Callable[[str], object]
) -> None:
    for line in process.stdout or ():
        for words in _words(json.loads(line), serving, plan):
            tell(words)


def _words(message: Mapping[str, Any], serving: Serving, plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message of the server as text for the user."""
    if message.get("ready"):
        listening = f"listening at {', '.join(message['listen'])} by {', '.join(message['protocols'])}"
        if plan["tcp"]["congestion"] is None:
            name = plan["congestion"]["name"]
            yield f"{name} applies to QUIC; TCP uses the kernel's default controller"
        if "document" not in message:
            yield f"{listening}: the folder {serving.page}"
            return
        yield f"{listening}: {message['document']}"
        if serving.certificate is None:
            yield f"there: bentpipe browse {serving.page} --remote HOST:{message['port']} --spki {message['spki']}"
    elif message.get("end"):
        count = sum(message["requests"].values())
        yield f"{count} requests, {message['body_bytes'] / 1e6:,.1f} MB, {message['wall_s']:.1f} s"
