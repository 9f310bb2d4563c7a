//! A UDP datagram on its way.

use std::borrow::Cow;

use bytes::BytesMut;
use units::{Ecn, fetch};

/// A UDP datagram. Streams carry zeros, so that what a datagram of modelled QUIC ends in is not kept while it is on its
/// way, only counted: a window of a satellite path would be more than a processor has cache for.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// UDP payload as far as it is kept.
    head: BytesMut,
    /// Zeros that come after it.
    zeros: u16,
    /// ECN field of its IP header.
    pub ecn: Ecn,
    /// Which connection of the flow it belongs to: source upwards, destination downwards.
    pub connection: u32,
    /// IP and UDP headers, bytes.
    pub header_bytes: u16,
}

impl Datagram {
    /// A datagram that is kept whole.
    pub fn new(payload: BytesMut, ecn: Ecn, connection: u32, header_bytes: u16) -> Datagram {
        Datagram { head: payload, zeros: 0, ecn, connection, header_bytes }
    }

    /// Bytes of its payload.
    pub fn payload_bytes(&self) -> usize {
        self.head.len() + usize::from(self.zeros)
    }

    /// The first byte of its payload; 0 if there is none.
    pub fn first_byte(&self) -> u8 {
        self.head.first().copied().unwrap_or(0)
    }

    /// Has what is kept of its payload brought.
    pub(crate) fn expect(&self) {
        fetch(&*self.head);
    }

    /// Its payload.
    pub fn payload(&self) -> Cow<'_, [u8]> {
        if self.zeros == 0 {
            return Cow::Borrowed(&self.head);
        }
        let mut whole = self.head.to_vec();
        whole.resize(self.payload_bytes(), 0);
        Cow::Owned(whole)
    }
}

/// Memory that payloads share, bytes: what one by itself would ask for costs more than all else that is done with it,
/// as allocators keep only small pieces at hand (glibc's tcache up to 1,032 bytes). Room for a dozen full packets.
const SHARED: usize = 16 << 10;

/// Bytes that are looked at together.
const PIECE: usize = 128;

/// Where an endpoint's payloads lie: apart what leaves, which is on its way for long, and what has come, whose memory
/// is soon free again.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    leaving: BytesMut,
    come: BytesMut,
}

impl Payloads {
    /// A datagram with this payload.
    pub fn pack(
        &mut self,
        payload: &[u8],
        ecn: Ecn,
        connection: u32,
        header_bytes: u16,
    ) -> Datagram {
        let kept = without_zeros(payload);
        room(&mut self.leaving, kept);
        self.leaving.extend_from_slice(&payload[..kept]);
        let zeros = (payload.len() - kept) as u16;
        Datagram { head: self.leaving.split(), zeros, ecn, connection, header_bytes }
    }

    /// The payload of `datagram`, which has come.
    pub fn unpack(&mut self, datagram: Datagram) -> BytesMut {
        let Datagram { head, zeros, .. } = datagram;
        if zeros == 0 {
            return head;
        }
        let whole = head.len() + usize::from(zeros);
        room(&mut self.come, whole);
        self.come.extend_from_slice(&head);
        self.come.resize(whole, 0);
        self.come.split()
    }
}

/// Makes room for `bytes` in `memory`: the same again if nobody holds a part of it any more.
fn room(memory: &mut BytesMut, bytes: usize) {
    if memory.capacity() < bytes {
        memory.reserve(bytes.max(SHARED));
    }
}

/// The length of `payload` without the zeros it ends in, but for a remainder: whole pieces are looked at.
fn without_zeros(payload: &[u8]) -> usize {
    let (_, pieces) = payload.as_rchunks::<PIECE>();
    let zeros = pieces.iter().rev().take_while(|piece| {
        let (words, _) = piece.as_chunks();
        words.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word)) == 0
    });
    payload.len() - PIECE * zeros.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        let mut payloads = Payloads::default();
        let mut held = Vec::new();
        for (length, last) in (0..1500).step_by(7).flat_map(|length| [(length, 0), (length, 9)]) {
            let mut payload = vec![0; length];
            if let Some(byte) = payload.get_mut(length / 3) {
                *byte = last;
            }
            let datagram = payloads.pack(&payload, Ecn::NotEct, 3, 28);
            assert!(datagram.head.len() < length / 3 + 1 + PIECE, "{length}");
            assert_eq!(datagram.payload_bytes(), length);
            assert_eq!(datagram.payload(), payload);
            assert_eq!(datagram.first_byte(), payload.first().copied().unwrap_or(0));
            held.push((payloads.unpack(datagram), payload));
        }
        // Each has memory of its own however it is shared.
        assert!(held.iter().all(|(unpacked, payload)| unpacked == payload));
    }
}
