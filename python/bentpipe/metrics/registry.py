"""Registry of all metrics: name, titles, unit, scope, better direction, definition and expression.

A new metric is one entry of ``_ALL``. With an ``expression`` nothing else is needed: the tables of its scope, ``show``,
reports, ``diff``, exports, SQL and the manual have it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from bentpipe.metrics.intervals import ConfidenceInterval

__all__ = ["METRICS", "OVER_SEEDS", "Metric", "Scope", "column_unit", "compared", "in_flow_tables", "select"]


class Scope(StrEnum):
    """Object that a metric describes, and the columns that an expression of this scope can use."""

    FLOW = "flow"
    """Direction of a flow: columns of ``flow_summary`` of the sender, those of the receiver with the prefix
    ``receiver_``, and ``data_start_s``, ``data_end_s``, ``duration_s``."""
    RUN = "run"
    """Direction of a run: all flows together."""
    GROUP = "group"
    """Group of flows: aggregates over the metrics of its flows."""
    LINK = "link"
    """Direction of a link: columns of ``link_summary``, and ``end_s`` of the run."""
    USERS = "users"
    """Users of a shared link: aggregates over :func:`bentpipe.metrics.users.user_metrics`."""
    CALL = "call"
    """Direction of a call or another datagram flow."""
    PACKETS = "packets"
    """Packets of a direction, in runs with ``[trace] packets = true``."""
    BUNDLE_CLIENT = "bundle client"
    """dtnperf client of bundle nodes."""
    PAGE = "page load"
    PROGRAM = "program"
    """Real program over an emulated path."""
    SUITE = "suite"
    """Flow under test of a run of :mod:`bentpipe.suite`."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric with its titles, display unit and definition."""

    name: str
    """Column of the metric."""
    title: str
    """Title on a page."""
    unit: str = ""
    """Display unit."""
    scale: float = 1.0
    """Factor from the column to the display unit."""
    scope: Scope = Scope.FLOW
    other_scope: Scope | None = None
    """Second scope with a metric of this name."""
    of_bottleneck: bool = False
    """Whether the flows of a direction have this metric of their bottleneck link."""
    definition: str = ""
    """Definition, without a full stop."""
    better: int = 0
    """1: more is better, -1: less is better, 0: neither. ``diff`` compares metrics with a direction."""
    expression: str = ""
    """SQL expression over the columns of the scope; empty: a function of :mod:`bentpipe.metrics` computes it."""
    weight: str = ""
    """SQL expression of a flow's weight in the mean of its group; empty: equal weights."""
    short_title: str = ""
    """Title in the terminal; empty: ``title``."""
    single_title: str = ""
    """Title in the terminal without another metric of the same kind; empty: ``short_title``."""
    group_title: str = ""
    """Title beside a related metric whose title has the common part."""

    least: float = 0.0
    """Lower end of the range, in the unit of the column: no rate, time, count or share is negative."""
    most: float = math.inf
    """Upper end of the range, in the unit of the column."""
    is_skewed: bool = False
    """Whether tables show the median over seeds, because a few large values dominate the mean."""
    is_censored: bool = False
    """Whether a run without a value has no smaller one than the others, because its transfers did not finish."""
    is_difference: bool = False
    """Whether ``diff`` compares by difference (share, score or count) instead of by ratio."""
    is_compared: bool = True
    """Whether ``diff`` compares the metric, if it has a direction."""
    is_primary: bool = False
    """Whether ``diff`` tests the metric in the primary family."""
    is_service: bool = False
    """Whether a metric of users describes the service of the link: queueing delay, drops and airtime."""
    in_show: bool = True
    """Whether the table of ``show`` has the metric."""
    in_report: bool = True
    """Whether the table of a report has the metric."""

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
        return self.name in ("cwnd_bytes", "cwnd_max_bytes")

    def clip(self, interval: ConfidenceInterval) -> ConfidenceInterval:
        """Return the interval within the range of the metric; Student's interval does not know the range."""
        if interval.low is None or interval.high is None:
            return interval
        low = min(interval.estimate, max(interval.low, self.least))
        return replace(interval, low=low, high=max(interval.estimate, min(interval.high, self.most)))

    def within(self, unit: str, factor: float) -> Metric:
        """Return the metric in another unit; ``factor`` leads from the column to it."""
        return replace(self, unit=unit, scale=factor)


