//! The integrity policy of nodes (RFC 9172) in a resolved run, and its keys. `wire::bib` has the blocks,
//! `bpa::security` the processing.

use std::collections::BTreeMap;
use std::fmt;

use ring::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys by name.
pub type Secrets = BTreeMap<String, Secret>;

/// The minimum key length in bytes: that of the examples of RFC 9173.
const MIN_KEY_BYTES: usize = 16;

/// A shared key of two nodes. No log and no table contains it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Builds a key from `bytes`.
    ///
    /// # Errors
    /// Fewer than 16 bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Secret, String> {
        let found = bytes.len();
        (found >= MIN_KEY_BYTES).then_some(Secret(bytes)).ok_or_else(|| {
            format!("found a key of {found} bytes, expected at least {MIN_KEY_BYTES}")
        })
    }

    /// Derives a key from a name. The key is not secret: laboratory nodes derive the same one without configuration.
    pub fn from_name(name: &str) -> Secret {
        Secret(digest(&SHA256, format!("bentpipe {name}").as_bytes()).as_ref().to_vec())
    }

    /// Returns the key bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a key of {} bytes", self.0.len())
    }
}

/// Decodes hexadecimal digits.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        let text = String::deserialize(from)?;
        let pair =
            |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
        let wrong = || {
            serde::de::Error::custom(
                "found a key with other characters, expected hexadecimal digits",
            )
        };
        Secret::new(bytes.ok_or_else(wrong)?).map_err(serde::de::Error::custom)
    }
}

/// The integrity policy of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct IntegritySpec {
    /// The signature of originated bundles. `None` means unsigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<BibSignSpec>,
    /// The sources that the node verifies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<BibCheckSpec>,
    /// Whether the node also verifies forwarded bundles.
    #[serde(default)]
    pub checks_forwarded: bool,
    /// The action on a bundle of a source in `check` without the signature of that source.
    #[serde(default)]
    pub unsigned: UnverifiedAction,
    /// The action on bundles of all other sources.
    #[serde(default)]
    pub other_sources: UnverifiedAction,
}

/// The action on a bundle without verified integrity.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum UnverifiedAction {
    /// Processes the bundle as usual.
    #[default]
    Pass,
    /// Deletes the bundle.
    Delete,
}

/// The signature of a node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct BibSignSpec {
    /// The name of the key.
    pub key: String,
    /// The hash.
    pub sha: ShaVariant,
    /// The signed data beside the payload.
    pub scope: IntegrityScope,
}

/// A source that the node verifies.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct BibCheckSpec {
    /// The node that signs.
    pub node: String,
    /// The name of the key.
    pub key: String,
}

/// The SHA-2 variant (RFC 9173 section 3.3.1).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum ShaVariant {
    /// HMAC 256/256.
    #[serde(rename = "256")]
    Sha256,
    /// HMAC 384/384, the default.
    #[default]
    #[serde(rename = "384")]
    Sha384,
    /// HMAC 512/512.
    #[serde(rename = "512")]
    Sha512,
}

/// The signed data beside the block-type-specific data (RFC 9173 section 3.3.3). The default is all of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct IntegrityScope {
    /// The primary block.
    pub primary: bool,
    /// Type, number and flags of the target block.
    pub target: bool,
    /// Type, number and flags of the integrity block.
    pub security: bool,
}

impl Default for IntegrityScope {
    fn default() -> IntegrityScope {
        IntegrityScope { primary: true, target: true, security: true }
    }
}
