//! Connection state inferred by an observer at an endpoint: largest packet numbers, issued connection ids, and
//! outstanding packets (RFC 9002 appendix A).

use std::collections::BTreeMap;

use transport::Side;
use units::Time;

use super::quic_parser::{
    AckFrame, Frame, PacketType, PlainPacket, QuicPacket, expand_packet_number,
};

/// The stack's limit of outstanding packets after the last ack-eliciting one.
const MAX_NON_ELICITING_TAIL: u64 = 1000;

/// The direction of a packet, relative to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDirection {
    /// A sent packet.
    Out,
    /// A received packet.
    In,
}

/// A packet that is neither acknowledged nor declared lost.
#[derive(Clone, Copy, Debug)]
struct OutstandingPacket {
    sent_at: Time,
    /// Bytes in flight; 0 without ack-eliciting or padding frames.
    bytes: u64,
    is_ack_eliciting: bool,
}

/// A packet number space (RFC 9000 section 12.3).
#[derive(Debug, Default)]
struct PacketNumberSpace {
    /// The largest sent and received packet number.
    largest: [Option<u64>; 2],
    largest_acked: Option<u64>,
    outstanding: BTreeMap<u64, OutstandingPacket>,
    last_eliciting_number: u64,
    /// Outstanding packets after `last_eliciting_number`.
    non_eliciting_tail: u64,
    /// Whether a received packet caused the endpoint to discard the keys.
    has_discarded_keys: bool,
}

/// A packet declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPacket {
    /// The packet type. 0-RTT packets share the space of 1-RTT packets.
    pub packet_type: PacketType,
    /// The packet number.
    pub number: u64,
    /// Whether the packet threshold (RFC 9002 section 6.1.1) alone is sufficient.
    pub is_reordering_loss: bool,
}

/// The inferred state of a connection.
#[derive(Debug)]
pub struct ConnectionObserver {
    side: Side,
    spaces: [PacketNumberSpace; 3],
    /// The connection ids that packets to the peer and to the endpoint can carry.
    connection_ids: [Vec<Vec<u8>>; 2],
    /// The send time of the newest acknowledged packet.
    pub newest_acked_sent_at: Option<Time>,
}

fn space_index(kind: PacketType) -> Option<usize> {
    match kind {
        PacketType::Initial => Some(0),
        PacketType::Handshake => Some(1),
        PacketType::ZeroRtt | PacketType::OneRtt => Some(2),
        PacketType::Retry | PacketType::VersionNegotiation => None,
    }
}

const SPACE_PACKET_TYPES: [PacketType; 3] =
    [PacketType::Initial, PacketType::Handshake, PacketType::OneRtt];

impl ConnectionObserver {
    /// Creates an observer without state.
    pub fn new(side: Side) -> ConnectionObserver {
        ConnectionObserver {
            side,
            spaces: Default::default(),
            connection_ids: Default::default(),
            newest_acked_sent_at: None,
        }
    }

    /// Returns whether the receiver of a short header issued its connection id. A packet with another id is a stateless
    /// reset (RFC 9000 section 10.3).
    pub fn has_connection_id(&self, direction: PacketDirection, packet: &QuicPacket<'_>) -> bool {
        packet.kind != PacketType::OneRtt
            || self.connection_ids[direction as usize].iter().any(|id| id == packet.destination)
    }

