//! Shared helpers of the tests.

pub mod fading;

use link::{
    BernoulliLossSpec, DelaySpec, DropTailSpec, LossModel, LossSpec, QueueLimit, QueueSpec,
    ServiceSpec, StageSpec, TransmitSpec,
};
use units::{FlowHash, Packet};

/// Returns a packet with a number.
pub fn packet(number: u32, bytes: u32) -> Packet {
    Packet { handle: number, ..Packet::of_bytes(bytes) }
}

/// Returns the packet as one of a flow of one connection.
pub fn of_flow(flow: u32, packet: Packet) -> Packet {
    Packet { flow, tuple: FlowHash(flow), ..packet }
}

/// Returns a constant delay.
pub fn delay(delay_ns: u64) -> StageSpec {
    StageSpec::Delay(DelaySpec { delay_ns, changes: Vec::new() })
}

/// Returns a rate with a drop-tail queue.
pub fn transmit(rate_bit_s: u64, limit: Option<QueueLimit>) -> StageSpec {
    StageSpec::Transmit(TransmitSpec {
        queue: QueueSpec::DropTail(DropTailSpec { limit }),
        service: ServiceSpec::Rate { rate_bit_s, changes: Vec::new() },
    })
}

/// Returns independent loss.
pub fn bernoulli(probability: f64) -> StageSpec {
    StageSpec::Loss(LossSpec {
        model: LossModel::Bernoulli(BernoulliLossSpec { probability }),
        changes: Vec::new(),
    })
}
