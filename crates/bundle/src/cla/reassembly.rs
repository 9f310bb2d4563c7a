//! Reassembly of received bundles, and the quota for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;

use crate::pieces::ByteChunks;

/// A quota for incoming bundles on all connections of a node, in addition to the quota of each connection.
#[derive(Clone, Debug)]
pub struct SharedByteQuota(Arc<AtomicI64>);

impl SharedByteQuota {
    /// Builds a quota of `bytes`.
    pub fn new(bytes: u64) -> SharedByteQuota {
        SharedByteQuota(Arc::new(AtomicI64::new(bytes as i64)))
    }

    /// Returns the available bytes.
    pub fn available(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0) as u64
    }

    fn reserve(&self, bytes: u64) -> bool {
        let less = |left: i64| (left >= bytes as i64).then(|| left - bytes as i64);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.0.fetch_add(bytes as i64, Ordering::Relaxed);
    }
}

impl PartialEq for SharedByteQuota {
    fn eq(&self, other: &SharedByteQuota) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedByteQuota {}

/// The quota for incoming bundles of a connection.
#[derive(Debug)]
pub(super) struct ByteQuota {
    used: u64,
    limit: u64,
    shared: Option<SharedByteQuota>,
}

impl ByteQuota {
    pub fn new(limit: u64, shared: Option<SharedByteQuota>) -> ByteQuota {
        ByteQuota { used: 0, limit, shared }
    }

    /// Reserves `bytes` if they are available.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        if self.used + bytes > self.limit
            || !self.shared.as_ref().is_none_or(|all| all.reserve(bytes))
        {
            return false;
        }
        self.used += bytes;
        true
    }

    /// Reserves `bytes` even beyond the limit.
    pub fn force_reserve(&mut self, bytes: u64) {
        self.used += bytes;
        if let Some(all) = &self.shared {
            all.0.fetch_sub(bytes as i64, Ordering::Relaxed);
        }
    }

    pub fn is_exceeded(&self) -> bool {
        let all = self.shared.as_ref().is_some_and(|all| all.0.load(Ordering::Relaxed) < 0);
        self.used > self.limit || all
    }

    pub fn release(&mut self, bytes: u64) {
        self.used -= bytes;
        if let Some(all) = &self.shared {
            all.release(bytes);
        }
    }
}

impl Drop for ByteQuota {
    fn drop(&mut self) {
        self.release(self.used);
    }
}

/// A partially received bundle. Memory use follows the received bytes, independently of the announced length.
#[derive(Debug)]
pub(super) struct BundleReassembly {
    chunks: ByteChunks,
    total: Option<u64>,
}

impl BundleReassembly {
    /// Starts a bundle of `total` bytes, if known.
    pub fn new(total: Option<u64>) -> BundleReassembly {
        BundleReassembly { chunks: ByteChunks::default(), total }
    }

    /// Returns the number of received bytes.
    pub fn len(&self) -> u64 {
        self.chunks.bytes()
    }

    /// Returns the length of the bundle, if known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Appends received bytes. Returns whether the quota permits it.
    pub fn push(&mut self, data: &[u8], quota: &mut ByteQuota) -> bool {
        if !quota.reserve(data.len() as u64) {
            return false;
        }
        let after = self.len() + data.len() as u64;
        self.chunks.push(data, self.total.map(|total| total.saturating_sub(after)));
        true
    }

    /// Releases the quota and returns the bundle.
    pub fn finish(self, quota: &mut ByteQuota) -> Vec<Bytes> {
        quota.release(self.len());
        self.chunks.into_chunks()
    }
}
