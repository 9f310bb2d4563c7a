//! Measuring is pulled: counters are read at the sampling tick and become rows.

use path::{Cause, HoldCounters, Topology};
use transport::web::WebSpec;
use transport::{Counters, Event, EventKind, Gauges, Node};
use units::{Span, Time};

use crate::flow::FlowSide;
use crate::pages;
use crate::proxies::{FlowProxy, SOCKETS};
use crate::seat::Seat;
use crate::tables::{Row, Table, Value};

/// Rows gathered so far.
pub struct Recorder {
    interval: Span,
    next: Time,
    flows: Table,
    internals: Table,
    links: Table,
    proxies: Table,
    holds: Table,
    events: Table,
    /// The pages that the flows load.
    loads: Vec<Option<WebSpec>>,
}

fn millis(span: Option<Span>) -> Option<f64> {
    span.map(Span::millis)
}

impl Recorder {
    /// Samples every `interval_ns`, the first time after one interval. `loads` are the pages that the
    /// flows load.
    pub fn new(interval_ns: u64, loads: Vec<Option<WebSpec>>) -> Recorder {
        let interval = Span(interval_ns.max(1));
        Recorder {
            interval,
            next: Time::ZERO + interval,
            flows: Table::new("flows"),
            internals: Table::declared("internals", &internals_row(0.0, "", "", "", 0.0)),
            links: Table::new("links"),
            proxies: Table::declared(
                "proxies",
                &proxy_row(0.0, ["", "", ""], 0, &Gauges::default(), 0, &Counters::default()),
            ),
            holds: Table::new("holds"),
            events: Table::declared("events", &events_row("", "", &NO_EVENT)),
            loads,
        }
    }

    /// When to sample next.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Takes a sample. `sides` and `proxies` say who sits at `seats`, in this order.
    pub fn sample(
        &mut self,
        now: Time,
        seats: &mut [Seat],
        sides: &[FlowSide],
        proxies: &[FlowProxy],
        topology: &Topology,
    ) {
        self.next = now + self.interval;
        let time = now.seconds();
        let (hosts, between) = seats.split_at_mut(sides.len());
        for (seat, side) in hosts.iter_mut().zip(sides) {
            self.sample_side(time, seat.node.as_mut(), side);
        }
        for (seat, proxy) in between.iter().zip(proxies) {
            for (end, socket) in SOCKETS.into_iter().enumerate() {
                self.proxies.row(&proxy_row(
                    time,
                    [&proxy.flow, &proxy.node, socket],
                    seat.node.opened(end),
                    &seat.node.gauges(end),
                    seat.node.waiting_bytes(end),
                    &seat.node.counters(end),
                ));
            }
        }
        for (index, line) in topology.lines.iter().enumerate() {
            let link = topology.line_name(index);
            let mut row = vec![("time_s", Value::from(time)), ("link", link.into())];
            row.extend(link_counters(line));
            self.links.row(&row);
        }
        for (node, hold) in topology.holds() {
            self.holds.row(&hold_row(time, topology.node_name(node), hold.counters()));
        }
    }

