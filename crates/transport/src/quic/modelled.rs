//! Modelled cryptography: TLS 1.3 messages of true size and order (RFC 8446 section 2, RFC 9001
//! section 4), authentication tags of true length, and nothing encrypted. Times and sizes are those
//! of the TLS stack in `tls`, at a fraction of its cost; a test compares the two.

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
/// Measured from rustls 0.23 with ring, X25519 and the Ed25519 certificate of `tls`; transport
/// parameters are added at their true length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
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
    /// How many tickets follow the handshake.
    tickets: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
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

/// Bytes of a tag: the keys' generation, and in the last eight the packet's number.
pub(crate) const TAG: usize = 16;

/// What a message is; the first byte of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Message {
    ClientHello = 1,
    ServerHello = 2,
    ServerFlight = 8,
    ClientFinished = 20,
    Ticket = 4,
}

/// Type (1 byte), length of the body (3), length of the transport parameters (2), flags (1).
const HEAD: usize = 7;
const RESUMES: u8 = 1;

fn write_message(out: &mut Vec<u8>, message: Message, length: usize, flags: u8, params: &[u8]) {
    let body = (length + params.len()).max(HEAD + params.len()) - 4;
    out.push(message as u8);
    out.extend_from_slice(&(body as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&(params.len() as u16).to_be_bytes());
    out.push(flags);
    out.extend_from_slice(params);
    out.resize(out.len() + body - (HEAD - 4) - params.len(), 0);
}

/// Sessions saved by a client, by the server's name: the server's transport parameters.
type Tickets = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Client side of modelled cryptography; remembers the last session with each server that gave it a
/// ticket.
#[derive(Debug, Default)]
pub(super) struct ModelledClient {
    sizes: Sizes,
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
    sizes: Sizes,
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
        Ok(keys())
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
const BIDI_STREAMS: u64 = 8;

/// Bytes that `params` are shorter than with the default limit of streams, which is written in two.
fn spared(params: &[u8]) -> usize {
    let mut rest = params;
    while let (Some(id), Some(length)) = (varint(&mut rest), varint(&mut rest)) {
        if id == BIDI_STREAMS {
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

/// Where the handshake stands; each side goes through its own in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Client: to send ClientHello. Server: waits for it.
    #[default]
    Start,
    /// Client: waits for ServerHello. Server: to send ServerHello.
    Hello,
    /// Client: ServerHello read, keys to install. Server: to send its flight.
    Keys,
    /// Client: waits for the server's flight. Server: waits for the client's Finished.
    Flight,
    /// Client: to send Finished. Server: to send tickets.
    Finish,
    /// Done.
    Done,
}

#[derive(Debug)]
struct ModelledSession {
    side: Side,
    sizes: Sizes,
    params: Vec<u8>,
    peer_params: Option<Vec<u8>>,
    resumes: bool,
    /// Where a client saves its session, and under which name.
    ticket: Option<(Tickets, String)>,
    stage: Stage,
    input: Vec<u8>,
    announced: bool,
    /// Of the newest keys; those that end the handshake are the first.
    generation: u64,
}

impl Default for ModelledSession {
    fn default() -> Self {
        ModelledSession {
            side: Side::Client,
            sizes: Sizes::default(),
            params: Vec::new(),
            peer_params: None,
            resumes: false,
            ticket: None,
            stage: Stage::Start,
            input: Vec::new(),
            announced: false,
            generation: 0,
        }
    }
}

impl ModelledSession {
    /// Takes one whole message off the input.
    fn next_message(&mut self) -> Option<(u8, u8, Vec<u8>)> {
        let head = self.input.get(..HEAD)?;
        let body = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        let (kind, flags) = (head[0], head[6]);
        let length = u16::from_be_bytes([head[4], head[5]]) as usize;
        if self.input.len() < 4 + body || HEAD + length > 4 + body {
            return None;
        }
        let params = self.input[HEAD..HEAD + length].to_vec();
        self.input.drain(..4 + body);
        Some((kind, flags, params))
    }

    fn on_message(&mut self, kind: u8, flags: u8, params: Vec<u8>) {
        match (self.side, self.stage) {
            (Side::Server, Stage::Start) if kind == Message::ClientHello as u8 => {
                self.peer_params = Some(params);
                self.resumes = flags & RESUMES != 0;
                self.stage = Stage::Hello;
            }
            (Side::Client, Stage::Hello) if kind == Message::ServerHello as u8 => {
                self.stage = Stage::Keys;
            }
            (Side::Client, Stage::Flight) if kind == Message::ServerFlight as u8 => {
                self.peer_params = Some(params);
                self.stage = Stage::Finish;
            }
            (Side::Server, Stage::Flight) if kind == Message::ClientFinished as u8 => {
                self.stage = Stage::Finish;
            }
            (Side::Client, Stage::Done) if kind == Message::Ticket as u8 => {
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
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.announced.then(|| Box::new(()) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.resumes.then(|| (Box::new(Plain) as Box<dyn HeaderKey>, Box::new(FIRST) as _))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        (self.side == Side::Client).then_some(self.resumes)
    }

    fn is_handshaking(&self) -> bool {
        match self.side {
            Side::Client => self.stage < Stage::Done,
            Side::Server => self.stage < Stage::Finish,
        }
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.input.extend_from_slice(buf);
        while let Some((kind, flags, params)) = self.next_message() {
            self.on_message(kind, flags, params);
        }
        let ready = match self.side {
            Side::Client => self.stage >= Stage::Finish,
            Side::Server => self.stage >= Stage::Hello,
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
        match (self.side, self.stage) {
            (Side::Client, Stage::Start) => {
                let length = sizes.client_hello + if self.resumes { sizes.resumption } else { 0 };
                let length = length + spared(&self.params);
                write_message(out, Message::ClientHello, length, flags, &self.params);
                self.stage = Stage::Hello;
                None
            }
            (Side::Client, Stage::Keys) => {
                self.stage = Stage::Flight;
                Some(keys())
            }
            (Side::Client, Stage::Finish) => {
                write_message(out, Message::ClientFinished, sizes.finished, 0, &[]);
                self.stage = Stage::Done;
                Some(keys())
            }
            (Side::Server, Stage::Hello) => {
                let length =
                    sizes.server_hello + if self.resumes { sizes.server_resumption } else { 0 };
                write_message(out, Message::ServerHello, length, 0, &[]);
                self.stage = Stage::Keys;
                Some(keys())
            }
            (Side::Server, Stage::Keys) => {
                let proof = if self.resumes { sizes.accept_early_data } else { sizes.certificate };
                let length = sizes.encrypted_extensions + proof + sizes.finished;
                let length = length + spared(&self.params);
                write_message(out, Message::ServerFlight, length, 0, &self.params);
                self.stage = Stage::Flight;
                Some(keys())
            }
            (Side::Server, Stage::Finish) => {
                for _ in 0..sizes.tickets {
                    write_message(out, Message::Ticket, sizes.ticket, 0, &[]);
                }
                self.stage = Stage::Done;
                None
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.generation += 1;
        Some(pair(Key { generation: self.generation }))
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

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(Plain), remote: Box::new(Plain) },
        packet: pair(FIRST),
    }
}

fn pair(key: Key) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(key), remote: Box::new(key) }
}

/// A key that encrypts nothing. Its tag holds what a packet fails by that is read wrongly: its number, as it was overtaken
/// by more than its short form can tell apart (RFC 9000 section 17.1; the number is the nonce, RFC 9001 section 5.3), or its
/// keys, as those it has were discarded and its one bit of them is taken for that of the next (RFC 9001 section 6.5).
#[derive(Clone, Copy, Debug)]
struct Key {
    generation: u64,
}

/// Before any update.
const FIRST: Key = Key { generation: 0 };

impl Key {
    #[inline]
    fn tag(self, packet: u64) -> [u8; TAG] {
        (u128::from(self.generation) << 64 | u128::from(packet)).to_be_bytes()
    }
}

impl PacketKey for Key {
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
struct Plain;

impl HeaderKey for Plain {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::tls;
    use quinn_proto::crypto::{ClientConfig, ServerConfig};

    /// Lengths of what each side writes, in turn, until both are silent.
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
    fn a_short_limit_of_streams_is_made_up_for() {
        // max_idle_timeout in 4 bytes, then the limit in 1 or 2; none is left as it is.
        let idle = [1, 4, 0x80, 0, 0x75, 0x30];
        assert_eq!(spared(&[&idle[..], &[8, 1, 63]].concat()), 1);
        assert_eq!(spared(&[&idle[..], &[8, 2, 0x40, 64], &idle[..]].concat()), 0);
        assert_eq!(spared(&idle), 0);
        assert_eq!(varint(&mut &[0x9d, 0x7f, 0x3e, 0x7d][..]), Some(494_878_333), "RFC 9000 A.1");
        assert_eq!(varint(&mut &[0x7b][..]), None);
    }

    #[test]
    fn messages_have_the_lengths_of_rustls() {
        let client: [Arc<dyn ClientConfig>; 2] =
            [Arc::new(ModelledClient::new(true)), Arc::new(tls::client(true).unwrap())];
        let server: [Arc<dyn ServerConfig>; 2] =
            [Arc::new(ModelledServer::default()), Arc::new(tls::server().unwrap())];
        for handshake in ["full", "resumed"] {
            let modelled = flights(client[0].clone(), server[0].clone());
            let real = flights(client[1].clone(), server[1].clone());
            assert_eq!(modelled, real, "{handshake}");
        }
    }
}
