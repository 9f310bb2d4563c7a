//! Real cryptography: TLS 1.3 by rustls with ring, with a certificate for simulation only. It uses Ed25519: signatures
//! have one length, so sizes repeat.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

/// A self-signed certificate for `server.example`. Its key protects no data.
const CERTIFICATE: &[u8] = include_bytes!("simulated.crt.der");
const KEY: &[u8] = include_bytes!("simulated.key.der");

/// ALPN of the perf protocol (draft-banks-quic-performance).
const ALPN: &[u8] = b"perf";

/// A constant wall clock: tickets and certificates must not depend on today's date.
#[derive(Debug)]
struct FixedClock;

impl TimeProvider for FixedClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000)))
    }
}

/// Accepts only this certificate, and checks the signature of the handshake.
#[derive(Debug)]
struct PinnedCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if certificate.as_ref() == CERTIFICATE {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::General("not the simulated server's certificate".into()))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC needs TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

pub(super) fn client(early_data: bool) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_details(provider.clone(), Arc::new(FixedClock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_early_data = early_data;
    Ok(config)
}

pub(super) fn server() -> Result<ServerConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(FixedClock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_slice(CERTIFICATE)],
            PrivatePkcs8KeyDer::from(KEY).into(),
        )
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.max_early_data_size = u32::MAX;
    Ok(config)
}
