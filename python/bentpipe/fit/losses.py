"""Single losses of TCP's segments, bounded by its retransmissions: pings are lost that other packets are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.fit.formats import Transfer
    from bentpipe.fit.model import Model

__all__ = ["direction_losses", "mean_single", "most_single"]

OUTAGE = 1.0
"""Loss of a slot without an answer. Retransmissions do not bound it: TCP hardly sends then."""


def most_single(transfer: Transfer) -> float | None:
    """Bound the probability with which a segment is lost by itself, independently of others.

    Each loss brings a retransmission, so the share of retransmissions is one bound. Bursts and overflows of queues are
    in it. Where the log has intervals, a second bound leaves these out: under independent losses of probability p an
    interval of n segments has one retransmission p n times as often as none (Poisson), so the counts of intervals with
    one and with none give p.

    Returns:
        the smaller bound; None: the log has no retransmissions of this direction.
    """
    pairs = transfer.intervals or transfer.whole
    segments = sum(sent for sent, _ in pairs)
    if segments <= 0:
        return None
    share = min(1.0, sum(count for _, count in pairs) / segments)
    clean = [sent for sent, count in pairs if count == 0 and sent > 0]
    if not transfer.intervals or not clean:
        return share
    single = sum(count == 1 for _, count in pairs)
    return min(share, single / sum(clean))


def mean_single(table: Sequence[float]) -> float:
    """Return the mean of a table's single losses; slots that lose everything are left out."""
    known = [one for one in table if one < OUTAGE]
    return sum(known) / len(known) if known else 0.0


def direction_losses(model: Model, part: float, side: str) -> list[float]:
    """Return the quantiles of single losses of one direction, with a mean of ``model.most_loss`` at most.

    Args:
        model: of a log of pings.
        part: of the pings' losses that this direction has; a slot that loses everything does so in both.
        side: ``"up"`` or ``"down"``.
    """
    most, mean = model.most_loss.get(side), part * mean_single(model.loss)
    if most is not None and mean > most:
        part *= most / mean
    return [one if one >= OUTAGE else one * part for one in model.loss]
