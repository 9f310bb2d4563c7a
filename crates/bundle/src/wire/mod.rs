//! The bundle format (RFC 9171). hardy-bpv7 parses and checks bundles and writes primary blocks and administrative
//! records. A hop rewrites a few small blocks. Primary and payload block are forwarded unchanged, and payload bytes are
//! never copied.

use bytes::Bytes;
use hardy_bpv7::block::BibCoverage;
use hardy_bpv7::bpsec::no_keys;
use hardy_bpv7::builder::Builder;
use hardy_bpv7::bundle;
use hardy_bpv7::bundle::{CheckedBundle, ParsedBundle};
use hardy_bpv7::crc::CrcType;
use hardy_bpv7::creation_timestamp::CreationTimestamp;
use hardy_bpv7::dtn_time::DtnTime;
use hardy_bpv7::editor::Chunk;
use hardy_cbor::encode;
use units::Span;

mod bib;
mod blocks;
mod detached_payload;
mod extension_block;
mod fragments;
mod partial_parse;

pub use bib::{BibOperation, BibStatus, PAYLOAD};
use blocks::{
    AGE, CLASS, HOP_COUNT, PREVIOUS_NODE, REPLICATE, encode_extension_block, encode_payload_frame,
    is_known_block, to_span,
};
pub use blocks::{BundleError, ClassOfService, UnknownBlocks};
use extension_block::ExtensionBlock;
pub(crate) use fragments::slice;
pub use hardy_bpv7::bundle::{Flags, Id};
pub use hardy_bpv7::eid::Eid;
pub use hardy_bpv7::status_report::ReasonCode;

/// Returns whether two endpoint IDs belong to one node.
pub fn is_same_node(name: &str, expected: &str) -> bool {
    let node = |name: &str| name.parse().ok().and_then(|eid: Eid| eid.to_node_id().ok());
    node(name).is_some_and(|found| node(expected) == Some(found))
}

/// Returns the node ID of an endpoint.
pub(crate) fn node_id(eid: &Eid) -> String {
    eid.to_node_id().map_or_else(|_| eid.to_string(), |node| node.to_string())
}

/// The CRC type of a block.
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
    /// No CRC.
    #[default]
    None,
    /// CRC-16/X.25.
    Crc16,
    /// CRC-32C.
    Crc32c,
}

impl Crc {
    fn crc_type(self) -> CrcType {
        match self {
            Crc::None => CrcType::None,
            Crc::Crc16 => CrcType::CRC16_X25,
            Crc::Crc32c => CrcType::CRC32_CASTAGNOLI,
        }
    }
}

/// The header fields of a new bundle.
#[derive(Clone, Debug)]
pub struct NewBundleHeader {
    /// The source.
    pub source: Eid,
    /// The destination.
    pub destination: Eid,
    /// The endpoint for status reports.
    pub report_to: Eid,
    /// The creation time in milliseconds since 2000 (section 4.2.6); `None` without a clock.
    pub created_ms: Option<u64>,
    /// The sequence number of the creation timestamp.
    pub sequence: u64,
    /// The lifetime.
    pub lifetime: Span,
    /// The bundle processing control flags.
    pub flags: Flags,
    /// The hop limit.
    pub hop_limit: Option<u8>,
    /// The CRC type of the primary block. `Crc::None` selects CRC-16, because the block must have a CRC.
    pub crc: Crc,
    /// The CRC type of the payload block.
    pub payload_crc: Crc,
    /// The class of service.
    pub class: ClassOfService,
}

