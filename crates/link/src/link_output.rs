//! The output of a simplex link: packets, recorded steps and counters.

use units::{Packet, Time};

use crate::DropReason;

/// Output of a simplex link. The caller empties it and reuses its memory.
#[derive(Debug, Default)]
pub struct LinkOutput {
    /// Packets that reached the far end, with their delivery times, in order of time.
    pub delivered: Vec<(Time, Packet)>,
    /// Dropped packets with the time and the reason, in order of time.
    pub dropped: Vec<(Time, Packet, DropReason)>,
}

impl LinkOutput {
    /// Returns whether there are neither deliveries nor drops.
    pub fn is_empty(&self) -> bool {
        self.delivered.is_empty() && self.dropped.is_empty()
    }

    /// Removes all entries but does not free the memory.
    pub fn clear(&mut self) {
        self.delivered.clear();
        self.dropped.clear();
    }
}

/// One recorded step of a packet within a simplex link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageStep {
    /// The time of the step.
    pub at: Time,
    /// The handle of the packet's payload.
    pub handle: u32,
    /// The stage that the packet enters or is dropped in; the number of stages stands for the far end.
    pub stage: u32,
    /// The reason of a drop; `None` if the packet enters the stage.
    pub drop_reason: Option<DropReason>,
}

/// Records a step if steps are recorded.
#[inline]
pub(crate) fn record_step(
    steps: &mut Option<Vec<StageStep>>,
    at: Time,
    packet: &Packet,
    stage: usize,
    drop_reason: Option<DropReason>,
) {
    if let Some(steps) = steps {
        steps.push(StageStep { at, handle: packet.handle, stage: stage as u32, drop_reason });
    }
}

/// Counters of a simplex link since the start. Arrays are in the order of [`DropReason::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets pushed.
    pub arrived_packets: u64,
    /// Bytes pushed.
    pub arrived_bytes: u64,
    /// Packets that reached the far end.
    pub delivered_packets: u64,
    /// Bytes that reached the far end.
    pub delivered_bytes: u64,
    /// Dropped packets by reason.
    pub dropped_packets: [u64; DropReason::ALL.len()],
    /// Dropped bytes by reason.
    pub dropped_bytes: [u64; DropReason::ALL.len()],
    /// Packets on which a stage has set congestion experienced.
    pub marked_packets: u64,
}
