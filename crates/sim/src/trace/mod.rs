//! Per-packet traces: qlog and pcapng, one file per flow and side (docs/manual/traces.md), and the
//! tables of packets, of stages and of attempts on the air. Nothing is kept unless asked, and then what is written changes nothing of the run.
//!
//! Reading order: `packets`, `stages`, `attempts`; `pcapng`, `tcp_header`; `frames` (the parser), `track` (what an observer can conclude), `json`,
//! `qlog`.

mod attempts;
mod frames;
mod json;
mod packets;
mod pcapng;
mod qlog;
mod stages;
mod tcp_header;
mod track;

use path::{Cause, Line, Step, Topology};
use transport::{Node, Payload};
use units::{NodeId, Packet, Time};

use crate::flow::FlowSide;
use crate::seat::Seat;
use crate::tables::Table;
use attempts::Attempts;
use packets::Packets;
use pcapng::Capture;
use qlog::Qlog;
use spec::TraceSpec;
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
    attempts: Attempts,
}

impl Tracer {
    /// A tracer for `sides`, which sit at the first of `seats`; `scaling` is that of their TCP connections.
    pub fn new(spec: TraceSpec, sides: &[FlowSide], seats: &[Seat], scaling: &[Scaling]) -> Tracer {
        let packets = (spec.packets || spec.stages).then(Box::default);
        let stages = spec.stages.then(Box::default);
        if !spec.qlog && !spec.pcapng {
            return Tracer { packets, stages, ..Tracer::default() };
        }
        let traces = |((side, seat), scaling): ((&FlowSide, &Seat), &Scaling)| HostTraces {
            name: format!("{}.{}", side.flow, side.side.name()),
            capture: spec.pcapng.then(|| Capture::new(side, seat.node.quic(0), *scaling)),
            qlog: seat.node.quic(0).filter(|_| spec.qlog).map(|quic| Qlog::new(side, quic)),
        };
        let hosts = sides.iter().zip(seats).zip(scaling).map(traces).collect();
        Tracer { hosts, packets, stages, ..Tracer::default() }
    }

    /// The node at seat `index` has worked and sent `sent`, by its ends.
    #[inline]
    pub fn ran(&mut self, now: Time, index: usize, node: &dyn Node, sent: &[Vec<Payload>]) {
        let (Some(traces), [sent, ..]) = (self.hosts.get_mut(index), sent) else { return };
        if let Some(capture) = &mut traces.capture {
            for payload in sent {
                capture.packet(now, true, payload);
            }
        }
        if let Some(qlog) = &mut traces.qlog {
            qlog.ran(now, node.quic(0), sent);
        }
    }

    /// The node at seat `index` receives a packet.
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

    /// From `node` no way led on for `packet` at `now`: it is `held`, or dropped for a cause.
    pub fn stayed(
        &mut self,
        now: Time,
        node: NodeId,
        packet: &Packet,
        held: Result<(), Cause>,
        topology: &Topology,
    ) {
        if let Err(cause) = held
            && let Some(packets) = &mut self.packets
        {
            packets.dropped_at(node, packet, cause);
        }
        if held != Err(Cause::Route) {
            let come = [(0, None), (0, held.err())];
            let steps = if held.is_ok() { &come[..1] } else { &come[..] };
            self.steps_at(now, node, packet, steps, topology);
        }
    }

    /// `packet`, which `node` has held, goes on at `now`.
    pub fn went_on(&mut self, now: Time, node: NodeId, packet: &Packet, topology: &Topology) {
        self.steps_at(now, node, packet, &[(1, None)], topology);
    }

    /// Steps over what a node holds, as over a line of one stage.
    fn steps_at(
        &mut self,
        at: Time,
        node: NodeId,
        packet: &Packet,
        steps: &[(u32, Option<Cause>)],
        topology: &Topology,
    ) {
        let (Some(stages), Some(packets)) = (&mut self.stages, &self.packets) else { return };
        let Some(hold) = topology.holds().position(|(holding, _)| holding == node) else { return };
        let step = |(stage, dropped)| Step { at, handle: packet.handle, stage, dropped };
        stages.made(topology.lines.len() + hold, steps.iter().copied().map(step), packets);
    }

    /// `line` has worked.
    #[inline]
    pub fn worked(&mut self, line: usize, lines: &mut [Line]) {
        if let (Some(stages), Some(packets)) = (&mut self.stages, &self.packets) {
            stages.made(line, lines[line].take_steps(), packets);
            self.attempts.made(line, lines[line].take_attempts(), packets);
        }
    }

    /// The tables of stages and of attempts, if they were asked for.
    pub fn steps(&self, topology: &Topology) -> impl Iterator<Item = Table> {
        let stages = self.stages.as_ref();
        stages
            .into_iter()
            .flat_map(|stages| [stages.finish(topology), self.attempts.finish(topology)])
    }

    /// The table of packets, empty if it was not asked for.
    pub fn packets(&self, sides: &[FlowSide], topology: &Topology) -> Table {
        let flows: Vec<&str> = sides.iter().step_by(2).map(|side| side.flow.as_str()).collect();
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
