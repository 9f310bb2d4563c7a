"""Columns of the result tables of a run and their types (docs/reference/results.md).

The engine declares the same columns; a test compares both.
"""

from __future__ import annotations

__all__ = [
    "CALL_WINDOW_S",
    "COLUMNS",
    "COUNTERS",
    "FILLED_BY",
    "GAUGES",
    "OPTIONAL",
    "OPTIONAL_COLUMNS",
    "column_owners",
]

COUNTERS = (
    "sent_packets", "sent_bytes", "ack_packets", "ack_bytes", "lost_packets", "lost_bytes", "congestion_events",
    "persistent_congestion", "ptos", "rtos", "cwnd_undos", "retransmitted_bytes", "written_bytes", "received_bytes",
    "received_in_order_bytes",
)  # fmt: skip
LINK_COUNTERS = (
    "queued_packets", "queued_bytes", "sent_bytes", "arrived_packets", "arrived_bytes", "delivered_packets",
    "delivered_bytes", "dropped_loss_packets", "dropped_overflow_packets", "dropped_aqm_packets",
    "dropped_outage_packets", "dropped_retry_limit_packets", "dropped_no_route_packets", "marked_packets",
)  # fmt: skip
GAUGES = {
    "cwnd_bytes": "f64", "ssthresh_bytes": "f64", "in_flight_bytes": "i64", "smoothed_rtt_ms": "f64",
    "latest_rtt_ms": "f64", "min_rtt_ms": "f64", "pacing_rate_bit_s": "f64",
}  # fmt: skip

CALL_WINDOW_S = 10.0
"""Window of the counters of a call in seconds (crates/transport/src/media)."""


def _types(columns: str) -> dict[str, str]:
    """Parse columns and their types: ``name`` is f64, ``name#`` i64, ``name=`` cat."""
    suffixes = {"#": "i64", "=": "cat"}
    return {column.rstrip("#="): suffixes.get(column[-1], "f64") for column in columns.split()}


COLUMNS: dict[str, dict[str, str]] = {
    "flow_summary": _types(
        "flow= side= congestion= start_s connected_s first_byte_s data_start_s data_end_s fin_s end_s connections# "
        "completed_connections#"
    )
    | dict.fromkeys(COUNTERS, "i64")
    | _types("cwnd_max_bytes# delivered_bytes# delivered_in_order_bytes#"),
    "streams": _types(
        "flow= connection# stream_id# mode= start_s up_written_bytes# up_bytes# up_first_byte_s up_last_byte_s "
        "up_fin_s down_written_bytes# down_bytes# down_first_byte_s down_last_byte_s down_fin_s"
    ),
    "link_summary": _types("link= rate_bit_s propagation_ms")
    | dict.fromkeys(LINK_COUNTERS, "i64")
    | _types("queueing_p50_ms queueing_p95_ms queueing_p99_ms queueing_max_ms"),
    "flows": _types("time_s flow= side=") | GAUGES | dict.fromkeys(COUNTERS, "i64"),
    "links": _types("time_s link=") | dict.fromkeys(LINK_COUNTERS, "i64"),
    "events": _types("time_s flow= side= connection# kind= value"),
    "controller_state": _types("time_s flow= side= name= value"),
    "proxies": _types(
        "time_s flow= proxy= socket= connections# cwnd_bytes ssthresh_bytes in_flight_bytes# smoothed_rtt_ms "
        "min_rtt_ms pacing_rate_bit_s buffered_bytes# sent_packets# sent_bytes# lost_packets# retransmitted_bytes# "
        "congestion_events# rtos# ptos#"
    ),
    "pages": _types(
        "flow= load# http= protocol= start_s connect_start_s connect_end_s request_start_s response_start_s "
        "response_end_s content_loaded_s load_event_end_s ttr_s plt_s objects# bytes# connections# completed#"
    ),
    "requests": _types(
        "flow= load# object= host= protocol= connection# queued_s sent_s response_start_s end_s bytes#"
    ),
    "packets": _types(
        "packet# flow= connection# transport= from_node= to_node= sent_s received_s dropped= bytes# payload_bytes# "
        "label= sequence retransmission#"
    ),
}
"""Columns of the tables that every run has, in the order of the engine."""

