//! State of a connection that this side has closed: the packet with CONNECTION_CLOSE (RFC 9000 section 10.2.1).
//!
//! Each late packet gets the same response until they cease: the ACK and CONNECTION_CLOSE. The ACK is unchanged,
//! because no packet is acknowledged any more. Only the packet number and the ACK delay are new, and with them the
//! lengths of both. So the responses have the sizes of the stack's. This works with modelled cryptography only, which
//! does not encrypt.

use units::{Ecn, Time};

use crate::quic::modelled_tls::{TAG, varint};
use crate::quic::stack::{CID_LENGTH, Stack};

/// Offset of the packet number in a packet with a short header (RFC 9000 section 17.3.1).
const PACKET_NUMBER_AT: usize = 1 + CID_LENGTH;

/// The key phase bit in the first byte: it distinguishes keys of consecutive generations (RFC 9001 section 6).
const KEY_PHASE: u8 = 0x04;

/// Unit of the ACK delay, ns: microseconds with the default exponent of both sides (RFC 9000 section 18.2).
const ACK_DELAY_UNIT_NS: u64 = 8_000;

/// Number of responses to look ahead. The stack may skip a packet number among them (RFC 9000 section 21.4). If one
/// needs a longer number than the one before, it is unknown which one.
const LOOKAHEAD_PACKETS: u64 = 8;

/// Types of frames (RFC 9000 section 19).
const ACK: u8 = 2;
const ACK_ECN: u8 = 3;
const CONNECTION_CLOSE: u8 = 0x1c;
const CONNECTION_CLOSE_APP: u8 = 0x1d;

/// The packet that closed a connection.
#[derive(Debug)]
pub(in crate::quic::driver) struct ClosingState {
    packet: Box<[u8]>,
    pub(in crate::quic::driver) ecn: Ecn,
    /// Its packet number, and the largest number that the peer has acknowledged.
    number: u64,
    largest_acked: u64,
    /// The largest number received before it with its time, and the largest received since.
    largest_received: u64,
    received_at: Time,
    largest_late: u64,
    /// Offsets of the ACK delay in the packet, and of the bytes after it.
    ack_delay_at: usize,
    after_ack_delay: usize,
    /// The peer has closed the connection too.
    peer_closed: bool,
}

/// Handling of a late packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::quic::driver) enum LatePacket {
    /// Send a response.
    Respond,
    Ignore,
    /// The peer does not know the connection (RFC 9000 section 10.3).
    Reset,
}

/// A packet with a short header.
struct ShortHeaderPacket<'a> {
    number_bytes: usize,
    /// The number in the header, and the full number, which the tag contains.
    truncated_number: u64,
    number: u64,
    frames: &'a [u8],
}

