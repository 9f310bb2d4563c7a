//! Per-packet traces: qlog and pcapng, one file per flow and side (docs/how-to/traces.md), and the tables of packets,
//! stages and transmission attempts. All traces are optional, and no trace changes the results of a run.
//!
//! Reading sequence: `packets`, `stages`, `attempts`; `pcapng`; `quic_parser`, `observer` (inferred connection state),
//! `qlog_json`, `qlog`.

mod attempts;
mod observer;
mod packets;
mod pcapng;
mod qlog;
mod qlog_json;
mod quic_parser;
mod stages;

use link::{DropReason, SimplexLink, StageStep};
use topology::Topology;
use transport::Payload;
use units::{NodeId, Packet, Time};

use crate::nodes::attachment::{AttachedNode, Attachment};
use crate::nodes::flow::FlowEndpoint;
use crate::recorder::tables::Table;
use attempts::AttemptRecorder;
use observer::PacketDirection;
use packets::PacketRecorder;
use pcapng::Capture;
pub use pcapng::WindowScaling;
use qlog::Qlog;
use spec::TraceSpec;
use stages::StageRecorder;

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
    /// The traces by host; empty without qlog and pcapng.
    hosts: Vec<HostTraces>,
    packets: Option<Box<PacketRecorder>>,
    stages: Option<Box<StageRecorder>>,
    attempts: AttemptRecorder,
}

impl Tracer {
    /// Creates a tracer of `flow_endpoints`, the labels of the first `attachments`, with the TCP `scaling` of each.
    pub fn new(
        spec: TraceSpec,
        flow_endpoints: &[FlowEndpoint],
        attachments: &[Attachment],
        scaling: &[WindowScaling],
    ) -> Tracer {
        let packets = (spec.packets || spec.packet_steps).then(Box::default);
        let stages = spec.packet_steps.then(Box::default);
        if !spec.qlog && !spec.pcapng {
            return Tracer { packets, stages, ..Tracer::default() };
        }
        let traces =
            |((endpoint, attachment), scaling): ((&FlowEndpoint, &Attachment), &WindowScaling)| {
                HostTraces {
                    name: format!("{}.{}", endpoint.flow, endpoint.side.name()),
                    capture: spec
                        .pcapng
                        .then(|| Capture::new(endpoint, attachment.node.quic(0), *scaling)),
                    qlog: attachment
                        .node
                        .quic(0)
                        .filter(|_| spec.qlog)
                        .map(|quic| Qlog::new(endpoint, quic)),
                }
            };
        let hosts = flow_endpoints.iter().zip(attachments).zip(scaling).map(traces).collect();
        Tracer { hosts, packets, stages, ..Tracer::default() }
    }

    /// Records the packets that node `index` sent, by interface, and the state of its connections.
    #[inline]
    pub fn on_node_polled(
        &mut self,
        now: Time,
        index: usize,
        node: &AttachedNode,
        sent: &[Vec<Payload>],
    ) {
        let (Some(traces), [sent, ..]) = (self.hosts.get_mut(index), sent) else { return };
        if let Some(capture) = &mut traces.capture {
            for payload in sent {
                capture.write_packet(now, true, payload);
            }
        }
        if let Some(qlog) = &mut traces.qlog {
            qlog.on_node_polled(now, node.quic(0), sent);
        }
    }

    /// Records a packet that node `index` receives.
    #[inline]
    pub fn on_received(&mut self, now: Time, index: usize, payload: &Payload) {
        let Some(traces) = self.hosts.get_mut(index) else { return };
        if let Some(capture) = &mut traces.capture {
            capture.write_packet(now, false, payload);
        }
        if let (Some(qlog), Payload::Datagram(datagram)) = (&mut traces.qlog, payload) {
            qlog.on_datagram(now, PacketDirection::In, datagram);
        }
    }

    /// Records that `packet` leaves the sender.
    #[inline]
    pub fn on_sent(&mut self, packet: &Packet, payload: &Payload) {
        if let Some(packets) = &mut self.packets {
            packets.on_sent(packet, payload);
        }
    }

