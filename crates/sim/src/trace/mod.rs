//! Per-packet traces: qlog and pcapng, one file per flow and side (docs/manual/traces.md). Nothing
//! is kept unless asked, and then what is written changes nothing of the run.
//!
//! Reading order: `pcapng`; `frames` (the parser), `track` (what an observer can conclude), `json`,
//! `qlog`.

mod frames;
mod json;
mod pcapng;
mod qlog;
mod track;

use transport::Payload;
use units::Time;

use crate::flow::Host;
use crate::spec::TraceSpec;
use pcapng::Capture;
use qlog::Qlog;
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
}

impl Tracer {
    /// A tracer for `hosts`, which are client and server of each flow.
    pub fn new(spec: TraceSpec, hosts: &[Host]) -> Tracer {
        if !spec.qlog && !spec.pcapng {
            return Tracer::default();
        }
        let traces = |(index, host): (usize, &Host)| HostTraces {
            name: format!("{}.{}", host.flow, host.side.name()),
            capture: spec.pcapng.then(|| Capture::new(index / 2, host)),
            qlog: spec.qlog.then(|| Qlog::new(index / 2, host)).flatten(),
        };
        Tracer { hosts: hosts.iter().enumerate().map(traces).collect() }
    }

    /// Host number `index` has worked and sent `sent`.
    #[inline]
    pub fn ran(&mut self, now: Time, index: usize, host: &Host, sent: &[Payload]) {
        let Some(traces) = self.hosts.get_mut(index) else { return };
        if let Some(capture) = &mut traces.capture {
            for payload in sent {
                if let Payload::Datagram(datagram) = payload {
                    capture.packet(now, true, datagram);
                }
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
        let Payload::Datagram(datagram) = payload else { return };
        if let Some(capture) = &mut traces.capture {
            capture.packet(now, false, datagram);
        }
        if let Some(qlog) = &mut traces.qlog {
            qlog.datagram(now, Way::In, datagram);
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
