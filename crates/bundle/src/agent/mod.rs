//! A bundle node without its connections: what it stores, decides, delivers and reports (RFC 9171 section 5). Who drives it
//! opens sessions and makes stored bundles durable, as [`Act`]s ask.
//!
//! Reading order: here, `receive` (what comes in), `keep` (what is here), `forward` (which way), `flood` (all ways), `neighbour` (what
//! waits for one), `send` (while there is a contact), `deliver` (`parts`: fragments, `expiring_ids`: what was delivered), `perf` (who sends), `file` (what a client sends
//! of a file), `stop` (what a node that stops loses), `lasting` (what a store asks for and gives that outlives the node), `integrity`
//! (what it signs, and what it checks).

mod deliver;
mod expiring_ids;
mod file;
mod flood;
mod forward;
mod integrity;
mod keep;
mod lasting;
mod neighbour;
mod parts;
mod perf;
mod receive;
mod send;
mod stop;

use std::collections::{BTreeMap, BTreeSet};

use contacts::{ContactId, NodeId, Plan, Router, StaticRoute};
use units::Time;

use crate::integrity::Secrets;
use crate::record::{Happened, Name, Record, ReportRecord, RouteRecord, reason};
use crate::spec::{ChangeSpec, DtnSpec, PerfSpec, ReturnSpec};
use crate::wire::{Bundle, Eid, Id, ReasonCode};
use crate::{Asked, Told};
use expiring_ids::ExpiringIds;
pub use file::FilePart;
use flood::Flood;
use integrity::Policy;
use keep::Kept;
use lasting::Lasting;
pub use lasting::Stored;
use neighbour::Neighbour;
use parts::Parts;
use perf::Client;

/// A session, by a number that its driver gives.
pub type SessionId = u64;

/// What an agent asks of its driver.
#[derive(Clone, Debug)]
pub enum Act {
    /// Open a connection at this end.
    Open(usize),
    /// Tell a session something.
    Tell(SessionId, Told),
    /// Ask this of the store, and say [`Agent::answered`].
    Store(Asked),
}

/// Where bundles to a neighbour go.
#[derive(Clone, Debug)]
pub struct Door {
    /// The neighbour's name in the plan.
    pub neighbour: String,
    /// The end of the driver at which its connections are.
    pub end: usize,
    /// Whether this node sends its bundles over them.
    pub sends: bool,
    /// Whether this node opens them; else it uses those that the neighbour opens.
    pub opens: bool,
    /// With the contact, or when there is a bundle.
    pub with_contact: bool,
    /// Whether they are closed when the contact is over.
    pub closes: bool,
    /// What becomes of one that is there as the next begins.
    pub on_return: ReturnSpec,
    /// Whether its sessions are told what the plan says of the way.
    pub by_plan: bool,
}

struct Link {
    end: usize,
    neighbour: Option<NodeId>,
}

/// A bundle protocol agent.
pub struct Agent {
    name: String,
    eid: Eid,
    local: NodeId,
    epoch_ms: u64,
    plan: Plan,
    /// Contacts by where they are said.
    said_at: BTreeMap<String, ContactId>,
    changes: Vec<ChangeSpec>,
    /// Node ids of the plan's nodes.
    eids: BTreeMap<NodeId, Eid>,
    nodes: BTreeMap<String, NodeId>,
    router: Router,
    neighbours: BTreeMap<NodeId, Neighbour>,
    /// The neighbour at each end.
    ends: BTreeMap<usize, NodeId>,
    sessions: BTreeMap<SessionId, Link>,
    kept: BTreeMap<u64, Kept>,
    here: BTreeMap<Id, u64>,
    /// Bundles without a way.
    stuck: BTreeSet<u64>,
    deadlines: BTreeSet<(Time, u64)>,
    stored_bytes: u64,
    store_bytes: Option<u64>,
    next: u64,
    sequence: u64,
    delivered: ExpiringIds,
    parts: BTreeMap<Id, Parts>,
    lasting: Option<Lasting>,
    flood: Option<Flood>,
    policy: Option<Policy>,
    clients: Vec<Client>,
    acts: Vec<Act>,
    records: Vec<Record>,
    routes: Vec<RouteRecord>,
    reports: Vec<ReportRecord>,
    /// Parts of files that have come; none: nobody wants them.
    files: Option<Vec<FilePart>>,
}

impl Agent {
    /// Node `name` of `spec`, which reaches its neighbours through `doors`.
    ///
    /// # Errors
    /// What is wrong with the specification, in words.
    pub fn new(spec: &DtnSpec, name: &str, doors: &[Door]) -> Result<Agent, String> {
        Agent::with_keys(spec, name, doors, &Secrets::new())
    }

