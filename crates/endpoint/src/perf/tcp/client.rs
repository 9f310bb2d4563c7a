//! The measuring client over TCP: a connection for each stream of the load.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::EpollFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use transport::StreamSpec;
use transport::load::{AmountSpec, PerfClient, Question, StreamReport};
use transport::quic::End;
use units::{Span, Time, TimerQueue};

use super::Options;
use super::connection::{Connection, TLS_RECORD};
use crate::Clock;
use crate::driver::sleep;
use crate::perf::client::{refused, resolve, trust, trusted};
use crate::perf::frames::Frames;
use crate::perf::report::{Part, View};
use crate::perf::summary::{Closing, cpu_seconds};
use crate::perf::{ClientPlan, Failure, Reporter, Sender, Summary, Transport};
use crate::tcp_info::Kernel;
use crate::tls::{self, Fingerprint, Shown};
use crate::watch::Watch;
use crate::wire::Wire;

/// How often a wish to stop is looked for.
const LOOK: Span = Span(10_000_000);

/// Reads of a connection go into a buffer of this length, bytes.
const BUFFER: usize = 256 << 10;

/// A connection, and what it is watched for.
struct Slot {
    connection: Connection,
    watched: Option<EpollFlags>,
    /// Its beginning has been told.
    told: bool,
    /// Its end has.
    over: bool,
}

/// A client, ready to connect.
pub struct Client {
    plan: ClientPlan,
    remote: SocketAddr,
    options: Options,
    question: Option<Question>,
    kernel: Kernel,
    tls: Option<Arc<ClientConfig>>,
    shown: Shown,
    pinned: Option<Fingerprint>,
    clock: Clock,
    watch: Watch,
    /// By place in the load; none: its turn has not come.
    slots: Vec<Option<Slot>>,
    wakes: TimerQueue,
    /// Those that have worked since they were last looked at.
    worked: BTreeSet<usize>,
    /// How many are over.
    over: usize,
    /// Places whose turn has come, and those that wait for the end of a stream.
    next: Vec<usize>,
    waiting: BTreeMap<u64, Vec<usize>>,
    scratch: Vec<u8>,
}

impl Client {
    /// Finds the server's address and tries the options.
    ///
    /// # Errors
    /// What is wrong with the plan, in words.
    pub fn start(plan: ClientPlan) -> Result<Client, Failure> {
        let options = Options::new(&plan.tcp, &plan.congestion)?;
        let question = plan.question(options.congestion())?;
        let kernel = Kernel::running().map_err(Failure::Input)?;
        for stream in &plan.load {
            check_size(stream)?;
        }
        let remote = resolve(&plan.host, plan.port)?;
        let (mut config, mut shown, mut pinned) = (None, Shown::default(), None);
        if plan.transport == Transport::Tls {
            let (trust, wanted) = trust(&plan, remote)?;
            let (made, certificate) = tls::client(&plan.alpn, trust).map_err(Failure::Input)?;
            (config, shown, pinned) = (Some(Arc::new(made)), certificate, wanted);
        }
        let slots = plan.load.iter().map(|_| None).collect();
        let (mut next, mut waiting) = (Vec::new(), BTreeMap::<u64, Vec<usize>>::new());
        for (place, stream) in plan.load.iter().enumerate() {
            match stream.after {
                None => next.push(place),
                Some(id) => waiting.entry(id).or_default().push(place),
            }
        }
        Ok(Client {
            plan,
            remote,
            options,
            question,
            kernel,
            tls: config,
            shown,
            pinned,
            clock: Clock::start(),
            watch: Watch::new()?,
            slots,
            wakes: TimerQueue::default(),
            worked: BTreeSet::new(),
            over: 0,
            next,
            waiting,
            scratch: vec![0; BUFFER],
        })
    }

