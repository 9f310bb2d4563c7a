//! A bundle node in the event loop: an agent and a transport endpoint for each interface. Connections of the endpoints
//! carry sessions. The store is in memory ([`MemoryStore`]).

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cc::CongestionControl;
use transport::perf_load::StreamReport;
use transport::tls::StartTlsApp;
use transport::{
    App, AppBuilder, AppCommand, AppNotification, Endpoint, FlowCounters, FlowEvent, Node, Payload,
    Probe, SenderGauges, TimerSource, quic::QuicEndpoint,
};
use units::{Span, Time};

use super::{BpaAction, BundleProtocolAgent, SessionId};
use crate::cla::{ClaSpec, RememberedParameters, TlsPolicy};
use crate::{
    BundleNodeSpec, Mailbox, MemoryStore, NodeOutageSpec, Role, Session, SessionApp, SessionEvent,
    Store, StoreCompletion,
};

/// Sessions of accepted connections that the node has not registered yet, by connection number.
#[derive(Clone, Default)]
pub struct IncomingSessions(Arc<IncomingQueue>);

#[derive(Default)]
struct IncomingQueue {
    /// Whether the queue has entries; the node checks it for each packet.
    has_sessions: AtomicBool,
    sessions: Mutex<Vec<(u32, Mailbox)>>,
}

/// Builds the application of a session. Virtual time has no real TLS, so STARTTLS is modelled.
fn build_app(
    cla: &ClaSpec,
    role: Role,
    session: Box<dyn Session>,
    mailbox: Mailbox,
) -> Box<dyn App> {
    let carrier = Box::new(SessionApp::new(session, mailbox));
    match cla.tls_policy() {
        TlsPolicy::No => carrier,
        TlsPolicy::Allow | TlsPolicy::Require => {
            Box::new(StartTlsApp::new(carrier, role == Role::Active))
        }
    }
}

impl IncomingSessions {
    /// Returns the builder of sessions for connections that peers open.
    pub fn app_builder(&self, cla: &ClaSpec, local_eid: &str) -> AppBuilder {
        let (incoming, cla, local_eid) = (self.clone(), cla.clone(), local_eid.to_owned());
        Box::new(move |number| {
            let mailbox = Mailbox::default();
            incoming.0.sessions().push((number, mailbox.clone()));
            incoming.0.has_sessions.store(true, Ordering::Release);
            build_app(&cla, Role::Passive, cla.build_session(Role::Passive, &local_eid), mailbox)
        })
    }

    fn take(&self) -> Vec<(u32, Mailbox)> {
        if !self.0.has_sessions.load(Ordering::Relaxed)
            || !self.0.has_sessions.swap(false, Ordering::Acquire)
        {
            return Vec::new();
        }
        std::mem::take(&mut self.0.sessions())
    }
}

impl IncomingQueue {
    fn sessions(&self) -> MutexGuard<'_, Vec<(u32, Mailbox)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An interface of a bundle node.
pub struct ClaInterface {
    /// The transport endpoint, a client or a server.
    pub endpoint: Box<dyn Endpoint>,
    /// The CLA of the sessions.
    pub cla: ClaSpec,
    /// The sessions of accepted connections.
    pub incoming: IncomingSessions,
    /// The remembered parameters of the peer for session resumption. `None` disables resumption.
    pub remembered: Option<RememberedParameters>,
}

struct OpenSession {
    interface: usize,
    connection: u32,
    mailbox: Mailbox,
}

/// An agent with its deadline, cached because its computation visits all neighbours.
struct CachedBpa {
    bpa: BundleProtocolAgent,
    /// `None` after a possible change of the agent.
    poll_at: Option<Time>,
}

impl CachedBpa {
    fn get_mut(&mut self) -> &mut BundleProtocolAgent {
        self.poll_at = None;
        &mut self.bpa
    }

    fn poll_at(&mut self) -> Time {
        *self.poll_at.get_or_insert_with(|| self.bpa.poll_at())
    }
}

impl Deref for CachedBpa {
    type Target = BundleProtocolAgent;

