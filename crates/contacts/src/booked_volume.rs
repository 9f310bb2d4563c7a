//! The booked volume of each contact, and the backlog of each neighbour, by priority.

use std::collections::BTreeMap;

use crate::plan::{Contact, ContactEdge, ContactId, PlanNodeId};

/// The number of priorities.
pub const PRIORITY_COUNT: usize = 3;

/// The priority of a bundle; greater is more urgent.
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
    /// Sent after all others.
    Bulk,
    /// The default.
    #[default]
    Normal,
    /// Sent before all others.
    Expedited,
}

/// The booked volume of contacts, by priority.
#[derive(Clone, Debug, Default)]
pub struct BookedVolume {
    booked: BTreeMap<ContactId, [u64; PRIORITY_COUNT]>,
}

impl BookedVolume {
    /// Returns the available volume of a contact for a priority: its volume minus the bookings of this and higher
    /// priorities (3.2.6.8.8). A booking takes the volume of less urgent ones, which are then overbooked.
    pub fn available_volume(&self, id: ContactId, contact: &Contact, priority: Priority) -> u64 {
        let Some(booked) = self.booked.get(&id) else { return contact.volume() };
        let ahead =
            booked[priority as usize..].iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        contact.volume().saturating_sub(ahead)
    }

    /// Returns the booked volume of a contact, by priority.
    pub fn booked(&self, id: ContactId) -> [u64; PRIORITY_COUNT] {
        self.booked.get(&id).copied().unwrap_or_default()
    }

    /// Books a bundle's consumption on every contact of its route (3.2.8.1.2).
    pub fn book(&mut self, edges: &[ContactEdge], priority: Priority, consumption: u64) {
        for edge in edges {
            self.book_contact(edge.contact, priority, consumption);
        }
    }

    /// Books volume of one contact.
    pub fn book_contact(&mut self, id: ContactId, priority: Priority, consumption: u64) {
        let of = &mut self.booked.entry(id).or_default()[priority as usize];
        *of = of.saturating_add(consumption);
    }

    /// Returns the contacts with bookings.
    pub(crate) fn contacts(&self) -> impl Iterator<Item = ContactId> {
        self.booked.keys().copied()
    }

    /// Removes the bookings of all contacts that `keep` rejects.
    pub(crate) fn retain(&mut self, keep: impl Fn(ContactId) -> bool) {
        self.booked.retain(|id, _| keep(*id));
    }

    /// Releases booked volume.
    pub fn release(&mut self, edges: &[ContactEdge], priority: Priority, consumption: u64) {
        for edge in edges {
            if let Some(booked) = self.booked.get_mut(&edge.contact) {
                booked[priority as usize] = booked[priority as usize].saturating_sub(consumption);
                if *booked == [0; PRIORITY_COUNT] {
                    self.booked.remove(&edge.contact);
                }
            }
        }
    }
}

/// The consumption of the bundles queued for each neighbour, by priority.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    by_neighbour: BTreeMap<PlanNodeId, [u64; PRIORITY_COUNT]>,
}

impl Backlog {
    /// Adds volume to the backlog of a neighbour.
    pub fn add(&mut self, neighbour: PlanNodeId, priority: Priority, consumption: u64) {
        let of = &mut self.by_neighbour.entry(neighbour).or_default()[priority as usize];
        *of = of.saturating_add(consumption);
    }

    /// Removes volume from the backlog of a neighbour.
    pub fn remove(&mut self, neighbour: PlanNodeId, priority: Priority, consumption: u64) {
        if let Some(waiting) = self.by_neighbour.get_mut(&neighbour) {
            waiting[priority as usize] = waiting[priority as usize].saturating_sub(consumption);
        }
    }

    /// Returns the volume sent before a bundle of a priority (3.2.6.2 b).
    pub fn volume_ahead(&self, neighbour: PlanNodeId, priority: Priority) -> u64 {
        let waiting = self.by_neighbour.get(&neighbour);
        waiting.map_or(0, |of| {
            of[priority as usize..].iter().fold(0, |sum, one| sum.saturating_add(*one))
        })
    }
}
