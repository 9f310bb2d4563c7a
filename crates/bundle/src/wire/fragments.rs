//! Fragments (section 5.8), and the whole out of them.

use bytes::Bytes;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::bundle::{FragmentInfo, ParsedBundle};
use hardy_bpv7::editor::{Chunk, Editor};

use super::{Bundle, Flags, Id, Wrong, frame, integrity};

impl Bundle {
    /// The first `bytes` of its payload, and the rest (section 5.8).
    ///
    /// # Errors
    /// What cannot be written.
    pub fn cut(&self, bytes: u64) -> Result<[Bundle; 2], Wrong> {
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
                primary: primary_of(&self.primary, Some(info))?,
                others: self.others_of_part(first),
                payload_frame: frame(&payload, self.payload_flags(), self.payload_crc())?,
                payload,
                ..self.clone()
            })
        };
        Ok([part(0, bytes, true)?, part(bytes, whole, false)?])
    }

    /// The whole bundle that this is the first fragment of, with all of its payload.
    pub fn joined(self, payload: Vec<Bytes>) -> Bundle {
        // Nothing but a signature looks at its primary block any more.
        let signed = self.others.iter().any(|one| one.kind == integrity::BIB);
        let primary = if signed { primary_of(&self.primary, None).ok() } else { None };
        Bundle {
            id: Id { fragment_info: None, ..self.id },
            flags: Flags { is_fragment: false, ..self.flags },
            primary: primary.unwrap_or(self.primary),
            payload,
            away: 0,
            ..self
        }
    }
}

/// Refuses a fragment whose payload ends behind the end of its bundle (RFC 9171 section 4.3.1).
///
/// # Errors
/// `payload_bytes` from the fragment's offset on do not fit into the total length. A sum that overflows does not fit either.
pub(super) fn check_extent(id: &Id, payload_bytes: u64) -> Result<(), Wrong> {
    let Some(FragmentInfo { offset, total_adu_length }) = id.fragment_info else { return Ok(()) };
    match offset.checked_add(payload_bytes) {
        Some(end) if end <= total_adu_length => Ok(()),
        _ => Err(Wrong(format!(
            "a fragment of {payload_bytes} bytes at {offset}, expected an end within {total_adu_length} bytes"
        ))),
    }
}

/// Bytes `from..to` of what parts make together.
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

/// The primary block of a fragment of the bundle with this one, or of the whole.
pub(super) fn primary_of(primary: &Bytes, part: Option<FragmentInfo>) -> Result<Bytes, Wrong> {
    // The library edits whole bundles: one with this primary block and an empty payload.
    let mut data = vec![0x9f];
    data.extend_from_slice(primary);
    data.extend_from_slice(&[0x85, 1, 1, 0, 0, 0x40, 0xff]);
    let wrong = |error: hardy_bpv7::Error| Wrong(error.to_string());
    let parsed = ParsedBundle::parse(&data, no_keys).map_err(wrong)?;
    let editor = Editor::new(&parsed.bundle, &data)
        .with_fragment_info(part)
        .map_err(|(_, error)| Wrong(error.to_string()))?;
    match editor.rebuild().map_err(|error| Wrong(error.to_string()))?.into_iter().next() {
        Some(Chunk::New(bytes)) => Ok(Bytes::from(Vec::from(bytes))),
        Some(Chunk::Unchanged(extent)) => Ok(Bytes::copy_from_slice(&data[extent])),
        None => Err(Wrong("no primary block was written".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Class, Crc, Eid, Head};
    use crate::{Act, Agent, DtnSpec, Refusal, Said, Service, Told};
    use serde_json::json;
    use units::{Span, Time};

    /// The bytes of a fragment of three bytes for node 2, which says this of its place.
    fn fragment(offset: u64, total_adu_length: u64) -> Vec<Bytes> {
        let name = |name: &str| name.parse::<Eid>().unwrap();
        let head = Head {
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
            class: Class::default(),
        };
        let [mut part, _] =
            Bundle::new(&head, vec![Bytes::from_static(b"six by")]).unwrap().cut(3).unwrap();
        let place = FragmentInfo { offset, total_adu_length };
        part.primary = primary_of(&part.primary, Some(place)).unwrap();
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
            let apart = Bundle::from_around([first, end], 3);
            assert_eq!(apart.is_ok(), sound, "{offset} of {total}, its payload elsewhere");
        }
    }

    #[test]
    fn a_node_refuses_a_fragment_whose_end_overflows_and_takes_the_last_possible_one() {
        let spec: DtnSpec = serde_json::from_value(json!({
            "epoch_ms": 850_000_000_000_u64, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
        }))
        .unwrap();
        for (offset, taken) in [(u64::MAX - 3, true), (u64::MAX - 2, false)] {
            let mut agent = Agent::new(&spec, "2", &[]).unwrap();
            agent.opened(Time::ZERO, 0, 7);
            let data = fragment(offset, u64::MAX);
            let service = Service::Reliable;
            agent.heard(Time::ZERO, 7, Said::Received { id: 3, data, service });
            let mut acts = Vec::new();
            agent.take_acts(&mut acts);
            let refused =
                |act: &Act| matches!(act, Act::Tell(7, Told::Refuse(3, Refusal::NotAcceptable)));
            assert_eq!(acts.iter().any(refused), !taken, "{acts:?}");
            assert_eq!(agent.kept().count(), usize::from(taken));
        }
    }
}
