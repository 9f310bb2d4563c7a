//! The event loop.

mod limits;
mod payload_slab;
mod progress_guard;

use std::sync::atomic::{AtomicBool, Ordering};

use link::{DropReason, ExternalSchedulers, LinkOutput, MAX_USERS, SimplexLink};
use topology::Topology;
use transport::{Payload, TimerSource};
use units::{NodeId, Packet, Time, TimerQueue};

use crate::nodes::attachment::Attachment;
use crate::nodes::bundle_nodes;
use crate::nodes::flow::{ExternalControllers, FlowEndpoint, count_hosts};
use crate::nodes::proxies::FlowProxy;
use crate::nodes::{NodeSet, page_specs};
use crate::recorder::Recorder;
use crate::recorder::groups::MeasurementGroups;
use crate::recorder::tables::Measurements;
use crate::trace::Tracer;
pub use limits::RunLimits;
use limits::{LimitGuard, ReachedLimit};
use payload_slab::PayloadSlab;
use progress_guard::{MAX_PUSHES_PER_INSTANT, NoProgress, ProgressGuard};
use spec::RunSpec;

/// A topology, its nodes and virtual time. Components are the simplex links, then the nodes (hosts by flow, then
/// proxies), then the sampling tick. The sampling tick is therefore last at any instant. One more component, the
/// release of buffered packets, exists while a store-and-forward buffer is in use. A link wakes up for possible
/// deliveries, and then does its earlier due work first.
pub struct World {
    topology: Topology,
    attachments: Vec<Attachment>,
    /// The labels of the first attachments.
    flow_endpoints: Vec<FlowEndpoint>,
    /// The labels of the attachments after the hosts.
    proxies: Vec<FlowProxy>,
    timers: TimerQueue,
    payloads: PayloadSlab,
    recorder: Recorder,
    tracer: Tracer,
    end: Time,
    packets: u64,
    /// Wake-ups of each attachment, then of the sampling. Links count separately.
    wakeups: Vec<u64>,
    output: LinkOutput,
    /// The output of a node, by interface.
    node_output: Vec<Vec<Payload>>,
    /// Packets to push into a link next.
    pending_pushes: Vec<(usize, Time, Packet)>,
    progress_guard: ProgressGuard,
    limit_guard: LimitGuard,
    /// The component without progress, and the reason.
    no_progress: Option<(usize, NoProgress)>,
}

impl World {
    /// Builds everything `spec` names.
    ///
    /// # Errors
    /// An invalid specification; the message names the reason.
    pub fn build(
        spec: &RunSpec,
        controllers: &mut ExternalControllers<'_>,
    ) -> Result<World, String> {
        World::build_with_external(spec, controllers, &|_, _, _| None)
    }

    /// Does the same as [`World::build`], with external user schedulers.
    ///
    /// # Errors
    /// The same as [`World::build`].
    pub fn build_with_external(
        spec: &RunSpec,
        controllers: &mut ExternalControllers<'_>,
        external_schedulers: &ExternalSchedulers<'_>,
    ) -> Result<World, String> {
        let topology = Topology::build_with(&spec.graph, spec.seed, external_schedulers)
            .map_err(|error| error.to_string())?;
        let node_set = NodeSet::build(spec, &topology, controllers)?;
        // A deadline within the run must differ from "never".
        if spec.duration_ns > Time::MAX.0 / 2 {
            return Err(format!("duration_ns is {}, expected less than 2^63", spec.duration_ns));
        }
        if let Some(flow) = spec.flows.iter().find(|flow| flow.user >= MAX_USERS) {
            let (name, user) = (&flow.name, flow.user);
            return Err(format!("flow {name}: user {user}, expected less than {MAX_USERS}"));
        }
        let groups = MeasurementGroups::new(spec, &topology)?;
        let recorder = Recorder::new(spec.sample_interval_ns, groups, page_specs(spec))
            .with_tcp(spec.trace.tcp);
        let scaling = node_set.window_scaling(spec, &topology);
        let tracer = Tracer::new(
            spec.trace,
            &node_set.flow_endpoints[..count_hosts(&node_set.flow_endpoints)],
            &node_set.attachments,
            &scaling,
        );
        let mut world = World::new(topology, node_set, recorder, tracer, Time(spec.duration_ns));
        if spec.trace.packet_steps {
            world.topology.simplex_links.iter_mut().for_each(SimplexLink::record_steps);
        }
        Ok(world)
    }

