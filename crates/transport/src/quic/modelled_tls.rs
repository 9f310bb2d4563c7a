//! Modelled cryptography: TLS 1.3 messages of true size and order (RFC 8446 section 2, RFC 9001 section 4), tags of
//! true length, and no encryption. Times and sizes are those of `real_tls`, at a fraction of its cost; a test compares
//! the two. Each stack has an adaptor of its traits for these types.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Side;

/// Lengths of the handshake messages, bytes.
///
/// Measured from rustls 0.23 with ring, X25519 and the Ed25519 certificate of `real_tls`. Transport parameters are
/// added at their true length.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageSizes {
    client_hello: usize,
    /// Extra length of a ClientHello that resumes (pre_shared_key, early_data).
    resumption: usize,
    server_hello: usize,
    /// Extra length of a ServerHello that resumes.
    server_resumption: usize,
    encrypted_extensions: usize,
    /// Extra length of EncryptedExtensions that accept early data.
    accept_early_data: usize,
    /// Certificate and CertificateVerify; absent when resuming.
    certificate: usize,
    finished: usize,
    /// Each NewSessionTicket.
    ticket: usize,
    /// Number of tickets after the handshake.
    tickets: usize,
}

impl Default for MessageSizes {
    fn default() -> MessageSizes {
        MessageSizes {
            client_hello: 199,
            resumption: 99,
            server_hello: 90,
            server_resumption: 6,
            encrypted_extensions: 20,
            accept_early_data: 5,
            certificate: 447,
            finished: 52,
            ticket: 89,
            tickets: 2,
        }
    }
}

/// Bytes of a tag: the key generation, then the packet number in the last eight.
pub(crate) const TAG: usize = 16;

/// Type of a message: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum MessageType {
    ClientHello = 1,
    ServerHello = 2,
    ServerFlight = 8,
    ClientFinished = 20,
    Ticket = 4,
}

/// Type (1 byte), length of the body (3), length of the transport parameters (2), flags (1).
const HEADER_BYTES: usize = 7;
const RESUMES: u8 = 1;

fn write_message(out: &mut Vec<u8>, message: MessageType, length: usize, flags: u8, params: &[u8]) {
    let body = (length + params.len()).max(HEADER_BYTES + params.len()) - 4;
    out.push(message as u8);
    out.extend_from_slice(&(body as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&(params.len() as u16).to_be_bytes());
    out.push(flags);
    out.extend_from_slice(params);
    out.resize(out.len() + body - (HEADER_BYTES - 4) - params.len(), 0);
}

/// Sessions saved by a client, by the server's name: the server's transport parameters.
type Tickets = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Client side of modelled cryptography. It stores the last session with each server that sent a ticket.
#[derive(Debug, Default)]
pub(super) struct ModelledClient {
    sizes: MessageSizes,
    tickets: Tickets,
    early_data: bool,
}

impl ModelledClient {
    pub(super) fn new(early_data: bool) -> ModelledClient {
        ModelledClient { early_data, ..ModelledClient::default() }
    }

    /// Starts a session with the server of this name; `params` are the encoded transport parameters of the client.
    pub(super) fn session(&self, server_name: &str, params: Vec<u8>) -> ModelledSession {
        let tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = tickets.get(server_name).cloned();
        let resumes = self.early_data && saved.is_some();
        ModelledSession {
            peer_params: saved.filter(|_| resumes),
            resumes,
            ticket: Some((self.tickets.clone(), server_name.to_owned())),
            ..ModelledSession::new(Side::Client, self.sizes, params)
        }
    }
}

/// Server side of modelled cryptography.
#[derive(Debug, Default)]
pub(super) struct ModelledServer {
    sizes: MessageSizes,
}

impl ModelledServer {
    /// Starts a session; `params` are the encoded transport parameters of the server.
    pub(super) fn session(&self, params: Vec<u8>) -> ModelledSession {
        ModelledSession::new(Side::Server, self.sizes, params)
    }
}

/// initial_max_streams_bidi (RFC 9000 section 18.2).
const INITIAL_MAX_STREAMS_BIDI: u64 = 8;

/// Returns the bytes that `params` lacks against the default stream limit, which has two bytes.
fn stream_limit_padding(params: &[u8]) -> usize {
    let mut rest = params;
    while let (Some(id), Some(length)) = (varint(&mut rest), varint(&mut rest)) {
        if id == INITIAL_MAX_STREAMS_BIDI {
            return 2_usize.saturating_sub(length as usize);
        }
        rest = rest.get(length as usize..).unwrap_or_default();
    }
    0
}

/// Takes a variable-length integer off `rest` (RFC 9000 section 16).
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    let (bytes, left) = rest.split_at_checked(1 << (first >> 6))?;
    *rest = left;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(value & (u64::MAX >> (64 - 8 * bytes.len() + 2)))
}

