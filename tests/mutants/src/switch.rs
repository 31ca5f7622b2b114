//! Decides which mutant of this build is on. The tool adds this file to a copy of the sources;
//! `MUTANT` is the number. `MUTANT_NOTES` names a file. When a switch is first passed, its number
//! is appended to it.

use crate::time::Nanos;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, ffi::OsString, fs, io::Write};

static CHOSEN: LazyLock<Option<usize>> = LazyLock::new(|| env::var("MUTANT").ok()?.parse().ok());
static NOTES: LazyLock<Option<OsString>> = LazyLock::new(|| env::var_os("MUTANT_NOTES"));
static NOTED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];

pub fn on(number: usize) -> bool {
    // Ordering: relaxed, because each switch is independent, and a second line does no harm.
    if let Some(notes) = &*NOTES
        && !NOTED[number].load(Ordering::Relaxed)
        && let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(notes)
    {
        NOTED[number].store(file.write_all(format!("{number}\n").as_bytes()).is_ok(), Ordering::Relaxed);
    }
    *CHOSEN == Some(number)
}

pub trait Number {
    fn times_plus(self, times: u32, plus: u32) -> Self;
}

macro_rules! numbers {
    ($($kind:ident)*: $value:ident $times:ident $plus:ident => $mutated:expr) => {$(
        impl Number for $kind {
            fn times_plus(self, $times: u32, $plus: u32) -> $kind {
                let $value = self;
                $mutated
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize:
value times plus => value.saturating_mul(times as _).saturating_add(plus as _) }
numbers! { f32 f64: value times plus => value * times as Self + plus as Self }
numbers! { Nanos: value times plus => value.times(times.into()).plus(Nanos::new(plus.into())) }
numbers! { Duration: value times plus => value.saturating_mul(times).saturating_add(Duration::from_nanos(plus.into())) }
