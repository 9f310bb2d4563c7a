//! What an observer beside an endpoint knows of a connection: the largest packet numbers, the
//! connection ids issued, and which packets are outstanding (RFC 9002 appendix A).

use std::collections::BTreeMap;

use transport::Side;
use units::Time;

use super::frames::{Ack, Frame, Opened, Packet, PacketType, expand};

/// Outstanding packets without an ack-eliciting one after them that the stack remembers.
const QUIET_TAIL: u64 = 1000;

/// Which way a packet goes, seen from the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Sent.
    Out,
    /// Received.
    In,
}

/// A packet that was sent and is neither acknowledged nor declared lost.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    sent: Time,
    /// Bytes in flight: none of a packet without ack-eliciting frames or padding.
    bytes: u64,
    eliciting: bool,
}

/// A packet number space (RFC 9000 section 12.3).
#[derive(Debug, Default)]
struct Space {
    /// Largest sent and received.
    largest: [Option<u64>; 2],
    largest_acked: Option<u64>,
    outstanding: BTreeMap<u64, Outstanding>,
    last_eliciting: u64,
    /// Outstanding packets after that.
    quiet_tail: u64,
    /// A received packet told the endpoint to discard the keys.
    discarded: bool,
}

/// A packet declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its type; 0-RTT packets are of the same space as 1-RTT packets.
    pub kind: PacketType,
    /// Its number.
    pub number: u64,
    /// The packet threshold (RFC 9002 section 6.1.1) alone would have sufficed.
    pub by_reordering: bool,
}

/// What is known of a connection.
#[derive(Debug)]
pub struct Track {
    side: Side,
    spaces: [Space; 3],
    /// Connection ids by which the peer, and the endpoint, may be called.
    ids: [Vec<Vec<u8>>; 2],
    /// When the newest packet that is acknowledged was sent.
    pub newest_acked: Option<Time>,
}

fn space_of(kind: PacketType) -> Option<usize> {
    match kind {
        PacketType::Initial => Some(0),
        PacketType::Handshake => Some(1),
        PacketType::ZeroRtt | PacketType::OneRtt => Some(2),
        PacketType::Retry | PacketType::VersionNegotiation => None,
    }
}

const KINDS: [PacketType; 3] = [PacketType::Initial, PacketType::Handshake, PacketType::OneRtt];

impl Track {
    /// Nothing is known yet.
    pub fn new(side: Side) -> Track {
        Track { side, spaces: Default::default(), ids: Default::default(), newest_acked: None }
    }

    /// Whether the receiver of a short header ever issued its connection id. A packet with
    /// another is a stateless reset (RFC 9000 section 10.3).
    pub fn knows(&self, way: Way, packet: &Packet<'_>) -> bool {
        packet.kind != PacketType::OneRtt
            || self.ids[way as usize].iter().any(|id| id == packet.destination)
    }

    /// Takes note of a packet; returns its number.
    pub fn packet(&mut self, now: Time, way: Way, packet: &Packet<'_>, opened: &Opened<'_>) -> u64 {
        let Some(index) = space_of(packet.kind) else { return 0 };
        let space = &mut self.spaces[index];
        let largest = &mut space.largest[way as usize];
        let number = expand(*largest, opened.truncated, opened.bits);
        *largest = Some(largest.map_or(number, |largest| largest.max(number)));
        if packet.kind != PacketType::OneRtt {
            self.issued(way, packet.source);
        }
        let (mut eliciting, mut padded, mut confirmed) = (false, false, false);
        for frame in opened.frames.flatten() {
            eliciting |= frame.is_ack_eliciting();
            match frame {
                Frame::Padding { .. } => padded = true,
                Frame::HandshakeDone => confirmed = true,
                Frame::NewConnectionId { id, .. } => self.issued(way, id),
                Frame::Ack(ack) if way == Way::In => self.acked(index, &ack),
                _ => {}
            }
        }
        if way == Way::Out {
            let bytes = if eliciting || padded { packet.bytes as u64 } else { 0 };
            self.spaces[index].sent(number, Outstanding { sent: now, bytes, eliciting });
        }
        // Keys are discarded, and with them what is outstanding (RFC 9001 section 4.9): the client
        // has sent, the server received a Handshake packet; the handshake is confirmed.
        let sender = if self.side == Side::Client { Way::Out } else { Way::In };
        if packet.kind == PacketType::Handshake && way == sender {
            self.discard(0, way);
        }
        if confirmed {
            self.discard(1, way);
        }
        number
    }

    /// What a received packet discards may first be declared lost because of the same datagram.
    fn discard(&mut self, index: usize, way: Way) {
        let space = &mut self.spaces[index];
        space.discarded = way == Way::In;
        if way == Way::Out {
            space.outstanding.clear();
        }
    }

    /// The endpoint has worked, and what was lost was asked for.
    pub fn settle(&mut self) {
        for space in &mut self.spaces {
            if std::mem::take(&mut space.discarded) {
                space.outstanding.clear();
            }
        }
    }

