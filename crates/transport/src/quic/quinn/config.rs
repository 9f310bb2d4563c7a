//! Translates [`QuicSpec`] into the stack's configuration, with seeds for every source of randomness.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn_proto::crypto::{AeadKey, CryptoError, HandshakeTokenKey, HmacKey};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig,
    IdleTimeout, ServerConfig, TimeSource, TransportConfig, ValidationTokenConfig, VarInt,
};
use units::RandomStream;

use super::shim_controller::ShimController;
use crate::quic::clock::Clock;
use crate::quic::modelled_tls::{ModelledClient, ModelledServer};
use crate::quic::stack::{CID_LENGTH, ConnectionConfig};
use crate::quic::{Crypto, Handshake, NetworkConfig, QuicSpec, TlsConfig, real_tls};

/// Returns the limit of open bidirectional streams if one stream is needed. With rustls the fewest of equal encoded
/// length (RFC 9000 section 16), for equal packet sizes. Modelled TLS pads the packets and uses the fewest without
/// MAX_STREAMS after one stream: the stack sends it once more than an eighth have ended.
pub(super) fn few_bidi_streams(crypto: Crypto) -> u32 {
    match crypto {
        Crypto::Modelled => 8,
        Crypto::Rustls => 64,
    }
}

/// Connection ids from a named random stream.
struct SeededCids(RandomStream);

impl ConnectionIdGenerator for SeededCids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CID_LENGTH];
        self.0.fill(&mut bytes);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        CID_LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Bytes of the token at the end of a stateless reset.
const RESET_TOKEN_BYTES: usize = 16;

/// Keys without protection. Stateless resets and tokens of a simulated peer need not be secret, only repeatable.
struct InsecureKey;

impl HmacKey for InsecureKey {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        let mut random = RandomStream::named(0, "reset", &format!("{data:02x?}"));
        random.fill(out);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = vec![0; self.signature_len()];
        self.sign(data, &mut expected);
        if signature == expected { Ok(()) } else { Err(CryptoError) }
    }
}

/// Returns whether `datagram` is a stateless reset (RFC 9000 section 10.3) of a simulated peer with this connection id.
pub(super) fn is_stateless_reset(connection_id: &[u8], datagram: &[u8]) -> bool {
    let mut signature = [0; 32];
    InsecureKey.sign(connection_id, &mut signature);
    datagram.len() >= 5 + RESET_TOKEN_BYTES && datagram.ends_with(&signature[..RESET_TOKEN_BYTES])
}

impl HandshakeTokenKey for InsecureKey {
    fn aead_from_hkdf(&self, _random: &[u8]) -> Box<dyn AeadKey> {
        Box::new(InsecureKey)
    }
}

impl AeadKey for InsecureKey {
    fn seal(&self, data: &mut Vec<u8>, _additional: &[u8]) -> Result<(), CryptoError> {
        data.extend_from_slice(&[0; 16]);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let length = data.len().checked_sub(16).ok_or(CryptoError)?;
        Ok(&mut data[..length])
    }
}

/// A constant wall clock (address-validation tokens carry a date).
struct FixedClock;

impl TimeSource for FixedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }
}

/// Largest UDP payload of a full packet: the stack encodes the length of a handshake packet in 14 bits.
const MAX_MTU_BYTES: u16 = 16_383;

pub(super) fn endpoint(spec: &QuicSpec, seed: u64, name: &str) -> Result<EndpointConfig, String> {
    if spec.mtu_bytes > MAX_MTU_BYTES {
        return Err(format!(
            "mtu: found {} bytes, expected at most {MAX_MTU_BYTES}",
            spec.mtu_bytes
        ));
    }
    let mut config = EndpointConfig::new(Arc::new(InsecureKey));
    let mut rng_seed = [0; 32];
    RandomStream::named(seed, name, "quic").fill(&mut rng_seed);
    let cids = RandomStream::named(seed, name, "connection ids");
    config
        .rng_seed(Some(rng_seed))
        .cid_generator(move || Box::new(SeededCids(cids.clone())))
        .max_udp_payload_size(spec.mtu_bytes)
        .map_err(|_| {
            format!(
                "mtu: found {} bytes, expected at least 1200 (RFC 9000 section 14)",
                spec.mtu_bytes
            )
        })?;
    Ok(config)
}

/// Largest UDP payload accepted on a real network, where the peer chooses its size: the maximum of UDP (RFC 9000
/// section 18.2).
const MAX_UDP_PAYLOAD: u16 = 65_527;

/// Smallest UDP payload that every path carries (RFC 9000 section 14).
const MIN_MTU_BYTES: u16 = 1200;

/// Builds an endpoint on a real network: the stack draws random keys and connection ids.
pub(super) fn network_endpoint() -> Result<EndpointConfig, String> {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(MAX_UDP_PAYLOAD).map_err(|error| error.to_string())?;
    Ok(config)
}

fn no_cipher(error: NoInitialCipherSuite) -> String {
    error.to_string()
}

