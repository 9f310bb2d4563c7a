//! Questions and their answers as text, for whoever is no Rust: JSON in, JSON out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::Time;

use crate::best::best;
use crate::check::{Remark, check};
use crate::decide::{Decision, Forwarding, StaticRoute, decide};
use crate::expanded::Supply;
use crate::judge::{Judgement, judge};
use crate::ledger::{Backlog, Ledger, Priority};
use crate::plan::{NodeId, Plan};
use crate::search::{Bundle, Load, Route, Search};
use crate::words::hint;
use crate::yen::Alternatives;
use crate::{PlanSpec, ion};

/// Most routes that are looked at for an explanation.
const MOST_ROUTES: usize = 1000;

/// Reads ION's commands: the plan, what was passed over and what is wrong, by line.
pub fn read_ion(text: &str) -> String {
    let found = ion::parse(text);
    json!({"plan": found.spec, "notes": found.notes, "problems": found.problems}).to_string()
}

/// What is wrong with a plan and what is hardly meant; ranges of each pair of its contacts, those that are implied
/// among them.
pub fn checked(plan_json: &str) -> Result<String, String> {
    let spec: PlanSpec = serde_json::from_str(plan_json).map_err(|error| error.to_string())?;
    let (problems, remarks) = check(&spec);
    let mut pairs = Vec::new();
    if let Ok(plan) = Plan::new(&spec) {
        let mut known: Vec<(NodeId, NodeId)> =
            plan.contacts().map(|(_, one)| (one.from, one.to)).collect();
        known.sort_by_key(|(from, to)| (plan.rank(*from), plan.rank(*to)));
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
    Ok(json!({"problems": problems, "remarks": remarks, "pairs": pairs}).to_string())
}

/// What a destination can have at best of what comes to nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BestQuestion {
    plan: PlanSpec,
    to: String,
    /// Where, when and how much: node, nanoseconds, bytes.
    supplies: Vec<(String, u64, u64)>,
    /// Bytes that nodes can keep; without an entry no bound.
    #[serde(default)]
    stores: BTreeMap<String, u64>,
}

/// The most that a plan lets a destination have over time (`corners`: nanoseconds, bytes), how far above the optimum that
/// may be (`above_bytes`), and when each supply is there at the earliest if they go in order of their times
/// (`arrivals_ns`); question and answer are JSON. Raises what is wrong with the question, by its field.
pub fn best_delivery(question_json: &str) -> Result<String, String> {
    let asked: BestQuestion =
        serde_json::from_str(question_json).map_err(|error| error.to_string())?;
    let plan = Plan::new(&asked.plan).map_err(|problems| listed(&problems))?;
    let to = named(&plan, "to", &asked.to)?;
    let mut supplies = Vec::with_capacity(asked.supplies.len());
    for (at, time, bytes) in &asked.supplies {
        let at = named(&plan, "supplies", at)?;
        supplies.push(Supply { at, time: Time(*time), bytes: *bytes });
    }
    let mut stores = BTreeMap::new();
    for (at, bytes) in &asked.stores {
        // a store of a node that no contact names bounds nothing
        stores.extend(plan.node(at).map(|node| (node, *bytes)));
    }
    let found = best(&plan, &supplies, to, &stores);
    let mut order: Vec<usize> = (0..supplies.len()).collect();
    order.sort_by_key(|place| supplies[*place].time);
    let mut arrivals = vec![None; supplies.len()];
    let mut until = 0_u64;
    for place in order {
        until = until.saturating_add(supplies[place].bytes);
        arrivals[place] = found.arrival(until).map(Time::nanos);
    }
    let corners: Vec<(u64, f64)> = found.corners().map(|(at, bytes)| (at.nanos(), bytes)).collect();
    Ok(json!({"corners": corners, "above_bytes": found.above, "arrivals_ns": arrivals}).to_string())
}

/// A node of the plan. Raises that there is none.
fn named(plan: &Plan, field: &str, name: &str) -> Result<NodeId, String> {
    plan.node(name).ok_or_else(|| {
        let near = hint(name, plan.names());
        let names: Vec<&str> = plan.names().take(12).collect();
        let more = if plan.node_count() > names.len() { ", ..." } else { "" };
        let known = format!("the plan knows {}{more}", names.join(", "));
        format!("{field}: found {name:?}, a node that no contact names{near}; {known}")
    })
}

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
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
    least_confidence: f64,
    /// Bytes that wait for a neighbour: neighbour, priority, bytes.
    waiting: Vec<(String, Priority, u64)>,
    /// Bytes booked of the contact that a place of the plan names: place, priority, bytes.
    booked: Vec<(String, Priority, u64)>,
    /// Destination (none: any), neighbour.
    statics: Vec<(Option<String>, String)>,
    /// So many routes by their best case are judged too.
    alternatives: usize,
}

