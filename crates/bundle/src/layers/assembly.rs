//! A bundle that is being received.

use bytes::{Bytes, BytesMut};

/// What is asked for at first, whatever the peer says of the length.
const FIRST: usize = 64 << 10;

/// Room for all bundles that are being received on a connection.
#[derive(Debug)]
pub(super) struct Room {
    used: u64,
    most: u64,
}

impl Room {
    pub fn new(most: u64) -> Room {
        Room { used: 0, most }
    }
}

/// The bytes of a bundle so far. Memory follows what has come: it doubles, up to the length that the peer has said.
#[derive(Debug)]
pub(super) struct Assembly {
    data: BytesMut,
    total: Option<u64>,
}

impl Assembly {
    /// Of a bundle of so many bytes, if that is known.
    pub fn new(total: Option<u64>) -> Assembly {
        Assembly { data: BytesMut::new(), total }
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.data.len() as u64
    }

    /// Bytes of the bundle, if that is known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Appends what has come; whether there is room for it.
    pub fn push(&mut self, data: &[u8], room: &mut Room) -> bool {
        if room.used + data.len() as u64 > room.most {
            return false;
        }
        room.used += data.len() as u64;
        let needed = self.data.len() + data.len();
        if needed > self.data.capacity() {
            let known = self.total.map_or(usize::MAX, |total| total as usize).max(needed);
            let wanted = (2 * self.data.capacity()).max(FIRST).max(needed).min(known);
            self.data.reserve(wanted - self.data.len());
        }
        self.data.extend_from_slice(data);
        true
    }

    /// Gives its room back.
    pub fn leave(self, room: &mut Room) -> Bytes {
        room.used -= self.len();
        self.data.freeze()
    }
}
