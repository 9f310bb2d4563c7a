//! The boundary of the agent to its driver: requests, sessions and neighbours.

use bytes::Bytes;
use contacts::PlanNodeId;

use crate::SessionCommand;
use crate::spec::ContactStartSpec;
use crate::wire::Id;

/// The number of a session, assigned by the driver.
pub type SessionId = u64;

/// A request from the agent to its driver.
#[derive(Clone, Debug)]
pub enum BpaAction {
    /// Opens a connection at this interface.
    OpenConnection(usize),
    /// Sends a command to a session.
    SendCommand(SessionId, SessionCommand),
    /// Submits the request to the store. The driver passes completions to
    /// [`super::BundleProtocolAgent::on_store_completion`].
    Store(StoreRequest),
}

/// A request from the agent to its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Makes the bundle with this key durable.
    Put(u64),
    /// Removes the bundle, once the bundles that replace it are durable.
    Remove(u64, Vec<u64>),
    /// Records the ID of a delivered bundle until the DTN time in milliseconds since 2000.
    RecordDelivered(Id, u64),
    /// Removes the ID of a delivered bundle.
    RemoveDelivered(Id),
    /// Loads the payload of the bundle with this key.
    Load(u64),
}

/// A completion from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreCompletion {
    /// The bundle with this key is durable.
    Durable(u64),
    /// The store has no space for the bundle.
    Rejected(u64),
    /// The payload, or the reason of a failed load.
    Loaded(u64, Result<Vec<Bytes>, String>),
}

/// The configuration of connections to a neighbour.
#[derive(Clone, Debug)]
pub struct NeighbourConfig {
    /// The name of the neighbour in the contact plan.
    pub neighbour: String,
    /// The interface of the driver for these connections.
    pub interface: usize,
    /// Whether this node sends its bundles over these connections.
    pub can_send: bool,
    /// Whether this node opens connections. Otherwise it uses those that the neighbour opens.
    pub can_open: bool,
    /// Whether a connection is opened at the start of a contact, or only when a bundle is due.
    pub opens_with_contact: bool,
    /// Whether a connection is closed at the end of the contact.
    pub closes_after_contact: bool,
    /// The action on an existing connection when a contact starts again.
    pub on_contact_start: ContactStartSpec,
    /// Whether sessions get the planned link state.
    pub needs_link_state: bool,
}

pub(super) struct SessionEntry {
    pub(super) interface: usize,
    pub(super) neighbour: Option<PlanNodeId>,
}
