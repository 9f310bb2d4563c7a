//! Simulated users that share the path with real commands: the nodes of a resolved run in real time.
//!
//! A separate thread polls the nodes and passes them the packets that the emulator has carried. They measure the same
//! quantities as in virtual time, because they are the same nodes with the same attachments to the same topology.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use emu::{EmulatedDirection, EmulatorClock, InjectionResult, NamespaceNode, PacketInjector};
use serde::Serialize;
use sim::Attachment;
use spec::RunSpec;
use topology::Topology;
use transport::Payload;
use units::{Direction, NodeId, Packet, Time, TimerQueue};

/// Longest wait. It limits the delay until a stop is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Node polls between two exchanges of packets.
const BATCH: usize = 256;

/// The running simulated users.
pub struct SimulatedUsers {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Vec<UserBytes>>>,
}

/// The bytes that a flow of a simulated user has received.
#[derive(Clone, Debug, Serialize)]
pub struct UserBytes {
    /// The name of the flow.
    pub flow: String,
    /// The user of the flow.
    pub user: u32,
    /// Stream bytes that the client has received in sequence.
    pub client_bytes: u64,
    /// Stream bytes that the server has received in sequence.
    pub server_bytes: u64,
}

impl SimulatedUsers {
    /// Starts the users of `spec` on a path over `nodes`, nodes of its topology from client to server. `injectors`
    /// belong to the links between them. `results` reports the outcomes of injected packets.
    ///
    /// # Errors
    /// Returns an error message if the specification is invalid.
    pub fn start(
        spec: RunSpec,
        nodes: &[NamespaceNode],
        injectors: Vec<[PacketInjector; 2]>,
        results: Receiver<InjectionResult>,
        clock: EmulatorClock,
    ) -> io::Result<SimulatedUsers> {
        let topology = Topology::build(&spec.graph, spec.seed)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let attachments = sim::build_attachments(&spec, &topology).map_err(io::Error::other)?;
        let node_id = |node: &NamespaceNode| {
            let missing = || format!("the simulated users have no node {:?}", node.name);
            topology.node_id(&node.name).ok_or_else(|| io::Error::other(missing()))
        };
        let path = LinearPath { nodes: nodes.iter().map(node_id).collect::<io::Result<_>>()? };
        let stop = Arc::new(AtomicBool::new(false));
        let stop_requested = stop.clone();
        let thread = std::thread::Builder::new().name("users".to_owned()).spawn(move || {
            emu::prepare_thread()?;
            UserLoop::new(attachments, path, injectors, clock).run(&spec, &results, &stop_requested)
        })?;
        Ok(SimulatedUsers { stop, thread })
    }

    /// Stops the users and returns the received bytes of each flow.
    ///
    /// # Errors
    /// Returns the error of a thread that ended early.
    pub fn stop(self) -> io::Result<Vec<UserBytes>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the simulated users panicked")))
    }
}

/// A path over these nodes from client to server, with a link between neighbouring nodes.
struct LinearPath {
    nodes: Vec<NodeId>,
}

impl LinearPath {
    /// Returns the next direction after a node; `None` beyond the ends, and for nodes that are not on the path.
    fn next_direction(&self, node: NodeId, direction: Direction) -> Option<EmulatedDirection> {
        let index = self.nodes.iter().position(|other| *other == node)?;
        let link = match direction {
            Direction::Up => Some(index).filter(|index| index + 1 < self.nodes.len()),
            Direction::Down => index.checked_sub(1),
        };
        Some(EmulatedDirection { link: link?, direction })
    }

    /// Returns the end node of a direction.
    fn end_node(&self, EmulatedDirection { link, direction }: EmulatedDirection) -> NodeId {
        self.nodes[link + usize::from(direction == Direction::Up)]
    }
}

struct UserLoop {
    attachments: Vec<Attachment>,
    path: LinearPath,
    injectors: Vec<[PacketInjector; 2]>,
    clock: EmulatorClock,
    timers: TimerQueue,
    /// Payloads on the path by handle, each with the attachment and interface of its receiver.
    payloads: Vec<Option<(Payload, (usize, usize))>>,
    free: Vec<u32>,
    /// The output of a node by interface, and the packets that enter the path next.
    node_output: Vec<Vec<Payload>>,
    to_inject: Vec<[Vec<Packet>; 2]>,
}

impl UserLoop {
    fn new(
        mut attachments: Vec<Attachment>,
        path: LinearPath,
        injectors: Vec<[PacketInjector; 2]>,
        clock: EmulatorClock,
    ) -> UserLoop {
        let max_interfaces =
            attachments.iter().map(|attachment| attachment.interfaces.len()).max().unwrap_or(0);
        let mut timers = TimerQueue::new(attachments.len());
        for (index, attachment) in attachments.iter_mut().enumerate() {
            timers.set_deadline(index, attachment.node.poll_at());
        }
        let to_inject = injectors.iter().map(|_| Default::default()).collect();
        UserLoop {
            attachments,
            path,
            injectors,
            clock,
            timers,
            payloads: Vec::new(),
            free: Vec::new(),
            node_output: (0..max_interfaces).map(|_| Vec::new()).collect(),
            to_inject,
        }
    }

