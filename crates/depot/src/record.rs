//! An entry as bytes, in the index and at the head of a payload's file; both say the same, so that either can be found again
//! by the other. All numbers are little-endian, checksums are CRC-32 (IEEE).

use bytes::Bytes;

/// Begins every payload's file.
pub(crate) const MAGIC: [u8; 8] = *b"BPSTORE1";

/// Before the card in a file: magic, number, lengths of card and payload, the payload's checksum, that of all this and the
/// card.
pub(crate) const HEAD_BYTES: usize = 8 + 8 + 4 + 8 + 4 + 4;

/// Before the card in the index: the checksum of all that follows and the number; whether the payload is in a file; its length
/// and checksum; the card's length.
const ROW_BYTES: usize = 4 + 1 + 8 + 4 + 4;

/// What is stored under a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub card: Vec<u8>,
    /// Length of its payload.
    pub payload_bytes: u64,
    pub(crate) payload_crc: u32,
    /// The payload, where it lies in the index.
    pub(crate) inline: Option<Bytes>,
}

pub(crate) fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// The checksum of a payload in parts.
pub(crate) fn crc_of(payload: &[Bytes]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    payload.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn number<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}

impl Entry {
    /// Its row of the index.
    pub(crate) fn row(&self, key: u64) -> Vec<u8> {
        let inline = self.inline.as_deref().unwrap_or_default();
        let mut row = Vec::with_capacity(ROW_BYTES + self.card.len() + inline.len());
        row.extend([0; 4]);
        row.push(u8::from(self.inline.is_none()));
        row.extend(self.payload_bytes.to_le_bytes());
        row.extend(self.payload_crc.to_le_bytes());
        row.extend((self.card.len() as u32).to_le_bytes());
        row.extend(&self.card);
        row.extend(inline);
        let sum = crc(&[&row[4..], &key.to_le_bytes()]);
        row[..4].copy_from_slice(&sum.to_le_bytes());
        row
    }

    /// The entry of a row; none: it is damaged.
    pub(crate) fn of_row(key: u64, row: &[u8]) -> Option<Entry> {
        let sum = u32::from_le_bytes(number(row, 0)?);
        if crc(&[row.get(4..)?, &key.to_le_bytes()]) != sum {
            return None;
        }
        let card_bytes = u32::from_le_bytes(number(row, 17)?) as usize;
        let card = row.get(ROW_BYTES..ROW_BYTES.checked_add(card_bytes)?)?;
        let rest = &row[ROW_BYTES + card_bytes..];
        Some(Entry {
            card: card.to_vec(),
            payload_bytes: u64::from_le_bytes(number(row, 5)?),
            payload_crc: u32::from_le_bytes(number(row, 13)?),
            inline: (row[4] == 0).then(|| Bytes::copy_from_slice(rest)),
        })
    }

    /// What its file begins with.
    pub(crate) fn file_head(&self, key: u64) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES + self.card.len());
        head.extend(MAGIC);
        head.extend(key.to_le_bytes());
        head.extend((self.card.len() as u32).to_le_bytes());
        head.extend(self.payload_bytes.to_le_bytes());
        head.extend(self.payload_crc.to_le_bytes());
        let sum = crc(&[&head, &self.card]);
        head.extend(sum.to_le_bytes());
        head.extend(&self.card);
        head
    }

    /// The entry of a whole file and its payload; none: it is damaged, or another one's.
    pub(crate) fn of_file(key: u64, data: &Bytes) -> Option<(Entry, Bytes)> {
        if data.get(..8)? != MAGIC || u64::from_le_bytes(number(data, 8)?) != key {
            return None;
        }
        let card_bytes = u32::from_le_bytes(number(data, 16)?) as usize;
        let start = HEAD_BYTES.checked_add(card_bytes)?;
        let card = data.get(HEAD_BYTES..start)?;
        let sum = u32::from_le_bytes(number(data, HEAD_BYTES - 4)?);
        if crc(&[&data[..HEAD_BYTES - 4], card]) != sum {
            return None;
        }
        let entry = Entry {
            card: card.to_vec(),
            payload_bytes: u64::from_le_bytes(number(data, 20)?),
            payload_crc: u32::from_le_bytes(number(data, 28)?),
            inline: None,
        };
        let payload = data.slice(start..);
        entry.holds(&payload).then_some((entry, payload))
    }

    /// How long its file is.
    pub(crate) fn file_bytes(&self) -> u64 {
        (HEAD_BYTES + self.card.len()) as u64 + self.payload_bytes
    }

    /// Whether this is its payload.
    pub(crate) fn holds(&self, payload: &Bytes) -> bool {
        payload.len() as u64 == self.payload_bytes && crc(&[payload]) == self.payload_crc
    }
}
