//! The buffer of a radio link, packet by packet.

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

const LARGE: ReorderingSpec =
    ReorderingSpec { packets: 100, time_limit_ns: None, numbering: Numbering::Link };

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

/// By TCP's numbers: segments of ten bytes from just before zero on are sent in order of `sent` (a place in the
/// stream, twice if it is sent again), and then decoded or given up as `events` has them, by their place in `sent`.
fn left_by_tcp(packets: u64, sent: &[u32], events: &[i64]) -> Vec<(u64, u32)> {
    let spec = ReorderingSpec { packets, time_limit_ns: None, numbering: Numbering::Tcp };
    let (mut buffer, mut cx) = (Reordering::new(spec), Cx::default());
    let first = |place: u32| 0xffff_fff0_u32.wrapping_add(10 * place);
    // A SYN has a number of its own and no data.
    let syn = SequenceNumbers { first: first(0).wrapping_sub(1), next: first(0).wrapping_sub(1) };
    let syn = Packet { handle: 99, sequence: syn, ..Packet::of_bytes(60) };
    let sequence = buffer.number(&syn);
    buffer.decoded(
        Time::ZERO,
        &Job { packet: syn, number: 0, attempt: 1, copy: false, sequence },
        &mut cx,
    );
    assert_eq!(cx.emitted.pop(), Some((Time::ZERO, syn)));
    let packet = |place: u32| {
        let sequence = SequenceNumbers { first: first(place), next: first(place + 1) };
        Packet { handle: place, sequence, ..Packet::of_bytes(50) }
    };
    let jobs: Vec<Job> = (0..)
        .zip(sent)
        .map(|(number, place)| {
            let packet = packet(*place);
            let sequence = buffer.number(&packet);
            Job { packet, number, attempt: 1, copy: false, sequence }
        })
        .collect();
    for (at, event) in (0..).zip(events) {
        if *event < 0 {
            buffer.gave_up(Time(at), &jobs[(-event - 1) as usize], &mut cx);
        } else {
            buffer.decoded(Time(at), &jobs[*event as usize], &mut cx);
        }
    }
    cx.emitted.iter().map(|(at, packet)| (at.nanos(), packet.handle)).collect()
}

#[test]
fn by_tcp_s_numbers_too_order_is_restored_and_numbers_run_through_zero() {
    let expected = [(0, 0), (3, 1), (3, 2), (3, 3), (4, 4)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 4], &[0, 3, 2, 1, 4]), expected);
}

#[test]
fn what_tcp_sends_again_passes_and_fills_the_hole() {
    // 1 is given up: nothing waits yet, so 2 and 3 wait for it, until TCP has sent it again.
    let expected = [(0, 0), (4, 1), (4, 2), (4, 3)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 1], &[0, -2, 2, 3, 4]), expected);
    // With 2 waiting already, it is flushed, 3 is the next in order, and 1 passes.
    let expected = [(0, 0), (2, 2), (3, 3), (4, 1)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 3, 1], &[0, 2, -2, 3, 4]), expected);
    // A full buffer does not wait either.
    let expected = [(0, 0), (3, 2), (3, 3), (4, 1)];
    assert_eq!(left_by_tcp(2, &[0, 1, 2, 3, 1], &[0, -2, 2, 3, 4]), expected);
}

#[test]
fn the_same_data_twice_leaves_twice() {
    let expected = [(1, 2), (2, 0), (3, 1), (3, 2)];
    assert_eq!(left_by_tcp(100, &[0, 1, 2, 2], &[2, 3, 0, 1]), expected);
}

/// Flows as they are without any order among them: each event looks at all, and none by TCP's numbers is forgotten.
struct Scanned {
    spec: ReorderingSpec,
    flows: BTreeMap<Key, Flow>,
}

impl Scanned {
    fn timer(&self) -> Time {
        let came = self.flows.values().flat_map(|flow| flow.waiting.values().map(|one| one.1));
        came.min().map_or(Time::MAX, |came| self.spec.limit(came))
    }

