//! What several tests share.

use path::{Limit, LossSpec, QueueSpec, ServiceSpec, StageSpec};
use units::{Packet, TupleHash};

/// A packet with a number.
pub fn packet(number: u32, bytes: u32) -> Packet {
    Packet { handle: number, ..Packet::of_bytes(bytes) }
}

/// The same packet as one of a flow of one connection.
pub fn of_flow(flow: u32, packet: Packet) -> Packet {
    Packet { flow, tuple: TupleHash(flow), ..packet }
}

/// A constant delay.
pub fn delay(delay_ns: u64) -> StageSpec {
    StageSpec::Delay { delay_ns, changes: Vec::new() }
}

/// A rate behind a drop-tail queue.
pub fn transmit(rate_bit_s: u64, limit: Option<Limit>) -> StageSpec {
    StageSpec::Transmit {
        queue: QueueSpec::DropTail { limit },
        service: ServiceSpec::Rate { rate_bit_s, changes: Vec::new() },
    }
}

/// Independent loss.
pub fn bernoulli(probability: f64) -> StageSpec {
    StageSpec::Loss { model: LossSpec::Bernoulli { probability }, changes: Vec::new() }
}
