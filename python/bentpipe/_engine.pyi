"""The engine: runs resolved runs in virtual time (docs/reference/engine.md)."""

from typing import Protocol, final, type_check_only

__all__ = [
    "Config",
    "Control",
    "Event",
    "Pause",
    "SchedulerConfig",
    "Waiting",
    "best_delivery",
    "channel_information",
    "check_contact_plan",
    "check_controller",
    "check_scheduler",
    "coded_bits",
    "descriptors",
    "orbit",
    "orbit_passes",
    "orbit_tables",
    "profile",
    "read_contact_plan",
    "route_bundle",
    "run",
    "run_schema",
    "version",
]

@final
class Config:
    """The configuration of a new controller."""

    mss: int
    initial_window: int
    minimum_window: int
    initial_rtt_ns: int
    seed: int
    options_json: str

@final
class Control:
    """The output of a controller."""

    cwnd: int
    pacing_rate_bit_s: int | None
    quantum: int | None
    wake_at_ns: int | None
    def __new__(
        cls,
        cwnd: int,
        pacing_rate_bit_s: int | None = None,
        quantum: int | None = None,
        wake_at_ns: int | None = None,
    ) -> Control: ...

@final
class Event:
    """One event; the fields of an acknowledgement are zero for other kinds."""

    kind: str
    mss: int
    acked: int
    acked_in_recovery: int
    lost: int
    ecn_ce: bool
    congestion: bool
    persistent: bool
    is_in_rto_recovery: bool
    latest_rtt_ns: int | None
    smoothed_rtt_ns: int
    min_rtt_ns: int
    prior_in_flight: int
    flight_size: int
    in_flight: int
    delivered: int
    total_lost: int
    delivery_rate_bit_s: int | None
    round_start: bool
    rounds: int
    cwnd_limited: bool
    credited: int
    window: int

@final
class SchedulerConfig:
    """The configuration of a new scheduler."""

    link: str
    seed: int
    options_json: str

@final
class Waiting:
    """A backlogged user: its rate, the wait and the bytes of its head-of-line packet."""

    user: int
    rate: float
    waited_ns: int
    bytes: int

@final
class Pause:
    """Serve no user until an instant or the next arrival."""

    until_ns: int
    def __new__(cls, until_ns: int) -> Pause: ...

@type_check_only
class Scheduler(Protocol):
    """The interface of a scheduler in Python; the methods ``arrived`` and ``served`` are optional."""

    def __init__(self, config: SchedulerConfig) -> None: ...
    def choose(self, now: int, waiting: list[Waiting]) -> int | Pause: ...

@type_check_only
class Controller(Protocol):
    """The interface of a congestion controller in Python."""

    def __init__(self, config: Config) -> None: ...
    def on_event(self, now: int, event: Event) -> int | Control: ...

def run(
    spec_json: str,
    controllers: dict[str, type[Controller | Scheduler]] | None = None,
    limits: tuple[int, int] | None = None,
) -> bytes:
    """Run one resolved run and return its measurements.

    :raises ValueError: the specification is invalid, or the run reached a limit of events or of bytes of memory.
    """

def descriptors() -> str:
    """Return the descriptors of all kinds that a scenario names, as JSON."""

def run_schema() -> str:
    """Return the JSON Schema of a resolved run."""

def check_controller(controller: str | type[Controller], options_json: str = "{}") -> str:
    """Run the conformance checks on a controller of the catalogue or on a class; return verdicts as JSON."""

def check_scheduler(scheduler: str | type[Scheduler], options_json: str = "{}") -> str | None:
    """Run the conformance checks on a scheduler; return verdicts as JSON, or None for an unknown name."""

def coded_bits(radio_json: str) -> list[int]:
    """Return the coded bits of a frame in each attempt of a radio link (``RadioSpec``); later attempts equal the last.

    :raises ValueError: the specification is invalid.
    """

def channel_information(channel_json: str, spacing_ns: int, count: int) -> float:
    """Return the mean information per coded bit of a channel (``ChannelSpec``) for its first user.

    It samples ``count`` instants, ``spacing_ns`` apart.

    :raises ValueError: the specification is invalid.
    """

def orbit(request_json: str) -> str:
    """Return the path of a pair of places over a constellation as JSON (docs/explanation/orbit.md).

    :raises ValueError: the request is invalid.
    """

def orbit_tables(spec_json: str) -> int:
    """Return a digest of the next hops of all satellites to all ground stations.

    :raises ValueError: the specification is invalid.
    """

def orbit_passes(spec_json: str) -> str:
    """Return the intervals of visibility between satellites and ground stations (``PassesSpec``) as JSON.

    :raises ValueError: the specification is invalid.
    """

def read_contact_plan(text: str) -> str:
    """Parse ION's commands of a contact plan; return plan, notes and problems by line as JSON."""

def check_contact_plan(plan_json: str) -> str:
    """Return errors and lint warnings of a contact plan (``PlanSpec``) as JSON.

    :raises ValueError: the text is no plan.
    """

def route_bundle(request_json: str) -> str:
    """Return the forwarding decision of a node for a bundle, with its reasons, as JSON (docs/explanation/contacts.md).

    :raises ValueError: the request is invalid.
    """

def best_delivery(request_json: str) -> str:
    """Return the upper bound of delivery to a destination by a contact plan as JSON (docs/explanation/contacts.md).

    :raises ValueError: the request is invalid.
    """

def profile() -> str:
    """Return the Cargo profile of the engine.

    `guided` is a release with profile-guided optimisation.
    """

def version() -> str:
    """Return the engine's version, which changes whenever results can change."""
