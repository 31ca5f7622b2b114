//! Timers of shards: at the time of a key, its shard gets an event.
//!
//! Each shard has its keys in the order of their times. A worker that finds that the earliest one
//! is due makes an event of each shard with a due key. The event takes its turn in the shard as a
//! request does, and handles all keys that are due by then. So a timer that its shard has stopped
//! or moved meanwhile does not fire.
//!
//! Busy workers look at [`Timers::is_due`] in each turn. While all of them sleep, [`Alarm::ring`]
//! wakes one.
//!
//! No timer is lost. A thread that arms one writes its time, first to `due`, then to `next`. A
//! worker that fires takes `next` before it reads `due`. So it sees the new time in `due`, or
//! leaves it in `next`. The alarm says until when it waits before it reads `next` again, and a
//! thread that lowers `next` reads that after it. So the alarm sees the new time, or is notified.

use super::{Outside, Ready, lock};
use crate::time::{Nanos, clock};
use crossbeam_utils::CachePadded;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Keys of one shard, at most: 1 MB of memory.
pub(crate) const TIMERS_MAX: usize = 1 << 14;

/// No timer.
const NEVER: u64 = u64::MAX;

/// The timers of one server.
#[derive(Debug)]
pub(crate) struct Timers {
    shards: Box<[CachePadded<Mutex<Armed>>]>,
    /// For each shard the time of its earliest key, in ns; [`NEVER`] while its event is under way.
    due: Box<[AtomicU64]>,
    alarm: Arc<Alarm>,
}

/// The timers of one shard.
#[derive(Debug, Default)]
struct Armed {
    times: HashMap<u64, Nanos>,
    /// The same, in the order of the times.
    order: BTreeSet<(Nanos, u64)>,
    /// Whether an event that handles its due keys is under way.
    fires: bool,
}

/// What wakes a worker once a timer is due.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// The earliest time in any shard, in ns, or an earlier one.
    next: CachePadded<AtomicU64>,
    /// Until when the alarm waits, in ns; 0 while it waits for a worker.
    waits_until: AtomicU64,
    /// Notified when `next` is before that, or when a worker has come.
    changed: Notify,
    /// Whether [`Ready::Timers`] is out, and no worker has taken it.
    rings: AtomicBool,
    /// Whether timers fire no more.
    stopped: AtomicBool,
}

impl Timers {
    /// No timers yet, for so many shards.
    pub(crate) fn new(shards: usize) -> Timers {
        let next = CachePadded::new(AtomicU64::new(NEVER));
        Timers {
            shards: (0..shards).map(|_| CachePadded::default()).collect(),
            due: (0..shards).map(|_| AtomicU64::new(NEVER)).collect(),
            alarm: Arc::new(Alarm {
                next,
                waits_until: AtomicU64::new(0),
                changed: Notify::new(),
                rings: AtomicBool::new(false),
                stopped: AtomicBool::new(false),
            }),
        }
    }

    pub(crate) fn alarm(&self) -> &Arc<Alarm> {
        &self.alarm
    }

    /// Lets `key` of `shard` fire at `when`, and not at the time that it had; `None` stops it.
    /// Returns false if the shard has no room for the key.
    pub(crate) fn set(&self, shard: u32, key: u64, when: Option<Nanos>) -> bool {
        let mut armed = lock(&self.shards[shard as usize]);
        match (armed.times.remove(&key), when) {
            (Some(before), _) => _ = armed.order.remove(&(before, key)),
            (None, Some(_)) if armed.times.len() >= TIMERS_MAX => return false,
            _ => {}
        }
        if let Some(when) = when {
            armed.times.insert(key, when);
            armed.order.insert((when, key));
        }
        self.publish(shard, &armed);
        true
    }

