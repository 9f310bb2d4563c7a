//! The encoding of an entry, in the index and in the header of a payload file. Both have the same content, so that each
//! can be restored from the other. All numbers are little-endian, checksums are CRC-32 (IEEE).

use bytes::Bytes;

/// The magic number of a payload file.
pub(crate) const MAGIC: [u8; 8] = *b"BPSTORE1";

/// The file header before the metadata: magic, key, lengths of metadata and payload, checksum of the payload, checksum
/// of these fields and the metadata.
pub(crate) const HEAD_BYTES: usize = 8 + 8 + 4 + 8 + 4 + 4;

/// The row header before the metadata. It has the checksum of all that follows and of the key, and a flag for a payload
/// in a file. The length and checksum of the payload and the length of the metadata follow.
const ROW_BYTES: usize = 4 + 1 + 8 + 4 + 4;

/// The stored value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEntry {
    /// The metadata, opaque to the store.
    pub metadata: Vec<u8>,
    /// The length of the payload.
    pub payload_bytes: u64,
    pub(crate) payload_crc: u32,
    /// The payload, if the index contains it.
    pub(crate) inline: Option<Bytes>,
}

pub(crate) fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// Returns the checksum of a payload in chunks.
pub(crate) fn parts_crc(payload: &[Bytes]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    payload.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn read_array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}

impl StoreEntry {
    /// Encodes the index row.
    pub(crate) fn to_row(&self, key: u64) -> Vec<u8> {
        let inline = self.inline.as_deref().unwrap_or_default();
        let mut row = Vec::with_capacity(ROW_BYTES + self.metadata.len() + inline.len());
        row.extend([0; 4]);
        row.push(u8::from(self.inline.is_none()));
        row.extend(self.payload_bytes.to_le_bytes());
        row.extend(self.payload_crc.to_le_bytes());
        row.extend((self.metadata.len() as u32).to_le_bytes());
        row.extend(&self.metadata);
        row.extend(inline);
        let sum = crc(&[&row[4..], &key.to_le_bytes()]);
        row[..4].copy_from_slice(&sum.to_le_bytes());
        row
    }

    /// Decodes an index row; `None` if it is damaged.
    pub(crate) fn from_row(key: u64, row: &[u8]) -> Option<StoreEntry> {
        let sum = u32::from_le_bytes(read_array(row, 0)?);
        if crc(&[row.get(4..)?, &key.to_le_bytes()]) != sum {
            return None;
        }
        let metadata_bytes = u32::from_le_bytes(read_array(row, 17)?) as usize;
        let metadata = row.get(ROW_BYTES..ROW_BYTES.checked_add(metadata_bytes)?)?;
        let rest = &row[ROW_BYTES + metadata_bytes..];
        Some(StoreEntry {
            metadata: metadata.to_vec(),
            payload_bytes: u64::from_le_bytes(read_array(row, 5)?),
            payload_crc: u32::from_le_bytes(read_array(row, 13)?),
            inline: (row[4] == 0).then(|| Bytes::copy_from_slice(rest)),
        })
    }

    /// Encodes the file header.
    pub(crate) fn to_file_head(&self, key: u64) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES + self.metadata.len());
        head.extend(MAGIC);
        head.extend(key.to_le_bytes());
        head.extend((self.metadata.len() as u32).to_le_bytes());
        head.extend(self.payload_bytes.to_le_bytes());
        head.extend(self.payload_crc.to_le_bytes());
        let sum = crc(&[&head, &self.metadata]);
        head.extend(sum.to_le_bytes());
        head.extend(&self.metadata);
        head
    }

    /// Decodes a payload file; `None` if it is damaged or has another key.
    pub(crate) fn from_file(key: u64, data: &Bytes) -> Option<(StoreEntry, Bytes)> {
        if data.get(..8)? != MAGIC || u64::from_le_bytes(read_array(data, 8)?) != key {
            return None;
        }
        let metadata_bytes = u32::from_le_bytes(read_array(data, 16)?) as usize;
        let start = HEAD_BYTES.checked_add(metadata_bytes)?;
        let metadata = data.get(HEAD_BYTES..start)?;
        let sum = u32::from_le_bytes(read_array(data, HEAD_BYTES - 4)?);
        if crc(&[&data[..HEAD_BYTES - 4], metadata]) != sum {
            return None;
        }
        let entry = StoreEntry {
            metadata: metadata.to_vec(),
            payload_bytes: u64::from_le_bytes(read_array(data, 20)?),
            payload_crc: u32::from_le_bytes(read_array(data, 28)?),
            inline: None,
        };
        let payload = data.slice(start..);
        entry.has_payload(&payload).then_some((entry, payload))
    }

    /// Returns the length of the payload file.
    pub(crate) fn file_bytes(&self) -> u64 {
        (HEAD_BYTES + self.metadata.len()) as u64 + self.payload_bytes
    }

    /// Returns whether `payload` matches length and checksum.
    pub(crate) fn has_payload(&self, payload: &Bytes) -> bool {
        payload.len() as u64 == self.payload_bytes && crc(&[payload]) == self.payload_crc
    }
}
