//! The browser loads a page repeatedly. It requests objects when their dependencies have arrived, over connections that
//! it opens on demand (`connections`).

mod connections;
mod profile;

use std::sync::Arc;

use units::{RandomStream, Span, Time};

use self::connections::BrowserConnection;
use self::profile::BrowserProfile;
use super::connect_request::{ConnectRequest, Protocol};
use super::dual_transport::Transports;
use super::{HttpVersionPolicy, LoadReport, PageSpec, ProfileReuse, RequestReport, WebSpec};
use crate::{AppCommand, AppNotification};

/// Maximum number of retries of a lost connection's requests on a new one, per host and load.
const MAX_RETRIES: u32 = 3;

/// A host in the current load.
#[derive(Clone, Debug, Default)]
struct HostState {
    /// Objects that are not assigned to a connection.
    queue: Vec<u32>,
    /// Time at which TCP joins the race; set while QUIC is tried because of Alt-Svc.
    race: Option<Time>,
    retries: u32,
}

/// State of the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BrowserState {
    Off,
    /// Connections opened before the load are pending, until this deadline.
    Opening(Time),
    /// A load runs, until this deadline.
    Loading(Time),
    /// The next load begins at this time.
    Pause(Time),
    Done,
}

/// The browser.
pub(super) struct Browser {
    spec: WebSpec,
    page: Arc<PageSpec>,
    /// The document, and the redirects that lead to it.
    redirects: Vec<u32>,
    /// Per object: the document references it directly, so it counts for contentLoaded.
    content: Vec<bool>,
    transports: Transports,
    profile: BrowserProfile,
    pauses: RandomStream,
    state: BrowserState,
    connections: Vec<BrowserConnection>,
    /// Number of connections opened over TCP and over QUIC.
    opened: [u32; 2],
    /// Commands for connections, by their number in reports.
    commands: Vec<(u32, AppCommand)>,
    hosts: Vec<HostState>,
    /// Per object: missing dependencies, end of parsing of the received ones, and the time of its request.
    missing_dependencies: Vec<usize>,
    parsed: Vec<Time>,
    due: Vec<Time>,
    /// Per object: index of its request's report.
    reports: Vec<Option<usize>>,
    pub loads: Vec<LoadReport>,
    pub requests: Vec<RequestReport>,
}

impl Browser {
    /// Returns whether a page loads.
    fn is_loading(&self) -> bool {
        matches!(self.state, BrowserState::Loading(_))
    }

    /// Creates a browser for a checked `spec`; `name` keys its random streams.
    pub fn new(spec: &WebSpec, page: Arc<PageSpec>, seed: u64, name: &str) -> Browser {
        let chain = page.redirect_chain();
        let is_content = |first: u32| {
            page.objects[first as usize].after.iter().all(|after| chain.contains(after))
        };
        Browser {
            spec: spec.clone(),
            content: page.redirect_origins().into_iter().map(is_content).collect(),
            redirects: chain,
            transports: Transports::from_spec(spec),
            profile: BrowserProfile::new(page.hosts.len()),
            pauses: RandomStream::named(seed, name, "pauses"),
            state: BrowserState::Off,
            connections: Vec::new(),
            opened: [0; 2],
            commands: Vec::new(),
            hosts: Vec::new(),
            missing_dependencies: Vec::new(),
            parsed: Vec::new(),
            due: Vec::new(),
            reports: Vec::new(),
            loads: Vec::new(),
            requests: Vec::new(),
            page,
        }
    }

    /// Starts the first load.
    pub fn start(&mut self, now: Time) {
        self.state = BrowserState::Pause(now);
    }

    /// Returns the time of the next work.
    pub fn poll_at(&self) -> Time {
        match self.state {
            BrowserState::Off | BrowserState::Done => Time::MAX,
            BrowserState::Pause(until) => until,
            BrowserState::Opening(until) => until.min(self.next_race()),
            BrowserState::Loading(until) => {
                let due = self.due.iter().copied().min().unwrap_or(Time::MAX);
                until.min(due).min(self.next_race())
            }
        }
    }

    fn next_race(&self) -> Time {
        self.hosts.iter().filter_map(|host| host.race).min().unwrap_or(Time::MAX)
    }

