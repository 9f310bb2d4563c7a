//! The delivery bound: closed forms, and random plans against the minimum of all cuts, computed by independent code.

use contacts::{
    ContactSpec, DeliveryBound, Plan, PlanSpec, RangeSpec, Supply, compute_delivery_bound,
};
use units::{RandomStream, Time};

const S: u64 = 1_000_000_000;

/// Returns a plan with contacts (from, to, start, stop, bytes per second) and unlimited ranges, in seconds.
fn plan(contacts: &[(&str, &str, u64, u64, u64)], ranges: &[(&str, &str, u64)]) -> Plan {
    let ranges: Vec<_> = ranges.iter().map(|(a, b, owlt)| (*a, *b, 0, 1000, *owlt)).collect();
    plan_of(contacts, &ranges)
}

/// Returns a plan with ranges (from, to, start, stop, light time).
fn plan_of(
    contacts: &[(&str, &str, u64, u64, u64)],
    ranges: &[(&str, &str, u64, u64, u64)],
) -> Plan {
    let contact = |(n, one): (usize, &(&str, &str, u64, u64, u64))| ContactSpec {
        from: one.0.into(),
        to: one.1.into(),
        start_ns: one.2 * S,
        stop_ns: one.3 * S,
        rate_bit_s: one.4 * 8,
        confidence: 1.0,
        declared_at: format!("contact {n}"),
    };
    let range = |one: &(&str, &str, u64, u64, u64)| RangeSpec {
        from: one.0.into(),
        to: one.1.into(),
        start_ns: one.2 * S,
        stop_ns: one.3 * S,
        owlt_ns: one.4 * S,
        implies_reverse: true,
        declared_at: String::new(),
    };
    Plan::new(&PlanSpec {
        contacts: contacts.iter().enumerate().map(contact).collect(),
        ranges: ranges.iter().map(range).collect(),
        ..PlanSpec::default()
    })
    .expect("a plan")
}

fn bound_of(
    plan: &Plan,
    supplies: &[(&str, u64, u64)],
    to: &str,
    stores: &[(&str, u64)],
) -> DeliveryBound {
    let node = |name: &str| plan.node(name).expect("a node");
    let supplies: Vec<Supply> = supplies
        .iter()
        .map(|(at, time, bytes)| Supply { node: node(at), time: Time(time * S), bytes: *bytes })
        .collect();
    let stores = stores.iter().map(|(name, bytes)| (node(name), *bytes)).collect();
    let found = compute_delivery_bound(plan, &supplies, node(to), &stores);
    assert!(found.max_excess.is_some_and(|above| above < 1.0), "{found:?}");
    found
}

fn arrival_s(best: &DeliveryBound, bytes: u64) -> Option<f64> {
    best.arrival_time(bytes).map(Time::seconds)
}

#[test]
fn the_delay_of_one_hop_is_waiting_transmission_and_owlt() {
    let plan = plan(&[("a", "b", 10, 20, 100), ("a", "b", 30, 40, 50)], &[("a", "b", 3)]);
    let best = bound_of(&plan, &[("a", 5, 250), ("a", 12, 1000)], "b", &[]);
    // 10 s + 250 B at 100 B/s + 3 s
    assert_eq!(arrival_s(&best, 250), Some(15.5));
    // The first contact carries 1000 B; the remaining 250 B start at 30 s.
    assert_eq!((arrival_s(&best, 1000), arrival_s(&best, 1001)), (Some(23.0), Some(33.02)));
    assert_eq!((arrival_s(&best, 1250), arrival_s(&best, 1251)), (Some(38.0), None));
}

#[test]
fn a_gap_of_supplies_is_a_gap_of_arrivals() {
    let plan = plan(&[("a", "b", 0, 100, 100)], &[("a", "b", 1)]);
    let best = bound_of(&plan, &[("a", 0, 150), ("a", 5, 150)], "b", &[]);
    let corners: Vec<(f64, f64)> = best.breakpoints().map(|(at, by)| (at.seconds(), by)).collect();
    let expected = [(1.0, 0.0), (2.5, 150.0), (6.0, 150.0), (7.5, 300.0), (101.0, 300.0)];
    assert!(expected.iter().all(|one| corners.contains(one)), "{corners:?}");
}

