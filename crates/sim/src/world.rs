//! The event loop.

use std::sync::atomic::{AtomicBool, Ordering};

use path::{Cause, Deciders, Line, MOST_USERS, Output, Topology};
use transport::{Asker, Payload};
use units::{NodeId, Packet, Time, TimerQueue, prefetch};

use crate::bundles;
use crate::cast::{Cast, pages};
use crate::flow::{Controllers, FlowSide, hosts};
use crate::groups::Groups;
use crate::proxies::FlowProxy;
use crate::recorder::Recorder;
use crate::seat::Seat;
use crate::tables::Measurements;
use crate::trace::Tracer;
use crate::watch::{Fault, MOVED, Watch};
use spec::RunSpec;

/// Payloads in transit, by handle, each with the seat and end that receives it.
#[derive(Debug, Default)]
struct Slab {
    slots: Vec<Option<(Payload, (usize, usize))>>,
    free: Vec<u32>,
}

impl Slab {
    /// The handle of the next payload.
    fn next(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Keeps `payload` under the handle that [`Slab::next`] said.
    fn insert(&mut self, payload: Payload, seat: (usize, usize)) {
        match self.free.pop() {
            Some(handle) => self.slots[handle as usize] = Some((payload, seat)),
            None => self.slots.push(Some((payload, seat))),
        }
    }

    fn take(&mut self, handle: u32) -> Option<(Payload, (usize, usize))> {
        self.free.push(handle);
        self.slots[handle as usize].take()
    }
}

/// A path, the nodes on it, and the time. Components are the lines, then the nodes (the hosts, client and server of each
/// flow, then the proxies), then the sampling tick, which therefore comes last at any instant. While a node of the graph holds
/// packets, the instant at which they may go on is one component more. A line is woken when something may come to its far end,
/// and does then what it had to do before.
pub struct World {
    topology: Topology,
    seats: Vec<Seat>,
    /// Who sits at the first seats.
    sides: Vec<FlowSide>,
    /// Who sits at those after them.
    proxies: Vec<FlowProxy>,
    schedule: TimerQueue,
    payloads: Slab,
    recorder: Recorder,
    tracer: Tracer,
    end: Time,
    packets: u64,
    /// Wake-ups of nodes and of the sampling; lines count for themselves.
    events: u64,
    output: Output,
    /// What a node sends, by its end.
    sending: Vec<Vec<Payload>>,
    /// Packets to give to a line next.
    moving: Vec<(usize, Time, Packet)>,
    watch: Watch,
    /// A node kept more at the last sampling than caches do.
    crowd: bool,
    /// What does not progress, by component.
    fault: Option<(usize, Fault)>,
}

impl World {
    /// Builds everything `spec` names.
    ///
    /// # Errors
    /// What is wrong with the specification, in words.
    pub fn build(spec: &RunSpec, controllers: &mut Controllers<'_>) -> Result<World, String> {
        World::build_with(spec, controllers, &|_, _, _| None)
    }

    /// The same, with schedulers of users that are given from outside.
    ///
    /// # Errors
    /// As [`World::build`].
    pub fn build_with(
        spec: &RunSpec,
        controllers: &mut Controllers<'_>,
        deciders: &Deciders<'_>,
    ) -> Result<World, String> {
        let topology = Topology::build_with(&spec.graph, spec.seed, deciders)
            .map_err(|error| error.to_string())?;
        let cast = Cast::of(spec, &topology, controllers)?;
        // An instant of the run and "never" must not meet.
        if spec.duration_ns > Time::MAX.0 / 2 {
            return Err(format!("duration_ns is {}, expected less than 2^63", spec.duration_ns));
        }
        if let Some(flow) = spec.flows.iter().find(|flow| flow.user >= MOST_USERS) {
            let (name, user) = (&flow.name, flow.user);
            return Err(format!("flow {name}: user {user}, expected less than {MOST_USERS}"));
        }
        let groups = Groups::new(spec, &topology)?;
        let recorder = Recorder::new(spec.sample_ns, groups, pages(spec)).with_tcp(spec.trace.tcp);
        let scaling = cast.scaling(spec, &topology);
        let tracer =
            Tracer::new(spec.trace, &cast.sides[..hosts(&cast.sides)], &cast.seats, &scaling);
        let mut world = World::new(topology, cast, recorder, tracer, Time(spec.duration_ns));
        if spec.trace.stages {
            world.topology.lines.iter_mut().for_each(Line::keep_steps);
        }
        Ok(world)
    }