    /// Does the work that is due. Returns the connections to open.
    pub fn poll(&mut self, now: Time) -> Vec<ConnectRequest> {
        let mut requests = Vec::new();
        match self.state {
            BrowserState::Pause(until) if until <= now => self.open_connections(now, &mut requests),
            BrowserState::Opening(until) => {
                for host in 0..self.hosts.len() {
                    if let Some(at) = self.hosts[host].race {
                        self.race(now, host, at, &mut requests);
                    }
                }
                if until <= now || (0..self.hosts.len()).all(|host| self.is_host_ready(host)) {
                    self.begin_load(now);
                }
            }
            _ => {}
        }
        if let BrowserState::Loading(until) = self.state {
            self.queue_due_objects(now);
            for host in 0..self.hosts.len() {
                self.assign_requests(now, host, &mut requests);
            }
            let whole = self.loads.last().is_some_and(|load| load.load_event_end.is_some());
            if whole || until <= now {
                self.end_load(now);
            }
        }
        requests
    }

    /// Takes the commands for connections since the last call, by their number in reports.
    pub fn take_commands(&mut self) -> Vec<(u32, AppCommand)> {
        std::mem::take(&mut self.commands)
    }

    /// Opens the connections that must be open before a load.
    fn open_connections(&mut self, now: Time, requests: &mut Vec<ConnectRequest>) {
        if self.spec.profile == ProfileReuse::Fresh && !self.loads.is_empty() {
            self.profile.reset();
        }
        self.state = BrowserState::Opening(now + Span(self.spec.timeout_ns));
        self.hosts = vec![HostState::default(); self.page.hosts.len()];
        for host in 0..self.page.hosts.len() {
            let is_up = |connection: &&BrowserConnection| connection.request.host as usize == host;
            if self.page.hosts[host].open && self.live_connections().find(is_up).is_none() {
                let protocol = self.protocol(host);
                self.connect(now, host, protocol, requests);
            }
        }
        if requests.is_empty() {
            self.begin_load(now);
        }
    }

    /// Returns the index of the document.
    fn document(&self) -> usize {
        self.redirects.last().map_or(0, |index| *index as usize)
    }

    /// Starts a load.
    fn begin_load(&mut self, now: Time) {
        let objects = self.page.objects.len();
        self.state = BrowserState::Loading(now + Span(self.spec.timeout_ns));
        self.missing_dependencies =
            self.page.objects.iter().map(|object| object.after.len()).collect();
        self.parsed = vec![now; objects];
        self.due = self
            .missing_dependencies
            .iter()
            .map(|n| if *n == 0 { now } else { Time::MAX })
            .collect();
        self.reports = vec![None; objects];
        self.loads.push(LoadReport {
            load: self.loads.len() as u32 + 1,
            protocol: self.protocol(self.page.objects[self.document()].host as usize).alpn(),
            start: now,
            ..LoadReport::default()
        });
    }

    /// Ends a load. A pause follows, unless it was the last load.
    fn end_load(&mut self, now: Time) {
        for connection in &mut self.connections {
            let host = connection.request.host as usize;
            let quic = connection.request.protocol == Protocol::Http3;
            if quic && self.spec.http == HttpVersionPolicy::AltSvc && !connection.answered {
                self.profile.hosts[host].http3_broken = true;
            }
        }
        let last = self.loads.len() as u32 >= self.spec.loads;
        // A fresh profile is a restart of the browser.
        let reuses_connections =
            !last && self.spec.keep_connections && self.spec.profile == ProfileReuse::Reused;
        for connection in &mut self.connections {
            let useful = connection.answered && connection.waiting.is_empty();
            let stays_open = reuses_connections && useful;
            if !(stays_open || connection.closed) {
                connection.closed = true;
                self.commands.push((connection.request.number, AppCommand::Close));
            }
        }
        self.connections.retain(|connection| !connection.closed);
        let (min, max) = self.spec.pause_ns;
        let pause = Span(min) + self.pauses.span_below(Span(max.saturating_sub(min) + 1));
        self.state = if last { BrowserState::Done } else { BrowserState::Pause(now + pause) };
    }

    /// Queues the objects that are due.
    fn queue_due_objects(&mut self, now: Time) {
        for object in 0..self.due.len() {
            if self.due[object] > now {
                continue;
            }
            let queued = std::mem::replace(&mut self.due[object], Time::MAX);
            let host = self.page.objects[object].host as usize;
            self.reports[object] = Some(self.requests.len());
            self.requests.push(RequestReport {
                load: self.loads.len() as u32,
                object: object as u32,
                protocol: self.protocol(host).alpn(),
                queued,
                ..RequestReport::default()
            });
            self.hosts[host].queue.push(object as u32);
        }
    }

