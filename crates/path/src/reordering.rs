//! The buffer that puts the packets of a radio link in order again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use units::{Packet, Span, Time, TupleHash};

use crate::{Cx, Job, ReorderingSpec};

/// For each flow, what came out of its order and waits for what is missing. It belongs to the transmitter, which alone
/// knows the order of first transmissions, and that a packet will never come.
///
/// A packet with the expected number leaves, and whatever it was waited for with it; one with a smaller number passes;
/// one with a larger number waits. When the buffer is full, when a packet of the flow is given up, or when one has waited too
/// long, all that waits leaves in order.
#[derive(Debug)]
pub(crate) struct Reordering {
    spec: ReorderingSpec,
    flows: BTreeMap<(u32, TupleHash), Flow>,
    /// When a packet will have waited for too long; [`Time::MAX`]: never.
    timer: Time,
}

#[derive(Debug, Default)]
struct Flow {
    /// First transmissions so far.
    sent: u64,
    /// Of these, what was neither decoded nor given up yet.
    open: u64,
    expected: u64,
    /// By number, each with the instant it came.
    waiting: BTreeMap<u64, (Time, Packet)>,
    /// Numbers above the expected one that were given up.
    holes: BTreeSet<u64>,
}

impl Reordering {
    pub fn new(spec: ReorderingSpec) -> Reordering {
        Reordering { spec, flows: BTreeMap::new(), timer: Time::MAX }
    }

    /// The number of `packet`, which is sent for the first time.
    pub fn number(&mut self, packet: &Packet) -> u64 {
        let flow = self.flows.entry(key(packet)).or_default();
        flow.open += 1;
        flow.sent += 1;
        flow.sent - 1
    }

    /// The packet of `job` is decoded at `due`.
    pub fn decoded(&mut self, due: Time, job: &Job, cx: &mut Cx) {
        let most = self.spec.packets;
        self.settle(job, |flow| {
            if job.sequence > flow.expected {
                flow.waiting.insert(job.sequence, (due, job.packet));
                if flow.waiting.len() as u64 >= most {
                    flow.flush(due, cx);
                }
                return;
            }
            cx.emit(due, job.packet);
            if job.sequence == flow.expected {
                flow.expected += 1;
                flow.release(due, cx);
            }
        });
    }

    /// The packet of `job` is given up at `due`.
    pub fn gave_up(&mut self, due: Time, job: &Job, cx: &mut Cx) {
        self.settle(job, |flow| {
            flow.flush(due, cx);
            if job.sequence >= flow.expected {
                flow.holes.insert(job.sequence);
            }
            flow.release(due, cx);
        });
    }

    /// When somebody will have waited for too long; [`Time::MAX`]: never.
    pub fn timer(&self) -> Time {
        self.timer
    }

    /// At `due` somebody has waited for too long.
    pub fn time_out(&mut self, due: Time, cx: &mut Cx) {
        for flow in self.flows.values_mut() {
            if flow.oldest().is_some_and(|came| self.spec.limit(came) <= due) {
                flow.flush(due, cx);
            }
        }
        self.expect();
    }

    /// The packet of `job` comes to its end. A flow of which nothing is open begins anew with its next packet.
    fn settle(&mut self, job: &Job, work: impl FnOnce(&mut Flow)) {
        let Entry::Occupied(mut flow) = self.flows.entry(key(&job.packet)) else { return };
        flow.get_mut().open -= 1;
        work(flow.get_mut());
        if flow.get().open == 0 {
            debug_assert!(flow.get().waiting.is_empty(), "nobody waits for nothing");
            flow.remove();
        }
        self.expect();
    }

    fn expect(&mut self) {
        if self.spec.time_limit_ns.is_some() {
            let oldest = self.flows.values().filter_map(Flow::oldest).min();
            self.timer = oldest.map_or(Time::MAX, |came| self.spec.limit(came));
        }
    }
}

impl ReorderingSpec {
    /// When a packet that came at `came` has waited for too long.
    fn limit(&self, came: Time) -> Time {
        self.time_limit_ns.map_or(Time::MAX, |limit| came + Span(limit))
    }
}

