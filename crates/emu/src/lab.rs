//! A path between namespaces: cut at the nodes that split TCP, one pair of TUN devices a segment, one
//! thread a direction.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use path::{GraphSpec, Line, NodeKind, Topology};
use tun_rs::SyncDevice;
use units::Span;

use crate::namespace::{self, Address};
use crate::{Clock, Direction, Progress};

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
}

/// The part of a path between two namespaces.
struct Segment {
    name: String,
    up: Vec<Line>,
    down: Vec<Line>,
}

impl LabSpec {
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
        let topology = Topology::build(&self.graph, self.seed)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let node = |name: &str| {
            topology
                .node_id(name)
                .ok_or_else(|| io::Error::other(format!("the path has no node {name:?}")))
        };
        let (client, server) = (node(&self.client)?, node(&self.server)?);
        let (up, down) =
            (topology.path_between(client, server), topology.path_between(server, client));
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
        let mut lines: Vec<Option<Line>> = topology.lines.into_iter().map(Some).collect();
        let mut take = |part: Vec<usize>| -> Vec<Line> {
            part.into_iter().filter_map(|line| lines[line].take()).collect()
        };
        Ok(names
            .into_iter()
            .zip(ups.into_iter().zip(downs))
            .map(|(name, (up, down))| Segment { name, up: take(up), down: take(down) })
            .collect())
    }
}

/// The devices of a path, in place.
pub struct Lab {
    spec: LabSpec,
    devices: Vec<[Arc<SyncDevice>; 2]>,
    /// Rate of each direction that the path cannot exceed, bit/s.
    pub rates: [Option<u64>; 2],
    /// Round-trip propagation that no packet is faster than.
    pub propagation: Span,
    /// Names of the segments: of their links.
    pub segments: Vec<String>,
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
        for (place, pair) in ends.iter().enumerate() {
            let make = |side: usize| {
                namespace::within(spaces[place + side], || namespace::tun(&pair[side], spec.mtu))
            };
            devices.push([make(0)?, make(1)?]);
        }
        let segments = segments.into_iter().map(|segment| segment.name).collect();
        Ok(Lab { spec: spec.clone(), devices, rates, propagation, segments })
    }

    /// Carries packets from now on: the path's schedule begins, its chance is the seed's.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(&self) -> io::Result<Running> {
        let (stop, clock) = (Arc::new(AtomicBool::new(false)), Clock::start());
        let (mut threads, mut progress) = (Vec::new(), Vec::new());
        for (segment, [near, far]) in self.spec.segments()?.into_iter().zip(&self.devices) {
            let shared: [Arc<Mutex<Progress>>; 2] = Default::default();
            let ways = [("up", near, far, segment.up), ("down", far, near, segment.down)];
            for ((name, from, to, lines), shared) in ways.into_iter().zip(&shared) {
                let direction =
                    Direction::new(from.clone(), to.clone(), lines, clock, shared.clone());
                let stop = stop.clone();
                let thread = std::thread::Builder::new().name(name.to_owned());
                threads.push(thread.spawn(move || direction.run(&stop))?);
            }
            progress.push(shared);
        }
        Ok(Running { stop, threads, progress, clock })
    }
}

/// A path at work.
pub struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Of each segment, upwards and downwards.
    pub progress: Vec<[Arc<Mutex<Progress>>; 2]>,
    /// Its time.
    pub clock: Clock,
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
