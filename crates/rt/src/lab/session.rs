//! A session from its plan to its result.

mod helpers;
mod localhost;
mod path_checks;

use std::collections::BTreeMap;
use std::io::{self, PipeWriter, Read};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use emu::namespace::NetworkClaim;
use emu::{DeviceAddress, ForwarderStats, Lab, RunningLab, namespace};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runtime::log_stderr;
use transport::pep::HandshakeMode;
use units::{Span, Time};

use super::HostAddress;
use super::hosts::{CLIENT, Hosts, SERVER};
use super::overrun_check;
use super::plan::{LabPlan, ProcessPlan};
use super::result::{self, CalibrationResult, LabResult, PathCheckResult};
use super::route_updates::RouteUpdater;
use super::shutdown::ShutdownSignal;
use super::simulated_users::SimulatedUsers;
use super::status_display::StatusDisplay;
use super::time_series::SeriesWriter;
use crate::namespace::handle::Namespace;
use crate::namespace::supervisor::{AlreadyReported, exit_code};
use crate::parent_process::{ParentProcess, take_descriptor};
use crate::uplink::listeners::SocketTables;
use crate::uplink::localhost::LoopbackAccess;
use crate::uplink::nat::{self, UplinkNetwork};
use crate::uplink::rule_table;
use crate::uplink::user_network::UserNetwork;
use crate::watchdog;
use path_checks::format_check;

/// Interval between two checks of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum time from the request to end a process until it is killed.
const STOP_TIMEOUT: Span = Span(3_000_000_000);

/// The path prefix of a plan that the parent process writes after it has started this process.
const DESCRIPTOR_PREFIX: &str = "/proc/self/fd/";

/// The arguments of the parent process beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct ParentHandles<'a> {
    /// The process id of the parent.
    pub parent: &'a str,
    /// A descriptor that stays open as long as any process of the session exists.
    pub lifetime_descriptor: &'a str,
    /// Folders that the parent process creates and removes, unless it ends early.
    pub folders: &'a [&'a str],
}

/// Runs the plan in file `plan` and returns the exit status of the first near command.
///
/// # Errors
/// Returns an error if the plan is invalid, or the error of the kernel.
pub fn run(plan: &str, handles: Option<ParentHandles<'_>>) -> io::Result<u8> {
    let mut shutdown = ShutdownSignal::prepare()?;
    let (lifetime_end, lifetime) = io::pipe()?;
    let parent = ParentProcess::open(handles.map(|handles| handles.parent));
    if let Some(hands) = handles {
        if let Ok(Some(parent)) = &parent {
            let descriptor = take_descriptor(hands.lifetime_descriptor, true)?;
            watchdog::start(parent, lifetime_end, descriptor.into(), hands.folders)?;
        } else {
            watchdog::remove_folders(hands.folders);
        }
    }
    let mut starter = parent?;
    let is_unprivileged = !nix::unistd::geteuid().is_root();
    // Each client has a namespace. It is created first, because the parent may still be writing the plan.
    let client_namespace = if is_unprivileged {
        None
    } else {
        shutdown.spawn_watchers(starter.take())?;
        Some(Namespace::create(&lifetime)?)
    };
    let mut plan: LabPlan = serde_json::from_str(&read_plan(plan)?)?;
    if plan.control.is_some() {
        plan.lab.add_adjustable_stages();
    }
    let needs_uplink = plan.has_uplink && !plan.server_namespace;
    // Opened first: an ordinary user leaves the network of the machine below.
    let machine_sockets = if plan.forwards_localhost && !plan.server_namespace {
        Some(SocketTables::open("self")?)
    } else {
        None
    };
    let mut user_network = if needs_uplink && is_unprivileged { prepare_uplink()? } else { None };
    if is_unprivileged {
        namespace::become_root()?;
        shutdown.spawn_watchers(starter)?;
    }
    if (needs_uplink && !is_unprivileged) || !plan.proxies.is_empty() {
        rule_table::check_available()?;
    }
    let mut session = LabSession::open(&plan, &lifetime, client_namespace)?;
    let checks = if plan.check {
        log_stderr(format_args!(
            "bentpipe: measuring the path first, for {}",
            session.estimate_check_time()
        ));
        session.check_paths()?
    } else {
        Vec::new()
    };
    for checked in &checks {
        let has_several = checks.len() > 1;
        let between = if has_several {
            format!("{} to {}: ", checked.from, checked.to)
        } else {
            String::new()
        };
        log_stderr(format_args!(
            "bentpipe: {between}{}",
            format_check(&checked.check, &checked.emulator_bounds)
        ));
    }
    session.start_helpers(&plan)?;
    let uplink_network = match &mut user_network {
        _ if !needs_uplink => None,
        Some(network) => Some(UplinkNetwork::UserNetwork {
            machine: network.open()?,
            far: session.hosts.addresses[SERVER],
        }),
        None => (!is_unprivileged).then_some(UplinkNetwork::Machine),
    };
    let access = match uplink_network {
        Some(UplinkNetwork::UserNetwork { machine, .. }) => {
            Some(LoopbackAccess::UserNetwork { has_v6: machine.v6.is_some() })
        }
        _ if is_unprivileged && !plan.server_namespace => None,
        _ => Some(LoopbackAccess::Direct),
    };
    let _localhost = session.forward_localhost(&plan, machine_sockets, access);
    let _nat = match uplink_network {
        Some(through) => {
            let (ends, near) = (&session.hosts.link_addresses, session.hosts.addresses[CLIENT]);
            Some(nat::open(&ends[ends.len() - 1][1].device, near, through)?)
        }
        None => None,
    };
    session.run_commands(&plan, checks, &shutdown)
}

