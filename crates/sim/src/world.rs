//! The event loop.

use std::sync::atomic::{AtomicBool, Ordering};

use path::{Cause, Line, Output, Topology};
use transport::web::WebSpec;
use transport::{Asker, Direction, LoadSpec, Payload, Side};
use units::{NodeId, Packet, Schedule, Time};

use crate::addresses::Tuples;
use crate::flow::{self, Controllers, Host};
use crate::recorder::Recorder;
use crate::relay::{self, Relay};
use crate::route::{Route, Way};
use crate::spec::{FlowSpec, RunSpec};
use crate::tables::Measurements;
use crate::trace::{Scaling, Tracer};
use crate::watch::{Fault, MOVED, Watch};

/// Payloads in transit, by handle.
#[derive(Debug, Default)]
struct Slab {
    slots: Vec<Option<Payload>>,
    free: Vec<u32>,
}

impl Slab {
    /// The handle of the next payload.
    fn next(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Keeps `payload` under the handle that [`Slab::next`] said.
    fn insert(&mut self, payload: Payload) {
        match self.free.pop() {
            Some(handle) => self.slots[handle as usize] = Some(payload),
            None => self.slots.push(Some(payload)),
        }
    }

    fn take(&mut self, handle: u32) -> Option<Payload> {
        self.free.push(handle);
        self.slots[handle as usize].take()
    }
}

fn pages(spec: &RunSpec) -> Vec<Option<WebSpec>> {
    let page = |flow: &FlowSpec| match &flow.load {
        LoadSpec::Page(web) => Some((**web).clone()),
        _ => None,
    };
    spec.flows.iter().map(page).collect()
}

/// How each host's TCP connections scale their windows; they end at the next proxy.
fn scaling(spec: &RunSpec, routes: &[Route], topology: &Topology) -> Vec<Scaling> {
    let of = |(flow, route): (&FlowSpec, &Route)| {
        let Some(tcp) = flow.transport.tcp() else { return [Scaling::default(); 2] };
        let proxy = |node: Option<&NodeId>| {
            let name = topology.node_name(*node?);
            spec.proxies.iter().find(|proxy| proxy.node == name)
        };
        let (first, last) = (proxy(route.proxies().first()), proxy(route.proxies().last()));
        let answering = first.map_or(&tcp.server, |proxy| &proxy.client_side.tcp);
        let asking = last.map_or(&tcp.client, |proxy| &proxy.server_side.tcp);
        [Scaling::new(&tcp.client, answering), Scaling::new(asking, &tcp.server)]
    };
    spec.flows.iter().zip(routes).flat_map(of).collect()
}

/// A path, the hosts at its ends, the proxies on it, and the time. Components are the lines, then the
/// hosts (client and server of each flow), then the proxies, then the sampling tick, which therefore
/// comes last at any instant.
pub struct World {
    topology: Topology,
    hosts: Vec<Host>,
    relays: Vec<Relay>,
    /// Of each flow.
    routes: Vec<Route>,
    /// Of each flow.
    tuples: Vec<Tuples>,
    schedule: Schedule,
    payloads: Slab,
    recorder: Recorder,
    tracer: Tracer,
    end: Time,
    packets: u64,
    events: u64,
    output: Output,
    sending: Vec<Payload>,
    /// What a proxy sends, towards the client and towards the server.
    passing: [Vec<Payload>; 2],
    /// Packets to give to a line next.
    moving: Vec<(usize, Time, Packet)>,
    watch: Watch,
    /// What does not progress, by component.
    fault: Option<(usize, Fault)>,
}

impl World {
    /// Builds everything `spec` names.
    ///
    /// # Errors
    /// What is wrong with the specification, in words.
    pub fn build(spec: &RunSpec, controllers: &mut Controllers<'_>) -> Result<World, String> {
        let topology =
            Topology::build(&spec.graph, spec.seed).map_err(|error| error.to_string())?;
        let proxies = relay::nodes(spec, &topology)?;
        let (mut hosts, mut relays, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, flow) in spec.flows.iter().enumerate() {
            let error = |error: String| format!("flow {}: {error}", flow.name);
            let node = |name: &str| {
                topology.node_id(name).ok_or_else(|| error(format!("there is no node {name:?}")))
            };
            let (client, server) = (node(&flow.client)?, node(&flow.server)?);
            let split: &[NodeId] = if flow.transport.tcp().is_some() { &proxies } else { &[] };
            let mut route = Route::new(&topology, client, server, split).map_err(error)?;
            route.first_proxy = relays.len();
            relays.extend(relay::build(spec, index, &route, &topology, controllers)?);
            routes.push(route);
            let place = (index, spec.flows.len());
            hosts.extend(flow::build(spec.seed, flow, place, controllers)?);
        }
        // An instant of the run and "never" must not meet.
        if spec.duration_ns > Time::MAX.0 / 2 {
            return Err(format!("duration_ns is {}, expected less than 2^63", spec.duration_ns));
        }
        let count = topology.lines.len() + hosts.len() + relays.len() + 1;
        let mut world = World {
            schedule: Schedule::new(count),
            recorder: Recorder::new(spec.sample_ns, pages(spec)),
            tracer: Tracer::new(spec.trace, &hosts, &scaling(spec, &routes, &topology)),
            topology,
            tuples: hosts.iter().step_by(2).map(|host| Tuples::new(host.addresses)).collect(),
            hosts,
            relays,
            routes,
            payloads: Slab::default(),
            end: Time(spec.duration_ns),
            packets: 0,
            events: 0,
            output: Output::default(),
            sending: Vec::new(),
            passing: Default::default(),
            moving: Vec::new(),
            watch: Watch::new(count, count - 1),
            fault: None,
        };
        for line in 0..world.topology.lines.len() {
            if spec.trace.stages {
                world.topology.lines[line].keep_steps();
            }
            world.schedule.set(line, world.topology.lines[line].poll_at());
        }
        for host in 0..world.hosts.len() {
            world.reschedule_host(host);
        }
        world.schedule.set(count - 1, world.recorder.next());
        Ok(world)
    }

