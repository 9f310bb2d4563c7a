//! The bundle protocol agent of a node on real sockets. Events are reported once their effects are durable.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

use bundle::{
    BpaAction, BundleEvent, BundleProtocolAgent, MemoryStore, ReportRecord, RouteRecord,
    SessionEvent, SessionId, Store, StoreCompletion,
};
use serde_json::Value;
use transport::quic::CloseReason;
use transport::{App, AppNotification, ConnectionControl, ConnectionKey};
use units::Time;

use super::received_files::ReceivedFiles;
use super::{ClaEndpoint, InterfaceTraffic, Sessions};

/// The maximum of rows that wait for the store before the node waits, about 300 bytes each.
const MAX_PENDING_ROWS: usize = 1 << 16;

/// Events of a node.
#[derive(Debug, Default)]
pub struct NodeEvents {
    /// Events of bundles.
    pub records: Vec<BundleEvent>,
    /// Forwarding decisions.
    pub routes: Vec<RouteRecord>,
    /// Received status reports.
    pub reports: Vec<ReportRecord>,
}

impl NodeEvents {
    fn rows(&self) -> usize {
        self.records.len() + self.routes.len() + self.reports.len()
    }
}

/// A bundle node on a host.
pub struct BundleHost {
    bpa: BundleProtocolAgent,
    sessions: Sessions,
    store: Box<dyn Store>,
    completions: Vec<StoreCompletion>,
    /// Pending events, by store batch.
    events: VecDeque<(u64, NodeEvents)>,
    /// The number of rows in `events`.
    rows: usize,
    actions: Vec<BpaAction>,
    is_due: bool,
    /// The receiver of files from clients, `None` to write no files.
    received_files: Option<ReceivedFiles>,
    /// The phase of the shutdown.
    shutdown_phase: ShutdownPhase,
    /// Sessions with an unidentified peer, and their interfaces.
    unidentified: BTreeMap<SessionId, usize>,
}

/// The phase of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownPhase {
    /// The node is not shutting down.
    Running,
    /// The sessions have to be terminated.
    Requested,
    /// The sessions were sent the command to terminate; no connection is opened any more.
    Terminating,
}

impl BundleHost {
    /// Creates a node from `agent`. Its neighbours use the interfaces of `gates`.
    pub fn new(agent: BundleProtocolAgent, gates: Vec<ClaEndpoint>) -> BundleHost {
        let sessions = Sessions::new(&agent.eid().to_string(), gates);
        BundleHost {
            bpa: agent,
            sessions,
            store: Box::new(MemoryStore::default()),
            completions: Vec::new(),
            events: VecDeque::new(),
            rows: 0,
            actions: Vec::new(),
            is_due: true,
            received_files: None,
            shutdown_phase: ShutdownPhase::Running,
            unidentified: BTreeMap::new(),
        }
    }

    /// Replaces the store in memory.
    pub fn with_store(mut self, store: Box<dyn Store>) -> BundleHost {
        self.store = store;
        self
    }

    /// Waits until the store has completed its requests. The node submits none meanwhile.
    pub fn flush(&mut self) {
        self.store.flush();
    }

    /// Returns whether the store has failed, so that no further request becomes durable.
    pub fn has_store_failed(&self) -> bool {
        self.store.has_failed()
    }

    /// Takes the events since the last call with durable effects.
    pub fn take_events(&mut self) -> NodeEvents {
        let (_, settled) = self.store.batch_progress();
        let mut taken = NodeEvents::default();
        while let Some((_, mut events)) = self.events.pop_front_if(|(turn, _)| *turn <= settled) {
            self.rows -= events.rows();
            taken.records.append(&mut events.records);
            taken.routes.append(&mut events.routes);
            taken.reports.append(&mut events.reports);
        }
        taken
    }

    fn end_batch(&mut self, now: Time) {
        self.store.end_batch(now, &self.bpa);
        let events = NodeEvents {
            records: self.bpa.take_events(),
            routes: self.bpa.take_routes(),
            reports: self.bpa.take_reports(),
        };
        if events.rows() == 0 {
            return;
        }
        self.rows += events.rows();
        let (turn, settled) = self.store.batch_progress();
        self.events.push_back((turn, events));
        // Limits the rows that wait for a slow disk. The node processes no input during this wait.
        if self.rows > MAX_PENDING_ROWS && settled < turn {
            self.store.flush();
        }
    }

