//! Records measurements: reads counters at each sampling tick and converts them into rows.

pub mod groups;
mod media;
mod pages;
pub mod tables;

use std::collections::BTreeMap;

use link::{DropReason, UserLinkStats, UserQueueStats};
use topology::{StoreForwardCounters, Topology};
use transport::web::WebSpec;
use transport::{FlowCounters, FlowEvent, FlowEventKind, Probe, SenderGauges, Side, TcpCounters};
use units::{Span, Time};

use crate::nodes::attachment::Attachment;
use crate::nodes::flow::{FlowEndpoint, count_hosts};
use crate::nodes::proxies::{FlowProxy, SOCKET_NAMES};
use groups::{GroupSample, MeasurementGroups};
use tables::{Row, Table, Value};

/// The rows recorded so far.
pub struct Recorder {
    interval: Span,
    next_sample_at: Time,
    groups: MeasurementGroups,
    flows: Table,
    internals: Table,
    links: Table,
    proxies: Table,
    store_forward: Table,
    users: Table,
    /// The table of TCP-specific counters, if enabled.
    tcp: Option<Table>,
    events: Table,
    /// The page of each flow.
    page_specs: Vec<Option<WebSpec>>,
}

fn millis(span: Option<Span>) -> Option<f64> {
    span.map(Span::millis)
}

impl Recorder {
    /// Creates a recorder with the first sample after one `interval_ns`. `groups` share series, and `page_specs`
    /// contains the page of each flow.
    pub fn new(
        interval_ns: u64,
        groups: MeasurementGroups,
        page_specs: Vec<Option<WebSpec>>,
    ) -> Recorder {
        let interval = Span(interval_ns.max(1));
        Recorder {
            interval,
            next_sample_at: Time::ZERO + interval,
            groups,
            flows: Table::new("flows"),
            internals: Table::with_columns("internals", &internals_row(0.0, "", "", "", 0.0)),
            links: Table::new("links"),
            proxies: Table::with_columns(
                "proxies",
                &proxy_row(
                    0.0,
                    ["", "", ""],
                    0,
                    &SenderGauges::default(),
                    0,
                    &FlowCounters::default(),
                ),
            ),
            store_forward: Table::new("holds"),
            users: Table::new("users"),
            tcp: None,
            events: Table::with_columns("events", &events_row("", "", &NO_EVENT)),
            page_specs,
        }
    }

    /// Enables the table of TCP-specific counters.
    pub fn with_tcp(mut self, is_enabled: bool) -> Recorder {
        self.tcp = is_enabled.then(|| Table::new("tcp"));
        self
    }

    /// Returns the time of the next sample.
    pub fn next_sample_at(&self) -> Time {
        self.next_sample_at
    }

    /// Takes a sample. `flow_endpoints` and `proxies` label the `attachments`, in this sequence.
    pub fn sample(
        &mut self,
        now: Time,
        attachments: &mut [Attachment],
        flow_endpoints: &[FlowEndpoint],
        proxies: &[FlowProxy],
        topology: &Topology,
    ) {
        self.next_sample_at = now + self.interval;
        let time = now.seconds();
        self.sample_flows(time, attachments, flow_endpoints);
        self.sample_proxies(time, &attachments[count_hosts(flow_endpoints)..], proxies);
        self.sample_links(time, topology);
        for (node, buffer) in topology.store_forward_buffers() {
            self.store_forward.push_row(&store_forward_row(
                time,
                topology.node_name(node),
                buffer.counters(),
            ));
        }
    }

