//! Modelled cryptography: TLS 1.3 messages of true size and order (RFC 8446 section 2, RFC 9001 section 4), tags of
//! true length, and no encryption. Times and sizes are those of `real_tls`, at a fraction of its cost; a test compares
//! the two.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

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
}

/// Server side of modelled cryptography.
#[derive(Debug, Default)]
pub(super) struct ModelledServer {
    sizes: MessageSizes,
}

impl crypto::ClientConfig for ModelledClient {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = tickets.get(server_name).cloned();
        let resumes = self.early_data && saved.is_some();
        Ok(Box::new(ModelledSession {
            side: Side::Client,
            sizes: self.sizes,
            params: encode(params),
            peer_params: saved.filter(|_| resumes),
            resumes,
            ticket: Some((self.tickets.clone(), server_name.to_owned())),
            ..ModelledSession::default()
        }))
    }
}

impl crypto::ServerConfig for ModelledServer {
    fn initial_keys(&self, _version: u32, _cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(first_keys())
    }

    fn retry_tag(&self, _version: u32, _cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        Box::new(ModelledSession {
            side: Side::Server,
            sizes: self.sizes,
            params: encode(params),
            ..ModelledSession::default()
        })
    }
}

fn encode(params: &TransportParameters) -> Vec<u8> {
    let mut out = Vec::new();
    params.write(&mut out);
    out
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum HandshakeState {
    /// Client: sends ClientHello. Server: waits for it.
    #[default]
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

#[derive(Debug)]
struct ModelledSession {
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

impl Default for ModelledSession {
    fn default() -> Self {
        ModelledSession {
            side: Side::Client,
            sizes: MessageSizes::default(),
            params: Vec::new(),
            peer_params: None,
            resumes: false,
            ticket: None,
            state: HandshakeState::Start,
            input: Vec::new(),
            announced: false,
            generation: 0,
        }
    }
}

impl ModelledSession {
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

impl Session for ModelledSession {
    fn initial_keys(&self, _cid: &ConnectionId, _side: Side) -> Keys {
        first_keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.announced.then(|| Box::new(()) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.resumes
            .then(|| (Box::new(PlainHeaderKey) as Box<dyn HeaderKey>, Box::new(FIRST_KEY) as _))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        (self.side == Side::Client).then_some(self.resumes)
    }

    fn is_handshaking(&self) -> bool {
        match self.side {
            Side::Client => self.state < HandshakeState::Done,
            Side::Server => self.state < HandshakeState::Finish,
        }
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.input.extend_from_slice(buf);
        while let Some((kind, flags, params)) = self.next_message() {
            self.on_message(kind, flags, params);
        }
        let ready = match self.side {
            Side::Client => self.state >= HandshakeState::Finish,
            Side::Server => self.state >= HandshakeState::Hello,
        };
        Ok(ready && !std::mem::replace(&mut self.announced, ready))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(params) = &self.peer_params else { return Ok(None) };
        Ok(Some(TransportParameters::read(self.side, &mut Cursor::new(params))?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let sizes = self.sizes;
        let flags = if self.resumes { RESUMES } else { 0 };
        match (self.side, self.state) {
            (Side::Client, HandshakeState::Start) => {
                let length = sizes.client_hello + if self.resumes { sizes.resumption } else { 0 };
                let length = length + stream_limit_padding(&self.params);
                write_message(out, MessageType::ClientHello, length, flags, &self.params);
                self.state = HandshakeState::Hello;
                None
            }
            (Side::Client, HandshakeState::Keys) => {
                self.state = HandshakeState::Flight;
                Some(first_keys())
            }
            (Side::Client, HandshakeState::Finish) => {
                write_message(out, MessageType::ClientFinished, sizes.finished, 0, &[]);
                self.state = HandshakeState::Done;
                Some(first_keys())
            }
            (Side::Server, HandshakeState::Hello) => {
                let length =
                    sizes.server_hello + if self.resumes { sizes.server_resumption } else { 0 };
                write_message(out, MessageType::ServerHello, length, 0, &[]);
                self.state = HandshakeState::Keys;
                Some(first_keys())
            }
            (Side::Server, HandshakeState::Keys) => {
                let proof = if self.resumes { sizes.accept_early_data } else { sizes.certificate };
                let length = sizes.encrypted_extensions + proof + sizes.finished;
                let length = length + stream_limit_padding(&self.params);
                write_message(out, MessageType::ServerFlight, length, 0, &self.params);
                self.state = HandshakeState::Flight;
                Some(first_keys())
            }
            (Side::Server, HandshakeState::Finish) => {
                for _ in 0..sizes.tickets {
                    write_message(out, MessageType::Ticket, sizes.ticket, 0, &[]);
                }
                self.state = HandshakeState::Done;
                None
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.generation += 1;
        Some(key_pair(ModelledKey { generation: self.generation }))
    }

    fn is_valid_retry(&self, _cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn first_keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(PlainHeaderKey), remote: Box::new(PlainHeaderKey) },
        packet: key_pair(FIRST_KEY),
    }
}

fn key_pair(key: ModelledKey) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(key), remote: Box::new(key) }
}

/// A key without encryption. Its tag makes a wrongly decoded packet fail. Overtaking beyond the truncated packet number
/// gives a wrong number (RFC 9000 section 17.1; the nonce, RFC 9001 section 5.3). Discarded old keys give wrong keys,
/// since the key phase bit then selects the next ones (RFC 9001 section 6.5).
#[derive(Clone, Copy, Debug)]
struct ModelledKey {
    generation: u64,
}

/// The key before any update.
const FIRST_KEY: ModelledKey = ModelledKey { generation: 0 };

impl ModelledKey {
    #[inline]
    fn tag(self, packet: u64) -> [u8; TAG] {
        (u128::from(self.generation) << 64 | u128::from(packet)).to_be_bytes()
    }
}

impl PacketKey for ModelledKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], _header_len: usize) {
        if let Some(tag) = buf.last_chunk_mut::<TAG>() {
            *tag = self.tag(packet);
        }
    }

    fn decrypt(
        &self,
        packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        if payload.last_chunk::<TAG>() != Some(&self.tag(packet)) {
            return Err(CryptoError);
        }
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

/// A header that is not protected.
#[derive(Debug)]
struct PlainHeaderKey;

impl HeaderKey for PlainHeaderKey {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::quinn::real_tls;
    use quinn_proto::crypto::{ClientConfig, ServerConfig};

    /// Returns the lengths of the writes of each side, in turn, until both have finished.
    fn flights(client: Arc<dyn ClientConfig>, server: Arc<dyn ServerConfig>) -> Vec<usize> {
        let params = TransportParameters::read(Side::Client, &mut Cursor::new(b"")).unwrap();
        let mut client = client.start_session(1, "server.example", &params).unwrap();
        let mut server = server.start_session(1, &params);
        let mut lengths = Vec::new();
        for _ in 0..8 {
            for turn in [true, false] {
                let (from, to) =
                    if turn { (&mut client, &mut server) } else { (&mut server, &mut client) };
                loop {
                    let mut out = Vec::new();
                    let keys = from.write_handshake(&mut out);
                    if !out.is_empty() {
                        lengths.push(out.len());
                        to.read_handshake(&out).unwrap();
                        break;
                    }
                    if keys.is_none() {
                        break;
                    }
                }
            }
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        lengths
    }

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

    #[test]
    fn messages_have_the_lengths_of_rustls() {
        let client: [Arc<dyn ClientConfig>; 2] =
            [Arc::new(ModelledClient::new(true)), Arc::new(real_tls::client(true).unwrap())];
        let server: [Arc<dyn ServerConfig>; 2] =
            [Arc::new(ModelledServer::default()), Arc::new(real_tls::server().unwrap())];
        for handshake in ["full", "resumed"] {
            let modelled = flights(client[0].clone(), server[0].clone());
            let real = flights(client[1].clone(), server[1].clone());
            assert_eq!(modelled, real, "{handshake}");
        }
    }
}
