//! What each user had of a radio link.

use units::{Packet, Span};

use crate::{Fate, Job};

/// What a user had of a radio link since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserTally {
    /// Attempts, copies included.
    pub attempts: u64,
    /// Attempts at packets that had left already.
    pub copies: u64,
    /// Time the link was theirs.
    pub air: Span,
    /// Bits on the air.
    pub coded_bits: u64,
    /// Packets that left after 0, 1, 2... retransmissions.
    pub decoded_after: Vec<u64>,
    /// Bytes of these packets.
    pub decoded_bytes: u64,
    /// Packets that the link layer gave up.
    pub dropped_packets: u64,
}

impl UserTally {
    /// Whether the user had nothing of the link so far.
    pub fn is_empty(&self) -> bool {
        *self == UserTally::default()
    }
}

/// What became of a user's packets in a queue of its own since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserQueue {
    /// Whose it is.
    pub user: u32,
    /// Packets that came.
    pub arrived: u64,
    /// Packets that the transmitter took.
    pub sent: u64,
    /// Packets that wait now.
    pub queued_packets: u64,
    /// Bytes that wait now.
    pub queued_bytes: u64,
    /// How long those that were taken had waited together.
    pub waited: Span,
    /// How long one of them had at most.
    pub longest: Span,
    /// Packets that found no room.
    pub dropped_overflow: u64,
    /// Packets that had waited for too long.
    pub dropped_late: u64,
    /// Packets that a hand-over lost.
    pub dropped_outage: u64,
    /// For how long, and how often, their channel was the best of all, at the instants at which a scheduler looked;
    /// none: it does not look.
    pub best: Option<(Span, u64)>,
}

/// The tallies of a transmitter's users, by their index.
#[derive(Debug, Default)]
pub(crate) struct Tallies(Vec<UserTally>);

impl Tallies {
    /// The service of `job` ended after `air` with `bits` on the air.
    pub fn served(&mut self, job: &Job, air: Span, bits: u64, fate: Fate) {
        self.sent(job.packet.user, job.copy, air, bits);
        match fate {
            Fate::Deliver | Fate::Unconfirmed { .. } if !job.copy => {
                self.decoded(&job.packet, job.attempt - 1);
            }
            Fate::Drop(_) if !job.copy => self.gave_up(job.packet.user),
            _ => {}
        }
    }

    /// `user` had `air` with `bits` on the air.
    pub fn sent(&mut self, user: u32, copy: bool, air: Span, bits: u64) {
        let user = self.of(user);
        user.attempts += 1;
        user.copies += u64::from(copy);
        user.air += air;
        user.coded_bits += bits;
    }

    /// `packet` left after so many retransmissions.
    pub fn decoded(&mut self, packet: &Packet, retransmissions: u32) {
        let (user, retransmissions) = (self.of(packet.user), retransmissions as usize);
        if user.decoded_after.len() <= retransmissions {
            user.decoded_after.resize(retransmissions + 1, 0);
        }
        user.decoded_after[retransmissions] += 1;
        user.decoded_bytes += u64::from(packet.bytes);
    }

    /// A packet of `user` was given up.
    pub fn gave_up(&mut self, user: u32) {
        self.of(user).dropped_packets += 1;
    }

    pub fn users(&self) -> &[UserTally] {
        &self.0
    }

    fn of(&mut self, user: u32) -> &mut UserTally {
        let index = user as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, UserTally::default);
        }
        &mut self.0[index]
    }
}