    /// Whether a timer may be due at `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        // Ordering: relaxed, a hint; `fire` reads it again.
        self.alarm.next.load(Ordering::Relaxed) <= now.get() && !self.alarm.stopped.load(Ordering::Relaxed)
    }

    /// Lets no timer fire any more: for a server that drains.
    pub(crate) fn stop(&self) {
        self.alarm.stopped.store(true, Ordering::Relaxed);
    }

    /// Calls `begin` for each shard with a key that is due at `now` and without an event under way.
    /// It returns whether it has begun one, whose end [`Timers::fired`] must tell.
    pub(crate) fn fire(&self, now: Nanos, mut begin: impl FnMut(u32) -> bool) {
        if self.alarm.stopped.load(Ordering::Relaxed) {
            return;
        }
        // Ordering: see the head of this file.
        self.alarm.next.swap(NEVER, Ordering::SeqCst);
        let mut next = NEVER;
        for (shard, due) in self.due.iter().enumerate() {
            let shard_due = due.load(Ordering::SeqCst);
            if shard_due > now.get() {
                next = next.min(shard_due);
                continue;
            }
            let mut armed = lock(&self.shards[shard]);
            if armed.fires {
                continue;
            }
            // Before it begins: another worker may end it at once.
            armed.fires = true;
            due.store(NEVER, Ordering::SeqCst);
            drop(armed);
            if !begin(shard as u32) {
                self.fired(shard as u32);
            }
        }
        self.alarm.lower(next);
    }

    /// A worker has taken [`Ready::Timers`], and fired what was due.
    pub(crate) fn heard(&self) {
        self.alarm.rings.store(false, Ordering::SeqCst);
        self.alarm.changed.notify_one();
    }

    /// Takes a key of `shard` that is due at `now`.
    pub(crate) fn pop(&self, shard: u32, now: Nanos) -> Option<u64> {
        let mut armed = lock(&self.shards[shard as usize]);
        armed.order.first().filter(|(when, _)| *when <= now)?;
        let (_, key) = armed.order.pop_first()?;
        armed.times.remove(&key);
        Some(key)
    }

    /// The event of `shard` has ended, whatever it has handled.
    pub(crate) fn fired(&self, shard: u32) {
        let mut armed = lock(&self.shards[shard as usize]);
        armed.fires = false;
        self.publish(shard, &armed);
    }

    /// Makes the earliest time of `shard` known, unless its event is under way: the end of that
    /// does.
    fn publish(&self, shard: u32, armed: &Armed) {
        if armed.fires {
            return;
        }
        let first = armed.order.first().map_or(NEVER, |(when, _)| when.get());
        self.due[shard as usize].store(first, Ordering::SeqCst);
        self.alarm.lower(first);
    }
}