    /// The same, of a node that has keys.
    ///
    /// # Errors
    /// The same, and a key that is named and not there.
    pub fn with_keys(
        spec: &DtnSpec,
        name: &str,
        doors: &[Door],
        secrets: &Secrets,
    ) -> Result<Agent, String> {
        let mut plan = Plan::new(&spec.plan).map_err(|problems| {
            problems.iter().map(|one| one.text.clone()).collect::<Vec<_>>().join("; ")
        })?;
        let (mut eids, mut nodes) = (BTreeMap::new(), BTreeMap::new());
        for node in &spec.nodes {
            let id = plan.enter(&node.name);
            let eid: Eid = node.eid.parse().map_err(|_| format!("{}: no node id", node.eid))?;
            nodes.insert(node_id(&eid), id);
            eids.insert(id, eid);
        }
        let own = spec.nodes.iter().find(|node| node.name == name);
        let own = own.ok_or_else(|| format!("there is no bundle node {name:?}"))?;
        let local = plan.enter(name);
        let known = |name: &String| plan.node(name).ok_or_else(|| format!("no node {name:?}"));
        let hand = |hand: &crate::spec::HandSpec| {
            let to = hand.to.as_ref().map(known).transpose()?;
            Ok(StaticRoute { to, via: known(&hand.via)? })
        };
        let statics = own.routes.iter().map(hand).collect::<Result<Vec<_>, String>>()?;
        let (mut neighbours, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for door in doors {
            let id = known(&door.neighbour)?;
            ends.insert(door.end, id);
            if !door.sends {
                continue;
            }
            let sends = neighbours.entry(id).or_insert_with(|| Neighbour::new(door.clone()));
            // Of several the one that this node opens is its own.
            if door.opens && !sends.door.opens {
                sends.door = door.clone();
            }
        }
        let said_at = plan.contacts().map(|(id, one)| (one.at.clone(), id)).collect();
        let mut changes = spec.changes.clone();
        changes.sort_by_key(|change| change.at_ns);
        changes.reverse();
        let eid = eids[&local].clone();
        let clients = spec.perf.iter().enumerate().filter(|(_, perf)| perf.client == name);
        let clients = clients
            .map(|(number, perf): (usize, &PerfSpec)| Client::new(spec, number, perf, &eid))
            .collect::<Result<_, String>>()?;
        let mut router = Router::new(local, &plan, statics, 0.0);
        if spec.backlog_ignored {
            router = router.without_backlog();
        }
        Ok(Agent {
            name: name.to_owned(),
            router,
            local,
            eid,
            epoch_ms: spec.epoch_ms,
            plan,
            said_at,
            changes,
            eids,
            nodes,
            neighbours,
            ends,
            sessions: BTreeMap::new(),
            kept: BTreeMap::new(),
            here: BTreeMap::new(),
            stuck: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            stored_bytes: 0,
            store_bytes: own.store_bytes,
            next: 0,
            sequence: 0,
            delivered: ExpiringIds::default(),
            parts: BTreeMap::new(),
            lasting: None,
            flood: spec.epidemic.as_ref().map(|epidemic| Flood::new(epidemic.copies)),
            policy: Policy::new(spec, own, secrets)?,
            clients,
            acts: Vec::new(),
            records: Vec::new(),
            routes: Vec::new(),
            reports: Vec::new(),
            files: None,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its node id.
    pub fn eid(&self) -> &Eid {
        &self.eid
    }

    /// Milliseconds since 2000 at `now`.
    pub(crate) fn clock_ms(&self, now: Time) -> u64 {
        self.epoch_ms + now.nanos() / 1_000_000
    }

    /// Whether it asks for anything.
    pub fn has_acts(&self) -> bool {
        !self.acts.is_empty()
    }

    /// What it asks for, in order; each once.
    pub fn take_acts(&mut self, into: &mut Vec<Act>) {
        into.append(&mut self.acts);
    }

    /// What has happened to bundles, in order of time.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The same since the last call. It forgets them.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// What it has decided.
    pub fn routes(&self) -> &[RouteRecord] {
        &self.routes
    }

    /// The same since the last call. It forgets them.
    pub fn take_routes(&mut self) -> Vec<RouteRecord> {
        std::mem::take(&mut self.routes)
    }

    /// The reports that have come to it.
    pub fn reports(&self) -> &[ReportRecord] {
        &self.reports
    }

    /// The same since the last call. It forgets them.
    pub fn take_reports(&mut self) -> Vec<ReportRecord> {
        std::mem::take(&mut self.reports)
    }

    /// Bundles that are here: each with when it came.
    pub fn kept(&self) -> impl Iterator<Item = (&Bundle, Time)> {
        self.kept.values().map(|kept| (&kept.bundle, kept.came))
    }

    /// How many bytes are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// A bundle is deleted (section 5.10).
    fn gone(&mut self, now: Time, bundle: &Bundle, kind: &'static str, code: ReasonCode) {
        self.note(now, Happened::Deleted, bundle, kind, None, Some(reason(code)));
        self.report(now, bundle, deliver::DELETED, code);
    }

    fn note(
        &mut self,
        at: Time,
        what: Happened,
        bundle: &Bundle,
        kind: &'static str,
        peer: Option<String>,
        reason: Option<&'static str>,
    ) {
        self.records.push(Record {
            at,
            what,
            bundle: Name::of(bundle),
            destination: bundle.destination.to_string(),
            payload_bytes: bundle.payload_bytes(),
            peer,
            reason,
            kind,
        });
    }

    /// Does what is due.
    pub fn wake(&mut self, now: Time) {
        while self.changes.last().is_some_and(|change| change.at_ns <= now.nanos()) {
            if let Some(change) = self.changes.pop() {
                self.learn(&change);
            }
        }
        self.expire_due(now);
        self.run_contacts(now);
        if self.router.outdated(&self.plan) {
            self.decide_again(now);
        }
        self.run_clients(now);
    }

    /// When it wants to be woken.
    pub fn wake_at(&self) -> Time {
        let change = self.changes.last().map_or(Time::MAX, |change| Time(change.at_ns));
        let deadline = self.deadlines.first().map_or(Time::MAX, |(at, _)| *at);
        let edges = self.neighbours.values().map(|one| one.edge).min().unwrap_or(Time::MAX);
        change.min(deadline).min(edges).min(self.clients_at())
    }
}

/// The node of an endpoint.
fn node_id(eid: &Eid) -> String {
    eid.to_node_id().map_or_else(|_| eid.to_string(), |node| node.to_string())
}
