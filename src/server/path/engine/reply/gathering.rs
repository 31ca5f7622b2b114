//! Whether finished replies wait for others, to leave in one call.

use crate::time::{Nanos, ThreadUse};

/// The longest time that a reply waits between two requests: some times what one call for many
/// replies saves.
const WAIT_MAX: Nanos = Nanos::from_micros(8);

/// A time without a checkpoint that no reply should wait.
const STRETCH_LONG: Nanos = Nanos::from_micros(100);

/// What the thread has used is read this often while replies wait, which takes 1 us. What a request
/// uses is then known to half of a long stretch.
const READ_EVERY: Nanos = Nanos::from_micros(50);

/// Requests whose replies leave one by one after one that came to a checkpoint, or to the bound of
/// [`WAIT_MAX`].
const AFTER_PAUSE: u32 = 32;

/// Requests whose replies leave one by one after one that was long without a checkpoint, the first
/// time.
const AFTER_LONG: u32 = 512;

/// The same when long ones follow each other. Where one request in a thousand is long, one reply in
/// seventeen waits for another request, and one in 17,000 for a long one.
const AFTER_LONG_MAX: u32 = 16_384;

/// A long one follows another one soon within this many times the requests for which the last one
/// was remembered. Interruptions that take .5 % of the time in pieces of 500 us come once in 30,000
/// requests at 300,000/s, and are not soon.
const SOON: u32 = 8;

/// Whether finished replies may wait for the replies to the requests behind them, to leave in one
/// call. The last requests of one worker say that.
///
/// How long the next request takes is unknown. Replies wait for its first checkpoint at most, and
/// only while the last requests were all over sooner than that. A request that keeps its worker
/// without a checkpoint shows that this is no bound here. One during which the kernel ran other
/// threads shows nothing ([`ThreadUse`] tells). One alone may still be the hypervisor's doing,
/// which takes the processor away for as long. So the memory of it is short at first, and doubles
/// when the next one follows soon.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Requests until replies may wait again.
    one_by_one: u32,
    /// For how many requests the next long one will be remembered.
    after_long: u32,
    /// Requests until a long one no longer follows the last one soon.
    soon: u32,
    /// Use of the worker's thread at the last reading.
    used_before: ThreadUse,
    /// Time of the last reading of the thread's use.
    read_at: Nanos,
}

impl Gathering {
    /// Whether replies may wait while another batch is received.
    pub(super) fn is_on(&self) -> bool {
        self.one_by_one == 0
    }

    /// Whether replies may wait for a fresh request, the oldest of which has waited this long.
    pub(super) fn may_wait(&self, oldest: Nanos) -> bool {
        self.one_by_one == 0 && oldest < WAIT_MAX
    }

    /// Notes that replies wait, from `now` on, for the next request. `used` reads what the worker's
    /// thread has used.
    #[inline]
    pub(super) fn on_wait(&mut self, now: Nanos, used: impl FnOnce() -> ThreadUse) {
        if now.minus(self.read_at) >= READ_EVERY {
            (self.read_at, self.used_before) = (now, used());
        }
    }

    /// Notes that a fresh request ran for this long until it ended, or until it `paused`. While it
    /// ran, replies `waited` for its first checkpoint. `used` as in [`Gathering::on_wait`].
    #[inline]
    pub(super) fn on_first_run(&mut self, ran: Nanos, waited: bool, paused: bool, used: impl FnOnce() -> ThreadUse) {
        let is_long = |ran: Nanos| waited && !paused && ran >= STRETCH_LONG;
        let ran = if is_long(ran) { self.worked(ran, used()) } else { ran };
        if is_long(ran) {
            self.on_long();
        } else if paused || ran >= WAIT_MAX {
            self.one_by_one = self.one_by_one.max(AFTER_PAUSE);
        } else {
            self.one_by_one = self.one_by_one.saturating_sub(1);
        }
        self.soon = self.soon.saturating_sub(1);
    }

    /// The part of a run that the thread can have worked for.
    #[cold]
    fn worked(&self, ran: Nanos, used: ThreadUse) -> Nanos {
        // What the thread has worked for since the last reading is this request's, and that of
        // others before it.
        used.worked_since(&self.used_before).map_or(ran, |worked| ran.min(worked))
    }

