//! The stack's cryptography traits for modelled TLS.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

use crate::quic::modelled_tls::{
    FIRST_KEY, ModelledClient, ModelledKey, ModelledServer, ModelledSession, TAG,
};

impl crypto::ClientConfig for ModelledClient {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(self.session(server_name, encode(params))))
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
        Box::new(self.session(encode(params)))
    }
}

fn encode(params: &TransportParameters) -> Vec<u8> {
    let mut out = Vec::new();
    params.write(&mut out);
    out
}

impl Session for ModelledSession {
    fn initial_keys(&self, _cid: &ConnectionId, _side: Side) -> Keys {
        first_keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.is_announced().then(|| Box::new(()) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.resumes()
            .then(|| (Box::new(PlainHeaderKey) as Box<dyn HeaderKey>, Box::new(FIRST_KEY) as _))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        (self.side() == crate::Side::Client).then_some(self.resumes())
    }

    fn is_handshaking(&self) -> bool {
        ModelledSession::is_handshaking(self)
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        Ok(self.read(buf))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let side = match self.side() {
            crate::Side::Client => Side::Client,
            crate::Side::Server => Side::Server,
        };
        let Some(params) = self.peer_params() else { return Ok(None) };
        Ok(Some(TransportParameters::read(side, &mut Cursor::new(params))?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        self.write(out).then(first_keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(key_pair(self.next_key()))
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

impl PacketKey for ModelledKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], _header_len: usize) {
        self.seal(packet, buf);
    }

    fn decrypt(
        &self,
        packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let length = self.open(packet, payload).ok_or(CryptoError)?;
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
    use crate::quic::real_tls;
    use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
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
    fn messages_have_the_lengths_of_rustls() {
        let real = QuicClientConfig::try_from(real_tls::client(true).unwrap()).unwrap();
        let client: [Arc<dyn ClientConfig>; 2] =
            [Arc::new(ModelledClient::new(true)), Arc::new(real)];
        let real = QuicServerConfig::try_from(real_tls::server().unwrap()).unwrap();
        let server: [Arc<dyn ServerConfig>; 2] =
            [Arc::new(ModelledServer::default()), Arc::new(real)];
        for handshake in ["full", "resumed"] {
            let modelled = flights(client[0].clone(), server[0].clone());
            let real = flights(client[1].clone(), server[1].clone());
            assert_eq!(modelled, real, "{handshake}");
        }
    }
}
