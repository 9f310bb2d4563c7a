//! A bundle node without its connections: what it stores, decides, delivers and reports (RFC 9171 section 5). Who drives it
//! opens sessions and makes stored bundles durable, as [`Act`]s ask.
//!
//! Reading order: here (what comes in), `forward` (which way), `flood` (all ways), `neighbour` (what waits for one), `send` (while there is a contact),
//! `deliver` (`parts`: fragments), `perf` (who sends), `file` (what a client sends of a file), `stop` (what a node that stops loses), `lasting` (what a
//! store asks for and gives that outlives the node), `integrity` (what it signs, and what it checks).

mod deliver;
mod file;
mod flood;
mod forward;
mod integrity;
mod lasting;
mod neighbour;
mod parts;
mod perf;
mod send;
mod stop;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use contacts::{ContactId, NodeId, Plan, Router, StaticRoute};
use units::{Span, Time};

use crate::integrity::Secrets;
use crate::record::{Happened, Name, Record, ReportRecord, RouteRecord, reason};
use crate::spec::{ChangeSpec, DtnSpec, PerfSpec, ReturnSpec};
use crate::wire::{Bundle, Eid, Id, ReasonCode};
use crate::{Asked, Refusal, Said, Told};
pub use file::FilePart;
use flood::{Flood, Spread};
use integrity::Policy;
pub use lasting::Stored;
use lasting::{Lasting, Want};
use neighbour::{Neighbour, Spot};
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

/// Why a bundle that came again was deleted.
const KNOWN: &str = "it is known here";

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

/// A bundle that is here.
struct Kept {
    bundle: Bundle,
    came: Time,
    deadline: Time,
    bytes: u64,
    /// Until it is durable: the session that it came from, and its number there; and those that have brought it again.
    from: Vec<(SessionId, u64)>,
    durable: bool,
    /// Copies that wait for a neighbour or are on their way to one.
    copies: Vec<(NodeId, Spot)>,
    /// Neighbours that will never take it.
    unwanted_by: Vec<NodeId>,
    /// The neighbour that could not take it, and until when it is not asked again.
    later: Option<(NodeId, Time)>,
    /// Who has it, where nodes flood.
    spread: Option<Box<Spread>>,
    /// Why its payload is asked for, if it is.
    want: Option<Want>,
    kind: &'static str,
}

impl Kept {
    /// A copy is there.
    fn copied(&mut self, to: NodeId, spot: Spot) {
        // There is one as a rule, of a million bundles.
        self.copies.reserve_exact(1);
        self.copies.push((to, spot));
    }

    /// It is there no more.
    fn uncopied(&mut self, to: NodeId, spot: Spot) {
        self.copies.retain(|one| *one != (to, spot));
    }
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
    delivered: BTreeSet<Id>,
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
            delivered: BTreeSet::new(),
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

    /// A session has begun at `end`, opened from this side or from the other.
    pub fn opened(&mut self, now: Time, end: usize, session: SessionId) {
        let neighbour = self.ends.get(&end).copied();
        self.sessions.insert(session, Link { end, neighbour });
        if let Some(id) = neighbour
            && let Some(neighbour) = self.neighbours.get_mut(&id)
            && neighbour.door.end == end
        {
            // Whose peer opens another one has given the last one up.
            let before = neighbour.session.replace(session);
            if let Some(before) = before.filter(|before| *before != session) {
                self.acts.push(Act::Tell(before, Told::Abort));
                self.flights_back(now, id, "the connection was opened again");
            }
            self.tell_way(now, id, true);
            self.pump(now, id);
        }
    }

