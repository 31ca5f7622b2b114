//! Panics of user code: caught, and the panic of a dropped payload with them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{fmt, thread};

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

/// A panic that was caught. Dropping it drops the payload, whose own panics are contained.
pub(crate) struct Panic {
    /// `None` only inside `drop`.
    payload: Option<Box<dyn Any + Send>>,
}

impl Panic {
    /// The message of the panic.
    pub(crate) fn message(&self) -> String {
        self.payload.as_deref().map_or_else(String::new, panic_message)
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

/// Calls user code; a panic becomes a value.
pub(crate) fn guarded<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    contained(call).map_err(|payload| Panic { payload: Some(payload) })
}

/// The message of a panic with this payload.
fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a value that is no text".to_owned())
}

/// Drops a value of user code and ignores a panic on the way. The payload of the panic is leaked, because dropping it may
/// panic again.
pub(crate) fn discard<X>(value: X) {
    if let Err(payload) = contained(|| drop(value)) {
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics when it is dropped, with a chain that is one shorter as the payload, until none is left.
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
        assert!(!is_contained(), "nobody catches here");
    }
}
