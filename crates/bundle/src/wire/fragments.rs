//! Fragmentation and reassembly (section 5.8).

use bytes::Bytes;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::{FragmentInfo, ParsedBundle};
use hardy_bpv7::editor::{Chunk, Editor};

use super::{Bundle, BundleError, Flags, Id, bib, encode_payload_frame};

impl Bundle {
    /// Splits the bundle into fragments: the first `bytes` of the payload, and the rest (section 5.8).
    ///
    /// # Errors
    /// The encoding fails.
    pub fn fragment(&self, bytes: u64) -> Result<[Bundle; 2], BundleError> {
        let whole = self.payload_bytes();
        let (offset, total) = self
            .id
            .fragment_info
            .as_ref()
            .map_or((0, whole), |part| (part.offset, part.total_adu_length));
        let part = |from: u64, to: u64, first: bool| {
            let payload = slice(&self.payload, from, to);
            let info = FragmentInfo { offset: offset + from, total_adu_length: total };
            Ok(Bundle {
                id: Id { fragment_info: Some(info.clone()), ..self.id.clone() },
                flags: Flags { is_fragment: true, ..self.flags.clone() },
                primary_block: fragment_primary_block(&self.primary_block, Some(info))?,
                extension_blocks: self.fragment_extension_blocks(first),
                payload_frame: encode_payload_frame(
                    &payload,
                    self.payload_flags(),
                    self.payload_crc(),
                )?,
                payload,
                ..self.clone()
            })
        };
        Ok([part(0, bytes, true)?, part(bytes, whole, false)?])
    }

    /// Converts the first fragment into the whole bundle with the complete `payload`.
    pub fn into_whole(self, payload: Vec<Bytes>) -> Bundle {
        // Only a signature still depends on the primary block.
        let signed = self.extension_blocks.iter().any(|one| one.kind == bib::BIB);
        let primary =
            if signed { fragment_primary_block(&self.primary_block, None).ok() } else { None };
        Bundle {
            id: Id { fragment_info: None, ..self.id },
            flags: Flags { is_fragment: false, ..self.flags },
            primary_block: primary.unwrap_or(self.primary_block),
            payload,
            detached_bytes: 0,
            ..self
        }
    }
}

/// Refuses a fragment that ends beyond its original bundle (RFC 9171 section 4.3.1).
///
/// # Errors
/// The offset plus `payload_bytes` exceeds the total length or overflows.
pub(super) fn check_extent(id: &Id, payload_bytes: u64) -> Result<(), BundleError> {
    let Some(FragmentInfo { offset, total_adu_length }) = id.fragment_info else { return Ok(()) };
    match offset.checked_add(payload_bytes) {
        Some(end) if end <= total_adu_length => Ok(()),
        _ => Err(BundleError(format!(
            "found a fragment of {payload_bytes} bytes at offset {offset}, expected its end within {total_adu_length} bytes"
        ))),
    }
}

/// Returns bytes `from..to` of the concatenated chunks, without a copy.
pub(crate) fn slice(parts: &[Bytes], from: u64, to: u64) -> Vec<Bytes> {
    let (mut at, mut found) = (0, Vec::new());
    for part in parts {
        let end = at + part.len() as u64;
        let (low, high) = (from.max(at), to.min(end));
        if low < high {
            found.push(part.slice((low - at) as usize..(high - at) as usize));
        }
        at = end;
    }
    found
}