    /// Runs to the end, or until `stop` is set: whoever set it knows why.
    ///
    /// # Errors
    /// Time does not pass: who does not progress, and how.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let lines = self.topology.lines.len();
        let (hosts, relays) = (lines + self.hosts.len(), self.relays.len());
        loop {
            let (now, component) = self.schedule.first();
            if now > self.end || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Err(fault) = self.watch.woken(now, component) {
                self.fault = Some((component, fault));
            }
            if let Some((component, fault)) = self.fault {
                return Err(self.accuse(component, fault));
            }
            self.events += 1;
            if component < lines {
                self.topology.lines[component].poll(now, &mut self.output);
                self.settle_line(component);
                self.settle_moves();
            } else if component < hosts {
                let host = component - lines;
                self.hosts[host].wake(now, &mut self.sending);
                if self.sending.is_empty() {
                    let opened = || self.hosts[host].endpoint.opened();
                    let idled = self.watch.idled(component, opened);
                    self.judge(component, idled);
                }
                self.send(now, host);
                self.settle_moves();
            } else if component < hosts + relays {
                let relay = component - hosts;
                self.relays[relay].proxy.wake(now, &mut self.passing);
                if self.passing.iter().all(Vec::is_empty) {
                    let opened = || self.relays[relay].proxy.connections(Side::Client);
                    let idled = self.watch.idled(component, opened);
                    self.judge(component, idled);
                }
                self.pass(now, relay);
                self.settle_moves();
            } else {
                self.recorder.sample(now, &mut self.hosts, &self.relays, &self.topology);
                self.schedule.set(component, self.recorder.next());
            }
        }
    }

    #[inline]
    fn judge(&mut self, component: usize, done: Result<(), Fault>) {
        if let Err(fault) = done {
            self.fault = Some((component, fault));
        }
    }

