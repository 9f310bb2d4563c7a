//! A contact plan that may change while it is used: every change has a version, and counts at once.

use std::collections::BTreeMap;

use units::{Rate, Span, Time};

use crate::check::{Remark, check};
use crate::spec::{ContactSpec, PlanSpec, RangeSpec};

/// A node's number in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A contact's number in its plan; one that was removed is not given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContactId(pub u32);

/// A time in which a node can send to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    /// Who sends.
    pub from: NodeId,
    /// Who receives.
    pub to: NodeId,
    /// From when on.
    pub start: Time,
    /// Until when.
    pub stop: Time,
    /// At which rate.
    pub rate: Rate,
    /// How likely it is.
    pub confidence: f64,
    /// Where that is said.
    pub at: String,
}

impl Contact {
    /// What it carries from beginning to end, bytes.
    pub fn volume(&self) -> u64 {
        volume(self.rate, self.stop.since(self.start))
    }
}

/// Whole bytes that a rate carries in a time.
pub(crate) fn volume(rate: Rate, span: Span) -> u64 {
    let bits = u128::from(span.nanos()) * u128::from(rate.bits_per_second());
    u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
}

/// A one-way light time for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// From when on.
    pub start: Time,
    /// Until when.
    pub stop: Time,
    /// The light time.
    pub owlt: Span,
    /// Whether it holds back too where that has none of its own.
    pub implies_reverse: bool,
    /// Where that is said.
    pub at: String,
}

/// A contact for as long as one range holds: an edge of the contact graph. A contact under several is several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    /// Who sends.
    pub from: NodeId,
    /// Who receives.
    pub to: NodeId,
    /// Of which contact.
    pub contact: ContactId,
    /// Which of its ranges.
    pub piece: u32,
    /// The first byte leaves no earlier,
    pub opens: Time,
    /// and before this;
    pub closes: Time,
    /// the last byte by this, the end of the contact.
    pub stop: Time,
    /// At which rate.
    pub rate: Rate,
    /// One-way light time.
    pub owlt: Span,
    /// What is added to it for motion (CCSDS 734.3-B-1, 2.4.2).
    pub margin: Span,
    /// How likely the contact is.
    pub confidence: f64,
}

/// What is added to a light time because nodes move meanwhile: at 125 miles a second (CCSDS 734.3-B-1, 2.4.2, where
/// light has 186,282), rounded up.
fn margin(owlt: Span) -> Span {
    Span((u128::from(owlt.nanos()) * 125).div_ceil(186_282) as u64)
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    /// Of an `ipn` name.
    number: Option<u64>,
}

/// Legs from a node to one other, in order of time; they do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub to: NodeId,
    pub legs: Vec<Leg>,
}

/// Contacts and ranges, ready to be searched.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    version: u64,
    nodes: Vec<Node>,
    by_name: BTreeMap<String, NodeId>,
    contacts: Vec<Option<Contact>>,
    /// Of a pair that had contacts and has none left too.
    of_pair: BTreeMap<(NodeId, NodeId), Vec<ContactId>>,
    ranges: BTreeMap<(NodeId, NodeId), Vec<Range>>,
    onward: Vec<Vec<Hop>>,
    inward: Vec<Vec<NodeId>>,
}

impl Plan {
    /// A plan of its specification.
    ///
    /// # Errors
    /// What forbids its use.
    pub fn new(spec: &PlanSpec) -> Result<Plan, Vec<Remark>> {
        let (problems, _) = check(spec);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut plan = Plan::default();
        for name in &spec.nodes {
            plan.enter(name);
        }
        for one in &spec.contacts {
            let (from, to) = (plan.enter(&one.from), plan.enter(&one.to));
            let id = ContactId(plan.contacts.len() as u32);
            plan.contacts.push(Some(contact(from, to, one)));
            plan.of_pair.entry((from, to)).or_default().push(id);
        }
        for one in &spec.over {
            let pair = (plan.enter(&one.from), plan.enter(&one.to));
            plan.of_pair.entry(pair).or_default();
        }
        for one in &spec.ranges {
            let pair = (plan.enter(&one.from), plan.enter(&one.to));
            plan.ranges.entry(pair).or_default().push(range(one));
        }
        for of in plan.ranges.values_mut() {
            of.sort_by_key(|one| one.start);
        }
        let pairs: Vec<_> = plan.of_pair.keys().copied().collect();
        for (from, to) in pairs {
            plan.lay(from, to);
        }
        Ok(plan)
    }

