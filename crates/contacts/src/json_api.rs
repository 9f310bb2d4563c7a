//! The JSON interface of contact plans, for callers in other languages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::Time;

use crate::booked_volume::{Backlog, BookedVolume, Priority};
use crate::bound::{Supply, compute_delivery_bound};
use crate::candidate::{CandidateEvaluation, evaluate};
use crate::forwarding::{
    ForwardingDecision, PlannedCopy, StaticRoute, decide_forwarding, find_largest_fragment,
};
use crate::fragments::plan_fragments;
use crate::plan::{Plan, PlanNodeId};
use crate::plan_check::{PlanDiagnostic, check_plan};
use crate::route::{BundleDemand, Route, RouteDemand};
use crate::search::ContactGraphSearch;
use crate::suggestion::suggest;
use crate::yen::KShortestRoutes;
use crate::{PlanSpec, ion};

/// The limit of routes examined for an explanation.
const MAX_ROUTES: usize = 1000;

/// Parses ION's commands. Returns the plan, skipped lines and errors, by line.
pub fn parse_ion_json(text: &str) -> String {
    let found = ion::parse(text);
    json!({"plan": found.spec, "notes": found.notes, "errors": found.problems}).to_string()
}

/// Returns errors and warnings of a plan, and the ranges of each pair with contacts, including implied ones.
pub fn check_plan_json(plan_json: &str) -> Result<String, String> {
    let spec: PlanSpec = serde_json::from_str(plan_json).map_err(|error| error.to_string())?;
    let (problems, warnings) = check_plan(&spec);
    let mut pairs = Vec::new();
    if let Ok(plan) = Plan::new(&spec) {
        let mut known: Vec<(PlanNodeId, PlanNodeId)> =
            plan.contacts().map(|(_, one)| (one.from, one.to)).collect();
        known.sort_by_key(|(from, to)| (plan.sort_key(*from), plan.sort_key(*to)));
        known.dedup();
        for (from, to) in known {
            let ranges: Vec<Value> = plan
                .ranges(from, to)
                .iter()
                .map(|one| json!([one.start.nanos(), one.stop.nanos(), one.owlt.nanos()]))
                .collect();
            pairs.push(json!({"from": plan.name(from), "to": plan.name(to), "ranges": ranges}));
        }
    }
    Ok(json!({"errors": problems, "warnings": warnings, "pairs": pairs}).to_string())
}

/// A request for the delivery bound of a destination.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundRequest {
    plan: PlanSpec,
    to: String,
    /// The supplies: node, nanoseconds, bytes.
    supplies: Vec<(String, u64, u64)>,
    /// The storage limits of nodes in bytes; without an entry a store is unlimited.
    #[serde(default)]
    stores: BTreeMap<String, u64>,
}

/// Computes the delivery bound over time (`breakpoints`: nanoseconds, bytes) and its maximum excess over the optimum
/// (`max_excess_bytes`). `arrivals_ns` contains the earliest arrival of each supply, if they are sent by time. Request and
/// response are JSON. An error names the field.
pub fn compute_delivery_bound_json(question_json: &str) -> Result<String, String> {
    let request: BoundRequest =
        serde_json::from_str(question_json).map_err(|error| error.to_string())?;
    let plan = Plan::new(&request.plan).map_err(|problems| format_diagnostics(&problems))?;
    let to = find_node(&plan, "to", &request.to)?;
    let mut supplies = Vec::with_capacity(request.supplies.len());
    for (at, time, bytes) in &request.supplies {
        let at = find_node(&plan, "supplies", at)?;
        supplies.push(Supply { node: at, time: Time(*time), bytes: *bytes });
    }
    let mut stores = BTreeMap::new();
    for (at, bytes) in &request.stores {
        // The store of a node without contacts limits no flow.
        stores.extend(plan.node(at).map(|node| (node, *bytes)));
    }
    let found = compute_delivery_bound(&plan, &supplies, to, &stores);
    let mut order: Vec<usize> = (0..supplies.len()).collect();
    order.sort_by_key(|index| supplies[*index].time);
    let mut arrivals = vec![None; supplies.len()];
    let mut until = 0_u64;
    for index in order {
        until = until.saturating_add(supplies[index].bytes);
        arrivals[index] = found.arrival_time(until).map(Time::nanos);
    }
    let corners: Vec<(u64, f64)> =
        found.breakpoints().map(|(at, bytes)| (at.nanos(), bytes)).collect();
    Ok(json!({"breakpoints": corners, "max_excess_bytes": found.max_excess, "arrivals_ns": arrivals})
        .to_string())
}

