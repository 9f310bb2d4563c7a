//! Kernel routes of a lab: per link for a linear path, per host for a general topology, with their changes over time.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use emu::{DeviceAddress, EmulatorClock, HostRoute, LabLayout, TimedHostRoutes, namespace};
use topology::NodeKind;
use units::{Span, Time};

use super::host_address::HostAddress;
use crate::namespace::handle::Namespace;

/// The settings that enable forwarding.
const FORWARDING: [&str; 2] = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];

/// The reverse-path filters. They would drop packets from sources without a return route on the same device.
const REVERSE_PATH_FILTERS: [&str; 2] =
    ["net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter"];

/// The device of packets without a route.
const BLACKHOLE_DEVICE: &str = "nowhere";

/// Longest sleep between two checks for the end of the lab.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Default routes in the notation of `ip`.
const DEFAULT_ROUTE_V4: &str = "0.0.0.0/0";
const DEFAULT_ROUTE_V6: &str = "::/0";

fn initial_window_options(segments: Option<u32>) -> String {
    segments.map_or(String::new(), |segments| format!("initcwnd {segments} initrwnd {segments}"))
}

/// Installs the routes of a linear path: the default route towards the server, one route per link towards the client.
/// Proxies forward. `initial_windows` belong to the two ends.
///
/// # Errors
/// Returns the error of the kernel.
pub fn install_linear_routes(
    namespaces: &[Namespace],
    link_addresses: &[[DeviceAddress; 2]],
    initial_windows: [Option<u32>; 2],
) -> io::Result<()> {
    let command = |to: &dyn Display, device: &str, window: &str| {
        format!("route replace {to} dev {device} {window}\n")
    };
    let last = link_addresses.len();
    for (index, namespace) in namespaces.iter().enumerate() {
        if index > 0 && index < last {
            FORWARDING.iter().try_for_each(|name| namespace.set_sysctl(name, "1"))?;
            REVERSE_PATH_FILTERS.iter().try_for_each(|name| namespace.set_sysctl(name, "0"))?;
        }
        let mut commands = String::new();
        // Routes to all addresses in the direction of the client.
        if index > 0 {
            let local = &link_addresses[index - 1][1];
            let window = if index == last {
                initial_window_options(initial_windows[1])
            } else {
                String::new()
            };
            for [peer, other] in &link_addresses[..index] {
                commands += &command(&peer.v4, &local.device, &window);
                commands += &command(&peer.v6, &local.device, &window);
                if index > 1 && other.v4 != local.v4 {
                    commands += &command(&other.v4, &local.device, "");
                    commands += &command(&other.v6, &local.device, "");
                }
            }
        }
        // Default routes in the direction of the server.
        if index < last {
            let window =
                if index == 0 { initial_window_options(initial_windows[0]) } else { String::new() };
            let addresses = &link_addresses[index][0];
            for to in [
                &DEFAULT_ROUTE_V6 as &dyn Display,
                &DEFAULT_ROUTE_V4,
                &addresses.peer_v4,
                &addresses.peer_v6,
            ] {
                commands += &command(to, &addresses.device, &window);
            }
        }
        namespace.run_ip(&commands)?;
    }
    Ok(())
}

/// The data of the routes of a general topology: namespaces by node, devices by link, the address and initial window of
/// each host.
#[derive(Clone, Copy)]
pub struct GraphRoutes<'a> {
    pub layout: &'a LabLayout,
    pub namespaces: &'a [Namespace],
    pub link_addresses: &'a [[DeviceAddress; 2]],
    pub host_addresses: &'a [HostAddress],
    pub initial_windows: &'a [Option<u32>],
    pub mtu: u16,
}

