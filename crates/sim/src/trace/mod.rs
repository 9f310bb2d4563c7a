//! Per-packet traces: qlog and pcapng, one file per flow and side. Nothing is kept unless asked.

use transport::quic::Datagram;
use units::Time;

use crate::flow::Host;
use crate::spec::TraceSpec;

/// The traces of a run.
#[derive(Debug, Default)]
pub struct Tracer {
    files: Vec<(String, Vec<u8>)>,
}

impl Tracer {
    /// A tracer for `hosts`.
    pub fn new(_spec: TraceSpec, _hosts: &[Host]) -> Tracer {
        Tracer::default()
    }

    /// Host `host` sent a datagram.
    pub fn sent(&mut self, _now: Time, _host: usize, _datagram: &Datagram) {}

    /// Host `host` received a datagram.
    pub fn received(&mut self, _now: Time, _host: usize, _datagram: &Datagram) {}

    /// The files.
    pub fn finish(self) -> Vec<(String, Vec<u8>)> {
        self.files
    }
}