_GOODPUT = ("Mbit/s", 1e-6)
_PERCENT = ("%", 100.0)
_ALL = (
    # flows, and groups of flows
    Metric(
        "flows", "flows", scope=Scope.GROUP, expression="COUNT(*)", in_report=False,
        definition="number of flows of the group",
    ),
    Metric(
        "goodput_bit_s", "goodput", *_GOODPUT, better=1,
        expression="CASE WHEN duration_s > 0 THEN receiver_received_in_order_bytes * 8 / duration_s ELSE 0 END",
        definition="stream bytes that the receiving application can read in order, over the duration of the flow's "
        "data. The data of a flow with an unfinished stream ends with the run. A group has the mean over its flows.",
    ),
    Metric(
        "goodput_p5_bit_s", "goodput, 5th percentile", *_GOODPUT, scope=Scope.GROUP, group_title="5th percentile",
        expression="QUANTILE_CONT(goodput_bit_s, 0.05)",
        definition="5 % quantile of goodput over the flows of the group",
    ),
    Metric(
        "goodput_p50_bit_s", "goodput, 50th percentile", *_GOODPUT, scope=Scope.GROUP, group_title="50th",
        in_show=False, expression="MEDIAN(goodput_bit_s)", definition="median of goodput over the flows of the group",
    ),
    Metric(
        "goodput_p95_bit_s", "goodput, 95th percentile", *_GOODPUT, scope=Scope.GROUP, group_title="95th",
        expression="QUANTILE_CONT(goodput_bit_s, 0.95)",
        definition="95 % quantile of goodput over the flows of the group",
    ),
    Metric(
        "goodput_sum_bit_s", "total goodput", *_GOODPUT, scope=Scope.GROUP, group_title="total", in_show=False,
        expression="SUM(goodput_bit_s)", definition="sum of goodput over the flows of the group",
    ),
    Metric(
        "group_jain", "Jain's index of the group", scope=Scope.GROUP, in_show=False,
        expression="CASE WHEN COUNT(*) > 1 AND SUM(goodput_bit_s) > 0 THEN "
        "SUM(goodput_bit_s) * SUM(goodput_bit_s) / (COUNT(*) * SUM(goodput_bit_s * goodput_bit_s)) END",
        definition="Jain's index of the goodput of the flows of the group alone",
    ),
    Metric(
        "jain", "Jain's index", scope=Scope.RUN, short_title="Jain", better=1, is_difference=True,
        definition="(Σx)² / (n Σx²) of the goodput of all flows of the direction (Jain, Chiu and Hawe 1984). It is 1 "
        "if all are equal, and 1/n if one flow has everything. Two of the flows must share a link of limited rate at "
        "the same time. Calls and other datagrams beside other flows do not count.",
    ),
    Metric(
        "convergence_s", "convergence time", "s", scope=Scope.RUN, short_title="median convergence", better=-1,
        is_skewed=True,
        definition="time from the start of the last flow's data to the first fair window of 1 s (delta-fair "
        "convergence time, RFC 5166). From it on, Jain's index of the windows is at least 0.95 for 10 s. Tables have "
        "the median of the runs that converge.",
    ),
    Metric(
        "harm", "harm", *_PERCENT, in_show=False, better=-1, is_compared=False, least=-math.inf,
        definition="(solo − shared) / solo of the goodput; requires a run of the sweep with the flow alone "
        "(Ware et al. 2019)",
    ),
    Metric(
        "finished_ratio", "finished", *_PERCENT, in_show=False, in_report=False, better=1, is_difference=True,
        is_primary=True,
        definition="finished transfers over the transfers that began at least τ before the end of the run",
    ),
    Metric(
        "completion_mean_s", "completion, restricted mean", "s", short_title="completion mean",
        single_title="restricted mean completion time", in_show=False, in_report=False, better=-1, is_censored=True,
        is_primary=True,
        definition="mean of min(T, τ) of the completion times T; an unfinished transfer counts τ",
    ),
    Metric(
        "completion_s", "completion time", "s", short_title="completion", in_show=False, in_report=False,
        better=-1, is_compared=False, is_censored=True,
        definition="time from the opening of a stream to the last FIN with all bytes",
    ),
    Metric(
        "completion_p50_s", "completion, median", "s", short_title="completion p50", single_title="median completion",
        better=-1, is_censored=True, definition="median completion time over the finished streams of a run",
    ),
    Metric(
        "completion_p95_s", "completion, p95", "s", short_title="completion p95", in_show=False, better=-1,
        is_censored=True, definition="95 % quantile of the completion times over the finished streams of a run",
    ),
    Metric(
        "handshake_s", "handshake", "s", better=-1, is_compared=False,
        definition="time from the client's first packet of a connection to the end of the transport handshake; median "
        "over the connections of the flow. For TCP it excludes TLS, and ends at a proxy.",
    ),
    Metric(
        "retransmission_ratio", "retransmitted", *_PERCENT, better=-1, is_difference=True,
        expression="retransmitted_bytes / GREATEST(sent_bytes, 1)", weight="sent_bytes",
        definition="retransmitted stream bytes over all sent bytes, headers included",
    ),
    Metric("cwnd_bytes", "congestion window", "kB", 1e-3, short_title="cwnd", in_show=False, in_report=False,
           definition="congestion window at each sample"),
    Metric(
        "cwnd_max_bytes", "max cwnd", "kB", 1e-3, expression="cwnd_max_bytes",
        definition="largest congestion window of the sender; `unlimited` for a controller that only paces",
    ),
    Metric(
        "ack_bytes", "ACK volume", "kB", 1e-3, in_show=False, expression="receiver_ack_bytes",
        definition="bytes of packets of the receiver that elicit no ACK, headers included",
    ),
    Metric("smoothed_rtt_ms", "smoothed RTT", "ms", in_show=False, in_report=False,
           definition="mean of the smoothed RTT over the samples of a run"),
    Metric("rtt_min_ms", "min RTT", "ms", in_show=False, in_report=False, definition="smallest RTT of the sender"),
    Metric("share_percent", "share", "%", in_show=False, in_report=False,
           definition="goodput of a flow over the sum of the goodput of all flows of the direction"),
    Metric("delivery_p50_s", "delivery, median", "s", short_title="delivery p50", in_show=False, in_report=False,
           definition="median time from generation to delivery of bundles"),
    # directions of links
    Metric("rate_bit_s", "rate", *_GOODPUT, scope=Scope.LINK, in_report=False, definition="initial rate of the link"),
    Metric("propagation_ms", "propagation", "ms", scope=Scope.LINK, in_report=False,
           definition="initial propagation delay of the link"),
    Metric(
        "utilisation", "utilisation", *_PERCENT, scope=Scope.LINK, of_bottleneck=True, in_show=False,
        expression="sent_bytes * 8 / (rate_bit_s * end_s)",
        definition="transmission time of the sent bytes at the initial rate over the duration of the run",
    ),
    Metric(
        "lost_ratio", "packet loss", *_PERCENT, scope=Scope.LINK, other_scope=Scope.CALL, better=-1, is_difference=True,
        expression="dropped_loss_packets / GREATEST(arrived_packets, 1)",
        definition="link: packets lost by its loss model over arrived packets; call: datagrams that never arrive over "
        "datagrams with a known outcome",
    ),
    Metric(
        "overflow_ratio", "queue overflow", *_PERCENT, scope=Scope.LINK,
        expression="dropped_overflow_packets / GREATEST(arrived_packets, 1)",
        definition="packets dropped at a full queue over arrived packets",
    ),
    Metric(
        "marked_ratio", "marked CE", *_PERCENT, scope=Scope.LINK,
        expression="marked_packets / GREATEST(arrived_packets, 1)",
        definition="packets marked CE (RFC 3168) over arrived packets",
    ),
    Metric("queueing_p50_ms", "queueing delay, p50", "ms", scope=Scope.LINK, of_bottleneck=True, in_show=False,
           short_title="queueing p50", definition="median of the queueing delay"),
    Metric(
        "queueing_p95_ms", "queueing delay, p95", "ms", scope=Scope.LINK, of_bottleneck=True, better=-1,
        short_title="queueing p95", group_title="p95",
        definition="95 % quantile of the time that packets wait for the transmitter of the direction's bottleneck, "
        "without loss, transmission and propagation",
    ),
    Metric("queueing_p99_ms", "queueing delay, p99", "ms", scope=Scope.LINK, of_bottleneck=True, in_show=False,
           short_title="queueing p99", group_title="p99", definition="99 % quantile of the queueing delay"),
    Metric("queueing_max_ms", "queueing delay, max", "ms", scope=Scope.LINK, short_title="queueing max",
           group_title="max", definition="largest queueing delay"),
    Metric("decoded_ratio", "decoded", *_PERCENT, scope=Scope.LINK,
           definition="decoded packets over decoded and dropped packets of a radio link, over all users"),
    # users of a shared link
    Metric("user_goodput_min_bit_s", "per-user goodput, min", *_GOODPUT, scope=Scope.USERS, short_title="min", better=1,
           expression="MIN(goodput_bit_s)", definition="smallest goodput of a user"),
    Metric("user_goodput_mean_bit_s", "per-user goodput, mean", *_GOODPUT, scope=Scope.USERS, short_title="mean",
           better=1, expression="AVG(goodput_bit_s)", definition="mean goodput of the users"),
    Metric("user_goodput_max_bit_s", "per-user goodput, max", *_GOODPUT, scope=Scope.USERS, short_title="max",
           expression="MAX(goodput_bit_s)", definition="largest goodput of a user"),
    Metric("user_goodput_sd_bit_s", "per-user goodput, std", *_GOODPUT, scope=Scope.USERS, short_title="std",
           expression="STDDEV(goodput_bit_s)", definition="standard deviation (of a sample) of the users' goodput"),
    Metric("user_goodput_sum_bit_s", "total goodput of users", *_GOODPUT, scope=Scope.USERS, short_title="total",
           expression="SUM(goodput_bit_s)", definition="sum of the users' goodput"),
    Metric(
        "user_jain", "Jain's index, users", scope=Scope.USERS, short_title="Jain", better=1, is_difference=True,
        expression="SUM(goodput_bit_s) * SUM(goodput_bit_s) / NULLIF(COUNT(*) * SUM(goodput_bit_s * goodput_bit_s), 0)",
        definition="Jain's index of the users' goodput",
    ),
    Metric(
        "user_queueing_mean_ms", "queueing delay, mean", "ms", scope=Scope.USERS, short_title="queueing mean",
        better=-1, is_service=True, expression="1000 * SUM(queueing_sum_s) / NULLIF(SUM(sent_packets), 0)",
        definition="mean queueing delay of the packets that left the queue of the scheduler",
    ),
    Metric("user_queueing_max_ms", "queueing delay, max", "ms", scope=Scope.USERS, short_title="queueing max",
           is_service=True, expression="1000 * MAX(queueing_max_s)", definition="largest queueing delay"),
    Metric(
        "user_overflow_ratio", "queue overflow", *_PERCENT, scope=Scope.USERS, short_title="overflow", is_service=True,
        expression="SUM(dropped_overflow_packets) / NULLIF(SUM(arrived_packets), 0)",
        definition="packets dropped at a full queue over arrived packets",
    ),
    Metric(
        "user_deadline_ratio", "deadline drops", *_PERCENT, scope=Scope.USERS, is_service=True,
        expression="SUM(dropped_deadline_packets) / NULLIF(SUM(arrived_packets), 0)",
        definition="packets dropped after a too long wait over arrived packets",
    ),
    Metric(
        "user_retry_limit_ratio", "retry-limit drops", *_PERCENT, scope=Scope.USERS, is_service=True,
        expression="SUM(dropped_retry_limit_packets) / "
        "NULLIF(SUM(decoded_packets) + SUM(dropped_retry_limit_packets), 0)",
        definition="packets dropped by the link layer after its last attempt over decoded and dropped packets",
    ),
    Metric(
        "user_first_attempt_ratio", "decoded at first attempt", *_PERCENT, scope=Scope.USERS,
        short_title="first attempt", is_service=True,
        expression="SUM(decoded_after_0_packets) / NULLIF(SUM(decoded_packets) + SUM(dropped_retry_limit_packets), 0)",
        definition="packets decoded at the first attempt over decoded and dropped packets",
    ),
    Metric(
        "user_airtime_ratio", "airtime", *_PERCENT, scope=Scope.USERS, is_service=True,
        expression="CASE WHEN COUNT(airtime_s) > 0 THEN SUM(airtime_s) / FIRST(end_s) END",
        definition="airtime of the users over the duration of the run",
    ),
    Metric(
        "user_best_channel_ms", "best-channel duration", "ms", scope=Scope.USERS, short_title="best channel",
        is_service=True, expression="1000 * SUM(best_channel_s) / NULLIF(SUM(best_channel_periods), 0)",
        definition="mean duration of the periods in which one user's channel is the best",
    ),
    # calls
    Metric("delay_ms", "one-way delay", "ms", scope=Scope.CALL, short_title="delay", better=-1,
           definition="time from the completion of a datagram to its arrival, mean over the datagrams that arrive"),
    Metric("jitter_ms", "jitter", "ms", scope=Scope.CALL,
           definition="interarrival jitter of RFC 3550, mean over datagrams"),
    Metric(
        "late_ratio", "late loss (after play-out)", *_PERCENT, scope=Scope.CALL, short_title="late loss", better=-1,
        is_difference=True, most=1.0,
        definition="datagrams that arrive after the play-out delay over datagrams with a known outcome. Adaptive "
        "play-out is the mean delay of the last 10 s and four mean deviations (Ramjee et al. 1994).",
    ),
    Metric("mouth_to_ear_ms", "mouth-to-ear delay", "ms", scope=Scope.CALL, short_title="mouth-to-ear",
           definition="packetisation, coding, one-way delay and play-out"),
    Metric(
        "rating", "R", scope=Scope.CALL, least=-math.inf,
        definition="transmission rating of the E-model (ITU-T G.107, 2015) with its defaults, no echo and no advantage "
        "factor. `bentpipe calls` computes it for another codec, play-out or advantage factor.",
    ),
    Metric("mos", "mean opinion score", scope=Scope.CALL, short_title="MOS", better=1, is_difference=True,
           least=1.0, most=4.5,
           definition="MOS from R (ITU-T G.107 annex B)"),
    Metric("mos_min", "min mean opinion score", scope=Scope.CALL, short_title="min MOS",
           definition="smallest MOS of a call"),
    Metric("mos_good_ratio", "calls with MOS ≥ 3.5", *_PERCENT, scope=Scope.CALL, short_title="MOS ≥ 3.5",
           definition="share of calls with a MOS of 3.5 or more"),
    Metric("blocked_ratio", "blocked calls", *_PERCENT, scope=Scope.CALL, short_title="blocked",
           definition="calls blocked by admission control over all calls"),
    # clients of bundle nodes
    Metric("generated_bundles", "bundles generated", scope=Scope.BUNDLE_CLIENT, short_title="generated",
           definition="bundles that the client generates"),
    Metric("delivered_bundles", "bundles delivered", scope=Scope.BUNDLE_CLIENT, short_title="delivered", better=1,
           is_difference=True, definition="bundles delivered at their destination"),
    Metric("acknowledged_bundles", "bundles acknowledged", scope=Scope.BUNDLE_CLIENT, short_title="acknowledged",
           definition="bundles whose acknowledgement the client receives"),
    Metric("deleted_bundles", "bundles with a deleted copy", scope=Scope.BUNDLE_CLIENT, short_title="deleted",
           better=-1, is_difference=True,
           definition="bundles with a copy that a node deletes: lifetime expired, storage full or delivery abandoned"),
    Metric("acknowledged_bit_s", "acknowledged goodput", *_GOODPUT, scope=Scope.BUNDLE_CLIENT, short_title="goodput",
           better=1,
           definition="dtnperf's goodput: acknowledged payload over the time from the first generated bundle to "
           "the last acknowledgement"),
    Metric("generated_bit_s", "generated goodput", *_GOODPUT, scope=Scope.BUNDLE_CLIENT, short_title="generated",
           better=1,
           definition="payload of generated bundles over the configured sending time (Andreotti 2025). With a fixed "
           "amount of data, the time ends with the last acknowledgement or delivery."),
    Metric("bundle_delay_p50_s", "time to delivery, median", "s", scope=Scope.BUNDLE_CLIENT, short_title="delay p50",
           better=-1, definition="median time from generation to delivery"),
    # page loads
    Metric("loads_finished", "loads finished", *_PERCENT, scope=Scope.PAGE, better=1, is_difference=True,
           is_primary=True, definition="share of completed page loads"),
    Metric("connect_s", "connection set-up", "s", scope=Scope.PAGE, short_title="connect",
           definition="time from connectStart to connectEnd (W3C Navigation Timing): transport and TLS"),
    Metric("ttr_s", "time to response", "s", scope=Scope.PAGE, short_title="TTR", better=-1,
           definition="time from connectStart to responseStart, without name resolution"),
    Metric("plt_s", "page load time", "s", scope=Scope.PAGE, short_title="PLT", better=-1, is_primary=True,
           definition="time from connectStart to loadEventEnd"),
    # packets of a direction (link-layer)
    Metric("delay_p95_ms", "one-way delay, p95", "ms", scope=Scope.PACKETS, short_title="delay p95", better=-1,
           is_compared=False, definition="95 % quantile of the time from the departure of a packet to its arrival, "
           "with queueing and retransmissions of the link layer"),
    Metric("residual_loss_ratio", "residual loss", *_PERCENT, scope=Scope.PACKETS, better=-1, is_difference=True,
           most=1.0, is_compared=False, definition="packets dropped by the loss model or by a link layer after its "
           "last attempt, over these and the received packets"),
    # the flow under test of the controllers' suite
    Metric("finish_s", "time to the last byte", "s", scope=Scope.SUITE, better=-1, is_compared=False,
           definition="time from the start of the flow to its last byte, handshake included; an unfinished transfer "
           "has the time until the end of the run"),
    Metric("interval_goodput_bit_s", "goodput of an interval", *_GOODPUT, scope=Scope.SUITE, better=1,
           is_compared=False, definition="in-order bytes that arrive in an interval of the run, over its duration"),
    Metric("loss_ratio", "packets lost", *_PERCENT, scope=Scope.SUITE, better=-1, is_difference=True, is_compared=False,
           definition="packets that the sender declares lost over its sent packets, in an interval of the run"),
    Metric("lost_packets", "number of packets lost", scope=Scope.SUITE, better=-1, is_difference=True,
           is_compared=False, definition="packets that the sender declares lost"),
    Metric("rtt_max_ms", "RTT, max", "ms", scope=Scope.SUITE, better=-1, is_compared=False,
           definition="largest RTT of the samples with data in flight"),
    Metric("in_flight_max_bytes", "flight, max", "kB", 1e-3, scope=Scope.SUITE, is_compared=False,
           definition="most bytes in flight of the samples"),
    Metric("load_ratio", "share while all flows send", *_PERCENT, scope=Scope.SUITE, is_compared=False,
           definition="share of the flow in the bytes of all flows from the last start to the first end of a flow"),
    Metric("rise_s", "time to 95 % of the goodput", "s", scope=Scope.SUITE, better=-1, is_compared=False,
           definition="time from the start of an interval to the first second with 95 % of the mean goodput of its "
           "last quarter; without one, the length of the interval"),
    # real programs over an emulated path
    Metric("command_s", "wall time", "s", scope=Scope.PROGRAM, better=-1, definition="wall time of the command"),
    Metric("up_bytes", "bytes up", "kB", 1e-3, scope=Scope.PROGRAM, better=-1,
           definition="bytes that the path carries from client to server"),
    Metric("down_bytes", "bytes down", "kB", 1e-3, scope=Scope.PROGRAM, better=-1,
           definition="bytes that the path carries from server to client"),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _ALL}