    /// Builds a world from the caller's nodes, until `end`. It measures the links only.
    pub fn from_attachments(topology: Topology, attachments: Vec<Attachment>, end: Time) -> World {
        let node_set = NodeSet { attachments, ..NodeSet::default() };
        let recorder = Recorder::new(end.nanos(), MeasurementGroups::default(), Vec::new());
        World::new(topology, node_set, recorder, Tracer::default(), end)
    }

    fn new(
        topology: Topology,
        node_set: NodeSet,
        recorder: Recorder,
        tracer: Tracer,
        end: Time,
    ) -> World {
        let NodeSet { attachments, flow_endpoints, proxies, .. } = node_set;
        let count = topology.simplex_links.len() + attachments.len() + 1;
        let attachments_count = attachments.len();
        let max_interfaces =
            attachments.iter().map(|attachment| attachment.interfaces.len()).max().unwrap_or(0);
        let mut world = World {
            timers: TimerQueue::new(count),
            recorder,
            tracer,
            topology,
            attachments,
            flow_endpoints,
            proxies,
            payloads: PayloadSlab::default(),
            end,
            packets: 0,
            wakeups: vec![0; attachments_count + 2],
            output: LinkOutput::default(),
            node_output: (0..max_interfaces).map(|_| Vec::new()).collect(),
            pending_pushes: Vec::new(),
            progress_guard: ProgressGuard::new(count + 1, count - 1),
            limit_guard: LimitGuard::new(RunLimits::NONE, 0),
            no_progress: None,
        };
        for link in 0..world.topology.simplex_links.len() {
            world.timers.set_deadline(link, world.topology.simplex_links[link].next_delivery_at());
        }
        for attachment in 0..world.attachments.len() {
            world.reschedule(attachment);
        }
        world.timers.set_deadline(count - 1, world.recorder.next_sample_at());
        world
    }

    /// Ends the run with an error at `limits`, with `memory_before` in use before the world was built.
    pub fn with_limits(mut self, limits: RunLimits, memory_before: u64) -> World {
        self.limit_guard = LimitGuard::new(limits, memory_before);
        self
    }

    /// Runs to the end, or until the caller sets `stop`.
    ///
    /// # Errors
    /// The component that prevents virtual time from advancing, and the reason; or a limit that was reached.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let link_count = self.topology.simplex_links.len();
        let nodes = link_count + self.attachments.len();
        loop {
            let (now, component) = self.timers.earliest();
            if now > self.end {
                self.poll_due_links(self.end);
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Err(fault) = self.progress_guard.on_wakeup(now, component) {
                self.no_progress = Some((component, fault));
            }
            if let Some((component, fault)) = self.no_progress {
                return Err(self.describe_no_progress(component, fault));
            }
            if now >= self.topology.next_route_change_at() {
                self.apply_topology_changes(now);
                continue;
            }
            if self.limit_guard.is_check_due() {
                self.check_limits(now)?;
            }
            if component < link_count {
                self.topology.simplex_links[component].poll(now, &mut self.output);
                self.handle_link_output(component);
                self.push_pending();
            } else if component < nodes {
                let attachment = component - link_count;
                self.wakeups[attachment] += 1;
                let Attachment { node, interfaces } = &mut self.attachments[attachment];
                node.poll(now, &mut self.node_output[..interfaces.len()]);
                if self.node_output.iter().all(Vec::is_empty) {
                    let opened = || self.attachments[attachment].node.opened(0);
                    let idled = self.progress_guard.on_idle_wakeup(component, opened);
                    self.check_progress(component, idled);
                }
                self.send(now, attachment);
                self.push_pending();
            } else {
                self.wakeups[component - link_count] += 1;
                self.poll_due_links(now);
                let World { recorder, attachments, flow_endpoints, proxies, topology, .. } = self;
                recorder.sample(now, attachments, flow_endpoints, proxies, topology);
                self.timers.set_deadline(component, self.recorder.next_sample_at());
            }
        }
    }