impl Alarm {
    /// Makes known that a timer is due at `time`.
    fn lower(&self, time: u64) {
        self.next.fetch_min(time, Ordering::SeqCst);
        if time < self.waits_until.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Wakes a worker whenever a timer is due, until [`Timers::stop`].
    pub(crate) async fn ring(self: Arc<Alarm>, outside: Arc<Outside>) {
        while !self.stopped.load(Ordering::Relaxed) {
            let next = self.next.load(Ordering::SeqCst);
            let wait = Nanos::new(next).minus(clock::now());
            if wait > Nanos::ZERO {
                self.waits_until.store(next, Ordering::SeqCst);
                if self.next.load(Ordering::SeqCst) >= next {
                    let _ = timeout(wait.into(), self.changed.notified()).await;
                }
                continue;
            }
            self.waits_until.store(0, Ordering::SeqCst);
            if !self.rings.swap(true, Ordering::SeqCst) {
                outside.put(Ready::Timers);
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    /// The keys that fire at `now`, by shard, in their order.
    fn fired(timers: &Timers, now: Nanos) -> Vec<(u32, Vec<u64>)> {
        let mut begun = Vec::new();
        timers.fire(now, |shard| {
            begun.push(shard);
            true
        });
        let keys = |shard| std::iter::from_fn(|| timers.pop(shard, now)).collect();
        begun.into_iter().map(|shard| (shard, keys(shard))).collect()
    }

    // Does each key fire once, at its last time, in the order of the times, and none that was
    // stopped? Method: random calls beside a map.
    #[test]
    fn each_key_fires_once_at_its_last_time() {
        const SHARDS: u32 = 3;
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let (timers, mut model) = (Timers::new(SHARDS as usize), BTreeMap::new());
        let mut now = US(1);
        for _ in 0..20_000 {
            let (shard, key) = (random.random_range(0..SHARDS), random.random_range(0..20));
            if random.random_bool(0.7) {
                let when = random.random_bool(0.8).then(|| now.plus(US(random.random_range(0..50))));
                assert!(timers.set(shard, key, when));
                match when {
                    Some(when) => _ = model.insert((shard, key), when),
                    None => _ = model.remove(&(shard, key)),
                }
                continue;
            }
            now = now.plus(US(random.random_range(0..10)));
            let is_due = model.values().any(|when| *when <= now);
            assert!(!is_due || timers.is_due(now), "no timer is lost");
            let mut seen = 0;
            for (shard, keys) in fired(&timers, now) {
                let times: Vec<_> = keys.iter().map(|key| model.remove(&(shard, *key)).expect("it is armed")).collect();
                assert!(times.is_sorted() && times.iter().all(|when| *when <= now), "{times:?} at {now}");
                seen += keys.len();
                timers.fired(shard);
            }
            assert!(seen > 0 || !is_due);
            assert!(model.values().all(|when| *when > now), "all that is due fires");
            assert!(!timers.is_due(now), "it waits for the next one");
        }
    }

    // Has a shard one event at a time, which takes what is due by then? Does what comes meanwhile
    // fire after it, and what had no packet, later?
    #[test]
    fn a_shard_has_one_event_at_a_time() {
        let timers = Timers::new(2);
        timers.set(1, 5, Some(US(10)));
        timers.fire(US(10), |_| false);
        assert!(timers.is_due(US(10)), "there was no packet");
        let mut begun = 0;
        timers.fire(US(10), |_| {
            begun += 1;
            true
        });
        timers.set(1, 6, Some(US(11)));
        timers.fire(US(12), |_| panic!("one is under way"));
        assert_eq!((begun, timers.pop(1, US(10)), timers.pop(1, US(10))), (1, Some(5), None));
        timers.fired(1);
        assert_eq!(fired(&timers, US(12)), [(1, vec![6])]);
        timers.fired(1);
        timers.set(0, 1, Some(US(20)));
        timers.stop();
        assert!(!timers.is_due(US(30)));
        timers.fire(US(30), |_| panic!("it has stopped"));
    }

    // Does the alarm hear of each next time, also of one that a busy worker finds while the alarm
    // looks? Method: a worker that is now busy, now asleep fires timers that are armed anew.
    #[test]
    fn the_alarm_rings_each_time() {
        let (timers, outside, end) = (Timers::new(64), Arc::new(Outside::new(2)), Arc::new(Notify::new()));
        let (alarm, heard, ended) = (timers.alarm().clone(), Arc::clone(&outside), Arc::clone(&end));
        let ringing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! { () = alarm.ring(heard) => {} () = ended.notified() => {} }
            });
        });
        let arm = |shard: u32| timers.set(shard, 0, Some(clock::now().plus(US(u64::from(shard) * 7))));
        (0..64).for_each(|shard| _ = arm(shard));
        let (give_up_at, mut fired) = (clock::now().plus(Nanos::from_secs(60)), 0);
        while fired < 20_000 {
            // Asleep each second thousand, until it is woken.
            let (is_asleep, is_woken) = (fired / 1_000 % 2 == 1, outside.next().is_some());
            let goes = is_woken || !is_asleep && timers.is_due(clock::now());
            assert!(clock::now() < give_up_at, "the alarm does not ring after {fired}");
            if !goes {
                std::thread::yield_now();
                continue;
            }
            let mut begun = Vec::new();
            timers.fire(clock::now(), |shard| {
                begun.push(shard);
                true
            });
            if is_woken {
                timers.heard();
            }
            for shard in begun {
                fired += usize::from(timers.pop(shard, clock::now()).is_some());
                arm(shard);
                timers.fired(shard);
            }
        }
        end.notify_one();
        ringing.join().expect("no panic");
    }

    #[test]
    fn a_shard_has_a_bound() {
        let timers = Timers::new(1);
        let fits = (0..=TIMERS_MAX as u64).filter(|key| timers.set(0, *key, Some(US(1)))).count();
        assert_eq!(fits, TIMERS_MAX);
        assert!(timers.set(0, 3, Some(US(2))), "a key that is there moves");
        assert!(timers.set(0, 4, None) && timers.set(0, TIMERS_MAX as u64, Some(US(1))), "one goes, one comes");
    }
}