    fn deref(&self) -> &BundleProtocolAgent {
        &self.bpa
    }
}

/// A bundle node.
pub struct BundleNode {
    bpa: CachedBpa,
    interfaces: Vec<ClaInterface>,
    /// The interfaces with unprocessed activity.
    has_activity: Vec<bool>,
    /// The sessions; the index is the session number.
    sessions: Vec<OpenSession>,
    notifications: Vec<(u32, AppNotification)>,
    session_events: Vec<SessionEvent>,
    actions: Vec<BpaAction>,
    store: MemoryStore,
    completions: Vec<StoreCompletion>,
    /// The failures, sorted by time.
    failures: VecDeque<NodeOutageSpec>,
    /// The end of the current failure.
    failed_until: Option<Time>,
}

impl BundleNode {
    /// Builds a node. The interface numbers of the neighbour configurations index `interfaces`.
    pub fn new(bpa: BundleProtocolAgent, interfaces: Vec<ClaInterface>) -> BundleNode {
        BundleNode {
            bpa: CachedBpa { bpa, poll_at: None },
            has_activity: vec![false; interfaces.len()],
            interfaces,
            sessions: Vec::new(),
            notifications: Vec::new(),
            session_events: Vec::new(),
            actions: Vec::new(),
            store: MemoryStore::default(),
            completions: Vec::new(),
            failures: VecDeque::new(),
            failed_until: None,
        }
    }

    /// Adds the store delay and the failures of `spec`.
    pub fn with_spec(mut self, spec: &BundleNodeSpec) -> BundleNode {
        self.store = MemoryStore::new(Span(spec.store_delay_ns));
        self.failures = spec.outages.iter().copied().collect();
        self
    }

    /// Applies due failures and restarts. Returns whether the node is down.
    fn apply_failures(&mut self, now: Time) -> bool {
        loop {
            if let Some(until) = self.failed_until {
                if now < until {
                    return true;
                }
                self.failed_until = None;
                self.bpa.get_mut().restart(now);
            }
            let Some(stop) = self.failures.pop_front_if(|stop| Time(stop.at_ns) <= now) else {
                return false;
            };
            for interface in &mut self.interfaces {
                interface.endpoint.crash(now);
                interface.incoming.take();
            }
            self.store.crash();
            self.bpa.get_mut().crash(now, stop.keeps_store);
            self.failed_until = Some(stop.until_ns.map_or(Time::MAX, Time));
        }
    }

    /// Returns the agent.
    pub fn bpa(&self) -> &BundleProtocolAgent {
        &self.bpa
    }

    /// Runs agent and sessions until neither has work for the other.
    fn run_until_idle(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        loop {
            let mut idle = true;
            for interface in 0..self.interfaces.len() {
                if std::mem::take(&mut self.has_activity[interface]) {
                    idle &= !self.process_session_events(now, interface);
                }
            }
            self.process_completions(now);
            if self.bpa.poll_at() <= now {
                self.bpa.get_mut().poll(now);
            }
            if !self.bpa.has_actions() {
                if idle {
                    return;
                }
                continue;
            }
            self.bpa.get_mut().take_actions(&mut self.actions);
            let mut actions = std::mem::take(&mut self.actions);
            let mut woken = vec![false; self.interfaces.len()];
            for action in actions.drain(..) {
                match action {
                    BpaAction::Store(request) => {
                        self.store.submit(now, request, &self.bpa);
                        self.process_completions(now);
                    }
                    BpaAction::OpenConnection(interface) => {
                        self.open_connection(now, interface, out)
                    }
                    BpaAction::SendCommand(session, command) => {
                        let Some(entry) = self.sessions.get(session as usize) else { continue };
                        entry.mailbox.send_command(command);
                        self.interfaces[entry.interface]
                            .endpoint
                            .send_command(entry.connection, AppCommand::CheckMailbox);
                        (woken[entry.interface], self.has_activity[entry.interface]) = (true, true);
                    }
                }
            }
            self.actions = actions;
            for (interface, _) in woken.iter().enumerate().filter(|(_, woken)| **woken) {
                self.interfaces[interface].endpoint.poll(now, &mut out[interface]);
            }
        }
    }

    /// Passes completions of the store to the agent.
    fn process_completions(&mut self, now: Time) {
        self.store.poll_completions(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.bpa.get_mut().on_store_completion(now, completion);
        }
    }

    /// Passes session events of an interface to the agent. Returns whether the interface had notifications.
    fn process_session_events(&mut self, now: Time, interface: usize) -> bool {
        let one = &mut self.interfaces[interface];
        one.endpoint.take_notifications(&mut self.notifications);
        for (connection, mailbox) in one.incoming.take() {
            let session = self.sessions.len() as SessionId;
            self.sessions.push(OpenSession { interface, connection, mailbox });
            self.bpa.get_mut().on_session_opened(now, interface, session);
        }
        if self.notifications.is_empty() {
            return false;
        }
        let mut last = None;
        for (connection, _) in std::mem::take(&mut self.notifications) {
            if last.replace(connection) == Some(connection) {
                continue;
            }
            let is = |entry: &OpenSession| {
                entry.interface == interface && entry.connection == connection
            };
            let Some(session) = self.sessions.iter().rposition(is) else { continue };
            self.sessions[session].mailbox.take_events(&mut self.session_events);
            for event in self.session_events.drain(..) {
                self.bpa.get_mut().on_session_event(now, session as SessionId, event);
            }
        }
        true
    }

