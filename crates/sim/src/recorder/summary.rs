//! The tables of the end of a run: totals of flows, streams, links and queues.

use link::UserQueueStats;
use topology::Topology;
use transport::Probe;
use units::Time;

use crate::nodes::flow::FlowEndpoint;
use crate::recorder::groups::MeasurementGroups;
use crate::recorder::rows::{counter_columns, link_counters, millis};
use crate::recorder::tables::{Row, Table, Value};

/// Both endpoints of a flow, client first: node and interface, then labels.
pub(super) type FlowEndpoints<'a> = ([(&'a dyn Probe, usize); 2], &'a [FlowEndpoint]);

/// Returns every stream of a flow with the measurements of both sides.
pub(super) fn streams_table(flows: &[FlowEndpoints<'_>]) -> Table {
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

pub(super) fn summary_table(flows: &[FlowEndpoints<'_>], groups: &MeasurementGroups) -> Table {
    let mut table = Table::new("flow_summary");
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
            let largest = node.counters(interface).cwnd_max_bytes;
            let delivered = peer.counters(peer_interface);
            row.push(("cwnd_max_bytes", largest.into()));
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

pub(super) fn link_summary_table(topology: &Topology) -> Table {
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

/// Returns the statistics of each user's packets in the queues of schedulers.
pub(super) fn user_queues_table(topology: &Topology) -> Table {
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
        ("queueing_sum_s", queue.total_wait.seconds().into()),
        ("queueing_max_s", queue.max_wait.seconds().into()),
        ("dropped_overflow_packets", queue.dropped_overflow.into()),
        ("dropped_deadline_packets", queue.dropped_late.into()),
        ("dropped_outage_packets", queue.dropped_outage.into()),
        ("best_channel_s", queue.best_channel.map(|(time, _)| time.seconds()).into()),
        ("best_channel_periods", queue.best_channel.map(|(_, spells)| spells as f64).into()),
    ]
}
