"""What is measured of a run, table by table (docs/manual/results.md): names of columns, and what they hold.

The engine declares its own; a test holds both together.
"""

from __future__ import annotations

__all__ = ["CALL_WINDOW_S", "COLUMNS", "COUNTERS", "GAUGES", "OPTIONAL", "OPTIONAL_COLUMNS", "column_owners"]

COUNTERS = (
    "sent_packets", "sent_bytes", "ack_packets", "ack_bytes", "lost_packets", "lost_bytes", "congestion_events",
    "persistent_congestion", "ptos", "timeouts", "undone", "retransmitted_bytes", "written_bytes", "received_bytes",
    "received_in_order_bytes",
)  # fmt: skip
LINK_COUNTERS = (
    "queued_packets", "queued_bytes", "sent_bytes", "arrived_packets", "arrived_bytes", "delivered_packets",
    "delivered_bytes", "dropped_loss_packets", "dropped_overflow_packets", "dropped_aqm_packets",
    "dropped_outage_packets", "dropped_link_packets", "dropped_route_packets", "marked_packets",
)  # fmt: skip
GAUGES = {
    "cwnd_bytes": "f64", "ssthresh_bytes": "f64", "in_flight_bytes": "i64", "smoothed_rtt_ms": "f64",
    "latest_rtt_ms": "f64", "min_rtt_ms": "f64", "pacing_rate_bit_s": "f64",
}  # fmt: skip

CALL_WINDOW_S = 10.0
"""Of the counters of a call (crates/transport/src/media)."""


def _kinds(words: str) -> dict[str, str]:
    """``name`` is f64, ``name#`` i64, ``name=`` cat."""
    marks = {"#": "i64", "=": "cat"}
    return {word.rstrip("#="): marks.get(word[-1], "f64") for word in words.split()}


COLUMNS: dict[str, dict[str, str]] = {
    "summary": _kinds(
        "flow= side= congestion= start_s connected_s first_byte_s data_start_s data_end_s fin_s end_s connections# "
        "completed_connections#"
    )
    | dict.fromkeys(COUNTERS, "i64")
    | _kinds("largest_cwnd_bytes# delivered_bytes# delivered_in_order_bytes#"),
    "streams": _kinds(
        "flow= connection# stream_id# mode= start_s up_written_bytes# up_bytes# up_first_byte_s up_last_byte_s "
        "up_fin_s down_written_bytes# down_bytes# down_first_byte_s down_last_byte_s down_fin_s"
    ),
    "link_summary": _kinds("link= rate_bit_s propagation_ms")
    | dict.fromkeys(LINK_COUNTERS, "i64")
    | _kinds("queueing_p50_ms queueing_p95_ms queueing_p99_ms queueing_max_ms"),
    "flows": _kinds("time_s flow= side=") | GAUGES | dict.fromkeys(COUNTERS, "i64"),
    "links": _kinds("time_s link=") | dict.fromkeys(LINK_COUNTERS, "i64"),
    "events": _kinds("time_s flow= side= connection# kind= value"),
    "internals": _kinds("time_s flow= side= name= value"),
    "proxies": _kinds(
        "time_s flow= proxy= socket= connections# cwnd_bytes ssthresh_bytes in_flight_bytes# smoothed_rtt_ms "
        "min_rtt_ms pacing_rate_bit_s buffered_bytes# sent_packets# sent_bytes# lost_packets# retransmitted_bytes# "
        "congestion_events# timeouts# ptos#"
    ),
    "pages": _kinds(
        "flow= load# http= protocol= start_s connect_start_s connect_end_s request_start_s response_start_s "
        "response_end_s content_loaded_s load_event_end_s ttr_s plt_s objects# bytes# connections# finished#"
    ),
    "requests": _kinds(
        "flow= load# object= host= protocol= connection# queued_s sent_s response_start_s end_s bytes#"
    ),
    "packets": _kinds(
        "packet# flow= connection# transport= from_node= to_node= sent_s received_s dropped= bytes# payload_bytes# "
        "label= sequence retransmission#"
    ),
}
"""Columns of every table, as the engine has them."""

OPTIONAL_COLUMNS: dict[str, dict[str, str]] = {
    "users": _kinds(
        "time_s link= user# attempts# copies# air_s coded_bits# useful_bits# decoded_after_0_packets# "
        "decoded_after_1_packets# decoded_after_2_packets# decoded_after_3_packets# decoded_later_packets# "
        "dropped_link_packets#"
    ),
    "calls": _kinds(
        "flow= direction= source= payload_bytes# interval_ms window_s sent_packets# received_packets# "
        "duplicate_packets# overtaken_packets# undecided_packets# delay_sum_s least_delay_ms largest_delay_ms "
        "jitter_ms jitter_sum_s"
    ),
    "call_delays": _kinds(
        "flow= direction= window_s delay_ms# packets# before_slower_packets# after_quicker_packets#"
    ),
    "bundles": _kinds(
        "time_s node= event= kind= source= destination= created_ms# sequence# offset_bytes payload_bytes# peer= reason="
    ),
    "routes": _kinds(
        "time_s node= source= created_ms# sequence# to= decision= next= arrival_s contacts= reason="
    ),
    "reports": _kinds(
        "time_s node= report_source= report_created_ms# report_sequence# source= created_ms# sequence# offset_bytes "
        "total_bytes received_ms forwarded_ms delivered_ms deleted_ms reason#"
    ),
    "stored": _kinds("node= came_s source= created_ms# sequence# offset_bytes payload_bytes#"),
    "user_queues": _kinds(
        "link= user# arrived_packets# sent_packets# queued_packets# queued_bytes# waited_s longest_wait_s "
        "dropped_overflow_packets# dropped_late_packets# dropped_outage_packets# best_s best_spells"
    ),
    "tcp": _kinds(
        "time_s flow= side= data_segments# retransmitted_segments# duplicate_segments# rtt_samples# rto_s "
        "smoothed_rtt_s rtt_variance_s ack_pairs# pair_wait_s pairs_within_1_ms# pairs_within_5_ms# "
        "pairs_within_10_ms# pairs_within_20_ms# pairs_within_30_ms# pairs_within_40_ms#"
    ),
}
"""Those of tables that a run has only if there is something to say: of a radio link's users, of their queues, of
calls, of bundles, what only TCP counts."""

OPTIONAL = {"summary": {"flow_group": "cat"}}
"""Columns that a table has where its scenario asks for it: groups of flows."""


def column_owners() -> dict[str, str]:
    """Who has a column, by its name without case (SQL has none), in words."""
    every = [*COLUMNS.items(), *OPTIONAL_COLUMNS.items(), *OPTIONAL.items()]
    tables = {name.casefold(): f"the table {table} has" for table, names in every for name in names}
    return tables | dict.fromkeys(("run", "seed"), "all tables have")
