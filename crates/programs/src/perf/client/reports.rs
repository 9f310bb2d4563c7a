//! The samples and the result of a measuring client.

use std::collections::BTreeMap;
use std::io;

use runtime::host::ConnectionReport;
use transport::ConnectionKey;
use transport::perf_load::PerfClient;
use transport::quic::CloseReason;
use units::Time;

use super::super::frames::FrameWriter;
use super::super::report::{ConnectionSample, ControllerNames, ReportScope};
use super::super::summary::{SummaryInput, cpu_seconds};
use super::super::{PerfSummary, SenderReport};
use super::manager::ClientConnection;
use super::{ClientOutput, MeasuringClient};
use crate::ProgramError;

impl MeasuringClient {
    /// Iterates over the opened connections and their indices.
    pub(super) fn opened_connections(&self) -> impl Iterator<Item = (usize, &ClientConnection)> {
        self.connections
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }

    /// Queries the states of the open connections.
    pub(super) fn update_reports(&mut self) {
        for key in self.host.connections() {
            self.host.update_report(key);
        }
    }

    /// Returns the states of the open connections.
    pub(super) fn live_reports(&self) -> BTreeMap<ConnectionKey, ConnectionReport<'_>> {
        let report = |key| Some((key, self.host.report(key)?));
        self.host.connections().into_iter().filter_map(report).collect()
    }

    /// Writes a sample of each open connection.
    pub(super) fn write_samples(&mut self, now: Time, frames: &mut FrameWriter) {
        self.update_reports();
        let live = self.live_reports();
        for (index, connection) in self.opened_connections() {
            let report = connection.closed.as_ref().or_else(|| live.get(&connection.key));
            if let Some(report) = report
                && connection.is_announced
                && !connection.is_reported
            {
                let sample = self.sample(report);
                frames.write_sample(now, index as u32, &sample.sender, sample.streams);
            }
        }
        frames.flush();
    }

    /// Converts the report of a connection.
    pub(super) fn sample<'a>(&'a self, report: &'a ConnectionReport<'a>) -> ConnectionSample<'a> {
        let request = PerfClient::request_bytes(self.controller_request.as_ref());
        let requests = request * report.streams.len() as u64;
        let name = report.controller.as_deref().unwrap_or(&self.plan.congestion.name);
        ConnectionSample {
            streams: &report.streams,
            sender: report.sender.omit_receiver_window(requests),
            controllers: ControllerNames::new(name, report.peer_controller.as_deref()),
        }
    }

    /// Returns the scope of all connections, with the states of the open ones.
    pub(super) fn report_scope<'a>(
        &'a self,
        live: &'a BTreeMap<ConnectionKey, ConnectionReport<'a>>,
        began: Time,
    ) -> ReportScope<'a> {
        let reports = self.opened_connections().filter_map(|(_, connection)| {
            connection.closed.as_ref().or_else(|| live.get(&connection.key))
        });
        let samples = reports.map(|report| self.sample(report)).collect();
        ReportScope { connection: 0, samples, started_at: began }
    }

    /// Prints the totals and the summary.
    pub(super) fn report_result(
        &self,
        now: Time,
        lost: Option<&CloseReason>,
        stopped: bool,
        out: &mut ClientOutput,
    ) -> Result<(), ProgramError> {
        let none = BTreeMap::new();
        let view = self.report_scope(&none, out.began);
        out.reporter.write_totals(now, &view)?;
        let reports = || self.opened_connections().filter_map(|(_, it)| it.closed.as_ref());
        let alpn = self.opened_connections().find_map(|(_, it)| it.alpn.as_deref());
        let closing = SummaryInput {
            role: "client",
            peer: self.remote.to_string(),
            close_reason: (!stopped).then_some(lost.unwrap_or(&CloseReason::Local)),
            transport: self.plan.transport.name(),
            connections: self.opened_connections().count(),
            alpn: alpn.unwrap_or_default(),
            controllers: view.controllers(),
            mtu: reports().map(|report| report.mss).max().unwrap_or(0),
            handshake: reports().find_map(|report| Some(report.connected_at?.since(out.began))),
            sender: SenderReport::aggregate(view.samples.iter().map(|part| &part.sender)),
            streams: view.samples.iter().flat_map(|part| part.streams).collect(),
            cpu_s: cpu_seconds() - out.cpu_at_start,
        };
        let summary = PerfSummary::new(now, &closing);
        out.reporter.print(&summary.to_string())?;
        if let Some(text) =
            self.plan.missing_response_note(summary.down_bytes, view.controllers().peer.is_some())
        {
            out.reporter.print(&text)?;
        }
        if out.reporter.is_json() {
            let text = serde_json::to_string_pretty(&summary).map_err(io::Error::from)?;
            out.reporter.print_json(&text)?;
        }
        Ok(())
    }
}
