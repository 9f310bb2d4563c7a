//! Next hops by node, destination and time: the shortest path over links in use, ties by the lower link index. Only
//! routers and proxies forward; static routes take precedence.
//!
//! The table contains the routes in force. A routing update visits only nodes with a changed next hop
//! ([`RoutingTable::apply_update`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use units::{NodeId, Time};

use crate::NodeKind;

/// No simplex link.
pub(crate) const NO_LINK: u32 = u32::MAX;
/// No route, as a number of hops.
const UNREACHABLE: u32 = u32::MAX;

/// The adjacency of the topology, with the simplex links sorted by the node that they enter. The links out of a node
/// are the reverse directions of the same links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adjacency {
    endpoints: Vec<(NodeId, NodeId)>,
    kinds: Vec<NodeKind>,
    /// Whether each link can be part of a route.
    in_use: Vec<bool>,
    /// Simplex links by the node that they enter, in order of their index.
    incoming: Vec<u32>,
    /// The start of each node's range in `incoming`, and the end of the last range.
    incoming_start: Vec<usize>,
}

impl Adjacency {
    /// Creates the adjacency from the near and far ends of the simplex links and the node kinds. All links are in use.
    pub fn new(ends: &[(NodeId, NodeId)], kinds: &[NodeKind]) -> Adjacency {
        let mut into: Vec<u32> = (0..ends.len() as u32).collect();
        into.sort_by_key(|simplex_link| ends[*simplex_link as usize].1);
        let first = (0..=kinds.len())
            .map(|node| {
                into.partition_point(|simplex_link| {
                    (ends[*simplex_link as usize].1.0 as usize) < node
                })
            })
            .collect();
        let in_use = vec![true; ends.len() / 2];
        Adjacency {
            endpoints: ends.to_vec(),
            kinds: kinds.to_vec(),
            in_use,
            incoming: into,
            incoming_start: first,
        }
    }

    /// Returns the simplex links into `node`, each with the node at its near end.
    fn incoming_links(&self, node: usize) -> impl Iterator<Item = (u32, usize)> {
        let lines = &self.incoming[self.incoming_start[node]..self.incoming_start[node + 1]];
        lines.iter().map(|simplex_link| {
            (*simplex_link, self.endpoints[*simplex_link as usize].0.0 as usize)
        })
    }

    /// Returns the simplex links into `node` that are in use.
    fn usable_incoming(&self, node: usize) -> impl Iterator<Item = (u32, usize)> {
        self.incoming_links(node).filter(|(simplex_link, _)| self.is_in_use(*simplex_link))
    }

    fn is_in_use(&self, simplex_link: u32) -> bool {
        self.in_use[simplex_link as usize / 2]
    }

    /// Returns, for each node, whether it is connected to `destination`, through nodes of any kind.
    pub fn connected_to(&self, destination: usize) -> Vec<bool> {
        let mut seen = vec![false; self.kinds.len()];
        seen[destination] = true;
        let mut frontier = VecDeque::from([destination]);
        while let Some(node) = frontier.pop_front() {
            for (_, before) in self.incoming_links(node) {
                if !std::mem::replace(&mut seen[before], true) {
                    frontier.push_back(before);
                }
            }
        }
        seen
    }

    /// Returns the number of simplex links into `node`.
    fn degree(&self, node: usize) -> u64 {
        (self.incoming_start[node + 1] - self.incoming_start[node]) as u64
    }
}

/// Static routes: the simplex link, or [`NO_LINK`], for a destination (first) and a node (second).
type StaticRoutes = BTreeMap<(usize, usize), u32>;

/// The changes of the routes at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoutingUpdate {
    /// The time from which they apply.
    pub effective_at: Time,
    /// Links, and whether they are in use.
    pub links: Vec<(usize, bool)>,
    /// Static routes for a destination (first) at a node (second); `None` restores the shortest route.
    pub route_overrides: Vec<((usize, usize), Option<u32>)>,
}

/// The reason for which a routing update is invalid.
pub(crate) enum RouteError {
    /// A static route contains a link that is not in use.
    UnusedLink { simplex_link: u32, node: usize, destination: usize },
    /// Static routes form a loop.
    Loop { node: usize, destination: usize },
}