/// Builds the client and server configurations on a real network, as far as both exist.
pub(super) fn network_sides(
    network: &NetworkConfig,
) -> Result<(Option<ClientConfig>, Option<ServerConfig>), String> {
    let (client, server) = match &network.tls {
        TlsConfig::Client(client) => (Some(client), None),
        TlsConfig::Server(server) => (None, Some(server)),
        TlsConfig::ClientAndServer(client, server) => (Some(client), Some(server)),
    };
    let client = client.map(|tls| {
        let tls = QuicClientConfig::try_from(tls.clone()).map_err(no_cipher)?;
        Ok::<_, String>(ClientConfig::new(Arc::new(tls)))
    });
    let server = server.map(|tls| {
        let tls = QuicServerConfig::try_from(tls.clone()).map_err(no_cipher)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        // A change of the path would invalidate the measurement.
        config.migration(false);
        Ok::<_, String>(config)
    });
    Ok((client.transpose()?, server.transpose()?))
}

/// Minimum buffer for received datagrams, bytes: one of the largest size, since the stack would end the connection
/// otherwise. The handshake then has the stack's default.
const MIN_DATAGRAM_BUFFER: u32 = u16::MAX as u32;

/// Builds the transport parameters and limits.
pub(super) fn transport(
    connection: ConnectionConfig<'_>,
    clock: Clock,
) -> Result<TransportConfig, String> {
    let ConnectionConfig { spec, max_bidi_streams, requirements, shim, has_network } = connection;
    let limit = |name: &str, value: u64| {
        VarInt::from_u64(value)
            .map_err(|_| format!("{name}: found {value} bytes, expected at most 2^62 - 1"))
    };
    let idle = match spec.idle_timeout_ns {
        None => None,
        Some(nanos) => Some(
            IdleTimeout::try_from(Duration::from_nanos(nanos))
                .map_err(|_| format!("idle timeout: found {nanos} ns, which is too long"))?,
        ),
    };
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(max_bidi_streams))
        .max_concurrent_uni_streams(VarInt::from_u32(requirements.max_uni_streams.into()))
        .datagram_receive_buffer_size(Some(
            requirements.datagram_buffer_bytes.unwrap_or(0).max(MIN_DATAGRAM_BUFFER) as usize,
        ))
        .max_idle_timeout(idle)
        .stream_receive_window(limit("stream receive window", spec.stream_receive_window_bytes)?)
        .receive_window(limit("receive window", spec.receive_window_bytes)?)
        .send_window(spec.send_window_bytes)
        .packet_threshold(spec.packet_threshold)
        .initial_rtt(Duration::from_nanos(spec.initial_rtt_ns))
        .initial_mtu(spec.mtu_bytes)
        .min_mtu(spec.mtu_bytes)
        .mtu_discovery_config(None)
        .allow_spin(false)
        .congestion_controller_factory(Arc::new(ShimController::new(
            shim,
            clock,
            spec.initial_window_bytes,
        )));
    if let Some(permille) = spec.time_threshold_permille {
        if permille <= 1000 {
            return Err(format!(
                "time threshold: found {permille} thousandths of a round trip, expected more than 1000"
            ));
        }
        config.time_threshold(permille as f32 / 1000.0);
    }
    if spec.ack_eliciting_threshold.is_some() || spec.max_ack_delay_ns.is_some() {
        let mut frequency = AckFrequencyConfig::default();
        if let Some(threshold) = spec.ack_eliciting_threshold {
            frequency.ack_eliciting_threshold(VarInt::from_u32(threshold));
        }
        frequency.max_ack_delay(spec.max_ack_delay_ns.map(Duration::from_nanos));
        config.ack_frequency_config(Some(frequency));
    }
    if has_network {
        // On a path that drops large packets the stack falls back to this size.
        config.min_mtu(MIN_MTU_BYTES);
        if requirements.datagram_buffer_bytes.is_none() {
            config.datagram_receive_buffer_size(None);
        }
    }
    Ok(config)
}

pub(super) fn server(spec: &QuicSpec) -> Result<ServerConfig, String> {
    let crypto: Arc<dyn quinn_proto::crypto::ServerConfig> = match spec.crypto {
        Crypto::Modelled => Arc::new(ModelledServer::default()),
        Crypto::Rustls => {
            Arc::new(QuicServerConfig::try_from(real_tls::server()?).map_err(no_cipher)?)
        }
    };
    let mut config = ServerConfig::new(crypto, Arc::new(InsecureKey));
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(0);
    config.time_source(Arc::new(FixedClock)).migration(false).validation_token_config(tokens);
    Ok(config)
}

pub(super) fn client(spec: &QuicSpec, seed: u64, name: &str) -> Result<ClientConfig, String> {
    let early_data = spec.handshake == Handshake::ZeroRtt;
    let crypto: Arc<dyn quinn_proto::crypto::ClientConfig> = match spec.crypto {
        Crypto::Modelled => Arc::new(ModelledClient::new(early_data)),
        Crypto::Rustls => {
            Arc::new(QuicClientConfig::try_from(real_tls::client(early_data)?).map_err(no_cipher)?)
        }
    };
    let mut config = ClientConfig::new(crypto);
    let random = std::sync::Mutex::new(RandomStream::named(seed, name, "initial connection id"));
    config.initial_dst_cid_provider(Arc::new(move || {
        let mut bytes = [0; CID_LENGTH];
        random.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fill(&mut bytes);
        ConnectionId::new(&bytes)
    }));
    Ok(config)
}
