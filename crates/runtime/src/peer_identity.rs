//! The expected identity of a neighbour and its proof. The proof is a certificate of an authority with the node id (RFC
//! 9174 section 4.4), or a known key.

use std::path::Path;
use std::sync::Arc;

use bundle::wire::is_same_node;
use rustls::client::Resumption;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DistinguishedName, Error, OtherError, ServerConfig};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{Ia5String, ObjectIdentifier};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::tls::{self, Fingerprint, ServerVerification};

/// id-kp-bundleSecurity (RFC 9174 section 8.11).
pub static BUNDLE_SECURITY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.35");

/// id-on-bundleEID (RFC 9174 section 8.11).
pub static BUNDLE_EID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.8.11");

/// The maximum of a certificate's node ids in a message.
const MAX_LISTED_NODE_IDS: usize = 4;

/// The proof of a neighbour's identity.
#[derive(Clone, Debug)]
enum IdentityProof {
    /// A certificate of one of these authorities that contains the node id.
    Authority(Vec<TrustAnchor<'static>>),
    /// The key with this SHA-256, independent of its certificate.
    Pin(Fingerprint),
}

/// The expected identity of a neighbour.
#[derive(Clone, Debug)]
pub struct ExpectedPeer {
    node: String,
    proof: IdentityProof,
}

impl ExpectedPeer {
    /// Expects node id `node`, proved by a certificate of an authority in `file`.
    ///
    /// # Errors
    /// The defect of the file.
    pub fn by_authority(node: &str, file: &Path) -> Result<ExpectedPeer, String> {
        let wrong = |what: &dyn std::fmt::Display| format!("authority: {}: {what}", file.display());
        let found: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|error| wrong(&error))?;
        if found.is_empty() {
            return Err(wrong(&"contains no PEM certificate"));
        }
        let anchors =
            found.iter().map(|one| anchor_from_trusted_cert(one).map(|one| one.to_owned()));
        let anchors = anchors.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
        Ok(ExpectedPeer { node: node.to_owned(), proof: IdentityProof::Authority(anchors) })
    }

    /// Expects node id `node`, proved by a key with the SHA-256 `pin` in hexadecimal digits.
    ///
    /// # Errors
    /// The expected format.
    pub fn by_pin(node: &str, pin: &str) -> Result<ExpectedPeer, String> {
        let pin = Fingerprint::parse(pin).map_err(|_| {
            format!("pin: found \"{pin}\", expected the 64 hexadecimal digits of a key's SHA-256")
        })?;
        Ok(ExpectedPeer { node: node.to_owned(), proof: IdentityProof::Pin(pin) })
    }

    /// Verifies that the neighbour has the pinned key, or that an authority has signed its certificate.
    fn verify_proof(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        match &self.proof {
            IdentityProof::Pin(pin) => {
                let found = public_key_pin(certificate).map_err(handshake_refusal)?;
                if found == *pin {
                    return Ok(());
                }
                let node = &self.node;
                Err(handshake_refusal(format!(
                    "found the key {found}, expected {pin}, the key of {node}"
                )))
            }
            IdentityProof::Authority(anchors) => {
                verify_signed_by(anchors, certificate, intermediates, now)
                    .map_err(|error| Error::InvalidCertificate(to_certificate_error(error)))
            }
        }
    }

    /// Verifies that the certificate contains the node id of the neighbour.
    ///
    /// # Errors
    /// The node ids of the certificate.
    pub fn verify_node_id(&self, certificate: &CertificateDer<'_>) -> Result<(), String> {
        if let IdentityProof::Pin(_) = self.proof {
            return Ok(());
        }
        let names = node_ids(certificate)?;
        if names.iter().any(|name| is_same_node(name, &self.node)) {
            return Ok(());
        }
        let shown = match names.len() {
            0 => "names no node".to_owned(),
            _ => format!("names {}", names[..names.len().min(MAX_LISTED_NODE_IDS)].join(", ")),
        };
        Err(format!("the peer's certificate {shown}, expected {}", self.node))
    }
}

