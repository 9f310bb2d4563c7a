//! The loop: SYNs, listeners, pool and connections of one proxy, by one epoll. Submodules: `start` (construction),
//! `flow` (a connection), `half_open` (eviction), `lingering` (sockets after the close), `pool`.

mod flow;
mod half_open;
mod lingering;
mod pool;
mod start;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use runtime::tcp::{TcpInfo, TcpInfoLayout};
use runtime::{Clock, ResultFile};
use serde_json::json;
use units::{Span, Time};

use self::flow::{ProxyEntry, ProxyFlow, READABLE};
use self::half_open::HalfOpenConnections;
use self::lingering::LingeringSocket;
use self::start::{FIRST_ENTRY_TOKEN, POOL_LISTENER_TOKEN, SYN_TOKEN, raise_file_limit};
use super::counters::{CounterLine, CounterWriter};
use super::syn::SynCapture;
use super::{ProxyPlan, SideSocketOptions, namespace_sysctls};
use crate::ProgramError;

/// The interval of deadline checks.
const EXPIRY_INTERVAL: Span = Span::from_secs(1);
/// The longest sleep in ms: the maximum delay until a stop is noticed.
const MAX_SLEEP_MS: u16 = 100;
/// The maximum of events per call.
const MAX_EVENTS: usize = 512;

struct Proxy<'a> {
    plan: &'a ProxyPlan,
    side_options: [SideSocketOptions; 2],
    devices: [&'a str; 2],
    epoll: Epoll,
    clock: Clock,
    info_layout: TcpInfoLayout,
    syn_capture: SynCapture,
    /// Addresses of the namespace: connections to them are not split.
    local_addresses: Vec<IpAddr>,
    listeners: Vec<TcpListener>,
    pool_listener: Option<TcpListener>,
    entries: Vec<ProxyEntry>,
    free_indices: Vec<usize>,
    /// Indices freed in this poll: events for them can still be pending.
    just_freed: Vec<usize>,
    /// The index of each connection by its addresses.
    by_addresses: BTreeMap<(SocketAddr, SocketAddr), usize>,
    /// Connections started so far, open now, and the limit.
    started_flows: u64,
    open_flows: usize,
    max_flows: usize,
    /// Established pooled connections, and the number being established.
    pool: VecDeque<usize>,
    pool_connecting: usize,
    retry_at: Time,
    /// The time of the next deadline check.
    next_expiry_at: Time,
    /// Connections that wait for a pooled one: their indices by number.
    waiting_for_pool: BTreeMap<u64, usize>,
    /// Connections with an incomplete client handshake.
    half_open: HalfOpenConnections,
    /// Connections with more data than one poll transfers.
    ready_flows: VecDeque<usize>,
    /// Sockets closed by the proxy and not yet by the kernel, oldest first.
    lingering: VecDeque<LingeringSocket>,
    /// The counters of all earlier connections.
    counters: CounterLine,
    scratch: Vec<u8>,
}

/// Runs a plan until `stop` is set. Calls `ready` when connections are split.
///
/// # Errors
/// A defect of the plan, a missing capability of the kernel, or a network error.
pub fn run(
    plan: &ProxyPlan,
    stop: &AtomicBool,
    ready: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), ProgramError> {
    plan.validate().map_err(ProgramError::Input)?;
    let side_options = [
        SideSocketOptions::new("client_side", &plan.proxy.client_side)
            .map_err(ProgramError::Input)?,
        SideSocketOptions::new("server_side", &plan.proxy.server_side)
            .map_err(ProgramError::Input)?,
    ];
    let wanted = namespace_sysctls(&plan.proxy).map_err(ProgramError::Input)?;
    let input = |error: io::Error| ProgramError::Input(error.to_string());
    let counters = plan.counters.as_ref();
    let file = counters.map(|counters| {
        ResultFile::create("counters", &counters.file).map_err(ProgramError::Input)
    });
    let mut lines = CounterWriter::new(file.transpose()?);
    let interval = counters.map_or(Span(u64::MAX), |counters| Span(counters.interval_ns));
    let mut notes = Vec::new();
    let max_flows = raise_file_limit(plan, &mut notes)?;
    let (mut proxy, rules) =
        Proxy::build(plan, side_options, &wanted, max_flows, &mut notes).map_err(input)?;
    proxy.fill_pool(stop)?;
    ready(&json!({"ready": true, "handshake": plan.proxy.handshake, "notes": notes}).to_string())?;
    lines.write(&proxy.snapshot_counters(false))?;
    let mut line_at = proxy.clock.now() + interval.min(Span::from_secs(1 << 30));
    while !stop.load(Ordering::Relaxed) {
        proxy.poll_once(line_at)?;
        if proxy.clock.now() >= line_at {
            lines.write(&proxy.snapshot_counters(false))?;
            line_at += interval;
        }
    }
    lines.write(&proxy.snapshot_counters(true))?;
    drop(rules);
    if lines.is_incomplete() { Err(ProgramError::IncompleteResults) } else { Ok(()) }
}

