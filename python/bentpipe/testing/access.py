"""Path of a test.

:meth:`Access.simulate` runs flows over it in virtual time. :meth:`Access.run_program` runs a user-supplied client and
server over it in real time.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.quantities import Duration, UnitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.api.results import Results

__all__ = ["Access", "EmulationMode", "ProgramResult"]


DURATION = "60 s"
"""Default duration of a run, if the scenario has none."""


class EmulationMode(Enum):
    """Treatment of tests with real programs."""

    AUTO = "auto"
    """Skip the tests if this machine does not support them."""
    MUST = "must"
    """Fail the tests if this machine does not support them."""
    NEVER = "never"
    """Skip the tests on every machine."""


@dataclass(frozen=True)
class ProgramResult:
    """Result of a client on the path."""

    status: int | None
    """Exit status; None after a timeout."""
    seconds: float
    """Duration in s."""
    output: str
    errors: str
    server_output: str
    server_errors: str
    up_bytes: int
    """Bytes of IP packets that the path delivered to the server."""
    down_bytes: int
    """Bytes of IP packets that the path delivered to the client."""


class Access:
    """Path of a preset or of a scenario."""

    def __init__(
        self, access: str | Mapping[str, Any], settings: Mapping[str, object], real: EmulationMode
    ) -> None:
        """Create a path, after a check of its preset and of all its keys.

        Args:
            access: preset, scenario file, or the table that it parses to.
            settings: dotted keys to set.
            real: treatment of tests with real programs.

        Raises:
            bentpipe.ScenarioError: the preset or file does not exist, or a key or value is wrong.
        """
        self.access = access
        self.settings = dict(settings)
        self.real = real
        self._check()

    def __repr__(self) -> str:
        """Return the access and its settings."""
        return f"<path {self.access}, {self.settings}>" if self.settings else f"<path {self.access}>"

    def simulate(
        self,
        flow: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        duration: str | None = None,
        seeds: int | None = None,
        controllers: Mapping[str, type | str] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Results:
        """Run flows over the path in virtual time.

        Args:
            flow: one or several tables as in ``[[flow]]``; names are optional (default: the flows of the scenario).
            duration: duration of a run (default: that of the scenario, or 60 s).
            seeds: number of runs (default: that of the scenario).
            controllers: user-supplied congestion controllers, by their name in the flows.
            settings: further dotted keys.

        Returns:
            Results. ``.metrics`` is a frame with one row for each run, flow and direction; ``.cells`` has the means.

        Raises:
            bentpipe.ScenarioError: the scenario is wrong, by key.
            bentpipe.RunsFailedError: a run failed.
        """
        from bentpipe.api.run import run

        source, data = self._scenario()
        overrides = {**self.settings, **(settings or {})}
        if flow is not None:
            flows = flow if isinstance(flow, (list, tuple)) else [flow]
            overrides["flow"] = [
                {"name": f"flow-{index}" if index else "main", **table} for index, table in enumerate(flows)
            ]
        elif "flow" not in data:
            raise ScenarioError(
                [("flow", "missing, expected flows to simulate over this path")], SOURCE_ARGUMENT
            )
        if duration is not None or "duration" not in data:
            overrides["duration"] = duration or DURATION
        return run(source, controllers, jobs=1, seeds=seeds, settings=overrides)

    def run_program(
        self,
        client: Sequence[str],
        server: Sequence[str] = (),
        *,
        server_port: int | None = None,
        timeout: str = "60 s",
        pep: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> ProgramResult:
        """Run a client on the client side of the path in real time, in namespaces that end with it.

        The test is skipped if this machine does not support namespaces, or if the lab missed its deadlines. With
        ``--bentpipe-real=must`` it fails in both cases.

        Args:
            client: arguments of the client; ``{server}`` and ``{server6}`` stand for the addresses of the server side,
                to which ``localhost`` leads too.
            server: arguments of the server; ``{client}`` stands for the address of the client. Without a server, the
                server side is this machine; an unprivileged user needs pasta or slirp4netns.
            server_port: port of the server. The client starts when a process listens there, over TCP or UDP.
            timeout: maximum duration of the client, such as ``"60 s"``.
            pep: set-up of a proxy that splits TCP behind the longest segment: ``"early"`` or ``"relayed"``.
            settings: further dotted keys.

        Returns:
            Status, duration, output and bytes of the client.

        Raises:
            bentpipe.ScenarioError: the path is wrong, or a command does not exist.
            bentpipe.lab.shell.LabError: the server never listened.
        """
        from bentpipe.lab.access import PEP_SETUPS, resolve_path
        from bentpipe.lab.single_run import run_command

        if pep is not None and pep not in PEP_SETUPS:
            raise ScenarioError([("pep", unknown_name(pep, PEP_SETUPS, "set-up"))], SOURCE_ARGUMENT)
        path = resolve_path(
            self.access, [*self.settings.items(), *(settings or {}).items()], pep=pep, has_uplink=not server
        )
        timeout_s = _parse_seconds(timeout)
        for argument, command in (("client", client), ("server", server)):
            if argument == "client" or command:
                _check_command(argument, command)
        if self.real is EmulationMode.NEVER:
            pytest.skip("--bentpipe-real=never")
        if missing := _missing_requirement(proxies=bool(path[1])):
            self._skip_or_fail(f"emulation is not available on this host: {missing}")
        with run_command(path, client, server=server, listens=server_port, timeout_s=timeout_s) as result:
            if not result.valid:
                self._skip_or_fail(f"the lab missed its deadlines: {'; '.join(result.reasons)}")
            texts = {
                name: _text(result.folder / name.replace("_", "-"))
                for name in ("output", "errors", "server_output", "server_errors")
            }
            return ProgramResult(
                status=result.status, seconds=result.seconds, up_bytes=result.up_bytes, down_bytes=result.down_bytes,
                **texts,
            )  # fmt: skip

    def _check(self) -> None:
        """Check the path and its keys; flows may be missing, as :meth:`simulate` takes them. Raises ScenarioError."""
        from bentpipe.plan.document import load_scenario
        from bentpipe.plan.sweep_cells import Scenarios
        from bentpipe.scenario.sweep import cells

        document = load_scenario(self._scenario()[0], self.settings.items(), origin="settings")
        try:
            first_cell = cells(document.data.get("sweep"))[0]
            complete = replace(document, data={"duration": DURATION, **document.data})
            Scenarios(complete).of(first_cell)
        except ScenarioError as error:
            has_flows = "flow" in document.data
            if problems := [problem for problem in error.problems if has_flows or problem[0] != "flow"]:
                raise ScenarioError(problems, document.name) from None

    def _skip_or_fail(self, reason: str) -> None:
        if self.real is EmulationMode.MUST:
            pytest.fail(reason)
        pytest.skip(reason)

    def _scenario(self) -> tuple[str | Mapping[str, Any], Mapping[str, Any]]:
        """Return the input of ``run``, and the scenario as a table. Raises ScenarioError."""
        from bentpipe.plan.document import load_scenario

        if not isinstance(self.access, str):
            return self.access, self.access
        if self.access.endswith(".toml") or Path(self.access).is_file():
            return self.access, load_scenario(self.access).data
        preset = {"title": self.access, "path": {"preset": self.access}}
        return preset, preset


@cache
def _missing_requirement(*, proxies: bool) -> str:
    """Return the missing requirements for real programs on this machine; empty if none is missing."""
    from bentpipe.lab.executable import executable
    from bentpipe.lab.requirements import first_missing

    try:
        executable()
    except ScenarioError as error:
        return str(error)
    return "; ".join(first_missing(proxies=proxies))


def _check_command(argument: str, command: Sequence[str]) -> None:
    if isinstance(command, str) or not command:
        raise ScenarioError(
            [(argument, f'found {command!r}, expected a list of words such as ["curl", "http://..."]')],
            SOURCE_ARGUMENT,
        )
    if shutil.which(command[0]) is None:
        raise ScenarioError(
            [(argument, f'no command "{command[0]}" found, or it is not executable')], SOURCE_ARGUMENT
        )


def _parse_seconds(text: str) -> float:
    try:
        return Duration.parse(text).ns / 1e9
    except UnitError as error:
        raise ScenarioError([("timeout", str(error))], SOURCE_ARGUMENT) from None


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
