//! Routing against an independent search over all simple paths, with separate code for ranges and arithmetic.

use contacts::{
    Backlog, BookedVolume, BundleDemand, ContactGraphSearch, ContactSpec, ForwardingDecision,
    KShortestRoutes, Plan, PlanNodeId, PlanSpec, Priority, RangeSpec, RouteDemand,
    decide_forwarding, evaluate,
};
use units::{RandomStream, Time};

const PLANS: u64 = 10_000;
const S: u64 = 1_000_000_000;

fn below(chance: &mut RandomStream, n: u64) -> u64 {
    chance.below(n)
}

/// Returns a small plan: contacts, some adjacent in time, and ranges with steps, some for one direction.
fn random_plan(chance: &mut RandomStream) -> PlanSpec {
    let nodes = 3 + below(chance, 4);
    let mut spec =
        PlanSpec { nodes: (1..=nodes).map(|n| n.to_string()).collect(), ..PlanSpec::default() };
    for from in 1..=nodes {
        for to in 1..=nodes {
            if from == to || below(chance, 5) < 2 {
                continue;
            }
            let mut at = below(chance, 30);
            for _ in 0..=below(chance, 2) {
                let stop = at + 1 + below(chance, 20);
                let line = spec.contacts.len();
                spec.contacts.push(ContactSpec {
                    from: from.to_string(),
                    to: to.to_string(),
                    start_ns: at * S,
                    stop_ns: stop * S,
                    rate_bit_s: [800, 8_000, 12_345][below(chance, 3) as usize],
                    confidence: 1.0,
                    declared_at: format!("contact {line}"),
                });
                at = stop + below(chance, 10);
            }
        }
    }
    for from in 1..=nodes {
        for to in 1..=nodes {
            // The smaller node is first almost always; the reverse range exists sometimes.
            if from == to
                || (from > to && below(chance, 4) > 0)
                || (from < to && below(chance, 20) == 0)
            {
                continue;
            }
            let mut at = if below(chance, 3) == 0 { below(chance, 10) } else { 0 };
            while at < 80 {
                let stop = if below(chance, 3) == 0 { at + 1 + below(chance, 40) } else { 100 };
                spec.ranges.push(RangeSpec {
                    from: from.to_string(),
                    to: to.to_string(),
                    start_ns: at * S,
                    stop_ns: stop * S,
                    owlt_ns: below(chance, 4) * S + below(chance, 2) * 250_000_000,
                    implies_reverse: from < to,
                    declared_at: String::new(),
                });
                at = stop + if below(chance, 4) == 0 { 1 + below(chance, 5) } else { 0 };
            }
        }
    }
    spec
}

/// Returns the range of a direction at an instant by the rules of ionrc(5): its index and light time.
fn range_at(spec: &PlanSpec, from: &str, to: &str, at: u64) -> Option<(usize, u64)> {
    let number = |name: &str| name.parse::<u64>().unwrap();
    let in_force = |a: &str, b: &str| {
        spec.ranges
            .iter()
            .position(|one| one.from == a && one.to == b && one.start_ns <= at && at < one.stop_ns)
    };
    let implied = || if number(to) < number(from) { in_force(to, from) } else { None };
    in_force(from, to).or_else(implied).map(|one| (one, spec.ranges[one].owlt_ns))
}

/// Returns the parts of a contact with a constant range: start, end, light time.
fn pieces(spec: &PlanSpec, one: &ContactSpec) -> Vec<(u64, u64, u64)> {
    let mut edges = vec![one.start_ns, one.stop_ns];
    for range in &spec.ranges {
        edges.extend(
            [range.start_ns, range.stop_ns]
                .iter()
                .filter(|at| **at > one.start_ns && **at < one.stop_ns),
        );
    }
    edges.sort_unstable();
    edges.dedup();
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    let mut before = None;
    for pair in edges.windows(2) {
        let range = range_at(spec, &one.from, &one.to, pair[0]);
        match (range, found.last_mut()) {
            // The range stays the same where only other ranges change.
            (Some(_), Some(last)) if range == before => last.1 = pair[1],
            (Some((_, owlt)), _) => found.push((pair[0], pair[1], owlt)),
            (None, _) => {}
        }
        before = range;
    }
    found
}

