//! A UDP datagram on its way.

use std::borrow::Cow;

use bytes::BytesMut;
use units::{Ecn, prefetch};

use crate::quic::TAG;

/// A UDP datagram. Streams carry zeros, so that what a datagram of modelled QUIC has before its tag is not kept while it is
/// on its way, only counted: a window of a satellite path would be more than a processor has cache for.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// UDP payload as far as it is kept.
    kept: BytesMut,
    /// Zeros before the last [`TAIL`] bytes of what is kept.
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
        Datagram { kept: payload, zeros: 0, ecn, connection, header_bytes }
    }

    /// Bytes of its payload.
    pub fn payload_bytes(&self) -> usize {
        self.kept.len() + usize::from(self.zeros)
    }

    /// The first byte of its payload; 0 if there is none.
    pub fn first_byte(&self) -> u8 {
        self.kept.first().copied().unwrap_or(0)
    }

    /// Bytes that are kept of it.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.len()
    }

    /// Has what is kept of its payload brought.
    pub(crate) fn expect(&self) {
        prefetch(&*self.kept);
    }

    /// Its payload.
    pub fn payload(&self) -> Cow<'_, [u8]> {
        if self.zeros == 0 {
            return Cow::Borrowed(&self.kept);
        }
        let (head, tail) = self.kept.split_at(self.kept.len() - TAIL);
        let mut whole = Vec::with_capacity(self.payload_bytes());
        whole.extend_from_slice(head);
        whole.resize(head.len() + usize::from(self.zeros), 0);
        whole.extend_from_slice(tail);
        Cow::Owned(whole)
    }
}

/// Memory that payloads share, bytes: what one by itself would ask for costs more than all else that is done with it,
/// as allocators keep only small pieces at hand (glibc's tcache up to 1,032 bytes). Room for a dozen full packets.
const SHARED: usize = 16 << 10;

/// Bytes at the end of a payload that are always kept: modelled QUIC's tag, which is not zero in either half once keys
/// were updated.
const TAIL: usize = TAG;

/// Bytes at the beginning of a payload behind which, if it carries a stream, mostly nothing but zeros comes: a short
/// header (RFC 9000 section 17.3.1), an ACK of a range and the head of a STREAM frame take some 40.
const HEAD: usize = 64;

/// Bytes that are looked at together where it is not so.
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
        let (body, tail) = payload.split_at(payload.len().saturating_sub(TAIL));
        let head = without_zeros(body);
        room(&mut self.leaving, head + tail.len());
        self.leaving.extend_from_slice(&body[..head]);
        self.leaving.extend_from_slice(tail);
        let zeros = (body.len() - head) as u16;
        Datagram { kept: self.leaving.split(), zeros, ecn, connection, header_bytes }
    }

    /// The payload of `datagram`, which has come.
    pub fn unpack(&mut self, datagram: Datagram) -> BytesMut {
        let whole = datagram.payload_bytes();
        let Datagram { kept, zeros, .. } = datagram;
        if zeros == 0 {
            return kept;
        }
        let (head, tail) = kept.split_at(kept.len() - TAIL);
        room(&mut self.come, whole);
        self.come.extend_from_slice(head);
        self.come.resize(whole - TAIL, 0);
        self.come.extend_from_slice(tail);
        self.come.split()
    }
}

/// Makes room for `bytes` in `memory`: the same again if nobody holds a part of it any more.
fn room(memory: &mut BytesMut, bytes: usize) {
    if memory.capacity() < bytes {
        memory.reserve(bytes.max(SHARED));
    }
}

/// The length of `payload` without the zeros it ends in, but for a remainder: all behind its head, or whole pieces.
fn without_zeros(payload: &[u8]) -> usize {
    // Each byte is as the one before it, and the first is zero: one comparison, which the C library has made quick.
    if let Some((_, rest @ [0, behind @ ..])) = payload.split_at_checked(HEAD)
        && rest[..behind.len()] == *behind
    {
        return HEAD;
    }
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
        let cases = [(0, 0), (9, 0), (0, 7), (9, 7)];
        for (length, (byte, last)) in
            (0..1500).step_by(7).flat_map(|length| cases.map(|case| (length, case)))
        {
            let mut payload = vec![0; length];
            if let Some(end) = payload.last_mut() {
                *end = last;
            }
            if let Some(place) = payload.get_mut(length / 3) {
                *place = byte;
            }
            let datagram = payloads.pack(&payload, Ecn::NotEct, 3, 28);
            assert!(datagram.kept_bytes() < length / 3 + 1 + PIECE + TAIL, "{length}");
            assert_eq!(datagram.payload_bytes(), length);
            assert_eq!(datagram.payload(), payload);
            assert_eq!(datagram.first_byte(), payload.first().copied().unwrap_or(0));
            held.push((payloads.unpack(datagram), payload));
        }
        // Each has memory of its own however it is shared.
        assert!(held.iter().all(|(unpacked, payload)| unpacked == payload));
    }
}
