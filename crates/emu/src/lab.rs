//! An emulated path between namespaces: one pair of TUN devices per link, one thread per direction.

use std::fs::File;
use std::io::{self, PipeReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use link::{SimplexLink, StageUpdate};
use units::{Direction, Time};

use crate::classifier::PortUserMap;
use crate::forwarder::{self, PendingStageUpdates};
use crate::injection::{self, EmulatedDirection, InjectionResult, InjectionSink, PacketInjector};
use crate::lab_spec::LabSpec;
use crate::layout::{NamespaceNode, NetworkLayout, PathBounds, TimedHostRoutes};
use crate::live_settings::{LiveSettings, ManualChange, settings_at};
use crate::namespace::{self, DeviceAddress};
use crate::tun_io::TunIo;
use crate::tun_port::{self, TunPort};
use crate::{Calibration, EmulatorClock, ForwarderStats, calibration, clock};

impl LabSpec {
    /// Returns the namespaces of the lab and the routes between them.
    ///
    /// # Errors
    /// Returns an error if the topology is invalid.
    pub fn build_layout(&self) -> io::Result<LabLayout> {
        let layout = NetworkLayout::new(self)?;
        let link_ends = layout.links.iter().map(|segment| segment.ends).collect();
        let NetworkLayout { nodes, timed_routes, is_linear, .. } = layout;
        Ok(LabLayout { nodes, link_ends, timed_routes, is_linear })
    }
}

/// The namespaces of a lab, and the routes between them.
#[derive(Clone, Debug)]
pub struct LabLayout {
    /// The nodes with a namespace. A linear path has them from client to server. Otherwise the hosts precede the
    /// routers, and client and server are the first hosts.
    pub nodes: Vec<NamespaceNode>,
    /// The indices of both end nodes of each link.
    pub link_ends: Vec<[usize; 2]>,
    /// The routes from the start on, and later changes.
    pub timed_routes: Vec<TimedHostRoutes>,
    /// Whether client and server are the only hosts and have one path that never changes.
    pub is_linear: bool,
}

/// The open devices of a path.
pub struct Lab {
    spec: LabSpec,
    ports: Vec<[TunPort; 2]>,
    /// The bounds of the paths between hosts, client and server first. Pairs that no path ever connects have no entry.
    pub path_bounds: Vec<PathBounds>,
    /// The names of the emulated links, from the names of their links.
    pub link_names: Vec<String>,
    /// Whether the kernel hands over super-frames, for each link.
    pub has_offload: Vec<bool>,
    /// The names of the simplex links of each emulated link, up and down.
    simplex_link_names: Vec<[Vec<String>; 2]>,
    /// The calibration of each direction, up and down.
    pub calibrations: Vec<[Calibration; 2]>,
}

impl Lab {
    /// Opens the devices of the path in `namespaces`, one per node of [`LabLayout::nodes`]. `addresses` has both
    /// addresses of each link. `saved` are calibrations from an earlier run on this machine. They are measured anew if
    /// the number of links differs.
    ///
    /// # Errors
    /// Returns an error if the path is invalid, or the error of the kernel.
    pub fn open(
        spec: &LabSpec,
        namespaces: &[&File],
        addresses: &[[DeviceAddress; 2]],
        saved: &[[Calibration; 2]],
    ) -> io::Result<Lab> {
        let NetworkLayout { links, path_bounds, .. } = NetworkLayout::new(spec)?;
        let mut ports = Vec::new();
        let slowest =
            |lines: &[SimplexLink]| lines.iter().filter_map(SimplexLink::rate_bit_s).min();
        for (pair, link) in addresses.iter().zip(&links) {
            let [up, down] = &link.simplex_links;
            let uses_offload = tun_port::uses_offload([slowest(up), slowest(down)]);
            let open_port = |side: usize| {
                let device = namespace::run_in(namespaces[link.ends[side]], || {
                    namespace::create_tun(&pair[side], spec.mtu, uses_offload)
                })?;
                Ok::<_, io::Error>(TunPort { device, mtu: spec.mtu })
            };
            ports.push([open_port(0)?, open_port(1)?]);
        }
        let has_offload = ports.iter().map(|[near, _]| near.has_offload()).collect();
        let is_saved = saved.len() == links.len();
        let mut calibrations = if is_saved { saved.to_vec() } else { Vec::new() };
        for ((pair, [near, far]), link) in
            addresses.iter().zip(&ports).zip(&links).skip(calibrations.len())
        {
            let measure = |side: usize, device: &TunPort| {
                let namespace = namespaces[link.ends[side]];
                calibration::measure_wakeups(namespace, &pair[side], &device.device, is_realtime)
            };
            calibrations.push([measure(0, near)?, measure(1, far)?]);
        }
        let (link_names, simplex_link_names) =
            links.into_iter().map(|link| (link.name, link.simplex_link_names)).unzip();
        Ok(Lab {
            spec: spec.clone(),
            ports,
            path_bounds,
            link_names,
            has_offload,
            simplex_link_names,
            calibrations,
        })
    }

    /// Starts to forward packets. The schedule of the path begins now, and its random streams use the seed.
    ///
    /// # Errors
    /// Returns an error if no thread can be created.
    pub fn start(&self) -> io::Result<RunningLab> {
        self.spawn_threads(Vec::new())
    }

    /// Starts the path with packet injection, and returns the injectors of each link, up and down. `results` receives
    /// the outcome of each packet. A packet at the end of a link is not forwarded to the next link.
    ///
    /// # Errors
    /// Returns an error if no thread or pipe can be created.
    pub fn start_with_injection(
        &self,
        results: &Sender<InjectionResult>,
    ) -> io::Result<(RunningLab, Vec<[PacketInjector; 2]>)> {
        let (mut injectors, mut sinks) = (Vec::new(), Vec::new());
        for link in 0..self.ports.len() {
            let open =
                |direction| injection::open(EmulatedDirection { link, direction }, results.clone());
            let (up, up_sink, up_pipe) = open(Direction::Up)?;
            let (down, down_sink, down_pipe) = open(Direction::Down)?;
            injectors.push([up, down]);
            sinks.push([(up_sink, up_pipe), (down_sink, down_pipe)]);
        }
        Ok((self.spawn_threads(sinks)?, injectors))
    }

    /// Starts the threads, with an injection sink for each direction or without any.
    fn spawn_threads(
        &self,
        injection_of_link: Vec<[(InjectionSink, PipeReader); 2]>,
    ) -> io::Result<RunningLab> {
        let mut injections = injection_of_link.into_iter();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut threads, mut stats, mut pending_updates) = (Vec::new(), Vec::new(), Vec::new());
        let (mut start_senders, (ready, seen)) = (Vec::new(), mpsc::channel());
        let links = NetworkLayout::new(&self.spec)?.links;
        let link_parts = links.into_iter().zip(&self.ports).zip(&self.calibrations);
        for ((link, [near, far]), calibrations) in link_parts {
            let shared_stats: [Arc<Mutex<ForwarderStats>>; 2] = Default::default();
            let updates: [PendingStageUpdates; 2] = Default::default();
            let mut injection = injections.next().map(|both| both.map(Some));
            let [up, down] = link.simplex_links;
            let directions = [("up", near, far, up), ("down", far, near, down)];
            for (direction, (name, from, to, lines)) in directions.into_iter().enumerate() {
                let (from, to, calibration) = (from.clone(), to.clone(), calibrations[direction]);
                let (shared_stats, updates) =
                    (shared_stats[direction].clone(), updates[direction].clone());
                let (stop, ready) = (stop.clone(), ready.clone());
                let users = PortUserMap::new(&self.spec.users);
                let (guests, wakeup_pipe) =
                    injection.as_mut().and_then(|both| both[direction].take()).unzip();
                let (begin, start) = mpsc::channel();
                let thread = std::thread::Builder::new().name(name.to_owned());
                threads.push(thread.spawn(move || {
                    let _ = ready.send(is_realtime());
                    let Ok(clock) = start.recv() else { return Ok(()) };
                    let io = TunIo::open(&from, to, clock, calibration, wakeup_pipe)?;
                    forwarder::Forwarder::new(io, lines, users, shared_stats, updates)
                        .with_injection(guests)
                        .run(&stop)
                })?);
                start_senders.push(begin);
            }
            stats.push(shared_stats);
            pending_updates.push(updates);
        }
        // Time starts when all threads are ready.
        let realtime = start_senders.iter().all(|_| seen.recv().is_ok_and(|yes| yes));
        let clock = EmulatorClock::start();
        for begin in start_senders {
            let _ = begin.send(clock);
        }
        Ok(RunningLab { stop, threads, stats, pending_updates, clock, is_realtime: realtime })
    }

    /// Applies `update` from now on to the first stage of `simplex_link` (`"satellite.up"`) that supports it.
    ///
    /// # Errors
    /// Returns the errors of [`Lab::check_update`].
    pub fn apply_update(
        &self,
        running: &RunningLab,
        simplex_link: &str,
        update: StageUpdate,
    ) -> io::Result<()> {
        let (link, direction, simplex_index, stage) = self.find_stage(simplex_link, update)?;
        if let Ok(mut updates) = running.pending_updates[link][direction].lock() {
            updates.push((simplex_index, stage, update));
        }
        Ok(())
    }

    /// Checks whether [`Lab::apply_update`] would succeed.
    ///
    /// # Errors
    /// Returns an error if the path has no such simplex link, or the link has no such stage.
    pub fn check_update(&self, simplex_link: &str, update: StageUpdate) -> io::Result<()> {
        self.find_stage(simplex_link, update).map(|_| ())
    }

    /// Returns the adjustable settings of all simplex links at `now`, with the changes `manual_changes`.
    pub fn settings_at(
        &self,
        manual_changes: &[(String, ManualChange)],
        now: Time,
    ) -> Vec<LiveSettings> {
        settings_at(&self.spec.graph, manual_changes, now)
    }

    /// Returns the link, direction, simplex link and stage that `update` concerns.
    fn find_stage(
        &self,
        simplex_link: &str,
        update: StageUpdate,
    ) -> io::Result<(usize, usize, usize, usize)> {
        let (name, direction) = simplex_link.rsplit_once('.').unwrap_or((simplex_link, ""));
        let found =
            self.simplex_link_names.iter().enumerate().find_map(|(link_index, directions)| {
                directions.iter().enumerate().find_map(|(direction_index, lines)| {
                    let simplex_index = lines.iter().position(|other| other == simplex_link)?;
                    Some((link_index, direction_index, simplex_index))
                })
            });
        let link = self.spec.graph.links.iter().find(|link| link.name == name);
        let (Some((link_index, direction_index, simplex_index)), Some(link)) = (found, link) else {
            let names = self.link_names.join(", ");
            return Err(io::Error::other(format!("no segment {name:?} on the path: {names}")));
        };
        let stages = if direction == "up" { &link.up } else { &link.down };
        let Some(stage) = stages.iter().position(|stage| stage.supports(&update)) else {
            let what = match update {
                StageUpdate::Rate(_) => "rate",
                StageUpdate::Delay(_) => "delay",
                StageUpdate::Loss(_) => "loss",
                StageUpdate::Limit(_) => "limit",
                StageUpdate::InFlight(_) => "packet in flight",
                StageUpdate::Enabled(_) => "transmitter",
            };
            return Err(io::Error::other(format!(
                "{simplex_link} has no {what} to change; set one in the scenario"
            )));
        };
        Ok((link_index, direction_index, simplex_index, stage))
    }
}

