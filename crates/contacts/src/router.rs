//! A node's routing while it runs: what it has promised of contacts, what waits for each neighbour, and when to think
//! again.

use units::Time;

use crate::decide::{Decision, Forwarding, StaticRoute, decide};
use crate::ledger::{Backlog, Ledger, Priority};
use crate::plan::{ContactId, Leg, NodeId, Plan};
use crate::search::{Bundle, Load, Search};

/// What is booked for a bundle that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Booking {
    /// The neighbour that it waits for.
    pub next: NodeId,
    /// The contacts that it is booked on; none of a static route without a contact.
    pub legs: Vec<Leg>,
    /// How urgent it is.
    pub priority: Priority,
    /// What it takes of each, bytes.
    pub consumption: u64,
}

/// Routing of one node. The plan is everybody's, and may change at any time.
#[derive(Clone, Debug)]
pub struct Router {
    local: NodeId,
    statics: Vec<StaticRoute>,
    least_confidence: f64,
    ledger: Ledger,
    backlog: Backlog,
    /// Whether what waits counts when a way is looked for.
    counts_backlog: bool,
    search: Search,
    /// The plan's version that what waits was routed by.
    version: u64,
}

impl Router {
    /// Of a node, with its static routes; contacts less likely than `least_confidence` are not used.
    pub fn new(
        local: NodeId,
        plan: &Plan,
        statics: Vec<StaticRoute>,
        least_confidence: f64,
    ) -> Router {
        Router {
            local,
            statics,
            least_confidence,
            ledger: Ledger::default(),
            backlog: Backlog::default(),
            counts_backlog: true,
            search: Search::default(),
            version: plan.version(),
        }
    }

    /// The same, of a node that gives each bundle to its layer at once and then knows nothing of what waits there: 3.2.6.2
    /// sees no backlog.
    pub fn without_backlog(self) -> Router {
        Router { counts_backlog: false, ..self }
    }

    /// What to do with a bundle for `to` now; `excluded` are neighbours that it must not go to: the one that it came
    /// from, unless it may go back.
    pub fn decide(
        &mut self,
        plan: &Plan,
        to: NodeId,
        now: Time,
        bundle: &Bundle,
        excluded: &[NodeId],
        critical: bool,
    ) -> Decision {
        let mut load =
            Load::of(bundle, &self.ledger, &self.backlog, excluded, self.least_confidence);
        load.backlog = load.backlog.filter(|_| self.counts_backlog);
        decide(plan, &mut self.search, self.local, to, now, bundle, &load, critical, &self.statics)
    }

    /// The bundle waits for its next hop from now on: its route's volume is booked.
    pub fn wait(&mut self, one: &Forwarding, bundle: &Bundle) -> Booking {
        let (legs, limit) = match &one.route {
            Some((route, judgement)) => (route.legs.clone(), judgement.volume_limit),
            None => (Vec::new(), u64::MAX),
        };
        // of a bundle that is cut the first part goes this way
        let consumption = bundle.consumption().min(limit);
        self.ledger.book(&legs, bundle.priority, consumption);
        self.backlog.add(one.to, bundle.priority, consumption);
        Booking { next: one.to, legs, priority: bundle.priority, consumption }
    }

    /// It has been sent: it waits no more, and the volume is used.
    pub fn sent(&mut self, one: &Booking) {
        self.backlog.take(one.next, one.priority, one.consumption);
    }

    /// It will not be sent as it was booked: its volume is free again.
    pub fn withdraw(&mut self, one: &Booking) {
        self.backlog.take(one.next, one.priority, one.consumption);
        self.ledger.release(&one.legs, one.priority, one.consumption);
    }

    /// It was sent and has not arrived: its volume is free again.
    pub fn lost(&mut self, one: &Booking) {
        self.ledger.release(&one.legs, one.priority, one.consumption);
    }

    /// Whether the plan has changed since this was asked last: then what waits is withdrawn and decided on again.
    pub fn outdated(&mut self, plan: &Plan) -> bool {
        std::mem::replace(&mut self.version, plan.version()) != plan.version()
    }

    /// Contacts of which more is booked than they carry: a more urgent bundle has taken what a less urgent one, which
    /// is decided on again, had booked; or the contact has become shorter.
    pub fn overbooked(&self, plan: &Plan) -> Vec<ContactId> {
        let over = |id: &ContactId| {
            let booked =
                self.ledger.booked(*id).iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
            plan.contact(*id).is_none_or(|contact| booked > contact.volume())
        };
        self.ledger.contacts().filter(over).collect()
    }

    /// Forgets what is booked of contacts that are over or gone.
    pub fn tidy(&mut self, plan: &Plan, now: Time) {
        self.ledger.retain(|id| plan.contact(id).is_some_and(|one| one.stop > now));
    }

    /// What is booked.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What waits.
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }
}