    /// Records that `packet` reaches the receiver.
    #[inline]
    pub fn on_arrival(&mut self, now: Time, packet: &Packet) {
        if let Some(packets) = &mut self.packets {
            packets.on_received(now, packet);
        }
    }

    /// Records that `link` dropped `packet`.
    #[inline]
    pub fn on_dropped(&mut self, link: usize, packet: &Packet, cause: DropReason) {
        if let Some(packets) = &mut self.packets {
            packets.on_dropped(link, packet, cause);
        }
    }

    /// Records that `node` has no route for `packet` at `now`, and buffers or drops it according to `decision`.
    pub fn on_no_route(
        &mut self,
        now: Time,
        node: NodeId,
        packet: &Packet,
        decision: Result<(), DropReason>,
        topology: &Topology,
    ) {
        if let Err(cause) = decision
            && let Some(packets) = &mut self.packets
        {
            packets.on_dropped_at_node(node, packet, cause);
        }
        if decision != Err(DropReason::NoRoute) {
            let steps_of_drop = [(0, None), (0, decision.err())];
            let steps = if decision.is_ok() { &steps_of_drop[..1] } else { &steps_of_drop[..] };
            self.record_node_steps(now, node, packet, steps, topology);
        }
    }

    /// Records that the buffer of `node` releases `packet` at `now`.
    pub fn on_release(&mut self, now: Time, node: NodeId, packet: &Packet, topology: &Topology) {
        self.record_node_steps(now, node, packet, &[(1, None)], topology);
    }

    /// Records steps over a store-and-forward buffer as steps of a link with one stage.
    fn record_node_steps(
        &mut self,
        at: Time,
        node: NodeId,
        packet: &Packet,
        steps: &[(u32, Option<DropReason>)],
        topology: &Topology,
    ) {
        let (Some(stages), Some(packets)) = (&mut self.stages, &self.packets) else { return };
        let Some(buffer) =
            topology.store_forward_buffers().position(|(buffering, _)| buffering == node)
        else {
            return;
        };
        let step =
            |(stage, dropped)| StageStep { at, handle: packet.handle, stage, drop_reason: dropped };
        stages.add_steps(
            topology.simplex_links.len() + buffer,
            steps.iter().copied().map(step),
            packets,
        );
    }

    /// Records the steps of `link` since the last call.
    #[inline]
    pub fn on_link_polled(&mut self, link: usize, links: &mut [SimplexLink]) {
        if let (Some(stages), Some(packets)) = (&mut self.stages, &self.packets) {
            stages.add_steps(link, links[link].take_steps(), packets);
            self.attempts.add_attempts(link, links[link].take_attempts(), packets);
        }
    }

    /// Returns the bytes of all traces so far.
    pub fn bytes(&self) -> u64 {
        let files = self.hosts.iter().map(|host| {
            host.capture.as_ref().map_or(0, Capture::bytes)
                + host.qlog.as_ref().map_or(0, Qlog::bytes)
        });
        let packets = self.packets.as_ref().map_or(0, |packets| packets.bytes());
        let stages = self.stages.as_ref().map_or(0, |stages| stages.bytes());
        (files.sum::<usize>() + packets + stages) as u64
    }

    /// Returns the tables of stages and of attempts, if enabled.
    pub fn stage_tables(&self, topology: &Topology) -> impl Iterator<Item = Table> {
        let stages = self.stages.as_ref();
        stages
            .into_iter()
            .flat_map(|stages| [stages.finish(topology), self.attempts.finish(topology)])
    }

    /// Returns the table of packets, which is empty if disabled.
    pub fn packet_table(&self, flow_endpoints: &[FlowEndpoint], topology: &Topology) -> Table {
        let flows: Vec<&str> =
            flow_endpoints.iter().step_by(2).map(|endpoint| endpoint.flow.as_str()).collect();
        match &self.packets {
            Some(packets) => packets.finish(&flows, topology),
            None => PacketRecorder::default().finish(&flows, topology),
        }
    }

    /// Returns the files by name.
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