/// A bundle in memory. Clones share the payload.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Source, creation timestamp and fragment offset and length.
    pub id: Id,
    /// The bundle processing control flags.
    pub flags: Flags,
    /// The destination.
    pub destination: Eid,
    /// The endpoint for status reports.
    pub report_to: Eid,
    /// The lifetime from the creation time on.
    pub lifetime: Span,
    /// The node that forwarded the bundle to this node.
    pub previous_node: Option<Eid>,
    /// The bundle age at reception or creation, if the bundle has an age block.
    pub age: Option<Span>,
    /// The hop limit and the hop count.
    pub hop_count: Option<(u64, u64)>,
    /// The class of service.
    pub class: ClassOfService,
    /// The processing that unknown blocks request.
    pub unknown_blocks: UnknownBlocks,
    /// The payload in chunks; empty while it is [detached](Bundle::is_payload_detached).
    pub payload: Vec<Bytes>,
    /// The length of a detached payload.
    detached_bytes: u64,
    primary_block: Bytes,
    /// Blocks that are forwarded unchanged.
    extension_blocks: Vec<ExtensionBlock>,
    /// The received form of integrity-protected blocks that this node rewrites under the same number.
    rewritten_blocks: Vec<ExtensionBlock>,
    /// The payload block without the payload: the bytes before and after it.
    payload_frame: [Bytes; 2],
}

impl Bundle {
    /// Builds a new bundle at its source.
    ///
    /// # Errors
    /// The encoding fails.
    pub fn new(head: &NewBundleHeader, payload: Vec<Bytes>) -> Result<Bundle, BundleError> {
        let primary_block = encode_primary_block(head)?;
        let hop_count = head.hop_limit.map(|limit| (u64::from(limit), 0));
        let created = head.created_ms.map(DtnTime::new);
        let timestamp = CreationTimestamp::from_parts(created, head.sequence);
        Ok(Bundle {
            id: Id { source: head.source.clone(), timestamp, fragment_info: None },
            flags: head.flags.clone(),
            destination: head.destination.clone(),
            report_to: head.report_to.clone(),
            lifetime: head.lifetime,
            previous_node: None,
            // A bundle without a creation time must have an age (section 4.4.2).
            age: head.created_ms.is_none().then_some(Span::ZERO),
            hop_count,
            class: head.class,
            unknown_blocks: UnknownBlocks::default(),
            payload_frame: encode_payload_frame(&payload, 0, head.payload_crc.crc_type())?,
            payload,
            detached_bytes: 0,
            primary_block,
            extension_blocks: Vec::new(),
            rewritten_blocks: Vec::new(),
        })
    }

    /// Decodes the bundle in `data`, which must contain no further bytes.
    ///
    /// # Errors
    /// The bytes are not a valid bundle.
    pub fn decode(data: &Bytes) -> Result<Bundle, BundleError> {
        let wrong = |error: hardy_bpv7::Error| BundleError(error.to_string());
        bib::check_target_count(data)?;
        let parsed = match ParsedBundle::parse(data, no_keys) {
            Err(error) if partial_parse::deletion_reason(&error).is_some() => {
                return match bib::parse_without_delete_flag(data, &error) {
                    Some(parsed) => Bundle::from_parsed(parsed.bundle, data),
                    None => Bundle::decode_primary_only(data),
                };
            }
            other => other.map_err(wrong)?,
        };
        if parsed.non_canonical {
            // The canonical form, because blocks are forwarded without re-encoding.
            let checked = CheckedBundle::parse(data, no_keys).map_err(wrong)?;
            if let Some(chunks) = checked.new_data {
                let data = Bytes::from(Vec::from(Chunk::flatten(chunks, data)));
                let parsed = ParsedBundle::parse(&data, no_keys).map_err(wrong)?;
                return Bundle::from_parsed(parsed.bundle, &data);
            }
        }
        Bundle::from_parsed(parsed.bundle, data)
    }

