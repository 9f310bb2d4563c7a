"""Tables of the members of each kind, and their part of a resolved run.

Written by ``make types`` from the engine's descriptors (``crates/units/src/descriptor.rs``); a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, model_validator

from bentpipe.scenario.base import (
    DecibelText,
    DurationText,
    PositiveText,
    ProbabilityText,
    SizeText,
    SymbolRateText,
    Table,
    as_table,
    check_options,
    check_range,
    construct_table,
)
from bentpipe.scenario.link import rules
from bentpipe.scenario.link.arq import Bits, CodeRate
from bentpipe.scenario.quantities import Duration, Probability, Size
from bentpipe.scenario.radio_quantities import Decibel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec.run_spec import AcmStageSpec, LinkLayerSpec, NrStageSpec, ReorderingSpec, RlcSpec
    from bentpipe.scenario.link.hooks import AcmHooks, LinkLayerHooks, NrHooks, RlcHooks

__all__ = ["AdaptiveCoding", "LinkLayer", "Nr", "ReorderingBuffer", "Rlc"]


class LinkLayer(Table):
    """A link layer over a channel, with the defaults of Tauran 2018 (section 3.4)."""

    scheme: Literal[
        "code",
        "stop-and-wait",
        "go-back-n",
        "selective-repeat",
        "harq-1",
        "harq-chase",
        "harq-2",
        "harq-3",
        "adaptive-harq",
    ]
    frame: SizeText
    overhead_bits: Annotated[StrictInt, Field(ge=0, le=1048576)] = 0
    first_overhead_bits: Annotated[StrictInt, Field(ge=0, le=1048576)] = 0
    code_rate: CodeRate | None = None
    coded_bits: Annotated[list[Bits], Field(min_length=1)] | None = None
    margin: Annotated[float, Field(ge=1.0, le=100.0)] = 1.05
    block_error_rate: Annotated[list[ProbabilityText], Field(min_length=1)] | None = None
    retransmissions: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    feedback_delay: PositiveText = Duration(20_000_000)
    feedback_loss: ProbabilityText = Probability(0.0)
    timeout: PositiveText | None = None
    window: Annotated[StrictInt, Field(ge=1, le=1048576)] | None = None
    mother_rate: CodeRate = 0.16666666666666666
    target_decoded_ratio: list[ProbabilityText] = Field(
        default=[Probability(0.5), Probability(0.7), Probability(0.85)]
    )

    option_owners: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "code_rate": (
            "code",
            "stop-and-wait",
            "go-back-n",
            "selective-repeat",
            "harq-1",
            "harq-chase",
            "harq-2",
            "harq-3",
        ),
        "block_error_rate": (
            "code",
            "stop-and-wait",
            "go-back-n",
            "selective-repeat",
            "harq-1",
            "harq-chase",
            "harq-2",
            "harq-3",
        ),
        "retransmissions": (
            "stop-and-wait",
            "go-back-n",
            "selective-repeat",
            "harq-1",
            "harq-chase",
            "harq-2",
            "harq-3",
            "adaptive-harq",
        ),
        "feedback_delay": (
            "stop-and-wait",
            "go-back-n",
            "selective-repeat",
            "harq-1",
            "harq-chase",
            "harq-2",
            "harq-3",
            "adaptive-harq",
        ),
        "feedback_loss": (
            "stop-and-wait",
            "go-back-n",
            "selective-repeat",
            "harq-1",
            "harq-chase",
            "harq-2",
            "harq-3",
            "adaptive-harq",
        ),
        "timeout": (
            "stop-and-wait",
            "go-back-n",
            "selective-repeat",
            "harq-1",
            "harq-chase",
            "harq-2",
            "harq-3",
            "adaptive-harq",
        ),
        "window": (
            "go-back-n",
            "selective-repeat",
            "harq-1",
            "harq-chase",
            "harq-2",
            "harq-3",
            "adaptive-harq",
        ),
        "mother_rate": ("harq-2", "harq-3", "adaptive-harq"),
        "target_decoded_ratio": ("adaptive-harq",),
    }
    """The members that have an option, unless all have it."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        check_options(self.scheme, self.model_fields_set, self.option_owners)
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range("frame", self.frame, Size(1), Size(65_535))
        rules.linklayer(self)
        return self

    def to_spec(self, hooks: LinkLayerHooks) -> LinkLayerSpec:
        """Return the member in the resolved run."""
        if self.scheme in ("code", "stop-and-wait", "selective-repeat", "harq-1"):
            code: LinkLayerSpec = {
                "frame_bytes": self.frame.bytes,
                "overhead_bits": self.overhead_bits,
                "combining": "none",
                "repeat": "selective",
                **hooks.link_layer(),
            }
            if self.first_overhead_bits != 0:
                code["first_overhead_bits"] = self.first_overhead_bits
            return code
        if self.scheme == "go-back-n":
            go_back_n: LinkLayerSpec = {
                "frame_bytes": self.frame.bytes,
                "overhead_bits": self.overhead_bits,
                "combining": "none",
                "repeat": "go_back_n",
                **hooks.link_layer(),
            }
            if self.first_overhead_bits != 0:
                go_back_n["first_overhead_bits"] = self.first_overhead_bits
            return go_back_n
        if self.scheme == "harq-chase":
            harq_chase: LinkLayerSpec = {
                "frame_bytes": self.frame.bytes,
                "overhead_bits": self.overhead_bits,
                "combining": "chase",
                "repeat": "selective",
                **hooks.link_layer(),
            }
            if self.first_overhead_bits != 0:
                harq_chase["first_overhead_bits"] = self.first_overhead_bits
            return harq_chase
        if self.scheme in ("harq-2", "harq-3", "adaptive-harq"):
            harq_2: LinkLayerSpec = {
                "frame_bytes": self.frame.bytes,
                "overhead_bits": self.overhead_bits,
                "combining": "incremental",
                "repeat": "selective",
                **hooks.link_layer(),
            }
            if self.first_overhead_bits != 0:
                harq_2["first_overhead_bits"] = self.first_overhead_bits
            return harq_2
        raise AssertionError(f"no descriptor of {self.scheme}")