/// Returns a node of the plan, or an error if it does not exist.
fn find_node(plan: &Plan, field: &str, name: &str) -> Result<PlanNodeId, String> {
    plan.node(name).ok_or_else(|| {
        // A number is no misspelling of another one.
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let near = if is_number { String::new() } else { suggest(name, plan.names()) };
        let mut nodes: Vec<PlanNodeId> = plan.names().filter_map(|name| plan.node(name)).collect();
        nodes.sort_by_key(|node| plan.sort_key(*node));
        let names: Vec<&str> = nodes.iter().take(12).map(|node| plan.name(*node)).collect();
        let more = if plan.node_count() > names.len() { ", ..." } else { "" };
        let known = format!("the plan knows {}{more}", names.join(", "));
        format!("{field}: found {name:?}, a node that no contact names{near}; {known}")
    })
}

/// A request for a forwarding decision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteRequest {
    plan: PlanSpec,
    from: String,
    to: String,
    at_ns: u64,
    bytes: u64,
    priority: Priority,
    fragmentable: bool,
    deadline_ns: Option<u64>,
    critical: bool,
    excluded: Vec<String>,
    min_confidence: f64,
    /// The backlog: neighbour, priority, bytes.
    backlog: Vec<(String, Priority, u64)>,
    /// The booked volume of contacts by their declaration: `declared_at` of the contact, priority, bytes.
    booked: Vec<(String, Priority, u64)>,
    /// The static routes: destination (null for all), neighbour.
    static_routes: Vec<(Option<String>, String)>,
    /// The number of additional routes to evaluate, by best-case arrival.
    alternatives: usize,
}

