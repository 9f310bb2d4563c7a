//! The boundary between nodes and recorders: counters, events and results of the connections at each interface.

use cc::CongestionControl;
use units::Time;

use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::web::{LoadReport, RequestReport};
use crate::{FlowCounters, FlowEvent, SenderGauges, quic};

/// Reads the state of a node. No call except [`Probe::take_events`] changes it. The defaults are those of a node without
/// connections.
pub trait Probe {
    /// Returns the number of connections opened or accepted at `interface` so far.
    fn opened(&self, interface: usize) -> u32 {
        let _ = interface;
        0
    }
    /// Returns the number of connections that were closed by agreement.
    fn completed(&self, interface: usize) -> u32 {
        let _ = interface;
        0
    }
    /// Returns the time of the first completed handshake.
    fn connected_at(&self, interface: usize) -> Option<Time> {
        let _ = interface;
        None
    }
    /// Returns the time at which the last connection to end was closed or lost.
    fn ended_at(&self, interface: usize) -> Option<Time> {
        let _ = interface;
        None
    }
    /// Returns the counters over all connections at `interface` so far.
    fn counters(&self, interface: usize) -> FlowCounters {
        let _ = interface;
        FlowCounters::default()
    }
    /// Returns the state of the newest connection's sender.
    fn gauges(&self, interface: usize) -> SenderGauges {
        let _ = interface;
        SenderGauges::default()
    }
    /// Returns the bytes from another interface that wait for the send buffers of this one.
    fn waiting_bytes(&self, interface: usize) -> u64 {
        let _ = interface;
        0
    }
    /// Returns the newest connection's controller.
    fn controller(&self, interface: usize) -> Option<&dyn CongestionControl> {
        let _ = interface;
        None
    }
    /// Takes the events since the last call.
    fn take_events(&mut self, interface: usize) -> Vec<FlowEvent> {
        let _ = interface;
        Vec::new()
    }
    /// Returns the streams of all connections, live or ended, in order of (connection, stream).
    fn stream_reports(&self, interface: usize) -> Vec<(u32, StreamReport)> {
        let _ = interface;
        Vec::new()
    }
    /// Returns the QUIC stack at `interface`, for qlog.
    fn quic(&self, interface: usize) -> Option<&quic::QuicEndpoint> {
        let _ = interface;
        None
    }
    /// Reports results that only this kind of node has.
    fn report(&self, sink: &mut dyn ReportSink) {
        let _ = sink;
    }
}

/// Takes the results that some kinds of nodes report at the end of a run.
pub trait ReportSink {
    /// Adds the statistics of a side of a call.
    fn add_media_report(&mut self, side: &MediaReport) {
        let _ = side;
    }
    /// Adds a page load of a browser, complete or not, in the sequence of loads.
    fn add_load_report(&mut self, load: &LoadReport) {
        let _ = load;
    }
    /// Adds a request of those loads.
    fn add_request_report(&mut self, request: &RequestReport) {
        let _ = request;
    }
}
