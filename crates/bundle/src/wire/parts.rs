//! Bundles out of parts. The library reads bundles that lie in one piece; a long payload need not be copied for that: it
//! gets the bundle with an empty one, and what it would check of the payload's block is checked here.

use bytes::Bytes;
use hardy_bpv7::block::Type;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::ParsedBundle;
use hardy_bpv7::crc::CrcType;
use hardy_cbor::decode::{self, Head, Marker};

use super::fragments::check_extent;
use super::integrity::bounded;
use super::{Bundle, Wrong, frame, slice};

/// How deep a block before the payload's is nested at the most; the library reads those that are deeper.
const DEPTH: usize = 16;

/// The payload's block but for its payload: its type, its number.
const PAYLOAD: [u8; 2] = [1, 1];

impl Bundle {
    /// The bundle in `parts`, which must hold nothing else.
    ///
    /// # Errors
    /// As [`Bundle::decode`].
    pub fn decode_parts(parts: &[Bytes]) -> Result<Bundle, Wrong> {
        match parts {
            [whole] => Bundle::decode(whole),
            _ => around_payload(parts).map_or_else(|| Bundle::decode(&parts.concat().into()), Ok),
        }
    }
}

/// Where the payload's block begins in a bundle's first bytes, its flags, and where they end.
pub(super) fn payload_block(first: &[u8]) -> Option<(usize, u64, usize)> {
    if first.first() != Some(&0x9f) {
        return None;
    }
    let mut start = 1;
    loop {
        match first.get(start..)? {
            [0x85 | 0x86, kind, number, ..] if [*kind, *number] == PAYLOAD => break,
            block => start += decode::skip_value(block, DEPTH).ok()?.1,
        }
    }
    let fields = start + 1 + PAYLOAD.len();
    let (flags, _, length) = decode::parse::<(u64, bool, usize)>(first.get(fields..)?).ok()?;
    Some((start, flags, fields + length))
}

/// The same bundle without its payload and that block's CRC.
pub(super) fn with_empty_payload(first: &[u8], start: usize, flags_end: usize) -> Bytes {
    let mut rest = Vec::with_capacity(flags_end + 3);
    rest.extend_from_slice(&first[..start]);
    rest.push(0x85);
    rest.extend_from_slice(&first[start + 1..flags_end]);
    rest.extend_from_slice(&[0, 0x40, 0xff]);
    Bytes::from(rest)
}

/// A bundle whose blocks before the payload lie in the first part and whose payload's block is as it would be written here;
/// none: it is another one, or not a bundle.
fn around_payload(parts: &[Bytes]) -> Option<Bundle> {
    let first = parts.first()?;
    let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let (start, flags, at) = payload_block(first)?;
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
    // With its CRC.
    let payload_frame = frame(&payload, flags, crc).ok()?;
    let mut end = slice(parts, to, total).concat();
    if end.pop() != Some(0xff)
        || end != payload_frame[1]
        || first.get(start..from as usize)? != &payload_frame[0][..]
    {
        return None;
    }
    let rest = with_empty_payload(first, start, at);
    bounded(&rest).ok()?;
    let parsed = ParsedBundle::parse(&rest, no_keys).ok()?;
    // What is encrypted is the payload, perhaps.
    let encrypts = |kind| matches!(kind, Type::BlockSecurity);
    if parsed.non_canonical || parsed.bundle.blocks.values().any(|one| encrypts(one.block_type)) {
        return None;
    }
    let mut bundle = Bundle::of(parsed.bundle, &rest).ok()?;
    check_extent(&bundle.id, bytes).ok()?;
    bundle.payload = payload;
    bundle.payload_frame = payload_frame;
    Some(bundle)
}
