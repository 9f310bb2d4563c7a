//! The routing of a running node: booked volume of contacts, backlog of each neighbour, and detection of plan changes.

use units::Time;

use crate::booked_volume::{Backlog, BookedVolume, Priority};
use crate::forwarding::{ForwardingDecision, PlannedCopy, StaticRoute, decide_forwarding};
use crate::plan::{ContactEdge, ContactId, Plan, PlanNodeId};
use crate::route::{BundleDemand, RouteDemand};
use crate::search::ContactGraphSearch;

/// The booking of a queued bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeBooking {
    /// The next hop.
    pub next_hop: PlanNodeId,
    /// The booked contacts; empty for a static route without a contact.
    pub edges: Vec<ContactEdge>,
    /// The priority.
    pub priority: Priority,
    /// The booked volume per contact, bytes.
    pub consumption: u64,
}

/// The routing of one node. All nodes share the plan, which may change at any time.
#[derive(Clone, Debug)]
pub struct Router {
    local_node: PlanNodeId,
    static_routes: Vec<StaticRoute>,
    min_confidence: f64,
    booked_volume: BookedVolume,
    backlog: Backlog,
    /// Whether the search includes the backlog.
    counts_backlog: bool,
    search: ContactGraphSearch,
    /// The version of the plan at the last routing of queued bundles.
    version: u64,
}

impl Router {
    /// Creates a router with static routes. Contacts less likely than `min_confidence` are not used.
    pub fn new(
        local: PlanNodeId,
        plan: &Plan,
        statics: Vec<StaticRoute>,
        min_confidence: f64,
    ) -> Router {
        Router {
            local_node: local,
            static_routes: statics,
            min_confidence,
            booked_volume: BookedVolume::default(),
            backlog: Backlog::default(),
            counts_backlog: true,
            search: ContactGraphSearch::default(),
            version: plan.version(),
        }
    }

    /// Ignores the backlog. This models a node that submits each bundle to its CLA at once and does not know the queue
    /// there (3.2.6.2).
    pub fn without_backlog(self) -> Router {
        Router { counts_backlog: false, ..self }
    }

    /// Decides on a bundle for `to`. `excluded` are forbidden next hops, such as the previous node.
    pub fn decide(
        &mut self,
        plan: &Plan,
        to: PlanNodeId,
        now: Time,
        bundle: &BundleDemand,
        excluded: &[PlanNodeId],
        critical: bool,
    ) -> ForwardingDecision {
        let mut load = RouteDemand::for_bundle(
            bundle,
            &self.booked_volume,
            &self.backlog,
            excluded,
            self.min_confidence,
        );
        load.backlog = load.backlog.filter(|_| self.counts_backlog);
        decide_forwarding(
            plan,
            &mut self.search,
            self.local_node,
            to,
            now,
            bundle,
            &load,
            critical,
            &self.static_routes,
        )
    }

    /// Books the volume of the bundle's route and adds it to the backlog of its next hop.
    pub fn book(&mut self, one: &PlannedCopy, bundle: &BundleDemand) -> VolumeBooking {
        let (edges, limit) = match &one.route {
            Some((route, judgement)) => (route.edges.clone(), judgement.carried_volume),
            None => (Vec::new(), u64::MAX),
        };
        // A fragmented bundle sends its first fragment on this route.
        let consumption = bundle.consumption().min(limit);
        self.booked_volume.book(&edges, bundle.priority, consumption);
        self.backlog.add(one.next_hop, bundle.priority, consumption);
        VolumeBooking { next_hop: one.next_hop, edges, priority: bundle.priority, consumption }
    }

    /// Removes a sent bundle from the backlog. Its volume stays booked.
    pub fn on_sent(&mut self, one: &VolumeBooking) {
        self.backlog.remove(one.next_hop, one.priority, one.consumption);
    }

    /// Cancels a booking before transmission and releases its volume.
    pub fn cancel_booking(&mut self, one: &VolumeBooking) {
        self.backlog.remove(one.next_hop, one.priority, one.consumption);
        self.booked_volume.release(&one.edges, one.priority, one.consumption);
    }

    /// Releases the volume of a bundle that was sent and has not arrived.
    pub fn on_lost(&mut self, one: &VolumeBooking) {
        self.booked_volume.release(&one.edges, one.priority, one.consumption);
    }

    /// Returns whether the plan has changed since the last call. The caller then routes queued bundles again.
    pub fn take_plan_change(&mut self, plan: &Plan) -> bool {
        std::mem::replace(&mut self.version, plan.version()) != plan.version()
    }

    /// Returns contacts with more booked volume than they carry. A more urgent bundle has taken the volume of a less
    /// urgent one, which needs another decision, or the contact has become shorter.
    pub fn overbooked(&self, plan: &Plan) -> Vec<ContactId> {
        let over = |id: &ContactId| {
            let booked = self
                .booked_volume
                .booked(*id)
                .iter()
                .fold(0_u64, |sum, one| sum.saturating_add(*one));
            plan.contact(*id).is_none_or(|contact| booked > contact.volume())
        };
        self.booked_volume.contacts().filter(over).collect()
    }

    /// Removes bookings of expired and removed contacts.
    pub fn remove_expired(&mut self, plan: &Plan, now: Time) {
        self.booked_volume.retain(|id| plan.contact(id).is_some_and(|one| one.stop > now));
    }

    /// Returns the booked volume.
    pub fn booked_volume(&self) -> &BookedVolume {
        &self.booked_volume
    }

    /// Returns the backlog.
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }
}
