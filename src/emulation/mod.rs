//! Emulated cores: each worker thread stands for a core whose time is slept, not burnt.
//!
//! A core keeps the moment up to which it is busy. Whatever it does moves that moment on and sleeps
//! until then, to an absolute time, so the kernel's oversleeping never adds up.
//!
//! Beside the work itself a core pays for its steps, as a real one would. [`price`] is the table,
//! already scaled. `server/emulated.rs` calls [`charge`] with what a step costs. A charge is paid
//! before the next thing that others can see. Thieves find received jobs when their receive is paid
//! ([`pay`]). A continuation is in its queue when the yield is paid. A reply leaves when its send
//! is paid, to the microsecond ([`pay_on_time`]), so none leaves earlier than its core's time.
//! Replies that are sent together leave together, when all of them are paid.
//!
//! A core that starts something after a rest is charged its wake-up, unless it rested for no longer
//! than a real one spins. Threads that wake and find nothing, as those that hand over measurements
//! do, pay nothing. A real core differs in one thing. What a woken worker finds here is out of its
//! socket before it has paid, and no other worker can take it.
//!
//! The host may wake a thread late. That time is the host's, and no part of the core's time. A core
//! that rested starts what it gets when that was ready, though not before it last looked and found
//! nothing ([`rest`]). So the times of a request are those of cores that are never late. How far
//! the threads are behind their cores is told beside them ([`pay_on_time`]).
//!
//! A host that stands still for longer than [`PAUSE`] stops the cores too ([`paused`]). The threads
//! receive at once what came in that time. Cores that caught up would idle between these requests,
//! and would let those wait that have begun.
//!
//! The bench server with `burn = "sleep"` has such cores. Two files know them: `server/emulated.rs`
//! wraps the engine and the link of a worker, and charges their steps; `handler/builtin/burn.rs`
//! sleeps the work. Which cores a worker has is a type, so that real ones execute nothing of it
//! (`server/cores.rs`).
//!
//! Contention is not charged ([`Overheads::serial`], [`Overheads::contend`]): threads have it for
//! real at their queues.

pub mod overheads;

use crate::sched::{Spinning, Wait};
use crate::time::{Nanos, clock};
use overheads::Overheads;
use std::cell::Cell;

thread_local! {
    static BUSY_UNTIL: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// Charged, and not yet part of [`BUSY_UNTIL`].
    static OWED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// Charged for work since [`take_charged`].
    static CHARGED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// While the core has nothing to do: the start of its rest, and its last look; else `None`.
    static RESTS: Cell<Option<(Nanos, Nanos)>> = const { Cell::new(None) };
    /// The last arrival that the core has received, until it starts something.
    static RECEIVED_UNTIL: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    static PRICES: Cell<Overheads> = const { Cell::new(Overheads::NONE) };
    static SPINNING: Cell<Spinning> = const { Cell::new(Spinning::new(Wait::Park, 1)) };
    /// For how long the host has stopped the core.
    static PAUSED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// Whether the core has searched everywhere, and looks on.
    static LOOKS_ON: Cell<bool> = const { Cell::new(false) };
}

/// Typical worst-case wake-up latency of a thread. Before an exact time a thread spins for this
/// long. A charge no longer than this is slept together with the next one.
const WAKE_LATENCY: Nanos = Nanos::from_micros(50);

/// How late a thread may be for its core without stopping it: a quarter of what clients wait.
pub const PAUSE: Nanos = Nanos::from_millis(250);

/// Makes this thread's core pay `prices` for its steps, on its own time scale, and spin like
/// `spinning`.
pub fn set_prices(prices: Overheads, spinning: Spinning) {
    PRICES.set(prices);
    SPINNING.set(spinning);
}

/// What the steps of this thread's core cost; nothing before [`set_prices`].
pub fn price() -> Overheads {
    PRICES.get()
}

/// Charges this thread's core `amount`, which it pays before it starts a job, before [`pay`] and
/// before [`pay_on_time`].
pub fn charge(amount: Nanos) {
    CHARGED.set(CHARGED.get().plus(amount));
    delay(amount);
}

/// Like [`charge`], for time without work: a receive that finds nothing. Free while the core looks
/// on.
pub fn delay(amount: Nanos) {
    if !LOOKS_ON.get() {
        OWED.set(OWED.get().plus(amount));
    }
}

/// Notes whether this thread's core has searched everywhere and looks on, until it has something to
/// do or is woken. A spinning core sees the next arrival, while this thread looks once more and
/// sleeps. No effect on a core that never spins.
pub fn look_on(looks_on: bool) {
    LOOKS_ON.set(looks_on && SPINNING.get().limit() > Nanos::ZERO);
}

