//! A running node: what it books is what waits and what was sent, and a change of the plan sends it another way.

use std::collections::BTreeMap;

use contacts::{
    Booking, Bundle, ContactId, ContactSpec, Decision, NodeId, Plan, PlanSpec, Priority, RangeSpec,
    Router,
};
use proptest::prelude::*;
use units::Time;

const S: u64 = 1_000_000_000;

/// 1 to 6, and over 3; 10 kB/s for as long as is said.
fn plan() -> Plan {
    let contact = |from: &str, to: &str, start: u64, stop: u64| ContactSpec {
        from: from.into(),
        to: to.into(),
        start_ns: start * S,
        stop_ns: stop * S,
        rate_bit_s: 80_000,
        confidence: 1.0,
        at: format!("{from} to {to} from {start} s"),
    };
    let range = |from: &str, to: &str| RangeSpec {
        from: from.into(),
        to: to.into(),
        start_ns: 0,
        stop_ns: 1000 * S,
        owlt_ns: S,
        implies_reverse: true,
        at: String::new(),
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

fn bundle(size: u64, priority: Priority) -> Bundle {
    Bundle { size, priority, fragmentable: false, deadline: Time::MAX }
}

fn node(plan: &Plan, name: &str) -> NodeId {
    plan.node(name).unwrap()
}

/// Decides on a bundle for 6, and lets it wait.
fn send(router: &mut Router, plan: &Plan, now: u64, one: &Bundle) -> Option<Booking> {
    match router.decide(plan, node(plan, "6"), Time(now * S), one, &[], false) {
        Decision::Planned(all) => Some(router.wait(&all[0], one)),
        _ => None,
    }
}

#[test]
fn bundles_share_both_ways_by_what_waits() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let one = bundle(9_900, Priority::Normal);
    let next: Vec<String> = (0..14)
        .map(|_| plan.name(send(&mut router, &plan, 0, &one).unwrap().next).to_owned())
        .collect();
    // 10,197 B take 1.02 s: the k-th to go directly arrives at 1 s + 1.02 k s, over the relay 2.02 s later, which is two
    // bundles; so of 14 the direct contact gets 8
    assert_eq!(next.iter().filter(|one| *one == "6").count(), 8);
    assert_eq!(router.overbooked(&plan), []);
}

#[test]
fn who_counts_no_backlog_fills_the_direct_contact_first() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0).without_backlog();
    let one = bundle(9_900, Priority::Normal);
    let direct = plan.contact(ContactId(0)).unwrap().volume() / one.consumption();
    for number in 0..direct + 1 {
        let next = send(&mut router, &plan, 0, &one).unwrap().next;
        let wanted = if number < direct { "6" } else { "3" };
        assert_eq!(plan.name(next), wanted, "{number} of {direct}");
    }
}

/// A byte takes 100 us: nothing of a bundle passes in less.
#[test]
fn a_contact_that_passes_no_byte_any_more_carries_no_fragment() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let one = Bundle { fragmentable: true, ..bundle(9_900, Priority::Normal) };
    for (left_ns, wanted) in [(100_000, "6"), (99_999, "3")] {
        let now = Time(40 * S - left_ns);
        let decision = router.decide(&plan, node(&plan, "6"), now, &one, &[], false);
        let Decision::Planned(all) = decision else { panic!("{decision:?}") };
        assert_eq!(plan.name(all[0].to), wanted, "{left_ns} ns");
    }
}

#[test]
fn a_contact_that_goes_sends_what_waits_another_way() {
    let mut plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let one = bundle(9_900, Priority::Normal);
    let waiting: Vec<Booking> =
        (0..4).map(|_| send(&mut router, &plan, 0, &one).unwrap()).collect();
    assert!(waiting.iter().any(|one| plan.name(one.next) == "6"));
    assert!(!router.outdated(&plan));
    for direct in [0, 1] {
        plan.remove_contact(ContactId(direct));
    }
    assert!(router.outdated(&plan));
    assert!(!router.outdated(&plan), "told once");
    assert_eq!(router.overbooked(&plan), [ContactId(0)]);
    waiting.iter().for_each(|one| router.withdraw(one));
    assert!(router.overbooked(&plan).is_empty());
    for _ in 0..4 {
        assert_eq!(plan.name(send(&mut router, &plan, 0, &one).unwrap().next), "3");
    }
}

