//! TLS 1.3 of real endpoints: the certificate of a server and its verification by a client.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error, InconsistentKeys, KeyLogFile, ServerConfig};

/// ALPN of draft-banks-quic-performance.
pub const PERF_ALPN: &str = "perf";

/// ALPN of pico-perf, which uses the same stream format.
pub const PICO_PERF_ALPN: &str = "pico-perf";

/// SHA-256 of a certificate or of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of DER bytes.
    pub fn from_der(der: &[u8]) -> Fingerprint {
        let digest = ::ring::digest::digest(&::ring::digest::SHA256, der);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Fingerprint(bytes)
    }

    /// Parses 64 hexadecimal digits, with or without colons.
    ///
    /// # Errors
    /// The expected format.
    pub fn parse(text: &str) -> Result<Fingerprint, String> {
        let digits: String = text.chars().filter(|digit| *digit != ':').collect();
        let wrong = || {
            format!(
                "fingerprint: found \"{text}\", expected the 64 hexadecimal digits that the server prints"
            )
        };
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte =
                u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Fingerprint(bytes))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Builds the TLS configuration of a server. Returns it with the fingerprint of its certificate.
///
/// # Arguments
/// `files`: certificate chain and key in PEM; `None`: a self-signed certificate for this run.
///
/// # Errors
/// The unreadable file, or the defect of the certificate.
pub fn server_config(files: Option<(&Path, &Path)>) -> Result<(ServerConfig, Fingerprint), String> {
    server_config_with_verifier(files, WebPkiClientVerifier::no_client_auth())
}

/// Builds the same configuration with a verifier of client certificates.
pub(crate) fn server_config_with_verifier(
    files: Option<(&Path, &Path)>,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<(ServerConfig, Fingerprint), String> {
    let (chain, key) = match files {
        Some((certificate, key)) => read_identity(certificate, key)?,
        None => generate_identity()?,
    };
    let first = chain.first().ok_or("certificate: no certificate in the file")?;
    let fingerprint = Fingerprint::from_der(first);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| format!("certificate: {error}"))?;
    config.alpn_protocols = vec![PERF_ALPN.into(), PICO_PERF_ALPN.into()];
    config.key_log = Arc::new(KeyLogFile::new());
    Ok((config, fingerprint))
}

/// A certificate chain, and the private key of its first certificate.
pub type CertificateAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads a certificate chain and its key from PEM files.
///
/// # Errors
/// The unreadable file, or its defect.
pub fn read_identity(certificate: &Path, key: &Path) -> Result<CertificateAndKey, String> {
    let of_chain = |error: &dyn Display| format!("certificate: {}: {error}", certificate.display());
    let of_key = |error: &dyn Display| format!("key: {}: {error}", key.display());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| of_chain(&error))?;
    if chain.is_empty() {
        return Err(of_chain(&"contains no PEM certificate"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        pem::Error::NoItemsFound => of_key(&"contains no PEM private key"),
        error => of_key(&error),
    })?;
    match CertifiedKey::from_der(chain.clone(), secret.clone_key(), &provider()) {
        Ok(_) => Ok((chain, secret)),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(of_key(&format_args!("is not the key of {}", certificate.display())))
        }
        Err(error) => Err(of_chain(&error)),
    }
}

fn generate_identity() -> Result<CertificateAndKey, String> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .map_err(|error| format!("cannot create a certificate: {error}"))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

/// Verification of a server certificate by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerVerification {
    /// Accepts every certificate: the identity of the server is unknown.
    AcceptAny,
    /// Accepts this certificate alone.
    Pinned(Fingerprint),
}

/// Returns whether an address is of this machine or of a private network. There a client accepts unverified
/// certificates by default (RFC 1918, RFC 3927, RFC 4193, RFC 4291).
pub fn is_private_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// The certificate that a server presented to a client.
#[derive(Clone, Debug, Default)]
pub struct PresentedCertificate(Arc<Mutex<Option<Fingerprint>>>);

impl PresentedCertificate {
    /// Returns the fingerprint, `None` before the certificate arrives.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the TLS configuration of a client with the ALPN `alpn`.
///
/// # Errors
/// The error text of the library.
pub fn client_config(
    alpn: &str,
    trust: ServerVerification,
) -> Result<(ClientConfig, PresentedCertificate), String> {
    let provider = provider();
    let shown = PresentedCertificate::default();
    let verifier =
        PinVerifier { provider: provider.clone(), verification: trust, presented: shown.clone() };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.into()];
    config.key_log = Arc::new(KeyLogFile::new());
    Ok((config, shown))
}

/// Returns the library's algorithms with AES-128 first: the mandatory suite of TLS 1.3 (RFC 8446 section 9.1), and the
/// fastest one here.
pub fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    let wanted = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != wanted);
    Arc::new(provider)
}

/// Signature checks of a verifier with a field `provider`, equal for the traits of both sides.
macro_rules! checks_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &rustls::pki_types::CertificateDer<'_>,
            _signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("only TLS 1.3 is supported".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}
pub(crate) use checks_signatures;

#[derive(Debug)]
struct PinVerifier {
    provider: Arc<CryptoProvider>,
    verification: ServerVerification,
    presented: PresentedCertificate,
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = Fingerprint::from_der(certificate);
        *self.presented.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        match self.verification {
            ServerVerification::Pinned(wanted) if wanted != found => Err(
                Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure),
            ),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    checks_signatures!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_parsed_from_its_text() {
        let (_, fingerprint) = server_config(None).unwrap();
        let text = fingerprint.to_string();
        assert_eq!(Fingerprint::parse(&text), Ok(fingerprint));
        let pairs: Vec<&str> = (0..32).map(|index| &text[2 * index..2 * index + 2]).collect();
        assert_eq!(Fingerprint::parse(&pairs.join(":").to_uppercase()), Ok(fingerprint));
        assert!(Fingerprint::parse(&text[1..]).unwrap_err().contains("64 hexadecimal digits"));
        assert!(Fingerprint::parse(&text.replace(&text[..1], "x")).is_err());
    }

    #[test]
    fn private_and_public_addresses_are_distinguished() {
        for private in
            ["127.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fd00::1", "::ffff:127.0.0.1"]
        {
            assert!(is_private_address(private.parse().unwrap()), "{private}");
        }
        for public in ["192.0.2.1", "8.8.8.8", "2001:db8::1", "172.32.0.1"] {
            assert!(!is_private_address(public.parse().unwrap()), "{public}");
        }
    }
}
