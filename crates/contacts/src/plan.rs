//! A contact plan that may change during use. Every change has a version and takes effect at once.

use std::collections::BTreeMap;

use units::{Rate, Span, Time};

use crate::plan_check::{PlanDiagnostic, check_plan};
use crate::spec::{ContactSpec, PlanSpec, RangeSpec};

/// The number of a node in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanNodeId(pub u32);

/// The number of a contact in its plan. Numbers of removed contacts are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContactId(pub u32);

/// A time during which a node can send to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    /// The sender.
    pub from: PlanNodeId,
    /// The receiver.
    pub to: PlanNodeId,
    /// The start.
    pub start: Time,
    /// The end.
    pub stop: Time,
    /// The rate.
    pub rate: Rate,
    /// The probability of the contact.
    pub confidence: f64,
    /// The location of its declaration.
    pub declared_at: String,
}

impl Contact {
    /// Returns the volume of the whole contact, bytes.
    pub fn volume(&self) -> u64 {
        volume(self.rate, self.stop.since(self.start))
    }
}

/// Returns the whole bytes that a rate carries in a time.
pub(crate) fn volume(rate: Rate, span: Span) -> u64 {
    let bits = u128::from(span.nanos()) * u128::from(rate.bits_per_second());
    u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
}

/// A one-way light time during an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The start.
    pub start: Time,
    /// The end.
    pub stop: Time,
    /// The one-way light time.
    pub owlt: Span,
    /// Whether the range also applies to the reverse direction, where that has no explicit range.
    pub implies_reverse: bool,
    /// The location of its declaration.
    pub declared_at: String,
}

/// A part of a contact with one range: an edge of the contact graph. A contact with several ranges has several edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContactEdge {
    /// The sender.
    pub from: PlanNodeId,
    /// The receiver.
    pub to: PlanNodeId,
    /// The contact.
    pub contact: ContactId,
    /// The index of the range within the contact.
    pub range_index: u32,
    /// The earliest transmission of the first byte.
    pub opens: Time,
    /// The end of the interval for the first byte (exclusive).
    pub closes: Time,
    /// The end of the interval for the last byte, which is the end of the contact.
    pub stop: Time,
    /// The rate.
    pub rate: Rate,
    /// The one-way light time.
    pub owlt: Span,
    /// The OWLT margin for motion (CCSDS 734.3-B-1, 2.4.2).
    pub owlt_margin: Span,
    /// The probability of the contact.
    pub confidence: f64,
}

/// Returns the OWLT margin, rounded up. It assumes motion at 125 miles per second (CCSDS 734.3-B-1, 2.4.2, with 186,282
/// for light).
fn owlt_margin(owlt: Span) -> Span {
    Span((u128::from(owlt.nanos()) * 125).div_ceil(186_282) as u64)
}

#[derive(Clone, Debug)]
struct PlanNode {
    name: String,
    /// The number in an `ipn` name.
    number: Option<u64>,
}

/// The edges from a node to one neighbour by time, without overlaps.
#[derive(Clone, Debug)]
pub(crate) struct NeighbourContacts {
    pub to: PlanNodeId,
    pub edges: Vec<ContactEdge>,
}

/// Contacts and ranges, prepared for the search.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    version: u64,
    nodes: Vec<PlanNode>,
    by_name: BTreeMap<String, PlanNodeId>,
    contacts: Vec<Option<Contact>>,
    /// The contacts by pair, including pairs that have none any more.
    contacts_by_pair: BTreeMap<(PlanNodeId, PlanNodeId), Vec<ContactId>>,
    ranges: BTreeMap<(PlanNodeId, PlanNodeId), Vec<Range>>,
    outgoing: Vec<Vec<NeighbourContacts>>,
    incoming: Vec<Vec<PlanNodeId>>,
}

