"""One direction of a link: rate, queue, delay, loss and the other stages of a packet."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictStr, model_validator

from bentpipe.scenario.base import (
    DurationText,
    PositiveText,
    ProbabilityText,
    QueueText,
    RateText,
    Table,
    as_table,
    merge_tables,
    require_one,
)
from bentpipe.scenario.link.generated import Aqm, Channel, Loss
from bentpipe.scenario.link.generated_services import AdaptiveCoding, LinkLayer, Nr, ReorderingBuffer
from bentpipe.scenario.link.reconfiguration import Reconfiguration
from bentpipe.scenario.link.scheduler import Scheduler
from bentpipe.scenario.quantities import Duration

__all__ = [
    "Change",
    "Delay",
    "DelayOrText",
    "Direction",
    "Jitter",
    "LinkRate",
    "NormalJitter",
    "Outage",
    "Outages",
    "Reorder",
]


class Delay(Table):
    """One-way delay: constant (a bare duration), from a CSV file (``time_s,delay_ms``), or a part of ``[orbit]``.

    ``orbit``: the route up to its last satellite (``before-last-hop``), or from there (``last-hop``).
    """

    constant: DurationText | None = None
    trace: StrictStr | None = None
    orbit: Literal["before-last-hop", "last-hop"] | None = None
    interpolation: Literal["step", "linear"] = "step"
    repeat: PositiveText | None = None
    reorder: StrictBool = False

    @model_validator(mode="after")
    def _check_choice(self) -> Delay:
        require_one(self, ("constant", "trace", "orbit"), "a delay")
        if self.orbit is not None:
            foreign = next((key for key in ("interpolation", "repeat") if key in self.model_fields_set), None)
            if foreign is not None:
                raise ValueError(f"found {foreign} with a delay of [orbit], which has its own; expected none")
        return self


class LinkRate(Table):
    """Rate: constant (a bare rate), or from a CSV file (``time_s,rate_Mbit_s``)."""

    constant: RateText | None = None
    trace: StrictStr | None = None

    @model_validator(mode="after")
    def _check_choice(self) -> LinkRate:
        require_one(self, ("constant", "trace"), "a rate")
        return self


DelayOrText = Annotated[Delay, as_table("constant")]
RateOrText = Annotated[LinkRate, as_table("constant")]


class NormalJitter(Table):
    """Normal distribution, truncated at 0."""

    mean: DurationText
    deviation: DurationText


class Jitter(Table):
    """Random additional delay of each packet: one distribution, and whether packets may be reordered."""

    example: ClassVar[str] = '{ uniform = "5 ms", reorder = false }'

    uniform: DurationText | None = None
    normal: NormalJitter | None = None
    exponential: DurationText | None = None
    reorder: StrictBool

    @model_validator(mode="after")
    def _check_choice(self) -> Jitter:
        require_one(self, ("uniform", "normal", "exponential"), "a jitter")
        return self


class Reorder(Table):
    """Reordering: with this probability a packet is delayed by ``delay``, so that later packets overtake it."""

    probability: ProbabilityText
    delay: PositiveText


class Outage(Table):
    """Outage from ``at`` for ``duration``."""

    at: DurationText
    duration: PositiveText


class Outages(Table):
    """Outages in order of time. A bare list is ``windows``.

    ``position``: before the delay, so that packets in flight at the start arrive, or after it, so that they are lost.
    By default it is after the transmitter, which includes the delay with ``netem``.
    """

    windows: list[Outage] = Field(min_length=1)
    repeat: PositiveText | None = None
    buffer_packets: StrictBool = False
    position: Literal["before-delay", "after-stages"] | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Outages:
        end = 0
        for window in self.windows:
            if window.at.ns < end:
                raise ValueError(
                    f"time goes backwards: an outage at {window.at} starts before the previous one ends"
                )
            end = window.at.ns + window.duration.ns
        if self.repeat is not None and end > self.repeat.ns:
            raise ValueError(
                f"found an outage until {Duration(end)}, expected none after repeat = {self.repeat}"
            )
        return self


class Change(Table):
    """New rate, delay or loss from ``at`` on."""

    at: DurationText
    rate: RateText | None = None
    delay: DurationText | None = None
    loss: ProbabilityText | None = None

    @model_validator(mode="after")
    def _check_change(self) -> Change:
        if self.rate is None and self.delay is None and self.loss is None:
            raise ValueError("found an empty change, expected at least one of rate, delay, loss")
        return self


LossOrText = Annotated[Loss, as_table("probability")]
ReorderingOrNumber = Annotated[ReorderingBuffer, as_table("packets")]
AqmOrText = Annotated[Aqm, as_table("name")]
SchedulerOrText = Annotated[Scheduler, as_table("name")]


def _to_outages(found: object) -> object:
    return {"windows": found} if isinstance(found, list) else found


class Direction(Table):
    """One direction of a link: the stages that a packet passes."""

    rate: RateOrText | None = None
    queue: QueueText | None = None
    aqm: AqmOrText | None = None
    scheduler: SchedulerOrText | None = None
    delay: DelayOrText | None = None
    loss: LossOrText | None = None
    loss_position: Literal["before-queue", "after-queue"] | None = None
    jitter: Jitter | None = None
    reorder: Reorder | None = None
    outages: (
        Annotated[
            Outages,
            BeforeValidator(_to_outages, json_schema_input_type=Outages | list[Outage]),
        ]
        | None
    ) = None
    changes: list[Change] | None = None
    trace: StrictStr | None = None
    netem: StrictBool | None = None
    reconfiguration: Reconfiguration | None = None
    channel: Channel | None = None
    acm: AdaptiveCoding | None = None
    link_layer: LinkLayer | None = None
    nr: Nr | None = None
    reordering_buffer: ReorderingOrNumber | None = None

    @model_validator(mode="after")
    def _check_changes(self) -> Direction:
        at = -1
        for change in self.changes or []:
            if change.at.ns <= at:
                raise ValueError(
                    f"changes: time goes backwards: {change.at} after {Duration(at)}, expected increasing times"
                )
            at = change.at.ns
        if self.rate is not None and self.trace is not None:
            raise ValueError("found rate and trace, expected one of them: a trace is the rate")
        return self

    def with_defaults(self, defaults: Direction | None) -> Direction:
        """Return this direction with the keys of ``defaults`` that it does not set.

        Rate and trace exclude each other, so that one of them replaces the other of the defaults.
        """
        if defaults is None:
            return self
        direction = merge_tables(self, defaults)
        for key, excluded in (("rate", "trace"), ("trace", "rate")):
            replaces = key in self.model_fields_set and excluded not in self.model_fields_set
            if replaces and excluded in direction.model_fields_set:
                direction = direction.model_copy(update={excluded: None})
                direction.model_fields_set.discard(excluded)
        return direction
