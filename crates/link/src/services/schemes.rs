//! The schemes of a link layer as a scenario names them: ARQ, and HARQ with and without combining.
//!
//! The defaults are those of Tauran 2018, section 3.4: packets are decoded after one, two and three attempts with
//! probability 0.5, 0.7 and 0.85. They are retransmitted after 20 ms, at most three times; 500 may be outstanding. The
//! rate 1/6 of the mother code and the margin of 5 % are fitted to its table 4.1.

use units::{Descriptor, Opt};

const FRAME: Opt = Opt::size(
    "frame",
    "frame_bytes",
    "information bytes of a frame; packets are padded to whole frames",
)
.min(1.0)
.max(65_535.0) // the largest IP packet
.required();

const OVERHEAD: Opt =
    Opt::integer("overhead_bits", 0, 1 << 20, "uncoded bits of a frame in each attempt")
        .default_integer(0);

const FIRST_OVERHEAD: Opt = Opt::integer(
    "first_overhead_bits",
    0,
    1 << 20,
    "additional uncoded bits of a frame in its first attempt",
)
.default_integer(0)
.omitted();

const CODE_RATE: Opt = Opt::hook(
    "code_rate",
    "",
    "code_rate",
    "code rate of every attempt such as `\"1/3\"`; the default is 1",
);

const CODED_BITS: Opt = Opt::hook(
    "coded_bits",
    "",
    "coded_bits",
    "coded bits of a frame by attempt, instead of a code rate; the last value holds for all further attempts",
);

const MARGIN: Opt = Opt::number(
    "margin",
    1.0,
    100.0,
    "mutual information that a frame needs, over its information bits",
)
.field("")
.default_number(1.05);

const MOTHER_RATE: Opt = Opt::hook(
    "mother_rate",
    "",
    "mother_rate",
    "rate of the mother code, which bounds the coded bits of all attempts",
)
.default_number(1.0 / 6.0);

const TARGET_DECODED_RATIO: Opt = Opt::hook(
    "target_decoded_ratio",
    "",
    "target_decoded_ratio",
    "shares of frames decoded after each attempt but the last, in ascending order; the default is 50, 70 and 85 %",
);

const BLOCK_ERROR_RATE: Opt = Opt::hook(
    "block_error_rate",
    "",
    "block_error_rate",
    "probabilities by attempt, instead of the channel; the last value holds for all further attempts",
);

const RETRANSMISSIONS: Opt = Opt::integer(
    "retransmissions",
    0,
    1_000,
    "attempts after the first; the default is 3 for HARQ, and no limit for ARQ",
)
.field("");

const FEEDBACK_DELAY: Opt =
    Opt::duration("feedback_delay", "", "delay of the feedback from the end of an attempt")
        .min(1.0)
        .default_integer(20_000_000);

const FEEDBACK_LOSS: Opt =
    Opt::probability("feedback_loss", "loss of the feedback").field("").default_number(0.0);

const TIMEOUT: Opt = Opt::duration(
    "timeout",
    "",
    "time that the sender waits for feedback; the default is `feedback_delay` if feedback may be lost",
)
.min(1.0);

const WINDOW: Opt = Opt::integer(
    "window",
    1,
    1 << 20,
    "largest number of unacknowledged packets; the default is 500",
)
.field("");

/// The fields that depend on several options and on the rate of the direction.
const SUPPLIED: Opt =
    Opt::hook("", "*", "link_layer", "rate, code, decoder, attempts and feedback");

const fn combining(word: &'static str) -> Opt {
    Opt::constant("combining", word, "combining of attempts")
}

const fn repeat(word: &'static str) -> Opt {
    Opt::constant("repeat", word, "order of retransmissions")
}

const fn scheme(
    scenario_name: &'static str,
    title: &'static str,
    reference: &'static str,
    options: &'static [Opt],
) -> Descriptor {
    Descriptor {
        scenario_name,
        spec_kind: "",
        aliases: &[],
        title,
        reference,
        options,
        draws: false,
        live_name: "",
    }
}

/// The options of a scheme: those of all schemes, then its own.
macro_rules! options {
    ($($own:expr),+ $(,)?) => {
        &[FRAME, OVERHEAD, FIRST_OVERHEAD, $($own),+, SUPPLIED]
    };
}

