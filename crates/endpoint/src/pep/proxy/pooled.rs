//! The pool: the stock of this proxy towards the next one, and what the one before it has put here.

use std::io::{self, Read};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::EpollFlags;
use units::Span;

use super::flow::{Capacity, Flow, plain};
use super::{BROKEN, Proxy, READABLE, Slot};
use crate::pep::header::{self, Ends};
use crate::pep::socket::{begin, reset};
use crate::pep::splice::End;
use crate::perf::Failure;
use crate::say::say;

/// From the first to the last byte of a pooled connection's header.
const HEADER: Span = Span::from_secs(10);
/// Between attempts to fill a pool that cannot be reached.
const RETRY: Span = Span::from_millis(200);
/// Longest wait for a pool to be filled at the start.
const FILL: Span = Span::from_secs(30);

impl Proxy<'_> {
    /// Waits until the stock is complete.
    pub(super) fn fill(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let Some(pool) = self.plan.to_pool else { return Ok(()) };
        let until = self.clock.now() + FILL;
        self.restock();
        while self.stock.len() < pool.ready && !stop.load(Ordering::Relaxed) {
            self.step(until)?;
            if self.clock.now() >= until {
                return Err(Failure::Run(format!(
                    "to_pool: {} connections to {} stand after {} s, expected {}",
                    self.stock.len(),
                    pool.address,
                    FILL.millis() / 1000.0,
                    pool.ready
                )));
            }
        }
        Ok(())
    }

    /// The proxy before this one puts a connection into its stock.
    pub(super) fn accept_pooled(&mut self) {
        let Some(pool) = self.plan.from_pool else { return };
        while let Some(Ok((stream, from))) = self.pool_listener.as_ref().map(TcpListener::accept) {
            if plain(from).ip() != pool.peer || !matches!(self.make_place(), Capacity::Free) {
                self.line.refused += 1;
                reset(stream);
                continue;
            }
            let mut flow = Flow::new(Ends { client: from, server: pool.listen }, false);
            flow.header = Some(Vec::new());
            let place = self.add(flow);
            if stream.set_nonblocking(true).is_err()
                || self.register(&stream, place, 0, false).is_err()
            {
                self.close(place, true);
                continue;
            }
            if let Slot::Flow(flow) = &mut self.slots[place] {
                flow.sides[0] = End::connected(stream);
            }
        }
    }

    /// Reads the header of a pooled connection; opens the way on when it is whole.
    pub(super) fn read_header(&mut self, place: usize) {
        let now = self.clock.now();
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        let (Some(bytes), Some(mut stream)) = (&mut flow.header, flow.sides[0].stream.as_ref())
        else {
            return;
        };
        let mut buffer = [0; header::LONGEST];
        // Until nothing is there: what has come before the look brings no second event.
        let (ends, length) = loop {
            let room = header::LONGEST - bytes.len();
            match stream.read(&mut buffer[..room]) {
                Ok(0) if bytes.is_empty() => return self.close(place, false),
                Ok(got) if got > 0 => bytes.extend(&buffer[..got]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => return self.hostile(place, "it ends within its header"),
            }
            flow.deadline.get_or_insert(now + HEADER);
            match header::parse(bytes) {
                Ok(None) => {}
                Ok(Some(found)) => break found,
                Err(why) => return self.hostile(place, why),
            }
        };
        let rest = bytes.split_off(length);
        flow.header = None;
        flow.deadline = None;
        flow.pipes[0].push(&rest);
        flow.ends = ends;
        let key = (ends.client, ends.server);
        if self.known.contains_key(&key) || self.own.contains(&ends.server.ip()) {
            return self.hostile(place, "its ends are taken");
        }
        self.known.insert(key, place);
        self.line.side(0).connections += 1;
        self.go_on(place);
        self.work(place);
    }

    pub(super) fn hostile(&mut self, place: usize, why: &str) {
        if self.line.hostile == 0 {
            say(format_args!("bentpipe: a connection to the pool's port is reset: {why}"));
        }
        self.line.hostile += 1;
        self.close(place, true);
    }

    /// Keeps the stock complete.
    pub(super) fn restock(&mut self) {
        let Some(pool) = self.plan.to_pool else { return };
        let now = self.clock.now();
        while self.stock.len() + self.opening < pool.ready + self.in_want.len()
            && now >= self.retry_at
        {
            let Ok(begun) = begin(pool.address, None, self.devices[1], &self.legs[1]) else {
                self.retry_at = now + RETRY;
                return;
            };
            let place = self.insert(Slot::Stock(begun.stream, false));
            let Slot::Stock(stream, _) = &self.slots[place] else { return };
            if self.register(stream, place, 1, false).is_err() {
                self.vacate(place);
                return;
            }
            self.opening += 1;
        }
    }

    /// News of a connection of the stock: it stands, or is lost.
    pub(super) fn stock_event(&mut self, place: usize, events: EpollFlags) {
        let Slot::Stock(stream, stands) = &mut self.slots[place] else { return };
        let dead = events.intersects(BROKEN | READABLE) || stream.peer_addr().is_err();
        if dead {
            if *stands {
                self.stock.retain(|one| *one != place);
            } else {
                self.opening -= 1;
            }
            self.retry_at = self.clock.now() + RETRY;
            self.vacate(place);
        } else if !*stands {
            *stands = true;
            self.opening -= 1;
            self.stock.push_back(place);
            self.serve_want();
        }
    }

    /// Gives a connection one out of the stock, or lets it wait for one.
    pub(super) fn take_stock(&mut self, place: usize, ends: Ends) {
        let Some(taken) = self.stock.pop_front() else {
            self.line.pool_empty += 1;
            if let Slot::Flow(flow) = &self.slots[place] {
                self.in_want.insert(flow.number, place);
            }
            return;
        };
        let Slot::Stock(stream, _) = self.vacate(taken) else { return };
        let header = header::write(ends).unwrap_or_default();
        if self.register(&stream, place, 1, true).is_err() {
            return self.no_way(place, false);
        }
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        flow.sides[1] = End::connected(stream);
        flow.pipes[0].push(&header);
        self.line.side(1).connections += 1;
        self.work(place);
    }

    /// Those that wait for stock get what has come.
    pub(super) fn serve_want(&mut self) {
        while !self.stock.is_empty()
            && let Some((_, place)) = self.in_want.pop_first()
        {
            let Slot::Flow(flow) = &self.slots[place] else { continue };
            let ends = flow.ends;
            if flow.sides[1].stream.is_none() {
                self.take_stock(place, ends);
            }
        }
    }
}
