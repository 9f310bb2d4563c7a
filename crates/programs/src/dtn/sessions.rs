//! CLA sessions on the connections of a host: maps sessions to connections, and passes commands and events.

use std::collections::{BTreeMap, BTreeSet};

use bundle::cla::{ClaSpec, ConnectionParameters};
use bundle::{Mailbox, Role, SessionApp, SessionCommand, SessionEvent, SessionId};
use transport::{App, AppCommand, ConnectionControl, ConnectionKey};
use units::Time;

/// A CLA interface of a bundle node.
#[derive(Clone, Debug)]
pub struct ClaEndpoint {
    /// The convergence-layer adapter of its sessions.
    pub cla: ClaSpec,
    /// The peer as ADDRESS:PORT, `None` if no connection is opened.
    pub peer: Option<String>,
    /// The accepted peers, and the use of TLS.
    pub parameters: ConnectionParameters,
}

/// The traffic of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceTraffic {
    /// Connections opened.
    pub opened: u64,
    /// Connections closed.
    pub closed: u64,
    /// Closed connections that were lost or refused.
    pub lost: u64,
    /// The reason of the last loss.
    pub last_error: Option<String>,
    /// The time of the first connection.
    pub first_opened: Option<Time>,
    /// The time when the first peer was identified.
    pub first_established: Option<Time>,
    /// Bytes of bundles passed to sessions.
    pub written_bytes: u64,
    /// Bytes of complete received bundles.
    pub received_bytes: u64,
    /// The time of the first bundle passed to a session.
    pub first_written: Option<Time>,
    /// The time of the first complete received bundle.
    pub first_received: Option<Time>,
    /// The time of the last complete received bundle.
    pub last_received: Option<Time>,
}

/// The sessions of a node.
pub struct Sessions {
    /// The node id.
    node: String,
    endpoints: Vec<ClaEndpoint>,
    traffic: Vec<InterfaceTraffic>,
    live: BTreeMap<SessionId, (ConnectionKey, Mailbox)>,
    numbers: BTreeMap<ConnectionKey, SessionId>,
    next: SessionId,
    /// Closed sessions with a connection that is still open.
    closed: BTreeSet<SessionId>,
    /// Sessions that have carried a bundle, and sessions that failed before one.
    carried: BTreeSet<SessionId>,
    failed_early: BTreeSet<SessionId>,
    accepted: Vec<(usize, SessionId)>,
    events: Vec<(SessionId, SessionEvent)>,
    scratch: Vec<SessionEvent>,
}