impl<'a> ShortHeaderPacket<'a> {
    fn read(packet: &'a [u8]) -> Option<ShortHeaderPacket<'a>> {
        let number_bytes = usize::from(packet.first()? & 3) + 1;
        let (body, tag) = packet.split_at_checked(packet.len().checked_sub(TAG)?)?;
        let (number, frames) = body.get(PACKET_NUMBER_AT..)?.split_at_checked(number_bytes)?;
        let truncated_number = number.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let number = u64::from_be_bytes(*tag.last_chunk()?);
        Some(ShortHeaderPacket { number_bytes, truncated_number, number, frames })
    }

    /// Returns whether the number decodes correctly if `expected` is next (RFC 9000 section A.3).
    fn is_genuine(&self, expected: u64) -> bool {
        let window = 1 << (8 * self.number_bytes);
        let near = expected < self.number + window / 2 && self.number <= expected + window / 2;
        self.number % window == self.truncated_number && near
    }

    /// Returns whether the packet closes the connection: only an ACK may precede CONNECTION_CLOSE.
    fn has_connection_close(&self) -> bool {
        let mut rest = self.frames;
        let _ = take_ack(&mut rest);
        rest.first().is_some_and(|kind| matches!(*kind, CONNECTION_CLOSE | CONNECTION_CLOSE_APP))
    }
}

/// Takes an ACK off `rest`. Returns its largest number, its delay, and the lengths of `rest` around the delay.
fn take_ack(rest: &mut &[u8]) -> Option<(u64, u64, [usize; 2])> {
    let mut left = *rest;
    let kind = *left.split_off_first()?;
    let largest = varint(&mut left)?;
    let before = left.len();
    let age = varint(&mut left)?;
    let after = left.len();
    let ranges = varint(&mut left)?;
    let counts = match kind {
        ACK => 0,
        ACK_ECN => 3,
        _ => return None,
    };
    for _ in 0..1 + 2 * ranges + counts {
        varint(&mut left)?;
    }
    *rest = left;
    Some((largest, age, [before, after]))
}

/// Returns whether `rest` consists of one CONNECTION_CLOSE.
fn is_connection_close(mut rest: &[u8]) -> Option<bool> {
    let kind = *rest.split_off_first()?;
    varint(&mut rest)?;
    if kind == CONNECTION_CLOSE {
        varint(&mut rest)?;
    }
    let reason = varint(&mut rest)?;
    Some(matches!(kind, CONNECTION_CLOSE | CONNECTION_CLOSE_APP) && reason == rest.len() as u64)
}

/// Returns the bytes that the stack uses for a packet number (RFC 9000 section A.2).
fn number_bytes(number: u64, acknowledged: u64) -> usize {
    match number.saturating_sub(acknowledged) {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    }
}

/// Returns the binary logarithm of the length of a variable-length integer (RFC 9000 section 16).
fn varint_power(value: u64) -> u32 {
    match value {
        0..0x40 => 0,
        0x40..0x4000 => 1,
        0x4000..0x4000_0000 => 2,
        _ => 3,
    }
}

/// Appends a variable-length integer.
fn put_varint(out: &mut Vec<u8>, value: u64) {
    let power = varint_power(value);
    let bytes = (value | u64::from(power) << ((8 << power) - 2)).to_be_bytes();
    out.extend_from_slice(&bytes[8 - (1 << power)..]);
}

/// Returns the short-header packet of a datagram. Skips packets before it, which have discarded keys.
fn short_header_packet(mut datagram: &[u8]) -> Option<&[u8]> {
    while datagram.first()? & 0x80 != 0 {
        let mut rest = datagram.get(5..)?;
        for _ in 0..2 {
            let length = *rest.split_off_first()?;
            rest = rest.get(usize::from(length)..)?;
        }
        if datagram[0] >> 4 & 3 == 0 {
            let token = varint(&mut rest)?;
            rest = rest.get(usize::try_from(token).ok()?..)?;
        }
        let length = varint(&mut rest)?;
        datagram = rest.get(usize::try_from(length).ok()?..)?;
    }
    Some(datagram)
}

impl ClosingState {
    /// Reads the packet that closes a connection at `now`. Returns `None` if it lacks information for the responses.
    /// `largest_acked` is the largest number that the peer has acknowledged.
    pub(in crate::quic::driver) fn read(
        packet: &[u8],
        now: Time,
        ecn: Ecn,
        largest_acked: u64,
    ) -> Option<ClosingState> {
        // After a key update, only the stack knows whether it still has the keys of late packets.
        if packet.first()? & (0x80 | KEY_PHASE) != 0 {
            return None;
        }
        let ShortHeaderPacket { number_bytes: written, number, frames, .. } =
            ShortHeaderPacket::read(packet)?;
        let mut rest = frames;
        let (largest_received, ack_delay, [before, after]) = take_ack(&mut rest)?;
        // An ACK delay of 0: the packet from which it counts arrived at this instant.
        let known = ack_delay == 0 && number_bytes(number, largest_acked) == written;
        // The peer encodes this number too, in its ACK.
        let grows = number_bytes(number + LOOKAHEAD_PACKETS, largest_acked) != written
            || varint_power(number + LOOKAHEAD_PACKETS) != varint_power(number);
        if !known || grows || !is_connection_close(rest)? {
            return None;
        }
        let end = packet.len() - TAG;
        Some(ClosingState {
            packet: packet.into(),
            ecn,
            number,
            largest_acked,
            largest_received,
            received_at: now,
            largest_late: largest_received,
            ack_delay_at: end - before,
            after_ack_delay: end - after,
            peer_closed: false,
        })
    }

    /// Records that the peer has closed the connection too.
    pub(in crate::quic::driver) fn on_peer_close(&mut self) {
        self.peer_closed = true;
    }

    /// Handles a late `datagram` as the stack does, and appends the response to `out`.
    pub(in crate::quic::driver) fn receive<S: Stack>(
        &mut self,
        now: Time,
        datagram: &[u8],
        out: &mut Vec<u8>,
    ) -> LatePacket {
        let packet = short_header_packet(datagram).and_then(ShortHeaderPacket::read);
        let Some(packet) = packet.filter(|packet| packet.is_genuine(self.largest_received + 1))
        else {
            let reset = S::is_stateless_reset(&self.packet[1..PACKET_NUMBER_AT], datagram);
            return if reset { LatePacket::Reset } else { LatePacket::Ignore };
        };
        if packet.number + S::DEDUP_WINDOW <= self.largest_late {
            return LatePacket::Ignore;
        }
        self.largest_late = self.largest_late.max(packet.number);
        self.peer_closed |= packet.has_connection_close();
        if self.peer_closed {
            return LatePacket::Ignore;
        }
        self.write(now, out);
        LatePacket::Respond
    }

    /// Writes the next packet that closes the connection.
    fn write(&mut self, now: Time, out: &mut Vec<u8>) {
        self.number += 1;
        let bytes = number_bytes(self.number, self.largest_acked);
        let ack_at = PACKET_NUMBER_AT + usize::from(self.packet[0] & 3) + 1;
        out.push(self.packet[0] & !3 | (bytes as u8 - 1));
        out.extend_from_slice(&self.packet[1..PACKET_NUMBER_AT]);
        out.extend_from_slice(&self.number.to_be_bytes()[8 - bytes..]);
        out.extend_from_slice(&self.packet[ack_at..self.ack_delay_at]);
        put_varint(out, now.since(self.received_at).nanos() / ACK_DELAY_UNIT_NS);
        out.extend_from_slice(&self.packet[self.after_ack_delay..self.packet.len() - 8]);
        out.extend_from_slice(&self.number.to_be_bytes());
    }
}
