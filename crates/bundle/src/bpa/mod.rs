//! The bundle protocol agent (BPA): stores, forwards, delivers and reports bundles (RFC 9171 section 5). Its driver
//! opens connections and makes bundles durable, as [`BpaAction`]s request.
//!
//! Reading order:
//! 1. `bpa_action` (boundary to the driver), `store_api` (bundle store), this file, `events` (rows of bundle tables);
//! 2. `receive` (session events), `storage` (stored bundles), `forwarding` (route decisions), `epidemic` (epidemic
//!    routing);
//! 3. `neighbour` (queue of a neighbour), `send` (transmission during a contact);
//! 4. `delivery` with `reassembly` (fragments) and `expiring_ids` (delivered bundles);
//! 5. `dtnperf` (clients), `file_transfer` (files of clients);
//! 6. `node_failure`, `recovery` (persistent store), `security` (integrity policy), `node` (agent with connections).

mod bpa_action;
mod delivery;
mod dtnperf;
mod epidemic;
mod events;
mod expiring_ids;
mod file_transfer;
mod forwarding;
mod neighbour;
mod node;
mod node_failure;
mod reassembly;
mod receive;
mod recovery;
mod security;
mod send;
mod storage;
mod store_api;

use std::collections::{BTreeMap, BTreeSet};

use contacts::{ContactId, Plan, PlanNodeId, Router, StaticRoute};
use units::Time;

use crate::integrity_spec::Secrets;
use crate::spec::{DtnPerfSpec, DtnSpec, PlanChangeSpec};
use crate::wire::{Bundle, Eid, Id, ReasonCode, node_id};
use bpa_action::SessionEntry;
pub use bpa_action::{BpaAction, NeighbourConfig, SessionId, StoreCompletion, StoreRequest};
use dtnperf::DtnPerfClient;
use epidemic::EpidemicRouting;
use events::reason_text;
pub use events::{BundleEvent, BundleEventKind, BundleLabel, ReportRecord, RouteRecord};
use expiring_ids::ExpiringIds;
pub use file_transfer::FilePart;
use neighbour::Neighbour;
pub use node::{BundleNode, ClaInterface, IncomingSessions};
use reassembly::FragmentSet;
pub use recovery::BundleMetadata;
use recovery::Persistence;
use security::IntegrityPolicy;
use storage::StoredBundle;
pub use store_api::{MemoryStore, Store};

/// A bundle protocol agent.
pub struct BundleProtocolAgent {
    name: String,
    eid: Eid,
    local_node: PlanNodeId,
    epoch_ms: u64,
    plan: Plan,
    /// Contacts by the label of their origin.
    contact_ids: BTreeMap<String, ContactId>,
    plan_changes: Vec<PlanChangeSpec>,
    /// The node IDs of nodes in the contact plan.
    node_eids: BTreeMap<PlanNodeId, Eid>,
    nodes_by_eid: BTreeMap<String, PlanNodeId>,
    router: Router,
    neighbours: BTreeMap<PlanNodeId, Neighbour>,
    /// The neighbour at each interface.
    interface_neighbours: BTreeMap<usize, PlanNodeId>,
    sessions: BTreeMap<SessionId, SessionEntry>,
    stored: BTreeMap<u64, StoredBundle>,
    keys_by_id: BTreeMap<Id, u64>,
    /// Bundles without a route.
    unrouted: BTreeSet<u64>,
    deadlines: BTreeSet<(Time, u64)>,
    stored_bytes: u64,
    max_store_bytes: Option<u64>,
    next_key: u64,
    sequence: u64,
    delivered_ids: ExpiringIds,
    fragment_sets: BTreeMap<Id, FragmentSet>,
    persistence: Option<Persistence>,
    epidemic: Option<EpidemicRouting>,
    integrity_policy: Option<IntegrityPolicy>,
    perf_clients: Vec<DtnPerfClient>,
    actions: Vec<BpaAction>,
    events: Vec<BundleEvent>,
    route_records: Vec<RouteRecord>,
    report_records: Vec<ReportRecord>,
    /// Received file fragments; `None` discards them.
    file_parts: Option<Vec<FilePart>>,
}

