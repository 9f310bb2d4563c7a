//! A bundle that is being received, and the room for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;

use crate::pieces::Pieces;

/// Room for the bundles that are being received on all connections of a node, whatever each of them may have.
#[derive(Clone, Debug)]
pub struct SharedRoom(Arc<AtomicI64>);

impl SharedRoom {
    /// Of so many bytes.
    pub fn new(bytes: u64) -> SharedRoom {
        SharedRoom(Arc::new(AtomicI64::new(bytes as i64)))
    }

    /// Bytes of it that nobody has.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0) as u64
    }

    fn take(&self, bytes: u64) -> bool {
        let less = |left: i64| (left >= bytes as i64).then(|| left - bytes as i64);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give(&self, bytes: u64) {
        self.0.fetch_add(bytes as i64, Ordering::Relaxed);
    }
}

impl PartialEq for SharedRoom {
    fn eq(&self, other: &SharedRoom) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedRoom {}

/// Room for all bundles that are being received on a connection.
#[derive(Debug)]
pub(super) struct Room {
    used: u64,
    most: u64,
    shared: Option<SharedRoom>,
}

impl Room {
    pub fn new(most: u64, shared: Option<SharedRoom>) -> Room {
        Room { used: 0, most, shared }
    }

    /// Takes so many bytes if there are as many.
    pub fn take(&mut self, bytes: u64) -> bool {
        if self.used + bytes > self.most || !self.shared.as_ref().is_none_or(|all| all.take(bytes))
        {
            return false;
        }
        self.used += bytes;
        true
    }

    /// Takes so many whatever there is.
    pub fn overdraw(&mut self, bytes: u64) {
        self.used += bytes;
        if let Some(all) = &self.shared {
            all.0.fetch_sub(bytes as i64, Ordering::Relaxed);
        }
    }

    pub fn is_overdrawn(&self) -> bool {
        let all = self.shared.as_ref().is_some_and(|all| all.0.load(Ordering::Relaxed) < 0);
        self.used > self.most || all
    }

    pub fn give(&mut self, bytes: u64) {
        self.used -= bytes;
        if let Some(all) = &self.shared {
            all.give(bytes);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give(self.used);
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
        if !room.take(data.len() as u64) {
            return false;
        }
        let after = self.len() + data.len() as u64;
        self.pieces.push(data, self.total.map(|total| total.saturating_sub(after)));
        true
    }

    /// Gives its room back.
    pub fn leave(self, room: &mut Room) -> Vec<Bytes> {
        room.give(self.len());
        self.pieces.into_parts()
    }
}