    /// Processes a packet and returns its number.
    pub fn on_packet(
        &mut self,
        now: Time,
        direction: PacketDirection,
        packet: &QuicPacket<'_>,
        plain: &PlainPacket<'_>,
    ) -> u64 {
        let Some(index) = space_index(packet.kind) else { return 0 };
        let space = &mut self.spaces[index];
        let largest = &mut space.largest[direction as usize];
        let number = expand_packet_number(*largest, plain.truncated_number, plain.number_bits);
        *largest = Some(largest.map_or(number, |largest| largest.max(number)));
        if packet.kind != PacketType::OneRtt {
            self.add_connection_id(direction, packet.source);
        }
        let (mut is_ack_eliciting, mut is_padded, mut is_confirmed) = (false, false, false);
        for frame in plain.frames.flatten() {
            is_ack_eliciting |= frame.is_ack_eliciting();
            match frame {
                Frame::Padding { .. } => is_padded = true,
                Frame::HandshakeDone => is_confirmed = true,
                Frame::NewConnectionId { id, .. } => self.add_connection_id(direction, id),
                Frame::Ack(ack) if direction == PacketDirection::In => self.on_ack(index, &ack),
                _ => {}
            }
        }
        if direction == PacketDirection::Out {
            let bytes = if is_ack_eliciting || is_padded { packet.bytes as u64 } else { 0 };
            self.spaces[index]
                .on_sent(number, OutstandingPacket { sent_at: now, bytes, is_ack_eliciting });
        }
        // The endpoint discards keys and outstanding packets (RFC 9001 section 4.9) in two cases. One is a Handshake
        // packet that the client has sent or the server has received. The other is the confirmation of the handshake.
        let sender =
            if self.side == Side::Client { PacketDirection::Out } else { PacketDirection::In };
        if packet.kind == PacketType::Handshake && direction == sender {
            self.discard_keys(0, direction);
        }
        if is_confirmed {
            self.discard_keys(1, direction);
        }
        number
    }

    /// Discards the packets of a space. After a received packet, the same datagram can first declare losses.
    fn discard_keys(&mut self, index: usize, direction: PacketDirection) {
        let space = &mut self.spaces[index];
        space.has_discarded_keys = direction == PacketDirection::In;
        if direction == PacketDirection::Out {
            space.outstanding.clear();
        }
    }

    /// Clears the discarded spaces, after the caller has processed the losses.
    pub fn clear_discarded(&mut self) {
        for space in &mut self.spaces {
            if std::mem::take(&mut space.has_discarded_keys) {
                space.outstanding.clear();
            }
        }
    }

    /// Adds a connection id that the sender of a packet in `direction` issued. Its peer uses the id.
    fn add_connection_id(&mut self, direction: PacketDirection, id: &[u8]) {
        let user = match direction {
            PacketDirection::Out => PacketDirection::In,
            PacketDirection::In => PacketDirection::Out,
        };
        let ids = &mut self.connection_ids[user as usize];
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_vec());
        }
    }

    fn on_ack(&mut self, index: usize, ack: &AckFrame<'_>) {
        let space = &mut self.spaces[index];
        space.largest_acked = Some(space.largest_acked.map_or(ack.largest, |n| n.max(ack.largest)));
        for (low, high) in ack.ranges() {
            while let Some((&number, packet)) = space.outstanding.range(low..=high).next() {
                self.newest_acked_sent_at = self.newest_acked_sent_at.max(Some(packet.sent_at));
                space.remove(number);
            }
        }
    }

    /// Identifies `count` packets with `bytes` in flight that the stack has declared lost. Loss detection (RFC 9002
    /// section 6.1) depends on age and distance from the largest acknowledged number. Lost packets are thus the oldest
    /// outstanding packets of a space. Returns `None` if the byte count disagrees.
    pub fn take_lost(&mut self, count: u64, bytes: u64, threshold: u64) -> Option<Vec<LostPacket>> {
        let [initial, handshake, data] =
            [0, 1, 2].map(|index| self.spaces[index].oldest_bytes_sums(count));
        let count = count as usize;
        // The number of losses in each space. Nearly all losses are in the data space.
        let mut shares = (0..initial.len())
            .flat_map(|first| (0..handshake.len()).map(move |second| (first, second)))
            .filter_map(|(first, second)| {
                Some([first, second, count.checked_sub(first + second)?])
            });
        let shares = shares.find(|[first, second, third]| {
            data.get(*third).is_some_and(|sum| initial[*first] + handshake[*second] + sum == bytes)
        })?;
        let mut lost = Vec::with_capacity(count);
        for ((space, packet_type), share) in
            self.spaces.iter_mut().zip(SPACE_PACKET_TYPES).zip(shares)
        {
            let largest = space.largest_acked.unwrap_or(0);
            for _ in 0..share {
                let (&number, _) = space.outstanding.first_key_value()?;
                space.remove(number);
                lost.push(LostPacket {
                    packet_type,
                    number,
                    is_reordering_loss: largest - number >= threshold,
                });
            }
        }
        Some(lost)
    }
}

