//! Measuring is pulled: counters are read at the sampling tick and become rows.

use std::collections::BTreeMap;

use path::{Cause, HoldCounters, Topology, UserQueue, UserTally};
use transport::web::WebSpec;
use transport::{Counters, Event, EventKind, Gauges, Node, Side, TcpCounters};
use units::{Span, Time};

use crate::calls;
use crate::flow::{FlowSide, hosts};
use crate::groups::{Groups, Together};
use crate::pages;
use crate::proxies::{FlowProxy, SOCKETS};
use crate::seat::Seat;
use crate::tables::{Row, Table, Value};

/// Rows gathered so far.
pub struct Recorder {
    interval: Span,
    next: Time,
    groups: Groups,
    flows: Table,
    internals: Table,
    links: Table,
    proxies: Table,
    holds: Table,
    users: Table,
    /// What only TCP counts, where it is asked for.
    tcp: Option<Table>,
    events: Table,
    /// The pages that the flows load.
    loads: Vec<Option<WebSpec>>,
}

fn millis(span: Option<Span>) -> Option<f64> {
    span.map(Span::millis)
}

impl Recorder {
    /// Samples every `interval_ns`, the first time after one interval. `groups` have their series together,
    /// `loads` are the pages that the flows load.
    pub fn new(interval_ns: u64, groups: Groups, loads: Vec<Option<WebSpec>>) -> Recorder {
        let interval = Span(interval_ns.max(1));
        Recorder {
            interval,
            next: Time::ZERO + interval,
            groups,
            flows: Table::new("flows"),
            internals: Table::declared("internals", &internals_row(0.0, "", "", "", 0.0)),
            links: Table::new("links"),
            proxies: Table::declared(
                "proxies",
                &proxy_row(0.0, ["", "", ""], 0, &Gauges::default(), 0, &Counters::default()),
            ),
            holds: Table::new("holds"),
            users: Table::new("users"),
            tcp: None,
            events: Table::declared("events", &events_row("", "", &NO_EVENT)),
            loads,
        }
    }

    /// With the table of what only TCP counts.
    pub fn with_tcp(mut self, asked: bool) -> Recorder {
        self.tcp = asked.then(|| Table::new("tcp"));
        self
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
        self.sample_flows(time, seats, sides);
        self.sample_proxies(time, &seats[hosts(sides)..], proxies);
        self.sample_links(time, topology);
        for (node, hold) in topology.holds() {
            self.holds.row(&hold_row(time, topology.node_name(node), hold.counters()));
        }
    }

    fn sample_flows(&mut self, time: f64, seats: &mut [Seat], sides: &[FlowSide]) {
        let mut together = vec![[Together::default(); 2]; self.groups.len()];
        for (index, side) in sides.iter().enumerate() {
            let (seat, at) = side.at;
            let node = seats[seat].node.as_mut();
            let (flow, end) = (side.flow.as_str(), side.side.name());
            let (gauges, counters) = (node.gauges(at), node.counters(at));
            let group = self.groups.of_flow(index / 2);
            if let Some(group) = group {
                together[group][index % 2].add(node, at, &gauges, &counters);
            }
            if group.is_none_or(|group| self.groups.each(group)) {
                self.flows.row(&flows_row(time, flow, end, &gauges, &counters));
                if let Some(table) = &mut self.tcp {
                    table.row(&tcp_row(time, flow, end, &counters.tcp));
                }
                if let Some(controller) = node.controller(at) {
                    controller.trace(&mut |name, value| {
                        self.internals.row(&internals_row(time, flow, end, name, value));
                    });
                }
            }
            for event in node.take_events(at) {
                self.events.row(&events_row(flow, end, &event));
            }
        }
        for (group, both) in together.iter().enumerate() {
            for (sum, side) in both.iter().zip([Side::Client, Side::Server]) {
                let name = self.groups.name(group);
                self.flows.row(&flows_row(time, name, side.name(), &sum.gauges(), &sum.counters));
                if let Some(table) = &mut self.tcp {
                    table.row(&tcp_row(time, name, side.name(), &sum.counters.tcp));
                }
            }
        }
    }

