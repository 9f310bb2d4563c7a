//! Fragments of a bundle: a worked example, and random plans against contacts, volumes and the delivery bound.

use contacts::{
    Backlog, BookedVolume, BundleDemand, ContactSpec, MIN_FRAGMENT_BYTES, Plan, PlanNodeId,
    PlanSpec, PlannedFragment, Priority, RangeSpec, RouteDemand, Supply, compute_delivery_bound,
    ion, plan_fragments,
};
use std::collections::BTreeMap;
use units::{RandomStream, Time};

const S: u64 = 1_000_000_000;

/// From 1 to 5 over 3, or over 2 and 4.
const TWO_ROUTES: &str = "a contact +0 +600 1 2 250000
a contact +0 +900 1 3 150000
a contact +300 +1200 2 4 125000
a contact +600 +1500 3 5 160000
a contact +1000 +1800 4 5 200000
a range +0 +1800 1 2 1
a range +0 +1800 1 3 1
a range +0 +1800 2 4 1
a range +0 +1800 3 5 1
a range +0 +1800 4 5 1
";

fn fragmentable(size: u64) -> BundleDemand {
    BundleDemand { size, priority: Priority::Normal, is_fragmentable: true, deadline: Time::MAX }
}

fn planned(
    plan: &Plan,
    ends: (PlanNodeId, PlanNodeId),
    now: Time,
    bundle: &BundleDemand,
    backlog: &Backlog,
) -> Vec<PlannedFragment> {
    let ledger = BookedVolume::default();
    let load = RouteDemand::for_bundle(bundle, &ledger, backlog, &[], 0.0);
    plan_fragments(plan, ends.0, ends.1, now, bundle, &load)
}

#[test]
fn fragments_use_the_rest_of_each_contact() {
    let plan = Plan::new(&ion::parse(TWO_ROUTES).spec).unwrap();
    let ends = (plan.node("1").unwrap(), plan.node("5").unwrap());
    let light = 1.0 + 125.0 / 186_282.0;
    // Over 3, x bytes leave 1 by x / 150 kB/s and 3 a light time and x / 160 kB/s later, by 1500 s.
    let first = (1500.0 - light) / (1.0 / 150e3 + 1.0 / 160e3);
    // Over 2 and 4, they leave 2 by 1200 s.
    let second = (1200.0 - light) / (1.0 / 250e3 + 1.0 / 125e3);
    let fragments =
        planned(&plan, ends, Time::ZERO, &fragmentable(200_000_000), &Backlog::default());
    let carried: Vec<u64> = fragments.iter().map(|one| one.evaluation.carried_volume).collect();
    assert!((carried[0] as f64 - first).abs() < 2.0, "{carried:?} {first}");
    assert_eq!(fragments[0].size, BundleDemand::max_size(carried[0]));
    assert_eq!(fragments[0].route.arrival.seconds().round(), 1501.0);
    // The rest fits the other route.
    assert_eq!(fragments.len(), 2);
    assert_eq!(fragments[1].size, 200_000_000 - fragments[0].size);
    assert!(fragments[1].evaluation.carried_volume < second as u64);
    // More than both routes carry: the sum of both, whatever the size.
    let fragments =
        planned(&plan, ends, Time::ZERO, &fragmentable(500_000_000), &Backlog::default());
    let carried: Vec<u64> = fragments.iter().map(|one| one.evaluation.carried_volume).collect();
    assert_eq!(carried.len(), 2);
    assert!((carried[0] as f64 - first).abs() < 2.0, "{carried:?} {first}");
    assert!((carried[1] as f64 - second).abs() < 2.0, "{carried:?} {second}");
}

#[test]
fn the_size_of_a_volume_is_the_largest_bundle_that_consumes_it() {
    for volume in (0..10_000).chain([1 << 40, u64::MAX / 101]) {
        let size = BundleDemand::max_size(volume);
        let consumption = |size| fragmentable(size).consumption();
        assert!(size == 0 || consumption(size) <= volume, "{volume}");
        assert!(consumption(size + 1) > volume, "{volume}");
    }
}