#[test]
fn an_urgent_bundle_overbooks_what_a_less_urgent_one_has() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let first = send(&mut router, &plan, 0, &bundle(90_000, Priority::Bulk)).unwrap();
    assert_eq!(plan.name(first.next), "6");
    let urgent = send(&mut router, &plan, 0, &bundle(90_000, Priority::Expedited)).unwrap();
    assert_eq!(urgent.legs[0].contact, ContactId(0));
    assert_eq!(router.overbooked(&plan), [ContactId(0)]);
    router.withdraw(&first);
    assert_eq!(router.overbooked(&plan), []);
    let again = send(&mut router, &plan, 0, &bundle(90_000, Priority::Bulk)).unwrap();
    assert_ne!(again.legs[0].contact, ContactId(0));
    router.sent(&urgent);
    assert_eq!(router.backlog().ahead(node(&plan, "6"), Priority::Normal), 0);
    assert_eq!(router.ledger().booked(ContactId(0))[Priority::Expedited as usize], 92_700);
    router.tidy(&plan, Time(10 * S));
    assert_eq!(router.ledger().booked(ContactId(0)), [0; 3]);
}

#[test]
fn what_is_cut_books_its_first_part() {
    let plan = plan();
    let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
    let large = Bundle { fragmentable: true, ..bundle(500_000, Priority::Normal) };
    let booking = send(&mut router, &plan, 0, &large).unwrap();
    assert_eq!((plan.name(booking.next), booking.consumption), ("6", 100_000));
    assert_eq!(router.overbooked(&plan), []);
}

proptest! {
    /// What is booked is what waits and what was sent; what waits for a neighbour is what is booked to it.
    #[test]
    fn the_ledger_is_the_sum_of_its_bookings(
        steps in proptest::collection::vec((0..4_u8, 1..20_000_u64, 0..3_u8, 0..50_u64), 1..60)
    ) {
        let mut plan = plan();
        let mut router = Router::new(node(&plan, "1"), &plan, Vec::new(), 0.0);
        let (mut waiting, mut sent): (Vec<Booking>, Vec<Booking>) = (Vec::new(), Vec::new());
        for (kind, size, priority, now) in steps {
            let priority = [Priority::Bulk, Priority::Normal, Priority::Expedited][priority as usize];
            match kind {
                0 if !waiting.is_empty() => {
                    let one = waiting.remove(size as usize % waiting.len());
                    router.sent(&one);
                    sent.push(one);
                }
                1 if !waiting.is_empty() => {
                    let one = waiting.remove(size as usize % waiting.len());
                    router.withdraw(&one);
                }
                2 if size % 10 == 0 => {
                    plan.end_contact(ContactId(0), Time((1 + now % 10) * S)).unwrap();
                    prop_assert!(router.outdated(&plan));
                    waiting.drain(..).for_each(|one| router.withdraw(&one));
                }
                _ => waiting.extend(send(&mut router, &plan, now, &bundle(size, priority))),
            }
            let mut sums: BTreeMap<ContactId, [u64; 3]> = BTreeMap::new();
            for one in waiting.iter().chain(&sent) {
                for leg in &one.legs {
                    sums.entry(leg.contact).or_default()[one.priority as usize] += one.consumption;
                }
            }
            for (id, _) in plan.contacts() {
                prop_assert_eq!(router.ledger().booked(id), sums.get(&id).copied().unwrap_or_default());
            }
            for next in ["3", "6"].map(|name| node(&plan, name)) {
                let sum: u64 = waiting.iter().filter(|one| one.next == next).map(|one| one.consumption).sum();
                prop_assert_eq!(router.backlog().ahead(next, Priority::Bulk), sum);
            }
        }
    }
}
