//! What a node tells while it runs, line by line as JSON: rows of the tables that virtual time has of bundle nodes, and what
//! its connections have carried.

use std::io::Write;

use bundle::{Name, Record, ReportRecord, RouteRecord};
use serde_json::{Value, json};
use units::{Span, Time};

use super::{BundleHost, FoundStore, NodePlan, Traffic};
use crate::perf::Failure;

/// What has been told.
pub(super) struct Told {
    node: String,
    neighbours: Vec<String>,
    /// Of each end, what was last told.
    traffic: Vec<Traffic>,
    late: Vec<Span>,
}

impl Told {
    /// Nothing yet, of the node of `plan`.
    pub(super) fn new(plan: &NodePlan) -> Told {
        Told {
            node: plan.name.clone(),
            neighbours: plan.doors.iter().map(|door| door.neighbour.clone()).collect(),
            traffic: vec![Traffic::default(); plan.doors.len()],
            late: Vec::new(),
        }
    }

    /// It looked so much later than it was to, each time.
    pub(super) fn late(&mut self, by: impl Iterator<Item = Span>) {
        self.late.extend(by);
    }

    /// Writes what has happened, and has the agent forget it.
    pub(super) fn tell(
        &mut self,
        now: Time,
        host: &mut BundleHost,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let events = host.take_events();
        for one in &events.records {
            writeln!(out, "{}", bundles(&self.node, one))?;
        }
        for one in &events.routes {
            writeln!(out, "{}", routes(&self.node, one))?;
        }
        for one in &events.reports {
            writeln!(out, "{}", reports(&self.node, one))?;
        }
        for mut row in host.take_files_told() {
            row["node"] = json!(self.node);
            writeln!(out, "{row}")?;
        }
        for (end, traffic) in host.traffic().iter().enumerate() {
            if self.traffic[end] != *traffic {
                self.traffic[end] = traffic.clone();
                writeln!(out, "{}", connections(self, now, end))?;
            }
        }
        Ok(out.flush()?)
    }

    /// The same at its end, with what it still has.
    pub(super) fn end(
        &mut self,
        now: Time,
        host: &mut BundleHost,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        self.tell(now, host, out)?;
        for (bundle, came) in host.agent().kept() {
            let row = json!({
                "table": "stored", "node": self.node, "came_s": came.seconds(),
                "payload_bytes": bundle.payload_bytes(),
            });
            writeln!(out, "{}", named(row, &Name::of(bundle)))?;
        }
        self.late.sort_unstable();
        let late = self.late.get((self.late.len().saturating_sub(1)) * 95 / 100);
        let late = late.map(|span| span.nanos());
        let row = json!({"table": "node", "node": self.node, "time_s": now.seconds(), "late_p95_ns": late});
        writeln!(out, "{row}")?;
        Ok(out.flush()?)
    }
}

/// What was found in the store of a node.
pub(super) fn found(store: &FoundStore) -> Value {
    let damaged = store.damaged.iter().map(|one| {
        let mut row = json!({"why": one.why, "file": one.file});
        if let Some(name) = &one.bundle {
            row = named(row, name);
        }
        row
    });
    json!({
        "bundles": store.bundles, "bytes": store.bytes, "delivered": store.delivered,
        "damaged": damaged.collect::<Vec<_>>(),
    })
}

/// `row` with a bundle's name in the columns that all tables have for it.
fn named(mut row: Value, name: &Name) -> Value {
    row["source"] = json!(name.source);
    row["created_ms"] = json!(name.created_ms);
    row["sequence"] = json!(name.sequence);
    row["offset_bytes"] = json!(name.offset);
    row
}

fn bundles(node: &str, one: &Record) -> Value {
    let row = json!({
        "time_s": one.at.seconds(), "node": node, "event": one.what.name(), "kind": one.kind,
        "destination": one.destination, "payload_bytes": one.payload_bytes, "peer": one.peer,
        "reason": one.reason,
    });
    named(row, &one.bundle)
}

fn routes(node: &str, one: &RouteRecord) -> Value {
    let row = json!({
        "table": "routes", "time_s": one.at.seconds(), "node": node, "to": one.to,
        "decision": one.decision, "next": one.next, "arrival_s": one.arrival.map(Time::seconds),
        "contacts": one.contacts, "reason": one.reason,
    });
    named(row, &one.bundle)
}

fn reports(node: &str, one: &ReportRecord) -> Value {
    let [received, forwarded, delivered, deleted] = one.times_ms;
    let row = json!({
        "table": "reports", "time_s": one.at.seconds(), "node": node,
        "report_source": one.report.source, "report_created_ms": one.report.created_ms,
        "report_sequence": one.report.sequence, "total_bytes": one.total_bytes,
        "received_ms": received, "forwarded_ms": forwarded, "delivered_ms": delivered,
        "deleted_ms": deleted, "reason": one.reason,
    });
    named(row, &one.bundle)
}

/// What the connections of an end have carried so far.
fn connections(told: &Told, now: Time, end: usize) -> Value {
    let traffic = &told.traffic[end];
    json!({
        "table": "connections", "time_s": now.seconds(), "node": told.node, "end": end,
        "neighbour": told.neighbours[end], "begun": traffic.begun, "ended": traffic.ended,
        "lost": traffic.lost, "begun_s": traffic.first_begun.map(Time::seconds),
        "started_s": traffic.first_started.map(Time::seconds),
        "written_bytes": traffic.written_bytes, "received_bytes": traffic.received_bytes,
        "first_written_s": traffic.first_written.map(Time::seconds),
        "first_received_s": traffic.first_received.map(Time::seconds),
        "last_received_s": traffic.last_received.map(Time::seconds), "why": traffic.why,
    })
}
