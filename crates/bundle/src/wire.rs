//! Bundles as bytes (RFC 9171). hardy-bpv7 reads them, checks them and writes primary blocks and records; what a node changes
//! on the way are a few small blocks, and the payload's bytes are never copied: primary and payload block go on as they
//! came.

use bytes::Bytes;
use hardy_bpv7::block::BibCoverage;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::builder::Builder;
use hardy_bpv7::bundle;
use hardy_bpv7::bundle::{CheckedBundle, ParsedBundle};
use hardy_bpv7::crc::{CrcType, Digest};
use hardy_bpv7::creation_timestamp::CreationTimestamp;
use hardy_bpv7::dtn_time::DtnTime;
use hardy_bpv7::editor::Chunk;
use hardy_cbor::encode;
use units::Span;

mod away;
mod fragments;
mod integrity;
mod other;
mod parts;
mod unknown;

pub(crate) use fragments::slice;
pub use hardy_bpv7::bundle::{Flags, Id};
pub use hardy_bpv7::eid::Eid;
pub use hardy_bpv7::status_report::ReasonCode;
pub use integrity::{Found, Operation, PAYLOAD};
use other::Other;

/// Block of the private-use range (RFC 9171 section 9.1: 192 to 255) with what version 7 has no field for: an array of the
/// priority (0 bulk, 1 normal, 2 expedited) and whether the bundle is critical. Without it a bundle is normal.
const CLASS: u64 = 192;

/// Types of the extension blocks of RFC 9171 section 4.4.
const PREVIOUS_NODE: u64 = 6;
const AGE: u64 = 7;
const HOP_COUNT: u64 = 10;

/// Block flag "must be replicated in every fragment" (section 4.2.4).
const REPLICATE: u64 = 1;

/// Whether two names are of one node.
pub fn is_node(name: &str, expected: &str) -> bool {
    let node = |name: &str| name.parse().ok().and_then(|eid: Eid| eid.to_node_id().ok());
    node(name).is_some_and(|found| node(expected) == Some(found))
}

/// What is checked of a block with a CRC.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Crc {
    /// Nothing.
    #[default]
    None,
    /// CRC-16/X.25.
    Crc16,
    /// CRC-32C.
    Crc32c,
}

impl Crc {
    fn kind(self) -> CrcType {
        match self {
            Crc::None => CrcType::None,
            Crc::Crc16 => CrcType::CRC16_X25,
            Crc::Crc32c => CrcType::CRC32_CASTAGNOLI,
        }
    }
}

/// How urgent a bundle is, and whether it takes every way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// How urgent.
    pub priority: contacts::Priority,
    /// Whether it takes every way.
    pub critical: bool,
}

impl Default for Class {
    fn default() -> Class {
        Class { priority: contacts::Priority::Normal, critical: false }
    }
}

/// What a new bundle says of itself.
#[derive(Clone, Debug)]
pub struct Head {
    /// Who sends it.
    pub source: Eid,
    /// To whom.
    pub destination: Eid,
    /// Who gets reports.
    pub report_to: Eid,
    /// Milliseconds since 2000 (section 4.2.6); none without a clock.
    pub created_ms: Option<u64>,
    /// The source's number of it.
    pub sequence: u64,
    /// How long it is of use.
    pub lifetime: Span,
    /// What is asked for.
    pub flags: Flags,
    /// Hops it may take.
    pub hop_limit: Option<u8>,
    /// CRC of the primary block, which always has one: CRC-16 if none is said here.
    pub crc: Crc,
    /// CRC of the payload block.
    pub payload_crc: Crc,
    /// How urgent it is.
    pub class: Class,
}

/// What blocks ask for that are unknown here (section 4.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// A report.
    pub report: bool,
    /// That the bundle is deleted, and why: then only what its primary block says is known of it.
    pub delete: Option<ReasonCode>,
}

