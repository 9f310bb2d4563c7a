//! Decoding of bundles of which hardy-bpv7 parses only a part.
//!
//! - Bundles in several chunks: hardy-bpv7 needs contiguous bytes. To avoid a copy of a long payload, it parses the
//!   bundle with an empty one. This module checks the payload block.
//! - Bundles that must be deleted: with an unknown block that requests deletion (section 4.2.4), or signed twice.
//!   hardy-bpv7 parses only up to that block, which is sufficient for a status report.

use bytes::Bytes;
use hardy_bpv7::block::Type;
use hardy_bpv7::bpsec::{self, no_keys};
use hardy_bpv7::bundle::{ParsedBundle, RewrittenBundle};
use hardy_bpv7::crc::CrcType;
use hardy_cbor::decode::{self, Head, Marker};

use super::bib::check_target_count;
use super::fragments::check_extent;
use super::{
    Bundle, BundleError, ClassOfService, ReasonCode, UnknownBlocks, encode_payload_frame,
    is_known_block, slice, to_span,
};

/// The maximum nesting of a block. Deeper blocks request no report. A bundle in several chunks with a deeper block before
/// the payload is copied into one.
const MAX_NESTING: usize = 16;

/// Type and number of the payload block.
const PAYLOAD_BLOCK_HEAD: [u8; 2] = [1, 1];

/// Block flag "report if the block cannot be processed".
const REPORT_FLAG: u64 = 2;

/// Returns the reason for deleting a bundle with this error. `None` means that the bundle is not accepted.
pub(super) fn deletion_reason(error: &hardy_bpv7::Error) -> Option<ReasonCode> {
    match error {
        hardy_bpv7::Error::Unsupported(_) => Some(ReasonCode::BlockUnsupported),
        hardy_bpv7::Error::InvalidBPSec(bpsec::Error::DuplicateOpTarget) => {
            Some(ReasonCode::ConflictingSecurityOperation)
        }
        _ => None,
    }
}

impl Bundle {
    /// Decodes the bundle in `parts`, which must contain no further bytes.
    ///
    /// # Errors
    /// As [`Bundle::decode`].
    pub fn decode_parts(parts: &[Bytes]) -> Result<Bundle, BundleError> {
        match parts {
            [whole] => Bundle::decode(whole),
            _ => decode_around_payload(parts)
                .map_or_else(|| Bundle::decode(&parts.concat().into()), Ok),
        }
    }

    /// Decodes the primary block.
    pub(super) fn decode_primary_only(data: &Bytes) -> Result<Bundle, BundleError> {
        let wrong = |error: hardy_bpv7::Error| BundleError(error.to_string());
        let parsed = RewrittenBundle::parse(data, no_keys).map_err(wrong)?;
        let RewrittenBundle::Invalid { bundle, error, .. } = parsed else {
            return Err(BundleError("a block is unknown".to_owned()));
        };
        let Some(why) = deletion_reason(&error) else { return Err(wrong(error)) };
        Ok(Bundle {
            lifetime: to_span(bundle.lifetime),
            previous_node: None,
            age: bundle.age.map(to_span),
            hop_count: None,
            class: ClassOfService::default(),
            unknown_blocks: UnknownBlocks {
                requests_report: why == ReasonCode::BlockUnsupported
                    && requests_report(data).unwrap_or(false),
                deletion_reason: Some(why),
            },
            detached_bytes: 0,
            payload: Vec::new(),
            primary_block: Bytes::new(),
            extension_blocks: Vec::new(),
            rewritten_blocks: Vec::new(),
            payload_frame: encode_payload_frame(&[], 0, CrcType::None)?,
            id: bundle.id,
            flags: bundle.flags,
            destination: bundle.destination,
            report_to: bundle.report_to,
        })
    }
}