    fn time_out(&mut self, due: Time, cx: &mut Cx) {
        for flow in self.flows.values_mut() {
            let came = flow.waiting.values().map(|one| one.1).min();
            if came.is_some_and(|came| self.spec.limit(came) <= due) {
                flow.flush(due, cx);
            }
        }
    }

    /// Does `work` on a buffer that has this flow alone.
    fn with(&mut self, packet: &Packet, work: impl FnOnce(&mut Reordering)) {
        let mut one = Reordering::new(self.spec);
        let key = key(packet);
        if let Some(mut flow) = self.flows.remove(&key) {
            flow.listed = Listed::Nowhere;
            one.flows.insert(key, flow);
        }
        work(&mut one);
        self.flows.append(&mut one.flows);
    }
}

/// A random stream of numbers: SplitMix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn what_leaves_is_what_leaves_where_every_flow_is_looked_at() {
    for seed in 0..400_u64 {
        let mut state = seed;
        let numbering = if seed.is_multiple_of(2) { Numbering::Tcp } else { Numbering::Link };
        let time_limit_ns = (seed % 4 < 2).then_some(50);
        let spec = ReorderingSpec { packets: 2 + seed % 7, time_limit_ns, numbering };
        let mut buffer = Reordering::new(spec);
        let mut scanned = Scanned { spec, flows: BTreeMap::new() };
        let (mut found, mut expected) = (Cx::default(), Cx::default());
        let mut open: Vec<Job> = Vec::new();
        let mut places = [0_u32; 5];
        for step in 0..600_u32 {
            let due = Time(u64::from(step) * 3);
            while buffer.timer() <= due {
                let at = buffer.timer();
                assert_eq!(at, scanned.timer());
                buffer.time_out(at, &mut found);
                scanned.time_out(at, &mut expected);
            }
            if open.is_empty() || (splitmix(&mut state).is_multiple_of(2) && step < 500) {
                let user = (splitmix(&mut state) % 5) as u32;
                let place = &mut places[user as usize];
                // New data, data again, or none, of numbers that run through zero.
                let at = match splitmix(&mut state) % 6 {
                    0 => place.saturating_sub(splitmix(&mut state) as u32 % 4),
                    _ => {
                        *place += 1;
                        *place - 1
                    }
                };
                let first = 0xffff_ff00_u32.wrapping_add(10 * at);
                let bytes = if splitmix(&mut state).is_multiple_of(8) { 0 } else { 10 };
                let sequence = SequenceNumbers { first, next: first.wrapping_add(bytes) };
                let packet = Packet { handle: step, user, sequence, ..Packet::of_bytes(50) };
                let sequence = buffer.number(&packet);
                scanned.with(&packet, |one| {
                    one.number(&packet);
                });
                open.push(Job { packet, number: step.into(), attempt: 1, copy: false, sequence });
                continue;
            }
            let job = open.swap_remove(splitmix(&mut state) as usize % open.len());
            match splitmix(&mut state) % 20 {
                0 => {
                    buffer.gave_up(due, &job, &mut found);
                    scanned.with(&job.packet, |one| one.gave_up(due, &job, &mut expected));
                }
                _ => {
                    buffer.decoded(due, &job, &mut found);
                    scanned.with(&job.packet, |one| one.decoded(due, &job, &mut expected));
                }
            }
            assert_eq!(buffer.timer(), scanned.timer(), "seed {seed}, step {step}");
        }
        assert_eq!(found.emitted, expected.emitted, "seed {seed}");
    }
}

/// Segments of ten bytes of a flow, by their places, are sent and decoded at `due`.
fn passes(buffer: &mut Reordering, cx: &mut Cx, due: Time, flow: u32, places: &[u32]) {
    for place in places {
        let sequence = SequenceNumbers { first: 10 * place + 1, next: 10 * place + 11 };
        let packet = Packet { handle: *place, user: flow, sequence, ..Packet::of_bytes(50) };
        let sequence = buffer.number(&packet);
        let job = Job { packet, number: 0, attempt: 1, copy: false, sequence };
        buffer.decoded(due, &job, cx);
    }
}

