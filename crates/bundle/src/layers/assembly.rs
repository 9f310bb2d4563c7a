//! A bundle that is being received.

use bytes::Bytes;

use crate::pieces::Pieces;

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

/// The bytes of a bundle so far. Memory follows what has come, whatever the peer says of the length.
#[derive(Debug)]
pub(super) struct Assembly {
    pieces: Pieces,
    total: Option<u64>,
}

impl Assembly {
    /// Of a bundle of so many bytes, if that is known.
    pub fn new(total: Option<u64>) -> Assembly {
        Assembly { pieces: Pieces::default(), total }
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.pieces.bytes()
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
        let after = self.len() + data.len() as u64;
        self.pieces.push(data, self.total.map(|total| total.saturating_sub(after)));
        true
    }

    /// Gives its room back.
    pub fn leave(self, room: &mut Room) -> Vec<Bytes> {
        room.used -= self.len();
        self.pieces.into_parts()
    }
}
