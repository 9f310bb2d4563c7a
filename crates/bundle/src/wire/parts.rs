//! Bundles in several chunks. hardy-bpv7 needs contiguous bytes. To avoid a copy of a long payload, it parses the
//! bundle with an empty one. This module checks the payload block.

use bytes::Bytes;
use hardy_bpv7::block::Type;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::ParsedBundle;
use hardy_bpv7::crc::CrcType;
use hardy_cbor::decode::{self, Head, Marker};

use super::bib::check_target_count;
use super::fragments::check_extent;
use super::{Bundle, BundleError, encode_payload_frame, slice};

/// The maximum nesting of a block before the payload. hardy-bpv7 parses bundles with deeper blocks.
const MAX_NESTING: usize = 16;

/// Type and number of the payload block.
const PAYLOAD_BLOCK_HEAD: [u8; 2] = [1, 1];

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
