"""Single losses of TCP's segments, bounded by its retransmissions: pings are lost that other packets are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.fit.log_formats import Transfer
    from bentpipe.fit.model import Model

__all__ = ["bound_losses", "direction_losses", "drawn_mean", "single_loss_bound"]


def single_loss_bound(transfer: Transfer) -> float | None:
    """Bound the probability with which a segment is lost by itself, independently of others.

    Each loss causes a retransmission, so the share of retransmissions is one bound. It includes bursts and overflows
    of queues. A log with intervals permits a second bound without these. Under independent losses of probability p, an
    interval of n segments has one retransmission p n times as often as none (Poisson). The counts of both give p.

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


def drawn_mean(table: Sequence[float]) -> float:
    """Return the mean of what is drawn from a table of quantiles, which is linear between them."""
    if len(table) < 2:
        return sum(table)
    return (sum(table) - (table[0] + table[-1]) / 2) / (len(table) - 1)


def bound_losses(table: Sequence[float], part: float, max_mean: float | None) -> list[float]:
    """Return ``part`` of each loss of a table, or less, so that what is drawn has a mean of ``most`` at most."""
    mean = part * drawn_mean(table)
    if max_mean is not None and mean > max_mean:
        part *= max_mean / mean
    return [one * part for one in table]


def direction_losses(model: Model, part: float, side: str) -> list[float]:
    """Return the quantiles of single losses of one direction, with a mean of ``model.most_loss`` at most.

    Args:
        model: of a log of pings.
        part: of the pings' single losses that this direction has. An outage is both directions'.
        side: ``"up"`` or ``"down"``.
    """
    return bound_losses(model.loss, part, model.most_loss.get(side))
