//! A path between namespaces: cut at the nodes that split TCP, one pair of TUN devices a segment, one
//! thread a direction.

use std::fs::File;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use path::{
    Change, DelaySpec, GraphSpec, Line, LossModel, LossSpec, NodeKind, StageSpec, Topology,
};
use units::{Span, Time};

use crate::direction::{Changes, Direction};
use crate::frame::Users;
use crate::io::Tuns;
use crate::namespace::{self, Address};
use crate::port::{self, Port};
use crate::{Calibration, Clock, Progress, rehearsal};

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
    /// Seed of the path's chance.
    pub seed: u64,
    /// Largest IP packet.
    pub mtu: u16,
    /// Whose packets are those from and to a port; all others are user 0's.
    #[serde(default)]
    pub users: Vec<(u16, u32)>,
}

/// The part of a path between two namespaces.
struct Segment {
    name: String,
    /// Names of the lines of both directions, each in the order a packet meets them.
    lines: [Vec<String>; 2],
    up: Vec<Line>,
    down: Vec<Line>,
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

    /// Nodes on the way that split TCP, from the client on. Each needs a namespace of its own.
    ///
    /// # Errors
    /// What is wrong with the path.
    pub fn proxies(&self) -> io::Result<Vec<String>> {
        let (topology, up, _) = self.ways()?;
        let ends = up.iter().map(|line| topology.line_end(*line));
        let split = ends.filter(|node| topology.node_kind(*node) == NodeKind::Proxy);
        Ok(split.map(|node| topology.node_name(node).to_owned()).collect())
    }

    fn ways(&self) -> io::Result<(Topology, Vec<usize>, Vec<usize>)> {
        let mut topology = Topology::build(&self.graph, self.seed)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let node = |name: &str| {
            topology
                .node_id(name)
                .ok_or_else(|| io::Error::other(format!("the path has no node {name:?}")))
        };
        let (client, server) = (node(&self.client)?, node(&self.server)?);
        let ways = |topology: &Topology| {
            (topology.path_between(client, server), topology.path_between(server, client))
        };
        let (up, down) = ways(&topology);
        // Devices stand where they stand: a hand-over changes the links of a way here, not the way.
        while topology.changes_at() < Time::MAX {
            let at = topology.changes_at();
            topology.apply(at);
            if ways(&topology) != (up.clone(), down.clone()) {
                return Err(io::Error::other(format!(
                    "at {at} packets go another way, which real time does not follow"
                )));
            }
        }
        Ok((topology, up, down))
    }

    fn segments(&self) -> io::Result<Vec<Segment>> {
        let (topology, up, down) = self.ways()?;
        let cut = |way: &[usize]| -> Vec<Vec<usize>> {
            let mut parts = vec![Vec::new()];
            for (place, line) in way.iter().enumerate() {
                parts.last_mut().expect("never empty").push(*line);
                let end = topology.line_end(*line);
                if place + 1 < way.len() && topology.node_kind(end) == NodeKind::Proxy {
                    parts.push(Vec::new());
                }
            }
            parts
        };
        let (ups, mut downs) = (cut(&up), cut(&down));
        downs.reverse();
        if ups.len() != downs.len() {
            return Err(io::Error::other("both directions have to pass the same proxies"));
        }
        let names: Vec<String> = ups
            .iter()
            .map(|part| {
                let links = part.iter().map(|line| topology.line_name(*line));
                links.map(|name| name.trim_end_matches(".up")).collect::<Vec<_>>().join("+")
            })
            .collect();
        let named = |part: &[usize]| -> Vec<String> {
            part.iter().map(|line| topology.line_name(*line).to_owned()).collect()
        };
        let named: Vec<[Vec<String>; 2]> =
            ups.iter().zip(&downs).map(|(up, down)| [named(up), named(down)]).collect();
        let mut lines: Vec<Option<Line>> = topology.lines.into_iter().map(Some).collect();
        let mut take = |part: Vec<usize>| -> Vec<Line> {
            part.into_iter().filter_map(|line| lines[line].take()).collect()
        };
        Ok(names
            .into_iter()
            .zip(named)
            .zip(ups.into_iter().zip(downs))
            .map(|((name, lines), (up, down))| Segment {
                name,
                lines,
                up: take(up),
                down: take(down),
            })
            .collect())
    }
}

