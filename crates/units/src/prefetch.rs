//! Memory that is needed soon.

/// Asks for the memory of `value` itself, and of nothing that it points to: the processor brings it while it does other
/// work. It changes nothing but time.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        /// Bytes of a cache line.
        const LINE: usize = 64;
        let start = std::ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of_val(value)).step_by(LINE) {
            #[expect(unsafe_code, reason = "there is no safe name for it")]
            // SAFETY: a hint. It reads nothing that a program could notice, and no address makes it fail.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