impl Plan {
    /// Builds a plan from its specification.
    ///
    /// # Errors
    /// The diagnostics that forbid its use.
    pub fn new(spec: &PlanSpec) -> Result<Plan, Vec<PlanDiagnostic>> {
        let (problems, _) = check_plan(spec);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut plan = Plan::default();
        for name in &spec.nodes {
            plan.add_node(name);
        }
        for one in &spec.contacts {
            let (from, to) = (plan.add_node(&one.from), plan.add_node(&one.to));
            let id = ContactId(plan.contacts.len() as u32);
            plan.contacts.push(Some(contact(from, to, one)));
            plan.contacts_by_pair.entry((from, to)).or_default().push(id);
        }
        for one in &spec.expired_pairs {
            let pair = (plan.add_node(&one.from), plan.add_node(&one.to));
            plan.contacts_by_pair.entry(pair).or_default();
        }
        for one in &spec.ranges {
            let pair = (plan.add_node(&one.from), plan.add_node(&one.to));
            plan.ranges.entry(pair).or_default().push(range(one));
        }
        for of in plan.ranges.values_mut() {
            of.sort_by_key(|one| one.start);
        }
        let pairs: Vec<_> = plan.contacts_by_pair.keys().copied().collect();
        for (from, to) in pairs {
            plan.rebuild_edges(from, to);
        }
        Ok(plan)
    }

    /// Returns the version. It changes with every change of the plan, and only then.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node with a name.
    pub fn node(&self, name: &str) -> Option<PlanNodeId> {
        self.by_name.get(name).copied()
    }

    /// Returns the name of a node.
    pub fn name(&self, node: PlanNodeId) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// Returns all names in sorted sequence.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Returns the sort key of nodes: numbers first, by value.
    pub(crate) fn sort_key(&self, node: PlanNodeId) -> (bool, u64, &str) {
        let one = &self.nodes[node.0 as usize];
        (one.number.is_none(), one.number.unwrap_or(0), &one.name)
    }

    /// Returns a contact that has not been removed.
    pub fn contact(&self, id: ContactId) -> Option<&Contact> {
        self.contacts.get(id.0 as usize)?.as_ref()
    }

    /// Returns all contacts in the sequence of their addition.
    pub fn contacts(&self) -> impl Iterator<Item = (ContactId, &Contact)> {
        let numbered = self.contacts.iter().enumerate();
        numbered.filter_map(|(n, one)| Some((ContactId(n as u32), one.as_ref()?)))
    }

    /// Returns the contacts of one direction by time.
    pub fn contacts_between(
        &self,
        from: PlanNodeId,
        to: PlanNodeId,
    ) -> impl Iterator<Item = (ContactId, &Contact)> {
        let of = self.contacts_by_pair.get(&(from, to)).map_or(&[][..], Vec::as_slice);
        of.iter().filter_map(|id| Some((*id, self.contact(*id)?)))
    }

    /// Returns the contacts of a sender with their receivers.
    pub(crate) fn contacts_from(
        &self,
        from: PlanNodeId,
    ) -> impl Iterator<Item = (PlanNodeId, &Contact)> {
        let pairs = (from, PlanNodeId(0))..=(from, PlanNodeId(u32::MAX));
        self.contacts_by_pair
            .range(pairs)
            .flat_map(|((_, to), ids)| ids.iter().filter_map(|id| Some((*to, self.contact(*id)?))))
    }

    /// Returns whether contacts of one direction are or were planned, including expired and removed ones.
    pub fn is_planned(&self, from: PlanNodeId, to: PlanNodeId) -> bool {
        self.contacts_by_pair.contains_key(&(from, to))
    }

    /// Adds a node, unless it exists.
    pub fn add_node(&mut self, name: &str) -> PlanNodeId {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let id = PlanNodeId(self.nodes.len() as u32);
        let number = name.strip_prefix("ipn:").unwrap_or(name).trim_end_matches(".0").parse().ok();
        self.nodes.push(PlanNode { name: name.to_owned(), number });
        self.by_name.insert(name.to_owned(), id);
        self.outgoing.push(Vec::new());
        self.incoming.push(Vec::new());
        id
    }

