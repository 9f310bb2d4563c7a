//! Order and lengths of the messages of a TLS handshake.
//!
//! Lengths hold for X25519, a server key of RSA with 2,048 bits, SHA-256, and ALPN. Each includes the message header of
//! 4 bytes. Sources: docs/explanation/web.md.

use crate::tls::{FINISHED_13, MESSAGE_HEADER_BYTES, SERVER_HELLO_13, kind};
use crate::web::{TlsSpec, TlsVersion};

/// Signature of an RSA key with 2,048 bits, after algorithm and length (RFC 8446 section 4.4.3).
const SIGNATURE: usize = 2 + 2 + 256;

/// The selected identity of a resumed session (RFC 8446 section 4.2.11).
const SELECTED_PSK: usize = 6;
/// ALPN with a name of 2 bytes (measured).
const ENCRYPTED_EXTENSIONS: usize = 15;
/// The empty early_data extension (RFC 8446 section 4.2.10).
const EARLY_DATA: usize = 4;
/// Measured (OpenSSL); it holds a ticket of 208.
const NEW_SESSION_TICKET_13: usize = 233;
/// Tickets after a full handshake; one follows a resumed one (OpenSSL, measured).
const TICKETS: usize = 2;
/// pre_shared_key with that ticket and a binder of SHA-256 (RFC 8446 section 4.2.11).
const PRE_SHARED_KEY: usize = 47 + 208;

/// TLS 1.2 with ALPN (measured).
const SERVER_HELLO_12: usize = 74;
/// The same for a resumed session: it echoes a session id (measured).
const SERVER_HELLO_RESUMED_12: usize = 94;
/// Curve 3, public key 33, signature (RFC 8422 section 5.4).
const SERVER_KEY_EXCHANGE: usize = MESSAGE_HEADER_BYTES + 3 + 33 + SIGNATURE;
/// Public key (RFC 8422 section 5.7).
const CLIENT_KEY_EXCHANGE: usize = MESSAGE_HEADER_BYTES + 33;
/// verify_data of 12 bytes (RFC 5246 section 7.4.9).
const FINISHED_12: usize = MESSAGE_HEADER_BYTES + 12;
/// RFC 5077 section 3.3; measured (OpenSSL).
const NEW_SESSION_TICKET_12: usize = 186;

/// The client resumes a session: a private flag in the random bytes of the ClientHello.
pub(super) const RESUMES: u8 = 1;
/// Early data follows.
pub(super) const EARLY: u8 = 2;

/// Offset of the flags: the first byte of `random`, after message header and version.
pub(super) const FLAGS_AT: usize = MESSAGE_HEADER_BYTES + 2;

/// Next action of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeAction {
    /// Sends a message: its type, whole length, flags (a ClientHello's), and whether it is protected.
    SendMessage(u8, usize, u8, bool),
    /// Sends ChangeCipherSpec.
    ChangeCipherSpec,
    /// Allows application data from now on.
    EnableApplicationData,
    /// Reports a ticket.
    SessionTicket,
}

/// One side of a handshake.
#[derive(Debug)]
pub(super) struct TlsHandshake {
    options: TlsSpec,
    /// A session is resumed; a server learns it from the ClientHello.
    resumes: bool,
    early_data: bool,
    open: bool,
}

impl TlsHandshake {
    /// Creates the handshake of a client, which begins with [`TlsHandshake::start`], or of a server.
    pub fn new(options: TlsSpec, resumes: bool, early: bool) -> TlsHandshake {
        TlsHandshake { options, resumes, early_data: resumes && early, open: false }
    }

    /// Returns whether the version is TLS 1.3.
    pub fn is_13(&self) -> bool {
        self.options.version == TlsVersion::Tls13
    }

    fn open(&mut self, acts: &mut Vec<HandshakeAction>) {
        if !std::mem::replace(&mut self.open, true) {
            acts.push(HandshakeAction::EnableApplicationData);
        }
    }

    /// Returns the client's first flight.
    pub fn start(&mut self) -> Vec<HandshakeAction> {
        let (mut length, mut flags) = (self.options.client_hello_bytes as usize, 0);
        if self.resumes {
            flags |= RESUMES;
            // A ticket of TLS 1.2 replaces padding (RFC 7685 section 4).
            length += if self.is_13() { PRE_SHARED_KEY } else { 0 };
        }
        if self.early_data {
            flags |= EARLY;
            length += EARLY_DATA;
        }
        let mut acts = vec![HandshakeAction::SendMessage(kind::CLIENT_HELLO, length, flags, false)];
        if self.early_data {
            // In compatibility mode this precedes early data (RFC 8446 appendix D.4).
            acts.push(HandshakeAction::ChangeCipherSpec);
            self.open(&mut acts);
        }
        acts
    }