    /// Who does not progress, and how.
    #[cold]
    fn accuse(&mut self, component: usize, fault: Fault) -> String {
        let lines = self.topology.lines.len();
        let (at, now) = (self.schedule.first().0, self.watch.now());
        let said = fault.text(at, now);
        let part = |asker, congestion: &str| match asker {
            Asker::Controller => format!("its controller {congestion} "),
            Asker::Application => "its application ".to_owned(),
            Asker::Transport => String::new(),
        };
        if component < lines {
            format!("link {}: {said}", self.topology.line_name(component))
        } else if let Some(host) = self.hosts.get_mut(component - lines) {
            let part = part(host.asker(), &host.congestion);
            format!("flow {}, its {}: {part}{said}", host.flow, host.side.name())
        } else if let Some(relay) = self.relays.get(component - lines - self.hosts.len()) {
            let (asker, side) = relay.proxy.asker();
            let part = part(asker, &relay.congestion[side as usize]);
            format!("proxy {} of flow {}: {part}{said}", relay.node, relay.flow_name)
        } else {
            format!("the sampling: {said}")
        }
    }

    /// The run's measurements.
    pub fn finish(mut self) -> Measurements {
        let mut tables =
            self.recorder.finish(self.end, &mut self.hosts, &self.relays, &self.topology);
        tables.push(self.tracer.packets(&self.hosts, &self.topology));
        tables.extend(self.tracer.stages(&self.topology));
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
        self.tracer.ran(now, host, &self.hosts[host], &self.sending);
        let component = self.topology.lines.len() + host;
        let sent = self.watch.sent(component, self.sending.len());
        self.judge(component, sent);
        let (route, side) = (&self.routes[host / 2], self.hosts[host].side);
        for payload in self.sending.drain(..) {
            let way = route.way_from_end(side, &payload);
            let packet = Packet {
                handle: self.payloads.next(),
                tuple: self.tuples[host / 2].hash(side.sends(), &payload),
                ..header(now, host / 2, route.end(side), way, &payload)
            };
            self.tracer.departed(&packet, &payload);
            self.payloads.insert(payload);
            self.moving.push((way.line, now, packet));
            self.packets += 1;
        }
        self.reschedule_host(host);
    }

    /// Gives what a proxy has sent to the lines on its two sides.
    fn pass(&mut self, now: Time, relay: usize) {
        let component = self.topology.lines.len() + self.hosts.len() + relay;
        let sent = self.watch.sent(component, self.passing.iter().map(Vec::len).sum());
        self.judge(component, sent);
        let Relay { flow, stop, ref proxy, .. } = self.relays[relay];
        let route = &self.routes[flow];
        for (payloads, direction) in self.passing.iter_mut().zip([Direction::Down, Direction::Up]) {
            let way = route.way_from_stop(stop, direction);
            for payload in payloads.drain(..) {
                let packet = Packet {
                    handle: self.payloads.next(),
                    tuple: self.tuples[flow].hash(direction, &payload),
                    ..header(now, flow, route.stops()[stop], way, &payload)
                };
                self.tracer.departed(&packet, &payload);
                self.payloads.insert(payload);
                self.moving.push((way.line, now, packet));
                self.packets += 1;
            }
        }
        self.schedule.set(component, proxy.wake_at());
    }

    fn settle_moves(&mut self) {
        let mut next = 0;
        while next < self.moving.len() {
            let (line, due, packet) = self.moving[next];
            next += 1;
            if next > MOVED {
                self.fault = Some((line, Fault::Instant));
                break;
            }
            self.topology.lines[line].push(due, packet, &mut self.output);
            self.settle_line(line);
        }
        self.moving.clear();
    }

