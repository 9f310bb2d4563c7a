//! Measuring is pulled: counters are read at the sampling tick and become rows.

use path::{Cause, Topology};
use transport::web::WebSpec;
use transport::{Counters, Event, EventKind, Gauges};
use units::{Span, Time};

use crate::flow::Host;
use crate::pages;
use crate::relay::{Relay, SOCKETS};
use crate::tables::{Row, Table, Value};

/// Rows gathered so far.
pub struct Recorder {
    interval: Span,
    next: Time,
    flows: Table,
    internals: Table,
    links: Table,
    proxies: Table,
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
            events: Table::declared("events", &events_row("", "", &NO_EVENT)),
            loads,
        }
    }

    /// When to sample next.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Takes a sample.
    pub fn sample(&mut self, now: Time, hosts: &mut [Host], relays: &[Relay], topology: &Topology) {
        self.next = now + self.interval;
        let time = now.seconds();
        for host in hosts {
            self.sample_host(time, host);
        }
        for relay in relays {
            for (socket, side) in SOCKETS {
                let proxy = &relay.proxy;
                self.proxies.row(&proxy_row(
                    time,
                    [&relay.flow_name, &relay.node, socket],
                    proxy.connections(side),
                    &proxy.gauges(side),
                    proxy.waiting_bytes(side),
                    &proxy.counters(side),
                ));
            }
        }
        for (index, line) in topology.lines.iter().enumerate() {
            let link = topology.line_name(index);
            let mut row = vec![("time_s", Value::from(time)), ("link", link.into())];
            row.extend(link_counters(line));
            self.links.row(&row);
        }
    }

    fn sample_host(&mut self, time: f64, host: &mut Host) {
        let (flow, side) = (host.flow.as_str(), host.side.name());
        let gauges = host.endpoint.gauges();
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
        row.extend(counters(host));
        self.flows.row(&row);
        if let Some(controller) = host.endpoint.controller() {
            controller.trace(&mut |name, value| {
                self.internals.row(&internals_row(time, flow, side, name, value));
            });
        }
        for event in host.endpoint.take_events() {
            self.events.row(&events_row(flow, side, &event));
        }
    }

    /// Takes a last sample and returns every table.
    pub fn finish(
        mut self,
        end: Time,
        hosts: &mut [Host],
        relays: &[Relay],
        topology: &Topology,
    ) -> Vec<Table> {
        if self.next != end + self.interval {
            self.sample(end, hosts, relays, topology);
        }
        let mut tables = vec![summary(hosts), streams(hosts), link_summary(topology)];
        tables.extend([self.flows, self.links, self.events, self.internals, self.proxies]);
        tables.extend(pages::tables(hosts, &self.loads));
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

fn counters(host: &Host) -> Row<'static, 15> {
    let counters = host.endpoint.counters();
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

/// Every stream of a flow as both sides saw it.
fn streams(hosts: &[Host]) -> Table {
    let mut table = Table::new("streams");
    for pair in hosts.chunks(2) {
        let [client, server] = pair else { continue };
        let theirs = server.endpoint.streams();
        for (connection, ours) in client.endpoint.streams() {
            // Both are in order of (connection, stream).
            let place = theirs.binary_search_by_key(&(connection, ours.id), |(index, stream)| {
                (*index, stream.id)
            });
            let other = place.ok().map(|place| &theirs[place].1);
            let seconds = |time: Option<Time>| time.map(Time::seconds);
            table.row(&[
                ("flow", client.flow.as_str().into()),
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

fn summary(hosts: &[Host]) -> Table {
    let mut table = Table::new("summary");
    for pair in hosts.chunks(2) {
        let [client, server] = pair else { continue };
        for (host, peer) in [(client, server), (server, client)] {
            // What this side sent is what its peer's streams received.
            let (mine, sent) = (host.endpoint.streams(), peer.endpoint.streams());
            let first = mine.iter().chain(&sent).map(|(_, stream)| stream.opened).min();
            let last = sent.iter().filter_map(|(_, stream)| stream.last_byte).max();
            let fin = sent.iter().filter_map(|(_, stream)| stream.fin).max();
            let heard = mine.iter().filter_map(|(_, stream)| stream.first_byte).min();
            let seconds = |time: Option<Time>| time.map(Time::seconds);
            let mut row: Vec<(&'static str, Value<'_>)> = vec![
                ("flow", host.flow.as_str().into()),
                ("side", host.side.name().into()),
                ("congestion", host.congestion.as_str().into()),
                ("start_s", host.start.seconds().into()),
                ("connected_s", seconds(host.endpoint.connected_at()).into()),
                ("first_byte_s", seconds(heard).into()),
                ("data_start_s", seconds(first).into()),
                ("data_end_s", seconds(last).into()),
                ("fin_s", seconds(fin).into()),
                ("end_s", seconds(host.endpoint.ended_at()).into()),
                ("connections", u64::from(host.endpoint.opened()).into()),
                ("completed_connections", u64::from(host.endpoint.completed()).into()),
            ];
            row.extend(counters(host));
            let largest = host.endpoint.counters().largest_cwnd_bytes;
            let delivered = peer.endpoint.counters();
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
