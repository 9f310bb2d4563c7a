//! The path of the model: rate, queue, loss and acknowledgements.

use units::{Rate, Span, Time};

/// Random or scheduled loss before the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModelLoss {
    /// No loss.
    None,
    /// Independent loss of each packet with this probability.
    Bernoulli(f64),
    /// Loss of every n-th packet.
    Every(u64),
    /// Loss of the first packet sent at or after this instant.
    Once(Time),
}

/// A token bucket that is full at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelPolicer {
    /// The token rate.
    pub rate: Rate,
    /// The bucket in bytes.
    pub burst: u64,
}

/// Packets sent from `from` up to `until` arrive later by `delay`, and later packets overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelReordering {
    /// The send time of the first delayed packet.
    pub from: Time,
    /// The send time at which the delay ends.
    pub until: Time,
    /// The additional delay.
    pub delay: Span,
}

/// The path that all flows share.
#[derive(Clone, Debug)]
pub struct ModelPath {
    /// The bottleneck rate. `None` means unlimited, so that the RTT is constant.
    pub rate: Option<Rate>,
    /// The bottleneck queue in bytes, including the packet in service.
    pub queue: u64,
    /// The loss before the bottleneck.
    pub loss: ModelLoss,
    /// The number of packets per ACK. A delayed ACK follows after 25 ms.
    pub ack_every: usize,
    /// The period of ACK releases: the ACK path releases ACKs at multiples of this span. Zero means at once.
    pub ack_grid: Span,
    /// The interval in which all packets sent are lost: from the first instant, up to the second.
    pub outage: Option<(Time, Time)>,
    /// A token-bucket policer before the bottleneck. It drops packets without tokens.
    pub policer: Option<ModelPolicer>,
    /// Reordering before the receiver.
    pub reordering: Option<ModelReordering>,
    /// The seed of the loss.
    pub seed: u64,
}

impl ModelPath {
    /// Returns a bottleneck of `rate` with `queue` bytes, no loss, and an ACK for every second packet.
    pub fn bottleneck(rate: Rate, queue: u64) -> ModelPath {
        ModelPath {
            rate: Some(rate),
            queue,
            loss: ModelLoss::None,
            ack_every: 2,
            ack_grid: Span::ZERO,
            outage: None,
            policer: None,
            reordering: None,
            seed: 1,
        }
    }

    /// Returns a path with delay and loss only, and an ACK for every packet.
    pub fn lossy(loss: ModelLoss, seed: u64) -> ModelPath {
        ModelPath {
            rate: None,
            ack_every: 1,
            loss,
            seed,
            ..ModelPath::bottleneck(Rate(1), u64::MAX)
        }
    }
}
