//! What sessions say, and what becomes of a bundle that has come.

use bytes::Bytes;
use contacts::NodeId;
use units::Time;

use super::{Act, Agent, Link, SessionId, deliver, node_id};
use crate::record::Happened;
use crate::wire::{Bundle, ReasonCode};
use crate::{Refusal, Said, Told};

/// Why a bundle that came again was deleted.
pub(super) const KNOWN: &str = "it is known here";

/// Transfers of one bundle that wait for the store at most; who sends more copies meanwhile is refused.
const MOST_WAITING: usize = 1024;

impl Agent {
    /// A session has begun at `end`, opened from this side or from the other.
    pub fn opened(&mut self, now: Time, end: usize, session: SessionId) {
        let neighbour = self.ends.get(&end).copied();
        self.sessions.insert(session, Link { end, neighbour });
        if let Some(id) = neighbour
            && let Some(neighbour) = self.neighbours.get_mut(&id)
            && neighbour.door.end == end
        {
            // Whose peer opens another one has given the last one up.
            let before = neighbour.session.replace(session);
            if let Some(before) = before.filter(|before| *before != session) {
                self.acts.push(Act::Tell(before, Told::Abort));
                self.flights_back(now, id, "the connection was opened again");
            }
            self.tell_way(now, id, true);
            self.pump(now, id);
        }
    }

    /// A session says something.
    pub fn heard(&mut self, now: Time, session: SessionId, said: Said) {
        let Some(link) = self.sessions.get(&session) else { return };
        let (peer, end) = (link.neighbour, link.end);
        match said {
            Said::Started { peer: name, .. } => {
                let expected = peer.and_then(|peer| self.eids.get(&peer)).map(node_id);
                // A peer that is not who it should be gets nothing and gives nothing.
                if let Some(name) = name
                    && expected
                        .is_some_and(|eid| name.parse().is_ok_and(|own| node_id(&own) != eid))
                {
                    self.acts.push(Act::Tell(session, Told::Abort));
                }
            }
            Said::Sent(id) => self.left(now, session, id),
            Said::Accepted { id, .. } => self.taken(now, session, id),
            Said::Refused { id, why } => self.refused(now, session, id, why),
            Said::Received { id, data, .. } => self.received(now, session, id, peer, &data),
            Said::Ended { .. } => {
                self.sessions.remove(&session);
                self.over(now, session, end, peer);
            }
        }
    }

    /// A bundle has come whole.
    fn received(
        &mut self,
        now: Time,
        session: SessionId,
        id: u64,
        peer: Option<NodeId>,
        data: &[Bytes],
    ) {
        let refuse = |why| Act::Tell(session, Told::Refuse(id, why));
        let mut bundle = match Bundle::decode_parts(data) {
            Ok(bundle) => bundle,
            Err(_) => return self.acts.push(refuse(Refusal::NotAcceptable)),
        };
        let peer_name = peer.map(|peer| self.plan.name(peer).to_owned());
        bundle.hops = bundle.hops.map(|(limit, count)| (limit, count.saturating_add(1)));
        // Where a bundle was is not what the peer says but who it is.
        bundle.previous = peer.and_then(|peer| self.eids.get(&peer)).cloned().or(bundle.previous);
        let kind = deliver::kind(&bundle);
        self.note(now, Happened::Received, &bundle, kind, peer_name, None);
        let here = self.here.contains_key(&bundle.id);
        if here || self.was_delivered(now, &bundle.id) || self.has_seen(now, &bundle.id) {
            if let Some(peer) = peer {
                self.has_it(now, &bundle.id, peer);
            }
            self.note(now, Happened::Deleted, &bundle, kind, None, Some(KNOWN));
            // Nobody is told that it is here who would lose it if the node stopped now.
            let key = self.here.get(&bundle.id);
            return match key.and_then(|key| self.kept.get_mut(key)).filter(|kept| !kept.durable) {
                Some(kept) if kept.from.len() < MOST_WAITING => kept.from.push((session, id)),
                Some(_) => self.acts.push(refuse(Refusal::NoResources)),
                None => self.acts.push(refuse(Refusal::Completed)),
            };
        }
        if bundle.unknown.report {
            self.report_on(now, &bundle, deliver::RECEIVED, ReasonCode::BlockUnsupported);
        }
        if let Some(why) = bundle.unknown.delete {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, why);
        }
        if bundle.hops.is_some_and(|(limit, count)| count > limit) {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, ReasonCode::HopLimitExceeded);
        }
        if self.is_too_late(now, &bundle) {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, ReasonCode::LifetimeExpired);
        }
        if let Some(why) = self.judge(&bundle) {
            self.acts.push(Act::Tell(session, Told::Stored(id)));
            return self.gone(now, &bundle, kind, why);
        }
        match self.keep(now, bundle, kind, Some((session, id))) {
            Ok(_) => {}
            Err(bundle) => {
                self.acts.push(refuse(Refusal::NoResources));
                self.gone(now, &bundle, kind, ReasonCode::DepletedStorage);
            }
        }
    }
}
