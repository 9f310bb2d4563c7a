//! Records measurements: reads counters at each sampling tick and converts them into rows.

pub mod groups;
mod media;
mod pages;
mod rows;
mod summary;
pub mod tables;

use std::collections::BTreeMap;

use topology::Topology;
use transport::web::WebSpec;
use transport::{FlowCounters, FlowEvent, FlowEventKind, Probe, SenderGauges, Side};
use units::{Span, Time};

use crate::nodes::attachment::Attachment;
use crate::nodes::flow::{FlowEndpoint, count_hosts};
use crate::nodes::proxies::{FlowProxy, SOCKET_NAMES};
use groups::{GroupSample, MeasurementGroups};
use rows::{
    CounterColumns, add_columns, events_row, flows_row, internals_row, link_counters, links_row,
    proxy_row, store_forward_row, tcp_row, users_row,
};
use summary::{FlowEndpoints, link_summary_table, streams_table, summary_table, user_queues_table};
use tables::Table;

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
            internals: Table::with_columns(
                "controller_state",
                &internals_row(0.0, "", "", "", 0.0),
            ),
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
            store_forward: Table::new("node_buffers"),
            users: Table::new("radio_users"),
            tcp: None,
            events: Table::with_columns("events", &events_row("", "", &NO_EVENT)),
            page_specs,
        }
    }

    /// Enables the table of TCP-specific counters.
    pub fn with_tcp(mut self, is_enabled: bool) -> Recorder {
        self.tcp = is_enabled.then(|| Table::new("tcp_counters"));
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

    /// Returns the bytes of all rows.
    pub fn bytes(&self) -> u64 {
        let tables = [&self.flows, &self.internals, &self.links, &self.proxies];
        let more = [&self.store_forward, &self.users, &self.events];
        tables.into_iter().chain(more).chain(&self.tcp).map(Table::bytes).sum()
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