    /// Adds a contact with immediate effect.
    ///
    /// # Errors
    /// The contradiction to existing entries. The plan then stays unchanged.
    pub fn add_contact(&mut self, one: &ContactSpec) -> Result<ContactId, PlanDiagnostic> {
        let refuse = |text: String, other: Option<&str>| {
            Err(PlanDiagnostic {
                declared_at: other
                    .into_iter()
                    .map(str::to_owned)
                    .chain([one.declared_at.clone()])
                    .collect(),
                text,
            })
        };
        let alone = PlanSpec { contacts: vec![one.clone()], ..PlanSpec::default() };
        if let (Some(problem), _) = (check_plan(&alone).0.into_iter().next(), ()) {
            return Err(problem);
        }
        if let (Some(from), Some(to)) = (self.node(&one.from), self.node(&one.to)) {
            let overlap = self.contacts_between(from, to).find(|(_, known)| {
                known.start.nanos() < one.stop_ns && one.start_ns < known.stop.nanos()
            });
            if let Some((_, known)) = overlap {
                let text = format!("{} to {}: contacts overlap", one.from, one.to);
                return refuse(text, Some(&known.declared_at));
            }
        }
        let (from, to) = (self.add_node(&one.from), self.add_node(&one.to));
        let id = ContactId(self.contacts.len() as u32);
        self.contacts.push(Some(contact(from, to, one)));
        self.contacts_by_pair.entry((from, to)).or_default().push(id);
        self.apply_change(from, to);
        Ok(id)
    }

    /// Removes a contact with immediate effect. Returns whether it existed.
    pub fn remove_contact(&mut self, id: ContactId) -> bool {
        let Some(removed) = self.contacts.get_mut(id.0 as usize).and_then(Option::take) else {
            return false;
        };
        if let Some(of) = self.contacts_by_pair.get_mut(&(removed.from, removed.to)) {
            of.retain(|one| *one != id);
        }
        self.apply_change(removed.from, removed.to);
        true
    }

    /// Changes the end of a contact. An end before its start removes it.
    ///
    /// # Errors
    /// The contradiction of a later end. The plan then stays unchanged.
    pub fn end_contact(&mut self, id: ContactId, stop: Time) -> Result<(), PlanDiagnostic> {
        let Some(one) = self.contact(id) else { return Ok(()) };
        if stop <= one.start {
            self.remove_contact(id);
            return Ok(());
        }
        let (from, to) = (one.from, one.to);
        let met = self
            .contacts_between(from, to)
            .find(|(other, known)| *other != id && known.start >= one.start && known.start < stop);
        if let Some((_, known)) = met {
            let at = vec![one.declared_at.clone(), known.declared_at.clone()];
            return Err(PlanDiagnostic { declared_at: at, text: "contacts would overlap".into() });
        }
        if let Some(one) = &mut self.contacts[id.0 as usize] {
            one.stop = stop;
        }
        self.apply_change(from, to);
        Ok(())
    }

    /// Delays the start of a contact. A start at its end removes it.
    pub(crate) fn delay_contact(&mut self, id: ContactId, start: Time) {
        let Some(one) = self.contacts.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        if start >= one.stop {
            self.remove_contact(id);
        } else if start > one.start {
            one.start = start;
            let (from, to) = (one.from, one.to);
            self.apply_change(from, to);
        }
    }

    /// Adds a range with immediate effect. It replaces earlier ranges of the same direction and time.
    pub fn set_range(&mut self, one: &RangeSpec) {
        if one.stop_ns <= one.start_ns || one.from == one.to {
            return;
        }
        let (from, to) = (self.add_node(&one.from), self.add_node(&one.to));
        let new = range(one);
        let of = self.ranges.entry((from, to)).or_default();
        let mut remaining = Vec::with_capacity(of.len() + 2);
        for old in of.drain(..) {
            if old.start < new.start {
                remaining.push(Range { stop: old.stop.min(new.start), ..old.clone() });
            }
            if old.stop > new.stop {
                remaining.push(Range { start: old.start.max(new.stop), ..old });
            }
        }
        remaining.push(new);
        remaining.sort_by_key(|one| one.start);
        *of = remaining;
        self.apply_change(from, to);
        self.rebuild_edges(to, from);
    }

    fn apply_change(&mut self, from: PlanNodeId, to: PlanNodeId) {
        self.version += 1;
        self.rebuild_edges(from, to);
    }

