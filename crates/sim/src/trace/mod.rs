//! Per-packet traces: qlog and pcapng, one file per flow and side (docs/manual/traces.md), and the
//! tables of packets and of stages. Nothing is kept unless asked, and then what is written changes nothing of the run.
//!
//! Reading order: `packets`, `stages`; `pcapng`, `tcp_header`; `frames` (the parser), `track` (what an observer can conclude), `json`,
//! `qlog`.

mod frames;
mod json;
mod packets;
mod pcapng;
mod qlog;
mod stages;
mod tcp_header;
mod track;

use path::{Cause, Line, Topology};
use transport::Payload;
use units::{Packet, Time};

use crate::flow::Host;
use crate::spec::TraceSpec;
use crate::tables::Table;
use packets::Packets;
use pcapng::Capture;
use qlog::Qlog;
use stages::Stages;
pub use tcp_header::Scaling;
use track::Way;

/// The traces of one host.
#[derive(Debug)]
struct HostTraces {
    name: String,
    capture: Option<Capture>,
    qlog: Option<Qlog>,
}

/// The traces of a run.
#[derive(Debug, Default)]
pub struct Tracer {
    /// By host; none at all when nothing is traced.
    hosts: Vec<HostTraces>,
    packets: Option<Box<Packets>>,
    stages: Option<Box<Stages>>,
}

impl Tracer {
    /// A tracer for `hosts`, which are client and server of each flow; `scaling` is that of their TCP
    /// connections.
    pub fn new(spec: TraceSpec, hosts: &[Host], scaling: &[Scaling]) -> Tracer {
        let (packets, stages) = (spec.packets.then(Box::default), spec.stages.then(Box::default));
        if !spec.qlog && !spec.pcapng {
            return Tracer { hosts: Vec::new(), packets, stages };
        }
        let traces = |(index, host): (usize, &Host)| HostTraces {
            name: format!("{}.{}", host.flow, host.side.name()),
            capture: spec.pcapng.then(|| Capture::new(host, scaling[index])),
            qlog: spec.qlog.then(|| Qlog::new(host)).flatten(),
        };
        Tracer { hosts: hosts.iter().enumerate().map(traces).collect(), packets, stages }
    }

    /// Host number `index` has worked and sent `sent`.
    #[inline]
    pub fn ran(&mut self, now: Time, index: usize, host: &Host, sent: &[Payload]) {
        let Some(traces) = self.hosts.get_mut(index) else { return };
        if let Some(capture) = &mut traces.capture {
            for payload in sent {
                capture.packet(now, true, payload);
            }
        }
        if let Some(qlog) = &mut traces.qlog {
            qlog.ran(now, host, sent);
        }
    }

    /// Host number `index` receives a packet.
    #[inline]
    pub fn received(&mut self, now: Time, index: usize, payload: &Payload) {
        let Some(traces) = self.hosts.get_mut(index) else { return };
        if let Some(capture) = &mut traces.capture {
            capture.packet(now, false, payload);
        }
        if let (Some(qlog), Payload::Datagram(datagram)) = (&mut traces.qlog, payload) {
            qlog.datagram(now, Way::In, datagram);
        }
    }

    /// `packet` leaves one end of its connection.
    #[inline]
    pub fn departed(&mut self, packet: &Packet, payload: &Payload) {
        if let Some(packets) = &mut self.packets {
            packets.sent(packet, payload);
        }
        if let Some(stages) = &mut self.stages {
            stages.sent(packet);
        }
    }

    /// `packet` reaches the other end.
    #[inline]
    pub fn arrived(&mut self, now: Time, packet: &Packet) {
        if let Some(packets) = &mut self.packets {
            packets.received(now, packet);
        }
    }

    /// `packet` was dropped in `line`.
    #[inline]
    pub fn dropped(&mut self, line: usize, packet: &Packet, cause: Cause) {
        if let Some(packets) = &mut self.packets {
            packets.dropped(line, packet, cause);
        }
    }

    /// `line` has worked.
    #[inline]
    pub fn worked(&mut self, line: usize, lines: &mut [Line]) {
        if let Some(stages) = &mut self.stages {
            stages.made(line, lines[line].take_steps());
        }
    }

    /// The table of stages, if it was asked for.
    pub fn stages(&self, topology: &Topology) -> Option<Table> {
        self.stages.as_ref().map(|stages| stages.finish(topology))
    }

    /// The table of packets, empty if it was not asked for.
    pub fn packets(&self, hosts: &[Host], topology: &Topology) -> Table {
        let flows: Vec<&str> = hosts.iter().step_by(2).map(|host| host.flow.as_str()).collect();
        match &self.packets {
            Some(packets) => packets.finish(&flows, topology),
            None => Packets::default().finish(&flows, topology),
        }
    }

    /// The files, by name.
    pub fn finish(self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        for traces in self.hosts {
            if let Some(capture) = traces.capture {
                files.push((format!("{}.pcapng", traces.name), capture.finish()));
            }
            if let Some(qlog) = traces.qlog {
                files.push((format!("{}.qlog", traces.name), qlog.finish()));
            }
        }
        files
    }
}