struct RouteQuery {
    from: String,
    to: String,
    now: u64,
    consumption: u64,
    is_unfragmentable: bool,
    excluded: Option<String>,
    /// The residual volume of each contact for this priority.
    residual_volume: Vec<u64>,
    /// The backlog of each neighbour, by number.
    backlog: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FoundRoute {
    arrival: u64,
    hops: usize,
    /// Negative, so that the latest sorts first.
    negative_termination: i128,
    next_hop: u64,
}

fn time_for(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 8 * u128::from(S)).div_ceil(u128::from(rate)) as u64
}

/// Returns all routes over all simple paths, with their evaluation by the standard.
fn enumerate_routes(spec: &PlanSpec, asked: &RouteQuery) -> Vec<FoundRoute> {
    let mut found = Vec::new();
    walk(spec, asked, &mut vec![asked.from.clone()], &mut Vec::new(), &mut found);
    found
}

fn walk(
    spec: &PlanSpec,
    asked: &RouteQuery,
    nodes: &mut Vec<String>,
    path: &mut Vec<(usize, u64, u64, u64)>,
    found: &mut Vec<FoundRoute>,
) {
    if nodes.last() == Some(&asked.to) {
        found.extend(candidate(spec, asked, path));
        return;
    }
    for (number, one) in spec.contacts.iter().enumerate() {
        if nodes.last() != Some(&one.from) || nodes.contains(&one.to) {
            continue;
        }
        for (from, until, owlt) in pieces(spec, one) {
            nodes.push(one.to.clone());
            path.push((number, from, until, owlt));
            walk(spec, asked, nodes, path, found);
            path.pop();
            nodes.pop();
        }
    }
}

/// Returns all simple paths, as parts of contacts.
fn enumerate_paths(spec: &PlanSpec, asked: &RouteQuery) -> Vec<Vec<(usize, u64, u64, u64)>> {
    let mut paths = Vec::new();
    let mut open = vec![(vec![asked.from.clone()], Vec::new())];
    while let Some((nodes, path)) = open.pop() {
        if nodes.last() == Some(&asked.to) {
            paths.push(path);
            continue;
        }
        for (number, one) in spec.contacts.iter().enumerate() {
            let is_excluded = nodes.len() == 1 && asked.excluded.as_ref() == Some(&one.to);
            if nodes.last() != Some(&one.from) || nodes.contains(&one.to) || is_excluded {
                continue;
            }
            for (from, until, owlt) in pieces(spec, one) {
                let longer: Vec<String> = nodes.iter().cloned().chain([one.to.clone()]).collect();
                let mut further = path.clone();
                further.push((number, from, until, owlt));
                open.push((longer, further));
            }
        }
    }
    paths
}

/// Returns when a part of a bundle arrives over a path; `None` if it does not pass each contact before its end.
fn part_arrival(
    spec: &PlanSpec,
    asked: &RouteQuery,
    path: &[(usize, u64, u64, u64)],
    part: u64,
) -> Option<u64> {
    let mut at = asked.now;
    for (index, (number, from, until, owlt)) in path.iter().enumerate() {
        let one = &spec.contacts[*number];
        let ready = if index == 0 { after_backlog(spec, asked, one) } else { at };
        let first = ready.max(*from);
        let last = first + time_for(part, one.rate_bit_s);
        if first >= *until || last > one.stop_ns || part > asked.residual_volume[*number] {
            return None;
        }
        at = last + owlt + (u128::from(*owlt) * 125).div_ceil(186_282) as u64;
    }
    Some(at)
}