/// State of the handshake; each side passes its states in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HandshakeState {
    /// Client: sends ClientHello. Server: waits for it.
    Start,
    /// Client: waits for ServerHello. Server: sends ServerHello.
    Hello,
    /// Client: installs keys after ServerHello. Server: sends its flight.
    Keys,
    /// Client: waits for the server's flight. Server: waits for the client's Finished.
    Flight,
    /// Client: sends Finished. Server: sends tickets.
    Finish,
    /// Done.
    Done,
}

/// One side of a handshake.
#[derive(Debug)]
pub(super) struct ModelledSession {
    side: Side,
    sizes: MessageSizes,
    params: Vec<u8>,
    peer_params: Option<Vec<u8>>,
    resumes: bool,
    /// Storage and name of a client's session.
    ticket: Option<(Tickets, String)>,
    state: HandshakeState,
    input: Vec<u8>,
    announced: bool,
    /// Generation of the newest keys; those after the handshake are the first.
    generation: u64,
}

impl ModelledSession {
    fn new(side: Side, sizes: MessageSizes, params: Vec<u8>) -> ModelledSession {
        ModelledSession {
            side,
            sizes,
            params,
            peer_params: None,
            resumes: false,
            ticket: None,
            state: HandshakeState::Start,
            input: Vec::new(),
            announced: false,
            generation: 0,
        }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Returns whether the session resumes an earlier one, which allows early data.
    pub(super) fn resumes(&self) -> bool {
        self.resumes
    }

    /// Returns the encoded transport parameters of the peer, as soon as they are known.
    pub(super) fn peer_params(&self) -> Option<&[u8]> {
        self.peer_params.as_deref()
    }

    /// Returns whether the data of the handshake were announced by [`ModelledSession::read`].
    pub(super) fn is_announced(&self) -> bool {
        self.announced
    }

    pub(super) fn is_handshaking(&self) -> bool {
        match self.side {
            Side::Client => self.state < HandshakeState::Done,
            Side::Server => self.state < HandshakeState::Finish,
        }
    }

    /// Reads handshake bytes. Returns whether the parameters of the peer are known now, once.
    pub(super) fn read(&mut self, bytes: &[u8]) -> bool {
        self.input.extend_from_slice(bytes);
        while let Some((kind, flags, params)) = self.next_message() {
            self.on_message(kind, flags, params);
        }
        let ready = match self.side {
            Side::Client => self.state >= HandshakeState::Finish,
            Side::Server => self.state >= HandshakeState::Hello,
        };
        ready && !std::mem::replace(&mut self.announced, ready)
    }

    /// Appends the next message to `out`, if any. Returns whether the keys of the next level follow it.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let sizes = self.sizes;
        let flags = if self.resumes { RESUMES } else { 0 };
        match (self.side, self.state) {
            (Side::Client, HandshakeState::Start) => {
                let length = sizes.client_hello + if self.resumes { sizes.resumption } else { 0 };
                let length = length + stream_limit_padding(&self.params);
                write_message(out, MessageType::ClientHello, length, flags, &self.params);
                self.state = HandshakeState::Hello;
                false
            }
            (Side::Client, HandshakeState::Keys) => {
                self.state = HandshakeState::Flight;
                true
            }
            (Side::Client, HandshakeState::Finish) => {
                write_message(out, MessageType::ClientFinished, sizes.finished, 0, &[]);
                self.state = HandshakeState::Done;
                true
            }
            (Side::Server, HandshakeState::Hello) => {
                let length =
                    sizes.server_hello + if self.resumes { sizes.server_resumption } else { 0 };
                write_message(out, MessageType::ServerHello, length, 0, &[]);
                self.state = HandshakeState::Keys;
                true
            }
            (Side::Server, HandshakeState::Keys) => {
                let proof = if self.resumes { sizes.accept_early_data } else { sizes.certificate };
                let length = sizes.encrypted_extensions + proof + sizes.finished;
                let length = length + stream_limit_padding(&self.params);
                write_message(out, MessageType::ServerFlight, length, 0, &self.params);
                self.state = HandshakeState::Flight;
                true
            }
            (Side::Server, HandshakeState::Finish) => {
                for _ in 0..sizes.tickets {
                    write_message(out, MessageType::Ticket, sizes.ticket, 0, &[]);
                }
                self.state = HandshakeState::Done;
                false
            }
            _ => false,
        }
    }