    fn sample_proxies(&mut self, time: f64, between: &[Seat], proxies: &[FlowProxy]) {
        let mut together: BTreeMap<(usize, &str, usize), Together> = BTreeMap::new();
        for (seat, proxy) in between.iter().zip(proxies) {
            let (node, group) = (seat.node.as_ref(), self.groups.of_flow(proxy.number));
            for (end, socket) in SOCKETS.into_iter().enumerate() {
                let (gauges, counters) = (node.gauges(end), node.counters(end));
                if let Some(group) = group {
                    let sum = together.entry((group, proxy.node.as_str(), end)).or_default();
                    sum.add(node, end, &gauges, &counters);
                }
                if group.is_none_or(|group| self.groups.each(group)) {
                    self.proxies.row(&proxy_row(
                        time,
                        [&proxy.flow, &proxy.node, socket],
                        u64::from(node.opened(end)),
                        &gauges,
                        node.waiting_bytes(end),
                        &counters,
                    ));
                }
            }
        }
        for ((group, proxy, end), sum) in &together {
            self.proxies.row(&proxy_row(
                time,
                [self.groups.name(*group), proxy, SOCKETS[*end]],
                sum.opened,
                &sum.gauges(),
                sum.waiting_bytes,
                &sum.counters,
            ));
        }
    }

    fn sample_links(&mut self, time: f64, topology: &Topology) {
        let mut together: Vec<[Option<LinkCounters>; 2]> = vec![[None, None]; self.groups.len()];
        for (index, line) in topology.lines.iter().enumerate() {
            for (user, tally) in (0u64..).zip(line.users()).filter(|(_, tally)| !tally.is_empty()) {
                self.users.row(&users_row(time, topology.line_name(index), user, tally));
            }
            let counters = link_counters(line);
            let group = self.groups.of_link(index / 2);
            if let Some(group) = group {
                add(&mut together[group][index % 2], &counters);
            }
            if group.is_none_or(|group| self.groups.each(group)) {
                self.links.row(&links_row(time, topology.line_name(index), counters));
            }
        }
        for (group, both) in together.into_iter().enumerate() {
            for (counters, name) in both.into_iter().zip(self.groups.lines(group)) {
                if let Some(counters) = counters {
                    self.links.row(&links_row(time, name, counters));
                }
            }
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
        let of = |side: &FlowSide| (seats[side.at.0].node.as_ref(), side.at.1);
        let flows: Vec<Flow<'_>> =
            sides.chunks_exact(2).map(|both| ([of(&both[0]), of(&both[1])], both)).collect();
        let mut tables =
            vec![summary(&flows, &self.groups), streams(&flows), link_summary(topology)];
        tables.extend([self.flows, self.links, self.events, self.internals, self.proxies]);
        tables.extend(pages::tables(seats, sides, &self.loads));
        let queues = user_queues(topology);
        tables
            .extend([self.holds, self.users, queues].into_iter().filter(|table| table.rows() > 0));
        tables.extend(self.tcp);
        tables.extend(calls::tables(end, seats, sides));
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
    connections: u64,
    gauges: &Gauges,
    waiting_bytes: u64,
    counters: &Counters,
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

fn users_row<'a>(time: f64, link: &'a str, user: u64, tally: &UserTally) -> Row<'a, 14> {
    let after = |retransmissions| tally.decoded_after.get(retransmissions).copied().unwrap_or(0);
    [
        ("time_s", time.into()),
        ("link", link.into()),
        ("user", user.into()),
        ("attempts", tally.attempts.into()),
        ("copies", tally.copies.into()),
        ("air_s", tally.air.seconds().into()),
        ("coded_bits", tally.coded_bits.into()),
        ("useful_bits", (tally.decoded_bytes * 8).into()),
        ("decoded_after_0_packets", after(0).into()),
        ("decoded_after_1_packets", after(1).into()),
        ("decoded_after_2_packets", after(2).into()),
        ("decoded_after_3_packets", after(3).into()),
        ("decoded_later_packets", tally.decoded_after.iter().skip(4).sum::<u64>().into()),
        ("dropped_link_packets", tally.dropped_packets.into()),
    ]
}

/// What became of each user's packets in the queues of schedulers.
fn user_queues(topology: &Topology) -> Table {
    let mut table = Table::new("user_queues");
    for (index, line) in topology.lines.iter().enumerate() {
        for queue in line.user_queues() {
            table.row(&user_queues_row(topology.line_name(index), &queue));
        }
    }
    table
}

fn user_queues_row<'a>(link: &'a str, queue: &UserQueue) -> Row<'a, 13> {
    [
        ("link", link.into()),
        ("user", u64::from(queue.user).into()),
        ("arrived_packets", queue.arrived.into()),
        ("sent_packets", queue.sent.into()),
        ("queued_packets", queue.queued_packets.into()),
        ("queued_bytes", queue.queued_bytes.into()),
        ("waited_s", queue.waited.seconds().into()),
        ("longest_wait_s", queue.longest.seconds().into()),
        ("dropped_overflow_packets", queue.dropped_overflow.into()),
        ("dropped_late_packets", queue.dropped_late.into()),
        ("dropped_outage_packets", queue.dropped_outage.into()),
        ("best_s", queue.best.map(|(time, _)| time.seconds()).into()),
        ("best_spells", queue.best.map(|(_, spells)| spells as f64).into()),
    ]
}