"""Metrics by name, in the order of tables."""


_OF_FLOWS = (Scope.FLOW, Scope.RUN)


def select(*scopes: Scope) -> list[Metric]:
    """Return the metrics of some scopes, in the order of tables."""
    return [metric for metric in _ALL if metric.scope in scopes or metric.other_scope in scopes]


_UNITS = (
    ("_bit_s", "bit/s"), ("_m_s", "m/s"), ("_ms", "ms"), ("_ns", "ns"), ("_s", "s"), ("_bytes", "bytes"),
    ("_bits", "bits"), ("_packets", "packets"), ("_segments", "segments"), ("_bundles", "bundles"), ("_percent", "%"),
    ("_ratio", "share of 1"), ("_probability", "share of 1"), ("_db", "dB"), ("_hz", "Hz"), ("_baud", "Bd"),
    ("_km", "km"), ("_deg", "°"), ("_bdp", "BDP"),
)  # fmt: skip
"""Units of columns by the end of their names."""


def column_unit(name: str) -> str:
    """Return the unit of a column of a table; empty without a unit."""
    if name in METRICS and METRICS[name].unit == "%" and METRICS[name].scale != 1:
        return "share of 1"
    if name in ("bytes", "packets"):
        return name
    words = re.sub(r"_(sum|min|max|mean|sd|std|low|high)(?=_|$)", "", name)
    return next((unit for suffix, unit in _UNITS if words.endswith(suffix)), "")


def in_flow_tables(*, is_report: bool) -> list[Metric]:
    """Return the metrics of the main table of flows, of a report or of ``show``."""
    if not is_report:
        flows = (
            metric for metric in _ALL if metric.scope in (*_OF_FLOWS, Scope.GROUP) or metric.of_bottleneck
        )
        return [metric for metric in flows if metric.in_show]
    return [
        metric
        for metric in _ALL
        if (metric.in_report and metric.scope in _OF_FLOWS) or (metric.in_show and metric.of_bottleneck)
    ]


def compared(*scopes: Scope) -> list[Metric]:
    """Return the metrics of some scopes that comparisons test."""
    return [metric for metric in select(*scopes) if metric.better and metric.is_compared]


OVER_SEEDS = tuple(metric.name for metric in in_flow_tables(is_report=True))
"""Metrics of flows that tables aggregate over seeds."""
