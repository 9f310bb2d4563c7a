//! Certificates for the nodes of a lab: an authority in a folder, and the certificates that it signs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bundle::wire::Eid;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _,
};
use runtime::peer_identity::{BUNDLE_EID, BUNDLE_SECURITY, public_key_pin, verify_signed_by};
use runtime::tls::Fingerprint;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use serde::Deserialize;
use serde_json::{Value, json};
use webpki::anchor_from_trusted_cert;
use x509_cert::der::asn1::ObjectIdentifier as Oid;
use yasna::Tag;
use yasna::models::ObjectIdentifier;

/// subjectAltName (RFC 5280 section 4.2.1.6).
const SUBJECT_ALT_NAME: [u64; 4] = [2, 5, 29, 17];

const DAY: Duration = Duration::from_secs(86_400);

/// The validity of an authority in days.
const AUTHORITY_DAYS: u32 = 3_650;

/// Plan of a certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificatePlan {
    /// The node id in the certificate.
    pub eid: String,
    /// The base name of the files `NAME.pem` and `NAME.key`.
    pub name: String,
    /// The folder of the files and of `authority.pem` and `authority.key`, which are created if both are missing.
    pub folder: PathBuf,
    /// The validity in days from now.
    pub days: u32,
    /// The current time, in seconds since 1970.
    pub now_unix_s: u64,
}

/// Creates a key and a certificate that the authority signs. Returns the paths of the files and the SHA-256 of the key.
///
/// # Errors
/// The error text. Except for the authority, no file remains.
pub fn issue_certificate(plan: &CertificatePlan) -> Result<Value, String> {
    let eid: Eid =
        plan.eid.parse().map_err(|_| format!("found {:?}, expected a node id", plan.eid))?;
    let files = [".pem", ".key"].map(|kind| plan.folder.join(format!("{}{kind}", plan.name)));
    if let Some(there) = files.iter().find(|file| file.exists()) {
        return Err(format!("{}: the file exists", there.display()));
    }
    fs::create_dir_all(&plan.folder).map_err(|error| path_error(&plan.folder, &error))?;
    let CertificateAuthority { issuer, certificate, file, is_new } = authority(plan)?;
    let mut params = certificate_params(&eid.to_string(), plan, plan.days);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // RFC 9174 section 4.4.2: beside id-kp-bundleSecurity the purposes that other libraries require of either side.
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::Other(arcs(&BUNDLE_SECURITY)),
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.custom_extensions = vec![eid_extension(&eid.to_string())];
    params.use_authority_key_identifier_extension = true;
    let key = key()?;
    let made = params.signed_by(&key, &issuer).map_err(|error| generation_error(&error))?;
    // Checks the authority file as a verifier would: another program may have created it, or it may have expired.
    let now = UnixTime::since_unix_epoch(Duration::from_secs(plan.now_unix_s));
    anchor_from_trusted_cert(&certificate)
        .and_then(|anchor| verify_signed_by(&[anchor], made.der(), &[], now))
        .map_err(|error| {
            path_error(&file, &format_args!("is not a usable certificate authority: {error}"))
        })?;
    write_pair(&files, made.der(), &key)?;
    Ok(json!({
        "eid": eid.to_string(), "certificate": files[0], "key": files[1], "authority": file,
        "authority_is_new": is_new, "pin": public_key_pin(made.der())?.to_string(),
        "fingerprint": Fingerprint::from_der(made.der()).to_string(),
    }))
}

/// The signing authority of a folder.
struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate by which verifiers know the authority.
    certificate: CertificateDer<'static>,
    file: PathBuf,
    /// The authority was created in this call.
    is_new: bool,
}

fn authority(plan: &CertificatePlan) -> Result<CertificateAuthority, String> {
    let files = ["authority.pem", "authority.key"].map(|name| plan.folder.join(name));
    let mut authority = certificate_params("authority of a lab", plan, AUTHORITY_DAYS);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let is_new = !files.iter().any(|file| file.exists());
    if is_new {
        let key = key()?;
        let made = authority.self_signed(&key).map_err(|error| generation_error(&error))?;
        write_pair(&files, made.der(), &key)?;
    }
    let [file, key] = files;
    let certificate =
        CertificateDer::from_pem_file(&file).map_err(|error| path_error(&file, &error))?;
    let secret = PrivateKeyDer::from_pem_file(&key).map_err(|error| path_error(&key, &error))?;
    let secret = KeyPair::try_from(&secret).map_err(|error| path_error(&key, &error))?;
    if public_key_pin(&certificate)? != Fingerprint::from_der(&secret.subject_public_key_info()) {
        return Err(path_error(&key, &format_args!("is not the key of {}", file.display())));
    }
    Ok(CertificateAuthority { issuer: Issuer::new(authority, secret), certificate, file, is_new })
}

fn arcs(of: &Oid) -> Vec<u64> {
    of.arcs().map(u64::from).collect()
}

fn key() -> Result<KeyPair, String> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| generation_error(&error))
}

/// Returns certificate parameters. The validity starts one day ago, because clocks differ.
fn certificate_params(name: &str, plan: &CertificatePlan, days: u32) -> CertificateParams {
    let now = Duration::from_secs(plan.now_unix_s);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + (now + DAY * days);
    params
}

/// Returns the node id in the form of RFC 9174, an IA5String, which the library does not encode.
fn eid_extension(eid: &str) -> CustomExtension {
    let content = yasna::construct_der(|writer| {
        writer.write_sequence(|names| {
            names.next().write_tagged_implicit(Tag::context(0), |other| {
                other.write_sequence(|other| {
                    other.next().write_oid(&ObjectIdentifier::new(arcs(&BUNDLE_EID)));
                    other.next().write_tagged(Tag::context(0), |value| value.write_ia5_string(eid));
                });
            });
        });
    });
    CustomExtension::from_oid_content(&SUBJECT_ALT_NAME, content)
}

fn write_pair(
    files: &[PathBuf; 2],
    made: &CertificateDer<'_>,
    key: &KeyPair,
) -> Result<(), String> {
    let [certificate, secret] = files;
    // The key first: a certificate without a key has no use.
    write(secret, 0o600, "PRIVATE KEY", &key.serialize_der())?;
    write(certificate, 0o644, "CERTIFICATE", made).inspect_err(|_| {
        let _ = fs::remove_file(secret);
    })
}

/// Creates a file in PEM (RFC 7468).
fn write(path: &Path, mode: u32, label: &str, data: &[u8]) -> Result<(), String> {
    let text = data_encoding::BASE64.encode(data);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(ascii).collect();
    let text = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"));
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = opened.map_err(|error| path_error(path, &error))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error: io::Error| {
        let _ = fs::remove_file(path);
        path_error(path, &error)
    })
}

fn ascii(line: &[u8]) -> &str {
    std::str::from_utf8(line).expect("base64 is ASCII")
}

fn path_error(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

fn generation_error(error: &dyn std::fmt::Display) -> String {
    format!("cannot create a certificate: {error}")
}