    fn sample_flows(
        &mut self,
        time: f64,
        attachments: &mut [Attachment],
        flow_endpoints: &[FlowEndpoint],
    ) {
        let mut samples = vec![[GroupSample::default(); 2]; self.groups.len()];
        for (index, side) in flow_endpoints.iter().enumerate() {
            let (attachment, interface) = side.interface_id;
            let node = &mut *attachments[attachment].node;
            let (flow, side_name) = (side.flow.as_str(), side.side.name());
            let (gauges, counters) = (node.gauges(interface), node.counters(interface));
            let group = self.groups.group_of_flow(index / 2);
            if let Some(group) = group {
                samples[group][index % 2].add(node, interface, &gauges, &counters);
            }
            if group.is_none_or(|group| self.groups.has_member_series(group)) {
                self.flows.push_row(&flows_row(time, flow, side_name, &gauges, &counters));
                if let Some(table) = &mut self.tcp {
                    table.push_row(&tcp_row(time, flow, side_name, &counters.tcp));
                }
                if let Some(controller) = node.controller(interface) {
                    controller.trace(&mut |name, value| {
                        self.internals.push_row(&internals_row(time, flow, side_name, name, value));
                    });
                }
            }
            for event in node.take_events(interface) {
                self.events.push_row(&events_row(flow, side_name, &event));
            }
        }
        for (group, group_sides) in samples.iter().enumerate() {
            for (sum, side) in group_sides.iter().zip([Side::Client, Side::Server]) {
                let name = self.groups.name(group);
                self.flows.push_row(&flows_row(
                    time,
                    name,
                    side.name(),
                    &sum.gauges(),
                    &sum.counters,
                ));
                if let Some(table) = &mut self.tcp {
                    table.push_row(&tcp_row(time, name, side.name(), &sum.counters.tcp));
                }
            }
        }
    }