fn key(packet: &Packet) -> (u32, TupleHash) {
    (packet.user, packet.tuple)
}

impl Flow {
    fn oldest(&self) -> Option<Time> {
        self.waiting.values().map(|(came, _)| *came).min()
    }

    /// What is next in order leaves.
    fn release(&mut self, due: Time, cx: &mut Cx) {
        loop {
            if let Some((_, packet)) = self.waiting.remove(&self.expected) {
                cx.emit(due, packet);
            } else if !self.holes.remove(&self.expected) {
                return;
            }
            self.expected += 1;
        }
    }

    /// All that waits leaves in order; what lies before the last of it is waited for no longer.
    fn flush(&mut self, due: Time, cx: &mut Cx) {
        while let Some((number, (_, packet))) = self.waiting.pop_first() {
            cx.emit(due, packet);
            self.expected = number + 1;
        }
        self.holes = self.holes.split_off(&self.expected);
        self.release(due, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven packets are numbered; then each of `events` is decoded (its number) or given up (its number below
    /// zero, less one) a nanosecond after the one before. What left at which instant.
    fn left(spec: ReorderingSpec, events: &[i64]) -> Vec<(u64, u32)> {
        let (mut buffer, mut cx) = (Reordering::new(spec), Cx::default());
        let packet = |handle| Packet { handle, ..Packet::of_bytes(1) };
        for handle in 0..7 {
            assert_eq!(buffer.number(&packet(handle)), u64::from(handle));
        }
        for (at, event) in (0..).zip(events) {
            let number = if *event < 0 { -event - 1 } else { *event } as u64;
            let packet = packet(number as u32);
            let job = Job { packet, number, attempt: 1, copy: false, sequence: number };
            while buffer.timer() <= Time(at) {
                buffer.time_out(buffer.timer(), &mut cx);
            }
            if *event < 0 {
                buffer.gave_up(Time(at), &job, &mut cx);
            } else {
                buffer.decoded(Time(at), &job, &mut cx);
            }
        }
        assert_eq!(buffer.flows.is_empty(), events.len() == 7, "a flow of which nothing is open");
        cx.emitted.iter().map(|(at, packet)| (at.nanos(), packet.handle)).collect()
    }

    const LARGE: ReorderingSpec = ReorderingSpec { packets: 100, time_limit_ns: None };

    #[test]
    fn order_is_restored() {
        let expected = [(0, 0), (3, 1), (3, 2), (3, 3), (4, 4), (6, 5), (6, 6)];
        assert_eq!(left(LARGE, &[0, 3, 2, 1, 4, 6, 5]), expected);
    }

    #[test]
    fn who_is_given_up_flushes_the_others() {
        // 0 is given up: 1 and 3 leave, 2 passes when it comes, 4 is the next in order.
        assert_eq!(left(LARGE, &[3, 1, -1, 2, 4]), [(2, 1), (2, 3), (3, 2), (4, 4)]);
        // 4 is given up while 0 is missing: 2 leaves, 1 and 0 pass, 3 is expected, and nobody waits for 4.
        let expected = [(1, 2), (2, 1), (3, 0), (5, 3), (5, 5)];
        assert_eq!(left(LARGE, &[2, -5, 1, 0, 5, 3]), expected);
    }

    #[test]
    fn a_full_buffer_is_flushed() {
        let spec = ReorderingSpec { packets: 3, ..LARGE };
        assert_eq!(left(spec, &[1, 3, 2, 4, 0]), [(2, 1), (2, 2), (2, 3), (3, 4), (4, 0)]);
    }

    #[test]
    fn nobody_waits_for_longer_than_the_limit() {
        let spec = ReorderingSpec { time_limit_ns: Some(2), ..LARGE };
        // 2 has come at 1, and leaves at 3 with 4, before 1 comes.
        assert_eq!(left(spec, &[0, 2, 4, 1, 3]), [(0, 0), (3, 2), (3, 4), (3, 1), (4, 3)]);
    }
}
