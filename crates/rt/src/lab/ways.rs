//! Routes in the kernels of a lab: of a chain, segment by segment; of a graph, host by host, and what changes of them.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use emu::{Address, Clock, Outline, Route, Version, namespace};
use path::NodeKind;
use units::{Span, Time};

use super::space::Space;

/// What passes packets on.
const FORWARDING: [&str; 2] = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];

/// Packets may come from where none would be sent back to.
const FILTERS: [&str; 2] = ["net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter"];

/// Where packets without a way go.
const NOWHERE: &str = "nowhere";

/// Longest sleep between two looks at whether the lab ends.
const LOOK: Duration = Duration::from_millis(20);

/// The one address of a host, in both families.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// Default routes, as a line tells them apart.
const EVERYWHERE_V4: &str = "0.0.0.0/0";
const EVERYWHERE_V6: &str = "::/0";

fn windows(segments: Option<u32>) -> String {
    segments.map_or(String::new(), |segments| format!("initcwnd {segments} initrwnd {segments}"))
}

/// Routes of a chain: towards the server by default, towards the client segment by segment; proxies forward. `initial`
/// has the two ends' initial windows.
///
/// # Errors
/// The kernel's.
pub fn chain(spaces: &[Space], ends: &[[Address; 2]], initial: [Option<u32>; 2]) -> io::Result<()> {
    let line = |to: &dyn Display, device: &str, window: &str| {
        format!("route replace {to} dev {device} {window}\n")
    };
    let last = ends.len();
    for (place, space) in spaces.iter().enumerate() {
        if place > 0 && place < last {
            FORWARDING.iter().try_for_each(|name| space.set(name, "1"))?;
            FILTERS.iter().try_for_each(|name| space.set(name, "0"))?;
        }
        let mut lines = String::new();
        // Back towards the client, all the way.
        if place > 0 {
            let own = &ends[place - 1][1];
            let window = if place == last { windows(initial[1]) } else { String::new() };
            for [peer, other] in &ends[..place] {
                lines += &line(&peer.v4, &own.device, &window);
                lines += &line(&peer.v6, &own.device, &window);
                if place > 1 && other.v4 != own.v4 {
                    lines += &line(&other.v4, &own.device, "");
                    lines += &line(&other.v6, &own.device, "");
                }
            }
        }
        // Onwards: everything else.
        if place < last {
            let window = if place == 0 { windows(initial[0]) } else { String::new() };
            let own = &ends[place][0];
            for to in [&EVERYWHERE_V6 as &dyn Display, &EVERYWHERE_V4, &own.peer_v4, &own.peer_v6] {
                lines += &line(to, &own.device, &window);
            }
        }
        space.ip(&lines)?;
    }
    Ok(())
}

/// What the routes of a graph are made of: namespaces by place, devices by segment, each host's address and initial
/// window.
#[derive(Clone, Copy)]
pub struct Graph<'a> {
    pub outline: &'a Outline,
    pub spaces: &'a [Space],
    pub ends: &'a [[Address; 2]],
    pub homes: &'a [Home],
    pub initial: &'a [Option<u32>],
    pub mtu: u16,
}