fn after(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

const BY_TCP: ReorderingSpec =
    ReorderingSpec { packets: 100, time_limit_ns: Some(1_000_000), numbering: Numbering::Tcp };

#[test]
fn ten_thousand_flows_in_a_row_are_held_for_two_minutes_and_each_packet_looks_at_its_own() {
    let (mut buffer, mut cx) = (Reordering::new(BY_TCP), Cx::default());
    let (mut held, mut packets) = (0, 0);
    for number in 0..10_000 {
        let due = after(u64::from(number));
        // The third of four is lost; the fourth waits until the time is over.
        passes(&mut buffer, &mut cx, due, number, &[0, 1, 3]);
        packets += 3;
        assert_eq!(buffer.timer(), due + Span::from_millis(1));
        buffer.time_out(buffer.timer(), &mut cx);
        assert_eq!(buffer.timer(), Time::MAX);
        held = held.max(buffer.flows.len());
    }
    assert_eq!(cx.emitted.len(), packets);
    assert_eq!(held, 121, "one that is active, and those of two minutes");
    // Itself as it changes and as its time is over, and once as it is forgotten.
    assert!(buffer.looks <= 2 * packets, "{} looks for {packets} packets", buffer.looks);
}

/// A segment that is lost before the link never comes, and its connection may be gone.
#[test]
fn a_hole_that_nobody_fills_holds_its_flow_for_two_minutes() {
    let spec = ReorderingSpec { time_limit_ns: None, ..BY_TCP };
    let (mut buffer, mut cx) = (Reordering::new(spec), Cx::default());
    let mut held = 0;
    for second in 0..1_000 {
        let due = after(u64::from(second));
        while buffer.timer() <= due {
            buffer.time_out(buffer.timer(), &mut cx);
        }
        passes(&mut buffer, &mut cx, due, second, &[0, 2]);
        held = held.max(buffer.flows.len());
    }
    // 120 s until the second packet leaves, and 120 s until the flow is forgotten.
    assert_eq!(held, 240);
    assert_eq!(cx.emitted.len(), 1_000 + 880);
}

#[test]
fn flows_at_once_are_bounded_and_those_without_data_are_not_held() {
    let (mut buffer, mut cx) = (Reordering::new(BY_TCP), Cx::default());
    for number in 0..2 * MOST_IDLE as u32 {
        passes(&mut buffer, &mut cx, Time(u64::from(number)), number, &[0]);
    }
    assert_eq!((buffer.flows.len(), buffer.idle.len()), (MOST_IDLE, MOST_IDLE));
    let mut buffer = Reordering::new(BY_TCP);
    for user in 0..10_000 {
        // A SYN or an acknowledgement.
        let sequence = SequenceNumbers { first: 7, next: 7 };
        let packet = Packet { handle: 0, user, sequence, ..Packet::of_bytes(60) };
        let sequence = buffer.number(&packet);
        let job = Job { packet, number: 0, attempt: 1, copy: false, sequence };
        buffer.decoded(Time::ZERO, &job, &mut cx);
        assert_eq!(buffer.flows.len(), 0);
    }
}

#[test]
fn a_flow_goes_on_after_a_silence_and_begins_anew_after_a_longer_one() {
    for (silence, expected) in [(119, [1, 2, 4].as_slice()), (120, &[1, 2])] {
        let (mut buffer, mut cx) = (Reordering::new(BY_TCP), Cx::default());
        passes(&mut buffer, &mut cx, after(0), 1, &[0, 1, 2, 3]);
        // Another flow's packet comes to its end then.
        passes(&mut buffer, &mut cx, after(silence), 2, &[0]);
        cx.emitted.clear();
        // Data again, and the next that is new: it waits for what lies between where the flow begins anew.
        passes(&mut buffer, &mut cx, after(silence), 1, &[1, 2, 4]);
        let left: Vec<u32> = cx.emitted.iter().map(|(_, packet)| packet.handle).collect();
        assert_eq!(left, expected, "after {silence} s");
    }
}
