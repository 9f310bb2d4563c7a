//! Wire formats of the CLAs, decoded incrementally. No announced length causes an allocation, and buffers for message
//! headers are bounded.
//!
//! `message` has the messages of TCPCLv4 and QUICCL. `codec` has both encodings, and the head of a bundle in MTCP and
//! qubicle. `cursor` reads fields, `stream_decoder` decodes a stream. `contact_header` is that of TCPCLv4.

mod codec;
pub mod contact_header;
mod cursor;
mod message;
mod stream_decoder;

pub use codec::{
    MAX_BYTE_STRING_HEAD, MAX_EXTENSION_BYTES, MAX_NODE_ID_BYTES, decode, decode_byte_string_head,
    encode, encode_byte_string_head,
};
pub use cursor::DecodeError;
pub use message::{
    ExtensionError, Message, SessInit, WireFormat, XferAck, XferSegment, refusal, reject, term,
};
pub use stream_decoder::{DecodedItem, Decoder};
