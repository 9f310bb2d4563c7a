//! The rows of the tables that grow with each sample.

use link::{DropReason, SimplexLink, UserLinkStats};
use topology::StoreForwardCounters;
use transport::{FlowCounters, FlowEvent, SenderGauges, TcpCounters};
use units::Span;

use crate::recorder::tables::{Row, Value};

pub(super) fn millis(span: Option<Span>) -> Option<f64> {
    span.map(Span::millis)
}

pub(super) fn events_row<'a>(flow: &'a str, side: &'a str, event: &FlowEvent) -> Row<'a, 6> {
    [
        ("time_s", event.time.seconds().into()),
        ("flow", flow.into()),
        ("side", side.into()),
        ("connection", u64::from(event.connection).into()),
        ("kind", event.kind.name().into()),
        ("value", event.value.into()),
    ]
}

pub(super) fn internals_row<'a>(
    time: f64,
    flow: &'a str,
    side: &'a str,
    name: &'a str,
    value: f64,
) -> Row<'a, 5> {
    [
        ("time_s", time.into()),
        ("flow", flow.into()),
        ("side", side.into()),
        ("name", name.into()),
        ("value", value.into()),
    ]
}

pub(super) fn proxy_row<'a>(
    time: f64,
    [flow, proxy, socket]: [&'a str; 3],
    connections: u64,
    gauges: &SenderGauges,
    waiting_bytes: u64,
    counters: &FlowCounters,
) -> Row<'a, 19> {
    [
        ("time_s", time.into()),
        ("flow", flow.into()),
        ("proxy", proxy.into()),
        ("socket", socket.into()),
        ("connections", connections.into()),
        ("cwnd_bytes", (gauges.cwnd as f64).into()),
        ("ssthresh_bytes", gauges.ssthresh.map(|bytes| bytes as f64).into()),
        ("in_flight_bytes", gauges.in_flight.into()),
        ("smoothed_rtt_ms", millis(gauges.smoothed_rtt).into()),
        ("min_rtt_ms", millis(gauges.min_rtt).into()),
        ("pacing_rate_bit_s", (gauges.pacing_rate_bit_s as f64).into()),
        ("buffered_bytes", waiting_bytes.into()),
        ("sent_packets", counters.sent_packets.into()),
        ("sent_bytes", counters.sent_bytes.into()),
        ("lost_packets", counters.lost_packets.into()),
        ("retransmitted_bytes", counters.retransmitted_bytes.into()),
        ("congestion_events", counters.congestion_events.into()),
        ("rtos", counters.rtos.into()),
        ("ptos", counters.ptos.into()),
    ]
}

pub(super) fn store_forward_row<'a>(
    time: f64,
    node: &'a str,
    counters: &StoreForwardCounters,
) -> Row<'a, 10> {
    [
        ("time_s", time.into()),
        ("node", node.into()),
        ("buffered_packets", counters.buffered_packets().into()),
        ("buffered_bytes", counters.buffered_bytes().into()),
        ("arrived_packets", counters.arrived_packets.into()),
        ("arrived_bytes", counters.arrived_bytes.into()),
        ("released_packets", counters.released_packets.into()),
        ("released_bytes", counters.released_bytes.into()),
        ("dropped_overflow_packets", counters.dropped_packets.into()),
        ("dropped_overflow_bytes", counters.dropped_bytes.into()),
    ]
}

pub(super) fn users_row<'a>(
    time: f64,
    link: &'a str,
    user: u64,
    stats: &UserLinkStats,
) -> Row<'a, 14> {
    let after = |retransmissions| stats.decoded_after.get(retransmissions).copied().unwrap_or(0);
    [
        ("time_s", time.into()),
        ("link", link.into()),
        ("user", user.into()),
        ("attempts", stats.attempts.into()),
        ("duplicate_attempts", stats.duplicates.into()),
        ("airtime_s", stats.airtime.seconds().into()),
        ("coded_bits", stats.coded_bits.into()),
        ("useful_bits", (stats.decoded_bytes * 8).into()),
        ("decoded_after_0_packets", after(0).into()),
        ("decoded_after_1_packets", after(1).into()),
        ("decoded_after_2_packets", after(2).into()),
        ("decoded_after_3_packets", after(3).into()),
        ("decoded_after_more_packets", stats.decoded_after.iter().skip(4).sum::<u64>().into()),
        ("dropped_retry_limit_packets", stats.dropped_packets.into()),
    ]
}

