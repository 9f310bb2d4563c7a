"""Calls as their listeners would judge them: ``playout`` (what comes in time), ``emodel`` (R and MOS, ITU-T G.107) and
``judge``, which puts both to a store."""

from bentpipe.metrics.call_quality.e_model import EModel, idd, ie_eff, mos
from bentpipe.metrics.call_quality.playout import Playout, PlayoutError, parse
from bentpipe.metrics.call_quality.rating import GOOD, Judge, judge, over_cells, refusals

__all__ = [
    "GOOD", "EModel", "Judge", "Playout", "PlayoutError", "idd", "ie_eff", "judge", "mos", "over_cells", "parse",
    "refusals",
]  # fmt: skip