/// Starts a job that has been ready since `ready_at` on this thread's core; returns when it
/// started.
///
/// The core starts the job once it is free, and not before it last found nothing. The thread may
/// notice the job later. That time is the host's, not the core's, up to [`PAUSE`].
pub fn start(ready_at: Nanos) -> Nanos {
    let free_at = BUSY_UNTIL.get();
    RECEIVED_UNTIL.set(Nanos::ZERO);
    let (rests_since, looked_at) = RESTS.take().unwrap_or((free_at, free_at));
    let mut begins = ready_at.max(free_at).max(looked_at);
    let late = clock::now().minus(begins);
    if late > PAUSE {
        PAUSED.set(PAUSED.get().plus(late));
        begins = begins.plus(late);
    }
    // A wake-up keeps the core from its work, and is no work.
    let wake = if begins > rests_since { wake_after(rests_since, begins) } else { Nanos::ZERO };
    BUSY_UNTIL.set(begins.plus(wake));
    pay_all()
}

/// For how long the host has stopped this thread's core.
pub fn paused() -> Nanos {
    PAUSED.get()
}

/// Notes that this thread's core has received what arrived up to `latest`. The core's own time may
/// be earlier.
pub fn received(latest: Nanos) {
    RECEIVED_UNTIL.set(latest);
}

/// What a core that has rested from `since` to `now` pays for its wake-up.
fn wake_after(since: Nanos, now: Nanos) -> Nanos {
    let mut spinning = SPINNING.get();
    let slept = now.minus(since) > spinning.limit();
    spinning.on_idle(since, now);
    SPINNING.set(spinning);
    if slept { PRICES.get().wake } else { Nanos::ZERO }
}

/// Pays what was charged, so that whatever the thread does next is seen by others no earlier than
/// the core does it. Returns when the core is through.
pub fn pay() -> Nanos {
    let until = pay_all();
    if until.minus(clock::now()) > WAKE_LATENCY {
        sleep_until(until);
    }
    until
}

/// As [`pay`], and awake to the microsecond; returns how late the thread is all the same.
pub fn pay_on_time() -> Nanos {
    let until = pay_all();
    on_time(until);
    clock::now().minus(until)
}

/// What this thread's core was charged for work since the last call.
pub fn take_charged() -> Nanos {
    CHARGED.take()
}

/// Notes that this thread's core has looked everywhere since `looked_at` and has nothing to do. Its
/// next job starts no earlier than that, even if it was ready long before. A request may have
/// waited in the socket of a busy worker until others were allowed to take it. What comes later
/// finds the core at rest, though the host may stop the thread on its way to sleep.
pub fn rest(looked_at: Nanos) {
    let until = pay_all();
    let since = RESTS.get().map_or(until, |(since, _)| since);
    RESTS.set(Some((since, looked_at)));
}

/// Makes this thread stand for another core, one that is busy until `busy_until`: for threads that
/// outnumber the cores and take them in turn.
pub fn take_over(busy_until: Nanos) {
    BUSY_UNTIL.set(busy_until);
}

/// Until when this thread's core is busy, without what was charged since it last paid.
pub fn busy_until() -> Nanos {
    BUSY_UNTIL.get()
}

/// The time of this thread's core, as its worker reads it. While the core has nothing to do, it is
/// that of the clock. It is no earlier than the last arrival that the core has received.
pub fn now() -> Nanos {
    let busy_until = BUSY_UNTIL.get().max(RECEIVED_UNTIL.get());
    if RESTS.get().is_some() { busy_until.max(clock::now()) } else { busy_until }
}

/// Keeps the core busy for `amount` and the checkpoint that goes with it.
pub(crate) fn burn(amount: Nanos) {
    let until = BUSY_UNTIL.get().plus(amount).plus(PRICES.get().checkpoint);
    BUSY_UNTIL.set(until);
    sleep_until(until);
}

/// Keeps the core busy for the last `amount` of a request.
pub(crate) fn burn_last(amount: Nanos) {
    let until = BUSY_UNTIL.get().plus(amount);
    BUSY_UNTIL.set(until);
    // Where the reply is paid for, it is that payment that must end on time.
    if PRICES.get().send == Nanos::ZERO { on_time(until) } else { sleep_until(until) }
}

fn pay_all() -> Nanos {
    let until = BUSY_UNTIL.get().plus(OWED.take());
    BUSY_UNTIL.set(until);
    until
}

fn sleep_until(until: Nanos) {
    let slept = until.minus(clock::now());
    if slept > Nanos::ZERO {
        std::thread::sleep(slept.into());
    }
}