/// A bundle in memory. Clones share the payload.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Source, creation time and number, and which part of it.
    pub id: Id,
    /// What is asked for.
    pub flags: Flags,
    /// To whom.
    pub destination: Eid,
    /// Who gets reports.
    pub report_to: Eid,
    /// How long it is of use, from its creation on.
    pub lifetime: Span,
    /// The node that it came from.
    pub previous: Option<Eid>,
    /// How old it was when it came or was made, where it says so.
    pub age: Option<Span>,
    /// How many hops it may take and has taken.
    pub hops: Option<(u64, u64)>,
    /// How urgent it is.
    pub class: Class,
    /// What unknown blocks ask for.
    pub unknown: Unknown,
    /// Its payload, in parts; none while it is [away](Bundle::is_away).
    pub payload: Vec<Bytes>,
    /// Payload that is not in memory.
    away: u64,
    primary: Bytes,
    /// Blocks that go on as they came.
    others: Vec<Other>,
    /// As they came, blocks that are written anew here although an integrity block protects them: they keep their number.
    rewritten: Vec<Other>,
    /// Of the payload block, all but the payload.
    payload_frame: [Bytes; 2],
}

/// Why bytes are no bundle, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl Bundle {
    /// A new bundle, whose source has marked it.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn new(head: &Head, payload: Vec<Bytes>) -> Result<Bundle, Wrong> {
        let primary = primary(head)?;
        let hops = head.hop_limit.map(|limit| (u64::from(limit), 0));
        let created = head.created_ms.map(DtnTime::new);
        let timestamp = CreationTimestamp::from_parts(created, head.sequence);
        Ok(Bundle {
            id: Id { source: head.source.clone(), timestamp, fragment_info: None },
            flags: head.flags.clone(),
            destination: head.destination.clone(),
            report_to: head.report_to.clone(),
            lifetime: head.lifetime,
            previous: None,
            // Without a clock a bundle has an age (section 4.4.2).
            age: head.created_ms.is_none().then_some(Span::ZERO),
            hops,
            class: head.class,
            unknown: Unknown::default(),
            payload_frame: frame(&payload, 0, head.payload_crc.kind())?,
            payload,
            away: 0,
            primary,
            others: Vec::new(),
            rewritten: Vec::new(),
        })
    }

    /// The bundle in `data`, which must hold nothing else.
    ///
    /// # Errors
    /// Why it is none.
    pub fn decode(data: &Bytes) -> Result<Bundle, Wrong> {
        let wrong = |error: hardy_bpv7::Error| Wrong(error.to_string());
        integrity::bounded(data)?;
        let parsed = match ParsedBundle::parse(data, no_keys) {
            Err(error) if unknown::deletes(&error).is_some() => {
                return match integrity::without_delete(data, &error) {
                    Some(parsed) => Bundle::of(parsed.bundle, data),
                    None => Bundle::hopeless(data),
                };
            }
            other => other.map_err(wrong)?,
        };
        if parsed.non_canonical {
            // Canonical first, so that blocks may be passed on as they are.
            let checked = CheckedBundle::parse(data, no_keys).map_err(wrong)?;
            if let Some(chunks) = checked.new_data {
                let data = Bytes::from(Vec::from(Chunk::flatten(chunks, data)));
                let parsed = ParsedBundle::parse(&data, no_keys).map_err(wrong)?;
                return Bundle::of(parsed.bundle, &data);
            }
        }
        Bundle::of(parsed.bundle, data)
    }

    fn of(parsed: bundle::Bundle, data: &Bytes) -> Result<Bundle, Wrong> {
        let part = |extent: &std::ops::Range<usize>| data.slice(extent.clone());
        let missing = || Wrong("a block is missing".to_owned());
        let primary = part(&parsed.blocks.get(&0).ok_or_else(missing)?.extent);
        let last = parsed.blocks.get(&1).ok_or_else(missing)?;
        let (whole, within) = (last.extent.clone(), last.payload_range());
        let payload_frame =
            [data.slice(whole.start..within.start), data.slice(within.end..whole.end)];
        let mut numbers: Vec<u64> = parsed.blocks.keys().copied().filter(|n| *n > 1).collect();
        numbers.sort_unstable();
        fragments::check_extent(&parsed.id, within.len() as u64)?;
        let (mut class, mut others, mut rewritten) = (Class::default(), Vec::new(), Vec::new());
        let mut unknown = Unknown::default();
        for number in numbers {
            let Some(one) = parsed.blocks.get(&number) else { continue };
            let kind = u64::from(one.block_type);
            let mut other = Other {
                number,
                kind,
                flags: u64::from(&one.flags),
                bytes: part(&one.extent),
                data: part(&one.payload_range()),
            };
            if kind == integrity::BIB {
                // It may have been read without one of them.
                other.flags = other.written_flags().unwrap_or(other.flags);
            }
            let known = known(kind) || kind == integrity::BIB && integrity::is_known(&other.data);
            unknown.report |= !known && one.flags.report_on_failure;
            let signed = matches!(one.bib, BibCoverage::Some(_));
            match kind {
                PREVIOUS_NODE | AGE | HOP_COUNT if signed => rewritten.push(other),
                PREVIOUS_NODE | AGE | HOP_COUNT => {}
                CLASS => {
                    class = read_class(&other.data)?;
                    others.extend(signed.then_some(other));
                }
                // What asks for it is left behind by whom it is unknown to (section 5.6).
                _ if !known && one.flags.delete_block_on_failure => {}
                _ => others.push(other),
            }
        }
        Ok(Bundle {
            lifetime: span(parsed.lifetime),
            previous: parsed.previous_node,
            age: parsed.age.map(span),
            hops: parsed.hop_count.map(|hops| (hops.limit, hops.count)),
            class,
            unknown,
            payload: vec![data.slice(within)],
            away: 0,
            primary,
            others,
            rewritten,
            payload_frame,
            id: parsed.id,
            flags: parsed.flags,
            destination: parsed.destination,
            report_to: parsed.report_to,
        })
    }

    /// Its bytes on the way from `node`, where it has been for `stay`.
    pub fn encode(&self, node: &Eid, stay: Span) -> Vec<Bytes> {
        let mut blocks = vec![0x9f];
        blocks.extend_from_slice(&self.primary);
        for other in &self.others {
            blocks.extend_from_slice(&other.bytes);
        }
        let mut last = 1;
        let mut number = |kind| match self.rewritten.iter().find(|one| one.kind == kind) {
            Some(one) => one.number,
            None => {
                last = self.free_number_after(last);
                last
            }
        };
        if self.previous.is_some() {
            let number = number(PREVIOUS_NODE);
            extension(&mut blocks, PREVIOUS_NODE, number, 0, &encode::emit(node).0);
        }
        if let Some(age) = self.age {
            let millis = (age + stay).nanos() / 1_000_000;
            extension(&mut blocks, AGE, number(AGE), REPLICATE, &encode::emit(&millis).0);
        }
        if let Some((limit, count)) = self.hops {
            let hops = encode::emit(&(limit, count)).0;
            extension(&mut blocks, HOP_COUNT, number(HOP_COUNT), REPLICATE, &hops);
        }
        if self.class != Class::default() && !self.others.iter().any(|one| one.kind == CLASS) {
            let class = encode::emit(&(self.class.priority as u64, self.class.critical)).0;
            extension(&mut blocks, CLASS, number(CLASS), REPLICATE, &class);
        }
        blocks.extend_from_slice(&self.payload_frame[0]);
        let mut parts = vec![Bytes::from(blocks)];
        parts.extend(self.payload.iter().filter(|part| !part.is_empty()).cloned());
        let mut end = Vec::from(&self.payload_frame[1][..]);
        end.push(0xff);
        parts.push(Bytes::from(end));
        parts
    }

    /// A number that no block has and none will get that is written anew.
    fn free_number(&self) -> u64 {
        self.free_number_after(1)
    }

    fn free_number_after(&self, last: u64) -> u64 {
        let taken =
            |number| self.others.iter().chain(&self.rewritten).any(|one| one.number == number);
        let mut number = last + 1;
        while taken(number) {
            number += 1;
        }
        number
    }

    /// Payload bytes.
    pub fn payload_bytes(&self) -> u64 {
        self.away + self.payload.iter().map(|part| part.len() as u64).sum::<u64>()
    }

    /// About as many bytes as it has on the way; what hops add to it are tens.
    pub fn bytes(&self) -> u64 {
        let frame: usize = self.payload_frame.iter().map(Bytes::len).sum();
        let others: usize = self.others.iter().map(|one| one.bytes.len()).sum();
        (self.primary.len() + frame + others) as u64 + self.payload_bytes() + 2
    }

    /// Milliseconds since 2000 at which it was made; none without a clock.
    pub fn created_ms(&self) -> Option<u64> {
        self.id.timestamp.creation_time().map(DtnTime::millisecs)
    }

    /// Block flags of the payload, which stand behind the array's head, the type and the number.
    fn payload_flags(&self) -> u64 {
        let flags = self.payload_frame[0].get(3..).map(hardy_cbor::decode::parse::<u64>);
        flags.and_then(Result::ok).unwrap_or(0)
    }

    fn payload_crc(&self) -> CrcType {
        // The frame's end is the CRC field: empty, or its head and 2 or 4 bytes.
        match self.payload_frame[1].len() {
            3 => CrcType::CRC16_X25,
            5 => CrcType::CRC32_CASTAGNOLI,
            _ => CrcType::None,
        }
    }
}

