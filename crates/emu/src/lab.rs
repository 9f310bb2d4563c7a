//! A path between namespaces: one pair of TUN devices a segment, one thread a direction.

use std::fs::File;
use std::io::{self, PipeReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use path::{Change, DelaySpec, GraphSpec, Line, LossModel, LossSpec, StageSpec};
use units::{Direction, Span, Time};

use crate::direction::{self, Changes};
use crate::frame::Users;
use crate::guests::{self, Guests, Inlet, Left, Part};
use crate::io::Tuns;
use crate::namespace::{self, Address};
use crate::net::{Net, Place, Promise, Version};
use crate::port::{self, Port};
use crate::present::{ByHand, Present, present};
use crate::{Calibration, Clock, Progress, clock, rehearsal};

/// What the emulator is to carry.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabSpec {
    /// The path.
    pub graph: GraphSpec,
    /// Node of the near side.
    pub client: String,
    /// Node of the far side.
    pub server: String,
    /// Hosts that take part beside these two.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Seed of the path's chance.
    pub seed: u64,
    /// Largest IP packet.
    pub mtu: u16,
    /// Whose packets are those from and to a port; all others are user 0's.
    #[serde(default)]
    pub users: Vec<(u16, u32)>,
}

impl LabSpec {
    /// Gives every link a delay and a loss to change while it runs, of 0 where it has none.
    pub fn make_changeable(&mut self) {
        for link in &mut self.graph.links {
            for stages in [&mut link.up, &mut link.down] {
                let takes = |change| stages.iter().any(|stage| stage.takes(&change));
                let delay = takes(Change::Delay(Span::ZERO))
                    || stages.iter().any(|stage| matches!(stage, StageSpec::DelayTrace(_)));
                let loss = takes(Change::Loss(0.0));
                if !delay {
                    stages.push(StageSpec::Delay(DelaySpec { delay_ns: 0, changes: Vec::new() }));
                }
                if !loss {
                    let model = LossModel::Bernoulli { probability: 0.0 };
                    stages.push(StageSpec::Loss(LossSpec { model, changes: Vec::new() }));
                }
            }
        }
    }

    /// What carries it: namespaces, and the ways between them.
    ///
    /// # Errors
    /// What is wrong with the path.
    pub fn outline(&self) -> io::Result<Outline> {
        let net = Net::new(self)?;
        let between = net.segments.iter().map(|segment| segment.between).collect();
        let Net { places, versions, is_chain, .. } = net;
        Ok(Outline { places, between, versions, is_chain })
    }
}

/// The namespaces of a lab, and the ways between them.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The nodes with a namespace of their own: of a chain in order from client to server; otherwise the hosts, client
    /// and server first, then those that pass on.
    pub places: Vec<Place>,
    /// The two places of each segment.
    pub between: Vec<[usize; 2]>,
    /// The routes from the start on, then what changes of them.
    pub versions: Vec<Version>,
    /// Client and server alone, with one way between them that stays.
    pub is_chain: bool,
}

/// The devices of a path, in place.
pub struct Lab {
    spec: LabSpec,
    devices: Vec<[Port; 2]>,
    /// What the ways between hosts promise, client and server first; of two that no way ever joins there is none.
    pub promises: Vec<Promise>,
    /// Names of the segments: of their links.
    pub segments: Vec<String>,
    /// Whether the kernel hands over super-frames, for each segment.
    pub offload: Vec<bool>,
    /// Names of the lines of each segment, up and down.
    lines: Vec<[Vec<String>; 2]>,
    /// What each direction has measured of itself, upwards and downwards.
    pub calibrations: Vec<[Calibration; 2]>,
}

