"""Quality of calls: late loss by play-out, R factor and mean opinion score.

- ``e_model``: R factor and MOS (ITU-T G.107)
- ``playout``: play-out delay and its rules
- ``rating``: ratings of the calls of a store
"""

from bentpipe.metrics.call_quality.e_model import EModel, idd, ie_eff, mos
from bentpipe.metrics.call_quality.playout import Playout, PlayoutError, parse
from bentpipe.metrics.call_quality.rating import (
    GOOD,
    MAX_MOS,
    RatingConfig,
    aggregate_cells,
    aggregate_runs,
    blocked_calls,
    rate_calls,
)

__all__ = [
    "GOOD",
    "MAX_MOS",
    "EModel",
    "Playout",
    "PlayoutError",
    "RatingConfig",
    "aggregate_cells",
    "aggregate_runs",
    "blocked_calls",
    "idd",
    "ie_eff",
    "mos",
    "parse",
    "rate_calls",
]  # fmt: skip
