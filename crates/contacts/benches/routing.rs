//! Routing at scale: 1,000 nodes and 100,000 contacts. Measures one route, and the routes to all other nodes after a
//! plan change. Prints the median and the maximum of the repetitions with the target.

use std::hint::black_box;
use std::time::{Duration, Instant};

use contacts::{
    Backlog, BookedVolume, BundleDemand, ContactGraphSearch, ContactSpec, ForwardingDecision, Plan,
    PlanNodeId, PlanSpec, Priority, RangeSpec, RouteDemand, Router,
};
use units::{RandomStream, Time};

const NODES: u64 = 1_000;
const CONTACTS: u64 = 100_000;
const DAY_S: u64 = 86_400;
const S: u64 = 1_000_000_000;

/// Returns one day of bidirectional contacts; each node repeatedly meets `neighbours` others.
fn plan(neighbours: u64) -> PlanSpec {
    let chance = &mut RandomStream::named(1, "contacts", "bench");
    let mut spec =
        PlanSpec { nodes: (1..=NODES).map(|n| n.to_string()).collect(), ..PlanSpec::default() };
    let pairs = NODES * neighbours / 2;
    let passes = CONTACTS / 2 / pairs;
    let mut met = std::collections::BTreeSet::new();
    while (met.len() as u64) < pairs {
        let (a, b) = (1 + chance.below(NODES), 1 + chance.below(NODES));
        if a != b && met.insert((a.min(b), a.max(b))) {
            for pass in 0..passes {
                let slot = DAY_S / passes;
                let start = pass * slot + chance.below(slot / 2);
                let stop = start + 1 + chance.below(slot / 2 - 1);
                for (from, to) in [(a, b), (b, a)] {
                    spec.contacts.push(ContactSpec {
                        from: from.to_string(),
                        to: to.to_string(),
                        start_ns: start * S,
                        stop_ns: stop * S,
                        rate_bit_s: 1_000_000 * (1 + chance.below(100)),
                        confidence: 1.0,
                        declared_at: format!("line {}", spec.contacts.len() + 1),
                    });
                }
            }
            spec.ranges.push(RangeSpec {
                from: a.min(b).to_string(),
                to: a.max(b).to_string(),
                start_ns: 0,
                stop_ns: DAY_S * S,
                owlt_ns: 1_000_000 * (1 + chance.below(40)),
                implies_reverse: true,
                declared_at: String::new(),
            });
        }
    }
    spec
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(repeats: usize, mut work: impl FnMut(usize)) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..repeats)
        .map(|number| {
            let begun = Instant::now();
            work(number);
            begun.elapsed()
        })
        .collect();
    times.sort();
    (times[repeats / 2], times[repeats - 1])
}

/// Measures a node, a relay and the ground: the requests of a three-node study for each bundle.
fn triangle() {
    let text = "a contact +0 +100 1 6 12500000\na contact +110 +300 1 6 12500000\na contact +0 +300 1 3 12500000\n\
                a contact +0 +300 3 6 12500000\na range +0 +300 1 6 1\na range +0 +300 1 3 1\na range +0 +300 3 6 1\n";
    let plan = Plan::new(&contacts::ion::parse(text).spec).expect("a plan");
    let (from, to) = (plan.node("1").expect("a node"), plan.node("6").expect("a node"));
    let bundle = BundleDemand {
        size: 1_000_000,
        priority: Priority::Normal,
        is_fragmentable: false,
        deadline: Time::MAX,
    };
    let mut router = Router::new(from, &plan, Vec::new(), 0.0);
    let mut planned = 0;
    let (median, longest) = measure(1_000, |number| {
        let at = Time(number as u64 * S / 5);
        if let ForwardingDecision::Planned(all) = router.decide(&plan, to, at, &bundle, &[], false)
        {
            planned += 1;
            let booking = router.book(&all[0], &bundle);
            router.on_sent(&booking);
        }
    });
    println!(
        "3 nodes, 4 contacts\n  one bundle decided on (of 1,000, {planned} routed): median {median:.3?}, longest {longest:.3?}"
    );
}

fn main() {
    triangle();
    for neighbours in [4, 20, 100] {
        let spec = plan(neighbours);
        let mut plan = Plan::new(&spec).expect("a plan");
        println!(
            "{} nodes, {} contacts, {neighbours} neighbours a node",
            plan.node_count(),
            plan.contacts().count()
        );
        let mut search = ContactGraphSearch::default();
        let chance = &mut RandomStream::named(2, "contacts", "bench");
        let bundle = BundleDemand {
            size: 1_000_000,
            priority: Priority::Normal,
            is_fragmentable: false,
            deadline: Time::MAX,
        };
        let (mut ledger, backlog) = (BookedVolume::default(), Backlog::default());
        let mut found = 0;
        let (median, longest) = measure(1_000, |_| {
            let (from, to) =
                (PlanNodeId(chance.below(NODES) as u32), PlanNodeId(chance.below(NODES) as u32));
            let load = RouteDemand::for_bundle(&bundle, &ledger, &backlog, &[], 0.0);
            let at = Time(chance.below(DAY_S / 2) * S);
            if let Some(route) = black_box(search.find_route(&plan, &load, from, to, at)) {
                found += 1;
                ledger.book(&route.edges, bundle.priority, bundle.consumption());
            }
        });
        println!(
            "  one route of a bundle (of 1,000, {found} found): median {median:.3?}, longest {longest:.3?}; target 50 ms"
        );
        let mut reached = 0;
        let (median, longest) = measure(9, |number| {
            let changed =
                plan.contacts().nth(number * 1_000 + 7).map(|(id, _)| id).expect("a contact");
            plan.remove_contact(changed);
            let load = RouteDemand::best_case(&[], 0.0);
            let table =
                black_box(search.compute_table(&plan, &load, PlanNodeId(number as u32), Time(0)));
            assert_eq!(table.version, plan.version());
            reached = table.routes.iter().flatten().count();
        });
        println!(
            "  to all {reached} others after a change: median {median:.3?}, longest {longest:.3?}; target 1 s"
        );
    }
}
