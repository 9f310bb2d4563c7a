//! A running node: bookings equal queued plus sent volume, and a plan change reroutes queued bundles.

use std::collections::BTreeMap;

use contacts::{
    BundleDemand, ContactId, ContactSpec, ForwardingDecision, Plan, PlanNodeId, PlanSpec, Priority,
    RangeSpec, Router, VolumeBooking,
};
use proptest::prelude::*;
use units::Time;

const S: u64 = 1_000_000_000;

/// Returns a plan from 1 to 6, directly and via 3, at 10 kB/s.
fn plan() -> Plan {
    let contact = |from: &str, to: &str, start: u64, stop: u64| ContactSpec {
        from: from.into(),
        to: to.into(),
        start_ns: start * S,
        stop_ns: stop * S,
        rate_bit_s: 80_000,
        confidence: 1.0,
        declared_at: format!("{from} to {to} from {start} s"),
    };
    let range = |from: &str, to: &str| RangeSpec {
        from: from.into(),
        to: to.into(),
        start_ns: 0,
        stop_ns: 1000 * S,
        owlt_ns: S,
        implies_reverse: true,
        declared_at: String::new(),
    };
    let spec = PlanSpec {
        contacts: vec![
            contact("1", "6", 0, 10),
            contact("1", "6", 20, 40),
            contact("1", "3", 0, 100),
            contact("3", "6", 0, 100),
        ],
        ranges: vec![range("1", "6"), range("1", "3"), range("3", "6")],
        ..PlanSpec::default()
    };
    Plan::new(&spec).unwrap()
}

fn bundle(size: u64, priority: Priority) -> BundleDemand {
    BundleDemand { size, priority, is_fragmentable: false, deadline: Time::MAX }
}

fn node(plan: &Plan, name: &str) -> PlanNodeId {
    plan.node(name).unwrap()
}

/// Decides on a bundle for 6 and queues it.
fn send(router: &mut Router, plan: &Plan, now: u64, one: &BundleDemand) -> Option<VolumeBooking> {
    match router.decide(plan, node(plan, "6"), Time(now * S), one, &[], false) {
        ForwardingDecision::Planned(all) => Some(router.book(&all[0], one)),
        _ => None,
    }
}

#[test]
fn bundles_use_both_routes_according_to_the_backlog() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let one = bundle(9_900, Priority::Normal);
    let next: Vec<String> = (0..14)
        .map(|_| plan.name(send(&mut router, &plan, 0, &one).unwrap().next_hop).to_owned())
        .collect();
    // 10,197 B take 1.02 s. The k-th direct bundle arrives at 1 s + 1.02 k s, over the relay 2.02 s later, which is two
    // bundles. The direct contact thus gets 8 of 14.
    assert_eq!(next.iter().filter(|one| *one == "6").count(), 8);
    assert_eq!(router.overbooked(&plan), []);
}

#[test]
fn a_router_without_backlog_fills_the_direct_contact_first() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0).without_backlog();
    let one = bundle(9_900, Priority::Normal);
    let direct = plan.contact(ContactId(0)).unwrap().volume() / one.consumption();
    for number in 0..direct + 1 {
        let next = send(&mut router, &plan, 0, &one).unwrap().next_hop;
        let wanted = if number < direct { "6" } else { "3" };
        assert_eq!(plan.name(next), wanted, "{number} of {direct}");
    }
}

/// A byte takes 100 us; a shorter time carries none.
#[test]
fn an_exhausted_contact_carries_no_fragment() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let one = BundleDemand { is_fragmentable: true, ..bundle(9_900, Priority::Normal) };
    for (left_ns, wanted) in [(100_000, "6"), (99_999, "3")] {
        let now = Time(40 * S - left_ns);
        let decision = router.decide(&plan, node(&plan, "6"), now, &one, &[], false);
        let ForwardingDecision::Planned(all) = decision else { panic!("{decision:?}") };
        assert_eq!(plan.name(all[0].next_hop), wanted, "{left_ns} ns");
    }
}

