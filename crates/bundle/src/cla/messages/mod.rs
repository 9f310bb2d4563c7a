//! Wire formats of the CLAs, decoded incrementally. No announced length causes an allocation, and buffers for message
//! headers are bounded.
//!
//! `cursor` reads fields. `message` has the messages of TCPCLv4 and QUICCL, `codec` and `decode` both encodings,
//! `stream_decoder` decodes a stream. `contact_header` is that of TCPCLv4, `byte_string` the head of a bundle in MTCP
//! and qubicle.

pub mod byte_string;
mod codec;
pub mod contact_header;
mod cursor;
mod decode;
mod message;
mod stream_decoder;

pub use codec::encode;
pub use cursor::DecodeError;
pub use decode::{MAX_EXTENSION_BYTES, MAX_NODE_ID_BYTES, decode};
pub use message::{
    ExtensionError, Message, SessInit, WireFormat, XferAck, XferSegment, refusal, reject, term,
};
pub use stream_decoder::{DecodedItem, Decoder};
