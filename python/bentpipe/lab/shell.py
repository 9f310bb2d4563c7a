"""``bentpipe shell``: any command behind an emulated access.

The path is planned here and carried by the executable ``bentpipe-rt`` (crates/rt), which needs Linux, ``ip`` and
``/dev/net/tun``; as root, or as an ordinary user where the kernel gives user namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.labplan import checked, other_ways
from bentpipe.lab.process import folder_name, signals_in_order, started
from bentpipe.plan.facts import delays_ns
from bentpipe.plan.runs import Document, make, open_document
from bentpipe.scenario.presets import presets
from bentpipe.scenario.problems import ScenarioError, unknown_word
from bentpipe.scenario.units import Duration, Probability, Rate, UnitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.spec import LinkSpec, ProxySpec, RunSpec

__all__ = [
    "MTU",
    "PEP_SETUPS",
    "InterruptedSession",
    "SessionError",
    "carry",
    "change",
    "executable",
    "lab",
    "path_of",
    "run",
    "session",
]


class SessionError(RuntimeError):
    """A session in real time could not be."""


MTU = 1500
"""Of the emulated link: Ethernet's."""


def executable() -> Path:
    """Where ``bentpipe-rt`` is: ``$BENTPIPE_RT``, beside the package, in the checkout's build, on the path.

    Raises:
        ScenarioError: nowhere; with the command that builds it.
    """
    package = Path(__file__).parents[1]
    named = os.environ.get("BENTPIPE_RT")
    if named and not Path(named).is_file():
        raise ScenarioError([("BENTPIPE_RT", f'no file "{named}", expected the executable bentpipe-rt')])
    on_path = shutil.which("bentpipe-rt")
    places = [
        *([Path(named)] if named else []),
        package / "bentpipe-rt",
        package.parents[1] / "target" / "release" / "bentpipe-rt",
        *([Path(on_path)] if on_path else []),
    ]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ScenarioError([("", "bentpipe-rt is not built; in a checkout: make rt")])
    return found


def lab(access: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]] = ()) -> dict[str, Any]:
    """The path of a preset, or of a scenario file, as the emulator reads it (``LabSpec`` of crates/emu).

    Raises:
        ScenarioError: no such preset; what is wrong with the scenario.
    """
    return path_of(access, overrides)[0]


def path_of(
    access: str | Mapping[str, Any],
    overrides: Sequence[tuple[str, object]] = (),
    *,
    pep: str | None = None,
) -> tuple[dict[str, Any], list[ProxySpec]]:
    """The path of a preset or of a scenario file, and the proxies on it (``ProxySpec`` of crates/transport).

    Args:
        access: a preset, a scenario file, or the table it would parse to; of these the path or graph is enough.
        overrides: dotted keys and values, as ``--set`` gives them.
        pep: set-up of a proxy that is put behind the longest segment of a path without one; a
            path of one segment gets a wire without delay behind it.

    Raises:
        ScenarioError: no such preset; what is wrong with the scenario.
    """
    if not isinstance(access, str) or access.endswith(".toml") or Path(access).is_file():
        document = _with_flow(open_document(access, overrides))
    else:
        names = [preset.name for preset in presets()]
        if access not in names:
            raise ScenarioError([("ACCESS", unknown_word(access, names, "preset"))])
        data = {
            "title": access,
            "duration": "1 h",
            "path": {"preset": access},
            "flow": [{"name": "shell", "congestion": "cubic"}],
        }
        document = open_document(data, overrides)
    spec = make(document, "", priced=False).runs[0].spec
    if problems := other_ways(spec["graph"]):
        raise ScenarioError(problems, document.name)
    if pep is not None and not spec.get("proxies"):
        spec = _split(spec, pep)
    flow = spec["flows"][0]
    path = {
        "graph": spec["graph"],
        "client": flow["client"],
        "server": flow["server"],
        "seed": spec["seed"],
        "mtu": MTU,
    }
    return path, list(spec.get("proxies", ()))


