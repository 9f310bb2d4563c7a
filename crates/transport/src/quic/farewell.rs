//! What is left of a connection that this side has closed: the packet that said so (RFC 9000 section 10.2.1).
//!
//! Until late packets have ceased each is answered, and the answer is always the same: the ACK as it was, for nothing is
//! acknowledged any more, and CONNECTION_CLOSE. Only its number and the age of the ACK are new, and with them the
//! lengths of both, so that the answers have the size of those of the stack. That can be done with modelled cryptography
//! alone, which hides nothing.

use units::{Ecn, Time};

use super::config::CID_LENGTH;
use super::modelled::{TAG, varint};

/// Where the number of a packet with a short header stands (RFC 9000 section 17.3.1).
const NUMBER_AT: usize = 1 + CID_LENGTH;

/// The bit of the first byte that tells the keys of one generation from those of the next (RFC 9001 section 6).
const KEY_PHASE: u8 = 0x04;

/// Units of an ACK's age: microseconds by the exponent that both sides have by default (RFC 9000 section 18.2).
const AGE: u64 = 8_000;

/// How many answers are looked ahead to: the stack may leave a number out among them (RFC 9000 section 21.4), so where one of
/// them is written in more bytes than the one before, nobody knows which.
const AHEAD: u64 = 8;

/// How many numbers the stack remembers to have come. Older packets may have come before, and are ignored.
const REMEMBERED: u64 = 129;

/// Types of frames (RFC 9000 section 19).
const ACK: u8 = 2;
const ACK_ECN: u8 = 3;
const CLOSE: u8 = 0x1c;
const CLOSE_APPLICATION: u8 = 0x1d;

/// The packet that closed a connection.
#[derive(Debug)]
pub(super) struct Farewell {
    packet: Box<[u8]>,
    pub(super) ecn: Ecn,
    /// Its number, and the largest that the peer has acknowledged.
    number: u64,
    acknowledged: u64,
    /// The largest number that had come, and when, and the largest that has come since.
    come: u64,
    came: Time,
    largest: u64,
    /// Where the ACK's age stands in it, and what follows.
    age_at: usize,
    rest_at: usize,
    /// The peer has closed the connection too.
    heard: bool,
}

/// What is done with a late packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// It is answered.
    Answered,
    Ignored,
    /// The peer knows nothing of the connection (RFC 9000 section 10.3).
    Reset,
}

/// A packet with a short header.
struct Short<'a> {
    number_bytes: usize,
    /// Its number as far as it is written in its header, and the whole of it, which stands in its tag.
    written: u64,
    number: u64,
    frames: &'a [u8],
}

