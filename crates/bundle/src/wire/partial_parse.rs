//! Partial decoding of bundles that must be deleted: with an unknown block that requests deletion (section 4.2.4), or
//! signed twice. hardy-bpv7 parses only up to that block, which is sufficient for a status report.

use bytes::Bytes;
use hardy_bpv7::bpsec::{self, no_keys};
use hardy_bpv7::bundle::RewrittenBundle;
use hardy_bpv7::crc::CrcType;
use hardy_cbor::decode;

use super::{
    Bundle, BundleError, ClassOfService, ReasonCode, UnknownBlocks, encode_payload_frame,
    is_known_block, to_span,
};

/// The maximum nesting of a block. Deeper blocks request no report.
const MAX_NESTING: usize = 16;

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