def _with_flow(document: Document) -> Document:
    """A path alone becomes a scenario: its flow leads from end to end, and only says which these are."""
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
        if len(hosts) != 2:
            named = ", ".join(map(str, hosts)) or "none"
            problem = f"missing, expected a flow that names its client and server among the hosts: {named}"
            raise ScenarioError([("flow", problem)], document.name)
        flow |= {"client": hosts[0], "server": hosts[1]}
    return replace(document, data={"duration": "1 h", **data, "flow": [flow]})


def _split(spec: RunSpec, setup: str) -> RunSpec:
    """The resolved run with a proxy where the ground begins: at the far end of its longest segment."""
    if setup not in PEP_SETUPS:
        raise ScenarioError([("--pep", unknown_word(setup, PEP_SETUPS, "set-up"))])
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
    proxy = make(open_document(example), "").runs[0].spec["proxies"][0]
    behind = longest["server_side"]
    nodes = list(spec["graph"]["nodes"])
    if behind == spec["flows"][0]["server"]:
        nodes.append({"name": PEP, "kind": "proxy"})
        wire: LinkSpec = {"name": "ground", "client_side": PEP, "server_side": behind, "up": [], "down": []}
        links = [*links[:place], {**longest, "server_side": PEP}, *links[place + 1 :], wire]
        proxy = {**proxy, "node": PEP}
    else:
        nodes = [{**node, "kind": "proxy"} if node["name"] == behind else node for node in nodes]
        proxy = {**proxy, "node": behind}
    return {**spec, "graph": {**spec["graph"], "nodes": nodes, "links": links}, "proxies": [proxy]}


def _delay_ns(link: LinkSpec) -> int:
    """Propagation upwards: constant delays, and the least of traced ones."""
    return sum(min(delays_ns(stage, changed=False), default=0) for stage in link["up"])


PEP = "gateway"
PEP_SETUPS = ("early", "relayed")
"""A pool needs a proxy at its far end: that is a scenario's to say."""


CONTROL = "BENTPIPE_CONTROL"
"""Environment variable that names the socket of the session that a command runs in."""