    fn sample_side(&mut self, time: f64, node: &mut dyn Node, side: &FlowSide) {
        let (flow, side) = (side.flow.as_str(), side.side.name());
        let gauges = node.gauges(0);
        let mut row: Vec<(&'static str, Value<'_>)> = vec![
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
        row.extend(counters(node));
        self.flows.row(&row);
        if let Some(controller) = node.controller(0) {
            controller.trace(&mut |name, value| {
                self.internals.row(&internals_row(time, flow, side, name, value));
            });
        }
        for event in node.take_events(0) {
            self.events.row(&events_row(flow, side, &event));
        }
    }

    /// Takes a last sample and returns every table.
    pub fn finish(
        mut self,
        end: Time,
        seats: &mut [Seat],
        sides: &[FlowSide],
        proxies: &[FlowProxy],
        topology: &Topology,
    ) -> Vec<Table> {
        if self.next != end + self.interval {
            self.sample(end, seats, sides, proxies, topology);
        }
        let flows: Vec<Flow<'_>> = seats.chunks(2).zip(sides.chunks(2)).collect();
        let mut tables = vec![summary(&flows), streams(&flows), link_summary(topology)];
        tables.extend([self.flows, self.links, self.events, self.internals, self.proxies]);
        tables.extend(pages::tables(seats, sides, &self.loads));
        if self.holds.rows() > 0 {
            tables.push(self.holds);
        }
        tables
    }
}

const NO_EVENT: Event =
    Event { time: Time::ZERO, connection: 0, kind: EventKind::Start, value: 0.0 };

fn events_row<'a>(flow: &'a str, side: &'a str, event: &Event) -> Row<'a, 6> {
    [
        ("time_s", event.time.seconds().into()),
        ("flow", flow.into()),
        ("side", side.into()),
        ("connection", u64::from(event.connection).into()),
        ("kind", event.kind.name().into()),
        ("value", event.value.into()),
    ]
}

fn internals_row<'a>(
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

fn proxy_row<'a>(
    time: f64,
    [flow, proxy, socket]: [&'a str; 3],
    connections: u32,
    gauges: &Gauges,
    waiting_bytes: u64,
    counters: &Counters,
) -> Row<'a, 19> {
    [
        ("time_s", time.into()),
        ("flow", flow.into()),
        ("proxy", proxy.into()),
        ("socket", socket.into()),
        ("connections", u64::from(connections).into()),
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
        ("timeouts", counters.timeouts.into()),
        ("ptos", counters.ptos.into()),
    ]
}

fn hold_row<'a>(time: f64, node: &'a str, counters: &HoldCounters) -> Row<'a, 10> {
    [
        ("time_s", time.into()),
        ("node", node.into()),
        ("held_packets", counters.held_packets().into()),
        ("held_bytes", counters.held_bytes().into()),
        ("arrived_packets", counters.arrived_packets.into()),
        ("arrived_bytes", counters.arrived_bytes.into()),
        ("released_packets", counters.released_packets.into()),
        ("released_bytes", counters.released_bytes.into()),
        ("dropped_overflow_packets", counters.dropped_packets.into()),
        ("dropped_overflow_bytes", counters.dropped_bytes.into()),
    ]
}

fn counters(node: &dyn Node) -> Row<'static, 15> {
    let counters = node.counters(0);
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
        ("timeouts", counters.timeouts.into()),
        ("undone", counters.undone.into()),
        ("retransmitted_bytes", counters.retransmitted_bytes.into()),
        ("written_bytes", counters.written_bytes.into()),
        ("received_bytes", counters.received_bytes.into()),
        ("received_in_order_bytes", counters.received_in_order_bytes.into()),
    ]
}

fn link_counters(line: &path::Line) -> Vec<(&'static str, Value<'static>)> {
    let (gauge, counters) = (line.gauge(), line.counters());
    let mut row = vec![
        ("queued_packets", gauge.queued_packets.into()),
        ("queued_bytes", gauge.queued_bytes.into()),
        ("sent_bytes", gauge.sent_bytes.into()),
        ("arrived_packets", counters.arrived_packets.into()),
        ("arrived_bytes", counters.arrived_bytes.into()),
        ("delivered_packets", counters.delivered_packets.into()),
        ("delivered_bytes", counters.delivered_bytes.into()),
    ];
    let names = [
        "dropped_loss_packets",
        "dropped_overflow_packets",
        "dropped_aqm_packets",
        "dropped_outage_packets",
        "dropped_link_packets",
        "dropped_route_packets",
    ];
    debug_assert!(Cause::ALL.iter().zip(names).all(|(cause, name)| name.contains(cause.name())));
    row.extend(names.into_iter().zip(counters.dropped_packets.map(Value::from)));
    row.push(("marked_packets", counters.marked_packets.into()));
    row
}

/// Both sides of a flow, client first.
type Flow<'a> = (&'a [Seat], &'a [FlowSide]);

