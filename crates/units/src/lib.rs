//! Types that every other crate uses. [`Time`], [`Span`] and [`Rate`] are quantities. A [`Packet`] is a header with its
//! [`Direction`]. [`RandomStream`]s have names, and a [`TimerQueue`] orders timers. A [`Descriptor`] describes the keys
//! of a scenario.
//!
//! No type reads a wall clock or randomness of the operating system.

mod descriptor;
mod flow_hash;
mod kind;
mod packet;
mod rate;
mod rng;
mod time;
mod timer_queue;

pub use descriptor::{DefaultValue, Descriptor, Opt, Quantity};
pub use flow_hash::FlowHash;
pub use packet::{Direction, Ecn, NodeId, Packet, SequenceNumbers};
pub use rate::{Rate, Serializer, divide};
pub use rng::RandomStream;
pub use time::{Span, Time};
pub use timer_queue::TimerQueue;
