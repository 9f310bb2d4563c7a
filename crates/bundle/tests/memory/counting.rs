//! An allocator that counts what is allocated, for tests and examples that measure memory.
#![allow(dead_code, reason = "each asks for its own part")]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are allocated now.
pub fn used() -> usize {
    USED.load(Ordering::Relaxed)
}

/// The most that were allocated at once since [`forget_most`].
pub fn most() -> usize {
    MOST.load(Ordering::Relaxed)
}

pub fn forget_most() {
    MOST.store(used(), Ordering::Relaxed);
}

/// An allocator, counted.
pub struct Counting<A>(pub A);

#[expect(unsafe_code, reason = "allocators are")]
// SAFETY: everything is the inner allocator's; only sizes are added up.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: as the caller has promised.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller has promised.
        unsafe { self.0.dealloc(place, layout) }
    }
}
