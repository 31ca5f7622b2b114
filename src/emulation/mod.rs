//! Emulated cores: each worker thread stands for a core, and sleeps for the time in which the core
//! would work. So a small machine can run the workers of a large one.
//!
//! For each core, its thread stores the time until which the core is busy. Work moves this time on,
//! and the thread sleeps until then. It sleeps until an absolute time, so delays of the kernel's
//! wake-ups do not add up.
//!
//! Besides the work itself, a core pays for the steps of the server, as a real core would.
//! [`price`] returns the table of costs, already scaled. `server/emulated.rs` calls [`charge`] with
//! the cost of a step. To *pay* a charge is to sleep for it. A charge is paid before the core does
//! the next thing that other threads can see. Received jobs can be stolen once their receive is
//! paid ([`pay`]), and a continuation enters its queue once the yield is paid. A reply leaves once
//! its send is paid, to the microsecond ([`pay_on_time`]), so it never leaves before its core's
//! time. Replies that are sent together leave together, once all of them are paid.
//!
//! A core that starts a job after a rest is charged its wake-up, unless it rested for no longer
//! than a real worker spins. A thread that wakes and finds no job pays nothing; this happens, for
//! example, to hand over measurements. Emulation differs from a real core in one point. A woken
//! worker takes a datagram out of its socket before it has paid for the wake-up. So no other worker
//! can take the datagram meanwhile.
//!
//! The host may wake a thread late. This delay is not part of the core's time. A core that rested
//! starts a job at the time when the job was ready, but not before it last looked and found nothing
//! ([`rest`]). So the measured times of a request are those of cores that are never late. By how
//! much threads are behind their cores is reported separately ([`pay_on_time`]).
//!
//! If the host stands still for longer than [`PAUSE`], the cores stop too ([`paused`]). After such
//! a pause, the threads receive all requests at once that came meanwhile. Cores whose time ran on
//! through the pause would serve them as if on time, with idle times in between, while begun
//! requests wait.
//!
//! The bench server with `burn = "sleep"` has emulated cores. Only two files use this module.
//! `server/emulated.rs` wraps the engine and the link of a worker, and charges their steps;
//! `handler/builtin/burn.rs` sleeps for the work. The kind of core is a type parameter of a worker,
//! so real cores execute none of this code (`server/cores.rs`).
//!
//! Contention ([`Overheads::serial`], [`Overheads::contend`]) is not charged, because the threads
//! really contend for their queues.

pub mod overheads;

use crate::sched::{Spinning, Wait};
use crate::time::{Nanos, clock};
use overheads::Overheads;
use std::cell::Cell;

thread_local! {
    static BUSY_UNTIL: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// Time charged and not yet added to [`BUSY_UNTIL`].
    static OWED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// Time charged for work since the last [`take_charged`].
    static CHARGED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// While the core has nothing to do: when its rest began, and when it last searched; otherwise
    /// `None`.
    static RESTS: Cell<Option<(Nanos, Nanos)>> = const { Cell::new(None) };
    /// Arrival time of the latest request that the core has received, until it starts a job.
    static RECEIVED_UNTIL: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    static PRICES: Cell<Overheads> = const { Cell::new(Overheads::NONE) };
    static SPINNING: Cell<Spinning> = const { Cell::new(Spinning::new(Wait::Park, 1)) };
    /// For how long pauses of the host have stopped the core, in total.
    static PAUSED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// Whether the core has found nothing anywhere, and keeps looking (spins).
    static LOOKS_ON: Cell<bool> = const { Cell::new(false) };
}

/// Typical worst-case wake-up latency of a thread. To be on time, a thread spins for the last part
/// of a wait, of this length. A charge that is not longer is not slept for at once, but together
/// with the next one.
const WAKE_LATENCY: Nanos = Nanos::from_micros(50);

/// A thread that starts a job later than this stops its core's time: a quarter of the time that
/// clients wait.
pub const PAUSE: Nanos = Nanos::from_millis(250);

/// Sets the costs of the steps of this thread's core, already scaled, and how long it spins.
pub fn set_prices(prices: Overheads, spinning: Spinning) {
    PRICES.set(prices);
    SPINNING.set(spinning);
}

/// The costs of the steps of this thread's core; all zero before [`set_prices`].
pub fn price() -> Overheads {
    PRICES.get()
}

/// Charges this thread's core `amount` for work. The core pays before it starts the next job, or in
/// the next [`pay`] or [`pay_on_time`].
pub fn charge(amount: Nanos) {
    CHARGED.set(CHARGED.get().plus(amount));
    delay(amount);
}

/// Like [`charge`], for time that is not work, such as a receive that finds nothing. It is free
/// while the core keeps looking ([`look_on`]).
pub fn delay(amount: Nanos) {
    if !LOOKS_ON.get() {
        OWED.set(OWED.get().plus(amount));
    }
}

/// Sets whether this thread's core has found nothing anywhere and keeps looking. A real core would
/// spin now, so an emulated one pays nothing for these looks. No effect on a core that never spins.
pub fn look_on(looks_on: bool) {
    LOOKS_ON.set(looks_on && SPINNING.get().limit() > Nanos::ZERO);
}