    /// Processes completions of the store. Returns whether there were any.
    fn poll_store(&mut self, now: Time) -> bool {
        self.store.poll_completions(now, &mut self.completions);
        let any = !self.completions.is_empty();
        for answer in self.completions.drain(..) {
            self.bpa.on_store_completion(now, answer);
        }
        any
    }

    /// Writes files from clients to `folder`.
    ///
    /// # Errors
    /// An error of the kernel: the folder cannot be created.
    pub fn set_files_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.received_files = Some(ReceivedFiles::new(folder)?);
        self.bpa.accept_files();
        Ok(())
    }

    /// Takes the rows about files since the last call.
    pub(super) fn take_file_rows(&mut self) -> Vec<Value> {
        self.received_files.as_mut().map(ReceivedFiles::take_rows).unwrap_or_default()
    }

    /// Terminates the sessions by the rules of their CLAs (RFC 9174 section 6.1): transfers in progress get their
    /// acknowledgement, no new one starts.
    pub fn shut_down(&mut self) {
        self.shutdown_phase = ShutdownPhase::Requested;
        self.is_due = true;
    }

    /// Returns the bundle protocol agent.
    pub fn bpa(&self) -> &BundleProtocolAgent {
        &self.bpa
    }

    /// Returns the bundle protocol agent for changes.
    pub fn bpa_mut(&mut self) -> &mut BundleProtocolAgent {
        &mut self.bpa
    }

    /// Returns the traffic of each interface.
    pub fn traffic(&self) -> &[InterfaceTraffic] {
        self.sessions.traffic()
    }

    /// Returns the number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Processes events of sessions and due work. Returns whether there were any.
    fn process_events(&mut self, now: Time) -> bool {
        let (accepted, events) = (self.sessions.take_accepted(), self.sessions.take_events());
        let any = self.poll_store(now) || !accepted.is_empty() || !events.is_empty();
        self.unidentified.extend(accepted.into_iter().map(|(end, session)| (session, end)));
        for (session, event) in events {
            self.on_peer_identified(now, session, &event);
            self.bpa.on_session_event(now, session, event);
        }
        if self.bpa.poll_at() <= now {
            self.bpa.poll(now);
        }
        self.write_files(now);
        any
    }
}

impl BundleHost {
    /// Lets a session from a peer replace an earlier one, but only once its CLA has identified the peer. An
    /// unidentified peer must not end a session.
    fn on_peer_identified(&mut self, now: Time, session: SessionId, event: &SessionEvent) {
        if let Some(end) = self.unidentified.remove(&session)
            && !matches!(event, SessionEvent::Closed { .. })
        {
            self.bpa.on_session_opened(now, end, session);
        }
    }

    fn write_files(&mut self, now: Time) {
        let Some(files) = &mut self.received_files else { return };
        for part in self.bpa.take_file_parts() {
            files.receive(now, &part);
        }
    }
}

impl transport::ConnectionManager for BundleHost {
    fn on_accept(&mut self, now: Time, handle: ConnectionKey) -> Box<dyn App> {
        self.is_due = true;
        self.sessions.on_accept(now, handle)
    }

    fn on_app_notification(&mut self, now: Time, handle: ConnectionKey, _notice: AppNotification) {
        self.is_due = true;
        self.sessions.on_app_event(now, handle);
    }

    fn on_close(&mut self, now: Time, handle: ConnectionKey, end: &CloseReason) {
        self.is_due = true;
        let why = match end {
            CloseReason::Lost(why) => Some(why.clone()),
            CloseReason::Local | CloseReason::Peer => None,
        };
        self.sessions.on_close(now, handle, why);
    }

