//! CoDel and FQ-CoDel under unresponsive load.

use link::{
    CodelSpec, DropReason, FqCodelSpec, LinkOutput, PolicerSpec, QueueLimit, QueueSpec,
    ServiceSpec, SimplexLink, StageSpec, TransmitSpec,
};
use units::{Ecn, Packet, Span, Time};

use crate::common::{of_flow, packet};

const TARGET: u64 = 5_000_000;
const INTERVAL: u64 = 100_000_000;

fn line(queue: QueueSpec) -> SimplexLink {
    let service = ServiceSpec::Rate { rate_bit_s: 10_000_000, changes: Vec::new() };
    SimplexLink::build(&[StageSpec::Transmit(TransmitSpec { queue, service })], "test.up", 1)
        .unwrap()
}

fn codel(limit: Option<QueueLimit>, ecn: bool) -> SimplexLink {
    line(QueueSpec::Codel(CodelSpec { limit, target_ns: TARGET, interval_ns: INTERVAL, ecn }))
}

/// Sends packets of 1,500 bytes (1.2 ms each) every `gap_ns` for 60 s.
fn overload(line: &mut SimplexLink, gap_ns: u64, ecn: Ecn) -> LinkOutput {
    let mut out = LinkOutput::default();
    for number in 0..60_000_000_000 / gap_ns {
        let born = Time(number * gap_ns);
        line.push(born, Packet { ecn, created_at: born, ..packet(number as u32, 1500) }, &mut out);
    }
    line.poll(Time::MAX, &mut out);
    out
}

/// Returns the median time from arrival to departure in the second half.
fn late_median(out: &LinkOutput) -> Span {
    let late = &out.delivered[out.delivered.len() / 2..];
    let mut times: Vec<Span> =
        late.iter().map(|(due, packet)| due.since(packet.created_at)).collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
fn codel_brings_the_waiting_time_near_its_target() {
    // 4 % overload: in a drop-tail queue of 1,000 packets the wait would be 1.2 s.
    let mut line = codel(Some(QueueLimit::Packets(1000)), false);
    let out = overload(&mut line, 1_150_000, Ecn::NotEct);
    let median = late_median(&out);
    assert!(median < Span(4 * TARGET), "{median}");
    let dropped = line.counters().dropped_packets;
    assert_eq!(dropped[DropReason::QueueOverflow as usize], 0);
    // It drops about the excess, and the link is never idle.
    let share = dropped[DropReason::Aqm as usize] as f64 / line.counters().arrived_packets as f64;
    assert!((0.03..0.06).contains(&share), "{share}");
    assert!(line.counters().delivered_packets > 49_900);
}

#[test]
fn codel_does_not_drop_below_the_rate() {
    let mut line = codel(None, false);
    let out = overload(&mut line, 1_210_000, Ecn::NotEct);
    assert!(out.dropped.is_empty());
}

#[test]
fn codel_marks_ect_packets() {
    let mut marking = codel(None, true);
    let out = overload(&mut marking, 1_190_000, Ecn::Ect0);
    assert!(out.dropped.is_empty());
    let marked = out.delivered.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce).count() as u64;
    assert!(marked > 50);
    assert_eq!(marking.counters().marked_packets, marked);
    // Packets without ECT are dropped, and without the option all packets are.
    let out = overload(&mut codel(None, true), 1_190_000, Ecn::NotEct);
    assert!(!out.dropped.is_empty());
    let mut dropping = codel(None, false);
    assert!(!overload(&mut dropping, 1_190_000, Ecn::Ect0).dropped.is_empty());
    assert_eq!(dropping.counters().marked_packets, 0);
}

#[test]
fn codel_does_not_drop_the_last_packet() {
    // Exactly the rate, with one packet always waiting. Each waits for 1.2 ms, longer than the target of 1 ms, but its
    // departure empties the queue.
    let queue = QueueSpec::Codel(CodelSpec {
        limit: None,
        target_ns: 1_000_000,
        interval_ns: INTERVAL,
        ecn: false,
    });
    let mut line = line(queue);
    let mut out = LinkOutput::default();
    for number in 0..10_000 {
        line.push(Time(u64::max(number, 1) * 1_200_000), packet(number as u32, 1500), &mut out);
    }
    line.poll(Time::MAX, &mut out);
    assert!(out.dropped.is_empty());
}

