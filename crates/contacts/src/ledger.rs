//! What has been promised of each contact, and what waits for each neighbour, by priority.

use std::collections::BTreeMap;

use crate::plan::{Contact, ContactId, Leg, NodeId};

/// How many priorities there are.
pub const PRIORITIES: usize = 3;

/// A bundle's priority; greater is more urgent.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// When nothing else waits.
    Bulk,
    /// As most are.
    #[default]
    Normal,
    /// Before all others.
    Expedited,
}

/// Volume booked of contacts, by priority.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    booked: BTreeMap<ContactId, [u64; PRIORITIES]>,
}

impl Ledger {
    /// What a contact still carries of a priority: its volume less what is booked of this or a higher one
    /// (3.2.6.8.8). A bundle takes what a less urgent one has booked; that one is then overbooked.
    pub fn available(&self, id: ContactId, contact: &Contact, priority: Priority) -> u64 {
        let Some(booked) = self.booked.get(&id) else { return contact.volume() };
        let ahead =
            booked[priority as usize..].iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        contact.volume().saturating_sub(ahead)
    }

    /// What is booked of a contact, by priority.
    pub fn booked(&self, id: ContactId) -> [u64; PRIORITIES] {
        self.booked.get(&id).copied().unwrap_or_default()
    }

    /// Books a bundle's consumption on every contact of its route (3.2.8.1.2).
    pub fn book(&mut self, legs: &[Leg], priority: Priority, consumption: u64) {
        for leg in legs {
            self.book_one(leg.contact, priority, consumption);
        }
    }

    /// Books so much of one contact.
    pub fn book_one(&mut self, id: ContactId, priority: Priority, consumption: u64) {
        let of = &mut self.booked.entry(id).or_default()[priority as usize];
        *of = of.saturating_add(consumption);
    }

    /// Contacts of which something is booked.
    pub(crate) fn contacts(&self) -> impl Iterator<Item = ContactId> {
        self.booked.keys().copied()
    }

    /// Forgets all others.
    pub(crate) fn retain(&mut self, keep: impl Fn(ContactId) -> bool) {
        self.booked.retain(|id, _| keep(*id));
    }

    /// Takes back what was booked.
    pub fn release(&mut self, legs: &[Leg], priority: Priority, consumption: u64) {
        for leg in legs {
            if let Some(booked) = self.booked.get_mut(&leg.contact) {
                booked[priority as usize] = booked[priority as usize].saturating_sub(consumption);
                if *booked == [0; PRIORITIES] {
                    self.booked.remove(&leg.contact);
                }
            }
        }
    }
}

/// Consumption of the bundles that wait for each neighbour, by priority.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    waiting: BTreeMap<NodeId, [u64; PRIORITIES]>,
}

impl Backlog {
    /// So much more waits for a neighbour.
    pub fn add(&mut self, neighbour: NodeId, priority: Priority, consumption: u64) {
        let of = &mut self.waiting.entry(neighbour).or_default()[priority as usize];
        *of = of.saturating_add(consumption);
    }

    /// So much less does.
    pub fn take(&mut self, neighbour: NodeId, priority: Priority, consumption: u64) {
        if let Some(waiting) = self.waiting.get_mut(&neighbour) {
            waiting[priority as usize] = waiting[priority as usize].saturating_sub(consumption);
        }
    }

    /// What is sent before a bundle of a priority (3.2.6.2 b).
    pub fn ahead(&self, neighbour: NodeId, priority: Priority) -> u64 {
        let waiting = self.waiting.get(&neighbour);
        waiting.map_or(0, |of| {
            of[priority as usize..].iter().fold(0, |sum, one| sum.saturating_add(*one))
        })
    }
}