    fn from_parsed(parsed: bundle::Bundle, data: &Bytes) -> Result<Bundle, BundleError> {
        let part = |extent: &std::ops::Range<usize>| data.slice(extent.clone());
        let missing = || BundleError("a block is missing".to_owned());
        let primary_block = part(&parsed.blocks.get(&0).ok_or_else(missing)?.extent);
        let last = parsed.blocks.get(&1).ok_or_else(missing)?;
        let (whole, within) = (last.extent.clone(), last.payload_range());
        let payload_frame =
            [data.slice(whole.start..within.start), data.slice(within.end..whole.end)];
        let mut numbers: Vec<u64> = parsed.blocks.keys().copied().filter(|n| *n > 1).collect();
        numbers.sort_unstable();
        fragments::check_extent(&parsed.id, within.len() as u64)?;
        let (mut class, mut extension_blocks, mut rewritten_blocks) =
            (ClassOfService::default(), Vec::new(), Vec::new());
        let mut unknown_blocks = UnknownBlocks::default();
        for number in numbers {
            let Some(one) = parsed.blocks.get(&number) else { continue };
            let kind = u64::from(one.block_type);
            let mut block = ExtensionBlock {
                number,
                kind,
                flags: u64::from(&one.flags),
                bytes: part(&one.extent),
                data: part(&one.payload_range()),
            };
            if kind == bib::BIB {
                // The parser may have cleared a flag for this block.
                block.flags = block.written_flags().unwrap_or(block.flags);
            }
            let known =
                is_known_block(kind) || kind == bib::BIB && bib::is_known_context(&block.data);
            unknown_blocks.requests_report |= !known && one.flags.report_on_failure;
            let signed = matches!(one.bib, BibCoverage::Some(_));
            match kind {
                PREVIOUS_NODE | AGE | HOP_COUNT if signed => rewritten_blocks.push(block),
                PREVIOUS_NODE | AGE | HOP_COUNT => {}
                CLASS => {
                    class = decode_class_of_service(&block.data)?;
                    extension_blocks.extend(signed.then_some(block));
                }
                // Discards unknown blocks with the flag "discard block" (section 5.6).
                _ if !known && one.flags.delete_block_on_failure => {}
                _ => extension_blocks.push(block),
            }
        }
        Ok(Bundle {
            lifetime: to_span(parsed.lifetime),
            previous_node: parsed.previous_node,
            age: parsed.age.map(to_span),
            hop_count: parsed.hop_count.map(|hops| (hops.limit, hops.count)),
            class,
            unknown_blocks,
            payload: vec![data.slice(within)],
            detached_bytes: 0,
            primary_block,
            extension_blocks,
            rewritten_blocks,
            payload_frame,
            id: parsed.id,
            flags: parsed.flags,
            destination: parsed.destination,
            report_to: parsed.report_to,
        })
    }

    /// Encodes the bundle for transmission by `node`, after a residence time of `stay`.
    pub fn encode(&self, node: &Eid, stay: Span) -> Vec<Bytes> {
        let mut blocks = vec![0x9f];
        blocks.extend_from_slice(&self.primary_block);
        for block in &self.extension_blocks {
            blocks.extend_from_slice(&block.bytes);
        }
        let mut last = 1;
        let mut number = |kind| match self.rewritten_blocks.iter().find(|one| one.kind == kind) {
            Some(one) => one.number,
            None => {
                last = self.free_block_number_after(last);
                last
            }
        };
        if self.previous_node.is_some() {
            let number = number(PREVIOUS_NODE);
            encode_extension_block(&mut blocks, PREVIOUS_NODE, number, 0, &encode::emit(node).0);
        }
        if let Some(age) = self.age {
            let millis = (age + stay).nanos() / 1_000_000;
            encode_extension_block(
                &mut blocks,
                AGE,
                number(AGE),
                REPLICATE,
                &encode::emit(&millis).0,
            );
        }
        if let Some((limit, count)) = self.hop_count {
            let hops = encode::emit(&(limit, count)).0;
            encode_extension_block(&mut blocks, HOP_COUNT, number(HOP_COUNT), REPLICATE, &hops);
        }
        if self.class != ClassOfService::default()
            && !self.extension_blocks.iter().any(|one| one.kind == CLASS)
        {
            let class = encode::emit(&(self.class.priority as u64, self.class.critical)).0;
            encode_extension_block(&mut blocks, CLASS, number(CLASS), REPLICATE, &class);
        }
        blocks.extend_from_slice(&self.payload_frame[0]);
        let mut parts = vec![Bytes::from(blocks)];
        parts.extend(self.payload.iter().filter(|part| !part.is_empty()).cloned());
        let mut end = Vec::from(&self.payload_frame[1][..]);
        end.push(0xff);
        parts.push(Bytes::from(end));
        parts
    }