    #[cold]
    fn on_long(&mut self) {
        self.after_long = if self.soon > 0 { (self.after_long * 2).min(AFTER_LONG_MAX) } else { AFTER_LONG };
        self.one_by_one = self.after_long;
        self.soon = self.after_long * (1 + SOON);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRIEF: Nanos = Nanos::new(300);

    /// A thread that has used this much CPU time, and waited so often.
    fn used(cpu: Nanos, waits: i64) -> ThreadUse {
        ThreadUse { cpu, waits }
    }

    /// Notes a request that had its processor while it ran.
    fn note(gathering: &mut Gathering, ran: Nanos, waited: bool, paused: bool) {
        gathering.on_first_run(ran, waited, paused, || used(ran, 0));
    }

    /// Requests until replies may wait again, after one that ran for `ran`.
    fn one_by_one_after(ran: Nanos, waited: bool, paused: bool) -> u32 {
        let mut gathering = Gathering::default();
        note(&mut gathering, ran, waited, paused);
        let mut requests = 0;
        while !gathering.is_on() {
            assert!(!gathering.may_wait(Nanos::ZERO));
            note(&mut gathering, BRIEF, false, false);
            requests += 1;
        }
        requests
    }

    // Do replies wait while requests are brief, and how long not, after one that was not?
    #[test]
    fn replies_wait_for_brief_requests_only() {
        assert!(Gathering::default().may_wait(Nanos::ZERO) && !Gathering::default().may_wait(WAIT_MAX));
        assert_eq!(one_by_one_after(BRIEF, true, false), 0);
        assert_eq!(one_by_one_after(BRIEF, true, true), AFTER_PAUSE);
        assert_eq!(one_by_one_after(WAIT_MAX, true, false), AFTER_PAUSE);
        assert_eq!(one_by_one_after(STRETCH_LONG, true, false), AFTER_LONG);
        assert_eq!(one_by_one_after(STRETCH_LONG, true, true), AFTER_PAUSE, "its checkpoint came, only late");
        assert_eq!(one_by_one_after(STRETCH_LONG, false, false), AFTER_PAUSE, "it may have had checkpoints");
        let mut gathering = Gathering::default();
        note(&mut gathering, STRETCH_LONG, true, false);
        note(&mut gathering, BRIEF, true, true);
        assert_eq!(gathering.one_by_one, AFTER_LONG, "the longer memory counts");
    }

    // Does time count for which the kernel ran other threads, or in which the request waited for
    // something? What the thread used after the last reading may have been this request's; what it
    // used before was not.
    #[test]
    fn a_thread_without_its_processor_is_not_in_a_long_request() {
        for (cpu, waits, expected) in
            [(BRIEF, 0, 0), (WAIT_MAX, 0, AFTER_PAUSE), (STRETCH_LONG, 0, AFTER_LONG), (BRIEF, 1, AFTER_LONG)]
        {
            let mut gathering = Gathering::default();
            let (now, before) = (Nanos::from_secs(7), Nanos::from_secs(1));
            let after = used(before.plus(cpu), 3 + waits);
            gathering.on_wait(now, || used(before, 3));
            gathering.on_wait(now.plus(READ_EVERY).minus(BRIEF), || unreachable!("it was read a moment ago"));
            gathering.on_first_run(BRIEF, true, false, || unreachable!("a brief one needs no reading"));
            gathering.on_first_run(STRETCH_LONG.times(9), true, false, || after);
            assert_eq!(gathering.one_by_one, expected, "{cpu:?} {waits}");
            gathering.on_wait(now.plus(READ_EVERY), || after);
            assert_eq!(gathering.used_before, after);
        }
    }

    /// Two shares of all requests, of which one in `every` is long: those during which replies may
    /// wait, and the long ones among these.
    fn shares(every: u32) -> (f64, f64) {
        let (mut gathering, mut waited, mut met) = (Gathering::default(), 0_u32, 0_u32);
        let requests = 1_000_000;
        for number in 0..requests {
            let (waits, is_long) = (gathering.is_on(), number % every == every - 1);
            waited += u32::from(waits);
            met += u32::from(waits && is_long);
            note(&mut gathering, if is_long { STRETCH_LONG } else { BRIEF }, waits, false);
        }
        (f64::from(waited) / f64::from(requests), f64::from(met) / f64::from(requests))
    }

    // Do replies seldom meet a long request where these are common, and nearly always wait where
    // the host interrupts now and then?
    #[test]
    fn memory_follows_how_often_requests_are_long() {
        for every in [10, 100, 1_000] {
            let (_, met) = shares(every);
            // A few more while the memory grows.
            assert!(met <= 1.2 / f64::from(AFTER_LONG_MAX), "one in {every}: {met}");
        }
        let (waited, _) = shares(30_000);
        assert!(waited > 0.97, "{waited}");
    }
}
