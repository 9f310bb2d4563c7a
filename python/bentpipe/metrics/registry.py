"""Registry of all metrics: column, titles, unit and scale factor from the column to the unit."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["METRICS", "Metric"]


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric of a run, a flow or a link, with its titles and display unit."""

    name: str
    """Column of the metric."""
    title: str
    """Title on a page."""
    unit: str = ""
    """Display unit."""
    scale: float = 1.0
    """Factor from the column to the display unit."""
    short_title: str = ""
    """Title in the terminal; empty: ``title``."""
    single_title: str = ""
    """Title in the terminal without another metric of the same kind; empty: ``short_title``."""
    group_title: str = ""
    """Title beside a related metric whose title has the common part."""

    skewed: bool = False
    """Whether tables show the median over seeds, because a few large values dominate the mean."""

    @property
    def heading(self) -> str:
        """Column heading in the terminal, with the unit."""
        return f"{self.short_title or self.title} {self.unit}".rstrip()

    @property
    def heading_alone(self) -> str:
        """Column heading in the terminal without another metric of the same kind."""
        return f"{self.single_title or self.short_title or self.title} {self.unit}".rstrip()

    @property
    def axis(self) -> str:
        """Axis title of a figure, with the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def is_window(self) -> bool:
        """Whether the metric is a congestion window, which may be unlimited."""
        return self.name in ("cwnd_bytes", "largest_cwnd_bytes")

    def within(self, unit: str, factor: float) -> Metric:
        """Return the metric in another unit; ``factor`` leads from the column to it."""
        return replace(self, unit=unit, scale=factor)


_ALL = (
    # flow
    Metric("goodput_bit_s", "goodput", "Mbit/s", 1e-6),
    Metric("retransmission_ratio", "sent again", "%", 100.0),
    Metric("sent_again_percent", "sent again", "%"),
    Metric("delivery_p50_s", "delivery, median", "s", short_title="delivery p50"),
    Metric("completion_s", "completion time", "s"),
    Metric("completion_mean_s", "completion, restricted mean", "s", short_title="completion mean"),
    Metric("finished_ratio", "finished", "%", 100.0),
    Metric(
        "completion_p50_s",
        "completion, median",
        "s",
        short_title="completion p50",
        single_title="median completion",
    ),
    Metric("completion_p95_s", "completion, p95", "s", short_title="completion p95"),
    Metric("handshake_s", "handshake", "s"),
    Metric("cwnd_bytes", "window", "kB", 1e-3),
    Metric("largest_cwnd_bytes", "largest window", "kB", 1e-3, short_title="largest cwnd"),
    Metric("ack_bytes", "ACK volume", "kB", 1e-3),
    Metric("smoothed_rtt_ms", "RTT", "ms", short_title="mean RTT"),
    Metric("least_rtt_ms", "least RTT", "ms"),
    Metric("harm", "harm", "%", 100.0),
    # all flows of a run
    Metric("jain", "Jain's index", short_title="Jain"),
    Metric("convergence_s", "fair after", "s", short_title="median fair after", skewed=True),
    # group of flows
    Metric("flows", "flows"),
    Metric("goodput_p5_bit_s", "goodput, 5th percentile", "Mbit/s", 1e-6, group_title="5th percentile"),
    Metric("goodput_p50_bit_s", "goodput, 50th percentile", "Mbit/s", 1e-6, group_title="50th"),
    Metric("goodput_p95_bit_s", "goodput, 95th percentile", "Mbit/s", 1e-6, group_title="95th"),
    Metric("goodput_sum_bit_s", "goodput, all together", "Mbit/s", 1e-6, group_title="all together"),
    Metric("group_jain", "Jain's index within"),
    Metric("share_percent", "share", "%"),
    # link
    Metric("rate_bit_s", "rate", "Mbit/s", 1e-6),
    Metric("propagation_ms", "propagation", "ms"),
    Metric("utilisation", "used", "%", 100.0),
    Metric("lost_ratio", "lost", "%", 100.0),
    Metric("overflow_ratio", "dropped, queue full", "%", 100.0),
    Metric("marked_ratio", "marked CE", "%", 100.0),
    Metric("decoded_ratio", "decoded", "%", 100.0),
    Metric("queueing_p50_ms", "queueing, p50", "ms"),
    Metric("queueing_p95_ms", "queueing, p95", "ms", short_title="queueing p95", group_title="p95"),
    Metric("queueing_p99_ms", "queueing, p99", "ms", group_title="p99"),
    Metric("queueing_max_ms", "queueing, max", "ms", group_title="max"),
    # users of a shared link
    Metric("user_goodput_min_bit_s", "goodput of a user, least", "Mbit/s", 1e-6, short_title="least"),
    Metric("user_goodput_mean_bit_s", "goodput of a user, mean", "Mbit/s", 1e-6, short_title="mean"),
    Metric("user_goodput_max_bit_s", "goodput of a user, most", "Mbit/s", 1e-6, short_title="most"),
    Metric("user_goodput_sd_bit_s", "goodput of a user, sd", "Mbit/s", 1e-6, short_title="sd"),
    Metric("user_goodput_sum_bit_s", "goodput of all users", "Mbit/s", 1e-6, short_title="all"),
    Metric("user_jain", "Jain's index of users", short_title="Jain"),
    Metric("user_wait_ms", "wait of a packet", "ms", short_title="wait"),
    Metric("user_longest_wait_ms", "longest wait of a packet", "ms", short_title="longest"),
    Metric("user_no_room_ratio", "found no room", "%", 100.0, short_title="no room"),
    Metric("user_timed_out_ratio", "waited for too long", "%", 100.0, short_title="timed out"),
    Metric("user_given_up_ratio", "given up by the link", "%", 100.0, short_title="given up"),
    Metric("user_first_ratio", "decoded at once", "%", 100.0, short_title="at once"),
    Metric("user_air_ratio", "air", "%", 100.0),
    Metric("user_best_ms", "the best stays best for", "ms", short_title="best for"),
    # call
    Metric("delay_ms", "delay, one way", "ms", short_title="delay"),
    Metric("jitter_ms", "jitter", "ms"),
    Metric("late_ratio", "too late", "%", 100.0),
    Metric("mouth_to_ear_ms", "mouth to ear", "ms"),
    Metric("rating", "R"),
    Metric("mos", "mean opinion score", short_title="MOS"),
    Metric("mos_least", "least mean opinion score", short_title="least MOS"),
    Metric("refused_ratio", "calls refused", "%", 100.0, short_title="refused"),
    Metric("good_ratio", "calls at 3.5 or better", "%", 100.0, short_title="at 3.5 or better"),
    # client of bundle nodes
    Metric("generated_bundles", "bundles generated", short_title="generated"),
    Metric("delivered_bundles", "bundles delivered", short_title="delivered"),
    Metric("acknowledged_bundles", "bundles acknowledged", short_title="acknowledged"),
    Metric("deleted_bundles", "bundles of which a copy was deleted", short_title="deleted"),
    Metric("acknowledged_bit_s", "acknowledged payload over time", "Mbit/s", 1e-6, short_title="goodput"),
    Metric("generated_bit_s", "generated payload over duration", "Mbit/s", 1e-6, short_title="generated"),
    Metric("bundle_delay_p50_s", "time to delivery, median", "s", short_title="delay p50"),
    # page load
    Metric("loads_finished", "loads finished", "%", 100.0),
    Metric("connect_s", "connection set-up", "s", short_title="connect"),
    Metric("ttr_s", "time to response", "s", short_title="TTR"),
    Metric("plt_s", "page load time", "s", short_title="PLT"),
    # real program over an emulated path
    Metric("command_s", "wall time", "s"),
    Metric("up_bytes", "carried up", "kB", 1e-3),
    Metric("down_bytes", "carried down", "kB", 1e-3),
)

METRICS = {metric.name: metric for metric in _ALL}
"""Metrics by name. Their definitions are in docs/manual/results.md."""