/// Returns whether an unknown block requests a report; `None` if the blocks cannot be parsed.
fn requests_report(data: &[u8]) -> Option<bool> {
    let skip =
        |at: usize| decode::skip_value(data.get(at..)?, MAX_NESTING).ok().map(|(_, length)| length);
    let mut at = 1 + skip(1)?;
    while matches!(data.get(at)?, 0x85 | 0x86 | 0x9f) {
        let mut field = at + 1;
        let mut number = || {
            let (found, _, length) =
                decode::parse::<(u64, bool, usize)>(data.get(field..)?).ok()?;
            field += length;
            Some(found)
        };
        let (kind, _, flags) = (number()?, number()?, number()?);
        if !is_known_block(kind) && flags & REPORT_FLAG != 0 {
            return Some(true);
        }
        at += skip(at)?;
    }
    Some(false)
}

/// Returns the start of the payload block in the first bytes of a bundle, its flags, and the end of the flags.
pub(super) fn find_payload_block(first: &[u8]) -> Option<(usize, u64, usize)> {
    if first.first() != Some(&0x9f) {
        return None;
    }
    let mut start = 1;
    loop {
        match first.get(start..)? {
            [0x85 | 0x86, kind, number, ..] if [*kind, *number] == PAYLOAD_BLOCK_HEAD => break,
            block => start += decode::skip_value(block, MAX_NESTING).ok()?.1,
        }
    }
    let fields = start + 1 + PAYLOAD_BLOCK_HEAD.len();
    let (flags, _, length) = decode::parse::<(u64, bool, usize)>(first.get(fields..)?).ok()?;
    Some((start, flags, fields + length))
}

/// Returns the same bundle with an empty payload and without the payload CRC.
pub(super) fn with_empty_payload(first: &[u8], start: usize, flags_end: usize) -> Bytes {
    let mut rest = Vec::with_capacity(flags_end + 3);
    rest.extend_from_slice(&first[..start]);
    rest.push(0x85);
    rest.extend_from_slice(&first[start + 1..flags_end]);
    rest.extend_from_slice(&[0, 0x40, 0xff]);
    Bytes::from(rest)
}

/// Decodes a bundle with all blocks before the payload in the first chunk. Returns `None` if the payload block differs
/// from the encoding of this module, or the bytes are not a bundle.
fn decode_around_payload(parts: &[Bytes]) -> Option<Bundle> {
    let first = parts.first()?;
    let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let (start, flags, at) = find_payload_block(first)?;
    let (crc, crc_bytes) = match first.get(at)? {
        0 => (CrcType::None, 0),
        1 => (CrcType::CRC16_X25, 3),
        2 => (CrcType::CRC32_CASTAGNOLI, 5),
        _ => return None,
    };
    let (head, _, length) = decode::parse::<(Head, bool, usize)>(first.get(at + 1..)?).ok()?;
    let Marker::Bytes(Some(bytes)) = head.marker else { return None };
    let from = (at + 1 + length) as u64;
    let to = from.checked_add(bytes)?;
    if to.checked_add(crc_bytes + 1)? != total {
        return None;
    }
    let payload = slice(parts, from, to);
    // The frame includes the CRC.
    let payload_frame = encode_payload_frame(&payload, flags, crc).ok()?;
    let mut end = slice(parts, to, total).concat();
    if end.pop() != Some(0xff)
        || end != payload_frame[1]
        || first.get(start..from as usize)? != &payload_frame[0][..]
    {
        return None;
    }
    let rest = with_empty_payload(first, start, at);
    check_target_count(&rest).ok()?;
    let parsed = ParsedBundle::parse(&rest, no_keys).ok()?;
    // A confidentiality block may have encrypted the payload.
    let encrypts = |kind| matches!(kind, Type::BlockSecurity);
    if parsed.non_canonical || parsed.bundle.blocks.values().any(|one| encrypts(one.block_type)) {
        return None;
    }
    let mut bundle = Bundle::from_parsed(parsed.bundle, &rest).ok()?;
    check_extent(&bundle.id, bytes).ok()?;
    bundle.payload = payload;
    bundle.payload_frame = payload_frame;
    Some(bundle)
}