/// Returns when the backlog of a contact's receiver has been sent, or the start of the contact.
fn after_backlog(spec: &PlanSpec, asked: &RouteQuery, one: &ContactSpec) -> u64 {
    let mut residual = i128::from(asked.backlog[one.to.parse::<usize>().unwrap()]);
    for prior in &spec.contacts {
        let same = prior.from == one.from && prior.to == one.to;
        if same && prior.stop_ns > asked.now && prior.start_ns < one.start_ns {
            let span = prior.stop_ns - prior.start_ns.max(asked.now);
            residual -= i128::from(span) * i128::from(prior.rate_bit_s) / 8 / i128::from(S);
        }
    }
    one.start_ns.max(asked.now) + time_for(residual.max(0) as u64, one.rate_bit_s)
}

/// Returns the largest part of a bundle that a path carries.
fn largest_part(spec: &PlanSpec, asked: &RouteQuery, path: &[(usize, u64, u64, u64)]) -> u64 {
    let (mut passes, mut fails) = (0, asked.consumption + 1);
    while passes + 1 < fails {
        let middle = (passes + fails) / 2;
        if part_arrival(spec, asked, path, middle).is_some() {
            passes = middle;
        } else {
            fails = middle;
        }
    }
    passes
}

/// Checks what a decision states about a bundle that may be fragmented, against all paths.
fn check_fragment(spec: &PlanSpec, asked: &RouteQuery, plan: &Plan, decision: &ForwardingDecision) {
    let paths = enumerate_paths(spec, asked);
    let largest = paths.iter().map(|path| largest_part(spec, asked, path)).max().unwrap_or(0);
    let ForwardingDecision::Planned(copies) = decision else {
        assert_eq!(largest, 0, "a part of the bundle could pass");
        return;
    };
    let (route, judged) = copies[0].route.as_ref().unwrap();
    let path: Vec<(usize, u64, u64, u64)> = route
        .edges
        .iter()
        .map(|edge| {
            (edge.contact.0 as usize, edge.opens.nanos(), edge.closes.nanos(), edge.owlt.nanos())
        })
        .collect();
    assert!(paths.contains(&path));
    assert!(judged.carried_volume > 0 && judged.carried_volume <= largest);
    // Every part, one after the other: the carried one passes, and no larger one does.
    for part in 1..=asked.consumption {
        let passes = part_arrival(spec, asked, &path, part).is_some();
        assert_eq!(passes, part <= judged.carried_volume, "{part}");
    }
    let arrival = part_arrival(spec, asked, &path, judged.carried_volume);
    assert_eq!(arrival, Some(route.arrival.nanos()));
    assert_eq!(route.arrival, judged.projected_arrival);
    for hop in &judged.hops {
        let contact = plan.contact(hop.edge.contact).unwrap();
        assert!(hop.first_byte_time >= contact.start && hop.last_byte_time <= contact.stop);
        assert!(hop.last_byte_arrival <= contact.stop + hop.edge.owlt + hop.edge.owlt_margin);
        assert!(judged.carried_volume <= hop.volume_limit);
    }
}

/// Evaluates one path by 3.2.6.
fn candidate(
    spec: &PlanSpec,
    asked: &RouteQuery,
    path: &[(usize, u64, u64, u64)],
) -> Option<FoundRoute> {
    let mut at = asked.now;
    let mut limit = u64::MAX;
    for (index, (number, from, until, owlt)) in path.iter().enumerate() {
        let one = &spec.contacts[*number];
        let mut ready = at;
        if index == 0 {
            if asked.excluded.as_ref() == Some(&one.to) {
                return None;
            }
            ready = after_backlog(spec, asked, one);
        }
        let first = ready.max(*from);
        if first >= *until {
            return None;
        }
        let last = first + time_for(asked.consumption, one.rate_bit_s);
        at = last + owlt + (u128::from(*owlt) * 125).div_ceil(186_282) as u64;
        let stop =
            path[index..].iter().map(|(number, ..)| spec.contacts[*number].stop_ns).min().unwrap();
        if stop <= first {
            return None;
        }
        let passes = u128::from(stop - first) * u128::from(one.rate_bit_s) / 8 / u128::from(S);
        limit = limit.min(passes as u64).min(asked.residual_volume[*number]);
    }
    let enough = if asked.is_unfragmentable {
        limit >= asked.consumption
    } else {
        limit > 0 || asked.consumption == 0
    };
    let ends = path.iter().map(|(number, ..)| spec.contacts[*number].stop_ns).min().unwrap();
    let entry = spec.contacts[path[0].0].to.parse().unwrap();
    enough.then_some(FoundRoute {
        arrival: at,
        hops: path.len(),
        negative_termination: -i128::from(ends),
        next_hop: entry,
    })
}

