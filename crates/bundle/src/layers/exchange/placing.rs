//! What goes out: which stream a bundle is given to, in turns, and what becomes of one that cannot go on.

use transport::Streams;
use units::Time;

use super::lane::{Lane, Opener, Outgoing};
use super::{DATA, Exchange, Layout, SIGNAL, Stage, TURN};
use crate::layers::messages::Dialect;
use crate::{Refusal, Said, Service};

impl Exchange {
    /// Gives bundles that wait to their streams, as far as these are there.
    pub(super) fn place(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.stage != Stage::Established || self.is_ending() {
            return;
        }
        let Some(peer) = &self.peer else { return };
        let (transfer_mru, segment_mru) = (peer.transfer_mru, peer.segment_mru);
        while let Some(next) = self.waiting.front() {
            let (id, total) = (next.id, next.bytes());
            let mut most = self.setup.segment_bytes.min(segment_mru);
            if self.setup.dialect == Dialect::Quiccl {
                // A segment's number has 16 bits.
                most = most.max(total.div_ceil(u64::from(u16::MAX)));
            }
            let why = if total > transfer_mru || most > segment_mru {
                Some(Refusal::TooLarge)
            } else if next.service != Service::Reliable {
                Some(Refusal::NoService)
            } else {
                None
            };
            if let Some(why) = why {
                self.waiting.pop_front();
                said.push(Said::Refused { id, why });
                continue;
            }
            let (stream, single) = match self.setup.layout {
                Layout::Signal => (SIGNAL, None),
                Layout::One => (DATA[3], None),
                Layout::Priorities => match next.priority {
                    0 => (DATA[2], None),
                    1 => (DATA[1], None),
                    _ => (DATA[0], None),
                },
                Layout::Each => match streams.open() {
                    Some(stream) => (stream, Some(Opener::Here)),
                    None => return,
                },
            };
            if single.is_none() && !self.lanes.contains(stream) {
                return;
            }
            let transfer = self.number();
            let Some(bundle) = self.waiting.pop_front() else { return };
            if single.is_some() {
                streams.set_priority(stream, bundle.priority.into());
            }
            self.lane(stream, single).queue.push_back(Outgoing {
                id,
                transfer,
                parts: bundle.data.into(),
                total,
                cut: 0,
                segments: 0,
                most,
            });
        }
    }

    pub(super) fn write(&mut self, now: Time, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let mut left = streams.appetite().max(1);
        let signals = self.lanes.get(SIGNAL).is_some_and(Lane::has_data);
        if signals && let Some(signal) = self.lanes.get_mut(SIGNAL) {
            let written = signal.write(Some(left), streams, said);
            left -= written;
            if written > 0 {
                self.last_sent = now;
            }
        }
        // Streams of one bundle share the window by turns; of the four the first is the most urgent.
        let first = if self.setup.layout == Layout::Each { self.turn + 1 } else { 0 };
        self.order.clear();
        self.order.extend(self.lanes.loaded(first));
        let mut progress = true;
        while left > 0 && progress {
            progress = false;
            for id in &self.order {
                let Some(lane) = self.lanes.get_mut(*id).filter(|lane| lane.has_data()) else {
                    continue;
                };
                if left == 0 {
                    return;
                }
                let turn = if self.setup.layout == Layout::Each { left.min(TURN) } else { left };
                let written = lane.write(Some(turn), streams, said);
                if written > 0 {
                    (self.last_sent, self.turn, progress) = (now, *id, true);
                    left -= written;
                }
            }
        }
    }

    pub(super) fn stopped(&mut self, id: u64, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let Some(lane) = self.lanes.get(id) else { return };
        if lane.single != Some(Opener::Here) {
            return self.fail(Some("the peer has stopped a stream"));
        }
        streams.reset(id);
        self.give_up(id, Refusal::Unknown, said);
    }

    /// A stream of one bundle is over without an answer.
    pub(super) fn give_up(&mut self, id: u64, why: Refusal, said: &mut Vec<Said>) {
        let Some(mut lane) = self.lanes.remove(id) else { return };
        let queued: Vec<u64> = lane.take_queue().collect();
        for id in lane.given().chain(queued) {
            said.push(Said::Refused { id, why });
        }
        lane.drop_assembly(&mut self.room);
        self.owners.retain(|_, stream| *stream != id);
    }

    // The end.
}