    /// Returns the ranges of a direction by time: the explicit ones, and in their gaps those implied by the reverse
    /// direction (ionrc(5), "a range").
    pub fn ranges(&self, from: PlanNodeId, to: PlanNodeId) -> Vec<Range> {
        let explicit = self.ranges.get(&(from, to)).map_or(&[][..], Vec::as_slice);
        let back = self.ranges.get(&(to, from)).map_or(&[][..], Vec::as_slice);
        let mut found = explicit.to_vec();
        for implied in back.iter().filter(|one| one.implies_reverse) {
            let mut at = implied.start;
            for over in
                explicit.iter().filter(|one| one.stop > implied.start && one.start < implied.stop)
            {
                if over.start > at {
                    found.push(Range { start: at, stop: over.start, ..implied.clone() });
                }
                at = at.max(over.stop);
            }
            if at < implied.stop {
                found.push(Range { start: at, ..implied.clone() });
            }
        }
        found.sort_by_key(|one| one.start);
        found
    }

    /// Rebuilds the edges of a pair.
    fn rebuild_edges(&mut self, from: PlanNodeId, to: PlanNodeId) {
        let ranges = self.ranges(from, to);
        let contacts = &self.contacts;
        let mut of: Vec<(ContactId, &Contact)> = Vec::new();
        if let Some(ids) = self.contacts_by_pair.get_mut(&(from, to)) {
            ids.sort_by_key(|id| contacts[id.0 as usize].as_ref().map(|one| one.start));
            of.extend(ids.iter().filter_map(|id| Some((*id, contacts[id.0 as usize].as_ref()?))));
        }
        let mut edges = Vec::new();
        let mut first = 0;
        for (id, contact) in of {
            while ranges.get(first).is_some_and(|one| one.stop <= contact.start) {
                first += 1;
            }
            let within = ranges[first..].iter().take_while(|one| one.start < contact.stop);
            edges.extend(within.enumerate().map(|(piece, range)| ContactEdge {
                from,
                to,
                contact: id,
                range_index: piece as u32,
                opens: contact.start.max(range.start),
                closes: contact.stop.min(range.stop),
                stop: contact.stop,
                rate: contact.rate,
                owlt: range.owlt,
                owlt_margin: owlt_margin(range.owlt),
                confidence: contact.confidence,
            }));
        }
        let hops = &mut self.outgoing[from.0 as usize];
        let into = &mut self.incoming[to.0 as usize];
        match hops.binary_search_by_key(&to, |hop| hop.to) {
            Ok(index) if edges.is_empty() => {
                hops.remove(index);
                into.retain(|one| *one != from);
            }
            Ok(index) => hops[index].edges = edges,
            Err(_) if edges.is_empty() => {}
            Err(index) => {
                hops.insert(index, NeighbourContacts { to, edges });
                into.push(from);
                into.sort_unstable();
            }
        }
    }

    /// Returns the reachable neighbours of a node in number sequence, with the edges.
    pub(crate) fn outgoing(&self, from: PlanNodeId) -> &[NeighbourContacts] {
        &self.outgoing[from.0 as usize]
    }

    /// Returns the nodes with contacts to a node, in number sequence.
    pub(crate) fn incoming(&self, to: PlanNodeId) -> &[PlanNodeId] {
        &self.incoming[to.0 as usize]
    }

    /// Returns the edges from one node to another.
    pub(crate) fn edges(&self, from: PlanNodeId, to: PlanNodeId) -> &[ContactEdge] {
        let hops = self.outgoing(from);
        hops.binary_search_by_key(&to, |hop| hop.to).map_or(&[], |index| &hops[index].edges)
    }
}

fn contact(from: PlanNodeId, to: PlanNodeId, one: &ContactSpec) -> Contact {
    Contact {
        from,
        to,
        start: Time(one.start_ns),
        stop: Time(one.stop_ns),
        rate: Rate(one.rate_bit_s),
        confidence: one.confidence,
        declared_at: one.declared_at.clone(),
    }
}

fn range(one: &RangeSpec) -> Range {
    Range {
        start: Time(one.start_ns),
        stop: Time(one.stop_ns),
        owlt: Span(one.owlt_ns),
        implies_reverse: one.implies_reverse,
        declared_at: one.declared_at.clone(),
    }
}
