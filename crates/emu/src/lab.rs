//! A path between two namespaces: two TUN devices, one thread a direction.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use path::{GraphSpec, Line, Topology};
use units::Span;

use crate::namespace::{self, Address};
use crate::{Check, Clock, Direction, Progress, check};

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

/// A running path.
pub struct Lab {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Upwards, then downwards.
    pub progress: [Arc<Mutex<Progress>>; 2],
    /// Rate of each direction that the path cannot exceed, bit/s.
    pub rates: [Option<u64>; 2],
    /// Round-trip propagation that no packet is faster than.
    pub propagation: Span,
}

impl Lab {
    /// Puts the path between a device in the namespace `near` and one in the caller's.
    ///
    /// # Errors
    /// What is wrong with the path, or what the kernel refuses, in words.
    pub fn start(spec: &LabSpec, near: &File, ends: &[Address; 2]) -> io::Result<Lab> {
        let topology = Topology::build(&spec.graph, spec.seed)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let node = |name: &str| {
            topology
                .node_id(name)
                .ok_or_else(|| io::Error::other(format!("the path has no node {name:?}")))
        };
        let (client, server) = (node(&spec.client)?, node(&spec.server)?);
        let ways = [topology.path_between(client, server), topology.path_between(server, client)];
        let mut lines: Vec<Option<Line>> = topology.lines.into_iter().map(Some).collect();
        let mut take = |way: &[usize]| -> Vec<Line> {
            way.iter().filter_map(|line| lines[*line].take()).collect()
        };
        let (up, down) = (take(&ways[0]), take(&ways[1]));
        let narrowest = |lines: &[Line]| lines.iter().filter_map(Line::rate_bit_s).min();
        let rates = [narrowest(&up), narrowest(&down)];
        let propagation = Span(up.iter().chain(&down).map(Line::propagation_ns).sum());
        let near_device = namespace::within(near, || namespace::tun(&ends[0], spec.mtu))?;
        let far_device = namespace::tun(&ends[1], spec.mtu)?;
        let (stop, clock) = (Arc::new(AtomicBool::new(false)), Clock::start());
        let progress: [Arc<Mutex<Progress>>; 2] = Default::default();
        let mut threads = Vec::new();
        for (index, lines) in [up, down].into_iter().enumerate() {
            let (from, to) =
                if index == 0 { (&near_device, &far_device) } else { (&far_device, &near_device) };
            let shared = progress[index].clone();
            let direction = Direction::new(from.clone(), to.clone(), lines, clock, shared);
            let stop = stop.clone();
            let name = ["up", "down"][index].to_owned();
            threads
                .push(std::thread::Builder::new().name(name).spawn(move || direction.run(&stop))?);
        }
        Ok(Lab { stop, threads, progress, rates, propagation })
    }

    /// Measures the path between its two ends, before anything else uses it.
    ///
    /// # Errors
    /// No answer came, or the kernel refuses.
    pub fn check(&self, near: &File, ends: &[Address; 2]) -> io::Result<Check> {
        check::check(near, ends[0].v4, ends[1].v4, self.rates)
    }

    /// Ends it.
    ///
    /// # Errors
    /// Why a direction ended before its time.
    pub fn stop(self) -> io::Result<[Progress; 2]> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a direction panicked")))?;
        }
        let read = |index: usize| -> Progress {
            self.progress[index].lock().map(|progress| progress.clone()).unwrap_or_default()
        };
        Ok([read(0), read(1)])
    }
}