impl GraphRoutes<'_> {
    /// Adds the host addresses to the loopback devices and installs the initial routes. Hosts do not forward.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn install_initial_routes(&self) -> io::Result<()> {
        for (index, (node, namespace)) in self.layout.nodes.iter().zip(self.namespaces).enumerate()
        {
            let forwards = if node.kind == NodeKind::Host { "0" } else { "1" };
            FORWARDING.iter().try_for_each(|name| namespace.set_sysctl(name, forwards))?;
            REVERSE_PATH_FILTERS.iter().try_for_each(|name| namespace.set_sysctl(name, "0"))?;
            let routes = self.layout.timed_routes.iter().flat_map(|version| &version.routes);
            if routes.into_iter().any(|route| route.node == index && route.interface.is_none()) {
                namespace::run_in(&namespace.network, || {
                    namespace::create_blackhole(BLACKHOLE_DEVICE, self.mtu)
                })?;
            }
            let mut commands = String::new();
            if let Some(host_address) = self.host_addresses.get(index) {
                commands += &format!(
                    "addr add {} dev lo\naddr add {} dev lo nodad\n",
                    host_address.v4, host_address.v6
                );
            }
            if let Some(first) =
                self.layout.timed_routes.first().filter(|one| one.valid_from == Time::ZERO)
            {
                commands += &self.ip_commands(first, index);
            }
            namespace.run_ip(&commands)?;
        }
        Ok(())
    }

    /// Returns the `ip` commands at `node` for the routes of `update`.
    fn ip_commands(&self, update: &TimedHostRoutes, node: usize) -> String {
        let routes = update.routes.iter().filter(|route| route.node == node);
        routes.flat_map(|route| self.route_commands(route)).collect()
    }

    fn route_commands(&self, route: &HostRoute) -> [String; 2] {
        let device = match route.interface {
            Some(interface) => &*self.link_addresses[interface.link][interface.side].device,
            None => BLACKHOLE_DEVICE,
        };
        let to = self.host_addresses[route.destination];
        let window =
            initial_window_options(self.initial_windows.get(route.node).copied().flatten());
        let local = self.host_addresses.get(route.node);
        let src =
            |address: Option<String>| address.map_or(String::new(), |one| format!("src {one}"));
        let command = |to: String, from: Option<String>| {
            format!("route replace {to} dev {device} {} {window}\n", src(from))
        };
        [
            command(to.v4.to_string(), local.map(|home| home.v4.to_string())),
            command(to.v6.to_string(), local.map(|home| home.v6.to_string())),
        ]
    }

    /// Prepares the route changes: starts a waiting `ip` process in each namespace with changes.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn prepare_updates(&self) -> io::Result<PendingRouteUpdates> {
        let later_updates =
            || self.layout.timed_routes.iter().filter(|version| version.valid_from > Time::ZERO);
        let mut steps = Vec::new();
        let mut tools = Vec::new();
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let commands: Vec<(Time, String)> = later_updates()
                .map(|version| (version.valid_from, self.ip_commands(version, index)))
                .filter(|(_, lines)| !lines.is_empty())
                .collect();
            if commands.is_empty() {
                continue;
            }
            steps.extend(commands.into_iter().map(|(at, lines)| (at, tools.len(), lines)));
            tools.push(namespace::run_in(&namespace.network, namespace::spawn_ip_batch)?);
        }
        steps.sort();
        Ok(PendingRouteUpdates { steps, tools })
    }
}

/// Pending route changes.
pub struct PendingRouteUpdates {
    /// The time, the index of the `ip` process, the commands.
    steps: Vec<(Time, usize, String)>,
    tools: Vec<Child>,
}

impl PendingRouteUpdates {
    /// Starts a thread that applies the changes at their times by `clock`.
    ///
    /// # Errors
    /// Returns an error if no thread can be created.
    pub fn start(self, clock: EmulatorClock) -> io::Result<RouteUpdater> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stop_requested, (lateness_sender, lateness)) = (stop.clone(), mpsc::channel());
        let thread = thread::Builder::new().name("routes".to_owned()).spawn(move || {
            let PendingRouteUpdates { steps, mut tools } = self;
            for (at, tool, lines) in steps {
                while clock.now() < at && !stop_requested.load(Ordering::Relaxed) {
                    let left = Duration::from_nanos(at.since(clock.now()).nanos());
                    thread::sleep(left.min(POLL_INTERVAL));
                }
                if stop_requested.load(Ordering::Relaxed) {
                    break;
                }
                if let Some(input) = &mut tools[tool].stdin {
                    input.write_all(lines.as_bytes())?;
                }
                let _ = lateness_sender.send(clock.now().since(at));
            }
            for mut tool in tools {
                drop(tool.stdin.take());
                tool.wait()?;
            }
            Ok(())
        })?;
        Ok(RouteUpdater { stop, thread, lateness })
    }
}

/// The thread that applies the route changes.
pub struct RouteUpdater {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
    lateness: mpsc::Receiver<Span>,
}

impl RouteUpdater {
    /// Stops the thread and returns the lateness of each applied change.
    ///
    /// # Errors
    /// Returns an error if an `ip` process has ended.
    pub fn stop(self) -> io::Result<Vec<Span>> {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.join();
        done.unwrap_or_else(|_| Err(io::Error::other("the thread that changes routes panicked")))?;
        Ok(self.lateness.iter().collect())
    }
}