    fn sample_proxies(&mut self, time: f64, attachments: &[Attachment], proxies: &[FlowProxy]) {
        let mut samples: BTreeMap<(usize, &str, usize), GroupSample> = BTreeMap::new();
        for (attachment, proxy) in attachments.iter().zip(proxies) {
            let (node, group) = (&*attachment.node, self.groups.group_of_flow(proxy.flow_index));
            for (end, socket) in SOCKET_NAMES.into_iter().enumerate() {
                let (gauges, counters) = (node.gauges(end), node.counters(end));
                if let Some(group) = group {
                    let sum = samples.entry((group, proxy.node.as_str(), end)).or_default();
                    sum.add(node, end, &gauges, &counters);
                }
                if group.is_none_or(|group| self.groups.has_member_series(group)) {
                    self.proxies.push_row(&proxy_row(
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
        for ((group, proxy, end), sum) in &samples {
            self.proxies.push_row(&proxy_row(
                time,
                [self.groups.name(*group), proxy, SOCKET_NAMES[*end]],
                sum.opened,
                &sum.gauges(),
                sum.waiting_bytes,
                &sum.counters,
            ));
        }
    }

    fn sample_links(&mut self, time: f64, topology: &Topology) {
        let mut sums: Vec<[Option<CounterColumns>; 2]> = vec![[None, None]; self.groups.len()];
        for (index, link) in topology.simplex_links.iter().enumerate() {
            for (user, stats) in
                (0u64..).zip(link.user_stats()).filter(|(_, stats)| !stats.is_empty())
            {
                self.users.push_row(&users_row(
                    time,
                    topology.simplex_link_name(index),
                    user,
                    stats,
                ));
            }
            let counters = link_counters(link);
            let group = self.groups.group_of_link(index / 2);
            if let Some(group) = group {
                add_columns(&mut sums[group][index % 2], &counters);
            }
            if group.is_none_or(|group| self.groups.has_member_series(group)) {
                self.links.push_row(&links_row(time, topology.simplex_link_name(index), counters));
            }
        }
        for (group, directions) in sums.into_iter().enumerate() {
            for (counters, name) in directions.into_iter().zip(self.groups.link_series(group)) {
                if let Some(counters) = counters {
                    self.links.push_row(&links_row(time, name, counters));
                }
            }
        }
    }

    /// Takes a last sample and returns all tables.
    pub fn finish(
        mut self,
        end: Time,
        attachments: &mut [Attachment],
        flow_endpoints: &[FlowEndpoint],
        proxies: &[FlowProxy],
        topology: &Topology,
    ) -> Vec<Table> {
        if self.next_sample_at != end + self.interval {
            self.sample(end, attachments, flow_endpoints, proxies, topology);
        }
        let node_of = |side: &FlowEndpoint| {
            let node: &dyn Probe = &*attachments[side.interface_id.0].node;
            (node, side.interface_id.1)
        };
        let flows: Vec<FlowEndpoints<'_>> = flow_endpoints
            .chunks_exact(2)
            .map(|endpoints| ([node_of(&endpoints[0]), node_of(&endpoints[1])], endpoints))
            .collect();
        let mut tables = vec![
            summary_table(&flows, &self.groups),
            streams_table(&flows),
            link_summary_table(topology),
        ];
        tables.extend([self.flows, self.links, self.events, self.internals, self.proxies]);
        tables.extend(pages::tables(attachments, flow_endpoints, &self.page_specs));
        let queues = user_queues_table(topology);
        tables.extend(
            [self.store_forward, self.users, queues]
                .into_iter()
                .filter(|table| table.row_count() > 0),
        );
        tables.extend(self.tcp);
        tables.extend(media::tables(end, attachments, flow_endpoints));
        tables
    }
}

const NO_EVENT: FlowEvent =
    FlowEvent { time: Time::ZERO, connection: 0, kind: FlowEventKind::Start, value: 0.0 };

fn events_row<'a>(flow: &'a str, side: &'a str, event: &FlowEvent) -> Row<'a, 6> {
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
        ("timeouts", counters.timeouts.into()),
        ("ptos", counters.ptos.into()),
    ]
}

fn store_forward_row<'a>(time: f64, node: &'a str, counters: &StoreForwardCounters) -> Row<'a, 10> {
    [
        ("time_s", time.into()),
        ("node", node.into()),
        ("held_packets", counters.buffered_packets().into()),
        ("held_bytes", counters.buffered_bytes().into()),
        ("arrived_packets", counters.arrived_packets.into()),
        ("arrived_bytes", counters.arrived_bytes.into()),
        ("released_packets", counters.released_packets.into()),
        ("released_bytes", counters.released_bytes.into()),
        ("dropped_overflow_packets", counters.dropped_packets.into()),
        ("dropped_overflow_bytes", counters.dropped_bytes.into()),
    ]
}

fn users_row<'a>(time: f64, link: &'a str, user: u64, stats: &UserLinkStats) -> Row<'a, 14> {
    let after = |retransmissions| stats.decoded_after.get(retransmissions).copied().unwrap_or(0);
    [
        ("time_s", time.into()),
        ("link", link.into()),
        ("user", user.into()),
        ("attempts", stats.attempts.into()),
        ("copies", stats.duplicates.into()),
        ("air_s", stats.airtime.seconds().into()),
        ("coded_bits", stats.coded_bits.into()),
        ("useful_bits", (stats.decoded_bytes * 8).into()),
        ("decoded_after_0_packets", after(0).into()),
        ("decoded_after_1_packets", after(1).into()),
        ("decoded_after_2_packets", after(2).into()),
        ("decoded_after_3_packets", after(3).into()),
        ("decoded_later_packets", stats.decoded_after.iter().skip(4).sum::<u64>().into()),
        ("dropped_link_packets", stats.dropped_packets.into()),
    ]
}

/// Returns the statistics of each user's packets in the queues of schedulers.
fn user_queues_table(topology: &Topology) -> Table {
    let mut table = Table::new("user_queues");
    for (index, link) in topology.simplex_links.iter().enumerate() {
        for queue in link.user_queues() {
            table.push_row(&user_queues_row(topology.simplex_link_name(index), &queue));
        }
    }
    table
}

