//! Simulated users who share the path with real commands: the nodes of a resolved run, under the real clock.
//!
//! A thread of its own gives them the packets that the emulator carries for them, and wakes them. They measure what they would
//! in virtual time: they are the same nodes, at the same seats of the same graph.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use emu::{Clock, Inlet, Left, Part, Place};
use path::Topology;
use serde::Serialize;
use sim::Seat;
use spec::RunSpec;
use transport::Payload;
use units::{Direction, NodeId, Packet, Time, TimerQueue};

/// Longest wait, so that an end is noticed.
const NAP: Duration = Duration::from_millis(50);

/// Wake-ups before packets get their turn.
const BATCH: usize = 256;

/// Simulated users at work.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Vec<Had>>>,
}

/// What a flow of a simulated user has received.
#[derive(Clone, Debug, Serialize)]
pub struct Had {
    /// The flow.
    pub flow: String,
    /// Whose it is.
    pub user: u32,
    /// Stream bytes that each side has received in order.
    pub client_bytes: u64,
    /// The server's.
    pub server_bytes: u64,
}

impl Crowd {
    /// The users of `spec` share a path from now on. It leads over `places`, nodes of its graph, from client to server; `inlets` are
    /// those of the segments between two of them, and `left` says what became of packets there.
    ///
    /// # Errors
    /// What is wrong with the specification, in words.
    pub fn start(
        spec: RunSpec,
        places: &[Place],
        inlets: Vec<[Inlet; 2]>,
        left: Receiver<Left>,
        clock: Clock,
    ) -> io::Result<Crowd> {
        let topology = Topology::build(&spec.graph, spec.seed)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let seats = sim::seats(&spec, &topology).map_err(io::Error::other)?;
        let node = |place: &Place| {
            let missing = || format!("the simulated users know no node {:?}", place.name);
            topology.node_id(&place.name).ok_or_else(|| io::Error::other(missing()))
        };
        let way = Chain { nodes: places.iter().map(node).collect::<io::Result<_>>()? };
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let thread = std::thread::Builder::new().name("users".to_owned()).spawn(move || {
            emu::attend()?;
            Loop::new(seats, way, inlets, clock).run(&spec, &left, &ended)
        })?;
        Ok(Crowd { stop, thread })
    }

    /// Ends it: what each flow had.
    ///
    /// # Errors
    /// Why it ended before its time.
    pub fn stop(self) -> io::Result<Vec<Had>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the simulated users panicked")))
    }
}

/// A path that leads over these nodes from client to server, each segment to the next one.
struct Chain {
    nodes: Vec<NodeId>,
}

impl Chain {
    /// The part that leads on from a node; none beyond the ends, and from who is not on the path.
    fn from(&self, node: NodeId, direction: Direction) -> Option<Part> {
        let place = self.nodes.iter().position(|one| *one == node)?;
        let segment = match direction {
            Direction::Up => Some(place).filter(|place| place + 1 < self.nodes.len()),
            Direction::Down => place.checked_sub(1),
        };
        Some(Part { segment: segment?, direction })
    }

    /// The node to which a part leads.
    fn end(&self, Part { segment, direction }: Part) -> NodeId {
        self.nodes[segment + usize::from(direction == Direction::Up)]
    }
}

struct Loop {
    seats: Vec<Seat>,
    way: Chain,
    inlets: Vec<[Inlet; 2]>,
    clock: Clock,
    schedule: TimerQueue,
    /// Payloads on the path by handle, each with the seat and end that receives it.
    payloads: Vec<Option<(Payload, (usize, usize))>>,
    free: Vec<u32>,
    /// What a node sends, by its end, and what enters the path next.
    sending: Vec<Vec<Payload>>,
    entering: Vec<[Vec<Packet>; 2]>,
}

impl Loop {
    fn new(mut seats: Vec<Seat>, way: Chain, inlets: Vec<[Inlet; 2]>, clock: Clock) -> Loop {
        let most = seats.iter().map(|seat| seat.legs.len()).max().unwrap_or(0);
        let mut schedule = TimerQueue::new(seats.len());
        for (index, seat) in seats.iter_mut().enumerate() {
            schedule.set_deadline(index, seat.node.wake_at());
        }
        let entering = inlets.iter().map(|_| Default::default()).collect();
        Loop {
            seats,
            way,
            inlets,
            clock,
            schedule,
            payloads: Vec::new(),
            free: Vec::new(),
            sending: (0..most).map(|_| Vec::new()).collect(),
            entering,
        }
    }