/// Sends at twice the rate for `length_ns` from `from_ns` on, and returns the drop times.
fn drops_of_burst(line: &mut SimplexLink, from_ns: u64, length_ns: u64) -> Vec<f64> {
    let mut out = LinkOutput::default();
    for number in 0..length_ns / 600_000 {
        line.push(Time(from_ns + number * 600_000), packet(0, 1500), &mut out);
    }
    while line.in_transit().0 > 0 {
        line.poll(line.poll_at(), &mut out);
    }
    out.dropped.iter().map(|(due, _, _)| due.seconds()).collect()
}

#[test]
fn codel_drops_after_its_control_law() {
    let mut line = codel(None, false);
    let first = drops_of_burst(&mut line, 0, 1_000_000_000);
    // RFC 8289 section 5.6: after the n-th drop the next follows after interval / sqrt(n), at the next dequeue, at most
    // one packet (1.2 ms) later.
    let mut due = first[0];
    for (drop, count) in first.iter().zip(1u32..).take(30) {
        assert!(
            (due - 1e-9..due + 0.0012 + 1e-9).contains(drop),
            "drop {count}: {drop}, not {due}"
        );
        due += 0.1 / f64::from(count).sqrt();
    }
    // Shortly after, it resumes with the last count; 16 intervals later it restarts.
    let soon = drops_of_burst(&mut line, 2_500_000_000, 1_000_000_000);
    assert!(soon[1] - soon[0] < 0.03, "{}", soon[1] - soon[0]);
    let late = drops_of_burst(&mut line, 10_000_000_000, 1_000_000_000);
    assert!((0.1..0.102).contains(&(late[1] - late[0])), "{}", late[1] - late[0]);
}

fn fq_codel(limit_packets: u64) -> SimplexLink {
    line(QueueSpec::FqCodel(FqCodelSpec {
        limit_packets,
        flows: 1024,
        quantum_bytes: 1514,
        target_ns: TARGET,
        interval_ns: INTERVAL,
        ecn: false,
    }))
}

#[test]
fn fq_codel_shares_the_link_and_prioritises_sparse_flows() {
    // Flows 0 and 1 send 8 and 16 Mb/s, flow 2 a packet of 200 bytes every 20 ms.
    let mut line = fq_codel(10_240);
    let mut out = LinkOutput::default();
    let mut arrivals: Vec<(u64, u32, u32)> = Vec::new();
    for (flow, gap, bytes) in [(0, 1_500_000, 1500), (1, 750_000, 1500), (2, 20_000_000, 200)] {
        arrivals.extend((0..20_000_000_000 / gap).map(|n| (n * gap, flow, bytes)));
    }
    arrivals.sort();
    for (at, flow, bytes) in arrivals {
        line.push(
            Time(at),
            Packet { created_at: Time(at), ..of_flow(flow, packet(0, bytes)) },
            &mut out,
        );
    }
    line.poll(Time(20_000_000_000), &mut out);
    let share =
        |flow| out.delivered.iter().filter(|(_, packet)| packet.flow == flow).count() as f64;
    assert!((share(0) / share(1) - 1.0).abs() < 0.02, "{} against {}", share(0), share(1));
    assert_eq!(share(2), 1000.0);
    // The sparse flow waits for at most the packet in service and one of each other flow.
    let sparse = out.delivered.iter().filter(|(_, packet)| packet.flow == 2);
    let max_wait = sparse.map(|(due, packet)| due.since(packet.created_at)).max().unwrap();
    assert!(max_wait <= Span(3 * 1_200_000 + 160_000), "{max_wait}");
}

#[test]
fn fq_codel_drops_from_the_longest_queue() {
    let mut line = fq_codel(100);
    let mut out = LinkOutput::default();
    for number in 0..100 {
        line.push(Time::ZERO, of_flow(7, packet(number, 1500)), &mut out);
    }
    // One packet is in service. The second of these is the hundred and first in the queue.
    for number in 100..102 {
        line.push(Time::ZERO, of_flow(8, packet(number, 1500)), &mut out);
    }
    // Half of the longest queue is dropped from its head, and no packet of the other queue.
    let dropped: Vec<u32> = out.dropped.iter().map(|(_, packet, _)| packet.handle).collect();
    assert_eq!(dropped, (1..50).collect::<Vec<_>>());
    assert_eq!(line.counters().dropped_packets[DropReason::QueueOverflow as usize], 49);
    assert_eq!(line.gauge().queued_packets, 52);
}

