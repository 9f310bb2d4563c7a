//! Plan changes during use, priorities, backlog, critical bundles, static routes.

use contacts::{
    Backlog, BookedVolume, BundleDemand, ContactGraphSearch, ContactId, ContactSpec,
    ForwardingDecision, Plan, PlanNodeId, PlanSpec, Priority, RangeSpec, RejectionReason,
    RouteDemand, StaticRoute, decide_forwarding, evaluate, ion,
};
use proptest::prelude::*;
use units::Time;

const S: u64 = 1_000_000_000;

/// The triangle of a study: 1 to 6 directly, and via 3.
const TRIANGLE: &str = "
a contact +0   +100 1 6 12500000
a contact +110 +300 1 6 12500000
a contact +0   +300 1 3 12500000
a contact +0   +300 3 6 12500000
a range   +0   +300 1 6 1
a range   +0   +300 1 3 1
a range   +0   +300 3 6 1
";

fn plan(text: &str) -> Plan {
    let found = ion::parse(text);
    assert_eq!(found.problems, []);
    Plan::new(&found.spec).unwrap()
}

fn bundle(size: u64, priority: Priority) -> BundleDemand {
    BundleDemand { size, priority, is_fragmentable: false, deadline: Time::MAX }
}

fn node(plan: &Plan, name: &str) -> PlanNodeId {
    plan.node(name).unwrap()
}

#[derive(Default)]
struct Setting {
    booked_volume: BookedVolume,
    backlog: Backlog,
    excluded: Vec<PlanNodeId>,
    critical: bool,
    static_routes: Vec<StaticRoute>,
    min_confidence: f64,
}

impl Setting {
    fn decide(&self, plan: &Plan, bundle: &BundleDemand, at: u64) -> ForwardingDecision {
        let load = RouteDemand::for_bundle(
            bundle,
            &self.booked_volume,
            &self.backlog,
            &self.excluded,
            self.min_confidence,
        );
        let (from, to) = (node(plan, "1"), node(plan, "6"));
        let search = &mut ContactGraphSearch::default();
        decide_forwarding(
            plan,
            search,
            from,
            to,
            Time(at * S),
            bundle,
            &load,
            self.critical,
            &self.static_routes,
        )
    }

    fn next(&self, plan: &Plan, bundle: &BundleDemand, at: u64) -> String {
        match self.decide(plan, bundle, at) {
            ForwardingDecision::Planned(all) => {
                all.iter().map(|one| plan.name(one.next_hop)).collect::<Vec<_>>().join(" ")
            }
            ForwardingDecision::Static(one) => format!("static {}", plan.name(one.next_hop)),
            ForwardingDecision::NoRoute(why) => why,
        }
    }
}

#[test]
fn the_relay_is_taken_before_the_direct_contact_closes() {
    let plan = plan(TRIANGLE);
    let setting = Setting::default();
    let one = bundle(1_000_000, Priority::Normal);
    assert_eq!(setting.next(&plan, &one, 50), "6");
    // 1.03 MB take 82.4 ms: at 99.95 s they no longer fit.
    let ForwardingDecision::Planned(found) = setting.decide(&plan, &one, 100) else { panic!() };
    let (route, judged) = found[0].route.as_ref().unwrap();
    assert_eq!((plan.name(found[0].next_hop), route.edges.len()), ("3", 2));
    // 2 x (82.4 ms + 1 s + its margin of 671,027 ns, rounded up)
    assert_eq!(judged.projected_arrival, Time(100 * S + 2 * (82_400_000 + S + 671_026)));
    // The bundle waits for the direct contact if that starts before the relay could deliver.
    assert_eq!(setting.next(&plan, &one, 109), "6");
}

