"""Access network with a radio link: a preset or a scenario, and its directions with a link layer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bentpipe.plan.document import ScenarioDocument, load_scenario
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.link.arq import HARQ
from bentpipe.scenario.presets import PRESET, presets
from bentpipe.scenario.toml_writer import inline

__all__ = ["Radio", "RadioAccess", "describe_overrides", "find_access", "find_radios"]

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
    channel: Mapping[str, Any] | None = None
    """Channel of the direction, if it has one."""

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
    """Title of the preset or file; with overrides its name and these, because its title may contradict them."""
    path: Mapping[str, Any]
    """Table ``[path]`` of a scenario."""
    radios: tuple[Radio, ...]
    folder: Path
    """Directory of the files that the path names."""
    source: str = ""
    """Preset or file."""
    overrides: tuple[tuple[str, object], ...] = ()
    """Dotted keys of the path that differ from the preset or file, with their values."""

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
        document = _load_access({"path": {"preset": name}}, overrides)
        short_name, title = name, known[name].title
    elif name.endswith(".toml") or Path(name).is_file():
        document = _load_access(name, overrides)
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
    if overrides:
        title = f"{short_name} with {describe_overrides(overrides)}"
    return RadioAccess(short_name, title, scenario_path, radios, document.folder, name, tuple(overrides))


def _load_access(
    source: str | Mapping[str, Any], overrides: Sequence[tuple[str, object]]
) -> ScenarioDocument:
    """Load an access and apply the overrides after ``both`` of each segment is split into its directions.

    A setting of one direction would otherwise replace a whole table of ``both``.
    """
    document = load_scenario(source, [one for one in overrides if one[0] == PRESET])
    data = copy.deepcopy(dict(document.data))
    path = data.get("path")
    segments = path.get("segment") if isinstance(path, dict) else None
    for segment in segments if isinstance(segments, list) else ():
        if isinstance(segment, dict) and isinstance(both := segment.get("both"), dict):
            del segment["both"]
            for side in ("down", "up"):
                if isinstance(own := segment.get(side, {}), dict):
                    segment[side] = copy.deepcopy(both) | own
    remaining = [one for one in overrides if one[0] != PRESET]
    return replace(load_scenario(data, remaining), folder=document.folder, name=document.name)


def describe_overrides(overrides: Sequence[tuple[str, object]]) -> str:
    """Return overrides in one line: ``path.ntn.delay = "4 ms"``."""
    return ", ".join(f"{key} = {inline(value)}" for key, value in overrides)


def find_radios(path: Mapping[str, Any]) -> tuple[Radio, ...]:
    """Return the directions of a path with a link layer, in order."""
    found = []
    for segment in path["segment"]:
        for side in ("down", "up"):
            table = segment.get(side, {})
            for kind in KINDS:
                if isinstance(table.get(kind), dict):
                    buffer = table.get("reordering_buffer", 0)
                    channel = table.get("channel")
                    channel = channel if isinstance(channel, dict) else None
                    name = str(segment.get("name"))
                    found.append(Radio(name, side, kind, table[kind], buffer, channel))
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
        if find_radios(_load_access({"path": {"preset": preset.name}}, ()).data["path"])
    ]
