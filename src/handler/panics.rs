//! Panics of what users wrote: caught, and the panic of a dropped payload with them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of the calling thread would be caught here: for the panic hook, which runs before it is caught.
pub(crate) fn is_contained() -> bool {
    CONTAINED.get()
}

fn contained<R>(call: impl FnOnce() -> R) -> thread::Result<R> {
    let outer = CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CONTAINED.set(outer);
    result
}

/// Calls what a user wrote; `None` if it panics.
pub(crate) fn guarded<R>(call: impl FnOnce() -> R) -> Option<R> {
    match contained(call) {
        Ok(result) => Some(result),
        Err(payload) => {
            discard(payload);
            None
        }
    }
}

/// Drops what a user wrote. A panic on the way concerns nobody any more, and what that panic carries, which may panic in
/// its turn when it is dropped, is forgotten: one leak for each such panic, and an end.
pub(crate) fn discard<X>(value: X) {
    if let Err(payload) = contained(|| drop(value)) {
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics when it is dropped, with another of its kind, so many times.
    struct Chain(u32);

    impl Drop for Chain {
        fn drop(&mut self) {
            if self.0 > 0 {
                panic_any(Chain(self.0 - 1));
            }
        }
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_contained() {
        assert_eq!(guarded(|| 1), Some(1));
        for depth in 0..4 {
            assert_eq!(guarded(|| panic_any(Chain(depth))), None::<()>);
            discard(Chain(depth));
        }
        assert_eq!(guarded(|| guarded(|| panic_any(1)).is_none() && is_contained()), Some(true));
        assert!(!is_contained(), "nobody catches here");
    }
}
