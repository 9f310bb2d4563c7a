//! What an observer beside an endpoint knows of a connection: the largest packet numbers, the
//! connection ids issued, and which packets are outstanding (RFC 9002 appendix A).

use std::collections::BTreeMap;

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
}

/// A packet number space (RFC 9000 section 12.3).
#[derive(Debug, Default)]
struct Space {
    /// Largest sent and received.
    largest: [Option<u64>; 2],
    largest_acked: Option<u64>,
    outstanding: BTreeMap<u64, Outstanding>,
    last_eliciting: u64,
    quiet_tail: u64,
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
#[derive(Debug, Default)]
pub struct Track {
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
            self.spaces[index].sent(number, Outstanding { sent: now, bytes }, eliciting);
        }
        // Keys are discarded, and with them what is outstanding (RFC 9001 section 4.9): the client
        // has sent, the server received a Handshake packet; the handshake is confirmed.
        if packet.kind == PacketType::Handshake {
            self.spaces[0].outstanding.clear();
        }
        if confirmed {
            self.spaces[1].outstanding.clear();
        }
        number
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
                space.outstanding.remove(&number);
            }
        }
    }

    /// The stack has declared `count` more packets of `bytes` in flight lost: which. Loss detection
    /// (RFC 9002 section 6.1) goes by age and by distance from the largest acknowledged, so what it
    /// takes are the oldest outstanding packets of a space; the bytes confirm it. None if
    /// they do not.
    pub fn lost(&mut self, count: u64, bytes: u64, threshold: u64) -> Option<Vec<Lost>> {
        for index in [2, 1, 0] {
            let space = &mut self.spaces[index];
            let Some(largest) = space.largest_acked else { continue };
            let oldest = || space.outstanding.range(..largest).take(count as usize);
            let known = oldest().fold((0, 0), |(n, sum), (_, packet)| (n + 1, sum + packet.bytes));
            if known != (count, bytes) {
                continue;
            }
            let kind = KINDS[index];
            let lost: Vec<Lost> = oldest()
                .map(|(&number, _)| Lost {
                    kind,
                    number,
                    by_reordering: largest - number >= threshold,
                })
                .collect();
            for packet in &lost {
                space.outstanding.remove(&packet.number);
            }
            return Some(lost);
        }
        None
    }
}

impl Space {
    /// The stack remembers a limited number of packets that elicit no ACK after the newest that
    /// does; the oldest of them is forgotten first.
    fn sent(&mut self, number: u64, packet: Outstanding, eliciting: bool) {
        if eliciting {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(numbers: std::ops::Range<u64>) -> Track {
        let mut track = Track::default();
        for number in numbers {
            let packet = Outstanding { sent: Time(number), bytes: 1000 + number };
            track.spaces[2].sent(number, packet, true);
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
    fn a_long_tail_of_acks_is_forgotten() {
        let mut space = Space::default();
        for number in 0..5000 {
            space.sent(number, Outstanding { sent: Time::ZERO, bytes: 0 }, false);
        }
        assert!(space.outstanding.len() as u64 <= QUIET_TAIL + 3);
    }
}