    /// Polls the links with due work that produces no delivery yet, before their state is read.
    fn poll_due_links(&mut self, now: Time) {
        for link in 0..self.topology.simplex_links.len() {
            if self.topology.simplex_links[link].poll_at() <= now {
                self.topology.simplex_links[link].poll(now, &mut self.output);
                self.handle_link_output(link);
            }
        }
    }

    #[inline]
    fn check_progress(&mut self, component: usize, done: Result<(), NoProgress>) {
        if let Err(fault) = done {
            self.no_progress = Some((component, fault));
        }
    }

    /// Returns the message for a component without progress.
    #[cold]
    fn describe_no_progress(&mut self, component: usize, fault: NoProgress) -> String {
        let link_count = self.topology.simplex_links.len();
        let (deadline, now) = (self.timers.earliest().0, self.progress_guard.now());
        let reason = fault.describe(deadline, now);
        let source_text = |source, congestion: &str| match source {
            TimerSource::Controller => format!("its controller {congestion} "),
            TimerSource::Application => "its application ".to_owned(),
            TimerSource::Transport => String::new(),
        };
        let Some(attachment) = component.checked_sub(link_count) else {
            return format!("link {}: {reason}", self.topology.simplex_link_name(component));
        };
        let Some(attached) = self.attachments.get_mut(attachment) else {
            return format!("the sampling: {reason}");
        };
        let (asker, interface) = attached.node.poll_source();
        if let Some(endpoint) = self
            .flow_endpoints
            .iter()
            .find(|endpoint| endpoint.interface_id == (attachment, interface))
        {
            let prefix = source_text(asker, &endpoint.congestion);
            return format!(
                "flow {}, its {}: {prefix}{reason}",
                endpoint.flow,
                endpoint.side.name()
            );
        }
        let Some(proxy) = attachment
            .checked_sub(count_hosts(&self.flow_endpoints))
            .and_then(|index| self.proxies.get(index))
        else {
            return format!("node {attachment}: {reason}");
        };
        let prefix = source_text(asker, &proxy.congestion[interface]);
        format!("proxy {} of flow {}: {prefix}{reason}", proxy.node, proxy.flow)
    }

    /// Compares the events and the memory with the limits of the run.
    #[cold]
    #[inline(never)]
    fn check_limits(&mut self, now: Time) -> Result<(), String> {
        let events = count_events(&self.wakeups, &self.topology);
        let components = self.wakeups.len() + self.topology.simplex_links.len();
        self.limit_guard.check(events, components).map_err(|limit| {
            let cause = match limit {
                ReachedLimit::Events(_) => self.describe_events(events),
                ReachedLimit::Memory(_) => self.describe_memory(),
            };
            limit.describe(now, self.end, &cause)
        })
    }

    /// Returns the part with the most of `events`, and its share.
    fn describe_events(&self, events: u64) -> String {
        let links = self.topology.simplex_links.iter().enumerate().map(|(index, link)| {
            (link.work_instants(), format!("link {}", self.topology.simplex_link_name(index)))
        });
        let nodes = self.wakeups.iter().enumerate().map(|(index, wakeups)| {
            let ending =
                self.flow_endpoints.iter().find(|endpoint| endpoint.interface_id.0 == index);
            let name = match (ending, self.attachments.get(index)) {
                (Some(endpoint), _) => {
                    format!("the {} of flow {}", endpoint.side.name(), endpoint.flow)
                }
                (None, Some(attachment)) => {
                    let node = attachment.interfaces.first().map(|interface| interface.node);
                    format!("node {}", node.map_or("", |node| self.topology.node_name(node)))
                }
                (None, None) => "the sampling".to_owned(),
            };
            (*wakeups, name)
        });
        let (most, name) = links.chain(nodes).max_by_key(|(count, _)| *count).unwrap_or_default();
        format!("{name} has the most events, {} %", 100 * most / events.max(1))
    }

    /// Returns the part that takes the most memory, and its size.
    fn describe_memory(&self) -> String {
        let parts = [
            (self.recorder.bytes(), "the samples take"),
            (self.tracer.bytes(), "the packet traces take"),
            (self.payloads.bytes(), "the packets in links and queues take"),
        ];
        let (most, name) = parts.into_iter().max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
        let opened: u64 = self
            .flow_endpoints
            .iter()
            .map(|endpoint| {
                let (attachment, interface) = endpoint.interface_id;
                u64::from(self.attachments[attachment].node.opened(interface))
            })
            .sum();
        format!("{name} {} MB, and the hosts opened {opened} connections", most / 1_000_000)
    }

