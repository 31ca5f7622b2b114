//! The net under code of users: panics are caught, also those of a drop.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{fmt, mem, thread};

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of the calling thread would be caught by [`guarded`] or [`discard`]. The panic
/// hook asks this, because it runs before the panic is caught.
pub fn is_contained() -> bool {
    CONTAINED.get()
}

fn contained<R>(call: impl FnOnce() -> R) -> thread::Result<R> {
    let outer = CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CONTAINED.set(outer);
    result
}

/// A caught panic. Its drop also drops the payload, and catches panics that this causes.
pub struct Panic {
    /// `None` only inside `drop`.
    payload: Option<Box<dyn Any + Send>>,
}

impl Panic {
    /// The panic's message.
    pub fn message(&self) -> String {
        let text = self.payload.as_deref().and_then(panic_message);
        text.unwrap_or("a value that is no text").to_owned()
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        discard(self.payload.take());
    }
}

/// Calls user code and returns a panic as a value.
pub fn guarded<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    contained(call).map_err(|payload| Panic { payload: Some(payload) })
}

/// The message of a panic with this payload; `None` if it is not text.
pub fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Drops a value of user code, and ignores a panic of the drop. Leaks the payload of that panic,
/// because its own drop could panic again.
pub fn discard<X>(value: X) {
    if let Err(payload) = contained(|| drop(value)) {
        mem::forget(payload);
    }
}

/// Puts `value` into `place`, and drops what was there as [`discard`] does.
#[inline]
pub fn exchange<X>(place: &mut X, value: X) {
    let before = mem::replace(place, value);
    if mem::needs_drop::<X>() {
        discard(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics when it is dropped, with a shorter chain as the payload, until the chain ends.
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
        assert_eq!(guarded(|| 1).ok(), Some(1));
        for depth in 0..4 {
            let caught: Result<(), Panic> = guarded(|| panic_any(Chain(depth)));
            assert_eq!(caught.map_err(|panic| panic.message()), Err("a value that is no text".to_owned()));
            discard(Chain(depth));
        }
        assert_eq!(guarded(|| guarded(|| panic_any(1)).is_err() && is_contained()).ok(), Some(true));
        assert!(!is_contained(), "nothing catches here");
    }
}