    fn run(
        mut self,
        spec: &RunSpec,
        results: &Receiver<InjectionResult>,
        stop: &AtomicBool,
    ) -> io::Result<Vec<UserBytes>> {
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..BATCH {
                let now = self.clock.now();
                let (at, attachment) = self.timers.earliest();
                if at > now {
                    break;
                }
                let Attachment { node, interfaces } = &mut self.attachments[attachment];
                node.poll(now, &mut self.node_output[..interfaces.len()]);
                self.send(now, attachment);
            }
            self.inject_queued()?;
            let now = self.clock.now();
            let wait =
                Duration::from_nanos(self.timers.earliest().0.since(now).nanos()).min(MAX_SLEEP);
            let mut next = results.recv_timeout(wait);
            loop {
                match next {
                    Ok(result) => self.on_result(result),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Ok(self.received_bytes(spec)),
                }
                next = results.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            self.inject_queued()?;
        }
        Ok(self.received_bytes(spec))
    }

    /// Handles the outcome of a packet. Intermediate nodes forward it.
    fn on_result(&mut self, result: InjectionResult) {
        let handle = match result {
            InjectionResult::Delivered(emulated_direction, _, packet) => {
                let node = self.path.end_node(emulated_direction);
                if node == packet.destination {
                    return self.receive(packet);
                }
                if let Some(next) = self.path.next_direction(node, emulated_direction.direction) {
                    return self.queue_injection(next, packet);
                }
                packet.handle
            }
            InjectionResult::Dropped(handle) => handle,
        };
        self.take(handle);
    }

    fn queue_injection(
        &mut self,
        EmulatedDirection { link, direction }: EmulatedDirection,
        packet: Packet,
    ) {
        self.to_inject[link][usize::from(direction == Direction::Down)].push(packet);
    }

    /// Removes the payload of a packet that left the path. Returns it with its receiver.
    fn take(&mut self, handle: u32) -> Option<(Payload, (usize, usize))> {
        self.free.push(handle);
        self.payloads.get_mut(handle as usize).and_then(Option::take)
    }

    fn receive(&mut self, packet: Packet) {
        let Some((mut payload, (attachment, interface))) = self.take(packet.handle) else { return };
        payload.set_ecn(packet.ecn);
        let now = self.clock.now();
        let Attachment { node, interfaces } = &mut self.attachments[attachment];
        node.receive(now, interface, payload, &mut self.node_output[..interfaces.len()]);
        self.send(now, attachment);
    }

    /// Queues the output of the node at `attachment` for injection.
    fn send(&mut self, now: Time, attachment: usize) {
        let Attachment { node, interfaces } = &mut self.attachments[attachment];
        for (payloads, interface) in self.node_output.iter_mut().zip(interfaces.iter()) {
            let Some(EmulatedDirection { link, direction }) =
                self.path.next_direction(interface.node, interface.direction)
            else {
                payloads.clear();
                continue;
            };
            let packets = &mut self.to_inject[link][usize::from(direction == Direction::Down)];
            for payload in payloads.drain(..) {
                let entry = interface.forwarding_entry(&payload);
                let handle = self.free.pop().unwrap_or(self.payloads.len() as u32);
                packets.push(Packet { handle, ..interface.header(now, entry, &payload) });
                let stored = Some((payload, entry.receiver));
                match self.payloads.get_mut(handle as usize) {
                    Some(slab_entry) => *slab_entry = stored,
                    None => self.payloads.push(stored),
                }
            }
        }
        self.timers.set_deadline(attachment, node.poll_at());
    }

    fn inject_queued(&mut self) -> io::Result<()> {
        let injectors = self.injectors.iter_mut().flatten();
        for (injector, packets) in injectors.zip(self.to_inject.iter_mut().flatten()) {
            injector.inject(packets)?;
        }
        Ok(())
    }

    /// The first attachments are the hosts of the flows, client and server.
    fn received_bytes(&self, spec: &RunSpec) -> Vec<UserBytes> {
        let bytes_of = |attachment: usize| {
            self.attachments
                .get(attachment)
                .map_or(0, |entry| entry.node.counters(0).received_in_order_bytes)
        };
        let flows = spec.flows.iter().enumerate();
        flows
            .map(|(index, flow)| UserBytes {
                flow: flow.name.clone(),
                user: flow.user,
                client_bytes: bytes_of(2 * index),
                server_bytes: bytes_of(2 * index + 1),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_path_ends_at_its_end_nodes() {
        let nodes = vec![NodeId(4), NodeId(0), NodeId(2)];
        let path = LinearPath { nodes: nodes.clone() };
        for (direction, order) in [
            (Direction::Up, nodes.clone()),
            (Direction::Down, nodes.iter().rev().copied().collect::<Vec<_>>()),
        ] {
            let mut here = order[0];
            for next in &order[1..] {
                here = path.end_node(path.next_direction(here, direction).unwrap());
                assert_eq!(here, *next);
            }
            assert_eq!(path.next_direction(here, direction), None);
            assert_eq!(path.next_direction(NodeId(9), direction), None);
        }
    }
}
