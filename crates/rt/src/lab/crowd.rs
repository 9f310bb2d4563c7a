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

use emu::{Clock, Inlet, Left};
use path::Topology;
use serde::Serialize;
use sim::{RunSpec, Seat};
use transport::Payload;
use units::{Direction, Packet, Schedule, Time};

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
    /// The users of `spec` share a path from now on: `inlets` are its directions, upwards and downwards, and `left` says what became
    /// of their packets.
    ///
    /// # Errors
    /// What is wrong with the specification, in words.
    pub fn start(
        spec: RunSpec,
        inlets: [Inlet; 2],
        left: Receiver<Left>,
        clock: Clock,
    ) -> io::Result<Crowd> {
        let topology = Topology::build(&spec.graph, spec.seed)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let seats = sim::seats(&spec, &topology).map_err(io::Error::other)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let thread = std::thread::Builder::new().name("users".to_owned()).spawn(move || {
            emu::attend()?;
            Loop::new(seats, inlets, clock).run(&spec, &left, &ended)
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

struct Loop {
    seats: Vec<Seat>,
    inlets: [Inlet; 2],
    clock: Clock,
    schedule: Schedule,
    /// Payloads on the path by handle, each with the seat and end that receives it.
    payloads: Vec<Option<(Payload, (usize, usize))>>,
    free: Vec<u32>,
    /// What a node sends, by its end, and what enters the path next.
    sending: Vec<Vec<Payload>>,
    entering: [Vec<Packet>; 2],
}

impl Loop {
    fn new(mut seats: Vec<Seat>, inlets: [Inlet; 2], clock: Clock) -> Loop {
        let most = seats.iter().map(|seat| seat.legs.len()).max().unwrap_or(0);
        let mut schedule = Schedule::new(seats.len());
        for (index, seat) in seats.iter_mut().enumerate() {
            schedule.set(index, seat.node.wake_at());
        }
        Loop {
            seats,
            inlets,
            clock,
            schedule,
            payloads: Vec::new(),
            free: Vec::new(),
            sending: (0..most).map(|_| Vec::new()).collect(),
            entering: Default::default(),
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
                let (at, seat) = self.schedule.first();
                if at > now {
                    break;
                }
                let Seat { node, legs } = &mut self.seats[seat];
                node.wake(now, &mut self.sending[..legs.len()]);
                self.send(now, seat);
            }
            self.enter()?;
            let now = self.clock.now();
            let ahead = Duration::from_nanos(self.schedule.first().0.since(now).nanos()).min(NAP);
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

    /// What became of a packet.
    fn heard(&mut self, left: Left) {
        let (packet, handle) = match left {
            Left::Arrived(_, packet) => (Some(packet), packet.handle),
            Left::Dropped(handle) => (None, handle),
        };
        let taken = self.payloads.get_mut(handle as usize).and_then(Option::take);
        self.free.push(handle);
        if let (Some((mut payload, (seat, end))), Some(packet)) = (taken, packet) {
            payload.set_ecn(packet.ecn);
            let now = self.clock.now();
            let Seat { node, legs } = &mut self.seats[seat];
            node.receive(now, end, payload, &mut self.sending[..legs.len()]);
            self.send(now, seat);
        }
    }

    /// What the node at `seat` has sent waits to enter the path.
    fn send(&mut self, now: Time, seat: usize) {
        let Seat { node, legs } = &mut self.seats[seat];
        for (payloads, leg) in self.sending.iter_mut().zip(legs.iter()) {
            let way = usize::from(leg.direction == Direction::Down);
            for payload in payloads.drain(..) {
                let to = leg.way(&payload);
                let handle = self.free.pop().unwrap_or(self.payloads.len() as u32);
                self.entering[way].push(Packet { handle, ..leg.header(now, to, &payload) });
                let kept = Some((payload, to.seat));
                match self.payloads.get_mut(handle as usize) {
                    Some(place) => *place = kept,
                    None => self.payloads.push(kept),
                }
            }
        }
        self.schedule.set(seat, node.wake_at());
    }

    fn enter(&mut self) -> io::Result<()> {
        for (inlet, packets) in self.inlets.iter_mut().zip(&mut self.entering) {
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
