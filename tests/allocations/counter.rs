//! An allocator that counts what the threads under watch ask for. The one place of the tests with
//! `unsafe`.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Counter;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes in use, of what threads under watch have allocated and freed.
static BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Constant and without a destructor: to look at it allocates nothing, also while a thread
    // begins or ends.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// From now on what the calling thread allocates counts. True if it did not before.
pub(crate) fn watch_this_thread() -> bool {
    !WATCHED.replace(true)
}

/// How often threads under watch have allocated or grown something.
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
        // Below zero where another thread allocated it: only differences count.
        BYTES.fetch_sub(bytes as u64, Ordering::SeqCst);
    }
}

// SAFETY: every call goes to `System` as it came, which keeps the contract; counting touches no
// memory of the allocator.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        count_freed(layout.size());
        // SAFETY: the caller's, passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: the caller's, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}
