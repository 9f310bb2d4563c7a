//! Signs originated bundles and applies the integrity policy to received ones (RFC 9172 section 5.1.2). Fragments are
//! verified after reassembly, because a signature covers the whole bundle.

use std::collections::BTreeMap;

use super::BundleProtocolAgent;
use crate::integrity_spec::{BibSignSpec, Secret, Secrets, UnverifiedAction};
use crate::spec::{BundleNodeSpec, DtnSpec};
use crate::wire::{BibStatus, Bundle, PAYLOAD, ReasonCode, node_id};

/// The integrity policy of a node.
pub(super) struct IntegrityPolicy {
    sign: Option<(BibSignSpec, Secret)>,
    /// Keys by the node ID of the security source.
    keys: BTreeMap<String, Secret>,
    checks_forwarded: bool,
    unsigned: UnverifiedAction,
    other_sources: UnverifiedAction,
}

impl IntegrityPolicy {
    /// Builds the policy of a node with its keys; `None` without an integrity specification.
    ///
    /// # Errors
    /// A key or a node is unknown.
    pub fn new(
        spec: &DtnSpec,
        node: &BundleNodeSpec,
        secrets: &Secrets,
    ) -> Result<Option<IntegrityPolicy>, String> {
        let Some(integrity) = &node.integrity else { return Ok(None) };
        let secret = |name: &String| {
            let derived = || spec.derive_keys_from_names.then(|| Secret::from_name(name));
            secrets
                .get(name)
                .cloned()
                .or_else(derived)
                .ok_or_else(|| format!("unknown key {name:?}"))
        };
        let key = |name: &String, key: &String| {
            let found = spec.nodes.iter().find(|node| node.name == *name);
            let found = found.ok_or_else(|| format!("integrity: unknown node {name:?}"))?;
            let eid = found
                .eid
                .parse()
                .map_err(|_| format!("found {:?}, expected a node id", found.eid))?;
            Ok::<_, String>((node_id(&eid), secret(key)?))
        };
        let sign =
            integrity.sign.as_ref().map(|sign| Ok::<_, String>((sign.clone(), secret(&sign.key)?)));
        Ok(Some(IntegrityPolicy {
            sign: sign.transpose()?,
            keys: integrity
                .check
                .iter()
                .map(|one| key(&one.node, &one.key))
                .collect::<Result<_, _>>()?,
            checks_forwarded: integrity.checks_forwarded,
            unsigned: integrity.unsigned,
            other_sources: integrity.other_sources,
        }))
    }

    /// Returns the reason for deleting a bundle, if any.
    fn check(&self, bundle: &Bundle) -> Option<ReasonCode> {
        let found = bundle.verify_integrity(|eid| self.keys.get(&node_id(eid)));
        if found.iter().any(|one| one.status == BibStatus::Failed) {
            return Some(ReasonCode::FailedSecurityOperation);
        }
        let source = node_id(&bundle.id.source);
        let mut of_payload = found.iter().filter(|one| one.target == PAYLOAD);
        let last = of_payload.next();
        if last
            .is_some_and(|one| one.status == BibStatus::Verified && node_id(&one.source) == source)
        {
            return None;
        }
        let policy =
            if self.keys.contains_key(&source) { self.unsigned } else { self.other_sources };
        (policy == UnverifiedAction::Delete).then(|| match last.map(|one| one.status) {
            Some(BibStatus::Unsupported) => ReasonCode::UnknownSecurityOperation,
            // The security source is not the expected one.
            Some(BibStatus::KeyMissing | BibStatus::Verified) => {
                ReasonCode::UnexpectedSecurityOperation
            }
            Some(BibStatus::Failed) | None => ReasonCode::MissingSecurityOperation,
        })
    }
}

impl BundleProtocolAgent {
    /// Signs a bundle of this node if the policy requires it.
    pub(super) fn sign(&self, bundle: &mut Bundle) {
        let Some((spec, secret)) = self.integrity_policy.as_ref().and_then(|one| one.sign.as_ref())
        else {
            return;
        };
        let signed = bundle.sign(&self.eid, secret, spec.sha, spec.scope);
        debug_assert!(signed.is_ok(), "a whole bundle in memory");
    }

    /// Returns the reason for deleting a received or reassembled bundle, if any.
    pub(super) fn check_integrity(&self, bundle: &Bundle) -> Option<ReasonCode> {
        let policy = self.integrity_policy.as_ref()?;
        let here = node_id(&bundle.destination) == node_id(&self.eid);
        if bundle.id.fragment_info.is_some() || !(here || policy.checks_forwarded) {
            return None;
        }
        policy.check(bundle)
    }
}