    /// Returns the client's actions after a whole message of the server.
    pub fn client(&mut self, message: u8) -> Vec<HandshakeAction> {
        let mut acts = Vec::new();
        match (self.is_13(), message) {
            (_, kind::NEW_SESSION_TICKET) => acts.push(HandshakeAction::SessionTicket),
            (true, kind::FINISHED) => {
                acts.push(if self.early_data {
                    HandshakeAction::SendMessage(
                        kind::END_OF_EARLY_DATA,
                        MESSAGE_HEADER_BYTES,
                        0,
                        true,
                    )
                } else {
                    HandshakeAction::ChangeCipherSpec
                });
                acts.push(HandshakeAction::SendMessage(kind::FINISHED, FINISHED_13, 0, true));
                self.open(&mut acts);
            }
            (false, kind::SERVER_HELLO_DONE) => {
                acts.push(HandshakeAction::SendMessage(
                    kind::CLIENT_KEY_EXCHANGE,
                    CLIENT_KEY_EXCHANGE,
                    0,
                    false,
                ));
                acts.push(HandshakeAction::ChangeCipherSpec);
                acts.push(HandshakeAction::SendMessage(kind::FINISHED, FINISHED_12, 0, true));
                if self.options.version == TlsVersion::Tls12FalseStart {
                    self.open(&mut acts);
                }
            }
            (false, kind::FINISHED) => {
                if self.resumes {
                    acts.push(HandshakeAction::ChangeCipherSpec);
                    acts.push(HandshakeAction::SendMessage(kind::FINISHED, FINISHED_12, 0, true));
                }
                self.open(&mut acts);
            }
            _ => {}
        }
        acts
    }

    /// Returns the server's actions after a whole message of the client.
    pub fn server(&mut self, message: u8, flags: u8) -> Vec<HandshakeAction> {
        let mut acts = Vec::new();
        let certificates = self.options.certificate_bytes as usize;
        match (self.is_13(), message) {
            (true, kind::CLIENT_HELLO) => {
                self.resumes = flags & RESUMES != 0;
                self.early_data = flags & EARLY != 0;
                let hello = SERVER_HELLO_13 + if self.resumes { SELECTED_PSK } else { 0 };
                acts.push(HandshakeAction::SendMessage(kind::SERVER_HELLO, hello, 0, false));
                acts.push(HandshakeAction::ChangeCipherSpec);
                let extensions =
                    ENCRYPTED_EXTENSIONS + if self.early_data { EARLY_DATA } else { 0 };
                acts.push(HandshakeAction::SendMessage(
                    kind::ENCRYPTED_EXTENSIONS,
                    extensions,
                    0,
                    true,
                ));
                if !self.resumes {
                    // Empty context: 1 byte; list: 3 bytes (RFC 8446 section 4.4.2).
                    acts.push(HandshakeAction::SendMessage(
                        kind::CERTIFICATE,
                        MESSAGE_HEADER_BYTES + 1 + 3 + certificates,
                        0,
                        true,
                    ));
                    acts.push(HandshakeAction::SendMessage(
                        kind::CERTIFICATE_VERIFY,
                        MESSAGE_HEADER_BYTES + SIGNATURE,
                        0,
                        true,
                    ));
                }
                acts.push(HandshakeAction::SendMessage(kind::FINISHED, FINISHED_13, 0, true));
                if self.early_data {
                    self.open(&mut acts);
                }
            }
            (true, kind::FINISHED) => {
                let ticket = HandshakeAction::SendMessage(
                    kind::NEW_SESSION_TICKET,
                    NEW_SESSION_TICKET_13,
                    0,
                    true,
                );
                acts.extend(vec![ticket; if self.resumes { 1 } else { TICKETS }]);
                self.open(&mut acts);
            }
            (false, kind::CLIENT_HELLO) => {
                self.resumes = flags & RESUMES != 0;
                let hello = if self.resumes { SERVER_HELLO_RESUMED_12 } else { SERVER_HELLO_12 };
                acts.push(HandshakeAction::SendMessage(kind::SERVER_HELLO, hello, 0, false));
                if self.resumes {
                    acts.push(HandshakeAction::ChangeCipherSpec);
                    acts.push(HandshakeAction::SendMessage(kind::FINISHED, FINISHED_12, 0, true));
                } else {
                    // List: 3 bytes (RFC 5246 section 7.4.2).
                    acts.push(HandshakeAction::SendMessage(
                        kind::CERTIFICATE,
                        MESSAGE_HEADER_BYTES + 3 + certificates,
                        0,
                        false,
                    ));
                    acts.push(HandshakeAction::SendMessage(
                        kind::SERVER_KEY_EXCHANGE,
                        SERVER_KEY_EXCHANGE,
                        0,
                        false,
                    ));
                    acts.push(HandshakeAction::SendMessage(
                        kind::SERVER_HELLO_DONE,
                        MESSAGE_HEADER_BYTES,
                        0,
                        false,
                    ));
                }
            }
            (false, kind::FINISHED) => {
                if !self.resumes {
                    let ticket = NEW_SESSION_TICKET_12;
                    acts.push(HandshakeAction::SendMessage(
                        kind::NEW_SESSION_TICKET,
                        ticket,
                        0,
                        false,
                    ));
                    acts.push(HandshakeAction::ChangeCipherSpec);
                    acts.push(HandshakeAction::SendMessage(kind::FINISHED, FINISHED_12, 0, true));
                }
                self.open(&mut acts);
            }
            _ => {}
        }
        acts
    }
}
