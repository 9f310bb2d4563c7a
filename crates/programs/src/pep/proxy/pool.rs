//! The pool: idle connections of this proxy to the next one, and connections that the previous proxy has opened.

use std::io::{self, Read};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::EpollFlags;
use runtime::log_stderr;
use units::Span;

use super::Proxy;
use super::flow::{BROKEN, Capacity, ProxyEntry, ProxyFlow, READABLE, canonical_addr};
use crate::ProgramError;
use crate::pep::proxy_header::{self, AddressPair};
use crate::pep::socket::{reset, start_connect};
use crate::pep::splice::SpliceSocket;

/// The time limit from the first to the last byte of a pooled connection's header.
const HEADER_TIMEOUT: Span = Span::from_secs(10);
/// The interval of attempts to fill an unreachable pool.
const RETRY_INTERVAL: Span = Span::from_millis(200);
/// The maximum time to fill the pool at the start.
const FILL_TIMEOUT: Span = Span::from_secs(30);

impl Proxy<'_> {
    /// Waits until the pool is full.
    pub(super) fn fill_pool(&mut self, stop: &AtomicBool) -> Result<(), ProgramError> {
        let Some(pool) = self.plan.to_pool else { return Ok(()) };
        let until = self.clock.now() + FILL_TIMEOUT;
        self.refill_pool();
        while self.pool.len() < pool.ready && !stop.load(Ordering::Relaxed) {
            self.poll_once(until)?;
            if self.clock.now() >= until {
                return Err(ProgramError::Run(format!(
                    "to_pool: {} connections to {} are open after {} s, expected {}",
                    self.pool.len(),
                    pool.address,
                    FILL_TIMEOUT.millis() / 1000.0,
                    pool.ready
                )));
            }
        }
        Ok(())
    }

    /// Accepts pooled connections of the previous proxy.
    pub(super) fn accept_pooled(&mut self) {
        let Some(pool) = self.plan.from_pool else { return };
        while let Some(Ok((stream, from))) = self.pool_listener.as_ref().map(TcpListener::accept) {
            if canonical_addr(from).ip() != pool.peer
                || !matches!(self.reserve_capacity(), Capacity::Available)
            {
                self.counters.refused += 1;
                reset(stream);
                continue;
            }
            let mut flow = ProxyFlow::new(AddressPair { client: from, server: pool.listen }, false);
            flow.header = Some(Vec::new());
            let index = self.add_flow(flow);
            if stream.set_nonblocking(true).is_err()
                || self.register(&stream, index, 0, false).is_err()
            {
                self.close_flow(index, true);
                continue;
            }
            if let ProxyEntry::Flow(flow) = &mut self.entries[index] {
                flow.sockets[0] = SpliceSocket::connected(stream);
            }
        }
    }

    /// Reads the header of a pooled connection, and opens the onward connection when it is complete.
    pub(super) fn read_header(&mut self, index: usize) {
        let now = self.clock.now();
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        let (Some(bytes), Some(mut stream)) = (&mut flow.header, flow.sockets[0].stream.as_ref())
        else {
            return;
        };
        let mut buffer = [0; proxy_header::MAX_HEADER_BYTES];
        // Until no data is left: data that arrived before this read causes no second event.
        let (ends, length) = loop {
            let free_bytes = proxy_header::MAX_HEADER_BYTES - bytes.len();
            match stream.read(&mut buffer[..free_bytes]) {
                Ok(0) if bytes.is_empty() => return self.close_flow(index, false),
                Ok(got) if got > 0 => bytes.extend(&buffer[..got]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => return self.reject_pooled(index, "the connection ended within its header"),
            }
            flow.deadline.get_or_insert(now + HEADER_TIMEOUT);
            match proxy_header::parse(bytes) {
                Ok(None) => {}
                Ok(Some(found)) => break found,
                Err(why) => return self.reject_pooled(index, why),
            }
        };
        let rest = bytes.split_off(length);
        flow.header = None;
        flow.deadline = None;
        flow.buffers[0].push(&rest);
        flow.addresses = ends;
        let key = (ends.client, ends.server);
        if self.by_addresses.contains_key(&key) || self.local_addresses.contains(&ends.server.ip())
        {
            return self.reject_pooled(index, "another connection has its addresses");
        }
        self.by_addresses.insert(key, index);
        self.counters.side(0).connections += 1;
        self.connect_onward(index);
        self.transfer(index);
    }

    pub(super) fn reject_pooled(&mut self, index: usize, why: &str) {
        if self.counters.hostile == 0 {
            log_stderr(format_args!("bentpipe: reset a connection to the port of the pool: {why}"));
        }
        self.counters.hostile += 1;
        self.close_flow(index, true);
    }

    /// Opens the missing pooled connections.
    pub(super) fn refill_pool(&mut self) {
        let Some(pool) = self.plan.to_pool else { return };
        let now = self.clock.now();
        while self.pool.len() + self.pool_connecting < pool.ready + self.waiting_for_pool.len()
            && now >= self.retry_at
        {
            let Ok(connecting) =
                start_connect(pool.address, None, self.devices[1], &self.side_options[1])
            else {
                self.retry_at = now + RETRY_INTERVAL;
                return;
            };
            let index = self.insert(ProxyEntry::Pooled(connecting.stream, false));
            let ProxyEntry::Pooled(stream, _) = &self.entries[index] else { return };
            if self.register(stream, index, 1, false).is_err() {
                self.remove_entry(index);
                return;
            }
            self.pool_connecting += 1;
        }
    }

    /// Handles an event of a pooled connection: it is established or lost.
    pub(super) fn on_pool_event(&mut self, index: usize, events: EpollFlags) {
        let ProxyEntry::Pooled(stream, stands) = &mut self.entries[index] else { return };
        let dead = events.intersects(BROKEN | READABLE) || stream.peer_addr().is_err();
        if dead {
            if *stands {
                self.pool.retain(|one| *one != index);
            } else {
                self.pool_connecting -= 1;
            }
            self.retry_at = self.clock.now() + RETRY_INTERVAL;
            self.remove_entry(index);
        } else if !*stands {
            *stands = true;
            self.pool_connecting -= 1;
            self.pool.push_back(index);
            self.serve_waiting();
        }
    }

    /// Assigns a pooled connection, or queues the connection for one.
    pub(super) fn take_pooled(&mut self, index: usize, ends: AddressPair) {
        let Some(taken) = self.pool.pop_front() else {
            self.counters.pool_empty += 1;
            if let ProxyEntry::Flow(flow) = &self.entries[index] {
                self.waiting_for_pool.insert(flow.number, index);
            }
            return;
        };
        let ProxyEntry::Pooled(stream, _) = self.remove_entry(taken) else { return };
        let header = proxy_header::encode(ends).unwrap_or_default();
        if self.register(&stream, index, 1, true).is_err() {
            return self.fail_onward(index, false);
        }
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        flow.sockets[1] = SpliceSocket::connected(stream);
        flow.buffers[0].push(&header);
        self.counters.side(1).connections += 1;
        self.transfer(index);
    }

    /// Assigns new pooled connections to the waiting connections.
    pub(super) fn serve_waiting(&mut self) {
        while !self.pool.is_empty()
            && let Some((_, index)) = self.waiting_for_pool.pop_first()
        {
            let ProxyEntry::Flow(flow) = &self.entries[index] else { continue };
            let ends = flow.addresses;
            if flow.sockets[1].stream.is_none() {
                self.take_pooled(index, ends);
            }
        }
    }
}