impl BundleProtocolAgent {
    /// Builds the agent of node `name` in `spec`, with these connections to neighbours.
    ///
    /// # Errors
    /// The specification is invalid.
    pub fn new(
        spec: &DtnSpec,
        name: &str,
        neighbour_configs: &[NeighbourConfig],
    ) -> Result<BundleProtocolAgent, String> {
        BundleProtocolAgent::with_keys(spec, name, neighbour_configs, &Secrets::new())
    }

    /// Builds an agent with keys.
    ///
    /// # Errors
    /// The specification is invalid, or a key is missing.
    pub fn with_keys(
        spec: &DtnSpec,
        name: &str,
        neighbour_configs: &[NeighbourConfig],
        secrets: &Secrets,
    ) -> Result<BundleProtocolAgent, String> {
        let mut plan = Plan::new(&spec.plan).map_err(|problems| {
            problems.iter().map(|one| one.text.clone()).collect::<Vec<_>>().join("; ")
        })?;
        let (mut node_eids, mut nodes_by_eid) = (BTreeMap::new(), BTreeMap::new());
        for node in &spec.nodes {
            let id = plan.add_node(&node.name);
            let eid: Eid = node
                .eid
                .parse()
                .map_err(|_| format!("found {:?}, expected a node id", node.eid))?;
            nodes_by_eid.insert(node_id(&eid), id);
            node_eids.insert(id, eid);
        }
        let node_spec = spec.nodes.iter().find(|node| node.name == name);
        let node_spec = node_spec.ok_or_else(|| format!("there is no bundle node {name:?}"))?;
        let local_node = plan.add_node(name);
        let known = |name: &String| plan.node(name).ok_or_else(|| format!("no node {name:?}"));
        let static_route = |route: &crate::spec::StaticRouteSpec| {
            let to = route.to.as_ref().map(known).transpose()?;
            Ok(StaticRoute { to, via: known(&route.via)? })
        };
        let statics =
            node_spec.routes.iter().map(static_route).collect::<Result<Vec<_>, String>>()?;
        let (mut neighbours, mut interface_neighbours) = (BTreeMap::new(), BTreeMap::new());
        for config in neighbour_configs {
            let id = known(&config.neighbour)?;
            interface_neighbours.insert(config.interface, id);
            if !config.can_send {
                continue;
            }
            let neighbour = neighbours.entry(id).or_insert_with(|| Neighbour::new(config.clone()));
            // A connection that this node opens is preferred.
            if config.can_open && !neighbour.config.can_open {
                neighbour.config = config.clone();
            }
        }
        let contact_ids = plan.contacts().map(|(id, one)| (one.declared_at.clone(), id)).collect();
        let mut plan_changes = spec.changes.clone();
        plan_changes.sort_by_key(|change| change.at_ns);
        plan_changes.reverse();
        let eid = node_eids[&local_node].clone();
        let clients = spec.perf.iter().enumerate().filter(|(_, perf)| perf.client == name);
        let clients = clients
            .map(|(number, perf): (usize, &DtnPerfSpec)| {
                DtnPerfClient::new(spec, number, perf, &eid)
            })
            .collect::<Result<_, String>>()?;
        let mut router = Router::new(local_node, &plan, statics, 0.0);
        if spec.backlog_ignored {
            router = router.without_backlog();
        }
        Ok(BundleProtocolAgent {
            name: name.to_owned(),
            router,
            local_node,
            eid,
            epoch_ms: spec.epoch_ms,
            plan,
            contact_ids,
            plan_changes,
            node_eids,
            nodes_by_eid,
            neighbours,
            interface_neighbours,
            sessions: BTreeMap::new(),
            stored: BTreeMap::new(),
            keys_by_id: BTreeMap::new(),
            unrouted: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            stored_bytes: 0,
            max_store_bytes: node_spec.store_bytes,
            next_key: 0,
            sequence: 0,
            delivered_ids: ExpiringIds::default(),
            fragment_sets: BTreeMap::new(),
            persistence: None,
            epidemic: spec.epidemic.as_ref().map(|epidemic| EpidemicRouting::new(epidemic.copies)),
            integrity_policy: IntegrityPolicy::new(spec, node_spec, secrets)?,
            perf_clients: clients,
            actions: Vec::new(),
            events: Vec::new(),
            route_records: Vec::new(),
            report_records: Vec::new(),
            file_parts: None,
        })
    }

    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the node ID.
    pub fn eid(&self) -> &Eid {
        &self.eid
    }

