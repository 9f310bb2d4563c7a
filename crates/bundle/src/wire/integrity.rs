//! Block Integrity Blocks by BIB-HMAC-SHA2 (RFC 9172 section 3.7, RFC 9173 section 3). The library reads abstract security
//! blocks; what is signed is put together here, since its own HMAC comes with ciphers and asks the system for randomness.
//! Wrapped keys are not read.

use hardy_bpv7::bpsec::bib::{self, OperationSet};
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::ParsedBundle;
use hardy_bpv7::crc::CrcType;
use hardy_cbor::decode::{self, Head, Marker};
use hardy_cbor::encode;
use ring::hmac;
use subtle::ConstantTimeEq;

use super::other::Other;
use super::{Bundle, Bytes, Eid, REPLICATE, Wrong, extension, frame};
use crate::integrity::{Scope, Secret, Sha};

/// Types of a Block Integrity Block and a Block Confidentiality Block (RFC 9172 section 11.1).
pub(super) const BIB: u64 = 11;
const BCB: u64 = 12;

/// Number of the primary block.
const PRIMARY: u64 = 0;
/// Number of the payload block.
pub const PAYLOAD: u64 = 1;

/// The security context BIB-HMAC-SHA2 (RFC 9173 section 3).
const HMAC_SHA2: u64 = 1;
/// Its parameters: which hash, and what is signed beside the block (section 3.3).
const VARIANT: u64 = 1;
const SCOPE: u64 = 3;
/// Its result: the MAC (section 3.4).
const MAC: u64 = 1;

/// Blocks that all integrity blocks of a bundle may protect together: nobody has so many, and the library compares each of a
/// block's targets with all before it.
const MOST_TARGETS: u64 = 100;

/// Bytes that are looked through for two.
const SHORT: usize = 1024;

/// Block flag "delete the bundle if the block cannot be processed" (RFC 9171 section 4.2.4).
const DELETE: u8 = 4;

/// How deep a block is nested at the most; the library judges those that are deeper.
const DEPTH: usize = 16;

/// What shows of a signed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The signature is right.
    Holds,
    /// It is wrong.
    Fails,
    /// There is no key for who signed.
    NoKey,
    /// It is of another kind than is known here.
    Unknown,
}

/// A security operation: a block that somebody signed.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who signed.
    pub source: Eid,
    /// The block's number.
    pub target: u64,
    /// What shows of it.
    pub found: Found,
}

impl Sha {
    /// As in a block.
    fn number(self) -> u64 {
        match self {
            Sha::Sha256 => 5,
            Sha::Sha384 => 6,
            Sha::Sha512 => 7,
        }
    }

    fn of_number(number: u64) -> Option<Sha> {
        [Sha::Sha256, Sha::Sha384, Sha::Sha512].into_iter().find(|sha| sha.number() == number)
    }

