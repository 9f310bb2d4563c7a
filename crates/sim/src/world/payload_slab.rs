//! Storage of the payloads in transit.

use transport::Payload;

/// Payloads in transit, by handle, with the attachment and the interface of the receiver.
#[derive(Debug, Default)]
pub(super) struct PayloadSlab {
    pub(super) entries: Vec<Option<(Payload, (usize, usize))>>,
    pub(super) free: Vec<u32>,
}

impl PayloadSlab {
    /// Returns the handle of the next payload.
    pub(super) fn next_handle(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.entries.len() as u32)
    }

    /// Stores `payload` under the handle that [`PayloadSlab::next_handle`] returned.
    pub(super) fn insert(&mut self, payload: Payload, receiver: (usize, usize)) {
        match self.free.pop() {
            Some(handle) => self.entries[handle as usize] = Some((payload, receiver)),
            None => self.entries.push(Some((payload, receiver))),
        }
    }

    /// Returns the bytes of all payloads.
    pub(super) fn bytes(&self) -> u64 {
        let payloads = self.entries.iter().flatten();
        payloads.map(|(payload, _)| u64::from(payload.wire_bytes())).sum()
    }

    pub(super) fn take(&mut self, handle: u32) -> Option<(Payload, (usize, usize))> {
        self.free.push(handle);
        self.entries[handle as usize].take()
    }
}