/// Prepares the uplink of an ordinary user. Logs a message if it is not possible, because most labs work without it.
fn prepare_uplink() -> io::Result<Option<UserNetwork>> {
    let user_network = match rule_table::check_available() {
        Ok(()) => UserNetwork::prepare()?.ok_or_else(UserNetwork::not_installed_error),
        Err(error) => Err(error),
    };
    if let Err(why) = &user_network {
        log_stderr(format_args!("bentpipe: the lab has no uplink: {why}"));
    }
    Ok(user_network.ok())
}

/// Reads the plan from a file, or from the parent process until it closes its end.
fn read_plan(path: &str) -> io::Result<String> {
    let Some(number) = path.strip_prefix(DESCRIPTOR_PREFIX) else {
        return std::fs::read_to_string(path);
    };
    let mut text = String::new();
    take_descriptor(number, false)?.read_to_string(&mut text)?;
    // The parent process was interrupted before it wrote the plan.
    if text.is_empty() { Err(io::Error::other(AlreadyReported)) } else { Ok(text) }
}

/// The open resources of a session.
struct LabSession {
    hosts: Hosts,
    lab: Lab,
    /// The path before the start of its schedule, if the setup of the session needs it.
    preliminary: Option<RunningLab>,
    /// Proxies and services in the sequence of their start.
    helpers: Vec<(String, Child)>,
    /// Released after the devices in these networks.
    _networks: NetworkClaim,
}

impl LabSession {
    /// Creates namespaces, devices and routes.
    fn open(
        plan: &LabPlan,
        lifetime: &PipeWriter,
        client_namespace: Option<Namespace>,
    ) -> io::Result<LabSession> {
        let (hosts, networks) = Hosts::create(plan, lifetime, client_namespace)?;
        let saved_calibrations: Vec<_> = plan
            .calibrations
            .iter()
            .map(|directions| directions.each_ref().map(CalibrationResult::calibration))
            .collect();
        let lab =
            Lab::open(&plan.lab, &hosts.networks(), &hosts.link_addresses, &saved_calibrations)?;
        hosts.configure(plan)?;
        let preliminary =
            if plan.check || has_lasting_traffic(plan) { Some(lab.start()?) } else { None };
        Ok(LabSession { hosts, lab, preliminary, helpers: Vec::new(), _networks: networks })
    }