    /// The sender of a packet that goes `way` issued a connection id: its peer calls it so.
    fn issued(&mut self, way: Way, id: &[u8]) {
        let callers = match way {
            Way::Out => Way::In,
            Way::In => Way::Out,
        };
        let ids = &mut self.ids[callers as usize];
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_vec());
        }
    }

    fn acked(&mut self, index: usize, ack: &Ack<'_>) {
        let space = &mut self.spaces[index];
        space.largest_acked = Some(space.largest_acked.map_or(ack.largest, |n| n.max(ack.largest)));
        for (low, high) in ack.ranges() {
            while let Some((&number, packet)) = space.outstanding.range(low..=high).next() {
                self.newest_acked = self.newest_acked.max(Some(packet.sent));
                space.take(number);
            }
        }
    }

    /// The stack has declared `count` more packets of `bytes` in flight lost: which. Loss detection
    /// (RFC 9002 section 6.1) goes by age and by distance from the largest acknowledged, so what it
    /// takes are the oldest outstanding packets of a space; the bytes confirm it. None if they do
    /// not.
    pub fn lost(&mut self, count: u64, bytes: u64, threshold: u64) -> Option<Vec<Lost>> {
        let [initial, handshake, data] = [0, 1, 2].map(|index| self.spaces[index].oldest(count));
        let count = count as usize;
        // How many of each space; nearly always all are data.
        let mut shares = (0..initial.len())
            .flat_map(|first| (0..handshake.len()).map(move |second| (first, second)))
            .filter_map(|(first, second)| {
                Some([first, second, count.checked_sub(first + second)?])
            });
        let shares = shares.find(|[first, second, third]| {
            data.get(*third).is_some_and(|sum| initial[*first] + handshake[*second] + sum == bytes)
        })?;
        let mut lost = Vec::with_capacity(count);
        for ((space, kind), share) in self.spaces.iter_mut().zip(KINDS).zip(shares) {
            let largest = space.largest_acked.unwrap_or(0);
            for _ in 0..share {
                let (&number, _) = space.outstanding.first_key_value()?;
                space.take(number);
                lost.push(Lost { kind, number, by_reordering: largest - number >= threshold });
            }
        }
        Some(lost)
    }
}

impl Space {
    /// The stack remembers a limited number of packets that elicit no ACK after the newest that
    /// does; the oldest of them is forgotten first.
    fn sent(&mut self, number: u64, packet: Outstanding) {
        if packet.eliciting {
            self.quiet_tail = 0;
            self.last_eliciting = number;
        } else if self.quiet_tail > QUIET_TAIL {
            let oldest = self.outstanding.range(self.last_eliciting + 1..).next();
            if let Some(oldest) = oldest.map(|(number, _)| *number) {
                self.outstanding.remove(&oldest);
            }
        } else {
            self.quiet_tail += 1;
        }
        self.outstanding.insert(number, packet);
    }

    /// A packet was acknowledged or declared lost.
    fn take(&mut self, number: u64) {
        let packet = self.outstanding.remove(&number);
        if packet.is_some_and(|packet| !packet.eliciting) && number > self.last_eliciting {
            self.quiet_tail = self.quiet_tail.saturating_sub(1);
        }
    }

    /// Sums of the bytes of the oldest 0, 1, ... `count` outstanding packets that an ACK has passed.
    fn oldest(&self, count: u64) -> Vec<u64> {
        let passed = self.outstanding.range(..self.largest_acked.unwrap_or(0));
        let mut sums = vec![0];
        for (_, packet) in passed.take(count as usize) {
            sums.push(sums[sums.len() - 1] + packet.bytes);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outstanding(bytes: u64, eliciting: bool) -> Outstanding {
        Outstanding { sent: Time::ZERO, bytes, eliciting }
    }

    fn track(numbers: std::ops::Range<u64>) -> Track {
        let mut track = Track::new(Side::Client);
        for number in numbers {
            track.spaces[2].sent(number, outstanding(1000 + number, true));
        }
        track.spaces[2].largest_acked = Some(9);
        track
    }

    #[test]
    fn the_oldest_are_lost_if_the_bytes_agree() {
        let mut track = track(0..10);
        let lost = track.lost(2, 2001, 3).unwrap();
        assert_eq!(lost.iter().map(|lost| lost.number).collect::<Vec<_>>(), [0, 1]);
        assert!(lost.iter().all(|lost| lost.by_reordering));
        assert_eq!(track.lost(2, 2001, 3), None);
        let lost = track.lost(7, 7 * 1000 + 35, 3).unwrap();
        assert!(!lost[6].by_reordering && lost[4].by_reordering);
        // Nothing at or above the largest acknowledged is ever lost.
        assert_eq!(track.lost(1, 1009, 3), None);
    }

    #[test]
    fn losses_of_several_spaces_are_told_apart_by_their_bytes() {
        let mut track = track(0..10);
        track.spaces[0].sent(0, outstanding(142, true));
        track.spaces[0].largest_acked = Some(1);
        let lost = track.lost(2, 1142, 3).unwrap();
        let kinds: Vec<_> = lost.iter().map(|lost| (lost.kind, lost.number)).collect();
        assert_eq!(kinds, [(PacketType::Initial, 0), (PacketType::OneRtt, 0)]);
    }

    #[test]
    fn a_long_tail_of_acks_is_forgotten() {
        let mut space = Space::default();
        for number in 0..5000 {
            space.sent(number, outstanding(0, false));
        }
        assert!(space.outstanding.len() as u64 <= QUIET_TAIL + 3);
    }
}