#[test]
fn contact_changes_have_immediate_effect() {
    let mut plan = plan(TRIANGLE);
    let setting = Setting::default();
    let one = bundle(1_000_000, Priority::Normal);
    let version = plan.version();
    let (first, _) = plan.contacts().next().unwrap();
    assert!(plan.remove_contact(first));
    assert_eq!(setting.next(&plan, &one, 50), "3");
    let back = ContactSpec {
        from: "1".into(),
        to: "6".into(),
        start_ns: 40 * S,
        stop_ns: 100 * S,
        rate_bit_s: 100_000_000,
        confidence: 1.0,
        declared_at: "added".into(),
    };
    let added = plan.add_contact(&back).unwrap();
    assert_eq!(setting.next(&plan, &one, 50), "6");
    // An overlapping contact is refused with both locations and without any change.
    let before = plan.version();
    let twice = plan
        .add_contact(&ContactSpec { start_ns: 90 * S, declared_at: "again".into(), ..back.clone() })
        .unwrap_err();
    assert_eq!((twice.declared_at.join(" "), plan.version()), ("added again".into(), before));
    plan.end_contact(added, Time(50 * S)).unwrap();
    assert_eq!(setting.next(&plan, &one, 50), "3");
    assert!(plan.end_contact(added, Time(120 * S)).is_err());
    plan.end_contact(added, Time(110 * S)).unwrap();
    assert_eq!(setting.next(&plan, &one, 50), "6");
    // The relay becomes nearer than the ground.
    for (from, to, owlt_ns) in [("1", "6", 5 * S), ("1", "3", S), ("3", "6", S)] {
        plan.set_range(&RangeSpec {
            from: from.into(),
            to: to.into(),
            start_ns: 45 * S,
            stop_ns: 60 * S,
            owlt_ns,
            implies_reverse: true,
            declared_at: "moved".into(),
        });
    }
    assert_eq!(
        (setting.next(&plan, &one, 50), setting.next(&plan, &one, 61)),
        ("3".into(), "6".into())
    );
    assert!(plan.version() > version + 4);
}

#[test]
fn volume_is_booked_by_priority() {
    // 1 s at 12,500 B/s
    let plan = plan("a contact +0 +1 1 6 12500\na range +0 +9 1 6 1\n");
    let one = bundle(9_900, Priority::Normal);
    assert_eq!(one.consumption(), 10_197);
    let mut setting = Setting::default();
    let ForwardingDecision::Planned(found) = setting.decide(&plan, &one, 0) else { panic!() };
    let edges = found[0].route.as_ref().unwrap().0.edges.clone();
    setting.booked_volume.book(&edges, Priority::Normal, one.consumption());
    let left = |setting: &Setting, priority| {
        let (id, contact) = plan.contacts().next().unwrap();
        setting.booked_volume.available_volume(id, contact, priority)
    };
    assert_eq!(left(&setting, Priority::Bulk), 12_500 - 10_197);
    assert_eq!(left(&setting, Priority::Normal), 12_500 - 10_197);
    assert_eq!(left(&setting, Priority::Expedited), 12_500);
    let kept = setting.next(&plan, &one, 0);
    assert!(kept.contains("none of their routes can carry all 10,197 B"), "{kept}");
    assert_eq!(setting.next(&plan, &bundle(9_900, Priority::Expedited), 0), "6");
    setting.booked_volume.release(&edges, Priority::Normal, one.consumption());
    assert_eq!(setting.next(&plan, &one, 0), "6");
}

#[test]
fn a_fragmentable_bundle_uses_the_residual_volume() {
    let plan = plan("a contact +0 +1 1 6 12500\na range +0 +9 1 6 1\n");
    let whole = bundle(100_000, Priority::Normal);
    let cut = BundleDemand { is_fragmentable: true, ..whole };
    let setting = Setting::default();
    assert!(setting.next(&plan, &whole, 0).contains("none of their routes"));
    let ForwardingDecision::Planned(found) = setting.decide(&plan, &cut, 0) else { panic!() };
    assert_eq!(found[0].route.as_ref().unwrap().1.volume_limit, 12_500);
}

#[test]
fn the_backlog_is_sent_first_and_earlier_contacts_reduce_it() {
    let plan =
        plan("a contact +0 +10 1 6 1000\na contact +20 +40 1 6 1000\na range +0 +99 1 6 1\n");
    let mut setting = Setting::default();
    setting.backlog.add(node(&plan, "6"), Priority::Normal, 4_000);
    let first = |setting: &Setting, size, priority| {
        let ForwardingDecision::Planned(found) = setting.decide(&plan, &bundle(size, priority), 0)
        else {
            panic!()
        };
        found[0].route.as_ref().unwrap().1.hops[0].first_byte_time
    };
    assert_eq!(first(&setting, 100, Priority::Normal), Time(4 * S));
    assert_eq!(first(&setting, 100, Priority::Bulk), Time(4 * S));
    assert_eq!(first(&setting, 100, Priority::Expedited), Time(0));
    // 15 kB: the first contact takes 10 of them, the second starts with 5 s of the rest.
    setting.backlog.add(node(&plan, "6"), Priority::Normal, 11_000);
    assert_eq!(first(&setting, 100, Priority::Normal), Time(25 * S));
}

