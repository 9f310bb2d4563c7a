//! The packets of a bearer that are not settled, as both of its ends know them.

use std::collections::VecDeque;

use units::Packet;

use super::ranges::Ranges;

/// A PDCP header with a sequence number of 18 bits (TS 38.323 section 6.2.2.3).
const PDCP_HEADER: u32 = 3;

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not all of it has come.
    Open,
    /// It has come, and waits for its turn.
    Here,
    /// It has left.
    Left,
    /// It is lost; `known` at both ends: nobody waits for it.
    Lost { known: bool },
}

/// A packet as RLC has it (an SDU), from when it was taken from the queue.
#[derive(Clone, Debug)]
pub(super) struct Sdu {
    pub packet: Packet,
    /// With PDCP's header.
    pub bytes: u32,
    /// What of it was sent once.
    pub sent: u32,
    /// What is to be sent again.
    pub again: Ranges,
    /// `RETX_COUNT`; none: it was never to be sent again.
    pub retransmissions: Option<u32>,
    /// Whether the sender knows that it has come, or has given it up.
    pub acknowledged: bool,
    /// What the receiver has.
    pub received: Ranges,
    pub fate: Fate,
}

impl Sdu {
    /// Whether the receiver waits for none of it.
    pub fn is_settled(&self) -> bool {
        self.fate == Fate::Lost { known: true } || self.received.are_all_of(self.bytes)
    }
}

/// The packets from the first that is not settled on, by their sequence numbers, which never run through zero.
#[derive(Debug, Default)]
pub(super) struct Bearer {
    sdus: VecDeque<Sdu>,
    first: u64,
}

impl Bearer {
    /// The number of the packet that comes next.
    pub fn next(&self) -> u64 {
        self.first + self.sdus.len() as u64
    }

    pub fn push(&mut self, packet: Packet) -> u64 {
        self.sdus.push_back(Sdu {
            packet,
            bytes: packet.bytes + PDCP_HEADER,
            sent: 0,
            again: Ranges::default(),
            retransmissions: None,
            acknowledged: false,
            received: Ranges::default(),
            fate: Fate::Open,
        });
        self.next() - 1
    }

    pub fn get(&self, number: u64) -> Option<&Sdu> {
        self.sdus.get(number.checked_sub(self.first)? as usize)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Sdu> {
        self.sdus.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// The last packet, if part of it was not sent yet.
    pub fn partial(&self) -> Option<u64> {
        let last = self.sdus.back()?;
        (last.sent < last.bytes).then(|| self.next() - 1)
    }

    /// The highest number of which something was sent.
    pub fn highest_sent(&self) -> Option<u64> {
        let unsent = self.sdus.back().is_some_and(|last| last.sent == 0);
        self.next().checked_sub(1 + u64::from(unsent))
    }

    /// Whether the receiver waits for nothing of the packet with `number`.
    pub fn is_settled(&self, number: u64) -> bool {
        number < self.first || self.get(number).is_some_and(Sdu::is_settled)
    }

    /// The first number from `number` on of which not all has come.
    pub fn first_open(&self, number: u64) -> u64 {
        (number..self.next()).find(|number| !self.is_settled(*number)).unwrap_or(self.next())
    }

    /// Whether something of the packet with `number` is missing before the last byte of it that has come.
    pub fn has_a_gap(&self, number: u64) -> bool {
        self.get(number).is_some_and(|sdu| !sdu.is_settled() && sdu.received.have_a_gap())
    }

    /// Forgets the first packets, of which both ends are done with those before `done`.
    pub fn forget(&mut self, done: u64, is_done: impl Fn(&Sdu) -> bool) {
        while self.first < done && self.sdus.front().is_some_and(&is_done) {
            self.sdus.pop_front();
            self.first += 1;
        }
    }

    /// Everything that is not settled, which is forgotten.
    pub fn drain(&mut self) -> impl Iterator<Item = Sdu> {
        self.first = self.next();
        self.sdus.drain(..)
    }
}
