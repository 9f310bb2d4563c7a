//! Who a neighbour is to be, and how it proves it: by a certificate of an authority that names it (RFC 9174 section 4.4), or
//! by a key that is known.

use std::path::Path;
use std::sync::Arc;

use bundle::wire::is_node;
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

use crate::tls::{self, Fingerprint, Trust};

/// id-kp-bundleSecurity (RFC 9174 section 8.11).
pub(crate) static BUNDLE_SECURITY: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.35");

/// id-on-bundleEID (RFC 9174 section 8.11).
pub(crate) static BUNDLE_EID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.8.11");

/// Node ids of a certificate that a message shows.
const SHOWN: usize = 4;

/// How a neighbour proves who it is.
#[derive(Clone, Debug)]
enum Proof {
    /// By a certificate of one of these authorities, which has its node id.
    Authority(Vec<TrustAnchor<'static>>),
    /// By the key that has this SHA-256, whatever its certificate says.
    Pin(Fingerprint),
}

/// Who a neighbour is to be.
#[derive(Clone, Debug)]
pub struct Expected {
    node: String,
    proof: Proof,
}

impl Expected {
    /// The node with id `node` by a certificate of an authority in `file`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn by_authority(node: &str, file: &Path) -> Result<Expected, String> {
        let wrong = |what: &dyn std::fmt::Display| format!("authority: {}: {what}", file.display());
        let found: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|error| wrong(&error))?;
        if found.is_empty() {
            return Err(wrong(&"holds no certificate in PEM"));
        }
        let anchors =
            found.iter().map(|one| anchor_from_trusted_cert(one).map(|one| one.to_owned()));
        let anchors = anchors.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
        Ok(Expected { node: node.to_owned(), proof: Proof::Authority(anchors) })
    }

    /// The same by a key, whose SHA-256 is `pin` in hexadecimal digits.
    ///
    /// # Errors
    /// What was expected.
    pub fn by_pin(node: &str, pin: &str) -> Result<Expected, String> {
        let pin = Fingerprint::parse(pin).map_err(|_| {
            format!("pin: found \"{pin}\", expected the 64 hexadecimal digits of a key's SHA-256")
        })?;
        Ok(Expected { node: node.to_owned(), proof: Proof::Pin(pin) })
    }

    /// Whether the neighbour has the key, or the authority's word for its certificate.
    fn vouched(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        match &self.proof {
            Proof::Pin(pin) => {
                let found = pin_of(certificate).map_err(refused)?;
                if found == *pin {
                    return Ok(());
                }
                let node = &self.node;
                Err(refused(format!("the peer's key is {found}, that of {node} is {pin}")))
            }
            Proof::Authority(anchors) => signed_by(anchors, certificate, intermediates, now)
                .map_err(|error| Error::InvalidCertificate(in_tls(error))),
        }
    }

    /// Whether the certificate is the neighbour's.
    ///
    /// # Errors
    /// Whose it is.
    pub fn named(&self, certificate: &CertificateDer<'_>) -> Result<(), String> {
        if let Proof::Pin(_) = self.proof {
            return Ok(());
        }
        let names = node_ids(certificate)?;
        if names.iter().any(|name| is_node(name, &self.node)) {
            return Ok(());
        }
        let shown = match names.len() {
            0 => "names no node".to_owned(),
            _ => format!("is that of {}", names[..names.len().min(SHOWN)].join(", ")),
        };
        Err(format!("the peer's certificate {shown}, expected {}", self.node))
    }
}

/// Whether one of these authorities has signed a certificate of a bundle node, which is valid `now`.
pub(crate) fn signed_by(
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

/// A refusal in words: the alert is handshake_failure.
fn refused(why: String) -> Error {
    Error::Other(OtherError(Arc::new(std::io::Error::other(why))))
}

/// As TLS has an alert for it.
fn in_tls(error: webpki::Error) -> CertificateError {
    use webpki::Error as E;
    match error {
        E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
        E::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        E::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        // Two authorities may have one name: the signature is another's then.
        E::UnknownIssuer | E::InvalidSignatureForPublicKey => CertificateError::UnknownIssuer,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    }
}

fn malformed(error: &dyn std::fmt::Display) -> String {
    format!("the certificate is malformed: {error}")
}

/// SHA-256 of the SubjectPublicKeyInfo of a certificate in DER.
///
/// # Errors
/// It is malformed.
pub fn pin_of(certificate: &[u8]) -> Result<Fingerprint, String> {
    let certificate = CertificateDer::from(certificate);
    let found = EndEntityCert::try_from(&certificate).map_err(|error| malformed(&error))?;
    Ok(Fingerprint::of(&found.subject_public_key_info()))
}

/// The node ids of a certificate: its other names of the form id-on-bundleEID (RFC 9174 section 4.4.2).
///
/// # Errors
/// It is malformed.
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

/// TLS of both sides of a node towards one neighbour.
///
/// # Arguments
/// `files`: what it shows, the chain and its key in PEM; none: a self-signed certificate for this run.
/// `expected`: who the neighbour has to be; none: `trust` of who is dialled, and nothing of who dials.
/// `at_once`: the handshake fails where the certificate names another node; otherwise the driver asks [`Expected::named`].
///
/// # Errors
/// Which file cannot be read, or what is wrong with it.
pub fn sides(
    files: Option<(&Path, &Path)>,
    expected: Option<&Arc<Expected>>,
    trust: Trust,
    at_once: bool,
) -> Result<(ClientConfig, ServerConfig), String> {
    let (mut client, _) = tls::client("", trust)?;
    client.alpn_protocols = Vec::new();
    if let Some((certificate, key)) = files {
        let (chain, key) = tls::read(certificate, key)?;
        let own = CertifiedKey::from_der(chain, key, &tls::provider());
        let own = own.map_err(|error| format!("certificate: {error}"))?;
        client.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
    }
    let Some(expected) = expected else {
        let (mut server, _) = tls::server(files)?;
        server.alpn_protocols = Vec::new();
        return Ok((client, server));
    };
    let verifier = Verifier { provider: tls::provider(), expected: expected.clone(), at_once };
    let verifier = Arc::new(verifier);
    client.dangerous().set_certificate_verifier(verifier.clone());
    // Each connection proves it anew.
    client.resumption = Resumption::disabled();
    let (mut server, _) = tls::server_that_asks(files, verifier)?;
    server.alpn_protocols = Vec::new();
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok((client, server))
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    expected: Arc<Expected>,
    at_once: bool,
}

impl Verifier {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.expected.vouched(certificate, intermediates, now)?;
        if self.at_once { self.expected.named(certificate).map_err(refused) } else { Ok(()) }
    }
}

impl ServerCertVerifier for Verifier {
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

impl ClientCertVerifier for Verifier {
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