    /// Passes on what a line has delivered.
    fn settle_line(&mut self, line: usize) {
        self.schedule.set(line, self.topology.lines[line].poll_at());
        let mut output = std::mem::take(&mut self.output);
        self.tracer.worked(line, &mut self.topology.lines);
        for (_, packet, cause) in output.dropped.drain(..) {
            self.drop(line, &packet, cause);
        }
        for (due, packet) in output.delivered.drain(..) {
            let node = self.topology.line_end(line);
            if node != packet.destination {
                match self.topology.next_hop(node, packet.destination) {
                    Some(next) => self.moving.push((next, due, packet)),
                    None => {
                        self.topology.lines[line].strand(&packet);
                        self.drop(line, &packet, Cause::Route);
                    }
                }
                continue;
            }
            self.tracer.arrived(due, &packet);
            if let Some(mut payload) = self.payloads.take(packet.handle) {
                payload.set_ecn(packet.ecn);
                self.deliver(due, &packet, payload);
            }
        }
        self.output = output;
    }

    /// A packet is lost in `line` or at its end.
    fn drop(&mut self, line: usize, packet: &Packet, cause: Cause) {
        self.tracer.dropped(line, packet, cause);
        self.payloads.take(packet.handle);
    }

    /// Hands a packet to the end of its leg.
    fn deliver(&mut self, now: Time, packet: &Packet, payload: Payload) {
        let flow = packet.flow as usize;
        let route = &self.routes[flow];
        let stop = route.stop_at(packet.destination);
        if stop == 0 || packet.destination == route.end(Side::Server) {
            let host = 2 * flow + usize::from(stop != 0);
            self.tracer.received(now, host, &payload);
            self.hosts[host].endpoint.receive(now, payload, &mut self.sending);
            self.send(now, host);
        } else if let Payload::Segment(segment) = payload {
            let from = route.stop_at(packet.source);
            let side = if from < stop { Side::Client } else { Side::Server };
            let relay = route.first_proxy + stop - 1;
            self.relays[relay].proxy.receive(now, side, segment, &mut self.passing);
            self.pass(now, relay);
        }
    }
}

/// The header of a packet on its way; its handle and its 5-tuple are missing.
fn header(now: Time, flow: usize, source: NodeId, way: Way, payload: &Payload) -> Packet {
    Packet {
        flow: flow as u32,
        source,
        destination: way.to,
        ecn: payload.ecn(),
        born: now,
        ..Packet::of_bytes(payload.wire_bytes())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use transport::tcp::Segment;

    use super::*;

    #[test]
    fn a_packet_without_a_route_is_dropped_with_its_payload() {
        let graph = serde_json::json!({
            "seed": 1, "duration_ns": 1_000_000_000, "sample_ns": 1_000_000_000, "flows": [],
            "graph": {
                "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
                "links": [{"name": "l", "client_side": "a", "server_side": "b", "down": [],
                    "up": [{"kind": "delay", "delay_ns": 1_000_000}]}]
            },
        });
        let spec: RunSpec = serde_json::from_value(graph).unwrap();
        let mut world = World::build(&spec, &mut |_, _| None).unwrap();
        // Hosts pass nothing on, so node 7 would be out of reach behind the second even if it existed.
        let payload = Payload::Segment(Segment::of_data(0, Bytes::from_static(&[0; 60])));
        let packet = Packet { destination: NodeId(7), ..Packet::of_bytes(payload.wire_bytes()) };
        world.payloads.insert(payload);
        world.moving.push((0, Time::ZERO, packet));
        world.settle_moves();
        world.run(&AtomicBool::new(false)).unwrap();
        assert!(world.payloads.slots.iter().all(Option::is_none));
        assert_eq!(world.payloads.free, [0]);
        let line = &world.lines()[0];
        assert_eq!(line.counters().dropped_packets[Cause::Route as usize], 1);
        assert_eq!(
            (line.counters().dropped_bytes.iter().sum::<u64>(), line.in_transit()),
            (100, (0, 0))
        );
        assert_eq!(line.counters().delivered_packets, 0);
    }
}