/// The routes to one destination.
#[derive(Clone, Debug)]
struct RouteColumn {
    destination: usize,
    /// Number of hops from each node to the destination, without static routes.
    distances: Vec<u32>,
}

/// The next hop of every node for the destinations that have a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoutingTable {
    adjacency: Adjacency,
    static_routes: StaticRoutes,
    /// The column of each node; [`NO_LINK`] without a column.
    column_of: Vec<u32>,
    columns: Vec<RouteColumn>,
    /// The columns in sequence, each with an entry per node.
    next_hops: Vec<u32>,
    /// Number of visited simplex links.
    visited_links: u64,
}

impl RoutingTable {
    /// Creates a table without columns.
    pub fn new(adjacency: Adjacency) -> RoutingTable {
        RoutingTable {
            column_of: vec![NO_LINK; adjacency.kinds.len()],
            adjacency,
            ..RoutingTable::default()
        }
    }

    /// Adds the routes to the destination `to`.
    pub fn add_destination(&mut self, to: usize) {
        if self.column_of[to] != NO_LINK {
            return;
        }
        let nodes = self.adjacency.kinds.len();
        self.column_of[to] = self.columns.len() as u32;
        let mut column = RouteColumn { destination: to, distances: vec![UNREACHABLE; nodes] };
        column.distances[to] = 0;
        let mut frontier = VecDeque::from([to]);
        while let Some(node) = frontier.pop_front() {
            if !self.can_forward(node, to) {
                continue;
            }
            self.visited_links += self.adjacency.degree(node);
            for (_, before) in self.adjacency.usable_incoming(node) {
                if column.distances[before] == UNREACHABLE {
                    column.distances[before] = column.distances[node] + 1;
                    frontier.push_back(before);
                }
            }
        }
        self.columns.push(column);
        self.next_hops.resize(self.next_hops.len() + nodes, NO_LINK);
        for node in 0..nodes {
            self.select_next_hop(self.columns.len() - 1, node);
        }
    }