fn on_time(until: Nanos) {
    sleep_until(until.minus(WAKE_LATENCY));
    while clock::now() < until {
        // The other emulated cores share the few real ones with this one.
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    #[test]
    fn an_emulated_core_does_not_add_up_oversleeping() {
        let start = start(clock::now());
        for _ in 0..20 {
            burn(US(200));
        }
        assert_eq!(busy_until(), start.plus(US(4_000)));
        assert!(clock::now() >= busy_until());
    }

    #[test]
    fn a_job_that_waited_starts_when_the_core_came_free() {
        start(clock::now());
        burn(US(100));
        let free = busy_until();
        assert_eq!(start(free), free);
        assert!(start(clock::now()) > free);
    }

    #[test]
    fn a_core_that_had_nothing_to_do_starts_nothing_in_the_past() {
        start(clock::now());
        burn(US(100));
        let free = busy_until();
        let now = clock::now();
        rest(now);
        assert!(start(free) >= now, "it was ready when the core came free, and was not there to be had");
        charge(US(40));
        let free = busy_until();
        rest(clock::now());
        assert!(start(Nanos::ZERO) >= free.plus(US(40)), "what is charged and not slept yet keeps the core");
    }

    // Does a pause of the host cost a core nothing, whether the core rested, was on its way to
    // rest, or had just come free?
    #[test]
    fn a_core_starts_when_its_job_was_ready_however_late_the_thread_is() {
        set_prices(Overheads { receive: US(30), ..Overheads::NONE }, Spinning::new(Wait::Park, 1));
        start(clock::now());
        burn(US(100));
        for rests in [Some(true), Some(false), None] {
            let looked_at = clock::now();
            let ready_at = clock::now();
            if rests == Some(true) {
                rest(looked_at);
            }
            std::thread::sleep(std::time::Duration::from_millis(3));
            if rests == Some(false) {
                rest(looked_at);
            }
            assert_eq!(start(ready_at), ready_at, "{rests:?}");
            assert_eq!(now(), ready_at);
            charge(US(30));
            pay();
            received(ready_at.plus(US(500)));
            assert_eq!(now(), ready_at.plus(US(500)), "of a batch the core knows the last datagram");
            assert_eq!(start(ready_at), ready_at.plus(US(30)), "and starts the first one before that");
        }
    }

    #[test]
    fn a_long_pause_of_the_host_stops_the_core() {
        let begun = start(clock::now());
        std::thread::sleep(PAUSE.into());
        std::thread::sleep(US(1_000).into());
        let resumed = start(begun);
        assert!(resumed >= begun.plus(PAUSE));
        assert_eq!(paused(), resumed.minus(begun));
        assert_eq!(start(begun), resumed, "it stops once");
    }

    // Is a charge paid before the next job, before what others see, and before a reply?
    #[test]
    fn what_is_charged_is_paid_before_anything_is_seen() {
        let begun = start(clock::now());
        charge(US(70));
        assert_eq!(busy_until(), begun, "not paid yet");
        assert_eq!(start(begun), begun.plus(US(70)));
        charge(US(3_000));
        assert_eq!(pay(), begun.plus(US(3_070)));
        assert!(clock::now() >= busy_until(), "others see what comes next");
        charge(US(10));
        assert_eq!(pay(), begun.plus(US(3_080)), "too short to be slept for");
        charge(US(500));
        pay_on_time();
        assert!(clock::now() >= begun.plus(US(3_580)), "a reply may leave");
        delay(US(20));
        assert_eq!(pay(), begun.plus(US(3_600)));
        assert_eq!((take_charged(), take_charged()), (US(3_580), Nanos::ZERO), "a delay is no work");
    }

    // Does what a core looks for in vain delay it once, and not while it looks on, which a core
    // that never spins does not?
    #[test]
    fn a_core_that_looks_on_is_not_delayed() {
        for (wait, delays) in [(Wait::Adaptive, 2), (Wait::Park, 3)] {
            set_prices(Overheads::NONE, Spinning::new(wait, 1));
            let begun = start(clock::now());
            delay(US(20));
            look_on(true);
            delay(US(20));
            look_on(false);
            delay(US(20));
            assert_eq!(pay(), begun.plus(US(20).times(delays)), "{wait:?}");
        }
    }

    // Is a wake-up charged to a core that slept, and to none that would still have been spinning?
    #[test]
    fn only_a_core_that_slept_pays_for_its_wake() {
        set_prices(Overheads { wake: US(700), ..Overheads::NONE }, Spinning::new(Wait::Adaptive, 20));
        take_over(clock::now());
        for rested in [US(100), US(3_000)] {
            let begun = clock::now();
            rest(begun);
            sleep_until(begun.plus(Nanos::new(rested.get() / 2)));
            // A wake-up that finds nothing.
            rest(clock::now());
            sleep_until(begun.plus(rested));
            let before = clock::now();
            let started = start(before);
            let waited = clock::now().minus(begun);
            let cost = if rested > US(2_000) { US(700) } else { Nanos::ZERO };
            // A machine that overslept made a long rest of a short one.
            if rested > US(2_000) || waited < US(2_000) {
                assert!(started >= before.plus(cost) && started <= clock::now().plus(cost), "{rested}: {started}");
            }
        }
        let busy = busy_until();
        assert_eq!(start(busy), busy, "it did not rest");
    }

    // Does each step pay for its checkpoint, and the last one for none?
    #[test]
    fn checkpoints_cost_what_the_table_says() {
        set_prices(Overheads { checkpoint: US(3), send: US(1), ..Overheads::NONE }, Spinning::new(Wait::Park, 1));
        let begun = start(clock::now());
        burn(US(100));
        burn_last(US(100));
        assert_eq!(busy_until(), begun.plus(US(203)));
    }
}
