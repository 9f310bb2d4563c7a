//! Statistics per user of a radio link.

use units::{Packet, Span};

/// Statistics of one user of a radio link since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserLinkStats {
    /// Attempts, duplicates included.
    pub attempts: u64,
    /// Attempts at packets that were delivered before.
    pub duplicates: u64,
    /// Airtime of the user.
    pub airtime: Span,
    /// Coded bits sent.
    pub coded_bits: u64,
    /// Packets decoded after 0, 1, 2... retransmissions.
    pub decoded_after: Vec<u64>,
    /// Bytes of these packets.
    pub decoded_bytes: u64,
    /// Packets that the link layer abandoned.
    pub dropped_packets: u64,
}

impl UserLinkStats {
    /// Returns whether the user has not used the link yet.
    pub fn is_empty(&self) -> bool {
        *self == UserLinkStats::default()
    }
}

/// Statistics of the queue of one user since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserQueueStats {
    /// The user.
    pub user: u32,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that the transmitter dequeued.
    pub sent: u64,
    /// Packets in the queue now.
    pub queued_packets: u64,
    /// Bytes in the queue now.
    pub queued_bytes: u64,
    /// Total waiting time of the dequeued packets.
    pub total_wait: Span,
    /// Maximum waiting time of a dequeued packet.
    pub max_wait: Span,
    /// Packets dropped because the queue was full.
    pub dropped_overflow: u64,
    /// Packets dropped because they had waited too long.
    pub dropped_late: u64,
    /// Packets dropped at a handover.
    pub dropped_outage: u64,
    /// The time with the best channel of all users, and how often it became the best, at the selections of the
    /// scheduler. `None` if the scheduler does not use the channel.
    pub best_channel: Option<(Span, u64)>,
}

/// The statistics of the users of a transmitter, by user index.
#[derive(Debug, Default)]
pub(crate) struct UserStatsTable(Vec<UserLinkStats>);

impl UserStatsTable {
    /// Counts an attempt of `user` with `airtime` and `bits` coded bits.
    pub fn count_attempt(&mut self, user: u32, is_duplicate: bool, airtime: Span, bits: u64) {
        let user = self.entry(user);
        user.attempts += 1;
        user.duplicates += u64::from(is_duplicate);
        user.airtime += airtime;
        user.coded_bits += bits;
    }

    /// Counts a packet that was decoded after `retransmissions`.
    pub fn count_decoded(&mut self, packet: &Packet, retransmissions: u32) {
        let (user, retransmissions) = (self.entry(packet.user), retransmissions as usize);
        if user.decoded_after.len() <= retransmissions {
            user.decoded_after.resize(retransmissions + 1, 0);
        }
        user.decoded_after[retransmissions] += 1;
        user.decoded_bytes += u64::from(packet.bytes);
    }

    /// Counts a packet of `user` that was abandoned.
    pub fn count_drop(&mut self, user: u32) {
        self.entry(user).dropped_packets += 1;
    }

    pub fn as_slice(&self) -> &[UserLinkStats] {
        &self.0
    }

    fn entry(&mut self, user: u32) -> &mut UserLinkStats {
        let index = user as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, UserLinkStats::default);
        }
        &mut self.0[index]
    }
}