/// Starts a job that has been ready since `ready_at` on this thread's core; returns when it
/// started.
///
/// The core starts the job once it is free, and not before it last found nothing. If the thread
/// notices the job later, by up to [`PAUSE`], the delay is not part of the core's time. A longer
/// delay stops the core.
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
    // A wake-up delays the core, but does not count as work.
    let wake = if begins > rests_since { wake_after(rests_since, begins) } else { Nanos::ZERO };
    BUSY_UNTIL.set(begins.plus(wake));
    pay_all()
}

/// For how long pauses of the host have stopped this thread's core, in total.
pub fn paused() -> Nanos {
    PAUSED.get()
}

/// Records `latest`, the arrival time of the last request that this thread's core has received.
/// Until the next [`start`], [`now`] returns at least `latest`.
pub fn received(latest: Nanos) {
    RECEIVED_UNTIL.set(latest);
}

/// The price of the wake-up of a core that has rested from `since` to `now`.
fn wake_after(since: Nanos, now: Nanos) -> Nanos {
    let mut spinning = SPINNING.get();
    let slept = now.minus(since) > spinning.limit();
    spinning.on_idle(since, now);
    SPINNING.set(spinning);
    if slept { PRICES.get().wake } else { Nanos::ZERO }
}

/// Pays all charges: sleeps until the core's time, so that other threads do not see the next action
/// too early. Returns the time until which the core is busy.
pub fn pay() -> Nanos {
    let until = pay_all();
    if until.minus(clock::now()) > WAKE_LATENCY {
        sleep_until(until);
    }
    until
}

/// As [`pay`], but spins at the end, to be exact to a microsecond. Returns by how much the thread
/// is late nevertheless.
pub fn pay_on_time() -> Nanos {
    let until = pay_all();
    on_time(until);
    clock::now().minus(until)
}

/// The time that this thread's core was charged for work since the last call.
pub fn take_charged() -> Nanos {
    CHARGED.take()
}

/// Notes that this thread's core began its last search at `looked_at`, and found nothing to do. Its
/// next job starts no earlier than this, even if the job was ready before. The job may have waited
/// in the socket of a busy worker until others were allowed to take it. A job that comes later
/// starts when it comes, even if the host delays the thread on its way to sleep.
pub fn rest(looked_at: Nanos) {
    let until = pay_all();
    let since = RESTS.get().map_or(until, |(since, _)| since);
    RESTS.set(Some((since, looked_at)));
}

/// Makes this thread stand for another core, which is busy until `busy_until`. It is for servers
/// with more threads than cores, in which threads take the cores in turn.
pub fn take_over(busy_until: Nanos) {
    BUSY_UNTIL.set(busy_until);
}

/// Until when this thread's core is busy, without charges that are not paid yet.
pub fn busy_until() -> Nanos {
    BUSY_UNTIL.get()
}

/// The time of this thread's core, as its worker reads it. While the core has nothing to do, this
/// is at least the time of the real clock. It is never earlier than the latest arrival that the
/// core has received.
pub fn now() -> Nanos {
    let busy_until = BUSY_UNTIL.get().max(RECEIVED_UNTIL.get());
    if RESTS.get().is_some() { busy_until.max(clock::now()) } else { busy_until }
}

/// Keeps the core busy for `amount` and one checkpoint.
pub(crate) fn burn(amount: Nanos) {
    let until = BUSY_UNTIL.get().plus(amount).plus(PRICES.get().checkpoint);
    BUSY_UNTIL.set(until);
    sleep_until(until);
}

/// Keeps the core busy for the last `amount` of a request.
pub(crate) fn burn_last(amount: Nanos) {
    let until = BUSY_UNTIL.get().plus(amount);
    BUSY_UNTIL.set(until);
    // If sending has a price, it is paid to the microsecond later, so this sleep need not be exact.
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
        // The threads of the other emulated cores need the few real cores too.
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

    // If the host delays a thread, does its core lose no time, whether it rested, was about to
    // rest, or had just become free?
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

    // Is a charge paid before the next job, before other threads see a result, and before a reply?
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

    // Does a look that finds nothing delay a core, except while it spins?
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

    // Is a wake-up charged to a core that slept, and not to one that would still have been
    // spinning?
    #[test]
    fn only_a_core_that_slept_pays_for_its_wake() {
        set_prices(Overheads { wake: US(700), ..Overheads::NONE }, Spinning::new(Wait::Adaptive, 20));
        take_over(clock::now());
        for rested in [US(100), US(3_000)] {
            let begun = clock::now();
            rest(begun);
            sleep_until(begun.plus(Nanos::new(rested.get() / 2)));
            // A wake-up that finds no job.
            rest(clock::now());
            sleep_until(begun.plus(rested));
            let before = clock::now();
            let started = start(before);
            let waited = clock::now().minus(begun);
            let cost = if rested > US(2_000) { US(700) } else { Nanos::ZERO };
            // If the host woke the thread late, a short rest became a long one.
            if rested > US(2_000) || waited < US(2_000) {
                assert!(started >= before.plus(cost) && started <= clock::now().plus(cost), "{rested}: {started}");
            }
        }
        let busy = busy_until();
        assert_eq!(start(busy), busy, "it did not rest");
    }

    // Is a checkpoint charged for each step of a request except the last?
    #[test]
    fn checkpoints_cost_what_the_table_says() {
        set_prices(Overheads { checkpoint: US(3), send: US(1), ..Overheads::NONE }, Spinning::new(Wait::Park, 1));
        let begun = start(clock::now());
        burn(US(100));
        burn_last(US(100));
        assert_eq!(busy_until(), begun.plus(US(203)));
    }
}