const CODE: Descriptor = scheme(
    "code",
    "One attempt",
    "",
    options![
        CODE_RATE,
        CODED_BITS,
        MARGIN,
        BLOCK_ERROR_RATE,
        combining("none"),
        repeat("selective")
    ],
);

const STOP_AND_WAIT: Descriptor = scheme(
    "stop-and-wait",
    "ARQ with one unacknowledged packet",
    "RFC 3366",
    options![
        CODE_RATE,
        CODED_BITS,
        MARGIN,
        BLOCK_ERROR_RATE,
        RETRANSMISSIONS,
        FEEDBACK_DELAY,
        FEEDBACK_LOSS,
        TIMEOUT,
        combining("none"),
        repeat("selective"),
    ],
);

const GO_BACK_N: Descriptor = scheme(
    "go-back-n",
    "ARQ that retransmits all later packets too",
    "RFC 3366",
    options![
        CODE_RATE,
        CODED_BITS,
        MARGIN,
        BLOCK_ERROR_RATE,
        RETRANSMISSIONS,
        FEEDBACK_DELAY,
        FEEDBACK_LOSS,
        TIMEOUT,
        WINDOW,
        combining("none"),
        repeat("go_back_n"),
    ],
);

const SELECTIVE_REPEAT: Descriptor = scheme(
    "selective-repeat",
    "ARQ that retransmits each packet individually",
    "RFC 3366",
    options![
        CODE_RATE,
        CODED_BITS,
        MARGIN,
        BLOCK_ERROR_RATE,
        RETRANSMISSIONS,
        FEEDBACK_DELAY,
        FEEDBACK_LOSS,
        TIMEOUT,
        WINDOW,
        combining("none"),
        repeat("selective"),
    ],
);

const HARQ_1: Descriptor = scheme(
    "harq-1",
    "HARQ of type I: attempts are not combined",
    "",
    options![
        CODE_RATE,
        CODED_BITS,
        MARGIN,
        BLOCK_ERROR_RATE,
        RETRANSMISSIONS,
        FEEDBACK_DELAY,
        FEEDBACK_LOSS,
        TIMEOUT,
        WINDOW,
        combining("none"),
        repeat("selective"),
    ],
);

const HARQ_CHASE: Descriptor = scheme(
    "harq-chase",
    "HARQ that combines the same bits",
    "Chase 1985",
    options![
        CODE_RATE,
        CODED_BITS,
        MARGIN,
        BLOCK_ERROR_RATE,
        RETRANSMISSIONS,
        FEEDBACK_DELAY,
        FEEDBACK_LOSS,
        TIMEOUT,
        WINDOW,
        combining("chase"),
        repeat("selective"),
    ],
);

const HARQ_2: Descriptor = scheme(
    "harq-2",
    "HARQ of type II: each attempt has new bits of the code",
    "",
    options![
        CODE_RATE,
        CODED_BITS,
        MARGIN,
        MOTHER_RATE,
        BLOCK_ERROR_RATE,
        RETRANSMISSIONS,
        FEEDBACK_DELAY,
        FEEDBACK_LOSS,
        TIMEOUT,
        WINDOW,
        combining("incremental"),
        repeat("selective"),
    ],
);

const HARQ_3: Descriptor = scheme(
    "harq-3",
    "HARQ of type III: new bits of the code in each attempt, which can also be decoded alone",
    "",
    HARQ_2.options,
);

const ADAPTIVE_HARQ: Descriptor = scheme(
    "adaptive-harq",
    "HARQ of type II with coded bits from the statistics of the channel",
    "Tauran 2018, section 3.3",
    options![
        CODED_BITS,
        MARGIN,
        MOTHER_RATE,
        TARGET_DECODED_RATIO,
        RETRANSMISSIONS,
        FEEDBACK_DELAY,
        FEEDBACK_LOSS,
        TIMEOUT,
        WINDOW,
        combining("incremental"),
        repeat("selective"),
    ],
);

/// The descriptors of all schemes in the order of the manual.
pub const LINK_LAYERS: &[&Descriptor] = &[
    &CODE,
    &STOP_AND_WAIT,
    &GO_BACK_N,
    &SELECTIVE_REPEAT,
    &HARQ_1,
    &HARQ_CHASE,
    &HARQ_2,
    &HARQ_3,
    &ADAPTIVE_HARQ,
];