fn to_found_route(plan: &Plan, route: &contacts::Route) -> FoundRoute {
    FoundRoute {
        arrival: route.arrival.nanos(),
        hops: route.edges.len(),
        negative_termination: -i128::from(route.termination().nanos()),
        next_hop: plan.name(route.next_hop().unwrap()).parse().unwrap(),
    }
}

#[test]
fn the_best_route_of_ten_thousand_plans_and_never_beyond_a_volume() {
    let (mut routed, mut refused, mut several, mut fragmented) = (0, 0, 0, 0);
    for seed in 0..PLANS {
        let chance = &mut RandomStream::named(seed, "contacts", "brute force");
        let spec = random_plan(chance);
        let plan = Plan::new(&spec).unwrap_or_else(|problems| panic!("plan {seed}: {problems:?}"));
        let nodes = spec.nodes.len() as u64;
        let mut ledger = BookedVolume::default();
        let mut backlog = Backlog::default();
        let mut search = ContactGraphSearch::default();
        for bundle in 0..3 {
            let from = 1 + below(chance, nodes);
            let to = 1 + (from + below(chance, nodes - 1)) % nodes;
            let now = below(chance, 20) * S;
            let priority =
                [Priority::Bulk, Priority::Normal, Priority::Expedited][below(chance, 3) as usize];
            let bundle = BundleDemand {
                size: [1, 100, 900, 5_000][below(chance, 4) as usize] + bundle,
                priority,
                is_fragmentable: below(chance, 4) == 0,
                deadline: Time::MAX,
            };
            let node = |n: u64| plan.node(&n.to_string()).unwrap();
            let excluded: Vec<PlanNodeId> =
                if below(chance, 3) == 0 { vec![node(1 + below(chance, nodes))] } else { vec![] };
            if below(chance, 2) == 0 {
                backlog.add(node(1 + below(chance, nodes)), priority, below(chance, 3_000));
            }
            let left = plan
                .contacts()
                .map(|(id, one)| ledger.available_volume(id, one, priority))
                .collect();
            let mut waiting = vec![0];
            waiting.extend((1..=nodes).map(|n| backlog.volume_ahead(node(n), priority)));
            let consumption = bundle.size + (bundle.size * 3).div_ceil(100).max(100);
            assert_eq!(consumption, bundle.consumption());
            let asked = RouteQuery {
                from: from.to_string(),
                to: to.to_string(),
                now,
                consumption,
                is_unfragmentable: !bundle.is_fragmentable,
                excluded: excluded.first().map(|one| plan.name(*one).to_owned()),
                residual_volume: left,
                backlog: waiting,
            };
            let mut expected = enumerate_routes(&spec, &asked);
            expected.sort();
            several += u64::from(expected.len() > 1);
            let load = RouteDemand::for_bundle(&bundle, &ledger, &backlog, &excluded, 0.0);
            let found = search.find_route(&plan, &load, node(from), node(to), Time(now));
            assert_eq!(
                found.as_ref().map(|one| to_found_route(&plan, one)),
                expected.first().cloned(),
                "plan {seed}: {spec:?}"
            );
            let decision = decide_forwarding(
                &plan,
                &mut search,
                node(from),
                node(to),
                Time(now),
                &bundle,
                &load,
                false,
                &[],
            );
            if bundle.is_fragmentable {
                check_fragment(&spec, &asked, &plan, &decision);
                fragmented += u64::from(
                    expected.is_empty() && matches!(decision, ForwardingDecision::Planned(_)),
                );
            }
            // A critical bundle takes the first route of each neighbour.
            let mut firsts: Vec<FoundRoute> = Vec::new();
            for one in &expected {
                if firsts.iter().all(|known| known.next_hop != one.next_hop) {
                    firsts.push(one.clone());
                }
            }
            let copies = decide_forwarding(
                &plan,
                &mut search,
                node(from),
                node(to),
                Time(now),
                &bundle,
                &load,
                true,
                &[],
            );
            let copies: Vec<u64> = match copies {
                ForwardingDecision::Planned(all) => {
                    all.iter().map(|one| plan.name(one.next_hop).parse().unwrap()).collect()
                }
                _ => Vec::new(),
            };
            let neighbours: Vec<u64> = firsts.iter().map(|one| one.next_hop).collect();
            if bundle.is_fragmentable {
                assert!(neighbours.iter().all(|one| copies.contains(one)), "plan {seed}, critical");
            } else {
                assert_eq!(copies, neighbours, "plan {seed}, critical");
            }
            let Some(route) = found else {
                refused += 1;
                continue;
            };
            routed += 1;
            let judged = evaluate(&plan, &route, &bundle, &load, Time(now));
            assert_eq!(judged.rejection, None, "plan {seed}");
            let takes = judged.carried_volume;
            if takes == consumption {
                assert_eq!(judged.projected_arrival, route.arrival, "plan {seed}");
            } else {
                assert!(judged.projected_arrival < route.arrival, "plan {seed}");
            }
            ledger.book(&route.edges, priority, takes);
            for edge in &route.edges {
                let of_it: u64 = ledger.booked(edge.contact)[priority as usize..].iter().sum();
                assert!(
                    of_it <= plan.contact(edge.contact).unwrap().volume(),
                    "plan {seed}: beyond a volume"
                );
            }
        }
    }
    // The sample is meaningful: most plans have a route, and many have several.
    assert!(
        routed > PLANS && refused > PLANS / 4 && several > PLANS && fragmented > 100,
        "{routed} {refused} {several} {fragmented}"
    );
}

