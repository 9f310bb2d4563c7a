//! Who says what when in a TLS handshake, and how long each message is.
//!
//! Lengths are those of X25519, a server key of RSA with 2,048 bits, SHA-256, and ALPN; every message
//! counts with its own head of 4 bytes. docs/models/web.md has where they come from.

use crate::tls::{FINISHED_13, HEAD, SERVER_HELLO_13, kind};
use crate::web::{Tls, TlsVersion};

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
/// How many tickets follow a full handshake; one follows a resumed one (OpenSSL, measured).
const TICKETS: usize = 2;
/// pre_shared_key with that ticket and a binder of SHA-256 (RFC 8446 section 4.2.11).
const PRE_SHARED_KEY: usize = 47 + 208;

/// TLS 1.2 with ALPN (measured).
const SERVER_HELLO_12: usize = 74;
/// The same when the session is resumed: it echoes a session id (measured).
const SERVER_HELLO_RESUMED_12: usize = 94;
/// Curve 3, public key 33, signature (RFC 8422 section 5.4).
const SERVER_KEY_EXCHANGE: usize = HEAD + 3 + 33 + SIGNATURE;
/// Public key (RFC 8422 section 5.7).
const CLIENT_KEY_EXCHANGE: usize = HEAD + 33;
/// verify_data of 12 bytes (RFC 5246 section 7.4.9).
const FINISHED_12: usize = HEAD + 12;
/// RFC 5077 section 3.3; measured (OpenSSL).
const NEW_SESSION_TICKET_12: usize = 186;

/// The client resumes; a flag of our own in the ClientHello's random bytes.
pub(super) const RESUMES: u8 = 1;
/// Early data follow.
pub(super) const EARLY: u8 = 2;

/// Where they are: the first byte of `random`, after the message's head and the version.
pub(super) const FLAGS_AT: usize = HEAD + 2;

/// What a side does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Sends a message: its type, whole length, flags (a ClientHello's), and whether it is protected.
    Say(u8, usize, u8, bool),
    /// Sends ChangeCipherSpec.
    ChangeCipherSpec,
    /// From now on application data may be sent.
    Open,
    /// A ticket has come.
    Ticket,
}

/// One side of a handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    options: Tls,
    /// A session is resumed; what a server knows from the ClientHello.
    resumes: bool,
    early: bool,
    open: bool,
}

impl Handshake {
    /// A client's, which begins with [`Handshake::start`], or a server's.
    pub fn new(options: Tls, resumes: bool, early: bool) -> Handshake {
        Handshake { options, resumes, early: resumes && early, open: false }
    }

    /// Whether it is TLS 1.3.
    pub fn is_13(&self) -> bool {
        self.options.version == TlsVersion::Tls13
    }

    fn open(&mut self, acts: &mut Vec<Act>) {
        if !std::mem::replace(&mut self.open, true) {
            acts.push(Act::Open);
        }
    }

    /// The client's first flight.
    pub fn start(&mut self) -> Vec<Act> {
        let (mut length, mut flags) = (self.options.client_hello_bytes as usize, 0);
        if self.resumes {
            flags |= RESUMES;
            // A ticket of TLS 1.2 takes the place of padding (RFC 7685 section 4).
            length += if self.is_13() { PRE_SHARED_KEY } else { 0 };
        }
        if self.early {
            flags |= EARLY;
            length += EARLY_DATA;
        }
        let mut acts = vec![Act::Say(kind::CLIENT_HELLO, length, flags, false)];
        if self.early {
            // Before early data in compatibility mode (RFC 8446 appendix D.4).
            acts.push(Act::ChangeCipherSpec);
            self.open(&mut acts);
        }
        acts
    }