impl Sessions {
    /// Creates the sessions of the node `node`, with one CLA endpoint per interface of its host.
    pub fn new(node: &str, gates: Vec<ClaEndpoint>) -> Sessions {
        Sessions {
            node: node.to_owned(),
            traffic: vec![InterfaceTraffic::default(); gates.len()],
            endpoints: gates,
            live: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next: 0,
            closed: BTreeSet::new(),
            carried: BTreeSet::new(),
            failed_early: BTreeSet::new(),
            accepted: Vec::new(),
            events: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// Returns the traffic of each interface.
    pub fn traffic(&self) -> &[InterfaceTraffic] {
        &self.traffic
    }

    fn register(&mut self, now: Time, handle: ConnectionKey, mailbox: Mailbox) -> SessionId {
        let traffic = &mut self.traffic[handle.interface];
        traffic.opened += 1;
        traffic.first_opened.get_or_insert(now);
        let number = self.next;
        self.next += 1;
        self.live.insert(number, (handle, mailbox));
        self.numbers.insert(handle, number);
        number
    }

    /// Handles a new connection of a peer ([`transport::ConnectionManager::on_accept`]).
    pub fn on_accept(&mut self, now: Time, handle: ConnectionKey) -> Box<dyn App> {
        let gate = &self.endpoints[handle.interface];
        let session =
            gate.cla.build_session_with(Role::Passive, &self.node, gate.parameters.clone());
        let mailbox = Mailbox::default();
        let number = self.register(now, handle, mailbox.clone());
        self.accepted.push((handle.interface, number));
        Box::new(SessionApp::new(session, mailbox))
    }

    /// Opens a connection to the peer of an interface. If this fails, the session closes immediately.
    pub fn connect(
        &mut self,
        now: Time,
        end: usize,
        lines: &mut dyn ConnectionControl,
    ) -> SessionId {
        let gate = &self.endpoints[end];
        let mailbox = Mailbox::default();
        let session =
            gate.cla.build_session_with(Role::Active, &self.node, gate.parameters.clone());
        let app = Box::new(SessionApp::new(session, mailbox.clone()));
        let dialled = match &gate.peer {
            Some(peer) => lines.connect(end, peer, app),
            None => Err("no peer address is configured".to_owned()),
        };
        match dialled {
            Ok(handle) => self.register(now, handle, mailbox),
            Err(why) => {
                let number = self.next;
                self.next += 1;
                self.events.push((number, SessionEvent::Closed { error: Some(why) }));
                number
            }
        }
    }

    /// Sends a command to a session, unless it is closed.
    pub fn send_command(
        &mut self,
        now: Time,
        session: SessionId,
        command: SessionCommand,
        lines: &mut dyn ConnectionControl,
    ) {
        if let Some((handle, mailbox)) = self.live.get(&session) {
            if let SessionCommand::Send(transfer) = &command {
                let traffic = &mut self.traffic[handle.interface];
                traffic.written_bytes += transfer.bytes();
                traffic.first_written.get_or_insert(now);
            }
            mailbox.send_command(command);
            lines.send_command(*handle, AppCommand::CheckMailbox);
        }
    }

    /// Terminates all sessions.
    pub fn terminate_all(&mut self, now: Time, lines: &mut dyn ConnectionControl) {
        let all: Vec<SessionId> = self.live.keys().copied().collect();
        for session in all {
            self.send_command(now, session, SessionCommand::Terminate, lines);
        }
    }

    /// Handles events of a session ([`transport::ConnectionManager::on_app_notification`]).
    pub fn on_app_event(&mut self, now: Time, handle: ConnectionKey) {
        let Some(number) = self.numbers.get(&handle) else { return };
        let Some((_, mailbox)) = self.live.get(number) else { return };
        mailbox.take_events(&mut self.scratch);
        let traffic = &mut self.traffic[handle.interface];
        for event in &self.scratch {
            match event {
                SessionEvent::Established { .. } => {
                    traffic.first_established.get_or_insert(now);
                }
                SessionEvent::Acknowledged { .. } => {
                    self.carried.insert(*number);
                }
                SessionEvent::Received { data, .. } => {
                    self.carried.insert(*number);
                    traffic.received_bytes +=
                        data.iter().map(|part| part.len() as u64).sum::<u64>();
                    traffic.first_received.get_or_insert(now);
                    traffic.last_received = Some(now);
                }
                SessionEvent::Closed { error } => {
                    self.closed.insert(*number);
                    if error.is_some() && !self.carried.contains(number) {
                        self.failed_early.insert(*number);
                    }
                    traffic.last_error = error.clone().or(traffic.last_error.take());
                }
                _ => {}
            }
        }
        self.events.extend(self.scratch.drain(..).map(|event| (*number, event)));
    }

    /// Handles the close of a connection ([`transport::ConnectionManager::on_close`]), which closes its session.
    pub fn on_close(&mut self, now: Time, handle: ConnectionKey, why: Option<String>) {
        self.on_app_event(now, handle);
        let Some(number) = self.numbers.remove(&handle) else { return };
        let traffic = &mut self.traffic[handle.interface];
        traffic.closed += 1;
        let barred = self.failed_early.remove(&number);
        self.carried.remove(&number);
        traffic.lost += u64::from(why.is_some() || barred);
        traffic.last_error = why.clone().or(traffic.last_error.take());
        self.live.remove(&number);
        if !self.closed.remove(&number) {
            self.events.push((number, SessionEvent::Closed { error: why }));
        }
    }

    /// Takes the sessions that peers have opened since the last call, with their interfaces.
    pub fn take_accepted(&mut self) -> Vec<(usize, SessionId)> {
        std::mem::take(&mut self.accepted)
    }

    /// Takes the events of sessions since the last call, in their sequence.
    pub fn take_events(&mut self) -> Vec<(SessionId, SessionEvent)> {
        std::mem::take(&mut self.events)
    }
}