    /// Runs the load; whether it was stopped before its end.
    ///
    /// # Errors
    /// Why there is no result, or only part of one.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, Failure> {
        let mut reporter = Reporter::new(&self.plan.report, screen, false)?;
        let mut frames = Frames::new(self.plan.report.frames.as_ref(), self.clock)?;
        let cpu = cpu_seconds();
        let began = self.clock.now();
        let (name, kernel) = (&self.plan.congestion.name, Some(self.options.congestion()));
        frames.begin(began, "client", self.plan.transport.name(), name, kernel)?;
        let done = self.measure(began, stop, &mut reporter, &mut frames, cpu);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        frames.end(&end, cpu_seconds() - cpu);
        if frames.is_cut() || reporter.is_cut() { done.and(Err(Failure::Cut)) } else { done }
    }

    fn measure(
        &mut self,
        began: Time,
        stop: &AtomicBool,
        reporter: &mut Reporter,
        frames: &mut Frames,
        cpu: f64,
    ) -> Result<bool, Failure> {
        self.open_due(began)?;
        let mut greeted = false;
        let (lost, stopped) = loop {
            let now = self.clock.now();
            let worked = std::mem::take(&mut self.worked);
            self.begun(&worked, now, began, &mut greeted, reporter, frames)?;
            if greeted && reporter.is_due(now) {
                self.sample();
                reporter.tick(now, &[self.view(began)])?;
            }
            if frames.is_due(now) {
                self.sample();
                for (number, slot) in self.live() {
                    let connection = &slot.connection;
                    if connection.connected_at().is_some() {
                        frames.sample(now, number, &connection.last(), connection.streams());
                    }
                }
                frames.flush();
            }
            if let Some(lost) = self.ended(&worked, now, frames)? {
                break (Some(lost), false);
            }
            if self.over == self.slots.len() {
                break (None, false);
            }
            if stop.load(Ordering::Relaxed) {
                break (None, true);
            }
            self.patience(&worked, now)?;
            let mut until = frames.wake_at().min(now + LOOK).min(self.wakes.earliest().0);
            if greeted {
                until = until.min(reporter.wake_at());
            }
            self.turn(until)?;
        };
        let now = self.clock.now();
        if !greeted && !stopped {
            let why = lost.unwrap_or_else(|| "closed at once".to_owned());
            return Err(self.refused(&why));
        }
        for place in 0..self.slots.len() {
            if let Some(slot) = &mut self.slots[place]
                && !slot.over
            {
                slot.connection.abort(now);
                if !slot.told {
                    continue;
                }
                let connection = &slot.connection;
                let (sender, streams) = (connection.last(), connection.streams());
                frames.end_connection(
                    now,
                    place as u32,
                    None,
                    &sender,
                    streams,
                    connection.names(),
                );
            }
        }
        let mut refused = self.slots.iter().flatten().filter_map(|slot| slot.connection.refused());
        if let Some(answer) = refused.next() {
            return Err(self.plan.refused(answer));
        }
        self.result(now, began, lost.as_deref(), stopped, reporter, cpu)?;
        match lost {
            Some(why) => Err(Failure::Run(self.words(&why))),
            None => Ok(stopped),
        }
    }

    fn result(
        &self,
        now: Time,
        began: Time,
        lost: Option<&str>,
        stopped: bool,
        reporter: &mut Reporter,
        cpu: f64,
    ) -> Result<(), Failure> {
        let view = self.view(began);
        reporter.end(now, &view)?;
        let first = self.slots.iter().flatten().find_map(|slot| slot.connection.connected_at());
        let end = lost.map_or(End::Here, |why| End::Lost(why.to_owned()));
        let streams: Vec<&StreamReport> = view.parts.iter().flat_map(|part| part.streams).collect();
        let alpn = self.slots.iter().flatten().find_map(|slot| slot.connection.alpn());
        let closing = Closing {
            role: "client",
            peer: self.remote.to_string(),
            end: (!stopped).then_some(&end),
            transport: self.plan.transport.name(),
            connections: self.slots.iter().flatten().count(),
            alpn: alpn.as_deref().unwrap_or_default(),
            names: view.names(),
            mtu: self.slots.iter().flatten().map(|slot| slot.connection.mss()).max().unwrap_or(0),
            handshake: first.map(|at| at.since(began)),
            sender: Sender::all(view.parts.iter().map(|part| &part.sender)),
            streams,
            cpu: cpu_seconds() - cpu,
        };
        let summary = Summary::new(now, &closing);
        reporter.say(&summary.to_string())?;
        if let Some(text) = self.plan.unheard(summary.down_bytes, view.names().peer.is_some()) {
            reporter.say(&text)?;
        }
        if reporter.is_json() {
            reporter.json(&serde_json::to_string_pretty(&summary).map_err(io::Error::from)?)?;
        }
        Ok(())
    }

    fn live(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let numbered = self.slots.iter().enumerate();
        let opened = numbered.filter_map(|(place, slot)| Some((place as u32, slot.as_ref()?)));
        opened.filter(|(_, slot)| !slot.over)
    }

    fn sample(&mut self) {
        for slot in self.slots.iter_mut().flatten().filter(|slot| !slot.over) {
            slot.connection.sample();
        }
    }

    fn view(&self, began: Time) -> View<'_> {
        let slots = self.slots.iter().flatten();
        let part = |slot: &'_ Slot| slot.connection.last();
        let parts = slots.map(|slot| Part {
            streams: slot.connection.streams(),
            sender: part(slot),
            names: slot.connection.names(),
        });
        View { connection: 0, parts: parts.collect(), began }
    }

    /// Opens the connections of streams whose turn has come.
    fn open_due(&mut self, now: Time) -> Result<(), Failure> {
        self.next.sort_unstable();
        for place in std::mem::take(&mut self.next) {
            let stream = &self.plan.load[place];
            let alone = [StreamSpec { after: None, ..stream.clone() }];
            let app = Box::new(match &self.question {
                Some(question) => PerfClient::asking(&alone, question),
                None => PerfClient::new(&alone),
            });
            let wire = match &self.tls {
                None => Wire::Plain,
                Some(config) => {
                    let name = ServerName::try_from(self.plan.host.clone())
                        .unwrap_or_else(|_| ServerName::IpAddress(self.remote.ip().into()));
                    let made = ClientConnection::new(config.clone(), name)
                        .map_err(|error| Failure::Input(error.to_string()))?;
                    Wire::Client(Box::new(made))
                }
            };
            let idle = Span(self.plan.tcp.idle_timeout_ns);
            let socket = self.options.connect(self.remote)?;
            let mut connection =
                Connection::dial(now, socket, self.remote, wire, app, self.kernel, idle)?;
            connection.requests(PerfClient::request_bytes(self.question.as_ref()));
            let flags = connection.interest();
            if let Some(socket) = connection.socket() {
                self.watch.add(socket, place as u64, flags)?;
            }
            self.slots[place] =
                Some(Slot { connection, watched: Some(flags), told: false, over: false });
            self.worked(place);
        }
        Ok(())
    }

    /// The connection at `place` may have another wake-up, and something to tell.
    fn worked(&mut self, place: usize) {
        let Some(Some(slot)) = self.slots.get(place) else { return };
        let connection = &slot.connection;
        let waits = connection.ended().is_none() && connection.connected_at().is_none();
        let patience = Span(self.plan.timeout_ns);
        let answer = if waits { connection.began() + patience } else { Time::MAX };
        self.wakes.set_deadline(place, connection.turn_at().min(answer));
        self.worked.insert(place);
    }

    /// Tells of connections that are new.
    fn begun(
        &mut self,
        worked: &BTreeSet<usize>,
        now: Time,
        began: Time,
        greeted: &mut bool,
        reporter: &mut Reporter,
        frames: &mut Frames,
    ) -> Result<(), Failure> {
        for &place in worked {
            let Some(slot) = &mut self.slots[place] else { continue };
            let Some(connected) = slot.connection.connected_at() else { continue };
            if std::mem::replace(&mut slot.told, true) {
                continue;
            }
            slot.connection.sample();
            let connection = &slot.connection;
            let opening = connection.opening(place as u32, connected);
            frames.connection(now, &opening);
            if std::mem::replace(greeted, true) {
                continue;
            }
            reporter.begin(now);
            let took = connected.since(began).millis();
            let over = match connection.alpn() {
                Some(alpn) => format!("TLS, ALPN {alpn}"),
                None => connection.transport().to_uppercase(),
            };
            let mut text = format!(
                "connected to {} in {took:.2} ms, {over}, UP with {}, mss {}",
                self.remote,
                self.options.congestion(),
                connection.mss()
            );
            if self.tls.is_some() {
                text += &format!("; {}", trusted(&self.plan.trust, &self.shown));
            }
            reporter.say(&text)?;
        }
        Ok(())
    }

    /// Takes connections that have ended off the watch; why one was lost.
    fn ended(
        &mut self,
        worked: &BTreeSet<usize>,
        now: Time,
        frames: &mut Frames,
    ) -> Result<Option<String>, Failure> {
        for &place in worked {
            let Some(slot) = &mut self.slots[place] else { continue };
            let Some((end, at)) = slot.connection.ended() else { continue };
            if std::mem::replace(&mut slot.over, true) {
                continue;
            }
            self.over += 1;
            let (sender, streams) = (slot.connection.last(), slot.connection.streams());
            let end = match end {
                _ if slot.connection.refused().is_some() => End::Lost("refused a wish".to_owned()),
                End::Lost(_) => end.clone(),
                _ => short(&self.plan.load[place], streams).map_or(End::Here, End::Lost),
            };
            if slot.told {
                let names = slot.connection.names();
                frames.end_connection(at, place as u32, Some(&end), &sender, streams, names);
            }
            if let End::Lost(why) = end {
                return Ok(Some(why));
            }
            // A closed socket is watched no more.
            slot.watched = None;
            slot.connection.close();
            let id = self.plan.load[place].stream_id;
            self.next.extend(self.waiting.remove(&id).unwrap_or_default());
        }
        self.open_due(now)?;
        Ok(None)
    }

    fn turn(&mut self, until: Time) -> Result<(), Failure> {
        let now = self.clock.now();
        if until > now {
            sleep(&[(&self.watch, false)], until.since(now))?;
        }
        let ready = self.watch.ready()?;
        // After what is ready came, and before anything of this turn leaves.
        let now = self.clock.now();
        let mut due: Vec<u64> = Vec::new();
        while let Some(place) = self.wakes.pop_due(now) {
            due.push(place as u64);
        }
        due.sort_unstable();
        due.retain(|number| ready.iter().all(|ready| ready.number != *number));
        let came = ready.len();
        let numbers = ready.into_iter().map(|ready| (ready.number, ready.readable));
        let numbers = numbers.chain(due.into_iter().map(|number| (number, false)));
        for (at, (number, readable)) in numbers.enumerate() {
            let Some(Some(slot)) = self.slots.get_mut(number as usize) else { continue };
            if at < came || slot.connection.wake_at() <= now {
                slot.connection.run(now, readable, &mut self.scratch);
            } else {
                slot.connection.check(now);
            }
            let flags = slot.connection.interest();
            if let (None, Some(socket)) = (slot.connection.ended(), slot.connection.socket())
                && slot.watched != Some(flags)
            {
                self.watch.change(socket, number, flags)?;
                slot.watched = Some(flags);
            }
            self.worked(number as usize);
        }
        Ok(())
    }

    /// No answer for too long.
    fn patience(&self, worked: &BTreeSet<usize>, now: Time) -> Result<(), Failure> {
        let timeout = Span(self.plan.timeout_ns);
        for slot in worked.iter().filter_map(|place| self.slots[*place].as_ref()) {
            let connection = &slot.connection;
            if slot.over
                || connection.connected_at().is_some()
                || now.since(connection.began()) < timeout
            {
                continue;
            }
            let asked = if connection.is_reached() {
                "the port is open, but no answer to TLS came; does the server speak it there?"
            } else {
                "is the server running, and does TCP pass?"
            };
            let (remote, seconds) = (self.remote, timeout.seconds());
            return Err(Failure::Run(format!("{remote}: no answer within {seconds} s; {asked}")));
        }
        Ok(())
    }

    /// Why there was no handshake.
    fn refused(&self, why: &str) -> Failure {
        refused(self.remote, self.pinned, &self.shown)
            .unwrap_or_else(|| Failure::Run(self.words(why)))
    }

    fn words(&self, why: &str) -> String {
        let (remote, idle) = (self.remote, Span(self.plan.tcp.idle_timeout_ns).seconds());
        match why {
            "timed out" => format!("{remote}: the connection is lost: nothing moved for {idle} s"),
            "refused" => format!(
                "{remote}: nothing listens there (TCP port closed); is `bentpipe perf server` running?"
            ),
            // RFC 7301 section 3.2.
            _ if why.contains("NoApplicationProtocol") => {
                format!("{remote}: the server does not speak ALPN {}", self.plan.alpn)
            }
            _ if why.contains("reset") => {
                format!("{remote}: {why}; it may take no more connections, or be gone")
            }
            _ => format!("{remote}: {why}"),
        }
    }
}

/// In what a server's answer falls short of what it was asked for: TCP ends alike, whole or not.
fn short(asked: &StreamSpec, streams: &[StreamReport]) -> Option<String> {
    let stream = streams.first()?;
    let came = stream.received_in_order;
    match asked.amount {
        AmountSpec::Data { down_bytes, .. } if came != down_bytes => {
            Some(format!("the server answered {came} bytes, expected {down_bytes}"))
        }
        _ if stream.finished.is_none() => {
            Some("the server has ended the stream before all was sent".to_owned())
        }
        _ => None,
    }
}

/// A size whose first byte would be taken for TLS.
fn check_size(stream: &StreamSpec) -> Result<(), Failure> {
    match stream.amount {
        AmountSpec::Data { down_bytes, .. } if down_bytes.to_be_bytes()[0] == TLS_RECORD => {
            Err(Failure::Input(format!(
                "LOAD: found a response of {down_bytes} bytes, expected less than 1.5e18 over TCP"
            )))
        }
        _ => Ok(()),
    }
}