    /// A session says something.
    pub fn heard(&mut self, now: Time, session: SessionId, said: Said) {
        let Some(link) = self.sessions.get(&session) else { return };
        let (peer, end) = (link.neighbour, link.end);
        match said {
            Said::Started { peer: name, .. } => {
                let expected = peer.and_then(|peer| self.eids.get(&peer)).map(node_id);
                // A peer that is not who it should be gets nothing and gives nothing.
                if let Some(name) = name
                    && expected
                        .is_some_and(|eid| name.parse().is_ok_and(|own| node_id(&own) != eid))
                {
                    self.acts.push(Act::Tell(session, Told::Abort));
                }
            }
            Said::Sent(id) => self.left(now, session, id),
            Said::Accepted { id, .. } => self.taken(now, session, id),
            Said::Refused { id, why } => self.refused(now, session, id, why),
            Said::Received { id, data, .. } => self.received(now, session, id, peer, &data),
            Said::Ended { .. } => {
                self.sessions.remove(&session);
                self.over(now, session, end, peer);
            }
        }
    }

    /// A bundle has come whole.
    fn received(
        &mut self,
        now: Time,
        session: SessionId,
        id: u64,
        peer: Option<NodeId>,
        data: &[Bytes],
    ) {
        let refuse = |why| Act::Tell(session, Told::Refuse(id, why));
        let mut bundle = match Bundle::decode_parts(data) {
            Ok(bundle) => bundle,
            Err(_) => return self.acts.push(refuse(Refusal::NotAcceptable)),
        };
        let peer_name = peer.map(|peer| self.plan.name(peer).to_owned());
        bundle.hops = bundle.hops.map(|(limit, count)| (limit, count + 1));
        // Where a bundle was is not what the peer says but who it is.
        bundle.previous = peer.and_then(|peer| self.eids.get(&peer)).cloned().or(bundle.previous);
        let kind = deliver::kind(&bundle);
        self.note(now, Happened::Received, &bundle, kind, peer_name, None);
        let known = self.here.contains_key(&bundle.id) || self.delivered.contains(&bundle.id);
        if known || self.was_delivered(&bundle) || self.has_seen(&bundle.id) {
            if let Some(peer) = peer {
                self.has_it(now, &bundle.id, peer);
            }
            self.note(now, Happened::Deleted, &bundle, kind, None, Some(KNOWN));
            // Nobody is told that it is here who would lose it if the node stopped now.
            let key = self.here.get(&bundle.id);
            return match key.and_then(|key| self.kept.get_mut(key)).filter(|kept| !kept.durable) {
                Some(kept) => kept.from.push((session, id)),
                None => self.acts.push(refuse(Refusal::Completed)),
            };
        }
        if bundle.unknown.report {
            self.report_on(now, &bundle, deliver::RECEIVED, ReasonCode::BlockUnsupported);
        }
        if let Some(why) = bundle.unknown.delete {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, why);
        }
        if bundle.hops.is_some_and(|(limit, count)| count > limit) {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, ReasonCode::HopLimitExceeded);
        }
        if self.is_too_late(now, &bundle) {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, ReasonCode::LifetimeExpired);
        }
        if let Some(why) = self.judge(&bundle) {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, why);
        }
        match self.keep(now, bundle, kind, Some((session, id))) {
            Ok(_) => {}
            Err(bundle) => {
                self.acts.push(refuse(Refusal::NoResources));
                self.gone(now, &bundle, kind, ReasonCode::DepletedStorage);
            }
        }
    }

    /// Stores a bundle, unless there is no room.
    fn keep(
        &mut self,
        now: Time,
        bundle: Bundle,
        kind: &'static str,
        from: Option<(SessionId, u64)>,
    ) -> Result<u64, Box<Bundle>> {
        let bytes = bundle.bytes();
        if self.store_bytes.is_some_and(|most| self.stored_bytes + bytes > most) {
            return Err(Box::new(bundle));
        }
        let key = self.next;
        self.next += 1;
        self.enter(now, key, bundle, kind).from.extend(from);
        self.acts.push(Act::Store(Asked::Keep(key)));
        Ok(key)
    }

    /// The bundle has its place, of this number.
    fn enter(&mut self, now: Time, key: u64, bundle: Bundle, kind: &'static str) -> &mut Kept {
        let (deadline, bytes) = (self.deadline(now, &bundle), bundle.bytes());
        self.stored_bytes += bytes;
        self.deadlines.insert((deadline, key));
        self.here.insert(bundle.id.clone(), key);
        self.see(&bundle.id, deadline);
        self.enter_part(key, &bundle);
        let kept = Kept {
            bundle,
            came: now,
            deadline,
            bytes,
            from: Vec::new(),
            durable: false,
            copies: Vec::new(),
            unwanted_by: Vec::new(),
            later: None,
            spread: None,
            want: None,
            kind,
        };
        self.kept.entry(key).or_insert(kept)
    }

    /// The bundle of this number is durable.
    fn stored(&mut self, now: Time, key: u64) {
        let Some(kept) = self.kept.get_mut(&key) else { return };
        kept.durable = true;
        if !kept.from.is_empty() {
            let (from, bundle) = (std::mem::take(&mut kept.from), kept.bundle.clone());
            self.answer(from, None);
            self.report(now, &bundle, deliver::RECEIVED, ReasonCode::NoAdditionalInformation);
        }
        self.dispatch(now, key);
        self.put_away(key);
    }

    /// When a bundle is of no use any more, by this node's clock (section 4.2.7; without a clock at its source, by its
    /// age, section 4.4.2).
    fn deadline(&self, now: Time, bundle: &Bundle) -> Time {
        let left = match bundle.created_ms() {
            Some(created) => {
                let end = u128::from(created) * 1_000_000 + u128::from(bundle.lifetime.nanos());
                let zero = u128::from(self.epoch_ms) * 1_000_000;
                let at = u64::try_from(end.saturating_sub(zero)).unwrap_or(u64::MAX / 4);
                return Time(at.min(u64::MAX / 4));
            }
            None => bundle.lifetime.nanos().saturating_sub(bundle.age.map_or(0, Span::nanos)),
        };
        Time(now.nanos().saturating_add(left).min(u64::MAX / 4))
    }

    /// Those who have brought a bundle hear what has become of it: it was taken, or why not.
    fn answer(&mut self, from: Vec<(SessionId, u64)>, refused: Option<Refusal>) {
        for (place, (session, id)) in from.into_iter().enumerate() {
            let told = match refused {
                Some(why) => Told::Refuse(id, why),
                None if place > 0 => Told::Refuse(id, Refusal::Completed),
                None => Told::Stored(id),
            };
            self.acts.push(Act::Tell(session, told));
        }
    }

    /// Lets go of a bundle.
    fn forget(&mut self, key: u64) -> Option<Kept> {
        let mut kept = self.remove(key)?;
        // While it was being stored: nobody need send it again.
        self.answer(std::mem::take(&mut kept.from), None);
        if self.lasting.is_some() {
            self.acts.push(Act::Store(Asked::Forget(key, Vec::new())));
        }
        Some(kept)
    }

    /// The same, of which the store knows nothing yet.
    fn remove(&mut self, key: u64) -> Option<Kept> {
        let kept = self.kept.remove(&key)?;
        self.unwanted(&kept);
        self.stored_bytes -= kept.bytes;
        self.deadlines.remove(&(kept.deadline, key));
        self.stuck.remove(&key);
        self.leave_part(key, &kept.bundle);
        if self.here.get(&kept.bundle.id) == Some(&key) {
            self.here.remove(&kept.bundle.id);
        }
        Some(kept)
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

    fn expire_due(&mut self, now: Time) {
        self.expire_seen(now);
        while let Some((deadline, key)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.expire(now, key);
        }
    }

    fn expire(&mut self, now: Time, key: u64) {
        self.unqueue(key);
        if let Some(kept) = self.forget(key) {
            self.gone(now, &kept.bundle, kept.kind, ReasonCode::LifetimeExpired);
        }
    }
}

/// The node of an endpoint.
fn node_id(eid: &Eid) -> String {
    eid.to_node_id().map_or_else(|_| eid.to_string(), |node| node.to_string())
}