    /// Handles a notification of the connection with this number in reports.
    pub fn on_notification(&mut self, number: u32, at: Time, notification: AppNotification) {
        let matches = |connection: &BrowserConnection| connection.request.number == number;
        let Some(index) = self.connections.iter().position(matches) else { return };
        let host = self.connections[index].request.host as usize;
        let connection = &mut self.connections[index];
        match notification {
            AppNotification::Ready => {
                connection.ready.get_or_insert(at);
            }
            AppNotification::PeerResponded => connection.answered = true,
            AppNotification::SessionTicket => self.profile.hosts[host].ticket = true,
            AppNotification::Closed => {
                connection.closed = true;
                let lost = std::mem::take(&mut connection.waiting);
                if self.is_loading() {
                    self.hosts[host].retries += u32::from(!lost.is_empty());
                    if self.hosts[host].retries <= MAX_RETRIES {
                        self.hosts[host].queue.extend(lost);
                    }
                }
            }
            AppNotification::RequestSent(object)
            | AppNotification::ResponseStarted(object)
            | AppNotification::BodyData(object, _)
            | AppNotification::ResponseComplete(object) => {
                if connection.waiting.contains(&object) {
                    self.on_progress(index, object, at, notification);
                }
            }
            AppNotification::CheckMailbox => {}
        }
    }

    /// Handles a notification about an object of the current load.
    fn on_progress(&mut self, index: usize, object: u32, at: Time, notification: AppNotification) {
        let document = object as usize == self.document();
        let (Some(load), Some(report)) = (self.loads.last_mut(), self.reports[object as usize])
        else {
            return;
        };
        let report = &mut self.requests[report];
        let connection = &mut self.connections[index];
        match notification {
            AppNotification::RequestSent(_) => {
                report.sent = Some(at);
                if document {
                    load.protocol = connection.request.protocol.alpn();
                }
                // The first request: for the document, or for the first redirect to it.
                if object == 0 {
                    // A connection from before the load counts from the request on.
                    let new = connection.request.opened_at >= load.start;
                    load.connect_start =
                        Some(if new { connection.request.opened_at } else { report.queued });
                    let end = connection.ready.filter(|_| new);
                    load.connect_end = Some(end.unwrap_or(report.queued));
                    load.request_start = Some(at);
                }
            }
            AppNotification::ResponseStarted(_) => {
                report.response_start.get_or_insert(at);
                if document {
                    load.response_start.get_or_insert(at);
                }
                let tcp = connection.request.protocol != Protocol::Http3;
                let profile = &mut self.profile.hosts[connection.request.host as usize];
                profile.http3 |= self.spec.http == HttpVersionPolicy::AltSvc && tcp;
            }
            AppNotification::BodyData(_, bytes) => {
                report.bytes += bytes;
                load.bytes += bytes;
            }
            _ => {
                report.end = Some(at);
                load.objects += 1;
                connection.waiting.retain(|other| *other != object);
                if document {
                    load.response_end = Some(at);
                }
                self.on_object_complete(object, at);
            }
        }
    }

    /// Handles the complete arrival of `object`.
    fn on_object_complete(&mut self, object: u32, at: Time) {
        for (index, spec) in self.page.objects.iter().enumerate() {
            let count = spec.after.iter().filter(|after| **after == object).count();
            if count > 0 {
                // A redirect needs no parsing.
                let leads = self.page.objects[object as usize].redirect == Some(index as u32);
                let parsed = at + Span(if leads { 0 } else { self.spec.parse_ns });
                self.parsed[index] = self.parsed[index].max(parsed);
                self.missing_dependencies[index] -= count;
                if self.missing_dependencies[index] == 0 {
                    self.due[index] = self.parsed[index];
                }
            }
        }
        let is_complete = |index: usize| {
            self.reports[index].is_some_and(|report| self.requests[report].end.is_some())
        };
        let count = self.page.objects.len();
        let loaded = (0..count).all(|index| is_complete(index) || !self.content[index]);
        let over = (0..count).all(is_complete);
        if let Some(load) = self.loads.last_mut() {
            if loaded {
                load.content_loaded.get_or_insert(at);
            }
            if over {
                load.load_event_end = Some(at);
            }
        }
    }
}