fn known(kind: u64) -> bool {
    matches!(kind, 0 | 1 | PREVIOUS_NODE | AGE | HOP_COUNT | CLASS)
}

fn span(of: core::time::Duration) -> Span {
    Span(u64::try_from(of.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 4))
}

fn built(head: &Head) -> Result<(bundle::Bundle, Box<[u8]>), Wrong> {
    let crc = if head.crc == Crc::None { Crc::Crc16 } else { head.crc };
    let created = head.created_ms.map(DtnTime::new);
    Builder::new(head.source.clone(), head.destination.clone())
        .with_flags(Flags { is_fragment: false, ..head.flags.clone() })
        .with_crc_type(crc.kind())
        .with_report_to(head.report_to.clone())
        .with_lifetime(core::time::Duration::from_millis(head.lifetime.nanos() / 1_000_000))
        .with_payload((&[][..]).into())
        .build(CreationTimestamp::from_parts(created, head.sequence))
        .map_err(|error| Wrong(error.to_string()))
}

fn primary(head: &Head) -> Result<Bytes, Wrong> {
    let (built, data) = built(head)?;
    let extent = built.blocks.get(&0).map(|one| one.extent.clone());
    let extent = extent.ok_or_else(|| Wrong("no primary block was written".to_owned()))?;
    Ok(Bytes::copy_from_slice(&data[extent]))
}