    fn poll(&mut self, now: Time, lines: &mut dyn ConnectionControl) {
        self.is_due = false;
        if self.shutdown_phase == ShutdownPhase::Requested {
            self.shutdown_phase = ShutdownPhase::Terminating;
            self.sessions.terminate_all(now, lines);
        }
        self.bpa.dispatch_recovered(now);
        loop {
            let any = self.process_events(now);
            self.bpa.take_actions(&mut self.actions);
            if self.actions.is_empty() && !any {
                return self.end_batch(now);
            }
            for act in std::mem::take(&mut self.actions) {
                match act {
                    BpaAction::Store(request) => {
                        self.store.submit(now, request, &self.bpa);
                        self.poll_store(now);
                        self.write_files(now);
                    }
                    BpaAction::SendCommand(session, command) => {
                        self.sessions.send_command(now, session, command, lines)
                    }
                    BpaAction::OpenConnection(_)
                        if self.shutdown_phase == ShutdownPhase::Terminating => {}
                    BpaAction::OpenConnection(end) => {
                        let session = self.sessions.connect(now, end, lines);
                        self.bpa.on_session_opened(now, end, session);
                    }
                }
            }
        }
    }

    fn poll_at(&mut self) -> Time {
        if self.is_due || self.bpa.undispatched_count() > 0 {
            return Time::ZERO;
        }
        self.bpa.poll_at().min(self.store.poll_at())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bundle::wire::{Bundle, ClassOfService, Crc, Eid, Flags, NewBundleHeader};
    use bundle::{DeliveryMode, DtnSpec, StoreRequest};
    use serde_json::json;
    use units::Span;

    use super::*;

    /// A disk that makes requests durable only during a flush, and counts flushes.
    #[derive(Default)]
    struct Slow {
        turn: u64,
        settled: u64,
        flushes: Arc<AtomicU64>,
    }

    impl Store for Slow {
        fn submit(&mut self, _: Time, _: StoreRequest, _: &BundleProtocolAgent) {}
        fn end_batch(&mut self, _: Time, _: &BundleProtocolAgent) {
            self.turn += 1;
        }
        fn poll_completions(&mut self, _: Time, _: &mut Vec<StoreCompletion>) {}
        fn poll_at(&self) -> Time {
            Time::MAX
        }
        fn crash(&mut self) {}
        fn flush(&mut self) {
            self.flushes.fetch_add(1, Ordering::Relaxed);
            self.settled = self.turn;
        }
        fn batch_progress(&self) -> (u64, u64) {
            (self.turn, self.settled)
        }
    }

    #[test]
    fn a_node_waits_for_a_slow_disk_when_too_many_rows_are_pending() {
        let name = |name: &str| name.parse::<Eid>().unwrap();
        let spec: DtnSpec = serde_json::from_value(json!({
            "epoch_ms": 0, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
        }))
        .unwrap();
        let head = NewBundleHeader {
            source: name("ipn:1.3000"),
            destination: name("ipn:2.2000"),
            report_to: Eid::Null,
            created_ms: Some(0),
            sequence: 7,
            lifetime: Span::from_secs(60),
            flags: Flags::default(),
            hop_limit: None,
            crc: Crc::Crc32c,
            payload_crc: Crc::None,
            class: ClassOfService::default(),
        };
        let bundle = Bundle::new(&head, vec![]).unwrap().encode(&name("ipn:1.0"), Span::ZERO);
        let slow = Slow::default();
        let flushes = slow.flushes.clone();
        let agent = BundleProtocolAgent::new(&spec, "2", &[]).unwrap();
        let mut host = BundleHost::new(agent, vec![]).with_store(Box::new(slow));
        host.bpa.on_session_opened(Time::ZERO, 0, 1);
        // The same bundle repeatedly; each copy is received and deleted.
        let mut rows = 0;
        for id in 0..2 * MAX_PENDING_ROWS as u64 {
            let event =
                SessionEvent::Received { id, data: bundle.clone(), mode: DeliveryMode::Reliable };
            host.bpa.on_session_event(Time::ZERO, 1, event);
            host.bpa.take_actions(&mut Vec::new());
            host.end_batch(Time::ZERO);
            assert!(host.rows <= MAX_PENDING_ROWS + 2, "{}", host.rows);
            rows += host.take_events().records.len();
        }
        assert!(flushes.load(Ordering::Relaxed) >= 3, "four times as many rows have come");
        assert_eq!(rows + host.rows, 4 * MAX_PENDING_ROWS - 1, "the first is no copy");
    }
}