/// Verifies that one of the authorities has signed the certificate of a bundle node, and that it is valid `now`.
///
/// # Errors
/// The first failed check.
pub fn verify_signed_by(
    anchors: &[TrustAnchor<'_>],
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), webpki::Error> {
    let algorithms = tls::provider().signature_verification_algorithms.all;
    let usage = KeyUsage::required_if_present(BUNDLE_SECURITY.as_bytes());
    EndEntityCert::try_from(certificate)?
        .verify_for_usage(algorithms, anchors, intermediates, now, usage, None, None)
        .map(|_| ())
}

/// Converts a refusal text to an error with the alert handshake_failure.
fn handshake_refusal(why: String) -> Error {
    Error::Other(OtherError(Arc::new(std::io::Error::other(why))))
}

/// Maps an error to the certificate error that has a TLS alert.
fn to_certificate_error(error: webpki::Error) -> CertificateError {
    use webpki::Error as E;
    match error {
        E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
        E::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        E::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        // Two authorities can have the same name: then another one made the signature.
        E::UnknownIssuer | E::InvalidSignatureForPublicKey => CertificateError::UnknownIssuer,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    }
}

fn malformed(error: &dyn std::fmt::Display) -> String {
    format!("the certificate is malformed: {error}")
}

/// Returns the SHA-256 of the SubjectPublicKeyInfo of a certificate in DER.
///
/// # Errors
/// The certificate is malformed.
pub fn public_key_pin(certificate: &[u8]) -> Result<Fingerprint, String> {
    let certificate = CertificateDer::from(certificate);
    let found = EndEntityCert::try_from(&certificate).map_err(|error| malformed(&error))?;
    Ok(Fingerprint::from_der(&found.subject_public_key_info()))
}

/// Returns the node ids of a certificate: its other names of type id-on-bundleEID (RFC 9174 section 4.4.2).
///
/// # Errors
/// The certificate is malformed.
pub fn node_ids(certificate: &[u8]) -> Result<Vec<String>, String> {
    let certificate = Certificate::from_der(certificate).map_err(|error| malformed(&error))?;
    let mut found = Vec::new();
    for extension in certificate.tbs_certificate.filter::<SubjectAltName>() {
        let names =
            extension.map_err(|error| format!("the certificate's names are malformed: {error}"))?.1;
        for name in names.0 {
            if let GeneralName::OtherName(name) = name
                && name.type_id == BUNDLE_EID
            {
                let eid = name.value.decode_as::<Ia5String>();
                let eid = eid.map_err(|_| "the certificate has a node id that is no IA5String")?;
                found.push(eid.to_string());
            }
        }
    }
    Ok(found)
}

/// Builds the TLS configurations of a node towards one neighbour, for client and server.
///
/// # Arguments
/// `files`: certificate chain and key of this node in PEM; `None`: a self-signed certificate for this run.
/// `expected`: the expected neighbour; `None`: `trust` applies to servers, and clients are not verified.
/// `at_once`: the handshake verifies the node id; otherwise the driver calls [`ExpectedPeer::verify_node_id`].
///
/// # Errors
/// The unreadable file, or its defect.
pub fn build_tls_configs(
    files: Option<(&Path, &Path)>,
    expected: Option<&Arc<ExpectedPeer>>,
    trust: ServerVerification,
    at_once: bool,
) -> Result<(ClientConfig, ServerConfig), String> {
    let (mut client, _) = tls::client_config("", trust)?;
    client.alpn_protocols = Vec::new();
    if let Some((certificate, key)) = files {
        let (chain, key) = tls::read_identity(certificate, key)?;
        let certified_key = CertifiedKey::from_der(chain, key, &tls::provider());
        let certified_key = certified_key.map_err(|error| format!("certificate: {error}"))?;
        client.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified_key));
    }
    let Some(expected) = expected else {
        let (mut server, _) = tls::server_config(files)?;
        server.alpn_protocols = Vec::new();
        return Ok((client, server));
    };
    let verifier = PeerVerifier {
        provider: tls::provider(),
        expected: expected.clone(),
        verifies_node_id: at_once,
    };
    let verifier = Arc::new(verifier);
    client.dangerous().set_certificate_verifier(verifier.clone());
    // Each connection proves the identity again.
    client.resumption = Resumption::disabled();
    let (mut server, _) = tls::server_config_with_verifier(files, verifier)?;
    server.alpn_protocols = Vec::new();
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok((client, server))
}

#[derive(Debug)]
struct PeerVerifier {
    provider: Arc<CryptoProvider>,
    expected: Arc<ExpectedPeer>,
    verifies_node_id: bool,
}

impl PeerVerifier {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.expected.verify_proof(certificate, intermediates, now)?;
        if self.verifies_node_id {
            self.expected.verify_node_id(certificate).map_err(handshake_refusal)
        } else {
            Ok(())
        }
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(certificate, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    tls::checks_signatures!();
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(certificate, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    tls::checks_signatures!();
}
