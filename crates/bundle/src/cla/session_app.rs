//! A CLA session as an application of a connection. Node and session share a mailbox of commands and events, because
//! transports pass on numbers only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transport::perf_load::StreamReport;
use transport::{App, AppCommand, AppEvent, AppNotification, Streams};
use units::Time;

use crate::{Session, SessionCommand, SessionEvent};

#[derive(Default)]
struct MailboxState {
    commands: Vec<SessionCommand>,
    events: Vec<SessionEvent>,
}

/// The queues of commands and events between a node and one session.
#[derive(Clone, Default)]
pub struct Mailbox(Arc<Mutex<MailboxState>>);

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        // A panic can only occur between two entries, so the queues are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command. The session handles it after the next [`AppCommand::CheckMailbox`] on its connection.
    pub fn send_command(&self, command: SessionCommand) {
        self.lock().commands.push(command);
    }

    /// Appends the events of the session since the last call.
    pub fn take_events(&self, into: &mut Vec<SessionEvent>) {
        into.append(&mut self.lock().events);
    }

    fn take_commands(&self, into: &mut Vec<SessionCommand>) {
        into.append(&mut self.lock().commands);
    }
}

/// A CLA session on a connection.
pub struct SessionApp {
    session: Box<dyn Session>,
    mailbox: Mailbox,
    /// The mailbox can hold commands that the session has not handled.
    has_commands: bool,
    commands: Vec<SessionCommand>,
    events: Vec<SessionEvent>,
    /// The bytes of bundles in both directions, reported as one stream.
    reports: Vec<StreamReport>,
}

impl SessionApp {
    /// Builds the application of `session`. The node sends [`AppCommand::CheckMailbox`] after each command.
    pub fn new(session: Box<dyn Session>, mailbox: Mailbox) -> SessionApp {
        SessionApp {
            session,
            mailbox,
            has_commands: false,
            commands: Vec::new(),
            events: Vec::new(),
            reports: Vec::new(),
        }
    }
}

impl SessionApp {
    fn stream_report(&mut self, now: Time) -> &mut StreamReport {
        if self.reports.is_empty() {
            self.reports.push(StreamReport {
                id: 0,
                label: 0,
                mode: "data",
                opened: now,
                received: 0,
                received_in_order: 0,
                written: 0,
                fin: None,
                first_byte: None,
                last_byte: None,
                finished: None,
            });
        }
        &mut self.reports[0]
    }
}

impl App for SessionApp {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        // The wake-up can be for commands alone.
        if event != AppEvent::Timer || self.session.poll_at() <= now {
            self.session.on_event(now, event, streams, &mut self.events);
        }
        if std::mem::take(&mut self.has_commands) {
            self.mailbox.take_commands(&mut self.commands);
            for command in std::mem::take(&mut self.commands) {
                if let SessionCommand::Send(transfer) = &command {
                    let bytes = transfer.bytes();
                    self.stream_report(now).written += bytes;
                }
                self.session.on_command(now, command, streams, &mut self.events);
            }
        }
        let arrived = self.events.iter().map(|session_event| match session_event {
            SessionEvent::Received { data, .. } => data.iter().map(|part| part.len() as u64).sum(),
            _ => 0,
        });
        let arrived: u64 = arrived.sum();
        if arrived > 0 {
            let report = self.stream_report(now);
            report.received += arrived;
            report.received_in_order += arrived;
            report.first_byte.get_or_insert(now);
            report.last_byte = Some(now);
        }
        if !self.events.is_empty() {
            self.mailbox.lock().events.append(&mut self.events);
            streams.notify(AppNotification::CheckMailbox);
        }
    }

    fn on_command(&mut self, order: AppCommand) {
        self.has_commands |= order == AppCommand::CheckMailbox;
    }

    fn poll_at(&self) -> Time {
        if self.has_commands { Time::ZERO } else { self.session.poll_at() }
    }

    fn has_data(&self) -> bool {
        self.session.has_data()
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.reports
    }
}
