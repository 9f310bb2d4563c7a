//! A store that outlives the node: what is found in it, what has to be remembered, payloads that are fetched when they are
//! needed.

use std::collections::VecDeque;

use bytes::Bytes;
use contacts::NodeId;
use units::{Span, Time};

use super::keep::Kept;
use super::{Act, Agent, deliver};
use crate::record::{Happened, reason};
use crate::wire::{Bundle, Id, ReasonCode, Wrong};
use crate::{Answer, Asked, Refusal};

/// Payload that a layer is given before the transport has taken it, and that is fetched ahead for it.
pub(super) const AHEAD_BYTES: u64 = 32 << 20;
pub(super) const AHEAD_BUNDLES: usize = 256;

/// Bundles of an earlier run that are decided on in one go.
const GO: usize = 64;

/// Why a bundle was deleted whose payload cannot be read any more.
const DAMAGED: &str = "it is damaged in the store";

/// Kinds of bundles, by the number that a store has for them.
const KINDS: [&str; 3] = ["data", "acknowledgement", "report"];

/// What a node knows of its store.
#[derive(Default)]
pub(super) struct Lasting {
    /// Bundles of an earlier run that nothing has been decided on yet.
    found: VecDeque<u64>,
    /// Bytes and number of payloads that were asked for.
    fetching: (u64, usize),
}

/// Why a payload is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A neighbour can have it.
    Send,
    /// It is to be delivered or cut.
    Decide,
}

/// A bundle as a store keeps it: all but the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What comes before the payload and after it ([`Bundle::around`]).
    pub around: [Bytes; 2],
    /// Length of the payload.
    pub payload_bytes: u64,
    /// When it came, milliseconds since 2000.
    pub came_ms: u64,
    /// What it is for.
    pub kind: u8,
}

impl Stored {
    /// All of it but the payload's length, as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let [first, end] = &self.around;
        let mut bytes = Vec::with_capacity(13 + first.len() + end.len());
        bytes.extend(self.came_ms.to_le_bytes());
        bytes.push(self.kind);
        bytes.extend((first.len() as u32).to_le_bytes());
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(end);
        bytes
    }

    /// What [`Stored::to_bytes`] has written, of a bundle with so much payload; none: it was something else.
    pub fn of_bytes(bytes: &[u8], payload_bytes: u64) -> Option<Stored> {
        let (came, rest) = bytes.split_first_chunk()?;
        let (kind, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (first, end) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some(Stored {
            around: [first, end].map(Bytes::copy_from_slice),
            payload_bytes,
            came_ms: u64::from_le_bytes(*came),
            kind: *kind,
        })
    }

    /// The bundle, its payload away.
    ///
    /// # Errors
    /// It cannot be read without its payload.
    pub fn read(&self) -> Result<Bundle, Wrong> {
        Bundle::from_around(self.around.clone(), self.payload_bytes)
    }

    /// The bundle with its payload.
    ///
    /// # Errors
    /// It is none.
    pub fn read_with(&self, payload: Bytes) -> Result<Bundle, Wrong> {
        let [first, end] = self.around.clone();
        Bundle::decode_parts(&[first, payload, end])
    }
}

impl Agent {
    /// Its store outlives it, and has numbered the last of its own bundles `sequence - 1`; bundles get numbers from `next` on.
    pub fn outlive(&mut self, sequence: u64, next: u64) {
        (self.sequence, self.next) = (sequence, next);
        self.lasting = Some(Lasting::default());
    }

    /// An application had the bundle with this id in an earlier run; no use in it from `until_ms` (since 2000) on.
    pub fn recall(&mut self, id: &Id, until_ms: u64) {
        let expires = until_ms.saturating_sub(self.epoch_ms).saturating_mul(1_000_000);
        self.delivered.insert(id, Time(expires));
    }

    /// How many ids of delivered bundles it remembers.
    pub fn remembered(&self) -> usize {
        self.delivered.len()
    }

    /// A bundle of an earlier run.
    pub fn find(&mut self, now: Time, key: u64, mut bundle: Bundle, came_ms: u64, kind: u8) {
        // Ages grew meanwhile, as the node's clock shows.
        let away = Span::from_millis(self.clock_ms(now).saturating_sub(came_ms));
        bundle.age = bundle.age.map(|age| Span(age.nanos().saturating_add(away.nanos())));
        let kind = KINDS[usize::from(kind).min(KINDS.len() - 1)];
        self.enter(now, key, bundle, kind).durable = true;
        if let Some(lasting) = &mut self.lasting {
            lasting.found.push_back(key);
        }
    }

    /// Decides on some bundles of an earlier run.
    pub fn resume(&mut self, now: Time) {
        for _ in 0..GO {
            let next = self.lasting.as_mut().and_then(|lasting| lasting.found.pop_front());
            let Some(key) = next else { return };
            self.dispatch(now, key);
        }
    }

    /// How many bundles of an earlier run nothing has been decided on yet.
    pub fn unresumed(&self) -> usize {
        self.lasting.as_ref().map_or(0, |lasting| lasting.found.len())
    }

    /// What a store keeps of a bundle, its payload beside it.
    pub fn stored_as(&self, key: u64) -> Option<(Stored, &[Bytes])> {
        let kept = self.kept.get(&key)?;
        let kind = KINDS.iter().position(|kind| *kind == kept.kind).unwrap_or_default();
        let stored = Stored {
            around: kept.bundle.around(),
            payload_bytes: kept.bundle.payload_bytes(),
            came_ms: self.clock_ms(kept.came),
            kind: kind as u8,
        };
        Some((stored, &kept.bundle.payload))
    }