#[test]
fn the_previous_node_is_excluded_and_critical_bundles_go_to_all_neighbours() {
    let plan = plan(TRIANGLE);
    let one = bundle(1_000, Priority::Normal);
    let from_six = Setting { excluded: vec![node(&plan, "6")], ..Setting::default() };
    assert_eq!(from_six.next(&plan, &one, 0), "3");
    let all = Setting { excluded: vec![node(&plan, "6"), node(&plan, "3")], ..Setting::default() };
    assert!(all.next(&plan, &one, 0).contains("begin with an excluded neighbour"));
    let critical = Setting { critical: true, ..Setting::default() };
    assert_eq!(critical.next(&plan, &one, 0), "6 3");
    // Only one of them arrives by the deadline.
    let soon = BundleDemand { deadline: Time(3 * S / 2), ..one };
    assert_eq!(critical.next(&plan, &soon, 0), "6");
    let late = BundleDemand { deadline: Time(S), ..one };
    assert!(critical.next(&plan, &late, 0).contains("is after the deadline, 1 s"));
}

/// Each constraint is named only if it contributes to the exclusion of all routes.
#[test]
fn an_excluded_neighbour_and_a_minimum_confidence_give_different_reasons() {
    let contacts = |neighbours: &[(&str, f64)]| {
        let (mut contacts, mut ranges) = (Vec::new(), Vec::new());
        for (via, confidence) in neighbours {
            for (from, to) in [("1", *via), (via, "6")] {
                contacts.push(ContactSpec {
                    from: from.into(),
                    to: to.into(),
                    start_ns: 0,
                    stop_ns: 100 * S,
                    rate_bit_s: 1_000_000,
                    confidence: *confidence,
                    declared_at: format!("{from} {to}"),
                });
                ranges.push(RangeSpec {
                    from: from.into(),
                    to: to.into(),
                    start_ns: 0,
                    stop_ns: 100 * S,
                    owlt_ns: S,
                    implies_reverse: true,
                    declared_at: format!("{from} {to}"),
                });
            }
        }
        Plan::new(&PlanSpec { contacts, ranges, ..PlanSpec::default() }).unwrap()
    };
    let excluded = "all contacts from 1 to 6 begin with an excluded neighbour";
    let unlikely = "lead over contacts with a confidence below 0.9";
    let only = "contacts lead from 1 to 6, but only over contacts with a confidence below 0.9";
    for (neighbours, without, expected) in [
        (vec![("2", 1.0), ("3", 0.5)], "2", format!("{excluded} or {unlikely}")),
        (vec![("2", 0.5)], "2", format!("{excluded} and {unlikely}")),
        (vec![("2", 1.0)], "2", excluded.to_owned()),
        (vec![("2", 0.5), ("3", 0.5)], "2", only.to_owned()),
        (vec![("2", 0.5), ("4", 1.0)], "3", "4".to_owned()),
    ] {
        let plan = contacts(&neighbours);
        let excluded: Vec<PlanNodeId> = plan.node(without).into_iter().collect();
        let setting = Setting { excluded, min_confidence: 0.9, ..Setting::default() };
        assert_eq!(
            setting.next(&plan, &bundle(1, Priority::Normal), 0),
            expected,
            "{neighbours:?}"
        );
    }
}

#[test]
fn static_routes_beside_the_plan() {
    let plan = plan(TRIANGLE);
    let (three, six) = (node(&plan, "3"), node(&plan, "6"));
    let one = bundle(1_000, Priority::Normal);
    let exact = Setting {
        static_routes: vec![StaticRoute { to: Some(six), via: three }],
        ..Setting::default()
    };
    assert_eq!(exact.next(&plan, &one, 0), "static 3");
    // The previous node is excluded.
    let back = Setting { excluded: vec![three], ..exact };
    assert_eq!(back.next(&plan, &one, 0), "6");
    let rest =
        Setting { static_routes: vec![StaticRoute { to: None, via: three }], ..Setting::default() };
    assert_eq!(
        (rest.next(&plan, &one, 0), rest.next(&plan, &one, 301)),
        ("6".into(), "static 3".into())
    );
}