/// Every stream of a flow as both sides saw it.
fn streams(flows: &[Flow<'_>]) -> Table {
    let mut table = Table::new("streams");
    for (seats, sides) in flows {
        let [client, server] = seats else { continue };
        let theirs = server.node.streams(0);
        for (connection, ours) in client.node.streams(0) {
            // Both are in order of (connection, stream).
            let place = theirs.binary_search_by_key(&(connection, ours.id), |(index, stream)| {
                (*index, stream.id)
            });
            let other = place.ok().map(|place| &theirs[place].1);
            let seconds = |time: Option<Time>| time.map(Time::seconds);
            table.row(&[
                ("flow", sides[0].flow.as_str().into()),
                ("connection", u64::from(connection).into()),
                ("stream_id", ours.label.into()),
                ("mode", ours.mode.into()),
                ("start_s", ours.opened.seconds().into()),
                ("up_written_bytes", ours.written.into()),
                ("up_bytes", other.map_or(0, |stream| stream.received_in_order).into()),
                ("up_first_byte_s", seconds(other.and_then(|stream| stream.first_byte)).into()),
                ("up_last_byte_s", seconds(other.and_then(|stream| stream.last_byte)).into()),
                ("up_fin_s", seconds(other.and_then(|stream| stream.fin)).into()),
                ("down_written_bytes", other.map_or(0, |stream| stream.written).into()),
                ("down_bytes", ours.received_in_order.into()),
                ("down_first_byte_s", seconds(ours.first_byte).into()),
                ("down_last_byte_s", seconds(ours.last_byte).into()),
                ("down_fin_s", seconds(ours.fin).into()),
            ]);
        }
    }
    table
}

fn summary(flows: &[Flow<'_>]) -> Table {
    let mut table = Table::new("summary");
    for (seats, sides) in flows {
        let [client, server] = seats else { continue };
        for (host, peer, side) in [(client, server, &sides[0]), (server, client, &sides[1])] {
            let (node, peer) = (host.node.as_ref(), peer.node.as_ref());
            // What this side sent is what its peer's streams received.
            let (mine, sent) = (node.streams(0), peer.streams(0));
            let first = mine.iter().chain(&sent).map(|(_, stream)| stream.opened).min();
            let last = sent.iter().filter_map(|(_, stream)| stream.last_byte).max();
            let fin = sent.iter().filter_map(|(_, stream)| stream.fin).max();
            let heard = mine.iter().filter_map(|(_, stream)| stream.first_byte).min();
            let seconds = |time: Option<Time>| time.map(Time::seconds);
            let mut row: Vec<(&'static str, Value<'_>)> = vec![
                ("flow", side.flow.as_str().into()),
                ("side", side.side.name().into()),
                ("congestion", side.congestion.as_str().into()),
                ("start_s", side.start.seconds().into()),
                ("connected_s", seconds(node.connected_at(0)).into()),
                ("first_byte_s", seconds(heard).into()),
                ("data_start_s", seconds(first).into()),
                ("data_end_s", seconds(last).into()),
                ("fin_s", seconds(fin).into()),
                ("end_s", seconds(node.ended_at(0)).into()),
                ("connections", u64::from(node.opened(0)).into()),
                ("completed_connections", u64::from(node.completed(0)).into()),
            ];
            row.extend(counters(node));
            let largest = node.counters(0).largest_cwnd_bytes;
            let delivered = peer.counters(0);
            row.push(("largest_cwnd_bytes", largest.into()));
            row.push(("delivered_bytes", delivered.received_bytes.into()));
            row.push(("delivered_in_order_bytes", delivered.received_in_order_bytes.into()));
            table.row(&row);
        }
    }
    table
}

fn link_summary(topology: &Topology) -> Table {
    let mut table = Table::new("link_summary");
    for (index, line) in topology.lines.iter().enumerate() {
        let quantile = |q| line.sojourn().and_then(|histogram| histogram.quantile(q));
        let mut row = vec![
            ("link", Value::from(topology.line_name(index))),
            ("rate_bit_s", line.rate_bit_s().map(|rate| rate as f64).into()),
            ("propagation_ms", (line.propagation_ns() as f64 / 1e6).into()),
        ];
        row.extend(link_counters(line));
        row.push(("queueing_p50_ms", millis(quantile(0.5)).into()));
        row.push(("queueing_p95_ms", millis(quantile(0.95)).into()));
        row.push(("queueing_p99_ms", millis(quantile(0.99)).into()));
        row.push(("queueing_max_ms", millis(quantile(1.0)).into()));
        table.row(&row);
    }
    table
}