#[test]
fn alternatives_are_all_routes_in_order() {
    let mut longest = 0;
    for seed in 0..500 {
        let chance = &mut RandomStream::named(seed, "contacts", "alternatives");
        let spec = random_plan(chance);
        let plan = Plan::new(&spec).unwrap();
        if spec.nodes.len() > 5 {
            continue;
        }
        let now = below(chance, 10) * S;
        let asked = RouteQuery {
            from: "1".into(),
            to: "2".into(),
            now,
            consumption: 0,
            is_unfragmentable: true,
            excluded: None,
            residual_volume: vec![u64::MAX; spec.contacts.len()],
            backlog: vec![0; 10],
        };
        let mut expected = enumerate_routes(&spec, &asked);
        expected.sort();
        let (from, to) = (plan.node("1").unwrap(), plan.node("2").unwrap());
        let found: Vec<FoundRoute> =
            KShortestRoutes::new(&plan, RouteDemand::best_case(&[], 0.0), from, to, Time(now))
                .map(|one| to_found_route(&plan, &one))
                .collect();
        longest = longest.max(found.len());
        assert_eq!(found, expected, "plan {seed}");
    }
    assert!(longest > 25, "{longest}");
}

#[test]
fn the_table_of_all_destinations_has_each_one_s_best_route() {
    for seed in 0..300 {
        let chance = &mut RandomStream::named(seed, "contacts", "table");
        let spec = random_plan(chance);
        let plan = Plan::new(&spec).unwrap();
        let load = RouteDemand::best_case(&[], 0.0);
        let mut search = ContactGraphSearch::default();
        for from in 0..plan.node_count() as u32 {
            let table = search.compute_table(&plan, &load, PlanNodeId(from), Time(0));
            for to in (0..plan.node_count() as u32).filter(|to| *to != from) {
                let alone =
                    search.find_route(&plan, &load, PlanNodeId(from), PlanNodeId(to), Time(0));
                assert_eq!(table.routes[to as usize], alone, "plan {seed}, {from} to {to}");
            }
        }
    }
}