    /// Starts the schedule of the path and the near commands, waits for the commands, and stops all processes.
    fn run_commands(
        mut self,
        plan: &LabPlan,
        checks: Vec<PathCheckResult>,
        shutdown: &ShutdownSignal,
    ) -> io::Result<u8> {
        let updates = if self.hosts.layout.is_linear {
            None
        } else {
            Some(self.hosts.graph_routes(plan).prepare_updates()?)
        };
        if let Some(preliminary) = self.preliminary.take() {
            if has_lasting_traffic(plan) {
                wait_until_idle(&preliminary);
            }
            preliminary.stop()?;
        }
        let (running, simulated_users) = match &plan.background {
            None => (self.lab.start()?, None),
            Some(spec) => {
                let (result_sender, remaining) = mpsc::channel();
                let (running, injectors) = self.lab.start_with_injection(&result_sender)?;
                let nodes = &self.hosts.layout.nodes;
                let users = SimulatedUsers::start(
                    spec.clone(),
                    nodes,
                    injectors,
                    remaining,
                    running.clock,
                )?;
                (running, Some(users))
            }
        };
        let route_updater = updates.map(|changes| changes.start(running.clock)).transpose()?;
        let started_ns = running.clock.monotonic_ns;
        let mut series = match &plan.record {
            Some(record) => Some(SeriesWriter::create(record, &self.lab.link_names)?),
            None => None,
        };
        let mut status_display = StatusDisplay::start(plan)?;
        let mut pending_commands: Vec<&ProcessPlan> = plan.commands.iter().collect();
        pending_commands.sort_by_key(|process| process.start_ns);
        pending_commands.reverse();
        let mut commands: Vec<(String, Child)> = Vec::new();
        let mut statuses: BTreeMap<String, u8> = BTreeMap::new();
        let mut stopped_at: Option<Time> = None;
        shutdown.on_commands_started();
        while !pending_commands.is_empty() || !commands.is_empty() {
            let now = running.clock.now().0;
            while let Some(process) = pending_commands.pop_if(|process| process.start_ns <= now) {
                let server = self.hosts.addresses[SERVER];
                let named = [
                    ("BENTPIPE_SERVER", server.v4.to_string()),
                    ("BENTPIPE_SERVER6", server.v6.to_string()),
                    ("BENTPIPE_START_NS", started_ns.to_string()),
                ];
                let namespace = self.hosts.namespace_of(self.hosts.find(&process.node, CLIENT)?);
                let child = namespace.spawn(
                    process,
                    &self.hosts.expand_command(process)?,
                    &named,
                    false,
                )?;
                commands.push((process.name.clone(), child));
            }
            let mut index = 0;
            while index < commands.len() {
                match commands[index].1.try_wait()? {
                    Some(status) => {
                        let (name, _) = commands.swap_remove(index);
                        statuses.insert(name, exit_code(status));
                    }
                    None => index += 1,
                }
            }
            if self.hosts.namespaces.iter_mut().any(Namespace::has_ended) {
                return Err(io::Error::other("another process ended a namespace of the lab"));
            }
            match stopped_at {
                None if shutdown.is_requested() => {
                    stopped_at = Some(running.clock.now());
                    pending_commands.clear();
                    for (_, child) in &commands {
                        terminate(child);
                    }
                }
                // A process that ignores the signal ends with its namespace.
                Some(since) if running.clock.now().since(since) > STOP_TIMEOUT => {
                    commands.iter_mut().for_each(|(_, child)| drop(child.kill()));
                }
                _ => {}
            }
            if let Some(series) = &mut series {
                series.poll(&running);
            }
            status_display.poll(&self.lab, &running);
            let next = pending_commands.last().map_or(u64::MAX, |process| process.start_ns);
            let left = Duration::from_nanos(next.saturating_sub(running.clock.now().0));
            std::thread::sleep(POLL_INTERVAL.min(left));
        }
        let wall_s = running.clock.now().0 as f64 / 1e9;
        let user_bytes = simulated_users.map(SimulatedUsers::stop).transpose()?.unwrap_or_default();
        self.stop_helpers(&mut statuses, &running.clock);
        let routes_late = route_updater.map(RouteUpdater::stop).transpose()?.unwrap_or_default();
        let is_realtime = running.is_realtime;
        let stats = running.stop()?;
        if let Some(series) = &mut series {
            series.finish(&stats);
        }
        let status = plan.commands.first().and_then(|process| statuses.get(&process.name).copied());
        if let Some(file) = &plan.result {
            let result = LabResult {
                interrupted: stopped_at.is_some(),
                realtime: is_realtime,
                record_error: series.and_then(|series| series.error),
                background: user_bytes,
                ..self.build_result(checks, &stats, &routes_late, started_ns, wall_s, statuses)
            };
            std::fs::write(file, serde_json::to_vec(&result)?)
                .map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        }
        Ok(status.unwrap_or(0))
    }

