//! The delivery opportunities of a recorded link (Mahimahi, Netravali et al., USENIX ATC 2015,
//! section 3: `mm-link`).

use units::Time;

use crate::{Channel, ServiceOutcome, ServiceProcess, StageOutput, Transmission};

/// Serves up to a number of bytes per opportunity: several small packets, or part of a packet that departs at a later
/// one. Unused opportunities are lost. A packet that arrives at the exact instant of an opportunity misses it.
#[derive(Debug)]
pub struct TraceService {
    opportunities: Vec<u64>,
    opportunity_bytes: u32,
    repeat: u64,
    /// The current opportunity and its remaining bytes.
    cursor: usize,
    cycle: u64,
    remaining_bytes: u32,
    /// The time of the last departure; another packet can follow at the same instant.
    last_departure: Time,
}

impl TraceService {
    /// Creates opportunities at `opportunities_ns` (in order, none after `repeat_ns`), each of `opportunity_bytes`, with a period of
    /// `repeat_ns`.
    pub fn new(opportunities_ns: &[u64], opportunity_bytes: u32, repeat_ns: u64) -> TraceService {
        assert!(!opportunities_ns.is_empty(), "a delivery trace has at least one opportunity");
        TraceService {
            opportunities: opportunities_ns.to_vec(),
            opportunity_bytes,
            repeat: repeat_ns,
            cursor: 0,
            cycle: 0,
            remaining_bytes: opportunity_bytes,
            last_departure: Time::MAX,
        }
    }

    /// Returns the time of the opportunity at the cursor.
    fn opportunity_at(&self) -> Time {
        Time(self.cycle.saturating_mul(self.repeat).saturating_add(self.opportunities[self.cursor]))
    }

    fn next_opportunity(&mut self) {
        self.remaining_bytes = self.opportunity_bytes;
        self.cursor += 1;
        if self.cursor == self.opportunities.len() {
            self.cursor = 0;
            self.cycle += 1;
        }
    }

    /// Advances to the first opportunity after `due`, unless the link was busy until then.
    fn catch_up(&mut self, due: Time) {
        if due == self.last_departure || self.opportunity_at() > due {
            return;
        }
        let cycle = due.nanos() / self.repeat;
        if cycle > self.cycle {
            // After a long idle time, skip all earlier cycles at once.
            (self.cycle, self.cursor) = (cycle, 0);
        }
        while self.opportunity_at() <= due {
            self.next_opportunity();
        }
        self.remaining_bytes = self.opportunity_bytes;
    }
}

impl ServiceProcess for TraceService {
    fn begin(
        &mut self,
        due: Time,
        transmission: &Transmission,
        _channel: &mut dyn Channel,
    ) -> Time {
        self.catch_up(due);
        let mut need = transmission.packet.bytes;
        while need > self.remaining_bytes {
            need -= self.remaining_bytes;
            self.next_opportunity();
        }
        self.remaining_bytes -= need;
        self.last_departure = self.opportunity_at();
        self.last_departure
    }

    fn end(
        &mut self,
        _due: Time,
        _transmission: &Transmission,
        _out: &mut StageOutput,
    ) -> ServiceOutcome {
        ServiceOutcome::Deliver
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
            let job = Transmission { packet, id: 0, attempt: 1, is_duplicate: false, sequence: 0 };
            service.begin(Time(due), &job, &mut FixedChannel::PERFECT.clone()).nanos()
        };
        assert_eq!(begin(0, 1504), 10);
        // Two opportunities at one instant.
        assert_eq!([begin(10, 1504), begin(20, 1504), begin(20, 1504)], [20, 20, 40]);
        // Three small packets share one; a fourth uses the rest of it and part of the next.
        assert_eq!(
            [begin(40, 500), begin(50, 500), begin(50, 500), begin(50, 500)],
            [50, 50, 50, 60]
        );
        // Idle opportunities are lost; one at the arrival's instant is missed.
        assert_eq!([begin(80, 1), begin(100, 1)], [90, 120]);
        assert_eq!(begin(10_005, 1), 10_010);
    }
}