/// Sums are over samples of the round-trip time, and over pairs.
pub(super) fn tcp_row<'a>(
    time: f64,
    flow: &'a str,
    side: &'a str,
    counters: &TcpCounters,
) -> Vec<(&'static str, Value<'a>)> {
    let seconds = |nanos: u64| Value::from(Span(nanos).seconds());
    let mut row = vec![
        ("time_s", time.into()),
        ("flow", flow.into()),
        ("side", side.into()),
        ("data_segments", counters.data_segments.into()),
        ("retransmitted_segments", counters.retransmitted_segments.into()),
        ("duplicate_segments", counters.duplicate_segments.into()),
        ("rtt_samples", counters.rtt_samples.into()),
        ("rto_s", seconds(counters.rto_ns)),
        ("smoothed_rtt_s", seconds(counters.smoothed_rtt_ns)),
        ("rtt_variance_s", seconds(counters.rtt_variance_ns)),
        ("ack_pairs", counters.ack_pairs.into()),
        ("pair_wait_s", seconds(counters.ack_pair_wait_ns)),
    ];
    let names = [
        "pairs_within_1_ms",
        "pairs_within_5_ms",
        "pairs_within_10_ms",
        "pairs_within_20_ms",
        "pairs_within_30_ms",
        "pairs_within_40_ms",
    ];
    row.extend(names.into_iter().zip(counters.ack_pairs_within.map(Value::from)));
    row
}

pub(super) fn flows_row<'a>(
    time: f64,
    flow: &'a str,
    side: &'a str,
    gauges: &SenderGauges,
    counters: &FlowCounters,
) -> Vec<(&'static str, Value<'a>)> {
    let mut row = vec![
        ("time_s", time.into()),
        ("flow", flow.into()),
        ("side", side.into()),
        ("cwnd_bytes", (gauges.cwnd as f64).into()),
        ("ssthresh_bytes", gauges.ssthresh.map(|bytes| bytes as f64).into()),
        ("in_flight_bytes", gauges.in_flight.into()),
        ("smoothed_rtt_ms", millis(gauges.smoothed_rtt).into()),
        ("latest_rtt_ms", millis(gauges.latest_rtt).into()),
        ("min_rtt_ms", millis(gauges.min_rtt).into()),
        ("pacing_rate_bit_s", (gauges.pacing_rate_bit_s as f64).into()),
    ];
    row.extend(counter_columns(counters));
    row
}

pub(super) fn counter_columns(counters: &FlowCounters) -> Row<'static, 15> {
    [
        ("sent_packets", counters.sent_packets.into()),
        ("sent_bytes", counters.sent_bytes.into()),
        ("ack_packets", counters.ack_packets.into()),
        ("ack_bytes", counters.ack_bytes.into()),
        ("lost_packets", counters.lost_packets.into()),
        ("lost_bytes", counters.lost_bytes.into()),
        ("congestion_events", counters.congestion_events.into()),
        ("persistent_congestion", counters.persistent_congestion.into()),
        ("ptos", counters.ptos.into()),
        ("rtos", counters.rtos.into()),
        ("cwnd_undos", counters.cwnd_undos.into()),
        ("retransmitted_bytes", counters.retransmitted_bytes.into()),
        ("written_bytes", counters.written_bytes.into()),
        ("received_bytes", counters.received_bytes.into()),
        ("received_in_order_bytes", counters.received_in_order_bytes.into()),
    ]
}

pub(super) type CounterColumns = Vec<(&'static str, u64)>;

pub(super) fn link_counters(link: &SimplexLink) -> CounterColumns {
    let (gauge, counters) = (link.gauge(), link.counters());
    let mut row = vec![
        ("queued_packets", gauge.queued_packets),
        ("queued_bytes", gauge.queued_bytes),
        ("sent_bytes", gauge.sent_bytes),
        ("arrived_packets", counters.arrived_packets),
        ("arrived_bytes", counters.arrived_bytes),
        ("delivered_packets", counters.delivered_packets),
        ("delivered_bytes", counters.delivered_bytes),
    ];
    let names = [
        "dropped_loss_packets",
        "dropped_overflow_packets",
        "dropped_aqm_packets",
        "dropped_outage_packets",
        "dropped_retry_limit_packets",
        "dropped_no_route_packets",
    ];
    debug_assert!(
        DropReason::ALL.iter().zip(names).all(|(cause, name)| name.contains(cause.name()))
    );
    row.extend(names.into_iter().zip(counters.dropped_packets));
    row.push(("marked_packets", counters.marked_packets));
    row
}

pub(super) fn links_row(
    time: f64,
    link: &str,
    counters: CounterColumns,
) -> Vec<(&'static str, Value<'_>)> {
    let mut row = vec![("time_s", Value::from(time)), ("link", link.into())];
    row.extend(counters.into_iter().map(|(name, count)| (name, count.into())));
    row
}

/// Adds the counters of another link to the sums of its group.
pub(super) fn add_columns(sum: &mut Option<CounterColumns>, counters: &CounterColumns) {
    match sum {
        None => *sum = Some(counters.clone()),
        Some(sum) => sum.iter_mut().zip(counters).for_each(|(column, added)| column.1 += added.1),
    }
}