fn random_plan(chance: &mut RandomStream) -> PlanSpec {
    let nodes = 3 + chance.below(3);
    let mut spec =
        PlanSpec { nodes: (1..=nodes).map(|n| n.to_string()).collect(), ..PlanSpec::default() };
    for from in 1..=nodes {
        for to in (1..=nodes).filter(|to| *to != from) {
            let mut at = chance.below(30);
            for _ in 0..chance.below(3) {
                let stop = at + 1 + chance.below(20);
                spec.contacts.push(ContactSpec {
                    from: from.to_string(),
                    to: to.to_string(),
                    start_ns: at * S,
                    stop_ns: stop * S,
                    rate_bit_s: [800, 8_000, 24_000][chance.below(3) as usize],
                    confidence: 1.0,
                    declared_at: format!("contact {}", spec.contacts.len()),
                });
                at = stop + chance.below(10);
            }
            if from < to {
                spec.ranges.push(RangeSpec {
                    from: from.to_string(),
                    to: to.to_string(),
                    start_ns: 0,
                    stop_ns: 200 * S,
                    owlt_ns: chance.below(3) * S,
                    implies_reverse: true,
                    declared_at: String::new(),
                });
            }
        }
    }
    spec
}

#[test]
fn no_fragment_exceeds_a_contact_or_the_delivery_bound() {
    let (mut several, mut partial) = (0, 0);
    for seed in 0..1000 {
        let chance = &mut RandomStream::named(seed, "contacts", "fragments");
        let spec = random_plan(chance);
        let plan = Plan::new(&spec).unwrap();
        let ends = (plan.node("1").unwrap(), plan.node("2").unwrap());
        let now = Time(chance.below(20) * S);
        let bundle = fragmentable(1 + chance.below(80_000));
        let mut backlog = Backlog::default();
        if chance.below(2) == 0 {
            backlog.add(ends.1, Priority::Normal, chance.below(20_000));
        }
        let fragments = planned(&plan, ends, now, &bundle, &backlog);
        let sum: u64 = fragments.iter().map(|one| one.size).sum();
        assert!(sum <= bundle.size);
        several += u64::from(fragments.len() > 1);
        partial += u64::from(sum > 0 && sum < bundle.size);
        let mut uses: BTreeMap<_, Vec<(Time, Time)>> = BTreeMap::new();
        for one in &fragments {
            assert!(one.size >= MIN_FRAGMENT_BYTES.min(bundle.size) || sum == bundle.size);
            for hop in &one.evaluation.hops {
                uses.entry(hop.edge.contact)
                    .or_default()
                    .push((hop.first_byte_time, hop.last_byte_time));
                let contact = plan.contact(hop.edge.contact).unwrap();
                assert!(hop.first_byte_time >= contact.start && hop.last_byte_time <= contact.stop);
            }
            let last = one.evaluation.hops.last().unwrap();
            let end = plan.contact(last.edge.contact).unwrap().stop;
            assert!(one.route.arrival <= end + last.edge.owlt + last.edge.owlt_margin);
        }
        // One fragment at a time is on a contact, so their sum is at most its volume.
        for of in uses.values() {
            assert!(of.windows(2).all(|pair| pair[0].1 <= pair[1].0), "plan {seed}: {of:?}");
        }
        let supply = Supply { node: ends.0, time: now, bytes: bundle.size };
        let bound = compute_delivery_bound(&plan, &[supply], ends.1, &BTreeMap::new());
        let mut arrivals: Vec<(Time, u64)> =
            fragments.iter().map(|one| (one.route.arrival, one.size)).collect();
        arrivals.sort_unstable();
        let mut delivered = 0;
        for (at, size) in arrivals {
            delivered += size;
            let earliest = bound.arrival_time(delivered).expect("the bound delivers as much");
            assert!(earliest <= at, "plan {seed}: {delivered} B by {at:?}, bound {earliest:?}");
        }
    }
    assert!(several > 200 && partial > 100, "{several} {partial}");
}
