//! What nodes do for the integrity of bundles (RFC 9172), in a resolved run, and the keys of it. The blocks themselves are
//! `wire::integrity`, what a node makes of them `agent::integrity`.

use std::collections::BTreeMap;
use std::fmt;

use ring::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys by their names.
pub type Secrets = BTreeMap<String, Secret>;

/// Bytes of the least key: that of the examples of RFC 9173.
const LEAST_KEY: usize = 16;

/// A key that two nodes have. It is never written, to no log and no table.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// These bytes, at least 16.
    ///
    /// # Errors
    /// There are fewer.
    pub fn new(bytes: Vec<u8>) -> Result<Secret, String> {
        let found = bytes.len();
        (found >= LEAST_KEY)
            .then_some(Secret(bytes))
            .ok_or_else(|| format!("a key of {found} bytes, expected at least {LEAST_KEY}"))
    }

    /// That of a name, which is no secret: nodes of a laboratory have the same one without being told.
    pub fn of_name(name: &str) -> Secret {
        Secret(digest(&SHA256, format!("bentpipe {name}").as_bytes()).as_ref().to_vec())
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a key of {} bytes", self.0.len())
    }
}

/// From hexadecimal digits.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        let text = String::deserialize(from)?;
        let pair =
            |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
        let wrong = || serde::de::Error::custom("a key that is not in hexadecimal digits");
        Secret::new(bytes.ok_or_else(wrong)?).map_err(serde::de::Error::custom)
    }
}

/// What a node does for the integrity of bundles.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct IntegritySpec {
    /// How it signs what it sends itself; none: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<SignSpec>,
    /// Whose bundles it checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<CheckSpec>,
    /// Whether it checks what it passes on, too.
    #[serde(default)]
    pub on_the_way: bool,
    /// What becomes of a bundle of those that has no signature of its source.
    #[serde(default)]
    pub unsigned: Unproven,
    /// What becomes of bundles of all others.
    #[serde(default)]
    pub others: Unproven,
}

/// What becomes of a bundle whose integrity nothing shows.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Unproven {
    /// It goes on.
    #[default]
    Pass,
    /// It is deleted.
    Delete,
}

/// How a node signs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct SignSpec {
    /// Name of the key.
    pub key: String,
    /// The hash.
    pub sha: Sha,
    /// What is signed beside the payload.
    pub scope: Scope,
}

/// Whose bundles are checked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CheckSpec {
    /// The node that signs.
    pub node: String,
    /// Name of the key.
    pub key: String,
}

/// Which SHA-2 (RFC 9173 section 3.3.1).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum Sha {
    /// HMAC 256/256.
    #[serde(rename = "256")]
    Sha256,
    /// HMAC 384/384, which is meant where nothing is said.
    #[default]
    #[serde(rename = "384")]
    Sha384,
    /// HMAC 512/512.
    #[serde(rename = "512")]
    Sha512,
}

/// What is signed beside a block's own data (RFC 9173 section 3.3.3); all where nothing is said.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// The primary block.
    pub primary: bool,
    /// Type, number and flags of the block.
    pub target: bool,
    /// Type, number and flags of the integrity block.
    pub security: bool,
}

impl Default for Scope {
    fn default() -> Scope {
        Scope { primary: true, target: true, security: true }
    }
}