    fn open_connection(&mut self, now: Time, interface: usize, out: &mut [Vec<Payload>]) {
        self.has_activity[interface] = true;
        let one = &mut self.interfaces[interface];
        let mailbox = Mailbox::default();
        let local_eid = self.bpa.eid().to_string();
        let session = match &one.remembered {
            Some(remembered) => {
                one.cla.build_session_with_early_data(Role::Active, &local_eid, remembered)
            }
            None => one.cla.build_session(Role::Active, &local_eid),
        };
        let app = build_app(&one.cla, Role::Active, session, mailbox.clone());
        let connection = one.endpoint.opened();
        let number = self.sessions.len() as SessionId;
        self.sessions.push(OpenSession { interface, connection, mailbox });
        // The endpoint builder has already checked the specification.
        let connected = one.endpoint.connect(now, Some(app), &mut out[interface]);
        debug_assert!(connected.is_ok(), "{connected:?}");
        self.bpa.get_mut().on_session_opened(now, interface, number);
    }
}

impl Node for BundleNode {
    fn receive(&mut self, now: Time, interface: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        if self.apply_failures(now) {
            return;
        }
        self.interfaces[interface].endpoint.receive(now, payload, &mut out[interface]);
        self.has_activity[interface] = true;
        self.run_until_idle(now, out);
    }

    fn poll(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if self.apply_failures(now) {
            return;
        }
        for (index, (interface, out)) in self.interfaces.iter_mut().zip(out.iter_mut()).enumerate()
        {
            if interface.endpoint.poll_at() <= now {
                interface.endpoint.poll(now, out);
                self.has_activity[index] = true;
            }
        }
        self.run_until_idle(now, out);
    }

    fn poll_at(&mut self) -> Time {
        if let Some(until) = self.failed_until {
            return until;
        }
        let interfaces_at =
            self.interfaces.iter_mut().map(|interface| interface.endpoint.poll_at()).min();
        let failures_at = self.failures.front().map_or(Time::MAX, |stop| Time(stop.at_ns));
        let store_at = self.store.poll_at();
        interfaces_at.unwrap_or(Time::MAX).min(self.bpa.poll_at()).min(failures_at).min(store_at)
    }

    fn poll_source(&mut self) -> (TimerSource, usize) {
        let bpa_at = ((self.bpa.poll_at(), TimerSource::Application), 0);
        let interfaces = self.interfaces.iter_mut().enumerate();
        let first = interfaces
            .map(|(index, interface)| (interface.endpoint.poll_source(), index))
            .chain([bpa_at])
            .min();
        first.map_or((TimerSource::Application, 0), |((_, asker), interface)| (asker, interface))
    }
}

impl Probe for BundleNode {
    fn opened(&self, interface: usize) -> u32 {
        self.interfaces[interface].endpoint.opened()
    }

    fn completed(&self, interface: usize) -> u32 {
        self.interfaces[interface].endpoint.completed()
    }

    fn connected_at(&self, interface: usize) -> Option<Time> {
        self.interfaces[interface].endpoint.connected_at()
    }

    fn ended_at(&self, interface: usize) -> Option<Time> {
        self.interfaces[interface].endpoint.ended_at()
    }

    fn counters(&self, interface: usize) -> FlowCounters {
        self.interfaces[interface].endpoint.counters()
    }

    fn gauges(&self, interface: usize) -> SenderGauges {
        self.interfaces[interface].endpoint.gauges()
    }

    fn controller(&self, interface: usize) -> Option<&dyn CongestionControl> {
        self.interfaces[interface].endpoint.controller()
    }

    fn take_events(&mut self, interface: usize) -> Vec<FlowEvent> {
        self.interfaces[interface].endpoint.take_events()
    }

    fn stream_reports(&self, interface: usize) -> Vec<(u32, StreamReport)> {
        self.interfaces[interface].endpoint.stream_reports()
    }

    fn quic(&self, interface: usize) -> Option<&QuicEndpoint> {
        self.interfaces[interface].endpoint.quic()
    }
}
