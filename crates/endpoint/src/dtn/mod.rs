//! Bundle nodes on real sockets: the sessions and what decides over them are those of virtual time.

mod sessions;

pub use self::sessions::{Gate, SessionId, Sessions};
