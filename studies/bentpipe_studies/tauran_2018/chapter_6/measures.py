"""Measures of each run of chapter 6, one row for each run: TCP users, calls, and users that always have data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.call_quality.rating import RatingConfig, rate_rows
from bentpipe_studies.tauran_2018.cells import SEGMENT
from bentpipe_studies.tauran_2018.runs import LINK, RunMeasures

if TYPE_CHECKING:
    from bentpipe.store.reader import Store
    from bentpipe_studies.parts import Measurements

__all__ = ["Backlogged", "Callers", "Terminals"]

WAY_BACK_MS = 85.0
"""Time of the ACK in a TCP round trip; the rest is the time of the packet."""

DATAGRAM_BYTES, FRAME_BYTES = 210, 1115
LISTENER = RatingConfig(codec="g711", advantage=20.0)
"""64 kb/s are G.711 (here with its concealment); satellite users forgive 20 (p. 101); play-out adapts."""

_ATTEMPTS = [f"decoded_after_{n}_packets" for n in range(4)]
_TOTAL = ("airtime_s", "coded_bits", "dropped_retry_limit_packets", "decoded_after_more_packets", *_ATTEMPTS)


def _link(store: Store) -> pl.DataFrame:
    """Return measures of the radio link over all users: decoded packets, coded bits and airtime."""
    users = store.rows("radio_users").filter(pl.col("link") == LINK)
    users = users.group_by("run", "user", maintain_order=True).last()
    whole = users.group_by("run", maintain_order=True).agg(
        pl.col("time_s").max(), *(pl.col(name).sum() for name in _TOTAL)
    )
    decoded, given_up = pl.sum_horizontal(_ATTEMPTS), pl.col("dropped_retry_limit_packets")
    return whole.select(
        "run", "time_s",
        packets_s=decoded / pl.col("time_s"),
        bits=pl.col("coded_bits") / (decoded + given_up),
        coded_mbps=pl.col("coded_bits") / pl.col("time_s") / 1e6,
        air=pl.col("airtime_s") / pl.col("time_s"),
        given_up=100 * given_up / (decoded + given_up),
        **{f"decoded_{n}": 100 * pl.col(name) / decoded for n, name in enumerate(_ATTEMPTS)},
    )  # fmt: skip


def _drops(store: Store) -> pl.DataFrame:
    """Return drops by cause, % of packets that arrived at the link."""
    links = store.rows("link_summary").filter(pl.col("link") == LINK)
    came = pl.col("arrived_packets")
    causes = {"no_room": "overflow", "timed_out": "aqm", "not_decoded": "retry_limit"}
    return links.select(
        "run", **{name: 100 * pl.col(f"dropped_{cause}_packets") / came for name, cause in causes.items()}
    )


def _congestion(sender: pl.DataFrame, store: Store) -> pl.DataFrame:
    """Add the ratio of queue drops over retransmissions: each drop is retransmitted, most of them once."""
    links = store.rows("link_summary").filter(pl.col("link") == LINK)
    dropped = pl.col("dropped_overflow_packets") + pl.col("dropped_aqm_packets")
    refused = pl.when(pl.col("resent") > 0).then(100 * pl.col("dropped") / pl.col("resent"))
    both = sender.join(links.select("run", dropped=dropped), on="run", how="left", maintain_order="left")
    return both.select(pl.exclude("resent", "dropped"), refused=refused)


def _best(store: Store) -> pl.DataFrame:
    """Return the mean duration for which the best channel stays best, ms; null if the scheduler ignores it."""
    queues = store.rows("user_queues")
    if "best_channel_s" not in queues.columns:
        return pl.DataFrame(schema={"run": pl.String, "best_ms": pl.Float64})
    spells = pl.col("best_channel_periods").sum()
    return queues.group_by("run", maintain_order=True).agg(
        best_ms=pl.when(spells > 0).then(1e3 * pl.col("best_channel_s").sum() / spells)
    )


def _shown(store: Store, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    found = frames[0]
    for frame in frames[1:]:
        found = found.join(frame, on="run", how="left", maintain_order="left")
    return store.shown(store.index.join(found, on="run", how="inner", maintain_order="left"))


class Terminals(RunMeasures):
    """Runs of section 6.4.

    Goodput is in Mb/s. Events and retransmissions are % of packets sent. Packets that the queue dropped
    (``refused``) are %
    of the retransmitted ones.
    """

    def __init__(self, measurements: Measurements, part: str) -> None:
        super().__init__(pl.DataFrame())
        self.each = pl.DataFrame()
        store = measurements.store(part)
        if store is None:
            return
        summary = store.rows("flow_summary")
        server, client = (summary.filter(pl.col("side") == side) for side in ("server", "client"))
        link = _link(store)
        goodput = pl.col("received_in_order_bytes") * 8 / pl.col("time_s") / 1e6
        self.each = client.join(link.select("run", "time_s"), on="run").select("run", "flow", goodput=goodput)
        users = self.each.group_by("run", maintain_order=True).agg(
            least=pl.col("goodput").min(), mean=pl.col("goodput").mean(), most=pl.col("goodput").max(),
            sd=pl.col("goodput").std(), total=pl.col("goodput").sum(),
        )  # fmt: skip
        data = (pl.col("sent_packets") - pl.col("ack_packets")).sum()
        resent = pl.col("retransmitted_bytes").sum() / SEGMENT
        sender = server.group_by("run", maintain_order=True).agg(
            resent=resent,
            again=100 * resent / data,
            rto=100 * pl.col("rtos").sum() / data,
            dupack=100 * pl.col("congestion_events").sum() / data,
        )
        frames = [
            link, users, _congestion(sender, store),
            _drops(store), _best(store), _way(store), _delivery(store),
        ]  # fmt: skip
        self.frame = _shown(store, frames)

    def goodputs(self, cell: dict[str, str]) -> list[float]:
        """Return the goodput of every user of a cell, all seeds together."""
        runs = self.runs(cell)
        return self.each.filter(pl.col("run").is_in(runs))["goodput"].to_list() if runs else []


def _way(store: Store) -> pl.DataFrame:
    """Return the mean time from sender to receiver: the smoothed round trip less the way back."""
    rows = store.rows("tcp_counters")
    if "rtt_samples" not in rows.columns:
        return pl.DataFrame(schema={"run": pl.String, "way_ms": pl.Float64})
    rows = rows.filter(
        (pl.col("side") == "server") & (pl.col("time_s") == pl.col("time_s").max().over("run"))
    )
    sums = rows.group_by("run", maintain_order=True).agg(pl.col("smoothed_rtt_s", "rtt_samples").sum())
    return sums.select("run", way_ms=1e3 * pl.col("smoothed_rtt_s") / pl.col("rtt_samples") - WAY_BACK_MS)


def _delivery(store: Store) -> pl.DataFrame:
    """Return the mean time from the first transmission of a byte to in-order reception, by Little's law, ms.

    It is the integral of bytes sent and not yet delivered in order, over the bytes delivered meanwhile. It begins at
    the first sample, and is null with fewer than two samples.
    """
    tcp = store.rows("tcp_counters")
    if not tcp.height:
        return pl.DataFrame(schema={"run": pl.String, "delivery_ms": pl.Float64})
    sent = tcp.filter(pl.col("side") == "server").group_by("run", "time_s", maintain_order=True).agg(
        sent=SEGMENT * (pl.col("data_segments") - pl.col("retransmitted_segments")).sum()
    )  # fmt: skip
    flows = store.rows("flows", ["time_s", "side", "received_in_order_bytes"])
    came = flows.filter(pl.col("side") == "client").group_by("run", "time_s", maintain_order=True).agg(
        came=pl.col("received_in_order_bytes").sum()
    )  # fmt: skip
    steps = sent.join(came, on=["run", "time_s"], how="inner", maintain_order="left").sort("run", "time_s")
    waiting = pl.col("sent") - pl.col("came")
    between = (waiting + waiting.shift(1)) / 2 * pl.col("time_s").diff()
    arrived = pl.col("came").last() - pl.col("came").first()
    return steps.group_by("run", maintain_order=True).agg(
        delivery_ms=pl.when(arrived > 0).then(1e3 * between.sum() / arrived)
    )


class Callers(RunMeasures):
    """Runs of section 6.3. Loads in Mb/s without padding: of 50 Mb/s, 9.4 (p. 96)."""

    def __init__(self, measurements: Measurements, part: str) -> None:
        super().__init__(pl.DataFrame())
        store = measurements.store(part)
        if store is None:
            return
        rows, link = store.rows("calls"), _link(store)
        calls = rate_rows(rows, store.rows("call_delays"), LISTENER)
        ratings = calls.group_by("run", maintain_order=True).agg(
            pl.col("delay_ms", "jitter_ms", "mos").mean(), late=100 * pl.col("late_ratio").mean()
        )
        counts = rows.group_by("run", maintain_order=True).agg(
            pl.col("sent_packets", "received_packets", "pending_packets").sum()
        )
        known = pl.col("sent_packets") - pl.col("pending_packets")
        load = counts.join(
            link.select("run", "time_s", "coded_mbps"), on="run", maintain_order="left"
        ).select(
            "run",
            loss=100 * (1 - pl.col("received_packets") / known),
            useful_mbps=pl.col("received_packets") * DATAGRAM_BYTES * 8 / pl.col("time_s") / 1e6,
            load_mbps=pl.col("coded_mbps") * DATAGRAM_BYTES / FRAME_BYTES,
        )
        self.frame = _shown(store, [link, ratings, load, _drops(store), _best(store)])


class Backlogged(RunMeasures):
    """Runs of figure 6.3: delivered packets a second, and duration for which the best channel stays best."""

    def __init__(self, measurements: Measurements, part: str) -> None:
        store = measurements.store(part)
        super().__init__(pl.DataFrame() if store is None else _shown(store, [_link(store), _best(store)]))
        self.steps = pl.DataFrame() if store is None else _steps(store)

    def over_time(self, cell: Mapping[str, str]) -> list[tuple[float, float]]:
        """Return (time in s, packets/s) of a cell's first run, at the end of each sample interval."""
        first = self.runs(cell)[:1]
        found = self.steps.filter(pl.col("run").is_in(first)) if first else pl.DataFrame()
        return list(found.select("time_s", "packets_s").iter_rows()) if found.height else []


def _steps(store: Store) -> pl.DataFrame:
    """Return the packets that the link decoded of all users between two samples."""
    users = store.rows("radio_users").filter(pl.col("link") == LINK)
    whole = users.group_by("run", "time_s", maintain_order=True).agg(
        decoded=pl.sum_horizontal(_ATTEMPTS).sum()
    )
    whole = whole.sort("run", "time_s")
    rate = pl.col("decoded").diff().over("run") / pl.col("time_s").diff().over("run")
    return whole.select("run", "time_s", packets_s=rate).drop_nulls()
