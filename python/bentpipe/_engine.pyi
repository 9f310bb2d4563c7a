"""The engine: runs resolved plans in virtual time (docs/manual/engine.md)."""

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
    """What a controller is told when it is made."""

    mss: int
    initial_window: int
    minimum_window: int
    initial_rtt_ns: int
    seed: int
    options_json: str

@final
class Control:
    """What a controller asks for."""

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
    """What a scheduler is told when it is made."""

    link: str
    seed: int
    options_json: str

@final
class Waiting:
    """A user who has a packet."""

    user: int
    rate: float
    waited_ns: int
    bytes: int

@final
class Pause:
    """Nobody is served until an instant, or until a packet comes."""

    until_ns: int
    def __new__(cls, until_ns: int) -> Pause: ...

@type_check_only
class Scheduler(Protocol):
    """A scheduler of one's own: a class of this shape; ``arrived`` and ``served`` are called if they are there."""

    def __init__(self, config: SchedulerConfig) -> None: ...
    def choose(self, now: int, waiting: list[Waiting]) -> int | Pause: ...

@type_check_only
class Controller(Protocol):
    """A congestion controller of one's own: a class of this shape."""

    def __init__(self, config: Config) -> None: ...
    def on_event(self, now: int, event: Event) -> int | Control: ...

def run(spec_json: str, controllers: dict[str, type[Controller | Scheduler]] | None = None) -> bytes:
    """Run one resolved run and return its measurements.

    :raises ValueError: what is wrong with the specification.
    """

def descriptors() -> str:
    """Return the descriptors of all kinds that a scenario names, as JSON."""

def run_schema() -> str:
    """What a resolved run looks like, as a JSON Schema."""

def check_controller(controller: str | type[Controller], options_json: str = "{}") -> str:
    """Run the conformance list on a controller of the catalogue, or on a class; verdicts as JSON."""

def check_scheduler(scheduler: str | type[Scheduler], options_json: str = "{}") -> str | None:
    """Run the conformance list on a scheduler of users, by name or as a class; verdicts as JSON, None: no such."""

def coded_bits(radio_json: str) -> list[int]:
    """Coded bits of a frame in each attempt of a radio link (``RadioSpec``); the last holds for all that follow.

    :raises ValueError: what is wrong with the specification.
    """

def channel_information(channel_json: str, spacing_ns: int, count: int) -> float:
    """Mean information per coded bit of a channel (``ChannelSpec``) to its first user at equal distances.

    :raises ValueError: what is wrong with the specification.
    """

def orbit(question_json: str) -> str:
    """Follow a pair of places over a constellation (docs/models/orbit.md); the answer is JSON.

    :raises ValueError: what is wrong with the question.
    """

def orbit_tables(spec_json: str) -> int:
    """Every satellite's next hop to every ground station, as one number that changes with any of them.

    :raises ValueError: what is wrong with the specification.
    """

def orbit_passes(spec_json: str) -> str:
    """When which satellites are within reach of ground stations and of each other (``PassesSpec``), as JSON.

    :raises ValueError: what is wrong with the specification.
    """

def read_contact_plan(text: str) -> str:
    """Read ION's commands of a contact plan; the plan, notes and problems by line are JSON."""

def check_contact_plan(plan_json: str) -> str:
    """What is wrong with a contact plan (``PlanSpec``) and what is hardly meant, as JSON.

    :raises ValueError: it is none.
    """

def route_bundle(question_json: str) -> str:
    """What a node does with a bundle by a contact plan, and why (docs/models/contacts.md); the answer is JSON.

    :raises ValueError: what is wrong with the question.
    """

def best_delivery(question_json: str) -> str:
    """What a destination can have at best by a contact plan (docs/models/contacts.md); the answer is JSON.

    :raises ValueError: what is wrong with the question.
    """

def profile() -> str:
    """The profile of Cargo's that the engine is compiled with.

    `guided` is a release that was compiled by what another one's runs were counted to do.
    """

def version() -> str:
    """The engine's version; it changes whenever results may."""