impl Graph<'_> {
    /// Addresses of the hosts, on their loopback devices, and the routes from the start on. Hosts forward nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin(&self) -> io::Result<()> {
        for (place, (node, space)) in self.outline.places.iter().zip(self.spaces).enumerate() {
            let passes = if node.kind == NodeKind::Host { "0" } else { "1" };
            FORWARDING.iter().try_for_each(|name| space.set(name, passes))?;
            FILTERS.iter().try_for_each(|name| space.set(name, "0"))?;
            let routes = self.outline.versions.iter().flat_map(|version| &version.routes);
            if routes.into_iter().any(|route| route.at == place && route.leg.is_none()) {
                namespace::within(&space.network, || namespace::nowhere(NOWHERE, self.mtu))?;
            }
            let mut lines = String::new();
            if let Some(home) = self.homes.get(place) {
                lines +=
                    &format!("addr add {} dev lo\naddr add {} dev lo nodad\n", home.v4, home.v6);
            }
            if let Some(first) = self.outline.versions.first().filter(|one| one.from == Time::ZERO)
            {
                lines += &self.lines(first, place);
            }
            space.ip(&lines)?;
        }
        Ok(())
    }

    /// What `ip` is told at `place` when the routes of `version` come into force.
    fn lines(&self, version: &Version, place: usize) -> String {
        let own = version.routes.iter().filter(|route| route.at == place);
        own.flat_map(|route| self.route(route)).collect()
    }

    fn route(&self, route: &Route) -> [String; 2] {
        let device = match route.leg {
            Some(leg) => &*self.ends[leg.segment][leg.side].device,
            None => NOWHERE,
        };
        let to = self.homes[route.to];
        let window = windows(self.initial.get(route.at).copied().flatten());
        let from = self.homes.get(route.at);
        let src =
            |address: Option<String>| address.map_or(String::new(), |one| format!("src {one}"));
        let line = |to: String, from: Option<String>| {
            format!("route replace {to} dev {device} {} {window}\n", src(from))
        };
        [
            line(to.v4.to_string(), from.map(|home| home.v4.to_string())),
            line(to.v6.to_string(), from.map(|home| home.v6.to_string())),
        ]
    }

    /// Readies what changes later: an `ip` that waits in each namespace where something does.
    ///
    /// # Errors
    /// The kernel's.
    pub fn changes(&self) -> io::Result<Changes> {
        let later = || self.outline.versions.iter().filter(|version| version.from > Time::ZERO);
        let mut steps = Vec::new();
        let mut tools = Vec::new();
        for (place, space) in self.spaces.iter().enumerate() {
            let own: Vec<(Time, String)> = later()
                .map(|version| (version.from, self.lines(version, place)))
                .filter(|(_, lines)| !lines.is_empty())
                .collect();
            if own.is_empty() {
                continue;
            }
            steps.extend(own.into_iter().map(|(at, lines)| (at, tools.len(), lines)));
            tools.push(namespace::within(&space.network, namespace::listening_ip)?);
        }
        steps.sort();
        Ok(Changes { steps, tools })
    }
}

/// Changes of routes that wait for their instants.
pub struct Changes {
    /// The instant, which of the tools, what it is told.
    steps: Vec<(Time, usize, String)>,
    tools: Vec<Child>,
}

impl Changes {
    /// Makes them at their instants by `clock`, on a thread of their own.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(self, clock: Clock) -> io::Result<Changing> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, (told, late)) = (stop.clone(), mpsc::channel());
        let thread = thread::Builder::new().name("routes".to_owned()).spawn(move || {
            let Changes { steps, mut tools } = self;
            for (at, tool, lines) in steps {
                while clock.now() < at && !seen.load(Ordering::Relaxed) {
                    let left = Duration::from_nanos(at.since(clock.now()).nanos());
                    thread::sleep(left.min(LOOK));
                }
                if seen.load(Ordering::Relaxed) {
                    break;
                }
                if let Some(input) = &mut tools[tool].stdin {
                    input.write_all(lines.as_bytes())?;
                }
                let _ = told.send(clock.now().since(at));
            }
            for mut tool in tools {
                drop(tool.stdin.take());
                tool.wait()?;
            }
            Ok(())
        })?;
        Ok(Changing { stop, thread, late })
    }
}

/// Changes of routes at work.
pub struct Changing {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
    late: mpsc::Receiver<Span>,
}

impl Changing {
    /// Ends it; how late each change was that was made.
    ///
    /// # Errors
    /// An `ip` is gone.
    pub fn stop(self) -> io::Result<Vec<Span>> {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.join();
        done.unwrap_or_else(|_| Err(io::Error::other("the changes of routes panicked")))?;
        Ok(self.late.iter().collect())
    }
}
