//! Bytes of the layers, piece by piece as they arrive: nothing is allocated on a peer's word, and what is kept of a message
//! before its data is bounded.
//!
//! `cursor` reads fields, `message` has what TCPCLv4 and QUICCL say to each other, `encode` and `decode` have it in the bytes of
//! either, `decoder` takes it out of a stream; `contact` is TCPCLv4's header, `byte_string` the head of a bundle in MTCP and
//! qubicle.

pub mod byte_string;
pub mod contact;
mod cursor;
mod decode;
mod decoder;
mod encode;
mod message;

pub use cursor::Fault;
pub use decode::{MOST_EXTENSION_BYTES, MOST_NODE_BYTES, decode};
pub use decoder::{Decoder, Item};
pub use encode::encode;
pub use message::{Ack, Dialect, Init, Message, Problem, Segment, refusal, reject, term};
