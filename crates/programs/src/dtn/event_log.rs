//! The output of a running node, one JSON object per line: rows of the simulation's bundle tables, and the traffic of
//! its connections.

use std::io::Write;

use bundle::{BundleEvent, BundleLabel, ReportRecord, RouteRecord};
use serde_json::{Value, json};
use units::{Span, Time};

use super::{BundleHost, BundleNodePlan, InterfaceTraffic, RecoveredStore};
use crate::ProgramError;

/// The output written so far.
pub(super) struct EventLog {
    node: String,
    neighbours: Vec<String>,
    /// The last written traffic of each interface.
    traffic: Vec<InterfaceTraffic>,
    lags: Vec<Span>,
}

impl EventLog {
    /// Creates an empty log for the node of `plan`.
    pub(super) fn new(plan: &BundleNodePlan) -> EventLog {
        EventLog {
            node: plan.name.clone(),
            neighbours: plan
                .neighbours
                .iter()
                .map(|neighbour| neighbour.neighbour.clone())
                .collect(),
            traffic: vec![InterfaceTraffic::default(); plan.neighbours.len()],
            lags: Vec::new(),
        }
    }

    /// Adds wake-up lags of the poll loop.
    pub(super) fn add_lags(&mut self, by: impl Iterator<Item = Span>) {
        self.lags.extend(by);
    }

    /// Writes the pending events and removes them from the agent.
    pub(super) fn write_events(
        &mut self,
        now: Time,
        host: &mut BundleHost,
        out: &mut dyn Write,
    ) -> Result<(), ProgramError> {
        let events = host.take_events();
        for one in &events.records {
            writeln!(out, "{}", bundle_row(&self.node, one))?;
        }
        for one in &events.routes {
            writeln!(out, "{}", route_row(&self.node, one))?;
        }
        for one in &events.reports {
            writeln!(out, "{}", report_row(&self.node, one))?;
        }
        for mut row in host.take_file_rows() {
            row["node"] = json!(self.node);
            writeln!(out, "{row}")?;
        }
        for (end, traffic) in host.traffic().iter().enumerate() {
            if self.traffic[end] != *traffic {
                self.traffic[end] = traffic.clone();
                writeln!(out, "{}", connection_row(self, now, end))?;
            }
        }
        Ok(out.flush()?)
    }

    /// Writes the last events of a node, its stored bundles and its lag.
    pub(super) fn write_final(
        &mut self,
        now: Time,
        host: &mut BundleHost,
        out: &mut dyn Write,
    ) -> Result<(), ProgramError> {
        self.write_events(now, host, out)?;
        for (bundle, received_at) in host.bpa().stored_bundles() {
            let row = json!({
                "table": "bundle_store", "node": self.node, "received_s": received_at.seconds(),
                "payload_bytes": bundle.payload_bytes(),
            });
            writeln!(out, "{}", with_bundle_key(row, &BundleLabel::from_bundle(bundle)))?;
        }
        self.lags.sort_unstable();
        let late = self.lags.get((self.lags.len().saturating_sub(1)) * 95 / 100);
        let late = late.map(|span| span.nanos());
        let row = json!({"table": "node", "node": self.node, "time_s": now.seconds(), "lateness_p95_ns": late});
        writeln!(out, "{row}")?;
        Ok(out.flush()?)
    }
}

/// Returns the recovered content of a node's store.
pub(super) fn recovered_store(store: &RecoveredStore) -> Value {
    let damaged = store.damaged.iter().map(|one| {
        let mut row = json!({"reason": one.reason, "file": one.file});
        if let Some(name) = &one.bundle {
            row = with_bundle_key(row, name);
        }
        row
    });
    json!({
        "bundles": store.bundles, "bytes": store.bytes, "delivered": store.delivered,
        "damaged": damaged.collect::<Vec<_>>(),
    })
}

/// Adds the bundle key columns, which all tables share, to `row`.
fn with_bundle_key(mut row: Value, name: &BundleLabel) -> Value {
    row["source"] = json!(name.source);
    row["created_ms"] = json!(name.created_ms);
    row["sequence"] = json!(name.sequence);
    row["offset_bytes"] = json!(name.offset);
    row
}

fn bundle_row(node: &str, one: &BundleEvent) -> Value {
    let row = json!({
        "time_s": one.at.seconds(), "node": node, "event": one.event.name(), "kind": one.kind,
        "destination": one.destination, "payload_bytes": one.payload_bytes, "peer": one.peer,
        "reason": one.reason,
    });
    with_bundle_key(row, &one.bundle)
}

fn route_row(node: &str, one: &RouteRecord) -> Value {
    let row = json!({
        "table": "bundle_routes", "time_s": one.at.seconds(), "node": node, "to": one.destination,
        "decision": one.decision, "next": one.next_hop, "arrival_s": one.arrival.map(Time::seconds),
        "contacts": one.contacts, "reason": one.reason,
    });
    with_bundle_key(row, &one.bundle)
}

fn report_row(node: &str, one: &ReportRecord) -> Value {
    let [received, forwarded, delivered, deleted] = one.times_ms;
    let row = json!({
        "table": "bundle_status_reports", "time_s": one.at.seconds(), "node": node,
        "report_source": one.report.source, "report_created_ms": one.report.created_ms,
        "report_sequence": one.report.sequence, "total_bytes": one.total_bytes,
        "received_ms": received, "forwarded_ms": forwarded, "delivered_ms": delivered,
        "deleted_ms": deleted, "reason": one.reason,
    });
    with_bundle_key(row, &one.bundle)
}

/// Returns the traffic of an interface so far.
fn connection_row(log: &EventLog, now: Time, end: usize) -> Value {
    let traffic = &log.traffic[end];
    json!({
        "table": "connections", "time_s": now.seconds(), "node": log.node, "end": end,
        "neighbour": log.neighbours[end], "begun": traffic.opened, "ended": traffic.closed,
        "lost": traffic.lost, "begun_s": traffic.first_opened.map(Time::seconds),
        "started_s": traffic.first_established.map(Time::seconds),
        "written_bytes": traffic.written_bytes, "received_bytes": traffic.received_bytes,
        "first_written_s": traffic.first_written.map(Time::seconds),
        "first_received_s": traffic.first_received.map(Time::seconds),
        "last_received_s": traffic.last_received.map(Time::seconds), "why": traffic.last_error,
    })
}