    /// How many bundles it has numbered as its own, in earlier runs too.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The store says something.
    pub fn answered(&mut self, now: Time, answer: Answer) {
        match answer {
            Answer::Durable(key) => self.stored(now, key),
            Answer::Refused(key) => self.unstored(now, key),
            Answer::Loaded(key, payload) => self.loaded(now, key, payload),
        }
    }

    /// Whether a bundle comes after its lifetime, when its id may be forgotten.
    pub(super) fn is_too_late(&self, now: Time, bundle: &Bundle) -> bool {
        self.deadline(now, bundle) <= now
    }

    /// From when on every copy of a bundle is refused as expired: after its lifetime. Without a creation time a whole
    /// lifetime counts from now on, whatever age a copy has, since ages leave out the time on the way.
    pub(super) fn id_expiry(&self, now: Time, bundle: &Bundle) -> Time {
        match bundle.created_ms() {
            Some(_) => self.deadline(now, bundle),
            None => (now + bundle.lifetime).min(Time(u64::MAX / 4)),
        }
    }

    /// An application has a bundle: its id is remembered until every copy of it is refused as expired.
    pub(super) fn remember(&mut self, now: Time, bundle: &Bundle) {
        let expires = self.id_expiry(now, bundle);
        self.delivered.insert(&bundle.id, expires);
        if self.lasting.is_some() {
            let until = self.epoch_ms + expires.nanos().div_ceil(1_000_000);
            self.acts.push(Act::Store(Asked::Remember(bundle.id.clone(), until)));
        }
        self.expire_delivered(now);
    }

    /// Forgets delivered bundles whose copies are refused as expired by now, and those that are too many, in its store too.
    pub(super) fn expire_delivered(&mut self, now: Time) {
        while let Some(id) =
            self.delivered.remove_expired(now).or_else(|| self.delivered.remove_excess())
        {
            if self.lasting.is_some() {
                self.acts.push(Act::Store(Asked::ForgetDelivered(id)));
            }
        }
    }

    /// Its payload need not be in memory.
    pub(super) fn put_away(&mut self, key: u64) {
        if self.lasting.is_some()
            && let Some(kept) = self.kept.get_mut(&key)
            && kept.want.is_none()
        {
            kept.bundle.put_away();
        }
    }

    /// Its payload is needed.
    pub(super) fn want(&mut self, key: u64, why: Want) {
        let (Some(kept), Some(lasting)) = (self.kept.get_mut(&key), &mut self.lasting) else {
            return;
        };
        let before = kept.want;
        kept.want = Some(if before == Some(Want::Decide) { Want::Decide } else { why });
        if before.is_none() {
            lasting.fetching.0 += kept.bytes;
            lasting.fetching.1 += 1;
            self.acts.push(Act::Store(Asked::Load(key)));
        }
    }

    /// Whether a payload of so many bytes may be fetched ahead beside what is on its way already.
    pub(super) fn may_fetch(&self) -> bool {
        let fetching = self.lasting.as_ref().map_or((0, 0), |lasting| lasting.fetching);
        fetching.0 < AHEAD_BYTES && fetching.1 < AHEAD_BUNDLES
    }

    fn loaded(&mut self, now: Time, key: u64, payload: Result<Vec<Bytes>, String>) {
        let (Some(kept), Some(lasting)) = (self.kept.get_mut(&key), &mut self.lasting) else {
            return;
        };
        let Some(why) = kept.want.take() else { return };
        lasting.fetching.0 -= kept.bytes;
        lasting.fetching.1 -= 1;
        let brought = payload.and_then(|payload| kept.bundle.bring(payload).map_err(|why| why.0));
        if brought.is_err() {
            self.unqueue(key);
            if let Some(kept) = self.forget(key) {
                let (bundle, kind) = (&kept.bundle, kept.kind);
                self.note(now, Happened::Deleted, bundle, kind, None, Some(DAMAGED));
                let code = ReasonCode::DepletedStorage;
                self.report(now, bundle, deliver::DELETED, code);
            }
            return;
        }
        match why {
            Want::Decide => self.dispatch(now, key),
            Want::Send => {
                let ids: Vec<NodeId> = self.neighbours.keys().copied().collect();
                ids.into_iter().for_each(|id| self.pump(now, id));
            }
        }
    }

    /// The store has no room for a bundle after all.
    fn unstored(&mut self, now: Time, key: u64) {
        let Some(kept) = self.remove(key) else { return };
        let code = ReasonCode::DepletedStorage;
        self.note(now, Happened::Deleted, &kept.bundle, kept.kind, None, Some(reason(code)));
        self.unsee(&kept.bundle.id);
        if kept.from.is_empty() {
            return self.report(now, &kept.bundle, deliver::DELETED, code);
        }
        self.answer(kept.from, Some(Refusal::NoResources));
    }

    /// A bundle is not here any more: what was asked for it is of no use.
    pub(super) fn unwanted(&mut self, kept: &Kept) {
        if let (Some(lasting), Some(_)) = (&mut self.lasting, kept.want) {
            lasting.fetching.0 -= kept.bytes;
            lasting.fetching.1 -= 1;
        }
    }
}
