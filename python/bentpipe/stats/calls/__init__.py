"""Calls as their listeners would judge them: ``playout`` (what comes in time), ``emodel`` (R and MOS, ITU-T G.107) and
``judge``, which puts both to a store."""

from bentpipe.stats.calls.emodel import EModel, idd, ie_eff, mos
from bentpipe.stats.calls.judge import GOOD, Judge, judge, over_cells, refusals
from bentpipe.stats.calls.playout import Playout, PlayoutError, parse

__all__ = [
    "GOOD", "EModel", "Judge", "Playout", "PlayoutError", "idd", "ie_eff", "judge", "mos", "over_cells", "parse",
    "refusals",
]  # fmt: skip
