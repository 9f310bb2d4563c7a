//! The shortest way over satellites that are linked, and over ground stations that pass on.
//!
//! For one pair by A* (Hart, Nilsson and Raphael 1968): what is left of a way is at least the straight line to its end.
//! For everybody's way to a place by Dijkstra's algorithm from there. Ties go to the lower number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Vector;
use crate::grid::{Grid, NONE};

/// What can be reached from where, at one instant. Nodes are satellites, then relays.
pub(crate) struct Scene<'a> {
    pub at: &'a [Vector],
    pub grid: Option<&'a Grid>,
    /// Where the relays stand.
    pub relays: &'a [Vector],
    /// The satellites that each relay reaches, with the distance.
    pub seen: &'a [Vec<(u32, f64)>],
    /// The relays that each satellite reaches; empty without relays.
    pub below: &'a [Vec<(u32, f64)>],
    /// From a satellite to the end of the way, km; infinite where it is out of reach.
    pub exit: &'a [f64],
    /// Where ways end.
    pub ends: &'a [Vector],
}

impl Scene<'_> {
    fn position(&self, node: u32) -> Vector {
        let node = node as usize;
        if node < self.at.len() { self.at[node] } else { self.relays[node - self.at.len()] }
    }

    /// At least this is left from `node` on, km.
    fn left(&self, node: u32) -> f64 {
        let here = self.position(node);
        self.ends.iter().map(|end| here.distance(*end)).fold(f64::INFINITY, f64::min)
    }
}

/// Room for searches, used again and again.
#[derive(Default)]
pub(crate) struct Search {
    cost: Vec<f64>,
    before: Vec<u32>,
    /// In which search a node's cost was set, twice over, and one more when it is settled.
    round: Vec<u64>,
    now: u64,
    ahead: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Positive lengths compare as their bits do.
fn key(length: f64) -> u64 {
    length.to_bits()
}

impl Search {
    fn begin(&mut self, nodes: usize) {
        if self.round.len() != nodes {
            *self = Search {
                cost: vec![0.0; nodes],
                before: vec![NONE; nodes],
                round: vec![0; nodes],
                ..Search::default()
            };
        }
        self.now += 2;
        self.ahead.clear();
    }

    /// Whether `cost` is less than what was known of `node`; it is known from now on.
    fn improves(&mut self, node: u32, cost: f64, before: u32) -> bool {
        let at = node as usize;
        if self.round[at] > self.now || (self.round[at] == self.now && self.cost[at] <= cost) {
            return false;
        }
        (self.round[at], self.cost[at], self.before[at]) = (self.now, cost, before);
        true
    }

    /// Whether `node` had not been settled in this search; it is from now on.
    fn settles(&mut self, node: u32) -> bool {
        let first = self.round[node as usize] == self.now;
        self.round[node as usize] = self.now + 1;
        first
    }

    /// The shortest way from any of `starts` (a satellite and the distance up to it) to the ends: its length and its
    /// nodes.
    pub fn shortest(&mut self, scene: &Scene, starts: &[(u32, f64)]) -> Option<(f64, Vec<u32>)> {
        let nodes = scene.at.len() + scene.relays.len();
        let end = nodes as u32;
        self.begin(nodes + 1);
        for (node, up) in starts {
            if self.improves(*node, *up, NONE) {
                self.ahead.push(Reverse((key(up + scene.left(*node)), *node)));
            }
        }
        while let Some(Reverse((_, node))) = self.ahead.pop() {
            if !self.settles(node) {
                continue;
            }
            let cost = self.cost[node as usize];
            if node == end {
                return Some((cost, self.way(self.before[end as usize])));
            }
            let reach = |search: &mut Search, other: u32, length: f64| {
                if search.improves(other, cost + length, node) {
                    let left = if other == end { 0.0 } else { scene.left(other) };
                    search.ahead.push(Reverse((key(cost + length + left), other)));
                }
            };
            let at = node as usize;
            if at >= scene.at.len() {
                for (other, length) in &scene.seen[at - scene.at.len()] {
                    reach(self, *other, *length);
                }
                continue;
            }
            if scene.exit[at].is_finite() {
                reach(self, end, scene.exit[at]);
            }
            if let Some(grid) = scene.grid {
                for way in 0..4 {
                    if let Some((other, length)) = grid.length(node, way, scene.at) {
                        reach(self, other, length);
                    }
                }
            }
            if let Some(below) = scene.below.get(at) {
                for (relay, length) in below {
                    reach(self, scene.at.len() as u32 + relay, *length);
                }
            }
        }
        None
    }

    fn way(&self, mut node: u32) -> Vec<u32> {
        let mut found = Vec::new();
        while node != NONE {
            found.push(node);
            node = self.before[node as usize];
        }
        found.reverse();
        found
    }

    /// The next hop of every satellite on its shortest way to a place on the ground, which reaches `starts`:
    /// `next` has a satellite, `u32::MAX - 1` for the ground itself, `u32::MAX` where there is no way.
    pub fn towards(&mut self, grid: &Lengths, starts: &[(u32, f64)], next: &mut [u32]) {
        self.begin(next.len());
        next.fill(NONE);
        for (node, down) in starts {
            if self.improves(*node, *down, GROUND) {
                self.ahead.push(Reverse((key(*down), *node)));
            }
        }
        while let Some(Reverse((_, node))) = self.ahead.pop() {
            if !self.settles(node) {
                continue;
            }
            let at = node as usize;
            next[at] = self.before[at];
            let cost = self.cost[at];
            for (other, length) in &grid.of[at] {
                if *other != NONE && self.improves(*other, cost + length, node) {
                    self.ahead.push(Reverse((key(cost + length), *other)));
                }
            }
        }
    }
}

/// The next hop is the ground station itself.
pub(crate) const GROUND: u32 = NONE - 1;

/// Every link's length at one instant, for many searches.
#[derive(Default)]
pub(crate) struct Lengths {
    of: Vec<[(u32, f64); 4]>,
}

impl Lengths {
    /// Measures every link.
    pub fn measure(&mut self, grid: Option<&Grid>, at: &[Vector]) {
        self.of.clear();
        self.of.resize(at.len(), [(NONE, 0.0); 4]);
        let Some(grid) = grid else { return };
        for one in 0..at.len() as u32 {
            for way in [0, 2] {
                if let Some((other, length)) = grid.length(one, way, at) {
                    self.of[one as usize][way] = (other, length);
                    self.of[other as usize][way + 1] = (one, length);
                }
            }
        }
    }
}