/// Counts the departures per flow in 3,000 packets. Flows 0 and 2 are always backlogged. Flow 1 sends its next packet
/// of `bytes` when the last one has departed.
fn shares_beside(bytes: u32) -> [u32; 3] {
    let mut line = fq_codel(10_240);
    let mut out = LinkOutput::default();
    let mut shares = [0; 3];
    for number in 0..8_000 {
        line.push(Time::ZERO, of_flow(number % 2 * 2, packet(0, 1500)), &mut out);
    }
    line.push(Time::ZERO, of_flow(1, packet(0, bytes)), &mut out);
    while shares.iter().sum::<u32>() < 3_000 {
        line.poll(line.poll_at(), &mut out);
        for (due, packet) in std::mem::take(&mut out.delivered) {
            shares[packet.flow as usize] += 1;
            if packet.flow == 1 {
                line.push(due, packet, &mut out);
            }
        }
    }
    shares
}

#[test]
fn fq_codel_does_not_starve_old_queues() {
    // A queue that is repeatedly new would get every second turn (RFC 8290 section 4.2).
    let shares = shares_beside(1500);
    assert!((990..=1010).contains(&shares[1]), "{shares:?}");
}

#[test]
fn fq_codel_saves_no_credit_for_idle_flows() {
    let mut line = fq_codel(10_240);
    let mut out = LinkOutput::default();
    for number in 0..100u64 {
        line.push(Time(number * 10_000_000), of_flow(1, packet(0, 100)), &mut out);
    }
    line.poll(Time(1_000_000_000), &mut out);
    out.clear();
    for number in 0..100 {
        line.push(Time(2_000_000_000), of_flow(number % 2, packet(0, 1500)), &mut out);
    }
    line.poll(Time(2_024_000_000), &mut out);
    let burst = out.delivered.iter().filter(|(_, packet)| packet.flow == 1).count();
    assert!((9..=11).contains(&burst), "{burst} of {}", out.delivered.len());
}

fn policer(rate_bit_s: u64, burst_bytes: u64) -> SimplexLink {
    line(QueueSpec::Policer(PolicerSpec { limit: None, rate_bit_s, burst_bytes }))
}

#[test]
fn a_policer_admits_its_burst_and_then_its_rate() {
    // 9 Mbit/s for 60 s against 5 Mbit/s: the bucket gives 30 kB once, and after that 5/9 of the packets pass.
    let out = overload(&mut policer(5_000_000, 30_000), 1_333_333, Ecn::NotEct);
    let admitted = out.delivered.len() as u64 * 1500;
    let bound = 5_000_000 * 60 / 8 + 30_000;
    assert!((bound - 1500..=bound).contains(&admitted), "{admitted} of {bound}");
    // The first loss follows when the burst is spent: 30 kB at 4 Mbit/s, less the cost of whole packets.
    let first = out.dropped[0].0.seconds();
    assert!((0.056..0.062).contains(&first), "{first}");
    assert!(out.dropped.iter().all(|(_, _, reason)| *reason == DropReason::Aqm));
}

#[test]
fn a_policer_delays_no_packet() {
    let out = overload(&mut policer(5_000_000, 30_000), 1_333_333, Ecn::NotEct);
    // The link serves 1,500 bytes in 1.2 ms, less than the gap between arrivals.
    let delays = out.delivered.iter().map(|(due, packet)| due.since(packet.created_at));
    assert!(delays.max() == Some(Span(1_200_000)));
}

#[test]
fn a_policer_drops_no_packet_at_its_rate() {
    // 1,500 bytes every 1.2 ms are 10 Mbit/s, for which a bucket of one packet suffices.
    assert!(overload(&mut policer(10_000_000, 1500), 1_200_000, Ecn::NotEct).dropped.is_empty());
    assert!(!overload(&mut policer(10_000_000, 1500), 1_199_999, Ecn::NotEct).dropped.is_empty());
    assert!(overload(&mut policer(10_000_000, 1499), 1_200_000, Ecn::NotEct).delivered.is_empty());
}
