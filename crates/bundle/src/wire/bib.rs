//! Block Integrity Blocks with BIB-HMAC-SHA2 (RFC 9172 section 3.7, RFC 9173 section 3). hardy-bpv7 parses abstract
//! security blocks. This module computes the HMAC, because that of hardy-bpv7 requires ciphers and system randomness.
//! Wrapped keys are not supported.

use hardy_bpv7::bpsec::bib::{self, OperationSet};
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::ParsedBundle;
use hardy_bpv7::crc::CrcType;
use hardy_cbor::decode::{self, Head, Marker};
use hardy_cbor::encode;
use ring::hmac;
use subtle::ConstantTimeEq;

use super::extension_block::ExtensionBlock;
use super::{
    Bundle, BundleError, Bytes, Eid, REPLICATE, encode_extension_block, encode_payload_frame,
};
use crate::integrity_spec::{IntegrityScope, Secret, ShaVariant};

/// Types of a Block Integrity Block and a Block Confidentiality Block (RFC 9172 section 11.1).
pub(super) const BIB: u64 = 11;
const BCB: u64 = 12;

/// Number of the primary block.
const PRIMARY: u64 = 0;
/// Number of the payload block.
pub const PAYLOAD: u64 = 1;

/// The security context BIB-HMAC-SHA2 (RFC 9173 section 3).
const HMAC_SHA2: u64 = 1;
/// Its parameters: the SHA variant and the integrity scope flags (section 3.3).
const VARIANT: u64 = 1;
const SCOPE: u64 = 3;
/// Its result: the MAC (section 3.4).
const MAC: u64 = 1;

/// The maximum number of targets of all security blocks of a bundle. Real bundles have fewer, and hardy-bpv7 compares
/// each target of a block with all targets before it.
const MAX_TARGETS: u64 = 100;

/// The maximum length for a scan of byte pairs.
const MAX_SCANNED_BYTES: usize = 1024;

/// Block flag "delete the bundle if the block cannot be processed" (RFC 9171 section 4.2.4).
const DELETE: u8 = 4;

/// The maximum nesting of a block. hardy-bpv7 checks deeper blocks.
const MAX_NESTING: usize = 16;

/// The verification result of a signed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BibStatus {
    /// The signature is valid.
    Verified,
    /// The signature is invalid.
    Failed,
    /// No key of the security source is configured.
    KeyMissing,
    /// The security context or a parameter is not supported.
    Unsupported,
}

/// A security operation: one signed block.
#[derive(Clone, Debug)]
pub struct BibOperation {
    /// The security source.
    pub source: Eid,
    /// The number of the signed block.
    pub target: u64,
    /// The verification result.
    pub status: BibStatus,
}

impl ShaVariant {
    /// Returns the encoded value.
    fn code(self) -> u64 {
        match self {
            ShaVariant::Sha256 => 5,
            ShaVariant::Sha384 => 6,
            ShaVariant::Sha512 => 7,
        }
    }

    fn from_code(number: u64) -> Option<ShaVariant> {
        [ShaVariant::Sha256, ShaVariant::Sha384, ShaVariant::Sha512]
            .into_iter()
            .find(|sha| sha.code() == number)
    }

