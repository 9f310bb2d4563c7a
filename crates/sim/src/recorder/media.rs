//! The tables of calls: outcome and delay of the datagrams of each direction.

use std::collections::{BTreeMap, BTreeSet};

use transport::ReportSink;
use transport::media::{DelayBin, MediaReport, ReceiverWindow, STATS_WINDOW, SourceStats};
use units::{Direction, Time};

use crate::nodes::attachment::Attachment;
use crate::nodes::flow::FlowEndpoint;
use crate::recorder::tables::{Row, Table, Value};

/// The media report of one host.
#[derive(Default)]
struct MediaReportSink(Option<MediaReport>);

impl ReportSink for MediaReportSink {
    fn add_media_report(&mut self, side: &MediaReport) {
        self.0 = Some(side.clone());
    }
}

/// Returns the tables `calls` and `call_delays` of a run with calls.
pub fn tables(
    end: Time,
    attachments: &[Attachment],
    flow_endpoints: &[FlowEndpoint],
) -> Vec<Table> {
    let (mut calls, mut delays) = (Table::new("calls"), Table::new("call_delays"));
    for (pair, endpoints) in attachments.chunks(2).zip(flow_endpoints.chunks(2)) {
        let [client, server] = [0, 1].map(|index| {
            let mut sink = MediaReportSink::default();
            if let Some(attachment) = pair.get(index) {
                attachment.node.report(&mut sink);
            }
            sink.0.unwrap_or_default()
        });
        for (direction, from, to) in
            [(Direction::Up, &client, &server), (Direction::Down, &server, &client)]
        {
            let Some(source) = &from.sent else { continue };
            let (flow, direction) = (endpoints[0].flow.as_str(), direction_name(direction));
            let undecided = source.undecided(end, to.received.latest());
            let received = to.received.windows();
            let windows: BTreeSet<u32> =
                source.sent.keys().chain(received.keys()).copied().collect();
            for window in windows {
                let none = ReceiverWindow::default();
                let receiver_window = received.get(&window).unwrap_or(&none);
                calls.push_row(&calls_row(
                    [flow, direction],
                    source,
                    window,
                    (receiver_window, &undecided),
                ));
                for (delay, bin) in &receiver_window.bins {
                    delays.push_row(&delays_row([flow, direction], window, *delay, bin));
                }
            }
        }
    }
    if calls.row_count() == 0 {
        return Vec::new();
    }
    if delays.row_count() == 0 {
        delays =
            Table::with_columns("call_delays", &delays_row(["", ""], 0, 0, &DelayBin::default()));
    }
    vec![calls, delays]
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// Returns the start of a window.
fn window_start(window: u32) -> Value<'static> {
    (f64::from(window) * STATS_WINDOW.seconds()).into()
}

fn calls_row<'a>(
    [flow, direction]: [&'a str; 2],
    source: &'a SourceStats,
    window: u32,
    (received, undecided): (&ReceiverWindow, &BTreeMap<u32, u64>),
) -> Row<'a, 16> {
    let of = |counts: &BTreeMap<u32, u64>| counts.get(&window).copied().unwrap_or(0);
    let some = |value: f64| (received.received > 0).then_some(value);
    [
        ("flow", flow.into()),
        ("direction", direction.into()),
        ("source", source.spec.name.as_str().into()),
        ("payload_bytes", u64::from(source.spec.payload_bytes).into()),
        ("interval_ms", (source.spec.interval_ns as f64 / 1e6).into()),
        ("window_s", window_start(window)),
        ("sent_packets", of(&source.sent).into()),
        ("received_packets", received.received.into()),
        ("duplicate_packets", received.duplicates.into()),
        ("reordered_packets", received.overtaken.into()),
        ("pending_packets", of(undecided).into()),
        ("delay_sum_s", (received.delay_ns as f64 / 1e9).into()),
        ("delay_min_ms", some(received.min_delay.millis()).into()),
        ("delay_max_ms", some(received.max_delay.millis()).into()),
        ("jitter_ms", some(received.jitter.millis()).into()),
        ("jitter_sum_s", (received.jitter_ns as f64 / 1e9).into()),
    ]
}

fn delays_row<'a>(
    [flow, direction]: [&'a str; 2],
    window: u32,
    delay_ms: u32,
    bin: &DelayBin,
) -> Row<'a, 7> {
    [
        ("flow", flow.into()),
        ("direction", direction.into()),
        ("window_s", window_start(window)),
        ("delay_ms", u64::from(delay_ms).into()),
        ("packets", bin.packets.into()),
        ("before_slower_packets", bin.before_slower.into()),
        ("after_quicker_packets", bin.after_quicker.into()),
    ]
}