    fn run(
        mut self,
        spec: &RunSpec,
        left: &Receiver<Left>,
        stop: &AtomicBool,
    ) -> io::Result<Vec<Had>> {
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..BATCH {
                let now = self.clock.now();
                let (at, seat) = self.schedule.earliest();
                if at > now {
                    break;
                }
                let Seat { node, legs } = &mut self.seats[seat];
                node.wake(now, &mut self.sending[..legs.len()]);
                self.send(now, seat);
            }
            self.enter()?;
            let now = self.clock.now();
            let ahead =
                Duration::from_nanos(self.schedule.earliest().0.since(now).nanos()).min(NAP);
            let mut next = left.recv_timeout(ahead);
            loop {
                match next {
                    Ok(one) => self.heard(one),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Ok(self.had(spec)),
                }
                next = left.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            self.enter()?;
        }
        Ok(self.had(spec))
    }

    /// What became of a packet. Nodes that it is not for pass it on.
    fn heard(&mut self, left: Left) {
        let handle = match left {
            Left::Arrived(part, _, packet) => {
                let here = self.way.end(part);
                if here == packet.destination {
                    return self.receive(packet);
                }
                if let Some(next) = self.way.from(here, part.direction) {
                    return self.enters(next, packet);
                }
                packet.handle
            }
            Left::Dropped(handle) => handle,
        };
        self.take(handle);
    }

    fn enters(&mut self, Part { segment, direction }: Part, packet: Packet) {
        self.entering[segment][usize::from(direction == Direction::Down)].push(packet);
    }

    /// The payload of a packet that is no longer on the path, and who was to receive it.
    fn take(&mut self, handle: u32) -> Option<(Payload, (usize, usize))> {
        self.free.push(handle);
        self.payloads.get_mut(handle as usize).and_then(Option::take)
    }

    fn receive(&mut self, packet: Packet) {
        let Some((mut payload, (seat, end))) = self.take(packet.handle) else { return };
        payload.set_ecn(packet.ecn);
        let now = self.clock.now();
        let Seat { node, legs } = &mut self.seats[seat];
        node.receive(now, end, payload, &mut self.sending[..legs.len()]);
        self.send(now, seat);
    }

    /// What the node at `seat` has sent waits to enter the path.
    fn send(&mut self, now: Time, seat: usize) {
        let Seat { node, legs } = &mut self.seats[seat];
        for (payloads, leg) in self.sending.iter_mut().zip(legs.iter()) {
            let Some(Part { segment, direction }) = self.way.from(leg.from, leg.direction) else {
                payloads.clear();
                continue;
            };
            let entering = &mut self.entering[segment][usize::from(direction == Direction::Down)];
            for payload in payloads.drain(..) {
                let to = leg.way(&payload);
                let handle = self.free.pop().unwrap_or(self.payloads.len() as u32);
                entering.push(Packet { handle, ..leg.header(now, to, &payload) });
                let kept = Some((payload, to.seat));
                match self.payloads.get_mut(handle as usize) {
                    Some(place) => *place = kept,
                    None => self.payloads.push(kept),
                }
            }
        }
        self.schedule.set_deadline(seat, node.wake_at());
    }

    fn enter(&mut self) -> io::Result<()> {
        let inlets = self.inlets.iter_mut().flatten();
        for (inlet, packets) in inlets.zip(self.entering.iter_mut().flatten()) {
            inlet.enter(packets)?;
        }
        Ok(())
    }

    /// The hosts of each flow are the first seats, client and server.
    fn had(&self, spec: &RunSpec) -> Vec<Had> {
        let bytes = |seat: usize| {
            self.seats.get(seat).map_or(0, |seat| seat.node.counters(0).received_in_order_bytes)
        };
        let flows = spec.flows.iter().enumerate();
        flows
            .map(|(place, flow)| Had {
                flow: flow.name.clone(),
                user: flow.user,
                client_bytes: bytes(2 * place),
                server_bytes: bytes(2 * place + 1),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_leads_on_in_its_direction_and_ends_at_its_ends() {
        let nodes = vec![NodeId(4), NodeId(0), NodeId(2)];
        let way = Chain { nodes: nodes.clone() };
        for (direction, order) in [
            (Direction::Up, nodes.clone()),
            (Direction::Down, nodes.iter().rev().copied().collect::<Vec<_>>()),
        ] {
            let mut here = order[0];
            for next in &order[1..] {
                here = way.end(way.from(here, direction).unwrap());
                assert_eq!(here, *next);
            }
            assert_eq!(way.from(here, direction), None);
            assert_eq!(way.from(NodeId(9), direction), None);
        }
    }
}
