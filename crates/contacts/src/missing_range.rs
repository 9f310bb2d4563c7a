//! The reason why contacts lead to a node but no route does: ranges that the plan does not have.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use units::Time;

use crate::plan::{Contact, Plan, PlanNodeId};

/// Returns the pairs without a range on the earliest path of contacts to `to`. A missing range counts
/// as no light time. The result is empty if no contacts lead there, or no range is missing.
pub(crate) fn find_missing_ranges(
    plan: &Plan,
    from: PlanNodeId,
    to: PlanNodeId,
    now: Time,
) -> Vec<(PlanNodeId, PlanNodeId)> {
    let mut earliest = vec![Time::MAX; plan.node_count()];
    let mut entries: BTreeMap<PlanNodeId, (PlanNodeId, bool)> = BTreeMap::new();
    let mut heap = BinaryHeap::from([(Reverse(now), from)]);
    earliest[from.0 as usize] = now;
    while let Some((Reverse(at), node)) = heap.pop() {
        if node == to || at > earliest[node.0 as usize] {
            continue;
        }
        for (next, contact) in plan.contacts_from(node) {
            let Some((arrival, has_range)) = arrival_by_contact(plan, contact, at) else {
                continue;
            };
            if arrival < earliest[next.0 as usize] {
                earliest[next.0 as usize] = arrival;
                entries.insert(next, (node, has_range));
                heap.push((Reverse(arrival), next));
            }
        }
    }
    let mut pairs = Vec::new();
    let mut node = to;
    while let Some((before, has_range)) = entries.get(&node).filter(|_| node != from) {
        if !has_range {
            pairs.push((*before, node));
        }
        node = *before;
    }
    pairs.reverse();
    pairs
}

/// Returns the earliest arrival of a byte over a contact, and whether its range is known then.
fn arrival_by_contact(plan: &Plan, contact: &Contact, at: Time) -> Option<(Time, bool)> {
    let first = contact.start.max(at);
    if first >= contact.stop {
        return None;
    }
    let edges = plan.edges(contact.from, contact.to);
    let within = edges.iter().filter(|edge| edge.closes > first && edge.opens < contact.stop);
    let with_range = within
        .map(|edge| edge.opens.max(first) + edge.owlt + edge.owlt_margin)
        .min()
        .map(|arrival| (arrival, true));
    let is_covered = edges.iter().any(|edge| edge.opens <= first && first < edge.closes);
    if is_covered { with_range } else { Some((first, false)) }
}