impl PacketNumberSpace {
    /// Adds a sent packet. The stack limits the packets after the last ack-eliciting one, and forgets the oldest of
    /// them first.
    fn on_sent(&mut self, number: u64, packet: OutstandingPacket) {
        if packet.is_ack_eliciting {
            self.non_eliciting_tail = 0;
            self.last_eliciting_number = number;
        } else if self.non_eliciting_tail > MAX_NON_ELICITING_TAIL {
            let oldest = self.outstanding.range(self.last_eliciting_number + 1..).next();
            if let Some(oldest) = oldest.map(|(number, _)| *number) {
                self.outstanding.remove(&oldest);
            }
        } else {
            self.non_eliciting_tail += 1;
        }
        self.outstanding.insert(number, packet);
    }

    /// Removes a packet that was acknowledged or declared lost.
    fn remove(&mut self, number: u64) {
        let packet = self.outstanding.remove(&number);
        if packet.is_some_and(|packet| !packet.is_ack_eliciting)
            && number > self.last_eliciting_number
        {
            self.non_eliciting_tail = self.non_eliciting_tail.saturating_sub(1);
        }
    }

    /// Returns the byte sums of the oldest 0, 1, ... `count` outstanding packets below the largest acknowledged.
    fn oldest_bytes_sums(&self, count: u64) -> Vec<u64> {
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

    fn outstanding(bytes: u64, eliciting: bool) -> OutstandingPacket {
        OutstandingPacket { sent_at: Time::ZERO, bytes, is_ack_eliciting: eliciting }
    }

    fn track(numbers: std::ops::Range<u64>) -> ConnectionObserver {
        let mut track = ConnectionObserver::new(Side::Client);
        for number in numbers {
            track.spaces[2].on_sent(number, outstanding(1000 + number, true));
        }
        track.spaces[2].largest_acked = Some(9);
        track
    }

    #[test]
    fn the_oldest_packets_are_lost_if_the_bytes_agree() {
        let mut track = track(0..10);
        let lost = track.take_lost(2, 2001, 3).unwrap();
        assert_eq!(lost.iter().map(|lost| lost.number).collect::<Vec<_>>(), [0, 1]);
        assert!(lost.iter().all(|lost| lost.is_reordering_loss));
        assert_eq!(track.take_lost(2, 2001, 3), None);
        let lost = track.take_lost(7, 7 * 1000 + 35, 3).unwrap();
        assert!(!lost[6].is_reordering_loss && lost[4].is_reordering_loss);
        // Packets at or above the largest acknowledged number are never lost.
        assert_eq!(track.take_lost(1, 1009, 3), None);
    }

    #[test]
    fn losses_of_several_spaces_are_distinguished_by_bytes() {
        let mut track = track(0..10);
        track.spaces[0].on_sent(0, outstanding(142, true));
        track.spaces[0].largest_acked = Some(1);
        let lost = track.take_lost(2, 1142, 3).unwrap();
        let kinds: Vec<_> = lost.iter().map(|lost| (lost.packet_type, lost.number)).collect();
        assert_eq!(kinds, [(PacketType::Initial, 0), (PacketType::OneRtt, 0)]);
    }

    #[test]
    fn a_long_tail_of_acks_is_forgotten() {
        let mut space = PacketNumberSpace::default();
        for number in 0..5000 {
            space.on_sent(number, outstanding(0, false));
        }
        assert!(space.outstanding.len() as u64 <= MAX_NON_ELICITING_TAIL + 3);
    }
}
