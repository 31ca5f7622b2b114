//! Which mutant of this build is switched on. The tool adds this file to a copy of the sources; `MUTANT` is the number.
//! `MUTANT_NOTES` names a file to which the number of each switch is appended when it is first passed.

use crate::time::Nanos;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, ffi::OsString, fs};

struct Chosen {
    number: Option<usize>,
    notes: Option<OsString>,
}

static CHOSEN: LazyLock<Chosen> = LazyLock::new(|| Chosen {
    number: env::var("MUTANT").ok().and_then(|number| number.parse().ok()),
    notes: env::var_os("MUTANT_NOTES"),
});

static NOTED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];

pub fn on(number: usize) -> bool {
    if let Some(notes) = &CHOSEN.notes {
        note(number, notes);
    }
    CHOSEN.number == Some(number)
}

/// A process without a free descriptor tries again.
fn note(number: usize, notes: &OsString) {
    // Ordering: each switch alone counts; a second line does no harm.
    if !NOTED[number].load(Ordering::Relaxed)
        && let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(notes)
    {
        NOTED[number].store(file.write_all(format!("{number}\n").as_bytes()).is_ok(), Ordering::Relaxed);
    }
}

/// `usual` of `a` and `b`, or `mutated`.
pub fn either<A: ?Sized, B: ?Sized>(
    number: usize,
    a: &A,
    b: &B,
    usual: impl FnOnce(&A, &B) -> bool,
    mutated: impl FnOnce(&A, &B) -> bool,
) -> bool {
    if on(number) { mutated(a, b) } else { usual(a, b) }
}

pub fn ten_times<N: Number>(number: usize, value: N) -> N {
    if on(number) { value.ten_times() } else { value }
}

pub fn plus_one<N: Number>(number: usize, value: N) -> N {
    if on(number) { value.plus_one() } else { value }
}

pub trait Number {
    fn ten_times(self) -> Self;
    fn plus_one(self) -> Self;
}

macro_rules! numbers {
    ($($kind:ty: $value:ident => $ten_times:expr, $plus_one:expr;)*) => {$(
        impl Number for $kind {
            fn ten_times(self) -> $kind {
                let $value = self;
                $ten_times
            }
            fn plus_one(self) -> $kind {
                let $value = self;
                $plus_one
            }
        }
    )*};
}

macro_rules! whole_numbers {
    ($($kind:ty)*) => { numbers! { $($kind: value => value.saturating_mul(10), value.saturating_add(1);)* } };
}

whole_numbers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }

numbers! {
    f32: value => value * 10.0, value + 1.0;
    f64: value => value * 10.0, value + 1.0;
    Nanos: value => value.times(10), value.plus(Nanos::new(1));
    std::time::Duration: value => value.saturating_mul(10), value.saturating_add(std::time::Duration::from_nanos(1));
}
