//! An allocator that counts the allocations of watched threads. No other test may use `unsafe`.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Counter;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that watched threads have allocated and not freed.
static BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Constant and without a destructor, so reading it allocates nothing, even while a thread
    // begins or ends.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// From now on, allocations of the calling thread count. Returns true if they did not count before.
pub(crate) fn watch_this_thread() -> bool {
    !WATCHED.replace(true)
}

/// How often watched threads have allocated or grown memory.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::SeqCst)
}

/// Bytes that threads under watch have allocated and not freed.
pub(crate) fn bytes() -> u64 {
    BYTES.load(Ordering::SeqCst)
}

fn count(bytes: usize) {
    if WATCHED.get() {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        BYTES.fetch_add(bytes as u64, Ordering::SeqCst);
    }
}

fn count_freed(bytes: usize) {
    if WATCHED.get() {
        // The sum wraps below zero if another thread allocated the memory. Only differences are
        // used.
        BYTES.fetch_sub(bytes as u64, Ordering::SeqCst);
    }
}

// SAFETY: every call goes to `System` unchanged, and `System` keeps the contract. Counting touches
// no memory of the allocator.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `System`, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `System`, too.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        count_freed(layout.size());
        // SAFETY: the caller keeps the contract of `System`, too.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: the caller keeps the contract of `System`, too.
        unsafe { System.dealloc(pointer, layout) }
    }
}
