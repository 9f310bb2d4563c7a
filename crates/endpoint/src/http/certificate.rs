//! The server's certificate, and what browsers are told to trust it by.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, ServerSessionMemoryCache};
use rustls::{KeyLogFile, ServerConfig};

use super::{Protocol, ServePlan};
use crate::tls::{self, Fingerprint, Identity};

/// Sessions that are remembered for resumption; the oldest is forgotten.
const SESSIONS: usize = 4096;

/// An arc under 2.25, where numbers are UUIDs that need no registration (ITU-T X.667): the extension that
/// fills a certificate.
const FILLING: [u64; 3] = [2, 25, 0x6265_6e74];

/// Who the server is, to TLS.
pub(super) struct Certificate {
    identity: Identity,
    /// SHA-256 of the certificate.
    pub(super) fingerprint: Fingerprint,
    /// SHA-256 of its public key, in base64: what `--ignore-certificate-errors-spki-list` takes.
    pub(super) spki: String,
}

impl Certificate {
    /// The certificate of `plan`.
    ///
    /// # Errors
    /// Which file cannot be read, or what is wrong with it.
    pub(super) fn new(plan: &ServePlan) -> Result<Certificate, String> {
        let identity = match &plan.certificate {
            Some(files) => tls::read(Path::new(&files.certificate), Path::new(&files.key))?,
            None => made(plan.certificate_bytes)?,
        };
        let first = identity.0.first().ok_or("certificate: the file holds none")?;
        let parsed =
            ParsedCertificate::try_from(first).map_err(|error| format!("certificate: {error}"))?;
        let key = parsed.subject_public_key_info();
        let digest = ring::digest::digest(&ring::digest::SHA256, &key);
        let spki = data_encoding::BASE64.encode(digest.as_ref());
        Ok(Certificate { fingerprint: Fingerprint::of(first), spki, identity })
    }

    /// TLS for `protocols`, with or without QUIC's early data.
    ///
    /// # Errors
    /// What is wrong with the certificate.
    pub(super) fn tls(
        &self,
        protocols: &[Protocol],
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
            config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
            // QUIC knows this value alone (RFC 9001 section 4.6.1).
            config.max_early_data_size = if early_data { u32::MAX } else { 0 };
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(config)
    }
}

/// A self-signed certificate; padded by an extension of no meaning to `bytes`, within the few that its
/// signature varies by.
fn made(bytes: Option<u32>) -> Result<Identity, String> {
    let fail = |error: rcgen::Error| format!("no certificate can be made: {error}");
    let key = rcgen::KeyPair::generate().map_err(fail)?;
    let sign = |filling: usize| {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
        if filling > 0 {
            // An OCTET STRING (tag 4) with a length of two bytes.
            let mut content = vec![4, 0x82, (filling >> 8) as u8, filling as u8];
            content.resize(4 + filling, 0);
            let filling = rcgen::CustomExtension::from_oid_content(&FILLING, content);
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
        // What the shortest such extension adds; below it the plain one is nearer.
        let least = sign(256).map_err(fail)?.der().len() - 256;
        if let Some(filling) = (bytes as usize).checked_sub(least)
            && filling >= 256
        {
            certificate = sign(filling).map_err(fail)?;
        } else if (bytes as usize) < plain {
            return Err(format!(
                "certificate_bytes: found {bytes}, expected at least {plain}, or none"
            ));
        }
    }
    let private = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((vec![certificate.der().clone()], private.into()))
}
