"""A path for a test: :meth:`Access.simulate` runs flows over it in virtual time, :meth:`Access.carry` the test's own
client and server in real time."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantities import Duration, UnitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.api.results import Results

__all__ = ["Access", "EmulationMode", "ProgramResult"]


DURATION = "60 s"
"""Of a run over a path that says nothing of it."""


class EmulationMode(Enum):
    """What becomes of tests whose path carries real programs."""

    AUTO = "auto"
    """Skipped where this machine cannot."""
    MUST = "must"
    """They fail there."""
    NEVER = "never"
    """Skipped everywhere."""


@dataclass(frozen=True)
class ProgramResult:
    """What became of a client behind the path."""

    status: int | None
    """Its exit status; None: its time was up."""
    seconds: float
    """What it took."""
    output: str
    errors: str
    server_output: str
    server_errors: str
    up_bytes: int
    """Bytes of IP that the path carried from client to server."""
    down_bytes: int
    """The same back."""


class Access:
    """A path: of a preset, of a scenario."""

    def __init__(
        self, access: str | Mapping[str, Any], settings: Mapping[str, object], real: EmulationMode
    ) -> None:
        """``access`` is a preset, a scenario's file or the table it would parse to; ``settings`` are dotted keys."""
        self.access = access
        self.settings = dict(settings)
        self.real = real

    def __repr__(self) -> str:
        """What it was made of."""
        return f"<path {self.access}, {self.settings}>" if self.settings else f"<path {self.access}>"

    def simulate(
        self,
        flow: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        duration: str | None = None,
        seeds: int | None = None,
        controllers: Mapping[str, type] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Results:
        """Runs flows over the path in virtual time.

        Args:
            flow: one or several, as ``[[flow]]`` of a scenario has them, but for names; the scenario's own without.
            duration: of a run; without, the scenario's, or 60 s.
            seeds: how many runs; the scenario's without.
            controllers: congestion controllers of one's own, by the name that flows give them.
            settings: further dotted keys.

        Returns:
            The results: ``.metrics`` is a frame with a row a run, flow and direction, ``.cells`` has the means.

        Raises:
            bentpipe.ScenarioError: what is wrong, by key.
            bentpipe.RunsFailed: a run failed.
        """
        from bentpipe.api.run import run

        source, data = self._scenario()
        given = {**self.settings, **(settings or {})}
        if flow is not None:
            flows = flow if isinstance(flow, (list, tuple)) else [flow]
            given["flow"] = [{"name": f"flow-{at}" if at else "main", **one} for at, one in enumerate(flows)]
        elif "flow" not in data:
            raise ScenarioError(
                [("flow", "missing, expected flows to simulate over this path")], SOURCE_ARGUMENT
            )
        if duration is not None or "duration" not in data:
            given["duration"] = duration or DURATION
        return run(source, controllers, jobs=1, seeds=seeds, settings=given)

    def carry(
        self,
        client: Sequence[str],
        server: Sequence[str] = (),
        *,
        listens: int | None = None,
        timeout: str = "60 s",
        pep: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> ProgramResult:
        """Runs a client at the near end of the path, in real time, in namespaces that end with it.

        The test is skipped by name where this machine cannot have them, and where it was too busy to keep the path's
        time; ``--bentpipe-real=must`` makes both a failure.

        Args:
            client: words of a command, of which ``{far}`` and ``{far6}`` are the far end's addresses.
            server: words of a service at the far end, of which ``{near}`` is the client's address. Without, the far end
                is this machine, which the client reaches as root.
            listens: port of the server: the client starts when something listens there, over TCP or UDP.
            timeout: longest that the client may take.
            pep: set-up of a proxy that splits TCP behind the longest segment: ``"early"`` or ``"relayed"``.
            settings: further dotted keys.

        Raises:
            bentpipe.ScenarioError: what is wrong with the path; a command that is not there.
            bentpipe.lab.shell.LabError: the server never listened.
        """
        from bentpipe.lab.access import resolve_path
        from bentpipe.lab.single_run import run_command

        path = resolve_path(self.access, [*self.settings.items(), *(settings or {}).items()], pep=pep)
        longest_s = _seconds(timeout)
        for what, words in (("client", client), ("server", server)):
            if what == "client" or words:
                _present(what, words)
        if self.real is EmulationMode.NEVER:
            pytest.skip("--bentpipe-real=never")
        if lacking := _lacking(proxies=bool(path[1])):
            self._cannot(f"no path in real time here: {lacking}")
        with run_command(path, client, server=server, listens=listens, timeout_s=longest_s) as done:
            if not done.valid:
                self._cannot(f"the machine was too late for the path's time: {'; '.join(done.reasons)}")
            said = {
                name: _text(done.folder / name.replace("_", "-"))
                for name in ("output", "errors", "server_output", "server_errors")
            }
            return ProgramResult(
                status=done.status, seconds=done.seconds, up_bytes=done.up_bytes, down_bytes=done.down_bytes, **said
            )  # fmt: skip

    def _cannot(self, why: str) -> None:
        if self.real is EmulationMode.MUST:
            pytest.fail(why)
        pytest.skip(why)

    def _scenario(self) -> tuple[str | Mapping[str, Any], Mapping[str, Any]]:
        """The scenario as it is run, and as a table. Raises ScenarioError."""
        from bentpipe.plan.document import load_scenario

        if not isinstance(self.access, str):
            return self.access, self.access
        if self.access.endswith(".toml") or Path(self.access).is_file():
            return self.access, load_scenario(self.access).data
        preset = {"title": self.access, "path": {"preset": self.access}}
        return preset, preset


@cache
def _lacking(*, proxies: bool) -> str:
    """What keeps this machine from carrying anything; empty where nothing does."""
    from bentpipe.lab.executable import executable
    from bentpipe.lab.requirements import first_missing

    try:
        executable()
    except ScenarioError as error:
        return str(error)
    return "; ".join(first_missing(proxies=proxies))


def _present(what: str, words: Sequence[str]) -> None:
    if isinstance(words, str) or not words:
        raise ScenarioError(
            [(what, f'found {words!r}, expected a list of words such as ["curl", "http://..."]')],
            SOURCE_ARGUMENT,
        )
    if shutil.which(words[0]) is None:
        raise ScenarioError([(what, f'no command "{words[0]}" is there, or may be run')], SOURCE_ARGUMENT)


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text).ns / 1e9
    except UnitError as error:
        raise ScenarioError([("timeout", str(error))], SOURCE_ARGUMENT) from None


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