    /// Nodes of one's own on a path, until `end`. Measured are the links alone.
    pub fn of(topology: Topology, seats: Vec<Seat>, end: Time) -> World {
        let cast = Cast { seats, ..Cast::default() };
        let recorder = Recorder::new(end.nanos(), Groups::default(), Vec::new());
        World::new(topology, cast, recorder, Tracer::default(), end)
    }

    fn new(topology: Topology, cast: Cast, recorder: Recorder, tracer: Tracer, end: Time) -> World {
        let Cast { seats, sides, proxies, .. } = cast;
        let count = topology.lines.len() + seats.len() + 1;
        let most = seats.iter().map(|seat| seat.legs.len()).max().unwrap_or(0);
        let mut world = World {
            schedule: TimerQueue::new(count),
            recorder,
            tracer,
            topology,
            seats,
            sides,
            proxies,
            payloads: Slab::default(),
            end,
            packets: 0,
            events: 0,
            output: Output::default(),
            sending: (0..most).map(|_| Vec::new()).collect(),
            moving: Vec::new(),
            watch: Watch::new(count + 1, count - 1),
            crowd: false,
            fault: None,
        };
        for line in 0..world.topology.lines.len() {
            world.schedule.set_deadline(line, world.topology.lines[line].leaves_at());
        }
        for seat in 0..world.seats.len() {
            world.reschedule(seat);
        }
        world.schedule.set_deadline(count - 1, world.recorder.next());
        world
    }

    /// Runs to the end, or until `stop` is set: whoever set it knows why.
    ///
    /// # Errors
    /// Time does not pass: who does not progress, and how.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let lines = self.topology.lines.len();
        let nodes = lines + self.seats.len();
        loop {
            let (now, component) = self.schedule.earliest();
            if now > self.end {
                self.catch_up(self.end);
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Err(fault) = self.watch.woken(now, component) {
                self.fault = Some((component, fault));
            }
            if let Some((component, fault)) = self.fault {
                return Err(self.accuse(component, fault));
            }
            if now >= self.topology.changes_at() {
                self.reroute(now);
                continue;
            }
            self.events += u64::from(component >= lines);
            if component < lines {
                self.topology.lines[component].poll(now, &mut self.output);
                self.expect(component);
                self.settle_line(component);
                self.settle_moves();
            } else if component < nodes {
                let seat = component - lines;
                let Seat { node, legs } = &mut self.seats[seat];
                node.wake(now, &mut self.sending[..legs.len()]);
                if self.sending.iter().all(Vec::is_empty) {
                    let opened = || self.seats[seat].node.opened(0);
                    let idled = self.watch.idled(component, opened);
                    self.judge(component, idled);
                }
                self.send(now, seat);
                self.settle_moves();
            } else {
                self.catch_up(now);
                let World { recorder, seats, sides, proxies, topology, .. } = self;
                recorder.sample(now, seats, sides, proxies, topology);
                self.crowd = self.seats.iter().any(|seat| seat.node.is_crowd());
                self.schedule.set_deadline(component, self.recorder.next());
            }
        }
    }