    /// Returns the simplex link from `at` towards `destination`.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        let nodes = self.column_of.len();
        let column = *self.column_of.get(destination.0 as usize)?;
        if column == NO_LINK || at.0 as usize >= nodes {
            return None;
        }
        let simplex_link = self.next_hops[column as usize * nodes + at.0 as usize];
        (simplex_link != NO_LINK).then_some(simplex_link as usize)
    }

    /// Returns whether `node` delivers or forwards packets for `to`.
    fn can_forward(&self, node: usize, to: usize) -> bool {
        node == to || self.adjacency.kinds[node] != NodeKind::Host
    }

    /// Selects the next hop of `node` for the destination of column `number`: the static route, or else the first
    /// closer simplex link.
    fn select_next_hop(&mut self, number: usize, node: usize) {
        let RouteColumn { destination: to, distances: far } = &self.columns[number];
        let rule = self.static_routes.get(&(*to, node)).copied();
        let simplex_link =
            rule.unwrap_or_else(|| self.closer_links(*to, far, node).min().unwrap_or(NO_LINK));
        self.next_hops[number * self.column_of.len() + node] = simplex_link;
        self.visited_links += self.adjacency.degree(node);
    }

    /// Returns the simplex links from `node` that are closer to `to`, by the given distances.
    fn closer_links(&self, to: usize, far: &[u32], node: usize) -> impl Iterator<Item = u32> {
        let here = far[node];
        let out = self
            .adjacency
            .incoming_links(node)
            .map(|(simplex_link, other)| (simplex_link ^ 1, other));
        out.filter(move |(simplex_link, other)| {
            let leads = self.adjacency.is_in_use(*simplex_link) && self.can_forward(*other, to);
            leads && far[*other] < here && far[*other] + 1 == here
        })
        .map(|(simplex_link, _)| simplex_link)
    }

    /// Applies a routing update.
    pub fn apply_update(&mut self, update: &RoutingUpdate) {
        let mut changed = BTreeSet::new();
        for (link, used) in &update.links {
            if std::mem::replace(&mut self.adjacency.in_use[*link], *used) != *used
                && !changed.insert(*link)
            {
                changed.remove(link);
            }
        }
        for (key, next_hop) in &update.route_overrides {
            match next_hop {
                Some(simplex_link) => self.static_routes.insert(*key, *simplex_link),
                None => self.static_routes.remove(key),
            };
        }
        if !changed.is_empty() {
            for number in 0..self.columns.len() {
                self.update_column(number, &changed);
            }
        }
        for ((to, node), _) in &update.route_overrides {
            if self.column_of[*to] != NO_LINK {
                self.select_next_hop(self.column_of[*to] as usize, *node);
            }
        }
    }

    /// Updates column `number` after links entered or left use. First, it finds the nodes that have lost all closer
    /// links, in order of distance. Then it computes their distances and those of nodes with a shorter route, in order
    /// of distance.
    fn update_column(&mut self, number: usize, links: &BTreeSet<usize>) {
        let to = self.columns[number].destination;
        let mut far = std::mem::take(&mut self.columns[number].distances);
        let mut touched = BTreeSet::new();
        let mut visited = 2 * links.len() as u64;
        // The affected simplex links over which the near end can reach `to`, each with both of its ends.
        let lines = || {
            let both = links.iter().flat_map(|link| [2 * link, 2 * link + 1]);
            let ends = both
                .map(|simplex_link| (simplex_link as u32, self.adjacency.endpoints[simplex_link]));
            ends.map(|(simplex_link, (near, end))| (simplex_link, near.0 as usize, end.0 as usize))
                .filter(|(_, _, end)| self.can_forward(*end, to))
        };
        let mut disconnected = BinaryHeap::new();
        for (_, near, end) in
            lines().filter(|(simplex_link, ..)| !self.adjacency.is_in_use(*simplex_link))
        {
            if far[end] < far[near] {
                disconnected.push(Reverse((far[near], near)));
                touched.insert(near);
            }
        }
        let mut lost = Vec::new();
        while let Some(Reverse((links, node))) = disconnected.pop() {
            visited += self.adjacency.degree(node);
            if far[node] != links || self.closer_links(to, &far, node).next().is_some() {
                continue;
            }
            far[node] = UNREACHABLE;
            lost.push(node);
            touched.insert(node);
            if self.can_forward(node, to) {
                visited += self.adjacency.degree(node);
                for (_, before) in self.adjacency.usable_incoming(node) {
                    touched.insert(before);
                    if far[before] == links + 1 {
                        disconnected.push(Reverse((links + 1, before)));
                    }
                }
            }
        }
        let mut frontier = BinaryHeap::new();
        for (_, near, end) in
            lines().filter(|(simplex_link, ..)| self.adjacency.is_in_use(*simplex_link))
        {
            if far[end] < far[near] {
                frontier.push(Reverse((far[end] + 1, near)));
                touched.insert(near);
            }
        }
        for node in lost {
            visited += self.adjacency.degree(node);
            let out = self
                .adjacency
                .usable_incoming(node)
                .filter(|(_, other)| self.can_forward(*other, to) && far[*other] != UNREACHABLE);
            if let Some(min_links) = out.map(|(_, other)| far[other] + 1).min() {
                frontier.push(Reverse((min_links, node)));
            }
        }
        while let Some(Reverse((links, node))) = frontier.pop() {
            if links >= far[node] {
                continue;
            }
            far[node] = links;
            touched.insert(node);
            if self.can_forward(node, to) {
                visited += self.adjacency.degree(node);
                for (_, before) in self.adjacency.usable_incoming(node) {
                    touched.insert(before);
                    if links + 1 < far[before] {
                        frontier.push(Reverse((links + 1, before)));
                    }
                }
            }
        }
        self.columns[number].distances = far;
        self.visited_links += visited;
        for node in touched {
            self.select_next_hop(number, node);
        }
    }

    /// Validates the static routes in force.
    pub fn validate(&mut self) -> Result<(), RouteError> {
        for ((to, node), simplex_link) in &self.static_routes {
            if *simplex_link != NO_LINK && !self.adjacency.is_in_use(*simplex_link) {
                return Err(RouteError::UnusedLink {
                    simplex_link: *simplex_link,
                    node: *node,
                    destination: *to,
                });
            }
        }
        let keys: Vec<(usize, usize)> = self.static_routes.keys().copied().collect();
        // Nodes with routes to `checked` that are known to be free of loops.
        let (mut checked, mut verified) = (usize::MAX, Vec::new());
        for (to, node) in keys {
            if checked != to {
                (checked, verified) = (to, vec![false; self.column_of.len()]);
                self.add_destination(to);
            }
            let begin = self.column_of[to] as usize * self.column_of.len();
            let (mut at, mut path) = (node, Vec::new());
            while at != to && !verified[at] {
                if path.len() == self.column_of.len() {
                    return Err(RouteError::Loop { node, destination: to });
                }
                path.push(at);
                let simplex_link = self.next_hops[begin + at];
                if simplex_link == NO_LINK {
                    break;
                }
                at = self.adjacency.endpoints[simplex_link as usize].1.0 as usize;
            }
            path.into_iter().for_each(|node| verified[node] = true);
        }
        Ok(())
    }
}

