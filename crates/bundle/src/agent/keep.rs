//! What is here: from when a bundle is stored until it is let go of, or its lifetime is over.

use contacts::NodeId;
use units::{Span, Time};

use super::flood::Spread;
use super::lasting::Want;
use super::neighbour::Spot;
use super::{Act, Agent, SessionId, deliver};
use crate::wire::{Bundle, ReasonCode};
use crate::{Asked, Refusal, Told};

/// A bundle that is here.
pub(super) struct Kept {
    pub(super) bundle: Bundle,
    pub(super) came: Time,
    pub(super) deadline: Time,
    pub(super) bytes: u64,
    /// Until it is durable: the session that it came from, and its number there; and those that have brought it again.
    pub(super) from: Vec<(SessionId, u64)>,
    pub(super) durable: bool,
    /// Copies that wait for a neighbour or are on their way to one.
    pub(super) copies: Vec<(NodeId, Spot)>,
    /// Neighbours that will never take it.
    pub(super) unwanted_by: Vec<NodeId>,
    /// The neighbour that could not take it, and until when it is not asked again.
    pub(super) later: Option<(NodeId, Time)>,
    /// Who has it, where nodes flood.
    pub(super) spread: Option<Box<Spread>>,
    /// Why its payload is asked for, if it is.
    pub(super) want: Option<Want>,
    pub(super) kind: &'static str,
}

impl Kept {
    /// A copy is there.
    pub(super) fn copied(&mut self, to: NodeId, spot: Spot) {
        // There is one as a rule, of a million bundles.
        self.copies.reserve_exact(1);
        self.copies.push((to, spot));
    }

    /// It is there no more.
    pub(super) fn uncopied(&mut self, to: NodeId, spot: Spot) {
        self.copies.retain(|one| *one != (to, spot));
    }
}

impl Agent {
    /// Stores a bundle, unless there is no room.
    pub(super) fn keep(
        &mut self,
        now: Time,
        bundle: Bundle,
        kind: &'static str,
        from: Option<(SessionId, u64)>,
    ) -> Result<u64, Box<Bundle>> {
        let bytes = bundle.bytes();
        if self.store_bytes.is_some_and(|most| self.stored_bytes + bytes > most) {
            return Err(Box::new(bundle));
        }
        let key = self.next;
        self.next += 1;
        self.enter(now, key, bundle, kind).from.extend(from);
        self.acts.push(Act::Store(Asked::Keep(key)));
        Ok(key)
    }

    /// The bundle has its place, of this number.
    pub(super) fn enter(
        &mut self,
        now: Time,
        key: u64,
        bundle: Bundle,
        kind: &'static str,
    ) -> &mut Kept {
        let (deadline, bytes) = (self.deadline(now, &bundle), bundle.bytes());
        self.stored_bytes += bytes;
        self.deadlines.insert((deadline, key));
        self.here.insert(bundle.id.clone(), key);
        self.see(&bundle.id, self.id_expiry(now, &bundle));
        self.enter_part(key, &bundle);
        let kept = Kept {
            bundle,
            came: now,
            deadline,
            bytes,
            from: Vec::new(),
            durable: false,
            copies: Vec::new(),
            unwanted_by: Vec::new(),
            later: None,
            spread: None,
            want: None,
            kind,
        };
        self.kept.entry(key).or_insert(kept)
    }

    /// The bundle of this number is durable.
    pub(super) fn stored(&mut self, now: Time, key: u64) {
        let Some(kept) = self.kept.get_mut(&key) else { return };
        kept.durable = true;
        if !kept.from.is_empty() {
            let (from, bundle) = (std::mem::take(&mut kept.from), kept.bundle.clone());
            self.answer(from, None);
            self.report(now, &bundle, deliver::RECEIVED, ReasonCode::NoAdditionalInformation);
        }
        self.dispatch(now, key);
        self.put_away(key);
    }

    /// When a bundle is of no use any more, by this node's clock (section 4.2.7; without a clock at its source, by its
    /// age, section 4.4.2).
    pub(super) fn deadline(&self, now: Time, bundle: &Bundle) -> Time {
        let left = match bundle.created_ms() {
            Some(created) => {
                let end = u128::from(created) * 1_000_000 + u128::from(bundle.lifetime.nanos());
                let zero = u128::from(self.epoch_ms) * 1_000_000;
                let at = u64::try_from(end.saturating_sub(zero)).unwrap_or(u64::MAX / 4);
                return Time(at.min(u64::MAX / 4));
            }
            None => bundle.lifetime.nanos().saturating_sub(bundle.age.map_or(0, Span::nanos)),
        };
        Time(now.nanos().saturating_add(left).min(u64::MAX / 4))
    }

    /// Those who have brought a bundle hear what has become of it: it was taken, or why not.
    pub(super) fn answer(&mut self, from: Vec<(SessionId, u64)>, refused: Option<Refusal>) {
        for (place, (session, id)) in from.into_iter().enumerate() {
            let told = match refused {
                Some(why) => Told::Refuse(id, why),
                None if place > 0 => Told::Refuse(id, Refusal::Completed),
                None => Told::Stored(id),
            };
            self.acts.push(Act::Tell(session, told));
        }
    }

    /// Lets go of a bundle.
    pub(super) fn forget(&mut self, key: u64) -> Option<Kept> {
        let mut kept = self.remove(key)?;
        // While it was being stored: nobody need send it again.
        self.answer(std::mem::take(&mut kept.from), None);
        if self.lasting.is_some() {
            self.acts.push(Act::Store(Asked::Forget(key, Vec::new())));
        }
        Some(kept)
    }

    /// The same, of which the store knows nothing yet.
    pub(super) fn remove(&mut self, key: u64) -> Option<Kept> {
        let kept = self.kept.remove(&key)?;
        self.unwanted(&kept);
        self.stored_bytes -= kept.bytes;
        self.deadlines.remove(&(kept.deadline, key));
        self.stuck.remove(&key);
        self.leave_part(key, &kept.bundle);
        if self.here.get(&kept.bundle.id) == Some(&key) {
            self.here.remove(&kept.bundle.id);
        }
        Some(kept)
    }

    pub(super) fn expire_due(&mut self, now: Time) {
        self.expire_seen(now);
        self.expire_delivered(now);
        while let Some((deadline, key)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.expire(now, key);
        }
    }

    pub(super) fn expire(&mut self, now: Time, key: u64) {
        self.unqueue(key);
        if let Some(kept) = self.forget(key) {
            self.gone(now, &kept.bundle, kept.kind, ReasonCode::LifetimeExpired);
        }
    }
}