#[test]
fn a_relay_stores_data_until_the_second_contact() {
    let contacts = [("a", "r", 0, 10, 100), ("r", "b", 50, 60, 80)];
    let plan = plan(&contacts, &[("a", "r", 2), ("r", "b", 3)]);
    let best_of = |stores: &[(&str, u64)]| bound_of(&plan, &[("a", 0, 5000)], "b", stores);
    // The second contact carries 800 B of the received 1000 B.
    let free = best_of(&[]);
    assert_eq!((arrival_s(&free, 800), arrival_s(&free, 801)), (Some(63.0), None));
    // A store of 300 B limits the stored data until the second contact.
    let bound = best_of(&[("r", 300)]);
    assert_eq!(
        (arrival_s(&bound, 300), arrival_s(&bound, 301)),
        (Some(50.0 + 300.0 / 80.0 + 3.0), None)
    );
}

#[test]
fn a_slow_first_hop_limits_the_rate() {
    let contacts = [("a", "r", 0, 100, 10), ("r", "b", 0, 100, 1000)];
    let plan = plan(&contacts, &[("a", "r", 2), ("r", "b", 3)]);
    let best = bound_of(&plan, &[("a", 0, 200), ("a", 30, 20)], "b", &[]);
    assert_eq!((arrival_s(&best, 100), arrival_s(&best, 200)), (Some(15.0), Some(25.0)));
    assert_eq!((arrival_s(&best, 201), arrival_s(&best, 220)), (Some(35.1), Some(37.0)));
}

#[test]
fn a_full_store_delays_the_sender() {
    // 100 B/s into 50 B, 20 B/s out: once the store is full, input equals output.
    let contacts = [("a", "r", 0, 10, 100), ("r", "b", 0, 100, 20)];
    let plan = plan(&contacts, &[("a", "r", 1), ("r", "b", 1)]);
    let best = bound_of(&plan, &[("a", 0, 10_000)], "b", &[("r", 50)]);
    // The contact to the relay ends there at 11 s: 10 s of 20 B/s, and the remaining 50 B.
    assert_eq!((arrival_s(&best, 250), arrival_s(&best, 251)), (Some(2.0 + 12.5), None));
}

#[test]
fn both_routes_are_used_once() {
    let contacts = [
        ("a", "b", 0, 10, 20),
        ("a", "r", 0, 100, 5),
        ("r", "b", 0, 100, 5),
        ("b", "a", 0, 100, 5),
        ("r", "a", 0, 100, 5),
    ];
    let plan = plan(&contacts, &[("a", "b", 1), ("a", "r", 2), ("r", "b", 2)]);
    let best = bound_of(&plan, &[("a", 0, 300)], "b", &[]);
    // The direct contact delivers 20 B/s from 1 s to 11 s, the relay 5 B/s from 4 s on.
    assert_eq!((arrival_s(&best, 60), arrival_s(&best, 235)), (Some(4.0), Some(11.0)));
    assert_eq!(arrival_s(&best, 300), Some(24.0));
}

#[test]
fn without_a_contact_no_data_arrives_and_lost_supplies_do_not_wait() {
    let alone = plan(&[("b", "a", 0, 10, 20)], &[("a", "b", 1)]);
    assert_eq!(arrival_s(&bound_of(&alone, &[("a", 0, 1)], "b", &[]), 1), None);
    // Data beyond the source's store is lost on arrival.
    let late = plan(&[("a", "b", 10, 20, 100)], &[("a", "b", 1)]);
    let best = bound_of(&late, &[("a", 0, 500), ("a", 9, 500)], "b", &[("a", 600)]);
    assert_eq!((arrival_s(&best, 600), arrival_s(&best, 601)), (Some(17.0), None));
}

#[test]
fn large_volumes_and_unbounded_plans_are_supported() {
    let year = 31_557_600;
    let laid = plan(&[("a", "b", 0, 20 * year, 12_500_000_000)], &[("a", "b", 1)]);
    let ranges = RangeSpec {
        from: "a".into(),
        to: "b".into(),
        start_ns: 0,
        stop_ns: u64::MAX,
        owlt_ns: S,
        implies_reverse: true,
        declared_at: String::new(),
    };
    let mut endless = laid.clone();
    endless.set_range(&ranges);
    let id = endless.contacts().next().map(|(id, _)| id).expect("a contact");
    endless.end_contact(id, Time(u64::MAX)).expect("no other contact");
    for one in [&laid, &endless] {
        // 12.5 GB/s: 4 PB take 320,000 s, and the plan with 1000 s of ranges covers the first of them.
        let best = bound_of(one, &[("a", 0, 4_000_000_000_000_000), ("a", 10 * year, 1)], "b", &[]);
        assert_eq!(arrival_s(&best, 12_500_000_000), Some(2.0));
    }
    let best = bound_of(&endless, &[("a", 0, 4_000_000_000_000_000)], "b", &[]);
    assert_eq!(arrival_s(&best, 4_000_000_000_000_000), Some(320_001.0));
}