    fn build_result(
        &self,
        checks: Vec<PathCheckResult>,
        stats: &[[ForwarderStats; 2]],
        routes_late: &[Span],
        started_ns: u64,
        wall_s: f64,
        statuses: BTreeMap<String, u8>,
    ) -> LabResult {
        let build_ends = |(is_client_to_server, link_nodes): (&[DeviceAddress; 2], &[usize; 2])| {
            result::LinkEnds {
                nodes: link_nodes.map(|node| self.hosts.layout.nodes[node].name.clone()),
                devices: [0, 1].map(|side| is_client_to_server[side].device.clone()),
                overruns: [0, 1].map(|side| {
                    self.hosts.namespaces[link_nodes[side]]
                        .overrun_packets(&is_client_to_server[side].device)
                }),
            }
        };
        let ends = self
            .hosts
            .link_addresses
            .iter()
            .zip(&self.hosts.layout.link_ends)
            .map(build_ends)
            .collect();
        let links = result::build_links(&self.lab, stats, ends);
        let routes = result::RouteUpdateResult::new(routes_late);
        let reasons = overrun_check::overrun_reasons(&self.lab, &links, routes.as_ref());
        let host_result = |host: usize| {
            let HostAddress { v4, v6 } = self.hosts.addresses[host];
            (self.hosts.name(host).to_owned(), result::HostResult { v4, v6 })
        };
        let ends = |check: &&PathCheckResult| {
            [&*check.from, &*check.to] == [self.hosts.name(0), self.hosts.name(1)]
        };
        let check = checks.iter().find(ends).map(|one| one.check);
        let cpu_s = stats
            .iter()
            .flatten()
            .map(|stats_of_direction| stats_of_direction.cpu_ns as f64 / 1e9)
            .sum();
        LabResult {
            valid: reasons.is_empty(),
            reasons,
            interrupted: false,
            realtime: false,
            record_error: None,
            background: Vec::new(),
            statuses,
            started_ns,
            wall_s,
            cpu_s,
            check,
            path_bounds: result::build_path_bounds(&self.lab.path_bounds[0]),
            checks: if self.hosts.layout.is_linear { Vec::new() } else { checks },
            routes,
            hosts: (0..self.hosts.addresses.len()).map(host_result).collect(),
            links,
        }
    }
}

/// Requests the end of a process.
fn terminate(process: &Child) {
    // The process may have ended already.
    let _ = kill(Pid::from_raw(process.id() as i32), Signal::SIGTERM);
}

/// Returns whether traffic from the setup continues beside the commands: connections of a pool, and of services.
fn has_lasting_traffic(plan: &LabPlan) -> bool {
    plan.proxies.iter().any(|proxy| proxy.handshake == HandshakeMode::Pooled)
        || !plan.services.is_empty()
}

/// Waits until no packet is in transit. Stopping the path would lose them.
fn wait_until_idle(running: &RunningLab) {
    let count_packets = || -> u64 {
        running
            .read_stats()
            .iter()
            .flatten()
            .map(|stats| stats.packets_in + stats.packets_out)
            .sum()
    };
    let mut previous = count_packets();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(150));
        let (now, is_idle) =
            (count_packets(), running.read_stats().iter().flatten().all(ForwarderStats::is_idle));
        if now == previous && is_idle {
            return;
        }
        previous = now;
    }
}
