//! Node failures, such as a kill or a power loss: the loss of state, and the restart.

use contacts::PlanNodeId;
use units::Time;

use super::BundleProtocolAgent;
use super::events::BundleEventKind;

/// The deletion reason after a failure. The node cannot report it, and RFC 9171 has no code for it.
const NODE_STOPPED: &str = "the node stopped";

impl BundleProtocolAgent {
    /// Stops the node. It loses its sessions and all bundles that are not durable, or all bundles without
    /// `keeps_store`. Delivered IDs remain, because the applications have those bundles.
    pub fn crash(&mut self, now: Time, keeps_store: bool) {
        self.actions.clear();
        self.sessions.clear();
        let ids: Vec<PlanNodeId> = self.neighbours.keys().copied().collect();
        for id in ids {
            self.reset_neighbour(now, id);
        }
        self.unrouted.clear();
        self.clear_epidemic_state();
        let lost = self.stored.iter().filter(|(_, stored)| !keeps_store || !stored.durable);
        let lost: Vec<u64> = lost.map(|(key, _)| *key).collect();
        for key in lost {
            // The sessions are closed.
            if let Some(stored) = self.stored.get_mut(&key) {
                stored.pending_acks.clear();
            }
            if let Some(stored) = self.delete_bundle(key) {
                let (bundle, kind) = (&stored.bundle, stored.kind);
                self.record_event(
                    now,
                    BundleEventKind::Deleted,
                    bundle,
                    kind,
                    None,
                    Some(NODE_STOPPED),
                );
            }
        }
    }

    /// Restarts the node and dispatches the remaining bundles.
    pub fn restart(&mut self, now: Time) {
        self.expire_due(now);
        for neighbour in self.neighbours.values_mut() {
            neighbour.poll_at = now;
        }
        let keys: Vec<u64> = self.stored.keys().copied().collect();
        for key in keys {
            self.dispatch_bundle(now, key);
        }
    }

    fn reset_neighbour(&mut self, now: Time, id: PlanNodeId) {
        let Some((transfers, copies)) = self.neighbours.get_mut(&id).map(|one| one.reset()) else {
            return;
        };
        for copy in copies {
            self.router.cancel_booking(&copy.booking);
            if let Some(stored) = self.stored.get_mut(&copy.key) {
                stored.copies.clear();
            }
        }
        let peer = self.plan.name(id).to_owned();
        for active in transfers {
            if active.is_transmitted {
                self.router.on_lost(&active.booking);
            } else {
                self.router.cancel_booking(&active.booking);
            }
            let Some(stored) = self.stored.get_mut(&active.key) else { continue };
            stored.copies.clear();
            let (bundle, kind) = (stored.bundle.clone(), stored.kind);
            let peer = Some(peer.clone());
            self.record_event(
                now,
                BundleEventKind::Returned,
                &bundle,
                kind,
                peer,
                Some(NODE_STOPPED),
            );
        }
    }
}
