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
