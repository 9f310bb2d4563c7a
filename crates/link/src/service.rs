//! The boundary of a service process: its packets, the outcome of a service, and the effect of feedback.

use units::{Packet, Time};

use crate::{Channel, DropReason, Feedback, StageOutput, StageUpdate};

/// A packet in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The packet.
    pub packet: Packet,
    /// The number of the packet at this transmitter, from 0. A handle can be reused after the delivery of its packet,
    /// while a duplicate still waits.
    pub id: u64,
    /// The attempt number, from 1.
    pub attempt: u32,
    /// Whether the packet was delivered before ([`ServiceOutcome::Unconfirmed`]).
    pub is_duplicate: bool,
    /// The number among the first transmissions of the flow, from 0, if a reordering buffer uses it.
    pub sequence: u64,
}

/// The outcome of a service. A duplicate only costs airtime: the transmitter neither delivers nor drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceOutcome {
    /// The packet is delivered and the transmitter discards its state.
    Deliver,
    /// The packet is delivered without an acknowledgement. A duplicate stays and follows
    /// [`ServiceOutcome::Retransmit`], unless [`ServiceProcess::on_feedback`] returns an action before.
    Unconfirmed {
        /// The earliest start of the next attempt; [`Time::MAX`]: after feedback only.
        at: Time,
    },
    /// The packet is served again from this instant, before new packets (HARQ).
    Retransmit {
        /// The earliest start of the next attempt; [`Time::MAX`]: after feedback only.
        at: Time,
    },
    /// The packet is lost on the link.
    Drop(DropReason),
}

/// The effect of feedback on a packet that waits for a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackAction {
    /// The packet needs no further attempt. If it was never delivered (a NACK was received as an ACK), it is dropped
    /// ([`DropReason::LinkLayer`]).
    Complete,
    /// The next attempt may begin at this instant.
    Retransmit {
        /// The earliest start.
        at: Time,
    },
    /// This packet and all waiting packets with a larger id may be served again from this instant, in order of ids
    /// (go-back-N). This packet itself need not wait any more.
    GoBackN {
        /// The earliest start.
        at: Time,
    },
}

/// The use of airtime for packets: a rate, the opportunities of a trace, HARQ.
pub trait ServiceProcess: Send {
    /// Begins the service of `transmission` at `due` and returns its end.
    fn begin(&mut self, due: Time, transmission: &Transmission, channel: &mut dyn Channel) -> Time;

    /// Ends the service of `transmission` at `due`. `out` accepts only the feedback of the receiver.
    fn end(
        &mut self,
        due: Time,
        transmission: &Transmission,
        out: &mut StageOutput,
    ) -> ServiceOutcome;

    /// Returns the earliest start of a new packet, for a window of packets in flight (stop-and-wait, HARQ processes).
    /// [`Time::MAX`]: after the end of a service or after feedback.
    fn available_at(&self) -> Time {
        Time::ZERO
    }

    /// Returns the coded bits of this attempt of `transmission`, which is the last one that began.
    fn coded_bits(&self, transmission: &Transmission) -> u64 {
        u64::from(transmission.packet.bytes) * 8
    }

    /// Handles `feedback` at `due` and returns the packet ([`Transmission::id`]) with the action, if there is one. For
    /// a packet in service it is too late: the next [`ServiceProcess::end`] decides.
    fn on_feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, FeedbackAction)> {
        let _ = (due, feedback);
        None
    }

    /// Applies an update. [`crate::InFlightPolicy::Drop`] discards all packets that wait for a retransmission.
    fn apply_update(&mut self, due: Time, update: &StageUpdate) {
        let _ = (due, update);
    }
}

impl<S: ServiceProcess + ?Sized> ServiceProcess for Box<S> {
    fn begin(&mut self, due: Time, transmission: &Transmission, channel: &mut dyn Channel) -> Time {
        (**self).begin(due, transmission, channel)
    }
    fn end(
        &mut self,
        due: Time,
        transmission: &Transmission,
        out: &mut StageOutput,
    ) -> ServiceOutcome {
        (**self).end(due, transmission, out)
    }
    fn available_at(&self) -> Time {
        (**self).available_at()
    }
    fn coded_bits(&self, transmission: &Transmission) -> u64 {
        (**self).coded_bits(transmission)
    }
    fn on_feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, FeedbackAction)> {
        (**self).on_feedback(due, feedback)
    }
    fn apply_update(&mut self, due: Time, update: &StageUpdate) {
        (**self).apply_update(due, update);
    }
}
