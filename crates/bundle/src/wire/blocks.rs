//! Types, flags and encodings of blocks.

use bytes::Bytes;
use hardy_bpv7::crc::{CrcType, Digest};
use hardy_bpv7::status_report::ReasonCode;
use hardy_cbor::encode;
use units::Span;

/// Private-use block type (RFC 9171 section 9.1: 192 to 255) for fields that version 7 lacks. It is an array of the
/// priority (0 bulk, 1 normal, 2 expedited) and the critical flag. Without the block the priority is normal.
pub(super) const CLASS: u64 = 192;

/// Types of the extension blocks of RFC 9171 section 4.4.
pub(super) const PREVIOUS_NODE: u64 = 6;
pub(super) const AGE: u64 = 7;
pub(super) const HOP_COUNT: u64 = 10;

/// Block flag "must be replicated in every fragment" (section 4.2.4).
pub(super) const REPLICATE: u64 = 1;

/// The class of service of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassOfService {
    /// The priority.
    pub priority: contacts::Priority,
    /// Whether a copy is forwarded on every route.
    pub critical: bool,
}

impl Default for ClassOfService {
    fn default() -> ClassOfService {
        ClassOfService { priority: contacts::Priority::Normal, critical: false }
    }
}

/// Processing that unknown blocks request (section 4.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnknownBlocks {
    /// Whether a status report is requested.
    pub requests_report: bool,
    /// The reason for deleting the bundle. In that case only the primary block was parsed.
    pub deletion_reason: Option<ReasonCode>,
}

/// The description of invalid bundle bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleError(pub String);

pub(super) fn is_known_block(kind: u64) -> bool {
    matches!(kind, 0 | 1 | PREVIOUS_NODE | AGE | HOP_COUNT | CLASS)
}

pub(super) fn to_span(duration: core::time::Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 4))
}

/// Encodes the bytes of a payload block before and after the payload (section 4.2.2).
pub(super) fn encode_payload_frame(
    payload: &[Bytes],
    flags: u64,
    crc: CrcType,
) -> Result<[Bytes; 2], BundleError> {
    let length: u64 = payload.iter().map(|part| part.len() as u64).sum();
    let mut head = vec![if crc == CrcType::None { 0x85 } else { 0x86 }, 1, 1];
    head.extend(encode::emit(&flags).0);
    head.extend(encode::emit(&crc).0);
    head.extend(encode::emit(&encode::BytesHeader(length)).0);
    let mut end = Vec::new();
    if crc != CrcType::None {
        let mut digest = Digest::new(crc).map_err(|error| BundleError(error.to_string()))?;
        digest.push(&head);
        payload.iter().for_each(|part| digest.push(part));
        end.push(digest.cbor_head());
        digest.push(&end);
        digest.push_zeros();
        end.extend(digest.finalize());
    }
    Ok([head.into(), end.into()])
}

pub(super) fn encode_extension_block(
    out: &mut Vec<u8>,
    kind: u64,
    number: u64,
    flags: u64,
    data: &[u8],
) {
    out.extend(encode::emit_array(Some(5), |array| {
        array.emit(&kind);
        array.emit(&number);
        array.emit(&flags);
        array.emit(&0);
        array.emit(&encode::Bytes(data));
    }));
}