fn user_queues_row<'a>(link: &'a str, queue: &UserQueueStats) -> Row<'a, 13> {
    [
        ("link", link.into()),
        ("user", u64::from(queue.user).into()),
        ("arrived_packets", queue.arrived.into()),
        ("sent_packets", queue.sent.into()),
        ("queued_packets", queue.queued_packets.into()),
        ("queued_bytes", queue.queued_bytes.into()),
        ("waited_s", queue.total_wait.seconds().into()),
        ("longest_wait_s", queue.max_wait.seconds().into()),
        ("dropped_overflow_packets", queue.dropped_overflow.into()),
        ("dropped_late_packets", queue.dropped_late.into()),
        ("dropped_outage_packets", queue.dropped_outage.into()),
        ("best_s", queue.best_channel.map(|(time, _)| time.seconds()).into()),
        ("best_spells", queue.best_channel.map(|(_, spells)| spells as f64).into()),
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

fn flows_row<'a>(
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

fn counter_columns(counters: &FlowCounters) -> Row<'static, 15> {
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
        ("undone", counters.undone_reductions.into()),
        ("retransmitted_bytes", counters.retransmitted_bytes.into()),
        ("written_bytes", counters.written_bytes.into()),
        ("received_bytes", counters.received_bytes.into()),
        ("received_in_order_bytes", counters.received_in_order_bytes.into()),
    ]
}

type CounterColumns = Vec<(&'static str, u64)>;

fn link_counters(link: &link::SimplexLink) -> CounterColumns {
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
        "dropped_link_packets",
        "dropped_route_packets",
    ];
    debug_assert!(
        DropReason::ALL.iter().zip(names).all(|(cause, name)| name.contains(cause.name()))
    );
    row.extend(names.into_iter().zip(counters.dropped_packets));
    row.push(("marked_packets", counters.marked_packets));
    row
}

fn links_row(time: f64, link: &str, counters: CounterColumns) -> Vec<(&'static str, Value<'_>)> {
    let mut row = vec![("time_s", Value::from(time)), ("link", link.into())];
    row.extend(counters.into_iter().map(|(name, count)| (name, count.into())));
    row
}

/// Adds the counters of another link to the sums of its group.
fn add_columns(sum: &mut Option<CounterColumns>, counters: &CounterColumns) {
    match sum {
        None => *sum = Some(counters.clone()),
        Some(sum) => sum.iter_mut().zip(counters).for_each(|(column, added)| column.1 += added.1),
    }
}

/// Both endpoints of a flow, client first: node and interface, then labels.
type FlowEndpoints<'a> = ([(&'a dyn Probe, usize); 2], &'a [FlowEndpoint]);

