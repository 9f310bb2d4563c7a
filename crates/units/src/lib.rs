//! The words every other crate speaks: [`Time`], [`Span`], [`Rate`], the [`Packet`] header, its
//! [`Direction`] and named random streams ([`Random`]). No wall clock, no operating-system randomness.

mod direction;
mod flow_hash;
mod packet;
mod prefetch;
mod rate;
mod rng;
mod time;
mod timer_queue;

pub use direction::Direction;
pub use flow_hash::FlowHash;
pub use packet::{Ecn, NodeId, Packet, SequenceNumbers};
pub use prefetch::prefetch;
pub use rate::{Rate, Serializer, divide};
pub use rng::RandomStream;
pub use time::{Span, Time};
pub use timer_queue::TimerQueue;