    /// Returns a block number that is unused and that no rewritten block will use.
    fn free_block_number(&self) -> u64 {
        self.free_block_number_after(1)
    }

    fn free_block_number_after(&self, last: u64) -> u64 {
        let taken = |number| {
            self.extension_blocks
                .iter()
                .chain(&self.rewritten_blocks)
                .any(|one| one.number == number)
        };
        let mut number = last + 1;
        while taken(number) {
            number += 1;
        }
        number
    }

    /// Returns the payload length.
    pub fn payload_bytes(&self) -> u64 {
        self.detached_bytes + self.payload.iter().map(|part| part.len() as u64).sum::<u64>()
    }

    /// Returns the approximate encoded length. Blocks that a hop adds cost tens of bytes more.
    pub fn estimated_bytes(&self) -> u64 {
        let frame: usize = self.payload_frame.iter().map(Bytes::len).sum();
        let others: usize = self.extension_blocks.iter().map(|one| one.bytes.len()).sum();
        (self.primary_block.len() + frame + others) as u64 + self.payload_bytes() + 2
    }

    /// Returns the creation time in milliseconds since 2000; `None` without a clock.
    pub fn created_ms(&self) -> Option<u64> {
        self.id.timestamp.creation_time().map(DtnTime::millisecs)
    }

    /// Returns the flags of the payload block, which follow the array head, the type and the number.
    fn payload_flags(&self) -> u64 {
        let flags = self.payload_frame[0].get(3..).map(hardy_cbor::decode::parse::<u64>);
        flags.and_then(Result::ok).unwrap_or(0)
    }

    fn payload_crc(&self) -> CrcType {
        // The frame ends with the CRC field: empty, or its head and 2 or 4 bytes.
        match self.payload_frame[1].len() {
            3 => CrcType::CRC16_X25,
            5 => CrcType::CRC32_CASTAGNOLI,
            _ => CrcType::None,
        }
    }
}

fn build_empty_bundle(head: &NewBundleHeader) -> Result<(bundle::Bundle, Box<[u8]>), BundleError> {
    let crc = if head.crc == Crc::None { Crc::Crc16 } else { head.crc };
    let created = head.created_ms.map(DtnTime::new);
    Builder::new(head.source.clone(), head.destination.clone())
        .with_flags(Flags { is_fragment: false, ..head.flags.clone() })
        .with_crc_type(crc.crc_type())
        .with_report_to(head.report_to.clone())
        .with_lifetime(core::time::Duration::from_millis(head.lifetime.nanos() / 1_000_000))
        .with_payload((&[][..]).into())
        .build(CreationTimestamp::from_parts(created, head.sequence))
        .map_err(|error| BundleError(error.to_string()))
}

fn encode_primary_block(head: &NewBundleHeader) -> Result<Bytes, BundleError> {
    let (built, data) = build_empty_bundle(head)?;
    let extent = built.blocks.get(&0).map(|one| one.extent.clone());
    let extent = extent.ok_or_else(|| BundleError("no primary block was written".to_owned()))?;
    Ok(Bytes::copy_from_slice(&data[extent]))
}

fn decode_class_of_service(data: &[u8]) -> Result<ClassOfService, BundleError> {
    let wrong = || BundleError("block 192 is not [priority, critical]".to_owned());
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
    Ok(ClassOfService { priority, critical })
}
