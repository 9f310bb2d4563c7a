//! A client that sends a file: a bundle says which part of which file it has, so that the server needs nothing but bundles, in
//! any order.
//!
//! Behind the mark of a client's payload: `F`, the length of the name (two octets, the higher one first), the name in UTF-8, the
//! number of the sending, the file's length and where the part begins (eight octets each); the rest is the part.

use bytes::Bytes;

use super::Agent;
use super::deliver::DATA;
use crate::wire::{Bundle, slice};

/// A payload of a file: behind the mark, where data mode has zero.
const FILE: u8 = b'F';

/// Longest name.
const NAME: usize = 255;

/// What is before the name, and behind it.
const BEFORE: usize = DATA.len() + 1 + 1 + 2;
const BEHIND: usize = 3 * 8;

/// A file that a client sends.
pub(super) struct Outgoing {
    name: String,
    sending: u64,
    data: Bytes,
}

impl Outgoing {
    fn head_bytes(&self) -> u64 {
        (BEFORE + self.name.len() + BEHIND) as u64
    }

    /// Part number `number`, in a payload of `bytes`, of which all but the last have `most`; `head` is what any payload begins
    /// with.
    pub(super) fn part(&self, mut head: Vec<u8>, number: u64, most: u64, bytes: u64) -> Vec<Bytes> {
        let own = self.head_bytes();
        let size = self.data.len() as u64;
        let offset = (number * (most - own)).min(size);
        head.push(FILE);
        head.extend((self.name.len() as u16).to_be_bytes());
        head.extend(self.name.as_bytes());
        for number in [self.sending, size, offset] {
            head.extend(number.to_be_bytes());
        }
        let end = (offset + bytes.saturating_sub(own)).min(size);
        vec![head.into(), self.data.slice(offset as usize..end as usize)]
    }
}

/// A part of a file that a server has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The client.
    pub source: String,
    /// Which of its sendings.
    pub sending: u64,
    /// The file's name, as the client says it.
    pub name: String,
    /// The file's length.
    pub size: u64,
    /// Where this begins; it ends within the file.
    pub offset: u64,
    /// The bytes.
    pub data: Vec<Bytes>,
}

impl FilePart {
    /// The part in the payload of a client's bundle; none: it has none, or one that contradicts itself.
    pub fn of(bundle: &Bundle) -> Option<FilePart> {
        let head = slice(&bundle.payload, 0, (BEFORE + NAME + BEHIND) as u64).concat();
        let rest = head.strip_prefix(DATA)?.get(1..)?.strip_prefix(&[FILE])?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        if length > NAME {
            return None;
        }
        let (name, rest) = rest.split_at_checked(length)?;
        let (sending, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (offset, _) = rest.split_first_chunk()?;
        let [sending, size, offset] =
            [sending, size, offset].map(|eight| u64::from_be_bytes(*eight));
        let (from, to) = ((BEFORE + length + BEHIND) as u64, bundle.payload_bytes());
        let end = offset.checked_add(to.checked_sub(from)?)?;
        let sound = from < to && end <= size;
        Some(FilePart {
            source: bundle.id.source.to_string(),
            sending,
            name: String::from_utf8(name.to_vec()).ok()?,
            size,
            offset,
            data: slice(&bundle.payload, from, to),
        })
        .filter(|_| sound)
    }
}

impl Agent {
    /// This node's client number `number` sends this file, called `name`, in bundles of its payload; `sending` is another number
    /// each time. What the client is to send in all is the file and the heads of its parts.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn send_file(
        &mut self,
        number: usize,
        name: &str,
        sending: u64,
        data: Bytes,
    ) -> Result<(), String> {
        let client =
            self.clients.get_mut(number).ok_or("there is no client that could send a file")?;
        if name.len() > NAME {
            return Err(format!("{name}: a name has at most {NAME} bytes"));
        }
        let file = Outgoing { name: name.to_owned(), sending, data };
        client.send_file(file.head_bytes(), file.data.len() as u64)?;
        client.file = Some(file);
        Ok(())
    }

    /// From now on it keeps the parts of files that come to its server.
    pub fn want_files(&mut self) {
        self.files.get_or_insert_default();
    }

    /// What has come of files since the last call.
    pub fn take_files(&mut self) -> Vec<FilePart> {
        self.files.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A bundle has come to the server.
    pub(super) fn take_part(&mut self, bundle: &Bundle) {
        if let Some(files) = &mut self.files {
            files.extend(FilePart::of(bundle));
        }
    }
}