/// The light times between two nodes: start, end, light time.
type RangeSeries = Vec<(u64, u64, u64)>;

/// Returns the minimum cut of a plan in whole seconds: the instant at which each store joins the source side.
fn min_cut(
    contacts: &[(usize, usize, u64, u64, u64)],
    light: &[[RangeSeries; 4]; 4],
    supplies: &[(usize, u64, u64)],
    nodes: usize,
    by: u64,
) -> u64 {
    // The last node is the destination.
    let mut min = u64::MAX;
    let choices = by + 2;
    for number in 0..choices.pow(nodes as u32 - 1) {
        let mut from = [0; 4];
        let mut rest = number;
        for one in from.iter_mut().take(nodes - 1) {
            *one = rest % choices;
            rest /= choices;
        }
        from[nodes - 1] = by;
        let mut cut: u64 = supplies
            .iter()
            .filter(|(node, time, _)| *time < from[*node])
            .map(|(_, _, bytes)| bytes)
            .sum();
        for (a, b, start, stop, rate) in contacts {
            for (opens, closes, owlt) in &light[*a][*b] {
                let first = (*start).max(from[*a]).max(*opens);
                let last = (*stop).min(from[*b].saturating_sub(*owlt)).min(*closes);
                cut += rate * last.saturating_sub(first);
            }
        }
        min = min.min(cut);
    }
    min
}

/// Returns up to three consecutive ranges.
fn random_ranges(chance: &mut RandomStream) -> RangeSeries {
    let mut at = 0;
    let mut found = RangeSeries::new();
    for _ in 0..chance.below(3) {
        let stop = at + 1 + chance.below(8);
        found.push((at, stop, chance.below(4)));
        at = stop;
    }
    found.push((at, 1000, chance.below(4)));
    found
}

#[test]
fn the_bound_of_random_plans_equals_the_minimum_cut() {
    let names = ["a", "b", "c", "d"];
    for seed in 0..150 {
        let mut chance = RandomStream::named(seed, "best", "plans");
        let nodes = 3 + chance.below(2) as usize;
        let horizon: u64 = if nodes == 4 { 12 } else { 22 };
        let mut contacts = Vec::new();
        let mut light: [[RangeSeries; 4]; 4] = Default::default();
        for (a, b) in (0..16).map(|pair| (pair / 4, pair % 4)) {
            if a < nodes && b < nodes {
                light[a][b] = if a < b { random_ranges(&mut chance) } else { light[b][a].clone() };
                if a == b || chance.below(3) == 0 {
                    continue;
                }
                let mut start = chance.below(5);
                for _ in 0..2 {
                    let stop = start + 1 + chance.below(5);
                    contacts.push((a, b, start, stop, 1 + chance.below(9)));
                    start = stop + chance.below(4);
                }
            }
        }
        let supplies: Vec<(usize, u64, u64)> = (0..1 + chance.below(3))
            .map(|_| {
                (chance.below(nodes as u64 - 1) as usize, chance.below(6), 1 + chance.below(40))
            })
            .collect();
        if contacts.is_empty() {
            continue;
        }
        let named: Vec<_> =
            contacts.iter().map(|(a, b, c, d, e)| (names[*a], names[*b], *c, *d, *e)).collect();
        let mut ranges = Vec::new();
        for a in 0..nodes {
            for b in a + 1..nodes {
                let of = light[a][b].iter();
                ranges.extend(of.map(|(c, d, owlt)| (names[a], names[b], *c, *d, *owlt)));
            }
        }
        let mut laid = plan_of(&named, &ranges);
        for name in &names[..nodes] {
            laid.add_node(name);
        }
        let given: Vec<_> = supplies.iter().map(|(a, t, n)| (names[*a], *t, *n)).collect();
        let best = bound_of(&laid, &given, names[nodes - 1], &[]);
        for by in [horizon / 2, horizon] {
            let bytes = min_cut(&contacts, &light, &supplies, nodes, by);
            // Exact to a nanosecond.
            let arrival = |bytes: u64| best.arrival_time(bytes).map_or(u64::MAX, Time::nanos);
            assert!(
                bytes == 0 || arrival(bytes) <= by * S + 1,
                "seed {seed}, {bytes} B by {by} s: {best:?}"
            );
            assert!(arrival(bytes + 1) > by * S, "seed {seed}, {bytes} B by {by} s: {best:?}");
        }
    }
}