    /// Returns the keys of the next key update.
    pub(super) fn next_key(&mut self) -> ModelledKey {
        self.generation += 1;
        ModelledKey { generation: self.generation }
    }

    /// Removes one whole message from the input.
    fn next_message(&mut self) -> Option<(u8, u8, Vec<u8>)> {
        let head = self.input.get(..HEADER_BYTES)?;
        let body = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        let (kind, flags) = (head[0], head[6]);
        let length = u16::from_be_bytes([head[4], head[5]]) as usize;
        if self.input.len() < 4 + body || HEADER_BYTES + length > 4 + body {
            return None;
        }
        let params = self.input[HEADER_BYTES..HEADER_BYTES + length].to_vec();
        self.input.drain(..4 + body);
        Some((kind, flags, params))
    }

    fn on_message(&mut self, kind: u8, flags: u8, params: Vec<u8>) {
        match (self.side, self.state) {
            (Side::Server, HandshakeState::Start) if kind == MessageType::ClientHello as u8 => {
                self.peer_params = Some(params);
                self.resumes = flags & RESUMES != 0;
                self.state = HandshakeState::Hello;
            }
            (Side::Client, HandshakeState::Hello) if kind == MessageType::ServerHello as u8 => {
                self.state = HandshakeState::Keys;
            }
            (Side::Client, HandshakeState::Flight) if kind == MessageType::ServerFlight as u8 => {
                self.peer_params = Some(params);
                self.state = HandshakeState::Finish;
            }
            (Side::Server, HandshakeState::Flight) if kind == MessageType::ClientFinished as u8 => {
                self.state = HandshakeState::Finish;
            }
            (Side::Client, HandshakeState::Done) if kind == MessageType::Ticket as u8 => {
                if let (Some((tickets, name)), Some(params)) = (&self.ticket, &self.peer_params) {
                    let mut tickets = tickets.lock().unwrap_or_else(PoisonError::into_inner);
                    tickets.insert(name.clone(), params.clone());
                }
            }
            _ => {}
        }
    }
}

/// A key without encryption. Its tag makes a wrongly decoded packet fail. Overtaking beyond the truncated packet number
/// gives a wrong number (RFC 9000 section 17.1; the nonce, RFC 9001 section 5.3). Discarded old keys give wrong keys,
/// since the key phase bit then selects the next ones (RFC 9001 section 6.5).
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelledKey {
    generation: u64,
}

/// The key before any update.
pub(super) const FIRST_KEY: ModelledKey = ModelledKey { generation: 0 };

impl ModelledKey {
    #[inline]
    fn tag(self, packet: u64) -> [u8; TAG] {
        (u128::from(self.generation) << 64 | u128::from(packet)).to_be_bytes()
    }

    /// Writes the tag of packet number `packet` into the end of `buf`.
    #[inline]
    pub(super) fn seal(self, packet: u64, buf: &mut [u8]) {
        if let Some(tag) = buf.last_chunk_mut::<TAG>() {
            *tag = self.tag(packet);
        }
    }

    /// Checks the tag at the end of `payload`. Returns the length before it.
    #[inline]
    pub(super) fn open(self, packet: u64, payload: &[u8]) -> Option<usize> {
        let length = payload.len().checked_sub(TAG)?;
        (payload.last_chunk::<TAG>() == Some(&self.tag(packet))).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_limit_is_padded() {
        // max_idle_timeout in 4 bytes, then the limit in 1 or 2; without a limit there is no padding.
        let idle = [1, 4, 0x80, 0, 0x75, 0x30];
        assert_eq!(stream_limit_padding(&[&idle[..], &[8, 1, 63]].concat()), 1);
        assert_eq!(stream_limit_padding(&[&idle[..], &[8, 2, 0x40, 64], &idle[..]].concat()), 0);
        assert_eq!(stream_limit_padding(&idle), 0);
        assert_eq!(varint(&mut &[0x9d, 0x7f, 0x3e, 0x7d][..]), Some(494_878_333), "RFC 9000 A.1");
        assert_eq!(varint(&mut &[0x7b][..]), None);
    }
}