impl Lab {
    /// Puts the devices of the path into `spaces`, those of [`Outline::places`]; `ends` has the two addresses of each
    /// segment. `kept` is what each direction has measured of itself before on this machine; of another number of
    /// segments it is measured anew.
    ///
    /// # Errors
    /// What is wrong with the path, or what the kernel refuses, in words.
    pub fn open(
        spec: &LabSpec,
        spaces: &[&File],
        ends: &[[Address; 2]],
        kept: &[[Calibration; 2]],
    ) -> io::Result<Lab> {
        let Net { segments, promises, .. } = Net::new(spec)?;
        let mut devices = Vec::new();
        let slowest = |lines: &[Line]| lines.iter().filter_map(Line::rate_bit_s).min();
        for (pair, segment) in ends.iter().zip(&segments) {
            let [up, down] = &segment.lines;
            let offload = port::is_worthwhile([slowest(up), slowest(down)]);
            let make = |side: usize| {
                let device = namespace::within(spaces[segment.between[side]], || {
                    namespace::tun(&pair[side], spec.mtu, offload)
                })?;
                Ok::<_, io::Error>(Port { device, mtu: spec.mtu })
            };
            devices.push([make(0)?, make(1)?]);
        }
        let offload = devices.iter().map(|[near, _]| near.has_offload()).collect();
        let is_kept = kept.len() == segments.len();
        let mut calibrations = if is_kept { kept.to_vec() } else { Vec::new() };
        for ((pair, [near, far]), segment) in
            ends.iter().zip(&devices).zip(&segments).skip(calibrations.len())
        {
            let rehearse = |side: usize, device: &Port| {
                let space = spaces[segment.between[side]];
                rehearsal::rehearse(space, &pair[side], &device.device, realtime)
            };
            calibrations.push([rehearse(0, near)?, rehearse(1, far)?]);
        }
        let (segments, lines) =
            segments.into_iter().map(|segment| (segment.name, segment.names)).unzip();
        Ok(Lab { spec: spec.clone(), devices, promises, segments, offload, lines, calibrations })
    }

    /// Carries packets from now on: the path's schedule begins, its chance is the seed's.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(&self) -> io::Result<Running> {
        self.start_with(Vec::new())
    }

    /// The same, with somebody inside who shares the path: where packets enter each segment upwards and downwards. What became of
    /// each is sent to `left`; what has come to the end of a segment goes no further by itself.
    ///
    /// # Errors
    /// No thread or pipe can be made.
    pub fn start_shared(&self, left: &Sender<Left>) -> io::Result<(Running, Vec<[Inlet; 2]>)> {
        let (mut inlets, mut guests) = (Vec::new(), Vec::new());
        for segment in 0..self.devices.len() {
            let open = |direction| guests::open(Part { segment, direction }, left.clone());
            let (up, up_guests, up_bell) = open(Direction::Up)?;
            let (down, down_guests, down_bell) = open(Direction::Down)?;
            inlets.push([up, down]);
            guests.push([(up_guests, up_bell), (down_guests, down_bell)]);
        }
        Ok((self.start_with(guests)?, inlets))
    }

    /// With guests in each segment, or with none.
    fn start_with(&self, guests: Vec<[(Guests, PipeReader); 2]>) -> io::Result<Running> {
        let mut guests = guests.into_iter();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut threads, mut progress, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut begins, (ready, seen)) = (Vec::new(), mpsc::channel());
        let segments = Net::new(&self.spec)?.segments;
        let parts = segments.into_iter().zip(&self.devices).zip(&self.calibrations);
        for ((segment, [near, far]), calibrations) in parts {
            let shared: [Arc<Mutex<Progress>>; 2] = Default::default();
            let wanted: [Changes; 2] = Default::default();
            let mut guests = guests.next().map(|both| both.map(Some));
            let [up, down] = segment.lines;
            let ways = [("up", near, far, up), ("down", far, near, down)];
            for (way, (name, from, to, lines)) in ways.into_iter().enumerate() {
                let (from, to, calibration) = (from.clone(), to.clone(), calibrations[way]);
                let (shared, wanted) = (shared[way].clone(), wanted[way].clone());
                let (stop, ready) = (stop.clone(), ready.clone());
                let users = Users::new(&self.spec.users);
                let (guests, bell) = guests.as_mut().and_then(|both| both[way].take()).unzip();
                let (begin, told) = mpsc::channel();
                let thread = std::thread::Builder::new().name(name.to_owned());
                threads.push(thread.spawn(move || {
                    let _ = ready.send(realtime());
                    let Ok(clock) = told.recv() else { return Ok(()) };
                    let io = Tuns::open(&from, to, clock, calibration, bell)?;
                    direction::Direction::new(io, lines, users, shared, wanted)
                        .beside(guests)
                        .run(&stop)
                })?);
                begins.push(begin);
            }
            progress.push(shared);
            changes.push(wanted);
        }
        // Time begins when every thread is there.
        let realtime = begins.iter().all(|_| seen.recv().is_ok_and(|yes| yes));
        let clock = Clock::start();
        for begin in begins {
            let _ = begin.send(clock);
        }
        Ok(Running { stop, threads, progress, changes, clock, realtime })
    }

    /// Changes the first stage of `line` (`"satellite.up"`) that `change` concerns, from now on.
    ///
    /// # Errors
    /// As [`Lab::can_change`].
    pub fn change(&self, running: &Running, line: &str, change: Change) -> io::Result<()> {
        let (segment, way, place, stage) = self.place(line, change)?;
        if let Ok(mut wanted) = running.changes[segment][way].lock() {
            wanted.push((place, stage, change));
        }
        Ok(())
    }

    /// Whether [`Lab::change`] would.
    ///
    /// # Errors
    /// There is no such line on the path, or no such stage in it.
    pub fn can_change(&self, line: &str, change: Change) -> io::Result<()> {
        self.place(line, change).map(|_| ())
    }

    /// What can be changed of its lines, as it is at `now` after the changes `by_hand`.
    pub fn present(&self, by_hand: &[(String, ByHand)], now: Time) -> Vec<Present> {
        present(&self.spec.graph, by_hand, now)
    }

    /// Segment, direction, line and stage that `change` concerns.
    fn place(&self, line: &str, change: Change) -> io::Result<(usize, usize, usize, usize)> {
        let (name, direction) = line.rsplit_once('.').unwrap_or((line, ""));
        let found = self.lines.iter().enumerate().find_map(|(segment, ways)| {
            ways.iter().enumerate().find_map(|(way, lines)| {
                let place = lines.iter().position(|other| other == line)?;
                Some((segment, way, place))
            })
        });
        let link = self.spec.graph.links.iter().find(|link| link.name == name);
        let (Some((segment, way, place)), Some(link)) = (found, link) else {
            let names = self.segments.join(", ");
            return Err(io::Error::other(format!("no segment {name:?} on the path: {names}")));
        };
        let stages = if direction == "up" { &link.up } else { &link.down };
        let Some(stage) = stages.iter().position(|stage| stage.takes(&change)) else {
            let what = match change {
                Change::Rate(_) => "rate",
                Change::Delay(_) => "delay",
                Change::Loss(_) => "loss",
                Change::Limit(_) => "limit",
                Change::InFlight(_) => "packet in flight",
                Change::Serves(_) => "transmitter",
            };
            return Err(io::Error::other(format!(
                "{line} has no {what} that can change; give it one in the scenario"
            )));
        };
        Ok((segment, way, place, stage))
    }
}

