//! Shared helpers of the tests.

use link::{
    BernoulliLossSpec, DelaySpec, DropTailSpec, LossModel, LossSpec, QueueLimit, QueueSpec,
    ServiceSpec, StageSpec, TransmitSpec,
};
use topology::{LinkSpec, NodeKind, NodeSpec, TopologySpec};
use units::Packet;

/// Returns a packet with a number.
pub fn packet(number: u32, bytes: u32) -> Packet {
    Packet { handle: number, ..Packet::of_bytes(bytes) }
}

/// Returns a constant delay.
pub fn delay(delay_ns: u64) -> StageSpec {
    StageSpec::Delay(DelaySpec { delay_ns, changes: Vec::new() })
}

/// Returns a rate with a drop-tail queue.
pub fn transmit(rate_bit_s: u64, limit: Option<QueueLimit>) -> StageSpec {
    StageSpec::Transmit(TransmitSpec {
        queue: QueueSpec::DropTail(DropTailSpec { limit }),
        service: ServiceSpec::Rate { rate_bit_s, changes: Vec::new() },
    })
}

/// Returns independent loss.
pub fn bernoulli(probability: f64) -> StageSpec {
    StageSpec::Loss(LossSpec {
        model: LossModel::Bernoulli(BernoulliLossSpec { probability }),
        changes: Vec::new(),
    })
}

/// Returns a node.
pub fn node(name: &str, kind: NodeKind) -> NodeSpec {
    NodeSpec { name: name.into(), kind, store_and_forward_bytes: None }
}

/// Returns a link between two nodes.
pub fn link(
    name: &str,
    client_side: &str,
    server_side: &str,
    up: Vec<StageSpec>,
    down: Vec<StageSpec>,
) -> LinkSpec {
    LinkSpec {
        name: name.into(),
        client_side: client_side.into(),
        server_side: server_side.into(),
        up,
        down,
    }
}

/// Returns satellites in `planes` orbits of `each`, linked with the next satellite in the orbit and with the neighbour
/// in the next orbit. `hosts` hosts are attached to satellites along the diagonal.
pub fn constellation(planes: usize, each: usize, hosts: usize) -> TopologySpec {
    let satellite = |plane: usize, index: usize| format!("sat{}.{}", plane % planes, index % each);
    let stages = || vec![transmit(10_000_000_000, None), delay(5_000_000)];
    let join = |a: &str, b: &str| link(&format!("{a}-{b}"), a, b, stages(), stages());
    let (mut nodes, mut links) = (Vec::new(), Vec::new());
    for (plane, index) in (0..planes).flat_map(|plane| (0..each).map(move |at| (plane, at))) {
        let here = satellite(plane, index);
        links.push(join(&here, &satellite(plane, index + 1)));
        links.push(join(&here, &satellite(plane + 1, index)));
        nodes.push(node(&here, NodeKind::Router));
    }
    for number in 0..hosts {
        let name = format!("host{number}");
        links.push(join(&name, &satellite(number * planes / hosts, number * each / hosts)));
        nodes.push(node(&name, NodeKind::Host));
    }
    TopologySpec { nodes, links, changes: vec![] }
}