/// Decides on a bundle. Request and response are JSON. An error names the field.
pub fn decide_route_json(question_json: &str) -> Result<String, String> {
    let request: RouteRequest =
        serde_json::from_str(question_json).map_err(|error| error.to_string())?;
    let plan = Plan::new(&request.plan).map_err(|problems| format_diagnostics(&problems))?;
    let node = |field: &str, name: &str| find_node(&plan, field, name);
    let (from, to) = (node("from", &request.from)?, node("to", &request.to)?);
    let excluded =
        request.excluded.iter().map(|one| node("excluded", one)).collect::<Result<Vec<_>, _>>()?;
    let mut statics = Vec::new();
    for (to, via) in &request.static_routes {
        let to = to.as_ref().map(|one| node("static_routes", one)).transpose()?;
        statics.push(StaticRoute { to, via: node("static_routes", via)? });
    }
    let mut backlog = Backlog::default();
    for (neighbour, priority, bytes) in &request.backlog {
        backlog.add(node("backlog", neighbour)?, *priority, *bytes);
    }
    let mut ledger = BookedVolume::default();
    for (declared_at, priority, bytes) in &request.booked {
        let found =
            plan.contacts().find(|(_, one)| one.declared_at == *declared_at).map(|(id, _)| id);
        let Some(id) = found else {
            let near =
                suggest(declared_at, plan.contacts().map(|(_, one)| one.declared_at.as_str()));
            return Err(format!(
                "booked: found {declared_at:?}, expected the location of a contact, such as \"line 3\"{near}"
            ));
        };
        ledger.book_contact(id, *priority, *bytes);
    }
    let at = Time(request.at_ns);
    let bundle = BundleDemand {
        size: request.bytes,
        priority: request.priority,
        is_fragmentable: request.fragmentable,
        deadline: request.deadline_ns.map_or(Time::MAX, Time),
    };
    let load =
        RouteDemand::for_bundle(&bundle, &ledger, &backlog, &excluded, request.min_confidence);
    let mut search = ContactGraphSearch::default();
    let decision = decide_forwarding(
        &plan,
        &mut search,
        from,
        to,
        at,
        &bundle,
        &load,
        request.critical,
        &statics,
    );
    let show = |route: &Route, judgement: &CandidateEvaluation| {
        describe_route(&plan, &bundle, route, judgement)
    };
    let forward = |one: &PlannedCopy| {
        json!({
            "next": plan.name(one.next_hop),
            "route": one.route.as_ref().map(|(route, judgement)| show(route, judgement)),
        })
    };
    let is_planned = matches!(decision, ForwardingDecision::Planned(_));
    // A node does not fragment a bundle of several copies.
    let is_single = matches!(&decision, ForwardingDecision::Planned(copies) if copies.len() == 1);
    let fragments: Vec<Value> = if is_single && bundle.is_fragmentable {
        plan_fragments(&plan, from, to, at, &bundle, &load)
            .iter()
            .map(|one| json!({"bytes": one.size, "route": show(&one.route, &one.evaluation)}))
            .collect()
    } else {
        Vec::new()
    };
    let largest = if is_planned || from == to {
        None
    } else {
        find_largest_fragment(&plan, &mut search, &load, from, to, at)
            .map(|(consumption, _)| BundleDemand::max_size(consumption))
    };
    let (by, forwarded, no_route_reason) = match &decision {
        ForwardingDecision::Planned(all) => ("plan", all.iter().map(forward).collect(), None),
        ForwardingDecision::Static(one) => ("static", vec![forward(one)], None),
        ForwardingDecision::NoRoute(why) => ("no_route", Vec::new(), Some(why)),
    };
    let best_case = RouteDemand::best_case(&[], request.min_confidence);
    let alternatives: Vec<Value> = if from == to {
        Vec::new()
    } else {
        KShortestRoutes::new(&plan, best_case, from, to, at)
            .take(request.alternatives.min(MAX_ROUTES))
            .map(|route| show(&route, &evaluate(&plan, &route, &bundle, &load, at)))
            .collect()
    };
    Ok(json!({
        "by": by,
        "forwarded": forwarded,
        "no_route_reason": no_route_reason,
        "bytes": bundle.size,
        "consumption_bytes": bundle.consumption(),
        "fragments": fragments,
        "largest_bytes": largest,
        "alternatives": alternatives,
    })
    .to_string())
}

fn format_diagnostics(problems: &[PlanDiagnostic]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|one| format!("{}: {}", one.declared_at.join(" and "), one.text))
        .collect();
    lines.join("\n")
}

fn describe_route(
    plan: &Plan,
    bundle: &BundleDemand,
    route: &Route,
    judgement: &CandidateEvaluation,
) -> Value {
    let passing: Vec<Value> = judgement
        .hops
        .iter()
        .map(|one| {
            let contact = plan.contact(one.edge.contact);
            json!({
                "from": plan.name(one.edge.from),
                "to": plan.name(one.edge.to),
                "declared_at": contact.map(|contact| contact.declared_at.as_str()),
                "start_ns": contact.map(|contact| contact.start.nanos()),
                "stop_ns": one.edge.stop.nanos(),
                "rate_bit_s": one.edge.rate.bits_per_second(),
                "owlt_ns": one.edge.owlt.nanos(),
                "margin_ns": one.edge.owlt_margin.nanos(),
                "ahead_bytes": one.backlog_ahead,
                "first_ns": one.first_byte_time.nanos(),
                "last_ns": one.last_byte_time.nanos(),
                "arrival_ns": one.last_byte_arrival.nanos(),
                "available_bytes": one.available_volume,
                "effective_stop_ns": one.effective_stop.nanos(),
                "limit_bytes": one.volume_limit,
            })
        })
        .collect();
    json!({
        "contacts": passing,
        "hops": route.edges.len(),
        "best_case_ns": judgement.best_case_arrival.nanos(),
        "projected_ns": judgement.projected_arrival.nanos(),
        "termination_ns": route.termination().nanos(),
        "carried_bytes": judgement.carried_volume,
        "limit_bytes": judgement.volume_limit,
        "confidence": route.confidence(),
        "clause": judgement.rejection.and_then(|one| one.clause()),
        "reason": judgement.rejection.map(|one| one.message(plan, bundle)),
    })
}