    /// Changes with every change of the plan, and only then.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many nodes it knows.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The node of a name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// A node's name.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// What puts nodes in order: numbers first, as numbers.
    pub(crate) fn rank(&self, node: NodeId) -> (bool, u64, &str) {
        let one = &self.nodes[node.0 as usize];
        (one.number.is_none(), one.number.unwrap_or(0), &one.name)
    }

    /// A contact that has not been removed.
    pub fn contact(&self, id: ContactId) -> Option<&Contact> {
        self.contacts.get(id.0 as usize)?.as_ref()
    }

    /// All contacts, in the order in which they were added.
    pub fn contacts(&self) -> impl Iterator<Item = (ContactId, &Contact)> {
        let numbered = self.contacts.iter().enumerate();
        numbered.filter_map(|(n, one)| Some((ContactId(n as u32), one.as_ref()?)))
    }

    /// The contacts of one direction, in order of time.
    pub fn between(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = (ContactId, &Contact)> {
        let of = self.of_pair.get(&(from, to)).map_or(&[][..], Vec::as_slice);
        of.iter().filter_map(|id| Some((*id, self.contact(*id)?)))
    }

    /// Whether contacts of one direction are or were planned, be they over or removed by now.
    pub fn is_planned(&self, from: NodeId, to: NodeId) -> bool {
        self.of_pair.contains_key(&(from, to))
    }

    /// Knows a node from now on.
    pub fn enter(&mut self, name: &str) -> NodeId {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let id = NodeId(self.nodes.len() as u32);
        let number = name.strip_prefix("ipn:").unwrap_or(name).trim_end_matches(".0").parse().ok();
        self.nodes.push(Node { name: name.to_owned(), number });
        self.by_name.insert(name.to_owned(), id);
        self.onward.push(Vec::new());
        self.inward.push(Vec::new());
        id
    }

    /// Adds a contact, which counts from now on.
    ///
    /// # Errors
    /// What it contradicts; nothing is changed then.
    pub fn add_contact(&mut self, one: &ContactSpec) -> Result<ContactId, Remark> {
        let refuse = |text: String, other: Option<&str>| {
            Err(Remark {
                at: other.into_iter().map(str::to_owned).chain([one.at.clone()]).collect(),
                text,
            })
        };
        let alone = PlanSpec { contacts: vec![one.clone()], ..PlanSpec::default() };
        if let (Some(problem), _) = (check(&alone).0.into_iter().next(), ()) {
            return Err(problem);
        }
        if let (Some(from), Some(to)) = (self.node(&one.from), self.node(&one.to)) {
            let overlap = self.between(from, to).find(|(_, known)| {
                known.start.nanos() < one.stop_ns && one.start_ns < known.stop.nanos()
            });
            if let Some((_, known)) = overlap {
                let text = format!("{} to {}: contacts overlap", one.from, one.to);
                return refuse(text, Some(&known.at));
            }
        }
        let (from, to) = (self.enter(&one.from), self.enter(&one.to));
        let id = ContactId(self.contacts.len() as u32);
        self.contacts.push(Some(contact(from, to, one)));
        self.of_pair.entry((from, to)).or_default().push(id);
        self.changed(from, to);
        Ok(id)
    }

    /// Removes a contact, which counts from now on. Whether there was one.
    pub fn remove_contact(&mut self, id: ContactId) -> bool {
        let Some(gone) = self.contacts.get_mut(id.0 as usize).and_then(Option::take) else {
            return false;
        };
        if let Some(of) = self.of_pair.get_mut(&(gone.from, gone.to)) {
            of.retain(|one| *one != id);
        }
        self.changed(gone.from, gone.to);
        true
    }

    /// Ends a contact earlier, or later, than it was planned; one that would not have begun is removed.
    ///
    /// # Errors
    /// What a later end would contradict; nothing is changed then.
    pub fn end_contact(&mut self, id: ContactId, stop: Time) -> Result<(), Remark> {
        let Some(one) = self.contact(id) else { return Ok(()) };
        if stop <= one.start {
            self.remove_contact(id);
            return Ok(());
        }
        let (from, to) = (one.from, one.to);
        let met = self
            .between(from, to)
            .find(|(other, known)| *other != id && known.start >= one.start && known.start < stop);
        if let Some((_, known)) = met {
            let at = vec![one.at.clone(), known.at.clone()];
            return Err(Remark { at, text: "contacts would overlap".into() });
        }
        if let Some(one) = &mut self.contacts[id.0 as usize] {
            one.stop = stop;
        }
        self.changed(from, to);
        Ok(())
    }

    /// Adds a range, which counts from now on; of the same direction it takes the place of what was said of its time.
    pub fn set_range(&mut self, one: &RangeSpec) {
        if one.stop_ns <= one.start_ns || one.from == one.to {
            return;
        }
        let (from, to) = (self.enter(&one.from), self.enter(&one.to));
        let new = range(one);
        let of = self.ranges.entry((from, to)).or_default();
        let mut kept = Vec::with_capacity(of.len() + 2);
        for old in of.drain(..) {
            if old.start < new.start {
                kept.push(Range { stop: old.stop.min(new.start), ..old.clone() });
            }
            if old.stop > new.stop {
                kept.push(Range { start: old.start.max(new.stop), ..old });
            }
        }
        kept.push(new);
        kept.sort_by_key(|one| one.start);
        *of = kept;
        self.changed(from, to);
        self.lay(to, from);
    }

    fn changed(&mut self, from: NodeId, to: NodeId) {
        self.version += 1;
        self.lay(from, to);
    }

    /// Ranges of a direction over time: its own, and in what they leave open those that the other one implies
    /// (ionrc(5), "a range").
    pub fn ranges(&self, from: NodeId, to: NodeId) -> Vec<Range> {
        let own = self.ranges.get(&(from, to)).map_or(&[][..], Vec::as_slice);
        let back = self.ranges.get(&(to, from)).map_or(&[][..], Vec::as_slice);
        let mut found = own.to_vec();
        for implied in back.iter().filter(|one| one.implies_reverse) {
            let mut at = implied.start;
            for over in
                own.iter().filter(|one| one.stop > implied.start && one.start < implied.stop)
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

    /// Lays the legs of a pair anew.
    fn lay(&mut self, from: NodeId, to: NodeId) {
        let ranges = self.ranges(from, to);
        let contacts = &self.contacts;
        let mut of: Vec<(ContactId, &Contact)> = Vec::new();
        if let Some(ids) = self.of_pair.get_mut(&(from, to)) {
            ids.sort_by_key(|id| contacts[id.0 as usize].as_ref().map(|one| one.start));
            of.extend(ids.iter().filter_map(|id| Some((*id, contacts[id.0 as usize].as_ref()?))));
        }
        let mut legs = Vec::new();
        let mut first = 0;
        for (id, contact) in of {
            while ranges.get(first).is_some_and(|one| one.stop <= contact.start) {
                first += 1;
            }
            let within = ranges[first..].iter().take_while(|one| one.start < contact.stop);
            legs.extend(within.enumerate().map(|(piece, range)| Leg {
                from,
                to,
                contact: id,
                piece: piece as u32,
                opens: contact.start.max(range.start),
                closes: contact.stop.min(range.stop),
                stop: contact.stop,
                rate: contact.rate,
                owlt: range.owlt,
                margin: margin(range.owlt),
                confidence: contact.confidence,
            }));
        }
        let hops = &mut self.onward[from.0 as usize];
        let into = &mut self.inward[to.0 as usize];
        match hops.binary_search_by_key(&to, |hop| hop.to) {
            Ok(place) if legs.is_empty() => {
                hops.remove(place);
                into.retain(|one| *one != from);
            }
            Ok(place) => hops[place].legs = legs,
            Err(_) if legs.is_empty() => {}
            Err(place) => {
                hops.insert(place, Hop { to, legs });
                into.push(from);
                into.sort_unstable();
            }
        }
    }

    /// Whom a node can reach at some time, in order, with the legs.
    pub(crate) fn onward(&self, from: NodeId) -> &[Hop] {
        &self.onward[from.0 as usize]
    }

    /// Who can reach a node at some time, in order.
    pub(crate) fn inward(&self, to: NodeId) -> &[NodeId] {
        &self.inward[to.0 as usize]
    }

    /// The legs from one to another.
    pub(crate) fn legs(&self, from: NodeId, to: NodeId) -> &[Leg] {
        let hops = self.onward(from);
        hops.binary_search_by_key(&to, |hop| hop.to).map_or(&[], |place| &hops[place].legs)
    }
}

fn contact(from: NodeId, to: NodeId, one: &ContactSpec) -> Contact {
    Contact {
        from,
        to,
        start: Time(one.start_ns),
        stop: Time(one.stop_ns),
        rate: Rate(one.rate_bit_s),
        confidence: one.confidence,
        at: one.at.clone(),
    }
}

fn range(one: &RangeSpec) -> Range {
    Range {
        start: Time(one.start_ns),
        stop: Time(one.stop_ns),
        owlt: Span(one.owlt_ns),
        implies_reverse: one.implies_reverse,
        at: one.at.clone(),
    }
}