    /// Returns the measurements of the run.
    pub fn finish(self) -> Measurements {
        let World {
            recorder,
            mut attachments,
            flow_endpoints,
            proxies,
            topology,
            tracer,
            wakeups,
            ..
        } = self;
        let mut tables =
            recorder.finish(self.end, &mut attachments, &flow_endpoints, &proxies, &topology);
        tables.push(tracer.packet_table(&flow_endpoints, &topology));
        tables.extend(tracer.stage_tables(&topology));
        tables.extend(bundle_nodes::tables(&attachments));
        let files = tracer.finish();
        let events = count_events(&wakeups, &topology);
        Measurements { tables, files, packets: self.packets, events }
    }

    /// Returns the simplex links, for checks after a run.
    pub fn simplex_links(&self) -> &[SimplexLink] {
        &self.topology.simplex_links
    }

    /// Applies route changes before any packet of this instant, and releases buffered packets that have a route now.
    #[cold]
    fn apply_topology_changes(&mut self, now: Time) {
        self.topology.apply_routes(now);
        for attachment in &mut self.attachments {
            attachment.update_routes(&self.topology);
        }
        for (node, link, packet) in self.topology.release() {
            self.tracer.on_release(now, node, &packet, &self.topology);
            self.pending_pushes.push((link, now, packet));
            self.push_pending();
        }
        if self.topology.store_forward_buffers().next().is_some() {
            self.timers.set_deadline(self.release_component(), self.topology.release_at());
        }
    }

    /// Returns the component that wakes up for the release of buffered packets.
    fn release_component(&self) -> usize {
        self.topology.simplex_links.len() + self.attachments.len() + 1
    }

    /// Buffers or drops `packet`, which `node` sends or forwards at `due`, because no route exists.
    #[cold]
    #[inline(never)]
    fn buffer_or_drop(&mut self, due: Time, node: NodeId, packet: &Packet, link: Option<usize>) {
        // At its source a packet has crossed no link: the trace has its drop, no link counts it.
        let decision = match self.topology.buffer_unrouted(node, packet) {
            Ok(Some(next_link)) => return self.pending_pushes.push((next_link, due, *packet)),
            Ok(None) => Ok(()),
            Err(cause) => Err(cause),
        };
        self.tracer.on_no_route(due, node, packet, decision, &self.topology);
        match (decision, link) {
            (Ok(()), _) => self
                .timers
                .set_deadline(self.release_component(), self.topology.next_route_change_at()),
            (Err(DropReason::NoRoute), Some(link)) => {
                self.topology.simplex_links[link].count_no_route_drop(packet);
                self.drop_packet(link, packet, DropReason::NoRoute);
            }
            (Err(_), _) => {
                self.payloads.take(packet.handle);
            }
        }
    }

    fn reschedule(&mut self, attachment: usize) {
        let deadline = self.attachments[attachment].node.poll_at();
        self.timers.set_deadline(self.topology.simplex_links.len() + attachment, deadline);
    }

    /// Pushes the packets of a node into the first links of its interfaces.
    fn send(&mut self, now: Time, attachment: usize) {
        let Attachment { node, interfaces } = &self.attachments[attachment];
        self.tracer.on_node_polled(now, attachment, node, &self.node_output);
        let count = self.node_output.iter().map(Vec::len).sum();
        if count == 0 {
            return self.reschedule(attachment);
        }
        let component = self.topology.simplex_links.len() + attachment;
        let sent = self.progress_guard.on_packets_sent(component, count);
        for (payloads, interface) in self.node_output.iter_mut().zip(interfaces) {
            for payload in payloads.drain(..) {
                let entry = interface.forwarding_entry(&payload);
                let packet = Packet {
                    handle: self.payloads.next_handle(),
                    ..interface.header(now, entry, &payload)
                };
                self.tracer.on_sent(&packet, &payload);
                self.payloads.insert(payload, entry.receiver);
                self.pending_pushes.push((entry.first_link, now, packet));
                self.packets += 1;
            }
        }
        self.check_progress(component, sent);
        self.reschedule(attachment);
    }