/// Returns every stream of a flow with the measurements of both sides.
fn streams_table(flows: &[FlowEndpoints<'_>]) -> Table {
    let mut table = Table::new("streams");
    for ([(client, client_interface), (server, server_interface)], sides) in flows {
        let server_streams = server.stream_reports(*server_interface);
        for (connection, client_stream) in client.stream_reports(*client_interface) {
            // Both lists are sorted by (connection, stream).
            let found = server_streams
                .binary_search_by_key(&(connection, client_stream.id), |(index, stream)| {
                    (*index, stream.id)
                });
            let peer_stream = found.ok().map(|index| &server_streams[index].1);
            let seconds = |time: Option<Time>| time.map(Time::seconds);
            table.push_row(&[
                ("flow", sides[0].flow.as_str().into()),
                ("connection", u64::from(connection).into()),
                ("stream_id", client_stream.label.into()),
                ("mode", client_stream.mode.into()),
                ("start_s", client_stream.opened.seconds().into()),
                ("up_written_bytes", client_stream.written.into()),
                ("up_bytes", peer_stream.map_or(0, |stream| stream.received_in_order).into()),
                (
                    "up_first_byte_s",
                    seconds(peer_stream.and_then(|stream| stream.first_byte)).into(),
                ),
                ("up_last_byte_s", seconds(peer_stream.and_then(|stream| stream.last_byte)).into()),
                ("up_fin_s", seconds(peer_stream.and_then(|stream| stream.fin)).into()),
                ("down_written_bytes", peer_stream.map_or(0, |stream| stream.written).into()),
                ("down_bytes", client_stream.received_in_order.into()),
                ("down_first_byte_s", seconds(client_stream.first_byte).into()),
                ("down_last_byte_s", seconds(client_stream.last_byte).into()),
                ("down_fin_s", seconds(client_stream.fin).into()),
            ]);
        }
    }
    table
}

fn summary_table(flows: &[FlowEndpoints<'_>], groups: &MeasurementGroups) -> Table {
    let mut table = Table::new("summary");
    for (number, ([client, server], sides)) in flows.iter().enumerate() {
        for (host, peer, side) in [(client, server, &sides[0]), (server, client, &sides[1])] {
            let ((node, interface), (peer, peer_interface)) = (*host, *peer);
            // The peer's streams receive the data that this side sends.
            let (received, sent) =
                (node.stream_reports(interface), peer.stream_reports(peer_interface));
            let data_start = received.iter().chain(&sent).map(|(_, stream)| stream.opened).min();
            let data_end = sent.iter().filter_map(|(_, stream)| stream.last_byte).max();
            let fin = sent.iter().filter_map(|(_, stream)| stream.fin).max();
            let first_byte = received.iter().filter_map(|(_, stream)| stream.first_byte).min();
            let seconds = |time: Option<Time>| time.map(Time::seconds);
            let mut row: Vec<(&'static str, Value<'_>)> = vec![
                ("flow", side.flow.as_str().into()),
                ("side", side.side.name().into()),
                ("congestion", side.congestion.as_str().into()),
                ("start_s", side.start.seconds().into()),
                ("connected_s", seconds(node.connected_at(interface)).into()),
                ("first_byte_s", seconds(first_byte).into()),
                ("data_start_s", seconds(data_start).into()),
                ("data_end_s", seconds(data_end).into()),
                ("fin_s", seconds(fin).into()),
                ("end_s", seconds(node.ended_at(interface)).into()),
                ("connections", u64::from(node.opened(interface)).into()),
                ("completed_connections", u64::from(node.completed(interface)).into()),
            ];
            row.extend(counter_columns(&node.counters(interface)));
            let largest = node.counters(interface).largest_cwnd_bytes;
            let delivered = peer.counters(peer_interface);
            row.push(("largest_cwnd_bytes", largest.into()));
            row.push(("delivered_bytes", delivered.received_bytes.into()));
            row.push(("delivered_in_order_bytes", delivered.received_in_order_bytes.into()));
            // The columns of a run without groups are unchanged.
            if groups.len() > 0 {
                let name = groups.group_of_flow(number).map(|group| groups.name(group));
                row.push(("flow_group", name.unwrap_or(&side.flow).into()));
            }
            table.push_row(&row);
        }
    }
    table
}

fn link_summary_table(topology: &Topology) -> Table {
    let mut table = Table::new("link_summary");
    for (index, link) in topology.simplex_links.iter().enumerate() {
        let quantile = |q| link.sojourn().and_then(|histogram| histogram.quantile(q));
        let mut row = vec![
            ("link", Value::from(topology.simplex_link_name(index))),
            ("rate_bit_s", link.rate_bit_s().map(|rate| rate as f64).into()),
            ("propagation_ms", (link.propagation_ns() as f64 / 1e6).into()),
        ];
        row.extend(link_counters(link).into_iter().map(|(name, count)| (name, count.into())));
        row.push(("queueing_p50_ms", millis(quantile(0.5)).into()));
        row.push(("queueing_p95_ms", millis(quantile(0.95)).into()));
        row.push(("queueing_p99_ms", millis(quantile(0.99)).into()));
        row.push(("queueing_max_ms", millis(quantile(1.0)).into()));
        table.push_row(&row);
    }
    table
}