OPTIONAL_COLUMNS: dict[str, dict[str, str]] = {
    "radio_users": _types(
        "time_s link= user# attempts# duplicate_attempts# airtime_s coded_bits# useful_bits# decoded_after_0_packets# "
        "decoded_after_1_packets# decoded_after_2_packets# decoded_after_3_packets# decoded_after_more_packets# "
        "dropped_retry_limit_packets#"
    ),
    "calls": _types(
        "flow= direction= source= payload_bytes# interval_ms window_s sent_packets# received_packets# "
        "duplicate_packets# reordered_packets# pending_packets# delay_sum_s delay_min_ms delay_max_ms "
        "jitter_ms jitter_sum_s"
    ),
    "call_delays": _types(
        "flow= direction= window_s delay_ms# packets# before_slower_packets# after_quicker_packets#"
    ),
    "bundles": _types(
        "time_s node= event= kind= source= destination= created_ms# sequence# offset_bytes payload_bytes# peer= reason="
    ),
    "bundle_routes": _types(
        "time_s node= source= created_ms# sequence# to= decision= next= arrival_s contacts= reason="
    ),
    "bundle_status_reports": _types(
        "time_s node= report_source= report_created_ms# report_sequence# source= created_ms# sequence# offset_bytes "
        "total_bytes received_ms forwarded_ms delivered_ms deleted_ms reason#"
    ),
    "bundle_store": _types("node= received_s source= created_ms# sequence# offset_bytes payload_bytes#"),
    "user_queues": _types(
        "link= user# arrived_packets# sent_packets# queued_packets# queued_bytes# queueing_sum_s queueing_max_s "
        "dropped_overflow_packets# dropped_deadline_packets# dropped_outage_packets# best_channel_s "
        "best_channel_periods"
    ),
    "tcp_counters": _types(
        "time_s flow= side= data_segments# retransmitted_segments# duplicate_segments# rtt_samples# rto_s "
        "smoothed_rtt_s rtt_variance_s ack_pairs# pair_wait_s pairs_within_1_ms# pairs_within_5_ms# "
        "pairs_within_10_ms# pairs_within_20_ms# pairs_within_30_ms# pairs_within_40_ms#"
    ),
}
"""Columns of the tables that only some runs have: users of a radio link, their queues, calls, bundles, TCP."""

_DTN = "give a flow between bundle nodes load = { bundles = ... }"
_PACKETS = "set trace.packets = true and rerun"
_STEPS = "set trace.packet_steps = true and rerun"
_PAGE = "give a flow load = { page = ... }"
_CALL = "give a flow load = { call = ... }"
_STATE = "it requires a flow over QUIC or TCP"
FILLED_BY = {
    "pages": _PAGE, "requests": _PAGE, "calls": _CALL, "call_delays": _CALL, "bundles": _DTN, "bundle_routes": _DTN,
    "bundle_status_reports": "give dtnperf of a flow a report option, such as --del", "bundle_store": _DTN,
    "controller_state": "give a flow a controller with state variables, such as bbr",
    "proxies": "add [[path.proxy]] or a node with a proxy",
    "node_buffers": "set store_and_forward of a segment",
    "radio_users": "set link_layer or nr of a direction", "user_queues": "set scheduler of a direction",
    "tcp_counters": "set trace.tcp = true and rerun", "streams": _STATE, "events": _STATE, "packets": _PACKETS,
    "packet_steps": _STEPS, "radio_attempts": f"{_STEPS}, with link_layer or acm of a direction",
    "user_metrics": "set count or user of a flow",
}  # fmt: skip
"""Key of the scenario that fills a table, for tables that a run may lack."""

OPTIONAL = {"flow_summary": {"flow_group": "cat"}}
"""Columns that a table has only in some runs: ``flow_group`` with groups of flows."""


def column_owners() -> dict[str, str]:
    """Return for each column name (in lower case, as SQL ignores case) the text "the table TABLE has"."""
    tables = [*COLUMNS.items(), *OPTIONAL_COLUMNS.items(), *OPTIONAL.items()]
    owners = {name.casefold(): f"the table {table} has" for table, names in tables for name in names}
    return owners | dict.fromkeys(("run", "seed"), "all tables have")