    /// What the client does upon a whole message of the server.
    pub fn client(&mut self, message: u8) -> Vec<Act> {
        let mut acts = Vec::new();
        match (self.is_13(), message) {
            (_, kind::NEW_SESSION_TICKET) => acts.push(Act::Ticket),
            (true, kind::FINISHED) => {
                acts.push(if self.early {
                    Act::Say(kind::END_OF_EARLY_DATA, HEAD, 0, true)
                } else {
                    Act::ChangeCipherSpec
                });
                acts.push(Act::Say(kind::FINISHED, FINISHED_13, 0, true));
                self.open(&mut acts);
            }
            (false, kind::SERVER_HELLO_DONE) => {
                acts.push(Act::Say(kind::CLIENT_KEY_EXCHANGE, CLIENT_KEY_EXCHANGE, 0, false));
                acts.push(Act::ChangeCipherSpec);
                acts.push(Act::Say(kind::FINISHED, FINISHED_12, 0, true));
                if self.options.version == TlsVersion::Tls12FalseStart {
                    self.open(&mut acts);
                }
            }
            (false, kind::FINISHED) => {
                if self.resumes {
                    acts.push(Act::ChangeCipherSpec);
                    acts.push(Act::Say(kind::FINISHED, FINISHED_12, 0, true));
                }
                self.open(&mut acts);
            }
            _ => {}
        }
        acts
    }

    /// What the server does upon a whole message of the client.
    pub fn server(&mut self, message: u8, flags: u8) -> Vec<Act> {
        let mut acts = Vec::new();
        let certificates = self.options.certificate_bytes as usize;
        match (self.is_13(), message) {
            (true, kind::CLIENT_HELLO) => {
                self.resumes = flags & RESUMES != 0;
                self.early = flags & EARLY != 0;
                let hello = SERVER_HELLO_13 + if self.resumes { SELECTED_PSK } else { 0 };
                acts.push(Act::Say(kind::SERVER_HELLO, hello, 0, false));
                acts.push(Act::ChangeCipherSpec);
                let extensions = ENCRYPTED_EXTENSIONS + if self.early { EARLY_DATA } else { 0 };
                acts.push(Act::Say(kind::ENCRYPTED_EXTENSIONS, extensions, 0, true));
                if !self.resumes {
                    // Empty context 1, list 3 (RFC 8446 section 4.4.2).
                    acts.push(Act::Say(kind::CERTIFICATE, HEAD + 1 + 3 + certificates, 0, true));
                    acts.push(Act::Say(kind::CERTIFICATE_VERIFY, HEAD + SIGNATURE, 0, true));
                }
                acts.push(Act::Say(kind::FINISHED, FINISHED_13, 0, true));
                if self.early {
                    self.open(&mut acts);
                }
            }
            (true, kind::FINISHED) => {
                let ticket = Act::Say(kind::NEW_SESSION_TICKET, NEW_SESSION_TICKET_13, 0, true);
                acts.extend(vec![ticket; if self.resumes { 1 } else { TICKETS }]);
                self.open(&mut acts);
            }
            (false, kind::CLIENT_HELLO) => {
                self.resumes = flags & RESUMES != 0;
                let hello = if self.resumes { SERVER_HELLO_RESUMED_12 } else { SERVER_HELLO_12 };
                acts.push(Act::Say(kind::SERVER_HELLO, hello, 0, false));
                if self.resumes {
                    acts.push(Act::ChangeCipherSpec);
                    acts.push(Act::Say(kind::FINISHED, FINISHED_12, 0, true));
                } else {
                    // List 3 (RFC 5246 section 7.4.2).
                    acts.push(Act::Say(kind::CERTIFICATE, HEAD + 3 + certificates, 0, false));
                    acts.push(Act::Say(kind::SERVER_KEY_EXCHANGE, SERVER_KEY_EXCHANGE, 0, false));
                    acts.push(Act::Say(kind::SERVER_HELLO_DONE, HEAD, 0, false));
                }
            }
            (false, kind::FINISHED) => {
                if !self.resumes {
                    let ticket = NEW_SESSION_TICKET_12;
                    acts.push(Act::Say(kind::NEW_SESSION_TICKET, ticket, 0, false));
                    acts.push(Act::ChangeCipherSpec);
                    acts.push(Act::Say(kind::FINISHED, FINISHED_12, 0, true));
                }
                self.open(&mut acts);
            }
            _ => {}
        }
        acts
    }
}
