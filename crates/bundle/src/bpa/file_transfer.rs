//! File transfer by a client. Each bundle identifies its file and offset, so that the server needs only bundles, in any
//! sequence.
//!
//! The mark of a client payload precedes `F`, the length of the name (two octets, big-endian) and the name in UTF-8.
//! The send ID, the file length and the offset (eight octets each) follow, then the file data.

use bytes::Bytes;

use super::BundleProtocolAgent;
use super::delivery::DATA;
use crate::wire::{Bundle, slice};

/// The mark of a file payload. In data mode this byte is zero.
const FILE_MARK: u8 = b'F';

/// The maximum length of a name.
const MAX_NAME_BYTES: usize = 255;

/// The number of bytes before and after the name.
const PREFIX_BYTES: usize = DATA.len() + 1 + 1 + 2;
const SUFFIX_BYTES: usize = 3 * 8;

/// A file that a client sends.
pub(super) struct OutgoingFile {
    name: String,
    send_id: u64,
    data: Bytes,
}

impl OutgoingFile {
    fn head_bytes(&self) -> u64 {
        (PREFIX_BYTES + self.name.len() + SUFFIX_BYTES) as u64
    }

    /// Builds part `number` of the file in a payload of `bytes`. All parts except the last have `max_payload` bytes.
    /// `head` is the start of every payload.
    pub(super) fn build_part(
        &self,
        mut head: Vec<u8>,
        number: u64,
        max_payload: u64,
        bytes: u64,
    ) -> Vec<Bytes> {
        let head_bytes = self.head_bytes();
        let size = self.data.len() as u64;
        let offset = (number * (max_payload - head_bytes)).min(size);
        head.push(FILE_MARK);
        head.extend((self.name.len() as u16).to_be_bytes());
        head.extend(self.name.as_bytes());
        for number in [self.send_id, size, offset] {
            head.extend(number.to_be_bytes());
        }
        let end = (offset + bytes.saturating_sub(head_bytes)).min(size);
        vec![head.into(), self.data.slice(offset as usize..end as usize)]
    }
}

/// A part of a file that a server received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The client.
    pub source: String,
    /// The number of the file transfer of this client.
    pub send_id: u64,
    /// The file name from the client, not validated.
    pub name: String,
    /// The file length.
    pub size: u64,
    /// The offset of the part, which ends within the file.
    pub offset: u64,
    /// The bytes.
    pub data: Vec<Bytes>,
}

impl FilePart {
    /// Parses the payload of a client bundle. Returns `None` if it has no file part or an inconsistent one.
    pub fn from_bundle(bundle: &Bundle) -> Option<FilePart> {
        let head = slice(&bundle.payload, 0, (PREFIX_BYTES + MAX_NAME_BYTES + SUFFIX_BYTES) as u64)
            .concat();
        let rest = head.strip_prefix(DATA)?.get(1..)?.strip_prefix(&[FILE_MARK])?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        if length > MAX_NAME_BYTES {
            return None;
        }
        let (name, rest) = rest.split_at_checked(length)?;
        let (send_id, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (offset, _) = rest.split_first_chunk()?;
        let [send_id, size, offset] =
            [send_id, size, offset].map(|eight| u64::from_be_bytes(*eight));
        let (from, to) = ((PREFIX_BYTES + length + SUFFIX_BYTES) as u64, bundle.payload_bytes());
        let end = offset.checked_add(to.checked_sub(from)?)?;
        let sound = from < to && end <= size;
        Some(FilePart {
            source: bundle.id.source.to_string(),
            send_id,
            name: String::from_utf8(name.to_vec()).ok()?,
            size,
            offset,
            data: slice(&bundle.payload, from, to),
        })
        .filter(|_| sound)
    }
}

impl BundleProtocolAgent {
    /// Sends this file as `name` from client `number` of this node; each call needs another `send_id`. The amount of
    /// the client becomes the file and the headers of its parts.
    ///
    /// # Errors
    /// The client does not exist, or the file or its name has an invalid length.
    pub fn send_file(
        &mut self,
        number: usize,
        name: &str,
        send_id: u64,
        data: Bytes,
    ) -> Result<(), String> {
        let client =
            self.perf_clients.get_mut(number).ok_or("the node has no client to send files")?;
        if name.len() > MAX_NAME_BYTES {
            return Err(format!(
                "{name}: found a name of {} bytes, expected at most {MAX_NAME_BYTES}",
                name.len()
            ));
        }
        let file = OutgoingFile { name: name.to_owned(), send_id, data };
        client.set_file_size(file.head_bytes(), file.data.len() as u64)?;
        client.file = Some(file);
        Ok(())
    }

    /// Stores the file parts that arrive at the server from now on.
    pub fn accept_files(&mut self) {
        self.file_parts.get_or_insert_default();
    }

    /// Returns and removes the received file parts.
    pub fn take_file_parts(&mut self) -> Vec<FilePart> {
        self.file_parts.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Handles a bundle for the server.
    pub(super) fn receive_file_part(&mut self, bundle: &Bundle) {
        if let Some(files) = &mut self.file_parts {
            files.extend(FilePart::from_bundle(bundle));
        }
    }
}
