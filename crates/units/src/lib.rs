//! The words every other crate speaks: [`Time`], [`Span`], [`Rate`], the [`Packet`] header, its
//! [`Direction`] and named random streams ([`Random`]). No wall clock, no operating-system randomness.

mod ahead;
mod direction;
mod packet;
mod random;
mod rate;
mod schedule;
mod time;
mod tuple;

pub use ahead::fetch;
pub use direction::Direction;
pub use packet::{Ecn, NodeId, Packet, SequenceNumbers};
pub use random::Random;
pub use rate::{Rate, Serializer, divide};
pub use schedule::Schedule;
pub use time::{Span, Time};
pub use tuple::TupleHash;