#[test]
fn every_reason_has_its_clause() {
    let plan = plan(TRIANGLE);
    let best = RouteDemand::best_case(&[], 0.0);
    let (from, to) = (node(&plan, "1"), node(&plan, "6"));
    let route = ContactGraphSearch::default().find_route(&plan, &best, from, to, Time(0)).unwrap();
    let six = [to];
    let mut backlog = Backlog::default();
    let mut ledger = BookedVolume::default();
    let reason = |ledger: &BookedVolume,
                  backlog: &Backlog,
                  excluded: &[PlanNodeId],
                  bundle: &BundleDemand| {
        let load = RouteDemand::for_bundle(bundle, ledger, backlog, excluded, 0.0);
        evaluate(&plan, &route, bundle, &load, Time(0))
            .rejection
            .map(|one| (one.clause().unwrap(), one.message(&plan, bundle)))
    };
    let small = bundle(1_000, Priority::Normal);
    assert_eq!(reason(&ledger, &backlog, &[], &small), None);
    let dated = |deadline| BundleDemand {
        deadline: Time(deadline),
        ..bundle(10_000_000, Priority::Normal)
    };
    assert_eq!(reason(&ledger, &backlog, &[], &dated(S)).unwrap().0, "3.2.6.9 a");
    assert_eq!(reason(&ledger, &backlog, &six, &small).unwrap().0, "3.2.6.9 b");
    assert_eq!(reason(&ledger, &backlog, &[], &dated(3 * S / 2)).unwrap().0, "3.2.6.9 e");
    let large = reason(&ledger, &backlog, &[], &bundle(2_000_000_000, Priority::Normal)).unwrap();
    assert_eq!(large.0, "3.2.6.9 g");
    assert!(large.1.starts_with("at most 1,250,000,000 B fit in 1 to 6 (line 2)"), "{}", large.1);
    ledger.book(&route.edges, Priority::Normal, 1_250_000_000);
    assert_eq!(reason(&ledger, &backlog, &[], &small).unwrap().0, "3.2.6.9 f");
    backlog.add(to, Priority::Normal, 2_000_000_000);
    assert_eq!(reason(&ledger, &backlog, &[], &small).unwrap().0, "3.2.6.9 d");
    let over = RejectionReason::RangeChanged(ContactId(0));
    assert!(over.clause().is_none() && over.message(&plan, &small).contains("line 2"));
}

proptest! {
    /// A changed plan routes like a new plan with the same contents.
    #[test]
    fn a_changed_plan_is_the_plan_of_its_contacts(
        changes in proptest::collection::vec((0..4_u8, 1..5_u64, 1..5_u64, 0..40_u64, 1..20_u64), 0..40)
    ) {
        let mut spec = contacts::PlanSpec { nodes: (1..5).map(|n: u64| n.to_string()).collect(), ..Default::default() };
        for from in 1..5 {
            for to in from + 1..5_u64 {
                // The light time increases, then decreases.
                for (start, stop, owlt) in [(5, 17, from), (17, 30, from + to), (30, 50, to)] {
                    spec.ranges.push(RangeSpec {
                        from: from.to_string(), to: to.to_string(), start_ns: start * S, stop_ns: stop * S,
                        owlt_ns: owlt * S, implies_reverse: true, declared_at: String::new(),
                    });
                }
            }
        }
        let mut plan = Plan::new(&spec).unwrap();
        for (kind, from, to, start, length) in changes {
            let before = plan.version();
            let held: Vec<_> = plan.contacts().map(|(id, _)| id).collect();
            let changed = match held.get((start % 7) as usize) {
                Some(id) if kind == 0 => plan.remove_contact(*id),
                Some(id) if kind == 1 => plan.end_contact(*id, Time((start + length) * S)).is_ok(),
                _ => plan.add_contact(&ContactSpec {
                    from: from.to_string(), to: to.to_string(), start_ns: start * S, stop_ns: (start + length) * S,
                    rate_bit_s: 8_000, confidence: 1.0, declared_at: String::new(),
                }).is_ok(),
            };
            prop_assert_eq!(plan.version() > before, changed);
        }
        let contacts = plan.contacts().map(|(_, one)| ContactSpec {
            from: plan.name(one.from).into(), to: plan.name(one.to).into(), start_ns: one.start.nanos(),
            stop_ns: one.stop.nanos(), rate_bit_s: one.rate.bits_per_second(), confidence: 1.0, declared_at: String::new(),
        }).collect();
        let anew = Plan::new(&contacts::PlanSpec { contacts, ..spec }).unwrap();
        let load = RouteDemand::best_case(&[], 0.0);
        for from in 0..4 {
            let tables = [&plan, &anew].map(|plan| ContactGraphSearch::default().compute_table(plan, &load, PlanNodeId(from), Time(0)).routes);
            let shape = |routes: &[Option<contacts::Route>]| routes.iter().map(|one| {
                one.as_ref().map(|one| (one.arrival, one.edges.iter().map(|edge| (edge.from, edge.to, edge.opens)).collect::<Vec<_>>()))
            }).collect::<Vec<_>>();
            prop_assert_eq!(shape(&tables[0]), shape(&tables[1]));
        }
    }
}
