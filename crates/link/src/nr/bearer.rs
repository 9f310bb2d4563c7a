//! The unresolved packets of a bearer, with the state of both ends.

use std::collections::VecDeque;

use units::Packet;

use super::byte_ranges::ByteRanges;

/// A PDCP header with a sequence number of 18 bits (TS 38.323 section 6.2.2.3).
const PDCP_HEADER: u32 = 3;

/// The state of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SduState {
    /// The packet was not received completely.
    Pending,
    /// The packet was received and waits for in-order delivery.
    Received,
    /// The packet was delivered.
    Delivered,
    /// The packet is lost. `is_known`: both ends know it, and the receiver does not wait for it.
    Lost { is_known: bool },
}

/// A packet in RLC (an SDU), from its dequeue.
#[derive(Clone, Debug)]
pub(super) struct RlcSdu {
    pub packet: Packet,
    /// Size with the PDCP header.
    pub bytes: u32,
    /// Bytes that were sent once.
    pub sent_bytes: u32,
    /// Bytes that need a retransmission.
    pub retransmit: ByteRanges,
    /// `RETX_COUNT`; `None` if there was no retransmission yet.
    pub retransmissions: Option<u32>,
    /// Whether the sender has received the acknowledgement or has abandoned the packet.
    pub is_acknowledged: bool,
    /// Bytes that the receiver has.
    pub received: ByteRanges,
    pub state: SduState,
}

impl RlcSdu {
    /// Returns whether the receiver waits for no part of the packet.
    pub fn is_resolved(&self) -> bool {
        self.state == SduState::Lost { is_known: true } || self.received.covers(self.bytes)
    }
}

/// The packets from the first unresolved one, by their sequence numbers, which never wrap.
#[derive(Debug, Default)]
pub(super) struct Bearer {
    sdus: VecDeque<RlcSdu>,
    first_number: u64,
}

impl Bearer {
    /// Returns the number of the next packet.
    pub fn next_number(&self) -> u64 {
        self.first_number + self.sdus.len() as u64
    }

    pub fn push(&mut self, packet: Packet) -> u64 {
        self.sdus.push_back(RlcSdu {
            packet,
            bytes: packet.bytes + PDCP_HEADER,
            sent_bytes: 0,
            retransmit: ByteRanges::default(),
            retransmissions: None,
            is_acknowledged: false,
            received: ByteRanges::default(),
            state: SduState::Pending,
        });
        self.next_number() - 1
    }

    pub fn get(&self, number: u64) -> Option<&RlcSdu> {
        self.sdus.get(number.checked_sub(self.first_number)? as usize)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut RlcSdu> {
        self.sdus.get_mut(number.checked_sub(self.first_number)? as usize)
    }

    /// Returns the last packet if part of it was not sent yet.
    pub fn partial_sdu(&self) -> Option<u64> {
        let last = self.sdus.back()?;
        (last.sent_bytes < last.bytes).then(|| self.next_number() - 1)
    }

    /// Returns the highest number of which a part was sent.
    pub fn highest_sent(&self) -> Option<u64> {
        let unsent = self.sdus.back().is_some_and(|last| last.sent_bytes == 0);
        self.next_number().checked_sub(1 + u64::from(unsent))
    }

    /// Returns whether the receiver waits for no part of the packet with `number`.
    pub fn is_resolved(&self, number: u64) -> bool {
        number < self.first_number || self.get(number).is_some_and(RlcSdu::is_resolved)
    }

    /// Returns the first number from `number` onwards that is not resolved.
    pub fn first_unresolved(&self, number: u64) -> u64 {
        (number..self.next_number())
            .find(|number| !self.is_resolved(*number))
            .unwrap_or(self.next_number())
    }

    /// Returns whether bytes of the packet with `number` are missing before its last received byte.
    pub fn has_gap(&self, number: u64) -> bool {
        self.get(number).is_some_and(|sdu| !sdu.is_resolved() && sdu.received.has_gap())
    }

    /// Removes the first packets for which `is_done` holds, up to the number `done`.
    pub fn discard_before(&mut self, done: u64, is_done: impl Fn(&RlcSdu) -> bool) {
        while self.first_number < done && self.sdus.front().is_some_and(&is_done) {
            self.sdus.pop_front();
            self.first_number += 1;
        }
    }

    /// Removes all packets and returns them.
    pub fn drain(&mut self) -> impl Iterator<Item = RlcSdu> {
        self.first_number = self.next_number();
        self.sdus.drain(..)
    }
}
