//! Certificates for the nodes of a lab: an authority in a folder, and what it has signed.

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
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use serde::Deserialize;
use serde_json::{Value, json};
use webpki::anchor_from_trusted_cert;
use x509_cert::der::asn1::ObjectIdentifier as Oid;
use yasna::Tag;
use yasna::models::ObjectIdentifier;

use crate::identity::{BUNDLE_EID, BUNDLE_SECURITY, pin_of, signed_by};
use crate::tls::Fingerprint;

/// subjectAltName (RFC 5280 section 4.2.1.6).
const SUBJECT_ALT_NAME: [u64; 4] = [2, 5, 29, 17];

const DAY: Duration = Duration::from_secs(86_400);

/// How long an authority is valid.
const AUTHORITY_DAYS: u32 = 3_650;

/// A certificate as it is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuePlan {
    /// The node id that it names.
    pub eid: String,
    /// What its files are called: `NAME.pem` and `NAME.key`.
    pub name: String,
    /// Where they are written, beside `authority.pem` and `authority.key`, which are made where neither is there.
    pub folder: PathBuf,
    /// How long it is valid, from now on.
    pub days: u32,
    /// Now, in seconds since 1970.
    pub now_unix_s: u64,
}

/// Makes a key and has the authority sign its certificate: which files there are now, and the key's SHA-256.
///
/// # Errors
/// What is wrong, in words; nothing is left of it then but the authority.
pub fn issue(plan: &IssuePlan) -> Result<Value, String> {
    let eid: Eid = plan.eid.parse().map_err(|_| format!("{}: no node id", plan.eid))?;
    let files = [".pem", ".key"].map(|kind| plan.folder.join(format!("{}{kind}", plan.name)));
    if let Some(there) = files.iter().find(|file| file.exists()) {
        return Err(format!("{}: is there already", there.display()));
    }
    fs::create_dir_all(&plan.folder).map_err(|error| about(&plan.folder, &error))?;
    let Authority { issuer, certificate, file, is_new } = authority(plan)?;
    let mut asked = asked(&eid.to_string(), plan, plan.days);
    asked.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // RFC 9174 section 4.4.2: beside its own purpose those by which others' libraries take it for either side.
    asked.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::Other(arcs(&BUNDLE_SECURITY)),
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    asked.custom_extensions = vec![named(&eid.to_string())];
    asked.use_authority_key_identifier_extension = true;
    let key = key()?;
    let made = asked.signed_by(&key, &issuer).map_err(|error| unmade(&error))?;
    // Who checks by the file has to take it; the file may be another program's, or too old.
    let now = UnixTime::since_unix_epoch(Duration::from_secs(plan.now_unix_s));
    anchor_from_trusted_cert(&certificate)
        .and_then(|anchor| signed_by(&[anchor], made.der(), &[], now))
        .map_err(|error| about(&file, &format_args!("is no authority that signs here: {error}")))?;
    write_pair(&files, made.der(), &key)?;
    Ok(json!({
        "eid": eid.to_string(), "certificate": files[0], "key": files[1], "authority": file,
        "authority_is_new": is_new, "pin": pin_of(made.der())?.to_string(),
        "fingerprint": Fingerprint::of(made.der()).to_string(),
    }))
}

/// Who signs in a folder.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// What others know it by.
    certificate: CertificateDer<'static>,
    file: PathBuf,
    /// It was made now.
    is_new: bool,
}

fn authority(plan: &IssuePlan) -> Result<Authority, String> {
    let files = ["authority.pem", "authority.key"].map(|name| plan.folder.join(name));
    let mut authority = asked("authority of a lab", plan, AUTHORITY_DAYS);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let is_new = !files.iter().any(|file| file.exists());
    if is_new {
        let key = key()?;
        let made = authority.self_signed(&key).map_err(|error| unmade(&error))?;
        write_pair(&files, made.der(), &key)?;
    }
    let [file, key] = files;
    let certificate = CertificateDer::from_pem_file(&file).map_err(|error| about(&file, &error))?;
    let secret = PrivateKeyDer::from_pem_file(&key).map_err(|error| about(&key, &error))?;
    let secret = KeyPair::try_from(&secret).map_err(|error| about(&key, &error))?;
    if pin_of(&certificate)? != Fingerprint::of(&secret.subject_public_key_info()) {
        return Err(about(&key, &format_args!("is not the key of {}", file.display())));
    }
    Ok(Authority { issuer: Issuer::new(authority, secret), certificate, file, is_new })
}

fn arcs(of: &Oid) -> Vec<u64> {
    of.arcs().map(u64::from).collect()
}

fn key() -> Result<KeyPair, String> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| unmade(&error))
}

/// A certificate that is valid from yesterday on: clocks differ.
fn asked(name: &str, plan: &IssuePlan, days: u32) -> CertificateParams {
    let now = Duration::from_secs(plan.now_unix_s);
    let mut asked = CertificateParams::default();
    asked.distinguished_name.push(DnType::CommonName, name);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    asked.not_before = epoch + now.saturating_sub(DAY);
    asked.not_after = epoch + (now + DAY * days);
    asked
}

/// The node id as RFC 9174 has it, whose form (an IA5String) the library does not write.
fn named(eid: &str) -> CustomExtension {
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
    // The key first: a certificate without one would be of no use.
    write(secret, 0o600, "PRIVATE KEY", &key.serialize_der())?;
    write(certificate, 0o644, "CERTIFICATE", made).inspect_err(|_| {
        let _ = fs::remove_file(secret);
    })
}

/// A new file in PEM (RFC 7468).
fn write(path: &Path, mode: u32, label: &str, data: &[u8]) -> Result<(), String> {
    let text = data_encoding::BASE64.encode(data);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(ascii).collect();
    let text = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"));
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = opened.map_err(|error| about(path, &error))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error: io::Error| {
        let _ = fs::remove_file(path);
        about(path, &error)
    })
}

fn ascii(line: &[u8]) -> &str {
    std::str::from_utf8(line).expect("base64 is ASCII")
}

fn about(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

fn unmade(error: &dyn std::fmt::Display) -> String {
    format!("no certificate can be made: {error}")
}