    /// Lines do what they were not woken for, since nothing comes of it yet: they are going to be looked at.
    fn catch_up(&mut self, now: Time) {
        for line in 0..self.topology.lines.len() {
            if self.topology.lines[line].poll_at() <= now {
                self.topology.lines[line].poll(now, &mut self.output);
                self.settle_line(line);
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
        let (at, now) = (self.schedule.earliest().0, self.watch.now());
        let said = fault.text(at, now);
        let part = |asker, congestion: &str| match asker {
            Asker::Controller => format!("its controller {congestion} "),
            Asker::Application => "its application ".to_owned(),
            Asker::Transport => String::new(),
        };
        let Some(seat) = component.checked_sub(lines) else {
            return format!("link {}: {said}", self.topology.line_name(component));
        };
        let Some(found) = self.seats.get_mut(seat) else {
            return format!("the sampling: {said}");
        };
        let (asker, end) = found.node.asker();
        if let Some(side) = self.sides.iter().find(|side| side.at == (seat, end)) {
            let part = part(asker, &side.congestion);
            return format!("flow {}, its {}: {part}{said}", side.flow, side.side.name());
        }
        let Some(proxy) =
            seat.checked_sub(hosts(&self.sides)).and_then(|place| self.proxies.get(place))
        else {
            return format!("node {seat}: {said}");
        };
        let part = part(asker, &proxy.congestion[end]);
        format!("proxy {} of flow {}: {part}{said}", proxy.node, proxy.flow)
    }

    /// The run's measurements.
    pub fn finish(self) -> Measurements {
        let World { recorder, mut seats, sides, proxies, topology, tracer, .. } = self;
        let mut tables = recorder.finish(self.end, &mut seats, &sides, &proxies, &topology);
        tables.push(tracer.packets(&sides, &topology));
        tables.extend(tracer.steps(&topology));
        tables.extend(bundles::tables(&seats));
        let files = tracer.finish();
        let events = self.events + topology.lines.iter().map(Line::instants).sum::<u64>();
        Measurements { tables, files, packets: self.packets, events }
    }

    /// Lines of the path, for checks after a run.
    pub fn lines(&self) -> &[Line] {
        &self.topology.lines
    }

    /// From now on, before any packet of this instant, other routes hold, and what was held for want of a way goes on.
    #[cold]
    fn reroute(&mut self, now: Time) {
        self.topology.apply(now);
        for seat in &mut self.seats {
            seat.reroute(&self.topology);
        }
        for (node, line, packet) in self.topology.release() {
            self.tracer.went_on(now, node, &packet, &self.topology);
            self.moving.push((line, now, packet));
            self.settle_moves();
        }
        if self.topology.holds().next().is_some() {
            self.schedule.set_deadline(self.releasing(), self.topology.releases_at());
        }
    }

    /// The component that is woken when packets that are held may go on.
    fn releasing(&self) -> usize {
        self.topology.lines.len() + self.seats.len() + 1
    }

    /// From `node`, where `packet` is sent at `due` or comes to over a line, no way leads on.
    #[cold]
    #[inline(never)]
    fn stay(&mut self, due: Time, node: NodeId, packet: &Packet, line: Option<usize>) {
        let held = match self.topology.hold(node, packet) {
            Ok(Some(onward)) => return self.moving.push((onward, due, *packet)),
            Ok(None) => Ok(()),
            Err(cause) => Err(cause),
        };
        self.tracer.stayed(due, node, packet, held, &self.topology);
        match (held, line) {
            (Ok(()), _) => self.schedule.set_deadline(self.releasing(), self.topology.changes_at()),
            (Err(Cause::Route), Some(line)) => {
                self.topology.lines[line].strand(packet);
                self.drop(line, packet, Cause::Route);
            }
            (Err(_), _) => {
                self.payloads.take(packet.handle);
            }
        }
    }

    /// Has the memory brought that the next packets from `line` will need, each a step closer to it: the place of the
    /// payload, then what its node keeps of the connection, and what that points to.
    #[inline]
    fn expect(&self, line: usize) {
        if !self.crowd {
            return;
        }
        let (slots, line) = (&self.payloads.slots, &self.topology.lines[line]);
        let slot = |others| slots.get(line.coming(others)?.handle as usize);
        if let Some(slot) = slot(3) {
            prefetch(slot);
        }
        for others in 0..3 {
            if let Some(Some((payload, (seat, end)))) = slot(others) {
                self.seats[*seat].node.expect(*end, payload, others);
            }
        }
    }

    fn reschedule(&mut self, seat: usize) {
        let at = self.seats[seat].node.wake_at();
        self.schedule.set_deadline(self.topology.lines.len() + seat, at);
    }

    /// Gives what a node has sent to the first lines of its legs.
    fn send(&mut self, now: Time, seat: usize) {
        let Seat { node, legs } = &self.seats[seat];
        self.tracer.ran(now, seat, node.as_ref(), &self.sending);
        let count = self.sending.iter().map(Vec::len).sum();
        if count == 0 {
            return self.reschedule(seat);
        }
        let component = self.topology.lines.len() + seat;
        let sent = self.watch.sent(component, count);
        for (payloads, leg) in self.sending.iter_mut().zip(legs) {
            for payload in payloads.drain(..) {
                let way = leg.way(&payload);
                let packet =
                    Packet { handle: self.payloads.next(), ..leg.header(now, way, &payload) };
                self.tracer.departed(&packet, &payload);
                self.payloads.insert(payload, way.seat);
                self.moving.push((way.line, now, packet));
                self.packets += 1;
            }
        }
        self.judge(component, sent);
        self.reschedule(seat);
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
            let Some(moved) = self.topology.lines.get_mut(line) else {
                self.stay(due, packet.source, &packet, None);
                continue;
            };
            moved.push(due, packet, &mut self.output);
            self.settle_line(line);
        }
        self.moving.clear();
    }

    /// Passes on what a line has delivered.
    fn settle_line(&mut self, line: usize) {
        self.schedule.set_deadline(line, self.topology.lines[line].leaves_at());
        self.tracer.worked(line, &mut self.topology.lines);
        for next in 0..self.output.dropped.len() {
            let (_, packet, cause) = self.output.dropped[next];
            self.drop(line, &packet, cause);
        }
        for next in 0..self.output.delivered.len() {
            let (due, packet) = self.output.delivered[next];
            self.deliver(due, line, packet);
        }
        self.output.clear();
    }

    /// `packet` has come to the end of `line` at `due`.
    fn deliver(&mut self, due: Time, line: usize, packet: Packet) {
        let node = self.topology.line_end(line);
        if node != packet.destination {
            match self.topology.next_hop(node, packet.destination) {
                Some(next) => self.moving.push((next, due, packet)),
                None => self.stay(due, node, &packet, Some(line)),
            }
            return;
        }
        self.tracer.arrived(due, &packet);
        if let Some((mut payload, (seat, end))) = self.payloads.take(packet.handle) {
            payload.set_ecn(packet.ecn);
            self.tracer.received(due, seat, &payload);
            let Seat { node, legs } = &mut self.seats[seat];
            node.receive(due, end, payload, &mut self.sending[..legs.len()]);
            self.send(due, seat);
        }
    }

    /// A packet is lost in `line` or at its end.
    fn drop(&mut self, line: usize, packet: &Packet, cause: Cause) {
        self.tracer.dropped(line, packet, cause);
        self.payloads.take(packet.handle);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use transport::tcp::Segment;
    use units::NodeId;

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
        let spec = RunSpec::from_json(&graph.to_string()).unwrap();
        let mut world = World::build(&spec, &mut |_, _| None).unwrap();
        // Hosts pass nothing on, so node 7 would be out of reach behind the second even if it existed.
        let payload = Payload::Segment(Segment::of_data(0, Bytes::from_static(&[0; 60])));
        let packet = Packet { destination: NodeId(7), ..Packet::of_bytes(payload.wire_bytes()) };
        world.payloads.insert(payload, (0, 0));
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
