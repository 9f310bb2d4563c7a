"""Access network with a radio link: a preset or a scenario, and its directions with a link layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bentpipe.plan.document import load_scenario
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.link.arq import HARQ
from bentpipe.scenario.presets import presets

__all__ = ["Radio", "RadioAccess", "find_access"]

KINDS = ("nr", "link_layer")
"""Keys of a direction that retransmit: a bearer of 5G, or HARQ of a satellite link."""


@dataclass(frozen=True)
class Radio:
    """Direction of a segment with a link layer."""

    segment: str
    side: str
    """``up`` or ``down``."""
    kind: str
    """``nr`` or ``link_layer``."""
    table: Mapping[str, Any]
    """Table of this key."""
    reordering_buffer: Any = 0
    """Reordering buffer of the direction, if it has one."""

    @property
    def key(self) -> str:
        """Dotted key of the direction."""
        return f"path.{self.segment}.{self.side}"


@dataclass(frozen=True)
class RadioAccess:
    """Path with at least one radio."""

    name: str
    """Name in file names."""
    title: str
    path: Mapping[str, Any]
    """Table ``[path]`` of a scenario."""
    radios: tuple[Radio, ...]
    folder: Path
    """Directory of the files that the path names."""

    @property
    def direction(self) -> str:
        """Direction of the data: down, unless only the uplink has a radio."""
        return "down" if any(radio.side == "down" for radio in self.radios) else "up"

    @property
    def kind(self) -> str:
        """Kind of the radios."""
        return self.radios[0].kind


def find_access(name: str, overrides: Sequence[tuple[str, object]] = ()) -> RadioAccess:
    """Return the access of a preset or of a scenario file, which needs a path only.

    Args:
        name: a preset or a TOML file.
        overrides: dotted keys of the path and values, as ``--set`` gives them.

    Raises:
        ScenarioError: the access is unknown or wrong, or has no radio.
    """
    known = {preset.name: preset for preset in presets()}
    if name in known:
        document = load_scenario({"path": {"preset": name}}, overrides)
        short_name, title = name, known[name].title
    elif name.endswith(".toml") or Path(name).is_file():
        document = load_scenario(name, overrides)
        short_name, title = Path(name).stem, str(document.data.get("title", Path(name).stem))
    else:
        names = _radio_presets()
        raise ScenarioError(
            [("access", f"{unknown_name(name, names, 'mobile preset')}; or a scenario (TOML)")],
            SOURCE_ARGUMENT,
        )
    path = document.data.get("path")
    if not isinstance(path, dict) or "segment" not in path:
        raise ScenarioError([("path", "missing, expected [[path.segment]]")], document.name)
    if path.get("proxy"):
        problem = "found proxies, expected none: the comparison is of the packets of one connection"
        raise ScenarioError([("path.proxy", problem)], document.name)
    radios = find_radios(path)
    _check_radios(name, radios)
    scenario_path = {"preset": name} if name in known and not overrides else dict(path)
    return RadioAccess(short_name, title, scenario_path, radios, document.folder)


def find_radios(path: Mapping[str, Any]) -> tuple[Radio, ...]:
    """Return the directions of a path with a link layer, in order."""
    found = []
    for segment in path["segment"]:
        for side in ("down", "up"):
            table = {**segment.get("both", {}), **segment.get(side, {})}
            for kind in KINDS:
                if isinstance(table.get(kind), dict):
                    buffer = table.get("reordering_buffer", 0)
                    found.append(Radio(str(segment.get("name")), side, kind, table[kind], buffer))
    return tuple(found)


def _check_radios(name: str, radios: Sequence[Radio]) -> None:
    """Check that an access has radios of one kind, with HARQ. Raises ScenarioError."""
    expected = f"expected one such as {', '.join(_radio_presets())}, or a scenario (TOML)"
    if not radios:
        text = f"{name} has no direction with nr or link_layer, {expected}"
        raise ScenarioError([("access", text)], SOURCE_ARGUMENT)
    if len({radio.kind for radio in radios}) > 1:
        text = f"{name} has directions with nr and with link_layer, expected one kind"
        raise ScenarioError([("access", text)], SOURCE_ARGUMENT)
    for radio in radios:
        scheme = radio.table.get("scheme")
        if radio.kind == "link_layer" and scheme not in HARQ:
            text = f'found "{scheme}" in {name}, expected one of: {", ".join(HARQ)}'
            raise ScenarioError([(f"{radio.key}.link_layer.scheme", text)])


def _radio_presets() -> list[str]:
    return [
        preset.name
        for preset in presets()
        if find_radios(load_scenario({"path": {"preset": preset.name}}).data["path"])
    ]