    fn push_pending(&mut self) {
        let mut next = 0;
        while next < self.pending_pushes.len() {
            let (link_index, due, packet) = self.pending_pushes[next];
            next += 1;
            if next > MAX_PUSHES_PER_INSTANT {
                self.no_progress = Some((link_index, NoProgress::ZeroDelayLoop));
                break;
            }
            let Some(link) = self.topology.simplex_links.get_mut(link_index) else {
                self.buffer_or_drop(due, packet.source, &packet, None);
                continue;
            };
            link.push(due, packet, &mut self.output);
            self.handle_link_output(link_index);
        }
        self.pending_pushes.clear();
    }

    /// Handles the deliveries and drops of a link.
    fn handle_link_output(&mut self, link: usize) {
        self.timers.set_deadline(link, self.topology.simplex_links[link].next_delivery_at());
        self.tracer.on_link_polled(link, &mut self.topology.simplex_links);
        for next in 0..self.output.dropped.len() {
            let (_, packet, cause) = self.output.dropped[next];
            self.drop_packet(link, &packet, cause);
        }
        for next in 0..self.output.delivered.len() {
            let (due, packet) = self.output.delivered[next];
            self.deliver(due, link, packet);
        }
        self.output.clear();
    }

    /// Delivers or forwards `packet`, which arrived at the end of `link` at `due`.
    fn deliver(&mut self, due: Time, link: usize, packet: Packet) {
        let node = self.topology.far_end(link);
        if node != packet.destination {
            match self.topology.next_hop(node, packet.destination) {
                Some(next) => self.pending_pushes.push((next, due, packet)),
                None => self.buffer_or_drop(due, node, &packet, Some(link)),
            }
            return;
        }
        self.tracer.on_arrival(due, &packet);
        if let Some((mut payload, (attachment, interface))) = self.payloads.take(packet.handle) {
            payload.set_ecn(packet.ecn);
            self.tracer.on_received(due, attachment, &payload);
            let Attachment { node, interfaces } = &mut self.attachments[attachment];
            node.receive(due, interface, payload, &mut self.node_output[..interfaces.len()]);
            self.send(due, attachment);
        }
    }

    /// Drops a packet that was lost in `link` or at its end.
    fn drop_packet(&mut self, link: usize, packet: &Packet, cause: DropReason) {
        self.tracer.on_dropped(link, packet, cause);
        self.payloads.take(packet.handle);
    }
}

/// Returns the wake-ups of nodes and of the sampling, and the instants at which a link had work.
fn count_events(wakeups: &[u64], topology: &Topology) -> u64 {
    let links = topology.simplex_links.iter().map(SimplexLink::work_instants);
    wakeups.iter().sum::<u64>() + links.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use transport::tcp::Segment;
    use units::NodeId;

    use super::*;

    #[test]
    fn a_packet_without_a_route_is_dropped_with_its_payload() {
        let graph = serde_json::json!({
            "seed": 1, "duration_ns": 1_000_000_000, "sample_interval_ns": 1_000_000_000, "flows": [],
            "graph": {
                "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
                "links": [{"name": "l", "client_side": "a", "server_side": "b", "down": [],
                    "up": [{"kind": "delay", "delay_ns": 1_000_000}]}]
            },
        });
        let spec = RunSpec::from_json(&graph.to_string()).unwrap();
        let mut world = World::build(&spec, &mut |_, _| None).unwrap();
        // Hosts do not forward, so node 7 is unreachable behind the second host.
        let payload = Payload::Segment(Segment::from_data(0, Bytes::from_static(&[0; 60])));
        let packet = Packet { destination: NodeId(7), ..Packet::of_bytes(payload.wire_bytes()) };
        world.payloads.insert(payload, (0, 0));
        world.pending_pushes.push((0, Time::ZERO, packet));
        world.push_pending();
        world.run(&AtomicBool::new(false)).unwrap();
        assert!(world.payloads.entries.iter().all(Option::is_none));
        assert_eq!(world.payloads.free, [0]);
        let line = &world.simplex_links()[0];
        assert_eq!(line.counters().dropped_packets[DropReason::NoRoute as usize], 1);
        assert_eq!(
            (line.counters().dropped_bytes.iter().sum::<u64>(), line.in_transit()),
            (100, (0, 0))
        );
        assert_eq!(line.counters().delivered_packets, 0);
    }
}
