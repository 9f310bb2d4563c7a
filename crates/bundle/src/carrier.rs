//! A session as an application of a connection: what a node and a session tell each other lies in a mailbox that both
//! have, since transports hand on numbers only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transport::load::StreamReport;
use transport::{App, AppEvent, Notice, Order, Streams};
use units::Time;

use crate::{Said, Session, Told};

#[derive(Default)]
struct Letters {
    told: Vec<Told>,
    said: Vec<Said>,
}

/// What a node and one session tell each other.
#[derive(Clone, Default)]
pub struct Mailbox(Arc<Mutex<Letters>>);

impl Mailbox {
    fn open(&self) -> MutexGuard<'_, Letters> {
        // Whoever panicked did so between two letters.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the session something, which hears it after the next [`Order::Attend`] on its connection.
    pub fn tell(&self, told: Told) {
        self.open().told.push(told);
    }

    /// Appends what the session has said since the last call.
    pub fn take_said(&self, into: &mut Vec<Said>) {
        into.append(&mut self.open().said);
    }

    fn take_told(&self, into: &mut Vec<Told>) {
        into.append(&mut self.open().told);
    }
}

/// A session on a connection.
pub struct Carrier {
    session: Box<dyn Session>,
    mailbox: Mailbox,
    /// There are letters that the session has not heard.
    attending: bool,
    told: Vec<Told>,
    said: Vec<Said>,
    /// Bundles both ways, as one stream of their bytes.
    reports: Vec<StreamReport>,
}

impl Carrier {
    /// `session`, whose node has `mailbox` too and says [`Order::Attend`] when it has told something.
    pub fn new(session: Box<dyn Session>, mailbox: Mailbox) -> Carrier {
        Carrier {
            session,
            mailbox,
            attending: false,
            told: Vec::new(),
            said: Vec::new(),
            reports: Vec::new(),
        }
    }
}

impl Carrier {
    fn report(&mut self, now: Time) -> &mut StreamReport {
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

impl App for Carrier {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        // A wake-up may be for the letters alone.
        if event != AppEvent::Timer || self.session.wake_at() <= now {
            self.session.on(now, event, streams, &mut self.said);
        }
        if std::mem::take(&mut self.attending) {
            self.mailbox.take_told(&mut self.told);
            for told in std::mem::take(&mut self.told) {
                if let Told::Send(transfer) = &told {
                    let bytes = transfer.bytes();
                    self.report(now).written += bytes;
                }
                self.session.hear(now, told, streams, &mut self.said);
            }
        }
        let arrived = self.said.iter().map(|said| match said {
            Said::Received { data, .. } => data.iter().map(|part| part.len() as u64).sum(),
            _ => 0,
        });
        let arrived: u64 = arrived.sum();
        if arrived > 0 {
            let report = self.report(now);
            report.received += arrived;
            report.received_in_order += arrived;
            report.first_byte.get_or_insert(now);
            report.last_byte = Some(now);
        }
        if !self.said.is_empty() {
            self.mailbox.open().said.append(&mut self.said);
            streams.say(Notice::Attend);
        }
    }

    fn hear(&mut self, order: Order) {
        self.attending |= order == Order::Attend;
    }

    fn wake_at(&self) -> Time {
        if self.attending { Time::ZERO } else { self.session.wake_at() }
    }

    fn has_data(&self) -> bool {
        self.session.has_data()
    }

    fn streams(&self) -> &[StreamReport] {
        &self.reports
    }
}