/// The devices of a path, in place.
pub struct Lab {
    spec: LabSpec,
    devices: Vec<[Port; 2]>,
    /// Rate of each direction that the path cannot exceed, bit/s.
    pub rates: [Option<u64>; 2],
    /// Round-trip propagation that no packet is faster than.
    pub propagation: Span,
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
    /// Puts the devices of the path into `spaces`: the near one, those of the proxies in order, the far one;
    /// `ends` has the two addresses of each segment.
    ///
    /// # Errors
    /// What is wrong with the path, or what the kernel refuses, in words.
    pub fn open(spec: &LabSpec, spaces: &[&File], ends: &[[Address; 2]]) -> io::Result<Lab> {
        let segments = spec.segments()?;
        let narrowest = |way: fn(&Segment) -> &Vec<Line>| {
            segments.iter().flat_map(way).filter_map(Line::rate_bit_s).min()
        };
        let rates = [narrowest(|segment| &segment.up), narrowest(|segment| &segment.down)];
        let lines = segments.iter().flat_map(|segment| segment.up.iter().chain(&segment.down));
        let propagation = Span(lines.map(Line::propagation_ns).sum());
        let mut devices = Vec::new();
        let slowest = |lines: &[Line]| lines.iter().filter_map(Line::rate_bit_s).min();
        for ((place, pair), segment) in ends.iter().enumerate().zip(&segments) {
            let offload = port::is_worthwhile([slowest(&segment.up), slowest(&segment.down)]);
            let make = |side: usize| {
                let device = namespace::within(spaces[place + side], || {
                    namespace::tun(&pair[side], spec.mtu, offload)
                })?;
                Ok::<_, io::Error>(Port { device, mtu: spec.mtu })
            };
            devices.push([make(0)?, make(1)?]);
        }
        let offload = devices.iter().map(|[near, _]| near.has_offload()).collect();
        let mut calibrations = Vec::new();
        for (place, (pair, [near, far])) in ends.iter().zip(&devices).enumerate() {
            let rehearse = |side: usize, device: &Port| {
                rehearsal::rehearse(spaces[place + side], &pair[side], &device.device, realtime)
            };
            calibrations.push([rehearse(0, near)?, rehearse(1, far)?]);
        }
        let (segments, lines) =
            segments.into_iter().map(|segment| (segment.name, segment.lines)).unzip();
        Ok(Lab {
            spec: spec.clone(),
            devices,
            rates,
            propagation,
            segments,
            offload,
            lines,
            calibrations,
        })
    }

    /// Carries packets from now on: the path's schedule begins, its chance is the seed's.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(&self) -> io::Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut threads, mut progress, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut begins, (ready, seen)) = (Vec::new(), mpsc::channel());
        let parts = self.spec.segments()?.into_iter().zip(&self.devices).zip(&self.calibrations);
        for ((segment, [near, far]), calibrations) in parts {
            let shared: [Arc<Mutex<Progress>>; 2] = Default::default();
            let wanted: [Changes; 2] = Default::default();
            let ways = [("up", near, far, segment.up), ("down", far, near, segment.down)];
            for (way, (name, from, to, lines)) in ways.into_iter().enumerate() {
                let (from, to, calibration) = (from.clone(), to.clone(), calibrations[way]);
                let (shared, wanted) = (shared[way].clone(), wanted[way].clone());
                let (stop, ready) = (stop.clone(), ready.clone());
                let users = Users::new(&self.spec.users);
                let (begin, told) = mpsc::channel();
                let thread = std::thread::Builder::new().name(name.to_owned());
                threads.push(thread.spawn(move || {
                    let _ = ready.send(realtime());
                    let Ok(clock) = told.recv() else { return Ok(()) };
                    let io = Tuns::open(&from, to, clock, calibration)?;
                    Direction::new(io, lines, users, shared, wanted).run(&stop)
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
            };
            return Err(io::Error::other(format!(
                "{line} has no {what} that can change; give it one in the scenario"
            )));
        };
        Ok((segment, way, place, stage))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_may_be_handed_over_and_ways_may_not() {
        let spec = |change: &str| -> LabSpec {
            let node = |name: &str, kind: &str| format!(r#"{{"name":"{name}","kind":"{kind}"}}"#);
            let link = |name: &str, a: &str, b: &str| {
                let stages = r#"[{"kind":"delay","delay_ns":5}]"#;
                format!(
                    r#"{{"name":"{name}","client_side":"{a}","server_side":"{b}","up":{stages},"down":{stages}}}"#
                )
            };
            let nodes = [node("c", "host"), node("r", "router"), node("s", "host")].join(",");
            let links = [link("a", "c", "r"), link("b", "c", "r"), link("d", "r", "s")].join(",");
            let text = format!(
                r#"{{"graph":{{"nodes":[{nodes}],"links":[{links}],"changes":[{change}]}},
                    "client":"c","server":"s","seed":1,"mtu":1500}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let stays = r#"{"at_ns":7000000000,"links":[{"link":"b","in_use":false}],
            "stages":[{"line":"a.up","stage":0,"change":{"kind":"in_flight","fate":"lost"}}]}"#;
        let mut segments = spec(stays).segments().unwrap();
        assert_eq!(segments[0].name, "a+d");
        let mut out = path::Output::default();
        let line = &mut segments[0].up[0];
        line.push(Time(6_999_999_999), units::Packet::of_bytes(100), &mut out);
        line.poll(Time(8_000_000_000), &mut out);
        assert_eq!((out.delivered.len(), out.dropped[0].0), (0, Time(7_000_000_000)));
        // From the start is as if it had always been so; later is another way.
        let goes = |at: u64| {
            let gone = format!(r#"{{"at_ns":{at},"links":[{{"link":"a","in_use":false}}]}}"#);
            spec(&gone).segments().map(|segments| segments[0].name.clone())
        };
        assert_eq!(goes(0).unwrap(), "b+d");
        let error = goes(7_000_000_000).unwrap_err().to_string();
        assert!(error.contains("7.000000 s packets go another way"), "{error}");
    }
}
