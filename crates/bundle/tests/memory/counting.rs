//! An allocator that counts allocated bytes, for tests and examples that measure memory.
#![allow(dead_code, reason = "each user needs a part of it")]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of allocated bytes.
pub fn used() -> usize {
    USED.load(Ordering::Relaxed)
}

/// Returns the peak of allocated bytes since [`reset_peak`].
pub fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

pub fn reset_peak() {
    PEAK.store(used(), Ordering::Relaxed);
}

/// A counting allocator.
pub struct Counting<A>(pub A);

#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]
// SAFETY: all calls go to the inner allocator; only sizes are counted.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of this method.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of this method.
        unsafe { self.0.dealloc(pointer, layout) }
    }
}