impl<'a> Short<'a> {
    fn read(packet: &'a [u8]) -> Option<Short<'a>> {
        let number_bytes = usize::from(packet.first()? & 3) + 1;
        let (body, tag) = packet.split_at_checked(packet.len().checked_sub(TAG)?)?;
        let (number, frames) = body.get(NUMBER_AT..)?.split_at_checked(number_bytes)?;
        let written = number.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let number = u64::from_be_bytes(*tag.last_chunk()?);
        Some(Short { number_bytes, written, number, frames })
    }

    /// Whether its number is read rightly where `expected` is next (RFC 9000 section A.3).
    fn is_genuine(&self, expected: u64) -> bool {
        let window = 1 << (8 * self.number_bytes);
        let near = expected < self.number + window / 2 && self.number <= expected + window / 2;
        self.number % window == self.written && near
    }

    /// Whether it closes the connection: nothing but an ACK comes before that.
    fn closes(&self) -> bool {
        let mut rest = self.frames;
        let _ = ack(&mut rest);
        rest.first().is_some_and(|kind| matches!(*kind, CLOSE | CLOSE_APPLICATION))
    }
}

/// Takes an ACK off `rest`: what it acknowledges at the most, its age, and what of `rest` is left before and after the age.
fn ack(rest: &mut &[u8]) -> Option<(u64, u64, [usize; 2])> {
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

/// Whether `rest` is a CONNECTION_CLOSE and nothing else.
fn is_close(mut rest: &[u8]) -> Option<bool> {
    let kind = *rest.split_off_first()?;
    varint(&mut rest)?;
    if kind == CLOSE {
        varint(&mut rest)?;
    }
    let reason = varint(&mut rest)?;
    Some(matches!(kind, CLOSE | CLOSE_APPLICATION) && reason == rest.len() as u64)
}

/// Bytes in which the stack writes a number (RFC 9000 section A.2).
fn number_bytes(number: u64, acknowledged: u64) -> usize {
    match number.saturating_sub(acknowledged) {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    }
}

/// A variable-length integer has two to the power of this many bytes (RFC 9000 section 16).
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

/// The packets with a short header in a datagram; those before them, whose keys are gone, are passed over.
fn short(mut datagram: &[u8]) -> Option<&[u8]> {
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

impl Farewell {
    /// The packet that closes a connection at `now`, if all is known of it that its answers need. The peer has acknowledged
    /// `acknowledged` at the most.
    pub(super) fn read(packet: &[u8], now: Time, ecn: Ecn, acknowledged: u64) -> Option<Farewell> {
        // Once keys were updated, it is the stack that knows whether it still has those of late packets.
        if packet.first()? & (0x80 | KEY_PHASE) != 0 {
            return None;
        }
        let Short { number_bytes: written, number, frames, .. } = Short::read(packet)?;
        let mut rest = frames;
        let (come, age, [before, after]) = ack(&mut rest)?;
        // An age of 0: what it is to be reckoned from came just now.
        let known = age == 0 && number_bytes(number, acknowledged) == written;
        // The peer writes it too, in its ACK.
        let grows = number_bytes(number + AHEAD, acknowledged) != written
            || varint_power(number + AHEAD) != varint_power(number);
        if !known || grows || !is_close(rest)? {
            return None;
        }
        let end = packet.len() - TAG;
        Some(Farewell {
            packet: packet.into(),
            ecn,
            number,
            acknowledged,
            come,
            came: now,
            largest: come,
            age_at: end - before,
            rest_at: end - after,
            heard: false,
        })
    }

    /// The stack has heard that the peer has closed the connection too.
    pub(super) fn hear(&mut self) {
        self.heard = true;
    }

    /// A late `datagram` has come; the answer is appended to `out`. `is_reset` says whether the peer, known by that
    /// connection id, ends a packet like this where it knows nothing of a connection.
    pub(super) fn receive(
        &mut self,
        now: Time,
        datagram: &[u8],
        is_reset: impl Fn(&[u8], &[u8]) -> bool,
        out: &mut Vec<u8>,
    ) -> Late {
        let packet = short(datagram).and_then(Short::read);
        let Some(packet) = packet.filter(|packet| packet.is_genuine(self.come + 1)) else {
            let reset = is_reset(&self.packet[1..NUMBER_AT], datagram);
            return if reset { Late::Reset } else { Late::Ignored };
        };
        if packet.number + REMEMBERED <= self.largest {
            return Late::Ignored;
        }
        self.largest = self.largest.max(packet.number);
        self.heard |= packet.closes();
        if self.heard {
            return Late::Ignored;
        }
        self.write(now, out);
        Late::Answered
    }

    /// The next packet that closes the connection.
    fn write(&mut self, now: Time, out: &mut Vec<u8>) {
        self.number += 1;
        let bytes = number_bytes(self.number, self.acknowledged);
        let ack_at = NUMBER_AT + usize::from(self.packet[0] & 3) + 1;
        out.push(self.packet[0] & !3 | (bytes as u8 - 1));
        out.extend_from_slice(&self.packet[1..NUMBER_AT]);
        out.extend_from_slice(&self.number.to_be_bytes()[8 - bytes..]);
        out.extend_from_slice(&self.packet[ack_at..self.age_at]);
        put_varint(out, now.since(self.came).nanos() / AGE);
        out.extend_from_slice(&self.packet[self.rest_at..self.packet.len() - 8]);
        out.extend_from_slice(&self.number.to_be_bytes());
    }
}
