//! A node that stops, as by a kill or a loss of power, and goes on: what is gone with it and what is still there.

use contacts::NodeId;
use units::Time;

use super::Agent;
use crate::record::Happened;

/// Why what a stop has taken was deleted: nobody is there to report it, and RFC 9171 has no code for it.
const STOPPED: &str = "the node stopped";

impl Agent {
    /// The node stops: its sessions are gone, and with them what is not durable, or all that it stores unless it `keeps` that.
    /// What it has delivered stays known: applications have it.
    pub fn stop(&mut self, now: Time, keeps: bool) {
        self.acts.clear();
        self.sessions.clear();
        let ids: Vec<NodeId> = self.neighbours.keys().copied().collect();
        for id in ids {
            self.drop_neighbour(now, id);
        }
        self.stuck.clear();
        self.stop_flood();
        let gone = self.kept.iter().filter(|(_, kept)| !keeps || !kept.durable);
        let gone: Vec<u64> = gone.map(|(key, _)| *key).collect();
        for key in gone {
            // Nobody is there to be told.
            if let Some(kept) = self.kept.get_mut(&key) {
                kept.from.clear();
            }
            if let Some(kept) = self.forget(key) {
                let (bundle, kind) = (&kept.bundle, kept.kind);
                self.note(now, Happened::Deleted, bundle, kind, None, Some(STOPPED));
            }
        }
    }

    /// It goes on: what it still has is decided on anew.
    pub fn restart(&mut self, now: Time) {
        self.expire_due(now);
        for neighbour in self.neighbours.values_mut() {
            neighbour.edge = now;
        }
        let keys: Vec<u64> = self.kept.keys().copied().collect();
        for key in keys {
            self.dispatch(now, key);
        }
    }

    fn drop_neighbour(&mut self, now: Time, id: NodeId) {
        let Some((flights, copies)) = self.neighbours.get_mut(&id).map(|one| one.stop()) else {
            return;
        };
        for copy in copies {
            self.router.withdraw(&copy.booking);
            if let Some(kept) = self.kept.get_mut(&copy.key) {
                kept.copies.clear();
            }
        }
        let peer = self.plan.name(id).to_owned();
        for flight in flights {
            if flight.left {
                self.router.lost(&flight.booking);
            } else {
                self.router.withdraw(&flight.booking);
            }
            let Some(kept) = self.kept.get_mut(&flight.key) else { continue };
            kept.copies.clear();
            let (bundle, kind) = (kept.bundle.clone(), kept.kind);
            let peer = Some(peer.clone());
            self.note(now, Happened::Returned, &bundle, kind, peer, Some(STOPPED));
        }
    }
}
