//! A bundle with a block that is unknown here and asks that it be deleted then (section 4.2.4), or one that is signed twice. The
//! library reads no further than that block, which is enough to say so.

use bytes::Bytes;
use hardy_bpv7::bpsec::{self, no_keys};
use hardy_bpv7::bundle::RewrittenBundle;
use hardy_bpv7::crc::CrcType;
use hardy_cbor::decode;

use super::{Bundle, Class, ReasonCode, Unknown, Wrong, frame, known, span};

/// How deep a block is nested at the most; what is deeper asks for no report.
const DEPTH: usize = 16;

/// Block flag "report if the block cannot be processed".
const REPORT: u64 = 2;

/// Why a bundle with this error is deleted; none: it is not taken.
pub(super) fn deletes(error: &hardy_bpv7::Error) -> Option<ReasonCode> {
    match error {
        hardy_bpv7::Error::Unsupported(_) => Some(ReasonCode::BlockUnsupported),
        hardy_bpv7::Error::InvalidBPSec(bpsec::Error::DuplicateOpTarget) => {
            Some(ReasonCode::ConflictingSecurityOperation)
        }
        _ => None,
    }
}

impl Bundle {
    /// What is known of it.
    pub(super) fn hopeless(data: &Bytes) -> Result<Bundle, Wrong> {
        let wrong = |error: hardy_bpv7::Error| Wrong(error.to_string());
        let parsed = RewrittenBundle::parse(data, no_keys).map_err(wrong)?;
        let RewrittenBundle::Invalid { bundle, error, .. } = parsed else {
            return Err(Wrong("a block is unknown".to_owned()));
        };
        let Some(why) = deletes(&error) else { return Err(wrong(error)) };
        Ok(Bundle {
            lifetime: span(bundle.lifetime),
            previous: None,
            age: bundle.age.map(span),
            hops: None,
            class: Class::default(),
            unknown: Unknown {
                report: why == ReasonCode::BlockUnsupported
                    && asks_for_report(data).unwrap_or(false),
                delete: Some(why),
            },
            away: 0,
            payload: Vec::new(),
            primary: Bytes::new(),
            others: Vec::new(),
            rewritten: Vec::new(),
            payload_frame: frame(&[], 0, CrcType::None)?,
            id: bundle.id,
            flags: bundle.flags,
            destination: bundle.destination,
            report_to: bundle.report_to,
        })
    }
}

/// Whether a block that is unknown here asks for a report; none: that cannot be read.
fn asks_for_report(data: &[u8]) -> Option<bool> {
    let skip =
        |at: usize| decode::skip_value(data.get(at..)?, DEPTH).ok().map(|(_, length)| length);
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
        if !known(kind) && flags & REPORT != 0 {
            return Some(true);
        }
        at += skip(at)?;
    }
    Some(false)
}