/// Has the calling thread wake when it asked to, as the path's own threads do.
///
/// # Errors
/// The kernel's.
pub fn attend() -> io::Result<bool> {
    clock::sharpen()?;
    Ok(realtime())
}

/// Asks for the real-time scheduler for the calling thread: a packet that is due then waits for no other
/// process. Root has it; an ordinary user where RLIMIT_RTPRIO allows it. Whether it was granted.
fn realtime() -> bool {
    let thread = nix::unistd::gettid().to_string();
    let asked = Command::new("chrt")
        .args(["--fifo", "--pid", REALTIME_PRIORITY, &thread])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// Above every ordinary process, below the kernel's own threads (50, sched(7)).
const REALTIME_PRIORITY: &str = "10";

/// A path at work.
pub struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Of each segment, upwards and downwards.
    pub progress: Vec<[Arc<Mutex<Progress>>; 2]>,
    changes: Vec<[Changes; 2]>,
    /// Its time.
    pub clock: Clock,
    /// Whether its threads have the real-time scheduler.
    pub realtime: bool,
}

impl Running {
    /// What each segment has done so far, upwards and downwards.
    pub fn read(&self) -> Vec<[Progress; 2]> {
        let read = |shared: &Arc<Mutex<Progress>>| {
            shared.lock().map(|progress| progress.clone()).unwrap_or_default()
        };
        self.progress.iter().map(|[up, down]| [read(up), read(down)]).collect()
    }

    /// Ends it.
    ///
    /// # Errors
    /// Why a direction ended before its time.
    pub fn stop(mut self) -> io::Result<Vec<[Progress; 2]>> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a direction panicked")))?;
        }
        Ok(self.read())
    }
}
