//! The delivery opportunities of a recorded link (Mahimahi, Netravali et al., USENIX ATC 2015,
//! section 3: `mm-link`).

use units::Time;

use crate::{Channel, Cx, Fate, Job, Service};

/// At each opportunity up to a number of bytes leaves: several small packets, or part of a packet
/// that leaves with a later one. What nobody waits for is lost; a packet that arrives at the very
/// instant of an opportunity has missed it.
#[derive(Debug)]
pub struct TraceService {
    slots: Vec<u64>,
    slot_bytes: u32,
    repeat: u64,
    /// The opportunity in use, and the bytes it still carries.
    cursor: usize,
    cycle: u64,
    left: u32,
    /// When the last packet left; another one may follow it at the same instant.
    end: Time,
}

impl TraceService {
    /// Opportunities at `slots_ns` (in order, none after `repeat_ns`), each of `slot_bytes`, again
    /// and again every `repeat_ns`.
    pub fn new(slots_ns: &[u64], slot_bytes: u32, repeat_ns: u64) -> TraceService {
        assert!(!slots_ns.is_empty(), "a delivery trace has at least one opportunity");
        TraceService {
            slots: slots_ns.to_vec(),
            slot_bytes,
            repeat: repeat_ns,
            cursor: 0,
            cycle: 0,
            left: slot_bytes,
            end: Time::MAX,
        }
    }

    /// The instant of the opportunity under the cursor.
    fn slot(&self) -> Time {
        Time(self.cycle.saturating_mul(self.repeat).saturating_add(self.slots[self.cursor]))
    }

    fn next_slot(&mut self) {
        self.left = self.slot_bytes;
        self.cursor += 1;
        if self.cursor == self.slots.len() {
            self.cursor = 0;
            self.cycle += 1;
        }
    }

    /// Moves to the first opportunity after `due`, unless the link was busy until then.
    fn catch_up(&mut self, due: Time) {
        if due == self.end || self.slot() > due {
            return;
        }
        let cycle = due.nanos() / self.repeat;
        if cycle > self.cycle {
            // A long idle time: go there at once; all of the earlier cycles is past.
            (self.cycle, self.cursor) = (cycle, 0);
        }
        while self.slot() <= due {
            self.next_slot();
        }
        self.left = self.slot_bytes;
    }
}

impl Service for TraceService {
    fn begin(&mut self, due: Time, job: &Job, _channel: &mut dyn Channel) -> Time {
        self.catch_up(due);
        let mut need = job.packet.bytes;
        while need > self.left {
            need -= self.left;
            self.next_slot();
        }
        self.left -= need;
        self.end = self.slot();
        self.end
    }

    fn end(&mut self, _due: Time, _job: &Job, _cx: &mut Cx) -> Fate {
        Fate::Deliver
    }
}

#[cfg(test)]
mod tests {
    use units::Packet;

    use super::*;
    use crate::FixedChannel;

    #[test]
    fn opportunities_carry_bytes_and_repeat() {
        let mut service = TraceService::new(&[10, 20, 20, 40], 1504, 40);
        let mut begin = |due: u64, bytes: u32| {
            let packet = Packet::of_bytes(bytes);
            let job = Job { packet, number: 0, attempt: 1, copy: false, sequence: 0 };
            service.begin(Time(due), &job, &mut FixedChannel::PERFECT.clone()).nanos()
        };
        assert_eq!(begin(0, 1504), 10);
        // Two opportunities at one instant.
        assert_eq!([begin(10, 1504), begin(20, 1504), begin(20, 1504)], [20, 20, 40]);
        // Three small packets share one; a fourth takes the rest of it and part of the next.
        assert_eq!(
            [begin(40, 500), begin(50, 500), begin(50, 500), begin(50, 500)],
            [50, 50, 50, 60]
        );
        // Idle opportunities are lost; one at the arrival's instant is missed.
        assert_eq!([begin(80, 1), begin(100, 1)], [90, 120]);
        assert_eq!(begin(10_005, 1), 10_010);
    }
}
