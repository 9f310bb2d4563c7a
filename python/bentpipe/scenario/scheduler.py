"""Who decides whose packet goes next where each user of a link has a queue of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictFloat, StrictInt, StrictStr, model_validator

from bentpipe.scenario.problems import unknown_word
from bentpipe.scenario.quantities import ChanceText, DurationText, PositiveText, SizeText, Table, goes_with
from bentpipe.scenario.units import Duration, Probability, Size

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["SCHEDULERS", "Scheduler", "unknown"]

SCHEDULERS = (
    "drop-tail", "round-robin", "deficit-round-robin", "maximum-rate", "proportional-fair", "codes", "m-lwdf", "exp-pf",
)  # fmt: skip
_CALLED = {
    "dt": "drop-tail", "rr": "round-robin", "drr": "deficit-round-robin", "wrr": "deficit-round-robin",
    "max-rate": "maximum-rate", "mr": "maximum-rate", "pf": "proportional-fair", "mlwdf": "m-lwdf", "exppf": "exp-pf",
}  # fmt: skip
_SECRET = ("ubmt", "bbs", "bps")
"""Schedulers of table 6.1 of Tauran 2018 whose formulas cannot be read in public."""

MOST_CHANNEL_DELAY = Duration(1_000_000_000)
_AVERAGED = ("proportional-fair", "codes", "m-lwdf", "exp-pf")
_URGENT = ("m-lwdf", "exp-pf")
_GOES_WITH = {
    "average": _AVERAGED,
    "window": _AVERAGED,
    "channel_delay": ("maximum-rate", *_AVERAGED),
    "time_limit": ("codes",),
    "delay": _URGENT,
    "violation": _URGENT,
    "best_effort": _URGENT,
    "quantum": ("deficit-round-robin",),
    "weights": ("deficit-round-robin",),
}
"""Which schedulers have an option that not all have."""


def _known(name: str) -> str:
    if name.casefold() in _SECRET:
        raise ValueError(
            f'found "{name}", of which no formula is public; expected one of: {", ".join(SCHEDULERS)}'
        )
    return name


def unknown(name: str, own: Collection[str] = ()) -> str | None:
    """What is wrong with a name that is neither of ours nor of one's ``own``; None of one that is."""
    if name in SCHEDULERS or name in own:
        return None
    called = _CALLED.get(name.casefold())
    hint = f'no scheduler "{name}", expected one of: {", ".join(SCHEDULERS)}; did you mean "{called}"?'
    return hint if called else unknown_word(name, [*SCHEDULERS, *sorted(own)], "scheduler")


class Scheduler(Table):
    """A scheduler over a queue for each user. A bare word is ``name``; ``drop-tail`` is one queue for all.

    The time limit of CoDeS is that of Tauran 2018 (section 6.3.5); averages are those of Jalali, Padovani and Pankaj
    (VTC 2000) in length, 1,000 slots of 1.667 ms; deadlines those that LTE's schedulers of calls are compared with
    (Piro et al., LTE-Sim, 2011, whose delta is free): 100 ms, exceeded by 3 % (the losses that a call stands).
    """

    name: Annotated[
        StrictStr, AfterValidator(_known), Field(json_schema_extra={"examples": list(SCHEDULERS)})
    ]
    room: Literal["each", "all"] = "each"
    average: Literal["channel", "served"] = "channel"
    window: PositiveText = Duration(1_667_000_000)
    channel_delay: DurationText = Duration(0)
    time_limit: PositiveText = Duration(100_000_000)
    delay: PositiveText = Duration(100_000_000)
    violation: ChanceText = Probability(0.03)
    best_effort: list[StrictStr] = Field(default_factory=list)
    quantum: SizeText = Size(1500)
    weights: dict[StrictStr, Annotated[StrictFloat | StrictInt, Field(ge=0.001, le=1_000_000)]] = Field(
        default_factory=dict
    )

    options: dict[StrictStr, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _goes_together(self) -> Scheduler:
        given = self.model_fields_set - {"channel_delay"} if self.own else self.model_fields_set
        goes_with(self.name, given, _GOES_WITH)
        if self.name == "drop-tail" and "room" in self.model_fields_set:
            raise ValueError('found room beside "drop-tail", which is one queue for all')
        if self.options and not self.own:
            raise ValueError(
                f'found options beside "{self.name}", expected them with a scheduler of one\'s own'
            )
        if self.channel_delay.ns > MOST_CHANNEL_DELAY.ns:
            raise ValueError(
                f"channel_delay: found {self.channel_delay}, expected at most {MOST_CHANNEL_DELAY}"
            )
        if not 0 < self.violation.value < 1:
            raise ValueError(
                f'violation: found {self.violation}, expected a share between 0 and 1 such as "3 %"'
            )
        if not 0 < self.quantum.bytes < 2**32:
            raise ValueError(f'quantum: found {self.quantum}, expected a size above 0 such as "1500 B"')
        return self

    @property
    def per_user(self) -> bool:
        """Whether each user has a queue."""
        return self.name != "drop-tail"

    @property
    def own(self) -> bool:
        """Whether it is none of ours."""
        return self.name not in SCHEDULERS

    @property
    def by_channel(self) -> bool:
        """Whether it looks at channels."""
        return self.name in _GOES_WITH["channel_delay"]
