//! The event loop.

use path::{Line, Output, Topology};
use transport::Payload;
use units::{NodeId, Packet, Time};

use crate::flow::{self, Controllers, Host};
use crate::recorder::Recorder;
use crate::schedule::Schedule;
use crate::spec::RunSpec;
use crate::tables::Measurements;
use crate::trace::Tracer;

/// Payloads in transit, by handle.
#[derive(Debug, Default)]
struct Slab {
    slots: Vec<Option<Payload>>,
    free: Vec<u32>,
}

impl Slab {
    fn insert(&mut self, payload: Payload) -> u32 {
        match self.free.pop() {
            Some(handle) => {
                self.slots[handle as usize] = Some(payload);
                handle
            }
            None => {
                self.slots.push(Some(payload));
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn take(&mut self, handle: u32) -> Option<Payload> {
        self.free.push(handle);
        self.slots[handle as usize].take()
    }
}

/// A path, the hosts at its ends, and the time. Components are the lines, then the hosts (client
/// and server of each flow), then the sampling tick, which therefore comes last at any instant.
pub struct World {
    topology: Topology,
    hosts: Vec<Host>,
    /// Node of each host.
    nodes: Vec<NodeId>,
    schedule: Schedule,
    payloads: Slab,
    recorder: Recorder,
    tracer: Tracer,
    end: Time,
    packets: u64,
    events: u64,
    output: Output,
    sending: Vec<Payload>,
    /// Packets to give to a line next.
    moving: Vec<(usize, Time, Packet)>,
}

impl World {
    /// Builds everything `spec` names.
    ///
    /// # Errors
    /// What is wrong with the specification, in words.
    pub fn build(spec: &RunSpec, controllers: &mut Controllers<'_>) -> Result<World, String> {
        let topology =
            Topology::build(&spec.graph, spec.seed).map_err(|error| error.to_string())?;
        let (mut hosts, mut nodes) = (Vec::new(), Vec::new());
        for flow in &spec.flows {
            let node = |name: &str| {
                topology
                    .node_id(name)
                    .ok_or_else(|| format!("flow {}: there is no node {name:?}", flow.name))
            };
            let ends = [node(&flow.client)?, node(&flow.server)?];
            for (from, to) in [(0, 1), (1, 0)] {
                if topology.next_hop(ends[from], ends[to]).is_none() {
                    return Err(format!("flow {}: no way between its nodes", flow.name));
                }
            }
            nodes.extend(ends);
            hosts.extend(flow::build(spec.seed, flow, controllers)?);
        }
        let count = topology.lines.len() + hosts.len() + 1;
        let mut world = World {
            schedule: Schedule::new(count),
            recorder: Recorder::new(spec.sample_ns),
            tracer: Tracer::new(spec.trace, &hosts),
            topology,
            hosts,
            nodes,
            payloads: Slab::default(),
            end: Time(spec.duration_ns),
            packets: 0,
            events: 0,
            output: Output::default(),
            sending: Vec::new(),
            moving: Vec::new(),
        };
        for line in 0..world.topology.lines.len() {
            world.schedule.set(line, world.topology.lines[line].poll_at());
        }
        for host in 0..world.hosts.len() {
            world.reschedule_host(host);
        }
        world.schedule.set(count - 1, world.recorder.next());
        Ok(world)
    }

    /// Runs to the end.
    pub fn run(&mut self) {
        let lines = self.topology.lines.len();
        loop {
            let (now, component) = self.schedule.first();
            if now > self.end {
                break;
            }
            self.events += 1;
            if component < lines {
                self.topology.lines[component].poll(now, &mut self.output);
                self.settle_line(component);
                self.settle_moves();
            } else if component < lines + self.hosts.len() {
                let host = component - lines;
                self.hosts[host].wake(now, &mut self.sending);
                self.send(now, host);
                self.settle_moves();
            } else {
                self.recorder.sample(now, &mut self.hosts, &self.topology);
                self.schedule.set(component, self.recorder.next());
            }
        }
    }

    /// The run's measurements.
    pub fn finish(mut self) -> Measurements {
        let tables = self.recorder.finish(self.end, &mut self.hosts, &self.topology);
        let files = self.tracer.finish();
        Measurements { tables, files, packets: self.packets, events: self.events }
    }

    /// Lines of the path, for checks after a run.
    pub fn lines(&self) -> &[Line] {
        &self.topology.lines
    }

    fn reschedule_host(&mut self, host: usize) {
        let at = self.hosts[host].wake_at();
        self.schedule.set(self.topology.lines.len() + host, at);
    }

    /// Gives what a host has sent to its first line.
    fn send(&mut self, now: Time, host: usize) {
        let peer = host ^ 1;
        let (source, destination) = (self.nodes[host], self.nodes[peer]);
        self.tracer.ran(now, host, &self.hosts[host], &self.sending);
        for payload in self.sending.drain(..) {
            self.packets += 1;
            let packet = Packet {
                flow: (host / 2) as u32,
                source,
                destination,
                bytes: payload.wire_bytes(),
                ecn: payload.ecn(),
                class: 0,
                born: now,
                handle: self.payloads.insert(payload),
            };
            // The way was checked when the world was built.
            if let Some(line) = self.topology.next_hop(source, destination) {
                self.moving.push((line, now, packet));
            }
        }
        self.reschedule_host(host);
    }

    fn settle_moves(&mut self) {
        let mut next = 0;
        while next < self.moving.len() {
            let (line, due, packet) = self.moving[next];
            next += 1;
            self.topology.lines[line].push(due, packet, &mut self.output);
            self.settle_line(line);
        }
        self.moving.clear();
    }

    /// Passes on what a line has delivered.
    fn settle_line(&mut self, line: usize) {
        self.schedule.set(line, self.topology.lines[line].poll_at());
        let mut output = std::mem::take(&mut self.output);
        for (_, packet, _) in output.dropped.drain(..) {
            self.payloads.take(packet.handle);
        }
        for (due, packet) in output.delivered.drain(..) {
            let node = self.topology.line_end(line);
            if node != packet.destination {
                if let Some(next) = self.topology.next_hop(node, packet.destination) {
                    self.moving.push((next, due, packet));
                }
                continue;
            }
            let flow = packet.flow as usize;
            let host = 2 * flow + usize::from(self.nodes[2 * flow] != node);
            if let Some(mut payload) = self.payloads.take(packet.handle) {
                payload.set_ecn(packet.ecn);
                self.tracer.received(due, host, &payload);
                self.hosts[host].endpoint.receive(due, payload, &mut self.sending);
                self.send(due, host);
            }
        }
        self.output = output;
    }
}
