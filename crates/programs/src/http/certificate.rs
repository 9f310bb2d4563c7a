//! The certificate of the server, and the values by which browsers can be made to accept it.

use std::path::Path;
use std::sync::Arc;

use runtime::tls::{self, CertificateAndKey, Fingerprint};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, ServerSessionMemoryCache};
use rustls::{KeyLogFile, ServerConfig};

use super::{HttpServerPlan, HttpVersion};

/// The maximum of sessions stored for resumption; beyond it the oldest is removed.
const MAX_SESSIONS: usize = 4096;

/// An arc under 2.25, where numbers are UUIDs that need no registration (ITU-T X.667): the padding extension of a
/// certificate.
const PADDING_OID: [u64; 3] = [2, 25, 0x6265_6e74];

/// The TLS identity of the server.
pub(super) struct ServerCertificate {
    identity: CertificateAndKey,
    /// SHA-256 of the certificate.
    pub(super) fingerprint: Fingerprint,
    /// SHA-256 of the public key in base64, the argument of `--ignore-certificate-errors-spki-list`.
    pub(super) spki: String,
}

impl ServerCertificate {
    /// Reads or generates the certificate of `plan`.
    ///
    /// # Errors
    /// The unreadable file, or its defect.
    pub(super) fn new(plan: &HttpServerPlan) -> Result<ServerCertificate, String> {
        let identity = match &plan.certificate {
            Some(files) => {
                tls::read_identity(Path::new(&files.certificate), Path::new(&files.key))?
            }
            None => generate_identity(plan.certificate_bytes)?,
        };
        let first = identity.0.first().ok_or("certificate: no certificate in the file")?;
        let parsed =
            ParsedCertificate::try_from(first).map_err(|error| format!("certificate: {error}"))?;
        let key = parsed.subject_public_key_info();
        let digest = ring::digest::digest(&ring::digest::SHA256, &key);
        let spki = data_encoding::BASE64.encode(digest.as_ref());
        Ok(ServerCertificate { fingerprint: Fingerprint::from_der(first), spki, identity })
    }

    /// Builds the TLS configuration for `protocols`, with or without early data of QUIC.
    ///
    /// # Errors
    /// The defect of the certificate.
    pub(super) fn server_config(
        &self,
        protocols: &[HttpVersion],
        resumption: bool,
        early_data: bool,
    ) -> Result<ServerConfig, String> {
        let (chain, key) = &self.identity;
        let mut config = ServerConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| format!("certificate: {error}"))?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.name().into()).collect();
        config.key_log = Arc::new(KeyLogFile::new());
        if resumption {
            config.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
            // QUIC allows this value alone (RFC 9001 section 4.6.1).
            config.max_early_data_size = if early_data { u32::MAX } else { 0 };
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(config)
    }
}

/// Generates a self-signed certificate. A meaningless extension pads it to `bytes`, except for the few bytes by which
/// signatures vary.
fn generate_identity(bytes: Option<u32>) -> Result<CertificateAndKey, String> {
    let fail = |error: rcgen::Error| format!("cannot create a certificate: {error}");
    let key = rcgen::KeyPair::generate().map_err(fail)?;
    let sign = |filling: usize| {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
        if filling > 0 {
            // An OCTET STRING (tag 4) with a two-byte length.
            let mut content = vec![4, 0x82, (filling >> 8) as u8, filling as u8];
            content.resize(4 + filling, 0);
            let filling = rcgen::CustomExtension::from_oid_content(&PADDING_OID, content);
            parameters.custom_extensions.push(filling);
        }
        parameters.self_signed(&key)
    };
    let mut certificate = sign(0).map_err(fail)?;
    if let Some(bytes) = bytes {
        let plain = certificate.der().len();
        if bytes > 60_000 {
            return Err(format!("certificate_bytes: found {bytes}, expected at most 60000"));
        }
        // The length added by the shortest such extension; below it the plain certificate is closer.
        let min_bytes = sign(256).map_err(fail)?.der().len() - 256;
        if let Some(filling) = (bytes as usize).checked_sub(min_bytes)
            && filling >= 256
        {
            certificate = sign(filling).map_err(fail)?;
        } else if (bytes as usize) < plain {
            return Err(format!(
                "certificate_bytes: found {bytes}, expected at least {plain}, or no such key"
            ));
        }
    }
    let private = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((vec![certificate.der().clone()], private.into()))
}