    /// Returns the DTN time at `now`, in milliseconds since 2000.
    pub(crate) fn clock_ms(&self, now: Time) -> u64 {
        self.epoch_ms + now.nanos() / 1_000_000
    }

    /// Returns whether the agent has pending actions.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Moves the pending actions to `into`, in sequence.
    pub fn take_actions(&mut self, into: &mut Vec<BpaAction>) {
        into.append(&mut self.actions);
    }

    /// Returns the bundle events, sorted by time.
    pub fn events(&self) -> &[BundleEvent] {
        &self.events
    }

    /// Returns and removes the events since the last call.
    pub fn take_events(&mut self) -> Vec<BundleEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns the forwarding decisions.
    pub fn routes(&self) -> &[RouteRecord] {
        &self.route_records
    }

    /// Returns and removes the decisions since the last call.
    pub fn take_routes(&mut self) -> Vec<RouteRecord> {
        std::mem::take(&mut self.route_records)
    }

    /// Returns the received status reports.
    pub fn reports(&self) -> &[ReportRecord] {
        &self.report_records
    }

    /// Returns and removes the reports since the last call.
    pub fn take_reports(&mut self) -> Vec<ReportRecord> {
        std::mem::take(&mut self.report_records)
    }

    /// Returns the stored bundles with their times of reception.
    pub fn stored_bundles(&self) -> impl Iterator<Item = (&Bundle, Time)> {
        self.stored.values().map(|stored| (&stored.bundle, stored.received_at))
    }

    /// Returns the number of stored bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Records and reports the deletion of a bundle (section 5.10).
    fn record_deletion(
        &mut self,
        now: Time,
        bundle: &Bundle,
        kind: &'static str,
        code: ReasonCode,
    ) {
        self.record_event(
            now,
            BundleEventKind::Deleted,
            bundle,
            kind,
            None,
            Some(reason_text(code)),
        );
        self.report_status(now, bundle, events::DELETED, code);
    }

    fn record_event(
        &mut self,
        at: Time,
        event: BundleEventKind,
        bundle: &Bundle,
        kind: &'static str,
        peer: Option<String>,
        reason: Option<&'static str>,
    ) {
        self.events.push(BundleEvent {
            at,
            event,
            bundle: BundleLabel::from_bundle(bundle),
            destination: bundle.destination.to_string(),
            payload_bytes: bundle.payload_bytes(),
            peer,
            reason,
            kind,
        });
    }

    /// Performs all due work.
    pub fn poll(&mut self, now: Time) {
        while self.plan_changes.last().is_some_and(|change| change.at_ns <= now.nanos()) {
            if let Some(change) = self.plan_changes.pop() {
                self.apply_plan_change(&change);
            }
        }
        self.expire_due(now);
        self.run_contacts(now);
        if self.router.take_plan_change(&self.plan) {
            self.redispatch_bundles(now);
        }
        self.run_clients(now);
    }

    /// Returns the next deadline.
    pub fn poll_at(&self) -> Time {
        let change = self.plan_changes.last().map_or(Time::MAX, |change| Time(change.at_ns));
        let deadline = self.deadlines.first().map_or(Time::MAX, |(at, _)| *at);
        let neighbours_at =
            self.neighbours.values().map(|one| one.poll_at).min().unwrap_or(Time::MAX);
        change.min(deadline).min(neighbours_at).min(self.clients_poll_at())
    }
}