def change(words: str, *, control: str | None = None) -> None:
    """Changes the path of a running session: ``[SEGMENT[.up|.down].]rate|delay|loss=VALUE``.

    Args:
        words: as above, with units as in a scenario; without a direction both change, without a segment the only one.
        control: the session's socket; that of the session this process runs in without.

    Raises:
        ScenarioError: words that say no change; no session; what the session says is wrong.
    """
    wish = _wish(words)
    place = control or os.environ.get(CONTROL)
    if place is None:
        raise ScenarioError(
            [("", "not behind an emulated access; --control SOCKET names the session from outside")]
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as session:
            session.settimeout(5)
            session.connect(place)
            session.sendall(json.dumps(wish).encode() + b"\n")
            answer = json.loads(session.makefile().readline() or "{}")
    except OSError as error:
        raise ScenarioError([("", f"no session answers at {place} ({error.strerror or error})")]) from None
    if answer.get("done") is not True:
        raise ScenarioError([("", str(answer.get("error", "the session did not answer")))])


def _wish(words: str) -> dict[str, object]:
    """A change as ``bentpipe-rt`` reads it."""
    expected = f"found {words!r}, expected [SEGMENT[.up|.down].]rate|delay|loss=VALUE"
    key, equals, value = words.partition("=")
    parts = key.strip().removeprefix("path.").split(".")
    if "" in parts:
        raise ScenarioError([("", expected)])
    if not equals or len(parts) not in (1, 2, 3):
        raise ScenarioError([("", expected)])
    kinds = ("rate", "delay", "loss")
    if parts[-1] not in kinds:
        raise ScenarioError([("", unknown_word(parts[-1], kinds))])
    if len(parts) == 3 and parts[1] not in ("up", "down"):
        raise ScenarioError([("", expected)])
    wish: dict[str, object] = {
        "segment": parts[0] if len(parts) > 1 else None,
        "direction": parts[1] if len(parts) == 3 else None,
    }
    try:
        if parts[-1] == "rate":
            wish["rate_bit_s"] = Rate.parse(value.strip()).bit_s
        elif parts[-1] == "delay":
            wish["delay_ns"] = Duration.parse(value.strip()).ns
        else:
            wish["loss"] = float(Probability.parse(value.strip()).value)
    except UnitError as error:
        raise ScenarioError([("", f"{key.strip()}: {error}")]) from None
    return wish


def run(
    access: str,
    command: Sequence[str],
    *,
    overrides: Sequence[tuple[str, object]] = (),
    check: bool = True,
    outside: bool = True,
    watch: bool = False,
    record: Path | None = None,
    pep: str | None = None,
) -> int:
    """Runs ``command`` behind ``access``; returns its exit status.

    Args:
        access: a preset, or a scenario file.
        command: the command and its arguments; a shell without.
        overrides: dotted keys and values, as ``--set`` gives them.
        check: measure round-trip time and rates before the command starts.
        outside: as root, let the command reach what this machine reaches.
        watch: show rate, queue and drops in the terminal's title.
        record: new directory for the series, the result and the plan.
        pep: set-up of a proxy behind the longest segment, where the scenario has none.

    Raises:
        ScenarioError: as :func:`lab`, and when ``bentpipe-rt`` is not built.
    """
    words = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    path, proxies = path_of(access, overrides, pep=pep)
    plan: dict[str, Any] = {
        "lab": path,
        "proxies": proxies,
        "near": [{"name": "command", "command": words}],
        "check": check,
        "outside": outside,
        "watch": watch,
    }
    if record is not None:
        if record.exists() and (not record.is_dir() or any(record.iterdir())):
            raise ScenarioError([("--record", f"{record} is there already, expected a new directory")])
        record.mkdir(parents=True, exist_ok=True)
        (record / "plan.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
        plan["record"] = {"directory": str(record.absolute()), "interval_ns": RECORD_NS}
        plan["result"] = str(record.absolute() / "result.json")
    folder = folder_name("bentpipe-control-")
    plan["control"] = str(folder / "socket")
    environment = {**os.environ, CONTROL: plan["control"]}
    with signals_in_order(), started(executable(), [folder], env=environment) as lab:
        lab.send(plan)
        return lab.wait()[0]


RECORD_NS = 100_000_000
"""Between two rows of a record: the emulator renews its counters as often."""


def carry(plan: Mapping[str, Any]) -> int:
    """Carries out the plan of a session (``lab::Plan`` of crates/rt); returns the exit status of its first near
    command, or 2 when the session could not be.

    Whatever ends this process ends the session, and nothing of it is left.

    Raises:
        ScenarioError: what is wrong with the plan, by key; ``bentpipe-rt`` is not built.
    """
    checked(plan)
    with signals_in_order(), started(executable(), []) as lab:
        lab.send(plan)
        return lab.wait()[0]


@contextmanager
def handed(plan: Mapping[str, Any]) -> Iterator[int]:
    """The descriptor of a file in memory with ``plan``, which is gone with the processes that have it open."""
    with os.fdopen(os.memfd_create("bentpipe-plan"), "wb") as file:
        file.write(json.dumps(plan).encode())
        file.flush()
        yield file.fileno()


class InterruptedSession(KeyboardInterrupt):
    """Ctrl-C during a session, whose commands have got it too. ``result`` is what was measured by then."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("the session was interrupted")
        self.result = result


def session(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Carries out the plan of a session and returns its result (docs/manual/shell.md has both, key by key).

    Whatever ends this process ends the session, and nothing of it is left.

    Raises:
        ScenarioError: what is wrong with the plan, by key; ``bentpipe-rt`` is not built.
        SessionError: the session could not be; ``bentpipe-rt`` has said why.
        InterruptedSession: Ctrl-C; the session has ended cleanly.
    """
    checked(plan)
    folder = folder_name("bentpipe-session-")
    result = folder / "result.json"
    with signals_in_order(), started(executable(), [folder]) as lab:
        lab.send({**plan, "result": str(result)})
        status, interrupted = lab.wait()
        if not result.exists():
            if interrupted:
                raise InterruptedSession({})
            raise SessionError(f"the emulator ended with status {status} before there was a result")
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        if interrupted:
            raise InterruptedSession(found)
        return found
