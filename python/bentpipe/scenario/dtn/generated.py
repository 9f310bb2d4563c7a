"""Tables of the members of each kind, and their part of a resolved run.

Written by ``make types`` from the engine's descriptors (``crates/units/src/descriptor.rs``); a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from bentpipe.scenario.base import DurationText, RateText, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec.run_spec import ClaSpec, LtpClaSpec, TcpclClaSpec

__all__ = ["ClaOptions"]

LAYERS = ("quiccl", "quiccl-each", "quiccl-priorities", "qubicle", "tcpcl", "mtcp", "ltp", "ltp-green")
"""The convergence layers."""

Layer = Literal["quiccl", "quiccl-each", "quiccl-priorities", "qubicle", "tcpcl", "mtcp", "ltp", "ltp-green"]
"""A convergence layer."""

TRANSPORTS: Mapping[str, str] = {
    "quiccl": "quic",
    "quiccl-each": "quic",
    "quiccl-priorities": "quic",
    "qubicle": "quic",
    "tcpcl": "tcp",
    "mtcp": "tcp",
    "ltp": "udp",
    "ltp-green": "udp",
}
"""The transport of each convergence layer."""


class ClaOptions(Table):
    """The options of convergence layers."""

    tls: Literal["no", "require"] = "no"
    rate: RateText | None = None
    owlt: DurationText | None = None

    option_owners: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "tls": ("tcpcl",),
        "rate": ("ltp", "ltp-green"),
        "owlt": ("ltp", "ltp-green"),
    }
    """The members that have an option, unless all have it."""

    def to_spec(self, name: str) -> ClaSpec:
        """Return the member in the resolved run."""
        if name == "quiccl":
            return {"kind": "quiccl", "streams": "one"}
        if name == "quiccl-each":
            return {"kind": "quiccl", "streams": "each"}
        if name == "quiccl-priorities":
            return {"kind": "quiccl", "streams": "priorities"}
        if name == "qubicle":
            return {"kind": "qubicle"}
        if name == "tcpcl":
            tcpcl: TcpclClaSpec = {"kind": "tcpcl"}
            if self.tls != "no":
                tcpcl["tls"] = self.tls
            return tcpcl
        if name == "mtcp":
            return {"kind": "mtcp"}
        if name == "ltp":
            ltp: LtpClaSpec = {"kind": "ltp", "colour": "red"}
            if self.rate is not None:
                ltp["rate_bit_s"] = self.rate.bit_s
            if self.owlt is not None:
                ltp["owlt_ns"] = self.owlt.ns
            return ltp
        if name == "ltp-green":
            ltp_green: LtpClaSpec = {"kind": "ltp", "colour": "green"}
            if self.rate is not None:
                ltp_green["rate_bit_s"] = self.rate.bit_s
            if self.owlt is not None:
                ltp_green["owlt_ns"] = self.owlt.ns
            return ltp_green
        raise AssertionError(f"no descriptor of {name}")
