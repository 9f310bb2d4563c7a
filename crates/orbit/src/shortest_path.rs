//! The shortest path over inter-satellite links and relaying ground stations.
//!
//! One pair uses A* (Hart, Nilsson and Raphael 1968): the straight line to the destination is a lower bound of the
//! remaining length. All paths to a destination use Dijkstra's algorithm from there. Ties go to the lower number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Vector;
use crate::isl::{IslGrid, NO_NODE};

/// The graph at one instant. Nodes are satellites, then relays.
pub(crate) struct GraphSnapshot<'a> {
    pub positions: &'a [Vector],
    pub grid: Option<&'a IslGrid>,
    /// The positions of the relays.
    pub relay_positions: &'a [Vector],
    /// The satellites visible from each relay, with the distance.
    pub relay_to_satellites: &'a [Vec<(u32, f64)>],
    /// The relays visible from each satellite; empty without relays.
    pub satellite_to_relays: &'a [Vec<(u32, f64)>],
    /// The distance from each satellite to the nearest destination, km; infinite if none is visible.
    pub exit_distance: &'a [f64],
    /// The positions of the destinations.
    pub destinations: &'a [Vector],
}

impl GraphSnapshot<'_> {
    fn position(&self, node: u32) -> Vector {
        let node = node as usize;
        if node < self.positions.len() {
            self.positions[node]
        } else {
            self.relay_positions[node - self.positions.len()]
        }
    }

    /// Returns a lower bound of the remaining distance from `node`, km.
    fn remaining_lower_bound(&self, node: u32) -> f64 {
        let here = self.position(node);
        self.destinations.iter().map(|end| here.distance(*end)).fold(f64::INFINITY, f64::min)
    }
}

/// The reusable buffers of a search.
#[derive(Default)]
pub(crate) struct ShortestPathSearch {
    cost: Vec<f64>,
    predecessor: Vec<u32>,
    /// Twice the number of the search that set a node's cost, plus one when the node is settled.
    visit_stamp: Vec<u64>,
    search_stamp: u64,
    frontier: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Maps a positive length to a key with the same order.
fn key(length: f64) -> u64 {
    length.to_bits()
}

impl ShortestPathSearch {
    fn begin(&mut self, nodes: usize) {
        if self.visit_stamp.len() != nodes {
            *self = ShortestPathSearch {
                cost: vec![0.0; nodes],
                predecessor: vec![NO_NODE; nodes],
                visit_stamp: vec![0; nodes],
                ..ShortestPathSearch::default()
            };
        }
        self.search_stamp += 2;
        self.frontier.clear();
    }

    /// Stores `cost` if it is less than the known cost of `node`. Returns whether it is.
    fn relax(&mut self, node: u32, cost: f64, before: u32) -> bool {
        let at = node as usize;
        if self.visit_stamp[at] > self.search_stamp
            || (self.visit_stamp[at] == self.search_stamp && self.cost[at] <= cost)
        {
            return false;
        }
        (self.visit_stamp[at], self.cost[at], self.predecessor[at]) =
            (self.search_stamp, cost, before);
        true
    }

    /// Marks `node` as settled. Returns whether it was not settled before in this search.
    fn settle(&mut self, node: u32) -> bool {
        let first = self.visit_stamp[node as usize] == self.search_stamp;
        self.visit_stamp[node as usize] = self.search_stamp + 1;
        first
    }

    /// Returns the length and the nodes of the shortest path from any of `starts` (a satellite and the distance up to
    /// it) to a destination.
    pub fn find_shortest_path(
        &mut self,
        scene: &GraphSnapshot,
        starts: &[(u32, f64)],
    ) -> Option<(f64, Vec<u32>)> {
        let nodes = scene.positions.len() + scene.relay_positions.len();
        let end = nodes as u32;
        self.begin(nodes + 1);
        for (node, up) in starts {
            if self.relax(*node, *up, NO_NODE) {
                self.frontier.push(Reverse((key(up + scene.remaining_lower_bound(*node)), *node)));
            }
        }
        while let Some(Reverse((_, node))) = self.frontier.pop() {
            if !self.settle(node) {
                continue;
            }
            let cost = self.cost[node as usize];
            if node == end {
                return Some((cost, self.reconstruct_path(self.predecessor[end as usize])));
            }
            let reach = |search: &mut ShortestPathSearch, other: u32, length: f64| {
                if search.relax(other, cost + length, node) {
                    let left = if other == end { 0.0 } else { scene.remaining_lower_bound(other) };
                    search.frontier.push(Reverse((key(cost + length + left), other)));
                }
            };
            let at = node as usize;
            if at >= scene.positions.len() {
                for (other, length) in &scene.relay_to_satellites[at - scene.positions.len()] {
                    reach(self, *other, *length);
                }
                continue;
            }
            if scene.exit_distance[at].is_finite() {
                reach(self, end, scene.exit_distance[at]);
            }
            if let Some(grid) = scene.grid {
                for direction in 0..4 {
                    if let Some((other, length)) =
                        grid.link_length(node, direction, scene.positions)
                    {
                        reach(self, other, length);
                    }
                }
            }
            if let Some(below) = scene.satellite_to_relays.get(at) {
                for (relay, length) in below {
                    reach(self, scene.positions.len() as u32 + relay, *length);
                }
            }
        }
        None
    }

    fn reconstruct_path(&self, mut node: u32) -> Vec<u32> {
        let mut found = Vec::new();
        while node != NO_NODE {
            found.push(node);
            node = self.predecessor[node as usize];
        }
        found.reverse();
        found
    }

    /// Computes the next hop of every satellite on its shortest path to a ground station that sees `starts`. `next`
    /// contains satellites, `u32::MAX - 1` for the ground station, and `u32::MAX` without a path.
    pub fn find_next_hops(&mut self, grid: &LinkLengths, starts: &[(u32, f64)], next: &mut [u32]) {
        self.begin(next.len());
        next.fill(NO_NODE);
        for (node, down) in starts {
            if self.relax(*node, *down, GROUND) {
                self.frontier.push(Reverse((key(*down), *node)));
            }
        }
        while let Some(Reverse((_, node))) = self.frontier.pop() {
            if !self.settle(node) {
                continue;
            }
            let at = node as usize;
            next[at] = self.predecessor[at];
            let cost = self.cost[at];
            for (other, length) in &grid.by_satellite[at] {
                if *other != NO_NODE && self.relax(*other, cost + length, node) {
                    self.frontier.push(Reverse((key(cost + length), *other)));
                }
            }
        }
    }
}

/// The next hop is the ground station itself.
pub(crate) const GROUND: u32 = NO_NODE - 1;

/// The length of every link at one instant, for many searches.
#[derive(Default)]
pub(crate) struct LinkLengths {
    by_satellite: Vec<[(u32, f64); 4]>,
}

impl LinkLengths {
    /// Computes the length of every link.
    pub fn measure(&mut self, grid: Option<&IslGrid>, at: &[Vector]) {
        self.by_satellite.clear();
        self.by_satellite.resize(at.len(), [(NO_NODE, 0.0); 4]);
        let Some(grid) = grid else { return };
        for one in 0..at.len() as u32 {
            for direction in [0, 2] {
                if let Some((other, length)) = grid.link_length(one, direction, at) {
                    self.by_satellite[one as usize][direction] = (other, length);
                    self.by_satellite[other as usize][direction + 1] = (one, length);
                }
            }
        }
    }
}
