"""The plan of a session in real time, checked before it leaves: types, ranges, what
goes with what. docs/manual/shell.md has it key by key; a test holds the keys against those of ``wire``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import Field, PlainValidator, StrictBool, StrictInt, StrictStr, ValidationError, model_validator

from bentpipe.scenario.base import Table
from bentpipe.scenario.errors import from_pydantic, unknown_name

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import LabPlan

__all__ = ["PlanCheck", "checked"]

Whole = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]
Text = Annotated[StrictStr, Field(min_length=1)]
Specification = dict[str, Any]
"""As :func:`bentpipe.lab.access.resolve_path` makes it; the executable reads what is in it."""


def _port(found: object) -> int:
    if isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= 65535:
        return found
    shown = f'"{found}"' if isinstance(found, str) else found
    raise ValueError(
        f"found {shown}, expected a port from 1 to 65535; of UDP or TCP, whichever is listened on"
    )


class LabCheck(Table):
    """The path."""

    graph: Specification
    client: Text
    server: Text
    hosts: list[Text] = Field(default_factory=list)
    """Those that take part beside client and server."""
    seed: Whole
    mtu: Annotated[StrictInt, Field(ge=68, le=65535)]  # what IPv4 asks for at least (RFC 791)
    users: list[tuple[Annotated[int, PlainValidator(_port)], Whole]] = Field(default_factory=list)
    """Whose packets are those from and to a port of the far side."""


class ProcessCheck(Table):
    """A command at a host."""

    hints: ClassVar[Mapping[str, str]] = {
        "args": 'no key "args"; arguments stand in "command", after its first word'
    }
    name: Text
    command: Annotated[list[StrictStr], Field(min_length=1)]
    node: Text | None = None
    start_ns: Whole = 0
    listens: Annotated[int, PlainValidator(_port)] | None = None
    output: Text | None = None
    errors: Text | None = None


class TcpCheck(Table):
    """Options of the hosts' kernel TCP (``TcpSpec`` of a resolved run); the executable reads what is in it."""

    near: Specification | None = None
    far: Specification | None = None
    hosts: dict[str, Specification | None] = Field(default_factory=dict)


class SettingsCheck(Table):
    """Other kernel settings of the hosts."""

    near: dict[str, StrictStr] = Field(default_factory=dict)
    far: dict[str, StrictStr] = Field(default_factory=dict)
    hosts: dict[str, dict[str, StrictStr]] = Field(default_factory=dict)


Window = Annotated[StrictInt, Field(ge=1, le=2**32 - 1)]


class WindowsCheck(Table):
    """Initial windows of kernel TCP, in segments."""

    near: Window | None = None
    far: Window | None = None
    hosts: dict[str, Window | None] = Field(default_factory=dict)


class RecordCheck(Table):
    """Series to keep."""

    directory: Text
    interval_ns: Annotated[StrictInt, Field(ge=1, le=2**63 - 1)]


Us = Annotated[float, Field(ge=0, le=200)]
"""At most as much is taken off (crates/emu/src/calibration.rs)."""


class WakesCheck(Table):
    """What waking a direction's thread cost, microseconds."""

    arrival: Us
    long_sleep: Us
    short_sleep: Us


class PlanCheck(Table):
    """A session: a path, what splits TCP on it, and the processes at its ends."""

    lab: LabCheck
    proxies: list[Specification] = Field(default_factory=list)
    crowd: Specification | None = None
    private: StrictBool = False
    outside: StrictBool = False
    check: StrictBool = False
    calibrations: list[tuple[WakesCheck, WakesCheck]] = Field(default_factory=list)
    far: list[ProcessCheck] = Field(default_factory=list)
    near: Annotated[list[ProcessCheck], Field(min_length=1)]
    tcp: TcpCheck = TcpCheck()
    settings: SettingsCheck = SettingsCheck()
    initial_windows: WindowsCheck = WindowsCheck()
    record: RecordCheck | None = None
    watch: StrictBool = False
    control: Text | None = None
    result: Text | None = None

    @model_validator(mode="after")
    def _together(self) -> PlanCheck:
        far = [("far", self.far), ("tcp.far", self.tcp.far), ("settings.far", self.settings.far)]
        for key, found in far:
            if found and not self.private:
                raise ValueError(
                    f"{key}: found some without private = true, expected the far side to be private"
                )
        if self.lab.hosts and not self.private:
            raise ValueError(
                "lab.hosts: found some without private = true, expected the far side to be private"
            )
        if self.lab.hosts and self.crowd is not None:
            raise ValueError("crowd: found one beside lab.hosts, expected one way between two hosts")
        hosts = [self.lab.client, self.lab.server, *self.lab.hosts]
        at = [
            (f"{side}.{one.name}.node", one.node) for side in ("near", "far") for one in getattr(self, side)
        ]
        for side in ("tcp", "settings", "initial_windows"):
            at += [(f"{side}.hosts", name) for name in getattr(self, side).hosts]
        for key, name in at:
            if name is not None and name not in hosts:
                raise ValueError(f"{key}: {unknown_name(name, hosts, 'host')}")
        names = Counter(one.name for one in (*self.near, *self.far))
        twice = next((name for name, count in names.items() if count > 1), None)
        if twice is not None:
            raise ValueError(
                f'two commands are called "{twice}", expected a name for each: results are by name'
            )
        listening = next((one.name for one in self.near if one.listens is not None), None)
        if listening is not None:
            raise ValueError(f"near.{listening}.listens: found one, which only services of the far side have")
        return self


def checked(plan: LabPlan | Mapping[str, Any]) -> LabPlan:
    """``plan``. Raises ScenarioError for what is wrong with it, by key."""
    try:
        PlanCheck.model_validate(plan)
    except ValidationError as error:
        raise from_pydantic(error, plan, "plan") from None
    return cast("LabPlan", plan)