    fn algorithm(self) -> hmac::Algorithm {
        match self {
            ShaVariant::Sha256 => hmac::HMAC_SHA256,
            ShaVariant::Sha384 => hmac::HMAC_SHA384,
            ShaVariant::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

impl IntegrityScope {
    /// Returns the encoded value.
    fn flags(self) -> u64 {
        u64::from(self.primary) | u64::from(self.target) << 1 | u64::from(self.security) << 2
    }

    /// Returns `None` if an unknown bit is set.
    fn from_flags(number: u64) -> Option<IntegrityScope> {
        let bit = |index: u32| number >> index & 1 == 1;
        (number < 8).then(|| IntegrityScope { primary: bit(0), target: bit(1), security: bit(2) })
    }
}

/// Encodes type, number and flags of a block.
fn header(kind: u64, number: u64, flags: u64) -> Vec<u8> {
    let mut out = encode::emit(&kind).0;
    out.extend(encode::emit(&number).0);
    out.extend(encode::emit(&flags).0);
    out
}

/// The signature of a block.
struct Signature {
    sha: ShaVariant,
    scope: IntegrityScope,
    mac: Vec<u8>,
}

/// Parses the signature of one target. Returns `None` for an unsupported parameter or result.
fn parse_signature(operation: &bib::Operation) -> Option<Signature> {
    let bib::Operation::Unrecognised(HMAC_SHA2, found) = operation else { return None };
    if found.parameters.keys().any(|id| ![VARIANT, SCOPE].contains(id)) || found.results.len() != 1
    {
        return None;
    }
    let number = |id| match found.parameters.get(&id) {
        None => Some(None),
        Some(data) => {
            decode::parse::<(u64, bool)>(data).ok().filter(|one| one.1).map(|one| Some(one.0))
        }
    };
    let mac = decode::parse_value(found.results.get(&MAC)?, |value, shortest, tags| match value {
        decode::Value::Bytes(at) if shortest && tags.is_empty() => Ok(Some(at)),
        _ => Ok::<_, decode::Error>(None),
    });
    let mac = found.results.get(&MAC)?.get(mac.ok()?.0?)?.to_vec();
    Some(Signature {
        sha: number(VARIANT)?.map_or(Some(ShaVariant::default()), ShaVariant::from_code)?,
        scope: number(SCOPE)?
            .map_or(Some(IntegrityScope::default()), IntegrityScope::from_flags)?,
        mac,
    })
}

/// Returns whether all operations of an integrity block have the security context BIB-HMAC-SHA2.
pub(super) fn is_known_context(data: &[u8]) -> bool {
    let known = |one: &bib::Operation| matches!(one, bib::Operation::Unrecognised(HMAC_SHA2, _));
    decode::parse::<OperationSet>(data).is_ok_and(|set| set.operations().values().all(known))
}

/// Returns the targets of an integrity block in ascending sequence.
pub(super) fn bib_targets(data: &[u8]) -> Vec<u64> {
    let Ok(set) = decode::parse::<OperationSet>(data) else { return Vec::new() };
    let mut found: Vec<u64> = set.operations().keys().copied().collect();
    found.sort_unstable();
    found
}

/// Refuses a bundle with too many targets in its security blocks. hardy-bpv7 reports unparsable bytes.
pub(super) fn check_target_count(data: &[u8]) -> Result<(), BundleError> {
    // The end of an array head and a block type: in short data a scan is faster than a parse of each block.
    let may = |two: &[u8]| matches!(two, [0x85 | 0x86 | 0x9f | 5 | 6, 11 | 12]);
    if data.len() < MAX_SCANNED_BYTES && !data.windows(2).any(may) {
        return Ok(());
    }
    let named = count_targets(data).unwrap_or(0);
    if named > MAX_TARGETS {
        return Err(BundleError(format!(
            "found security blocks with {named} targets, expected at most {MAX_TARGETS}"
        )));
    }
    Ok(())
}

fn count_targets(data: &[u8]) -> Option<u64> {
    let mut named: u64 = 0;
    let skip =
        |at: usize| decode::skip_value(data.get(at..)?, MAX_NESTING).ok().map(|found| found.1);
    let head = |at: usize| decode::parse::<(Head, bool, usize)>(data.get(at..)?).ok();
    let mut at = 1 + skip(1)?;
    // hardy-bpv7 accepts any form of array heads, but types only in the shortest form.
    while let Some((Head { marker: Marker::Array(_), .. }, _, length)) = head(at) {
        match u64::from(*data.get(at + length)?) {
            PAYLOAD => break,
            BIB | BCB => {
                // Type, number, flags and CRC type.
                let content =
                    (0..4).try_fold(at + length, |field, _| Some(field + skip(field)?))?;
                let (bytes, _, length) = head(content)?;
                let targets = head(content + length).map(|found| found.0.marker);
                let (Marker::Bytes(Some(_)), Some(Marker::Array(Some(count)))) =
                    (bytes.marker, targets)
                else {
                    return Some(u64::MAX);
                };
                named = named.saturating_add(count);
            }
            _ => {}
        }
        at += skip(at)?;
    }
    Some(named)
}

/// Parses the bundle if `error` was caused by the flag "delete bundle" of a BIB-HMAC-SHA2 block. Returns `None` for
/// every other cause.
pub(super) fn parse_without_delete_flag(
    data: &[u8],
    error: &hardy_bpv7::Error,
) -> Option<ParsedBundle> {
    if !matches!(error, hardy_bpv7::Error::Unsupported(_)) {
        return None;
    }
    let skip =
        |at: usize| decode::skip_value(data.get(at..)?, MAX_NESTING).ok().map(|found| found.1);
    let (mut plain, mut at) = (data.to_vec(), 1 + skip(1)?);
    while let Some(0x85 | 0x86) = data.get(at) {
        let kind = at + 1;
        let flags = kind + skip(kind)? + skip(kind + skip(kind)?)?;
        let content = flags + skip(flags)? + skip(flags + skip(flags)?)?;
        let (head, _, length) = decode::parse::<(Head, bool, usize)>(data.get(content..)?).ok()?;
        if data.get(kind) == Some(&(BIB as u8))
            && data.get(flags)? < &0x18
            && let Marker::Bytes(Some(bytes)) = head.marker
            && is_known_context(data.get(content + length..)?.get(..usize::try_from(bytes).ok()?)?)
        {
            plain[flags] &= !DELETE;
        }
        at += skip(at)?;
    }
    // Another block may request deletion too.
    ParsedBundle::parse(&plain, no_keys).ok().filter(|parsed| !parsed.non_canonical)
}

impl Bundle {
    /// Signs the payload and the data that `scope` selects, with `source` as security source. The payload block loses
    /// its CRC (RFC 9173 section 3.8.1).
    ///
    /// # Errors
    /// The bundle is a fragment, which must not be signed (RFC 9172 section 5.2), or its payload is not in memory.
    pub fn sign(
        &mut self,
        source: &Eid,
        key: &Secret,
        sha: ShaVariant,
        scope: IntegrityScope,
    ) -> Result<(), BundleError> {
        if self.flags.is_fragment || self.is_payload_detached() {
            return Err(BundleError(
                "found a fragment or a detached payload, expected a whole bundle to sign"
                    .to_owned(),
            ));
        }
        self.payload_frame =
            encode_payload_frame(&self.payload, self.payload_flags(), CrcType::None)?;
        let number = self.free_block_number();
        let mut block =
            ExtensionBlock { number, kind: BIB, flags: 0, bytes: Bytes::new(), data: Bytes::new() };
        let mac = self
            .mac(PAYLOAD, &block, key, sha, scope)
            .ok_or_else(|| BundleError("the bundle has no payload".to_owned()))?;
        let mut data = encode::emit(&[PAYLOAD]).0;
        data.extend(encode::emit(&HMAC_SHA2).0);
        // The context flags: parameters are present.
        data.extend(encode::emit(&1).0);
        data.extend(encode::emit(source).0);
        data.extend(encode::emit(&[(VARIANT, sha.code()), (SCOPE, scope.flags())]).0);
        data.extend(encode::emit_array(Some(1), |targets| {
            targets
                .emit_array(Some(1), |results| results.emit(&(MAC, &encode::Bytes(&mac.as_ref()))));
        }));
        let mut bytes = Vec::new();
        encode_extension_block(&mut bytes, BIB, number, block.flags, &data);
        (block.bytes, block.data) = (bytes.into(), data.into());
        self.extension_blocks.push(block);
        Ok(())
    }

    /// Verifies the integrity blocks with the keys of the security sources. Returns one operation per target, sorted by
    /// block and number. Without a key no MAC is computed.
    pub fn verify_integrity<'k>(
        &self,
        key: impl Fn(&Eid) -> Option<&'k Secret>,
    ) -> Vec<BibOperation> {
        let mut all = Vec::new();
        for block in self.extension_blocks.iter().filter(|one| one.kind == BIB) {
            let Ok(set) = decode::parse::<OperationSet>(&block.data) else { continue };
            let mut targets: Vec<u64> = set.operations().keys().copied().collect();
            targets.sort_unstable();
            for target in targets {
                let status = match (
                    set.operations().get(&target).and_then(parse_signature),
                    key(set.source()),
                ) {
                    (None, _) => BibStatus::Unsupported,
                    (_, None) => BibStatus::KeyMissing,
                    (Some(signature), Some(key)) => {
                        let mac = self.mac(target, block, key, signature.sha, signature.scope);
                        let same =
                            mac.is_some_and(|mac| bool::from(mac.as_ref().ct_eq(&signature.mac)));
                        if same { BibStatus::Verified } else { BibStatus::Failed }
                    }
                };
                all.push(BibOperation { source: set.source().clone(), target, status });
            }
        }
        all
    }

    /// Computes the MAC (RFC 9173 section 3.7) of block `target`; `None` if the bundle has no such block.
    fn mac(
        &self,
        target: u64,
        by: &ExtensionBlock,
        key: &Secret,
        sha: ShaVariant,
        scope: IntegrityScope,
    ) -> Option<hmac::Tag> {
        let mut mac = hmac::Context::with_key(&hmac::Key::new(sha.algorithm(), key.bytes()));
        let length = |bytes: u64| encode::emit(&encode::BytesHeader(bytes)).0;
        mac.update(&encode::emit(&scope.flags()).0);
        if target != PRIMARY && scope.primary {
            mac.update(&self.primary_block);
        }
        let other = || {
            self.extension_blocks
                .iter()
                .chain(&self.rewritten_blocks)
                .find(|one| one.number == target)
        };
        if target != PRIMARY && scope.target {
            let of_payload = || (PAYLOAD, PAYLOAD, self.payload_flags());
            let of_other = || other().map(|one| (one.kind, one.number, one.flags));
            let (kind, number, flags) = if target == PAYLOAD { of_payload() } else { of_other()? };
            mac.update(&header(kind, number, flags));
        }
        if scope.security {
            mac.update(&header(by.kind, by.number, by.flags));
        }
        match target {
            PRIMARY => {
                mac.update(&length(self.primary_block.len() as u64));
                mac.update(&self.primary_block);
            }
            PAYLOAD => {
                mac.update(&length(self.payload_bytes()));
                self.payload.iter().for_each(|part| mac.update(part));
            }
            _ => {
                let data = &other()?.data;
                mac.update(&length(data.len() as u64));
                mac.update(data);
            }
        }
        Some(mac.sign())
    }

    /// Returns the blocks of a fragment: the first has all; later ones have integrity blocks only with all targets.
    pub(super) fn fragment_extension_blocks(&self, first: bool) -> Vec<ExtensionBlock> {
        if first {
            return self.extension_blocks.clone();
        }
        let replicated: Vec<ExtensionBlock> =
            self.extension_blocks.iter().filter(|one| one.is_replicated()).cloned().collect();
        let there = |target: &u64| {
            *target <= PAYLOAD
                || replicated.iter().any(|one| one.number == *target)
                || self
                    .rewritten_blocks
                    .iter()
                    .any(|one| one.number == *target && one.flags & REPLICATE != 0)
        };
        let whole =
            |one: &&ExtensionBlock| one.kind != BIB || bib_targets(&one.data).iter().all(there);
        replicated.iter().filter(whole).cloned().collect()
    }
}