/// Of a payload block, what is before its payload and what is after it (section 4.2.2).
fn frame(payload: &[Bytes], flags: u64, crc: CrcType) -> Result<[Bytes; 2], Wrong> {
    let length: u64 = payload.iter().map(|part| part.len() as u64).sum();
    let mut head = vec![if crc == CrcType::None { 0x85 } else { 0x86 }, 1, 1];
    head.extend(encode::emit(&flags).0);
    head.extend(encode::emit(&crc).0);
    head.extend(encode::emit(&encode::BytesHeader(length)).0);
    let mut end = Vec::new();
    if crc != CrcType::None {
        let mut digest = Digest::new(crc).map_err(|error| Wrong(error.to_string()))?;
        digest.push(&head);
        payload.iter().for_each(|part| digest.push(part));
        end.push(digest.cbor_head());
        digest.push(&end);
        digest.push_zeros();
        end.extend(digest.finalize());
    }
    Ok([head.into(), end.into()])
}

fn extension(out: &mut Vec<u8>, kind: u64, number: u64, flags: u64, data: &[u8]) {
    out.extend(encode::emit_array(Some(5), |array| {
        array.emit(&kind);
        array.emit(&number);
        array.emit(&flags);
        array.emit(&0);
        array.emit(&encode::Bytes(data));
    }));
}

fn read_class(data: &[u8]) -> Result<Class, Wrong> {
    let wrong = || Wrong("block 192 is not [priority, critical]".to_owned());
    let (priority, critical): (u64, bool) = hardy_cbor::decode::parse_array(data, |array, _, _| {
        let priority = array.parse()?;
        let critical = array.parse()?;
        Ok::<_, hardy_cbor::decode::Error>((priority, critical))
    })
    .map_err(|_| wrong())?
    .0;
    let priority = match priority {
        0 => contacts::Priority::Bulk,
        1 => contacts::Priority::Normal,
        2 => contacts::Priority::Expedited,
        _ => return Err(wrong()),
    };
    Ok(Class { priority, critical })
}