    fn algorithm(self) -> hmac::Algorithm {
        match self {
            Sha::Sha256 => hmac::HMAC_SHA256,
            Sha::Sha384 => hmac::HMAC_SHA384,
            Sha::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

impl Scope {
    /// As in a block.
    fn number(self) -> u64 {
        u64::from(self.primary) | u64::from(self.target) << 1 | u64::from(self.security) << 2
    }

    /// None: it has a bit whose meaning is not known.
    fn of_number(number: u64) -> Option<Scope> {
        let bit = |place: u32| number >> place & 1 == 1;
        (number < 8).then(|| Scope { primary: bit(0), target: bit(1), security: bit(2) })
    }
}

/// Type, number and flags of a block.
fn header(kind: u64, number: u64, flags: u64) -> Vec<u8> {
    let mut out = encode::emit(&kind).0;
    out.extend(encode::emit(&number).0);
    out.extend(encode::emit(&flags).0);
    out
}

/// How a block was signed.
struct Signature {
    sha: Sha,
    scope: Scope,
    mac: Vec<u8>,
}

/// What a block of this context says of a target; none: more than is known here.
fn signature(operation: &bib::Operation) -> Option<Signature> {
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
        sha: number(VARIANT)?.map_or(Some(Sha::default()), Sha::of_number)?,
        scope: number(SCOPE)?.map_or(Some(Scope::default()), Scope::of_number)?,
        mac,
    })
}

/// Whether an integrity block is of the context that is known here.
pub(super) fn is_known(data: &[u8]) -> bool {
    let known = |one: &bib::Operation| matches!(one, bib::Operation::Unrecognised(HMAC_SHA2, _));
    decode::parse::<OperationSet>(data).is_ok_and(|set| set.operations().values().all(known))
}

/// The targets of an integrity block, in order.
pub(super) fn targets(data: &[u8]) -> Vec<u64> {
    let Ok(set) = decode::parse::<OperationSet>(data) else { return Vec::new() };
    let mut found: Vec<u64> = set.operations().keys().copied().collect();
    found.sort_unstable();
    found
}

/// Refuses a bundle whose security blocks name more targets than are looked at. What cannot be read is left to the library.
pub(super) fn bounded(data: &[u8]) -> Result<(), Wrong> {
    // The end of an array's head, and a type: in few bytes they are looked for sooner than block by block.
    let may = |two: &[u8]| matches!(two, [0x85 | 0x86 | 0x9f | 5 | 6, 11 | 12]);
    if data.len() < SHORT && !data.windows(2).any(may) {
        return Ok(());
    }
    let named = named_targets(data).unwrap_or(0);
    if named > MOST_TARGETS {
        return Err(Wrong(format!(
            "security blocks with {named} targets, expected at most {MOST_TARGETS}"
        )));
    }
    Ok(())
}

fn named_targets(data: &[u8]) -> Option<u64> {
    let mut named: u64 = 0;
    let skip = |at: usize| decode::skip_value(data.get(at..)?, DEPTH).ok().map(|found| found.1);
    let head = |at: usize| decode::parse::<(Head, bool, usize)>(data.get(at..)?).ok();
    let mut at = 1 + skip(1)?;
    // The library takes any form of an array's head, and types in the shortest form alone.
    while let Some((Head { marker: Marker::Array(_), .. }, _, length)) = head(at) {
        match u64::from(*data.get(at + length)?) {
            PAYLOAD => break,
            BIB | BCB => {
                // Type, number, flags and kind of CRC.
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

/// The bundle in `data`, of which the library says `error` because an integrity block of the context that is known here asks
/// for it; none: that is not why.
pub(super) fn without_delete(data: &[u8], error: &hardy_bpv7::Error) -> Option<ParsedBundle> {
    if !matches!(error, hardy_bpv7::Error::Unsupported(_)) {
        return None;
    }
    let skip = |at: usize| decode::skip_value(data.get(at..)?, DEPTH).ok().map(|found| found.1);
    let (mut plain, mut at) = (data.to_vec(), 1 + skip(1)?);
    while let Some(0x85 | 0x86) = data.get(at) {
        let kind = at + 1;
        let flags = kind + skip(kind)? + skip(kind + skip(kind)?)?;
        let content = flags + skip(flags)? + skip(flags + skip(flags)?)?;
        let (head, _, length) = decode::parse::<(Head, bool, usize)>(data.get(content..)?).ok()?;
        if data.get(kind) == Some(&(BIB as u8))
            && data.get(flags)? < &0x18
            && let Marker::Bytes(Some(bytes)) = head.marker
            && is_known(data.get(content + length..)?.get(..usize::try_from(bytes).ok()?)?)
        {
            plain[flags] &= !DELETE;
        }
        at += skip(at)?;
    }
    // Another block may ask for the same.
    ParsedBundle::parse(&plain, no_keys).ok().filter(|parsed| !parsed.non_canonical)
}

impl Bundle {
    /// Signs the payload, and what `scope` says beside it, in the name of `source`. The payload block has no CRC any more
    /// (RFC 9173 section 3.8.1).
    ///
    /// # Errors
    /// It is a fragment, which nobody may sign (RFC 9172 section 5.2), or its payload is not in memory.
    pub fn sign(
        &mut self,
        source: &Eid,
        key: &Secret,
        sha: Sha,
        scope: Scope,
    ) -> Result<(), Wrong> {
        if self.flags.is_fragment || self.is_away() {
            return Err(Wrong("a fragment, or a payload elsewhere: nothing to sign".to_owned()));
        }
        self.payload_frame = frame(&self.payload, self.payload_flags(), CrcType::None)?;
        let number = self.free_number();
        let mut block =
            Other { number, kind: BIB, flags: 0, bytes: Bytes::new(), data: Bytes::new() };
        let mac = self
            .mac(PAYLOAD, &block, key, sha, scope)
            .ok_or_else(|| Wrong("no payload".to_owned()))?;
        let mut data = encode::emit(&[PAYLOAD]).0;
        data.extend(encode::emit(&HMAC_SHA2).0);
        // Parameters are there.
        data.extend(encode::emit(&1).0);
        data.extend(encode::emit(source).0);
        data.extend(encode::emit(&[(VARIANT, sha.number()), (SCOPE, scope.number())]).0);
        data.extend(encode::emit_array(Some(1), |targets| {
            targets
                .emit_array(Some(1), |results| results.emit(&(MAC, &encode::Bytes(&mac.as_ref()))));
        }));
        let mut bytes = Vec::new();
        extension(&mut bytes, BIB, number, block.flags, &data);
        (block.bytes, block.data) = (bytes.into(), data.into());
        self.others.push(block);
        Ok(())
    }

    /// What integrity blocks say, with the keys of those who signed: an operation a target, by block and number. Nothing is
    /// computed without a key.
    pub fn integrity<'k>(&self, key: impl Fn(&Eid) -> Option<&'k Secret>) -> Vec<Operation> {
        let mut all = Vec::new();
        for block in self.others.iter().filter(|one| one.kind == BIB) {
            let Ok(set) = decode::parse::<OperationSet>(&block.data) else { continue };
            let mut targets: Vec<u64> = set.operations().keys().copied().collect();
            targets.sort_unstable();
            for target in targets {
                let found =
                    match (set.operations().get(&target).and_then(signature), key(set.source())) {
                        (None, _) => Found::Unknown,
                        (_, None) => Found::NoKey,
                        (Some(said), Some(key)) => {
                            let mac = self.mac(target, block, key, said.sha, said.scope);
                            let same =
                                mac.is_some_and(|mac| bool::from(mac.as_ref().ct_eq(&said.mac)));
                            if same { Found::Holds } else { Found::Fails }
                        }
                    };
                all.push(Operation { source: set.source().clone(), target, found });
            }
        }
        all
    }

    /// The MAC of a block (RFC 9173 section 3.7) that the integrity block `by` protects; none: there is no such block.
    fn mac(
        &self,
        target: u64,
        by: &Other,
        key: &Secret,
        sha: Sha,
        scope: Scope,
    ) -> Option<hmac::Tag> {
        let mut mac = hmac::Context::with_key(&hmac::Key::new(sha.algorithm(), key.bytes()));
        let length = |bytes: u64| encode::emit(&encode::BytesHeader(bytes)).0;
        mac.update(&encode::emit(&scope.number()).0);
        if target != PRIMARY && scope.primary {
            mac.update(&self.primary);
        }
        let other = || self.others.iter().chain(&self.rewritten).find(|one| one.number == target);
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
                mac.update(&length(self.primary.len() as u64));
                mac.update(&self.primary);
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

    /// Blocks that go into a fragment: all into the first one, of integrity blocks those whose targets are all there.
    pub(super) fn others_of_part(&self, first: bool) -> Vec<Other> {
        if first {
            return self.others.clone();
        }
        let kept: Vec<Other> =
            self.others.iter().filter(|one| one.is_replicated()).cloned().collect();
        let there = |target: &u64| {
            *target <= PAYLOAD
                || kept.iter().any(|one| one.number == *target)
                || self
                    .rewritten
                    .iter()
                    .any(|one| one.number == *target && one.flags & REPLICATE != 0)
        };
        let whole = |one: &&Other| one.kind != BIB || targets(&one.data).iter().all(there);
        kept.iter().filter(whole).cloned().collect()
    }
}