/// Decides on a bundle; question and answer are JSON. Raises what is wrong with the question, by its field.
pub fn route(question_json: &str) -> Result<String, String> {
    let asked: Question = serde_json::from_str(question_json).map_err(|error| error.to_string())?;
    let plan = Plan::new(&asked.plan).map_err(|problems| listed(&problems))?;
    let node = |field: &str, name: &str| named(&plan, field, name);
    let (from, to) = (node("from", &asked.from)?, node("to", &asked.to)?);
    let excluded =
        asked.excluded.iter().map(|one| node("excluded", one)).collect::<Result<Vec<_>, _>>()?;
    let mut statics = Vec::new();
    for (to, via) in &asked.statics {
        let to = to.as_ref().map(|one| node("static", one)).transpose()?;
        statics.push(StaticRoute { to, via: node("static", via)? });
    }
    let mut backlog = Backlog::default();
    for (neighbour, priority, bytes) in &asked.waiting {
        backlog.add(node("waiting", neighbour)?, *priority, *bytes);
    }
    let mut ledger = Ledger::default();
    for (place, priority, bytes) in &asked.booked {
        let found = plan.contacts().find(|(_, one)| one.at == *place).map(|(id, _)| id);
        let Some(id) = found else {
            let near = hint(place, plan.contacts().map(|(_, one)| one.at.as_str()));
            return Err(format!(
                "booked: found {place:?}, expected where a contact is said, such as \"line 3\"{near}"
            ));
        };
        ledger.book_one(id, *priority, *bytes);
    }
    let at = Time(asked.at_ns);
    let bundle = Bundle {
        size: asked.bytes,
        priority: asked.priority,
        fragmentable: asked.fragmentable,
        deadline: asked.deadline_ns.map_or(Time::MAX, Time),
    };
    let load = Load::of(&bundle, &ledger, &backlog, &excluded, asked.least_confidence);
    let mut search = Search::default();
    let decision =
        decide(&plan, &mut search, from, to, at, &bundle, &load, asked.critical, &statics);
    let show = |route: &Route, judgement: &Judgement| shown(&plan, &bundle, route, judgement);
    let forward = |one: &Forwarding| {
        json!({
            "next": plan.name(one.to),
            "route": one.route.as_ref().map(|(route, judgement)| show(route, judgement)),
        })
    };
    let (by, forwarded, kept) = match &decision {
        Decision::Planned(all) => ("plan", all.iter().map(forward).collect(), None),
        Decision::Static(one) => ("static", vec![forward(one)], None),
        Decision::Kept(why) => ("kept", Vec::new(), Some(why)),
    };
    let best_case = Load::best_case(&[], asked.least_confidence);
    let alternatives: Vec<Value> = if from == to {
        Vec::new()
    } else {
        Alternatives::new(&plan, best_case, from, to, at)
            .take(asked.alternatives.min(MOST_ROUTES))
            .map(|route| show(&route, &judge(&plan, &route, &bundle, &load, at)))
            .collect()
    };
    Ok(json!({
        "by": by,
        "forwarded": forwarded,
        "kept": kept,
        "consumption_bytes": bundle.consumption(),
        "alternatives": alternatives,
    })
    .to_string())
}

fn listed(problems: &[Remark]) -> String {
    let lines: Vec<String> =
        problems.iter().map(|one| format!("{}: {}", one.at.join(" and "), one.text)).collect();
    lines.join("\n")
}

fn shown(plan: &Plan, bundle: &Bundle, route: &Route, judgement: &Judgement) -> Value {
    let passing: Vec<Value> = judgement
        .passing
        .iter()
        .map(|one| {
            let contact = plan.contact(one.leg.contact);
            json!({
                "from": plan.name(one.leg.from),
                "to": plan.name(one.leg.to),
                "at": contact.map(|contact| contact.at.as_str()),
                "start_ns": contact.map(|contact| contact.start.nanos()),
                "stop_ns": one.leg.stop.nanos(),
                "rate_bit_s": one.leg.rate.bits_per_second(),
                "owlt_ns": one.leg.owlt.nanos(),
                "margin_ns": one.leg.margin.nanos(),
                "ahead_bytes": one.ahead,
                "first_ns": one.first.nanos(),
                "last_ns": one.last.nanos(),
                "arrival_ns": one.arrival.nanos(),
                "available_bytes": one.available,
                "effective_stop_ns": one.effective_stop.nanos(),
                "limit_bytes": one.volume_limit,
            })
        })
        .collect();
    json!({
        "contacts": passing,
        "hops": route.legs.len(),
        "best_case_ns": judgement.best_case.nanos(),
        "projected_ns": judgement.projected.nanos(),
        "termination_ns": route.termination().nanos(),
        "limit_bytes": judgement.volume_limit,
        "confidence": route.confidence(),
        "clause": judgement.reason.and_then(|one| one.clause()),
        "reason": judgement.reason.map(|one| one.text(plan, bundle)),
    })
}
