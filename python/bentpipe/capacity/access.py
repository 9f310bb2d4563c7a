"""Access of a capacity search: a preset, a scenario, or two rates and a round-trip time."""

from __future__ import annotations

import copy
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.access import (
    DEFAULT_QUEUE,
    PROXIES,
    check_given,
    load_access,
    lowest_rate,
    parse_loss,
    parse_numbers,
    path_tables,
)
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.presets import expand_preset

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NO_PEP", "Access", "resolve_access"]

NO_PEP = "none"
"""Kind of PEP of a path without PEPs."""

_TABLES = ("page", "quic", "tcp", "udp", "limits")
"""Tables of a scenario that the search takes beside the path."""


@dataclass(frozen=True)
class Access:
    """Path that the users share."""

    name: str
    """Name in file names."""
    title: str
    path: Mapping[str, Any]
    arguments: tuple[str, ...] = ()
    """Arguments of the command that select the access, without ``pep`` and ``loss``."""
    pep: str | None = None
    """Kind of the PEPs of an access given as numbers; None: no PEPs."""
    loss: str | None = None
    """Probability of losing a packet, in place of the path's own loss."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Further tables of the scenario: pages and options of the transports."""
    folder: Path = field(default_factory=Path)
    """Directory of the files that the path names."""

    @property
    def is_numbers(self) -> bool:
        """Whether rates and round-trip time define the access."""
        return "--rtt" in self.arguments

    @property
    def options(self) -> tuple[str, ...]:
        """All arguments of the command that select the access."""
        pep = () if self.pep is None else ("--pep", self.pep)
        loss = () if self.loss is None else ("--loss", self.loss.replace(" ", ""))
        return (*self.arguments, *pep, *loss)

    @property
    def bottleneck(self) -> Mapping[str, Any] | None:
        """Segment with the lowest rate towards the users; None without constant rates or rates of slots."""
        return _bottleneck(self.path)

    def with_pep(self, pep: str) -> Access:
        """Return an access given as numbers with PEPs of this kind."""
        down, up, rtt = (self.arguments[index] for index in (1, 3, 5))
        return resolve_access(None, down, up, rtt, pep, self.loss)


def resolve_access(
    name: str | None,
    down: str | None,
    up: str | None,
    rtt: str | None,
    pep: str | None = None,
    loss: str | None = None,
) -> Access:
    """Resolve the access: a preset, a scenario, or numbers.

    Args:
        name: preset or scenario file (TOML); None if the access is given as numbers.
        down: rate towards the users, such as ``"50 Mbit/s"``.
        up: rate towards the servers.
        rtt: round-trip time of the whole path, such as ``"620 ms"``.
        pep: kind of the PEPs at both ends of an access given as numbers (:data:`bentpipe.plan.access.PROXIES`).
        loss: probability of losing a packet on the bottleneck, in both directions; None: as the access has it.

    Raises:
        ScenarioError: the access is missing, incomplete, given twice or wrong, by argument.
    """
    check_given(name, down, up, rtt)
    probability = None if loss is None else str(parse_loss(loss))
    random_loss = {} if probability is None else {"loss": probability}
    suffix = "" if probability is None else f"-loss-{probability.removesuffix(' %')}"
    titled = "" if probability is None else f", loss {probability}"
    if name is None:
        numbers = parse_numbers(down, up, rtt)
        sides = (
            {"rate": str(rate), "queue": DEFAULT_QUEUE, **random_loss} for rate in (numbers.down, numbers.up)
        )
        if pep is not None and pep not in (NO_PEP, *PROXIES):
            text = unknown_name(pep, [NO_PEP, *PROXIES], "kind of PEP")
            raise ScenarioError([("pep", text)], SOURCE_ARGUMENT)
        kind = None if pep == NO_PEP else pep
        path = path_tables(next(sides), next(sides), str(numbers.rtt), kind)
        kind_suffix, kind_title = ("", "") if kind is None else (f"-{kind}", f", {kind} PEPs")
        values = {"--down": numbers.down, "--up": numbers.up, "--rtt": numbers.rtt}
        return Access(
            numbers.name + kind_suffix + suffix, numbers.title + kind_title + titled, path,
            tuple(word for key, value in values.items() for word in (key, str(value).replace(" ", ""))),
            kind, probability,
        )  # fmt: skip
    if pep is not None:
        text = f"requires --down, --up and --rtt; the path of {name} has its own proxies"
        raise ScenarioError([("pep", text)], SOURCE_ARGUMENT)
    named = load_access(name)
    data = copy.deepcopy(dict(named.document.data))
    expand_preset(data, named.document.folder)  # that of the scenario, if its sweep has several
    if not isinstance(data.get("path"), dict):
        text = "missing, expected [[path.segment]]: the users share an access, not a graph"
        raise ScenarioError([("path", text)], named.document.name)
    if random_loss:
        segment = _bottleneck(data["path"])
        if segment is None:
            text = f"requires a segment with constant rates; set path.SEGMENT.loss of {name} with --set"
            raise ScenarioError([("loss", text)], SOURCE_ARGUMENT)
        for side in ("down", "up"):
            segment[side] = {**segment.get("both", {}), **segment.get(side, {}), **random_loss}
        segment.pop("both", None)
    tables = {key: data[key] for key in _TABLES if key in data}
    return Access(
        named.name + suffix, named.title + titled, data["path"], (shlex.quote(name),), None, probability, tables,
        named.document.folder,
    )  # fmt: skip


def _bottleneck(path: Mapping[str, Any]) -> dict[str, Any] | None:
    candidates = []
    for segment in path.get("segment", ()):
        rate = lowest_rate({**segment.get("both", {}), **segment.get("down", {})})
        if rate is not None:
            candidates.append((rate.bit_s, segment))
    return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None
