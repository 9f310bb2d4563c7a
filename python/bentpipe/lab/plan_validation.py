"""Validation of a lab plan before it is sent: types, ranges and combinations of keys.

docs/reference/lab-plan.md describes each key. A test compares the keys with those of ``process_plans``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import Field, PlainValidator, StrictBool, StrictInt, StrictStr, ValidationError, model_validator

from bentpipe.scenario.base import Table
from bentpipe.scenario.errors import from_pydantic, unknown_name

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import LabPlan

__all__ = ["PlanCheck", "validate_plan"]

NonNegativeInt = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]
Text = Annotated[StrictStr, Field(min_length=1)]
Specification = dict[str, Any]
"""Specification of a path (:func:`bentpipe.lab.access.resolve_path`), which the executable validates."""


def _parse_port(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535:
        return value
    text = f'"{value}"' if isinstance(value, str) else value
    raise ValueError(f"found {text}, expected a UDP or TCP port from 1 to 65535")


class LabCheck(Table):
    """Path of a lab."""

    graph: Specification
    client: Text
    server: Text
    hosts: list[Text] = Field(default_factory=list)
    """Hosts that take part beside client and server."""
    seed: NonNegativeInt
    mtu: Annotated[StrictInt, Field(ge=68, le=65535)]  # minimum of IPv4 (RFC 791)
    users: list[tuple[Annotated[int, PlainValidator(_parse_port)], NonNegativeInt]] = Field(
        default_factory=list
    )
    """Users of the packets from and to a server port: port and number of the user."""


class ProcessCheck(Table):
    """Command at a host."""

    hints: ClassVar[Mapping[str, str]] = {"args": 'no key "args"; arguments follow the program in "command"'}
    name: Text
    command: Annotated[list[StrictStr], Field(min_length=1)]
    node: Text | None = None
    start_ns: NonNegativeInt = 0
    listen_port: Annotated[int, PlainValidator(_parse_port)] | None = None
    output: Text | None = None
    errors: Text | None = None


class TcpCheck(Table):
    """Options of the hosts' kernel TCP (``TcpSpec`` of a resolved run), which the executable validates."""

    client: Specification | None = None
    server: Specification | None = None
    hosts: dict[str, Specification | None] = Field(default_factory=dict)


class SettingsCheck(Table):
    """Further kernel settings of the hosts."""

    client: dict[str, StrictStr] = Field(default_factory=dict)
    server: dict[str, StrictStr] = Field(default_factory=dict)
    hosts: dict[str, dict[str, StrictStr]] = Field(default_factory=dict)


Window = Annotated[StrictInt, Field(ge=1, le=2**32 - 1)]


class WindowsCheck(Table):
    """Initial windows of kernel TCP, in segments."""

    client: Window | None = None
    server: Window | None = None
    hosts: dict[str, Window | None] = Field(default_factory=dict)


class RecordCheck(Table):
    """Recording of counters."""

    directory: Text
    interval_ns: Annotated[StrictInt, Field(ge=1, le=2**63 - 1)]


Microseconds = Annotated[float, Field(ge=0, le=200)]
"""Cost in microseconds; the emulator subtracts at most this maximum (crates/emu/src/calibration.rs)."""


class WakesCheck(Table):
    """Cost of waking up the thread of a link direction, microseconds."""

    arrival: Microseconds
    long_sleep: Microseconds
    short_sleep: Microseconds


class PlanCheck(Table):
    """Lab: a path, the PEPs on it, and the processes at its hosts."""

    lab: LabCheck
    proxies: list[Specification] = Field(default_factory=list)
    background: Specification | None = None
    server_namespace: StrictBool = False
    has_uplink: StrictBool = False
    forwards_localhost: StrictBool = False
    check: StrictBool = False
    calibrations: list[tuple[WakesCheck, WakesCheck]] = Field(default_factory=list)
    services: list[ProcessCheck] = Field(default_factory=list)
    commands: Annotated[list[ProcessCheck], Field(min_length=1)]
    tcp: TcpCheck = TcpCheck()
    settings: SettingsCheck = SettingsCheck()
    initial_windows: WindowsCheck = WindowsCheck()
    record: RecordCheck | None = None
    has_status_display: StrictBool = False
    control: Text | None = None
    result: Text | None = None

    @model_validator(mode="after")
    def _check_combinations(self) -> PlanCheck:
        far = [
            ("services", self.services),
            ("tcp.server", self.tcp.server),
            ("settings.server", self.settings.server),
        ]
        for key, value in far:
            if value and not self.server_namespace:
                raise ValueError(
                    f"{key}: requires server_namespace = true, which gives the server side a namespace"
                )
        if self.lab.hosts and not self.server_namespace:
            raise ValueError(
                "lab.hosts: requires server_namespace = true, which gives the server side a namespace"
            )
        if self.lab.hosts and self.background is not None:
            raise ValueError(
                "background: cannot be combined with lab.hosts, expected a path between two hosts"
            )
        if self.lab.hosts and self.forwards_localhost:
            raise ValueError(
                "forwards_localhost: cannot be combined with lab.hosts, expected a path between two hosts"
            )
        hosts = [self.lab.client, self.lab.server, *self.lab.hosts]
        nodes = [
            (f"{side}.{process.name}.node", process.node)
            for side in ("commands", "services")
            for process in getattr(self, side)
        ]
        for side in ("tcp", "settings", "initial_windows"):
            nodes += [(f"{side}.hosts", name) for name in getattr(self, side).hosts]
        for key, name in nodes:
            if name is not None and name not in hosts:
                raise ValueError(f"{key}: {unknown_name(name, hosts, 'host')}")
        names = Counter(process.name for process in (*self.commands, *self.services))
        duplicate = next((name for name, count in names.items() if count > 1), None)
        if duplicate is not None:
            raise ValueError(f'duplicate command name "{duplicate}", expected a unique name for each command')
        listener = next((process.name for process in self.commands if process.listen_port is not None), None)
        if listener is not None:
            raise ValueError(f"commands.{listener}.listen_port: only services can listen")
        return self


def validate_plan(plan: LabPlan | Mapping[str, Any]) -> LabPlan:
    """Validate ``plan`` and return it.

    Raises:
        ScenarioError: the plan is invalid; each problem has the key.
    """
    try:
        PlanCheck.model_validate(plan)
    except ValidationError as error:
        raise from_pydantic(error, plan, "plan") from None
    return cast("LabPlan", plan)