#[test]
fn a_removed_contact_reroutes_its_backlog() {
    let mut plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let one = bundle(9_900, Priority::Normal);
    let waiting: Vec<VolumeBooking> =
        (0..4).map(|_| send(&mut router, &plan, 0, &one).unwrap()).collect();
    assert!(waiting.iter().any(|one| plan.name(one.next_hop) == "6"));
    assert!(!router.take_plan_change(&plan));
    for direct in [0, 1] {
        plan.remove_contact(ContactId(direct));
    }
    assert!(router.take_plan_change(&plan));
    assert!(!router.take_plan_change(&plan), "told once");
    assert_eq!(router.overbooked(&plan), [ContactId(0)]);
    waiting.iter().for_each(|one| router.cancel_booking(one));
    assert!(router.overbooked(&plan).is_empty());
    for _ in 0..4 {
        assert_eq!(plan.name(send(&mut router, &plan, 0, &one).unwrap().next_hop), "3");
    }
}

#[test]
fn an_urgent_bundle_overbooks_the_volume_of_a_less_urgent_one() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let first = send(&mut router, &plan, 0, &bundle(90_000, Priority::Bulk)).unwrap();
    assert_eq!(plan.name(first.next_hop), "6");
    let urgent = send(&mut router, &plan, 0, &bundle(90_000, Priority::Expedited)).unwrap();
    assert_eq!(urgent.edges[0].contact, ContactId(0));
    assert_eq!(router.overbooked(&plan), [ContactId(0)]);
    router.cancel_booking(&first);
    assert_eq!(router.overbooked(&plan), []);
    let again = send(&mut router, &plan, 0, &bundle(90_000, Priority::Bulk)).unwrap();
    assert_ne!(again.edges[0].contact, ContactId(0));
    router.on_sent(&urgent);
    assert_eq!(router.backlog().volume_ahead(node(&plan, "6"), Priority::Normal), 0);
    assert_eq!(router.booked_volume().booked(ContactId(0))[Priority::Expedited as usize], 92_700);
    router.remove_expired(&plan, Time(10 * S));
    assert_eq!(router.booked_volume().booked(ContactId(0)), [0; 3]);
}

#[test]
fn a_fragmented_bundle_books_its_first_fragment() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let large = BundleDemand { is_fragmentable: true, ..bundle(500_000, Priority::Normal) };
    let booking = send(&mut router, &plan, 0, &large).unwrap();
    assert_eq!((plan.name(booking.next_hop), booking.consumption), ("6", 100_000));
    assert_eq!(router.overbooked(&plan), []);
}

proptest! {
    /// Booked volume equals queued plus sent volume. The backlog of a neighbour equals the bookings to it.
    #[test]
    fn the_booked_volume_is_the_sum_of_all_bookings(
        steps in proptest::collection::vec((0..4_u8, 1..20_000_u64, 0..3_u8, 0..50_u64), 1..60)
    ) {
        let mut plan = plan();
        let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
        let (mut waiting, mut sent): (Vec<VolumeBooking>, Vec<VolumeBooking>) = (Vec::new(), Vec::new());
        for (kind, size, priority, now) in steps {
            let priority = [Priority::Bulk, Priority::Normal, Priority::Expedited][priority as usize];
            match kind {
                0 if !waiting.is_empty() => {
                    let one = waiting.remove(size as usize % waiting.len());
                    router.on_sent(&one);
                    sent.push(one);
                }
                1 if !waiting.is_empty() => {
                    let one = waiting.remove(size as usize % waiting.len());
                    router.cancel_booking(&one);
                }
                2 if size % 10 == 0 => {
                    plan.end_contact(ContactId(0), Time((1 + now % 10) * S)).unwrap();
                    prop_assert!(router.take_plan_change(&plan));
                    waiting.drain(..).for_each(|one| router.cancel_booking(&one));
                }
                _ => waiting.extend(send(&mut router, &plan, now, &bundle(size, priority))),
            }
            let mut sums: BTreeMap<ContactId, [u64; 3]> = BTreeMap::new();
            for one in waiting.iter().chain(&sent) {
                for edge in &one.edges {
                    sums.entry(edge.contact).or_default()[one.priority as usize] += one.consumption;
                }
            }
            for (id, _) in plan.contacts() {
                prop_assert_eq!(router.booked_volume().booked(id), sums.get(&id).copied().unwrap_or_default());
            }
            for next in ["3", "6"].map(|name| node(&plan, name)) {
                let sum: u64 = waiting.iter().filter(|one| one.next_hop == next).map(|one| one.consumption).sum();
                prop_assert_eq!(router.backlog().volume_ahead(next, Priority::Bulk), sum);
            }
        }
    }
}