impl Proxy<'_> {
    /// Waits for events, at most until `until`, and processes them.
    fn poll_once(&mut self, until: Time) -> io::Result<()> {
        let now = self.clock.now();
        let left = (until.0.saturating_sub(now.0) / 1_000_000).min(MAX_SLEEP_MS.into()) as u16;
        let wait = if self.ready_flows.is_empty() { left.max(1) } else { 0 };
        let mut events = [EpollEvent::empty(); MAX_EVENTS];
        let count = match self.epoll.wait(&mut events, EpollTimeout::from(wait)) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        // Connections with remaining data continue after those with events.
        let turn = std::mem::take(&mut self.ready_flows);
        for event in &events[..count] {
            match event.data() {
                SYN_TOKEN => self.process_syns()?,
                POOL_LISTENER_TOKEN => self.accept_pooled(),
                listener if listener < POOL_LISTENER_TOKEN => self.accept(listener as usize),
                token => self.on_event(token - FIRST_ENTRY_TOKEN, event.events()),
            }
        }
        for index in turn {
            if let ProxyEntry::Flow(flow) = &mut self.entries[index] {
                flow.is_queued = false;
                self.transfer(index);
            }
        }
        self.free_indices.append(&mut self.just_freed);
        self.refill_pool();
        self.expire_deadlines();
        Ok(())
    }

    /// Stores an entry at a free index.
    fn insert(&mut self, slot: ProxyEntry) -> usize {
        match self.free_indices.pop() {
            Some(index) => {
                self.entries[index] = slot;
                index
            }
            None => {
                self.entries.push(slot);
                self.entries.len() - 1
            }
        }
    }

    /// Removes the entry at an index.
    fn remove_entry(&mut self, index: usize) -> ProxyEntry {
        self.just_freed.push(index);
        std::mem::replace(&mut self.entries[index], ProxyEntry::Free)
    }

    /// Registers a socket of the entry at `index`; with `again` the socket was registered for another entry.
    fn register(
        &self,
        socket: &impl AsFd,
        index: usize,
        side: usize,
        again: bool,
    ) -> io::Result<()> {
        let flags = READABLE | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        let mut event = EpollEvent::new(flags, FIRST_ENTRY_TOKEN + 2 * index as u64 + side as u64);
        if again {
            self.epoll.modify(socket, &mut event)?;
        } else {
            self.epoll.add(socket, event)?;
        }
        Ok(())
    }

    /// Handles an event of a socket.
    fn on_event(&mut self, token: u64, events: EpollFlags) {
        let (index, side) = ((token / 2) as usize, (token % 2) as usize);
        match self.entries.get(index) {
            Some(ProxyEntry::Flow(_)) => self.on_flow_event(index, side, events),
            Some(ProxyEntry::Pooled(..)) => self.on_pool_event(index, events),
            Some(ProxyEntry::Free) | None => {}
        }
    }

    /// Closes connections with an expired deadline.
    fn expire_deadlines(&mut self) {
        let now = self.clock.now();
        if now < self.next_expiry_at {
            return;
        }
        self.next_expiry_at = now + EXPIRY_INTERVAL;
        self.release_finished(now);
        let late: Vec<usize> = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| match slot {
                ProxyEntry::Flow(flow) if flow.deadline.is_some_and(|at| at <= now) => Some(index),
                _ => None,
            })
            .collect();
        for index in late {
            self.close_flow(index, true);
        }
    }

    /// Returns the current counters.
    fn snapshot_counters(&self, end: bool) -> CounterLine {
        let mut line = CounterLine { end, open: self.open_flows as u64, ..self.counters };
        let mut flows: Vec<&ProxyFlow> = self
            .entries
            .iter()
            .filter_map(|slot| if let ProxyEntry::Flow(flow) = slot { Some(&**flow) } else { None })
            .collect();
        flows.sort_unstable_by_key(|flow| flow.number);
        for socket in &self.lingering {
            socket.add_to(&mut line, self.info_layout);
        }
        for flow in flows {
            for (side, one) in flow.sockets.iter().enumerate() {
                let into = line.side(flow.side_index(side));
                into.buffered_bytes += flow.buffers[1 - side].buffered_bytes() as u64;
                if let Some(stream) = &one.stream
                    && flow.header.is_none()
                    && let Ok(info) = TcpInfo::query(stream, self.info_layout)
                {
                    into.add(&info, flow.ip_header());
                }
            }
        }
        line
    }
}
