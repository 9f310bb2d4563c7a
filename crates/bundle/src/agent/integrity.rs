//! Who signs what it sends, and what becomes of a bundle whose integrity is wrong or not shown (RFC 9172 section 5.1.2). A
//! fragment is judged when the whole is there again: nothing of it can be checked before.

use std::collections::BTreeMap;

use super::{Agent, node_id};
use crate::integrity::{Secret, Secrets, SignSpec, Unproven};
use crate::spec::{DtnSpec, NodeSpec};
use crate::wire::{Bundle, Found, PAYLOAD, ReasonCode};

/// What a node does for the integrity of bundles.
pub(super) struct Policy {
    sign: Option<(SignSpec, Secret)>,
    /// Keys by the node ids of those who sign.
    keys: BTreeMap<String, Secret>,
    on_the_way: bool,
    unsigned: Unproven,
    others: Unproven,
}

impl Policy {
    /// That of a node, with its keys; none: it does nothing.
    ///
    /// # Errors
    /// A key or a node that is not known.
    pub fn new(
        spec: &DtnSpec,
        node: &NodeSpec,
        secrets: &Secrets,
    ) -> Result<Option<Policy>, String> {
        let Some(asked) = &node.integrity else { return Ok(None) };
        let secret = |name: &String| {
            let derived = || spec.keys_of_names.then(|| Secret::of_name(name));
            secrets.get(name).cloned().or_else(derived).ok_or_else(|| format!("no key {name:?}"))
        };
        let key = |name: &String, key: &String| {
            let found = spec.nodes.iter().find(|node| node.name == *name);
            let found = found.ok_or_else(|| format!("integrity: no node {name:?}"))?;
            let eid = found.eid.parse().map_err(|_| format!("{}: no node id", found.eid))?;
            Ok::<_, String>((node_id(&eid), secret(key)?))
        };
        let sign =
            asked.sign.as_ref().map(|sign| Ok::<_, String>((sign.clone(), secret(&sign.key)?)));
        Ok(Some(Policy {
            sign: sign.transpose()?,
            keys: asked
                .check
                .iter()
                .map(|one| key(&one.node, &one.key))
                .collect::<Result<_, _>>()?,
            on_the_way: asked.on_the_way,
            unsigned: asked.unsigned,
            others: asked.others,
        }))
    }

    /// Why a bundle is deleted; none: it goes on.
    fn judge(&self, bundle: &Bundle) -> Option<ReasonCode> {
        let found = bundle.integrity(|eid| self.keys.get(&node_id(eid)));
        if found.iter().any(|one| one.found == Found::Fails) {
            return Some(ReasonCode::FailedSecurityOperation);
        }
        let source = node_id(&bundle.id.source);
        let mut of_payload = found.iter().filter(|one| one.target == PAYLOAD);
        let last = of_payload.next();
        if last.is_some_and(|one| one.found == Found::Holds && node_id(&one.source) == source) {
            return None;
        }
        let policy = if self.keys.contains_key(&source) { self.unsigned } else { self.others };
        (policy == Unproven::Delete).then(|| match last.map(|one| one.found) {
            Some(Found::Unknown) => ReasonCode::UnknownSecurityOperation,
            // It is signed by somebody who was not to.
            Some(Found::NoKey | Found::Holds) => ReasonCode::UnexpectedSecurityOperation,
            Some(Found::Fails) | None => ReasonCode::MissingSecurityOperation,
        })
    }
}

impl Agent {
    /// Signs a bundle of this node, if it signs.
    pub(super) fn sign(&self, bundle: &mut Bundle) {
        let Some((spec, secret)) = self.policy.as_ref().and_then(|one| one.sign.as_ref()) else {
            return;
        };
        let signed = bundle.sign(&self.eid, secret, spec.sha, spec.scope);
        debug_assert!(signed.is_ok(), "a whole bundle in memory");
    }

    /// Why a bundle that came, or is whole again, is deleted; none: it goes on.
    pub(super) fn judge(&self, bundle: &Bundle) -> Option<ReasonCode> {
        let policy = self.policy.as_ref()?;
        let here = node_id(&bundle.destination) == node_id(&self.eid);
        if bundle.id.fragment_info.is_some() || !(here || policy.on_the_way) {
            return None;
        }
        policy.judge(bundle)
    }
}