class Rlc(Table):
    """RLC (TS 38.322). A bare word is ``mode``. docs/explanation/link-layer.md has the defaults of timers."""

    mode: Literal["am", "um"]
    poll_pdus: Annotated[StrictInt, Field(ge=1, le=65_536)] | None = 32
    poll_bytes: SizeText | None = None
    poll_retransmit: PositiveText | None = None
    reassembly: DurationText | None = None
    status_prohibit: DurationText | None = None
    max_retransmissions: Annotated[StrictInt, Field(ge=1, le=32)] = 32

    option_owners: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "poll_pdus": ("am",),
        "poll_bytes": ("am",),
        "poll_retransmit": ("am",),
        "reassembly": ("am",),
        "status_prohibit": ("am",),
        "max_retransmissions": ("am",),
    }
    """The members that have an option, unless all have it."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        check_options(self.mode, self.model_fields_set, self.option_owners)
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range("poll_bytes", self.poll_bytes, Size(1), None)
        return self

    def to_spec(self, hooks: RlcHooks) -> RlcSpec:
        """Return the member in the resolved run."""
        if self.mode == "am":
            return {
                "kind": "acknowledged",
                "poll_pdus": hooks.poll_pdus(self.poll_pdus, "poll_pdus"),
                "poll_bytes": None if self.poll_bytes is None else self.poll_bytes.bytes,
                "poll_retransmit_ns": hooks.poll_retransmit_ns(self.poll_retransmit, "poll_retransmit"),
                "reassembly_ns": hooks.reassembly_ns(self.reassembly, "reassembly"),
                "status_prohibit_ns": hooks.status_prohibit_ns(self.status_prohibit, "status_prohibit"),
                "max_retransmissions": self.max_retransmissions,
            }
        if self.mode == "um":
            return {"kind": "unacknowledged"}
        raise AssertionError(f"no descriptor of {self.mode}")


class Nr(Table):
    """A bearer of 5G New Radio: transport blocks in slots, HARQ processes, RLC and PDCP (3GPP Release 17)."""

    slot: PositiveText = Duration(1_000_000)
    processes: Annotated[StrictInt, Field(ge=1, le=32)] = 16
    feedback_disabled_processes: Annotated[StrictInt, Field(ge=0, le=32)] = 0
    repetitions: Annotated[StrictInt, Field(ge=1, le=8)] = 1
    retransmissions: Annotated[StrictInt, Field(ge=0, le=1000)] = 3
    scheduling_offset: Annotated[StrictInt, Field(ge=0, le=1024)] = 0
    block_error_rate: Annotated[list[ProbabilityText], Field(min_length=1)] | None = None
    code_rate: CodeRate | None = None
    combining: Literal["none", "chase", "incremental"] = "incremental"
    margin: Annotated[float, Field(ge=1.0, le=100.0)] = 1.05
    feedback_delay: PositiveText | None = None
    feedback_loss: ProbabilityText = Probability(0.0)
    rlc: Annotated[Rlc, as_table("mode")] = construct_table(Rlc, mode="am")
    in_order: StrictBool = True
    reordering: DurationText | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range("slot", self.slot, Duration(15_625), Duration(100_000_000))
        rules.nr(self)
        return self

    def to_spec(self, hooks: NrHooks) -> NrStageSpec:
        """Return the member in the resolved run."""
        return {
            "kind": "nr",
            "slot_ns": self.slot.ns,
            "processes": self.processes,
            "feedback_disabled_processes": self.feedback_disabled_processes,
            "repetitions": self.repetitions,
            "offset_slots": self.scheduling_offset,
            "combining": self.combining,
            "rlc": hooks.rlc(self.rlc, "rlc"),
            **hooks.bearer(),
        }


class AdaptiveCoding(Table):
    """Adaptive coding and modulation: the rate follows the reports of the receivers (ETSI EN 302 307-1)."""

    symbol_rate: SymbolRateText
    report_delay: DurationText
    report_interval: PositiveText = Duration(100_000_000)
    margin: DecibelText = Decibel(0.0)
    hysteresis: DecibelText = Decibel(0.0)
    modes: Annotated[list[StrictStr], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_range("report_delay", self.report_delay, None, Duration(1_000_000_000))
        check_range("margin", self.margin, Decibel(0), Decibel(100))
        check_range("hysteresis", self.hysteresis, Decibel(0), Decibel(100))
        return self

    def to_spec(self, hooks: AcmHooks) -> AcmStageSpec:
        """Return the member in the resolved run."""
        return {
            "kind": "acm",
            "symbols_s": self.symbol_rate.symbols_s,
            "report_delay_ns": self.report_delay.ns,
            "report_interval_ns": self.report_interval.ns,
            "margin_db": self.margin.db,
            "hysteresis_db": self.hysteresis.db,
            "modes": hooks.modes(self.modes, "modes"),
            **hooks.queue_and_channel(),
        }


class ReorderingBuffer(Table):
    """A buffer behind a link layer that restores the order of packets (Tauran 2018, section 4.4.1)."""

    packets: Annotated[StrictInt, Field(ge=0, le=1048576)] = 125
    time_limit: PositiveText | None = None
    numbering: Literal["link", "tcp"] = "link"

    def to_spec(self) -> ReorderingSpec:
        """Return the member in the resolved run."""
        return {
            "packets": self.packets,
            "time_limit_ns": None if self.time_limit is None else self.time_limit.ns,
            "numbering": self.numbering,
        }