/// Returns the primary block of a fragment of the bundle, or of the whole bundle.
pub(super) fn fragment_primary_block(
    primary: &Bytes,
    part: Option<FragmentInfo>,
) -> Result<Bytes, BundleError> {
    // hardy-bpv7 edits whole bundles: this one has the primary block and an empty payload.
    let mut data = vec![0x9f];
    data.extend_from_slice(primary);
    data.extend_from_slice(&[0x85, 1, 1, 0, 0, 0x40, 0xff]);
    let wrong = |error: hardy_bpv7::Error| BundleError(error.to_string());
    let parsed = ParsedBundle::parse(&data, no_keys).map_err(wrong)?;
    let editor = Editor::new(&parsed.bundle, &data)
        .with_fragment_info(part)
        .map_err(|(_, error)| BundleError(error.to_string()))?;
    match editor.rebuild().map_err(|error| BundleError(error.to_string()))?.into_iter().next() {
        Some(Chunk::New(bytes)) => Ok(Bytes::from(Vec::from(bytes))),
        Some(Chunk::Unchanged(extent)) => Ok(Bytes::copy_from_slice(&data[extent])),
        None => Err(BundleError("the edited bundle has no primary block".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ClassOfService, Crc, Eid, NewBundleHeader};
    use crate::{
        BpaAction, BundleProtocolAgent, DeliveryMode, DtnSpec, RefusalReason, SessionCommand,
        SessionEvent,
    };
    use serde_json::json;
    use units::{Span, Time};

    /// Encodes a fragment of three bytes for node 2 with this offset and total length.
    fn fragment(offset: u64, total_adu_length: u64) -> Vec<Bytes> {
        let name = |name: &str| name.parse::<Eid>().unwrap();
        let head = NewBundleHeader {
            source: name("ipn:1.3000"),
            destination: name("ipn:2.2000"),
            report_to: Eid::Null,
            created_ms: Some(850_000_000_000),
            sequence: 7,
            lifetime: Span::from_secs(60),
            flags: Flags::default(),
            hop_limit: Some(9),
            crc: Crc::Crc32c,
            payload_crc: Crc::None,
            class: ClassOfService::default(),
        };
        let [mut part, _] =
            Bundle::new(&head, vec![Bytes::from_static(b"six by")]).unwrap().fragment(3).unwrap();
        let info = FragmentInfo { offset, total_adu_length };
        part.primary_block = fragment_primary_block(&part.primary_block, Some(info)).unwrap();
        part.encode(&name("ipn:1.0"), Span::ZERO)
    }

    #[test]
    fn a_fragment_ends_within_its_bundle() {
        for (offset, total, sound) in [
            (0, 3, true),
            (7, 10, true),
            (u64::MAX - 3, u64::MAX, true),
            (8, 10, false),
            (10, 10, false),
            (u64::MAX - 2, u64::MAX, false),
            (u64::MAX, u64::MAX, false),
        ] {
            let parts = fragment(offset, total);
            assert_eq!(Bundle::decode_parts(&parts).is_ok(), sound, "{offset} of {total}");
            let whole = Bundle::decode(&parts.concat().into());
            assert_eq!(whole.is_ok(), sound, "{offset} of {total}");
            let (first, end) = (parts[0].clone(), parts[parts.len() - 1].clone());
            let apart = Bundle::from_envelope([first, end], 3);
            assert_eq!(apart.is_ok(), sound, "{offset} of {total}, its payload elsewhere");
        }
    }

    #[test]
    fn a_node_refuses_an_overflowing_fragment_and_accepts_the_last_possible_one() {
        let spec: DtnSpec = serde_json::from_value(json!({
            "epoch_ms": 850_000_000_000_u64, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
        }))
        .unwrap();
        for (offset, taken) in [(u64::MAX - 3, true), (u64::MAX - 2, false)] {
            let mut agent = BundleProtocolAgent::new(&spec, "2", &[]).unwrap();
            agent.on_session_opened(Time::ZERO, 0, 7);
            let data = fragment(offset, u64::MAX);
            let service = DeliveryMode::Reliable;
            agent.on_session_event(
                Time::ZERO,
                7,
                SessionEvent::Received { id: 3, data, mode: service },
            );
            let mut acts = Vec::new();
            agent.take_actions(&mut acts);
            let refused = |act: &BpaAction| {
                matches!(
                    act,
                    BpaAction::SendCommand(
                        7,
                        SessionCommand::Refuse(3, RefusalReason::NotAcceptable)
                    )
                )
            };
            assert_eq!(acts.iter().any(refused), !taken, "{acts:?}");
            assert_eq!(agent.stored_bundles().count(), usize::from(taken));
        }
    }
}
