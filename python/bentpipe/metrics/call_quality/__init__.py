"""Calls as their listeners would judge them: ``playout`` (what comes in time), ``emodel`` (R and MOS, ITU-T G.107) and
``rate_calls``, which puts both to a store."""

from bentpipe.metrics.call_quality.e_model import EModel, idd, ie_eff, mos
from bentpipe.metrics.call_quality.playout import Playout, PlayoutError, parse
from bentpipe.metrics.call_quality.rating import (
    GOOD,
    RatingConfig,
    aggregate_cells,
    blocked_calls,
    rate_calls,
)

__all__ = [
    "GOOD",
    "EModel",
    "Playout",
    "PlayoutError",
    "RatingConfig",
    "aggregate_cells",
    "blocked_calls",
    "idd",
    "ie_eff",
    "mos",
    "parse",
    "rate_calls",
]  # fmt: skip