/// Next hops of every node for every destination (hosts and proxies, which are few compared with routers), with updates
/// in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoutingTables {
    /// The table in force.
    table: RoutingTable,
    /// The initial adjacency.
    adjacency: Adjacency,
    /// All updates, in order of time.
    updates: Vec<RoutingUpdate>,
    /// Number of updates in force.
    applied: usize,
    /// Time of the next update.
    next_update_at: Time,
}

impl RoutingTables {
    /// Creates the initial routes; `updates` are in order of time.
    pub fn new(adjacency: Adjacency, updates: Vec<RoutingUpdate>) -> RoutingTables {
        let table = RoutingTable::new(adjacency.clone());
        let mut routes =
            RoutingTables { table, adjacency, updates, applied: 0, next_update_at: Time::ZERO };
        routes.apply(Time::ZERO);
        let destinations: Vec<usize> = routes.destinations().collect();
        destinations.into_iter().for_each(|node| routes.table.add_destination(node));
        routes
    }

    /// Returns the simplex link from `at` towards `destination` by the routes in force.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        self.table.next_hop(at, destination)
    }

    /// Returns the next hop by the routes of `when`. They are recomputed if they are not in force.
    pub fn next_hop_at(&self, when: Time, at: NodeId, destination: NodeId) -> Option<usize> {
        let version = self.applied_at(when);
        if version == self.applied {
            return self.next_hop(at, destination);
        }
        let index = destination.0 as usize;
        if self.table.column_of.get(index).is_none_or(|column| *column == NO_LINK) {
            return None;
        }
        let mut table = RoutingTable::new(self.adjacency.clone());
        self.updates[..version].iter().for_each(|version| table.apply_update(version));
        table.add_destination(index);
        table.next_hop(at, destination)
    }

    /// Returns the routes if all links were always in use and without static routes.
    pub fn table_with_all_links(&self) -> RoutingTable {
        let mut table = RoutingTable::new(self.adjacency.clone());
        self.destinations().for_each(|node| table.add_destination(node));
        table
    }

    /// Returns whether `simplex_link` is in use and its near end `at` has no static route for `to`.
    pub fn is_shortest_route_usable(&self, simplex_link: usize, at: NodeId, to: NodeId) -> bool {
        let ruled = self.table.static_routes.contains_key(&(to.0 as usize, at.0 as usize));
        !ruled && self.table.adjacency.is_in_use(simplex_link as u32)
    }

    /// Returns the node at the far end of a simplex link.
    pub fn far_end(&self, simplex_link: usize) -> NodeId {
        self.adjacency.endpoints[simplex_link].1
    }

    fn destinations(&self) -> impl Iterator<Item = usize> {
        let kinds = &self.adjacency.kinds;
        (0..kinds.len()).filter(|node| kinds[*node] != NodeKind::Router)
    }

    /// Returns the time of the next update.
    #[inline]
    pub fn next_update_at(&self) -> Time {
        self.next_update_at
    }

    /// Applies the updates up to `now`, which must not decrease.
    pub fn apply(&mut self, now: Time) {
        let version = self.applied_at(now);
        while self.applied < version {
            self.table.apply_update(&self.updates[self.applied]);
            self.applied += 1;
        }
        self.next_update_at =
            self.updates.get(self.applied).map_or(Time::MAX, |next| next.effective_at);
    }

    /// Returns the number of visited simplex links, as a measure of cost.
    pub fn visited_links(&self) -> u64 {
        self.table.visited_links
    }

    /// Returns the number of updates in force at `when`.
    fn applied_at(&self, when: Time) -> usize {
        self.updates.partition_point(|version| version.effective_at <= when)
    }
}