/// Sets the timer slack and the scheduler of the calling thread, as for the threads of the path.
///
/// # Errors
/// Returns the error of the kernel.
pub fn prepare_thread() -> io::Result<bool> {
    clock::minimise_timer_slack()?;
    Ok(is_realtime())
}

/// Requests the real-time scheduler for the calling thread, so that no other process delays a due packet. Root has it;
/// an ordinary user needs RLIMIT_RTPRIO. Returns whether the request was granted.
fn is_realtime() -> bool {
    let thread = nix::unistd::gettid().to_string();
    let result = Command::new("chrt")
        .args(["--fifo", "--pid", REALTIME_PRIORITY, &thread])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    result.is_ok_and(|status| status.success())
}

/// Above all ordinary processes, below the kernel threads (50, sched(7)).
const REALTIME_PRIORITY: &str = "10";

/// A path in operation.
pub struct RunningLab {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// The statistics of each link, up and down.
    pub stats: Vec<[Arc<Mutex<ForwarderStats>>; 2]>,
    pending_updates: Vec<[PendingStageUpdates; 2]>,
    /// The clock of the path.
    pub clock: EmulatorClock,
    /// Whether all threads have the real-time scheduler.
    pub is_realtime: bool,
}

impl RunningLab {
    /// Returns the statistics of each link since the start, up and down.
    pub fn read_stats(&self) -> Vec<[ForwarderStats; 2]> {
        let read = |shared: &Arc<Mutex<ForwarderStats>>| {
            shared.lock().map(|progress| progress.clone()).unwrap_or_default()
        };
        self.stats.iter().map(|[up, down]| [read(up), read(down)]).collect()
    }

    /// Stops the threads and returns the final statistics.
    ///
    /// # Errors
    /// Returns the error of a direction that ended early.
    pub fn stop(mut self) -> io::Result<Vec<[ForwarderStats; 2]>> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a direction panicked")))?;
        }
        Ok(self.read_stats())
    }
}
