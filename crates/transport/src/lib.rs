//! Sans-IO transports and the applications over them. Time is an argument; datagrams come in and
//! go out as bytes; nothing here opens a socket or reads a clock.

mod app;
mod counters;
pub mod load;
pub mod quic;
mod received;

pub use app::{App, AppEvent, ReadEnd, Streams};
pub use counters::Counters;
pub use load::{AmountSpec, Direction, LoadSpec, SizeSpec, StreamSpec};
pub use received::Received;