/// Sums are over samples of the round-trip time, and over pairs.
fn tcp_row<'a>(
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
        ("pair_wait_s", seconds(counters.pair_wait_ns)),
    ];
    let names = [
        "pairs_within_1_ms",
        "pairs_within_5_ms",
        "pairs_within_10_ms",
        "pairs_within_20_ms",
        "pairs_within_30_ms",
        "pairs_within_40_ms",
    ];
    row.extend(names.into_iter().zip(counters.pairs_within.map(Value::from)));
    row
}

fn flows_row<'a>(
    time: f64,
    flow: &'a str,
    side: &'a str,
    gauges: &Gauges,
    counters: &Counters,
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
    row.extend(counted(counters));
    row
}

fn counted(counters: &Counters) -> Row<'static, 15> {
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

type LinkCounters = Vec<(&'static str, u64)>;

fn link_counters(line: &path::Line) -> LinkCounters {
    let (gauge, counters) = (line.gauge(), line.counters());
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
        "dropped_link_packets",
        "dropped_route_packets",
    ];
    debug_assert!(Cause::ALL.iter().zip(names).all(|(cause, name)| name.contains(cause.name())));
    row.extend(names.into_iter().zip(counters.dropped_packets));
    row.push(("marked_packets", counters.marked_packets));
    row
}

fn links_row(time: f64, link: &str, counters: LinkCounters) -> Vec<(&'static str, Value<'_>)> {
    let mut row = vec![("time_s", Value::from(time)), ("link", link.into())];
    row.extend(counters.into_iter().map(|(name, count)| (name, count.into())));
    row
}

/// Adds another line's counters to those of its group.
fn add(sum: &mut Option<LinkCounters>, counters: &LinkCounters) {
    match sum {
        None => *sum = Some(counters.clone()),
        Some(sum) => sum.iter_mut().zip(counters).for_each(|(one, other)| one.1 += other.1),
    }
}

/// Both sides of a flow, client first: their nodes, and which ends of them.
type Flow<'a> = ([(&'a dyn Node, usize); 2], &'a [FlowSide]);

/// Every stream of a flow as both sides saw it.
fn streams(flows: &[Flow<'_>]) -> Table {
    let mut table = Table::new("streams");
    for ([(client, near), (server, far)], sides) in flows {
        let theirs = server.streams(*far);
        for (connection, ours) in client.streams(*near) {
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

fn summary(flows: &[Flow<'_>], groups: &Groups) -> Table {
    let mut table = Table::new("summary");
    for (number, ([client, server], sides)) in flows.iter().enumerate() {
        for (host, peer, side) in [(client, server, &sides[0]), (server, client, &sides[1])] {
            let ((node, end), (peer, far)) = (*host, *peer);
            // What this side sent is what its peer's streams received.
            let (mine, sent) = (node.streams(end), peer.streams(far));
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
                ("connected_s", seconds(node.connected_at(end)).into()),
                ("first_byte_s", seconds(heard).into()),
                ("data_start_s", seconds(first).into()),
                ("data_end_s", seconds(last).into()),
                ("fin_s", seconds(fin).into()),
                ("end_s", seconds(node.ended_at(end)).into()),
                ("connections", u64::from(node.opened(end)).into()),
                ("completed_connections", u64::from(node.completed(end)).into()),
            ];
            row.extend(counted(&node.counters(end)));
            let largest = node.counters(end).largest_cwnd_bytes;
            let delivered = peer.counters(far);
            row.push(("largest_cwnd_bytes", largest.into()));
            row.push(("delivered_bytes", delivered.received_bytes.into()));
            row.push(("delivered_in_order_bytes", delivered.received_in_order_bytes.into()));
            // Runs without groups keep their columns.
            if groups.len() > 0 {
                let name = groups.of_flow(number).map(|group| groups.name(group));
                row.push(("flow_group", name.unwrap_or(&side.flow).into()));
            }
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
        row.extend(link_counters(line).into_iter().map(|(name, count)| (name, count.into())));
        row.push(("queueing_p50_ms", millis(quantile(0.5)).into()));
        row.push(("queueing_p95_ms", millis(quantile(0.95)).into()));
        row.push(("queueing_p99_ms", millis(quantile(0.99)).into()));
        row.push(("queueing_max_ms", millis(quantile(1.0)).into()));
        table.row(&row);
    }
    table
}
