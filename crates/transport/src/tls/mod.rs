//! TLS over a byte stream: messages and records have their true types and lengths, without encryption.
//!
//! Reading order: `record`, `handshake` (order and lengths of messages), `session` (TLS under HTTP), `start_tls` (TLS
//! after plaintext messages).

mod handshake;
pub(crate) mod record;
mod session;
#[cfg(test)]
mod session_tests;
mod start_tls;

pub(crate) use session::TlsApp;
pub use start_tls::StartTlsApp;

/// Types of handshake messages (RFC 8446 section 4, RFC 5246 section 7.4).
pub(crate) mod kind {
    pub const CLIENT_HELLO: u8 = 1;
    pub const SERVER_HELLO: u8 = 2;
    pub const NEW_SESSION_TICKET: u8 = 4;
    pub const END_OF_EARLY_DATA: u8 = 5;
    pub const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub const CERTIFICATE: u8 = 11;
    pub const SERVER_KEY_EXCHANGE: u8 = 12;
    pub const SERVER_HELLO_DONE: u8 = 14;
    pub const CERTIFICATE_VERIFY: u8 = 15;
    pub const CLIENT_KEY_EXCHANGE: u8 = 16;
    pub const FINISHED: u8 = 20;
}

/// Type and length of a handshake message (RFC 8446 section 4).
pub(crate) const MESSAGE_HEADER_BYTES: usize = 4;
/// ServerHello of TLS 1.3 with X25519 (measured; 32 bytes are the session id of the compatibility mode).
pub(crate) const SERVER_HELLO_13: usize = 122;
/// HMAC with SHA-256 (RFC 8446 section 4.4.4).
pub(crate) const FINISHED_13: usize = MESSAGE_HEADER_BYTES + 32;

/// Builds a handshake message of this type and whole length, with a body of zeros.
pub(crate) fn message(kind: u8, length: usize) -> Vec<u8> {
    let mut message = vec![0; length];
    message[0] = kind;
    message[1..MESSAGE_HEADER_BYTES]
        .copy_from_slice(&((length - MESSAGE_HEADER_BYTES) as u32).to_be_bytes()[1..]);
    message
}
