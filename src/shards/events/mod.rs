//! Events: what shards get besides datagrams. These are timers that are due, messages, and the
//! notices that the server starts and stops.
//!
//! One event delivers all that is due for a shard. It waits for its turn in the shard as a request
//! does, and takes what is due when it begins. So a timer that its shard has stopped or moved in
//! the meantime does not fire.
//!
//! Each shard keeps the keys of its timers in the order of their times. Shards that have messages
//! are in the queue `listed`. Busy workers check [`Events::is_due`] in each turn. If all workers
//! sleep, [`Events::ring`] wakes one for a timer, and [`Events::tell`] wakes one for a message.
//!
//! A timer that is due fires only once the engine [allows](Events::allow) its time: datagrams that
//! came before it go first. Until then, the alarm wakes a worker each millisecond.
//!
//! No timer is lost. A thread that arms a timer writes its time first to `due`, then to `next`. A
//! worker that fires timers, and the alarm, first reset `next`, then read `due`. So they see the
//! new time in `due`, or the time remains in `next`. The alarm writes `waits_until` before it reads
//! `next` again, and a thread that lowers `next` reads `waits_until` afterwards. So the alarm sees
//! the new time, or the thread notifies it.
//!
//! No message is lost. A thread first lists the shard, then reads `rings`. A worker that takes
//! [`Ready::Events`] first clears `rings`, then takes the listed shards. So the worker sees the
//! shard, or the thread wakes a worker again.

mod alarm;
mod due;
mod handed_over;

use super::begun::BegunRequests;
use crate::runtime::continuation::{Outside, Ready, lock};
use crate::time::{Nanos, clock};
use alarm::Alarm;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
pub(crate) use due::Due;
use due::ShardEvents;
use handed_over::Parts;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::timeout;

/// The most keys of one shard; they take 1 MB of memory.
const TIMERS_MAX: usize = 1 << 14;

/// The most messages that wait for one shard: as many as it handles in a few turns.
pub(super) const MESSAGES_MAX: usize = 256;

/// The time of a timer that is not armed.
const NEVER: u64 = u64::MAX;

/// The timers and messages of all shards of one server.
pub(crate) struct Events {
    shards: Box<[CachePadded<Mutex<ShardEvents>>]>,
    /// For each shard the time of its earliest timer, in ns; [`NEVER`] while an event of the shard
    /// is in progress.
    due: Box<[AtomicU64]>,
    /// The shards that have messages and no event in progress; each at most once.
    listed: ArrayQueue<u32>,
    /// The shard from which [`Events::fire`] goes through the timers: the first one for which there
    /// was no packet.
    // Ordering: relaxed. It decides about the order only.
    first: AtomicUsize,
    /// Timers up to this time, in ns, may fire.
    allowed: AtomicU64,
    alarm: Alarm,
    /// The requests that shards have begun.
    pub(super) begun: BegunRequests,
    /// The queue by which workers are woken.
    outside: Arc<Outside>,
    /// Whether shards get no more events.
    closed: AtomicBool,
    handed_over: Mutex<Parts>,
}

impl Events {
    /// No timers and messages yet, for this number of shards, which may begin so many requests at a
    /// time. `outside` is the queue by which workers are woken.
    pub(crate) fn new(shards: usize, begun: usize, outside: &Arc<Outside>) -> Events {
        Events {
            shards: (0..shards).map(|_| CachePadded::default()).collect(),
            due: (0..shards).map(|_| AtomicU64::new(NEVER)).collect(),
            listed: ArrayQueue::new(shards.max(1)),
            first: AtomicUsize::new(0),
            allowed: AtomicU64::new(NEVER),
            alarm: Alarm::new(),
            begun: BegunRequests::new(begun),
            outside: Arc::clone(outside),
            closed: AtomicBool::new(false),
            handed_over: Mutex::default(),
        }
    }

    /// Sets the timer `key` of `shard` to `when`, instead of its earlier time; `None` stops it.
    /// Returns false if the shard has no room for the key.
    pub(crate) fn set(&self, shard: u32, key: u64, when: Option<Nanos>) -> bool {
        let mut own = lock(&self.shards[shard as usize]);
        match (own.times.remove(&key), when) {
            (Some(before), _) => _ = own.order.remove(&(before, key)),
            (None, Some(_)) if own.times.len() >= TIMERS_MAX => return false,
            _ => {}
        }
        if let Some(when) = when {
            own.times.insert(key, when);
            own.order.insert((when, key));
        }
        self.publish(shard, &mut own);
        true
    }

    /// The number of the shard that others call `shard`.
    pub(super) fn number(&self, shard: usize) -> u32 {
        (shard % self.shards.len()) as u32
    }

    /// Sends `message` to `shard`, modulo the number of shards. Gives the message back if too many
    /// wait there, or if the server stops.
    pub(crate) fn tell<M: Send + 'static>(&self, shard: usize, message: M) -> Result<(), M> {
        let shard = self.number(shard);
        let own = lock(&self.shards[shard as usize]);
        if own.messages.len() >= MESSAGES_MAX || self.is_closed() {
            return Err(message);
        }
        self.put(shard, own, Box::new(message));
        Ok(())
    }

    /// Wakes `shard`, modulo the number of shards, unless it is to hear of a wake already.
    pub(crate) fn wake_shard(&self, shard: usize) {
        let shard = self.number(shard);
        let mut own = lock(&self.shards[shard as usize]);
        if !std::mem::replace(&mut own.woken, true) {
            self.list(shard, own);
        }
    }

    /// Sends `shard` the result of work that it has begun, even if too many messages wait. The
    /// number of results is bounded, because the number of begun pieces of work is.
    pub(crate) fn report(&self, shard: u32, result: Box<dyn Any + Send>) {
        self.put(shard, lock(&self.shards[shard as usize]), result);
    }

    fn put(&self, shard: u32, mut own: MutexGuard<'_, ShardEvents>, message: Box<dyn Any + Send>) {
        own.messages.push_back(message);
        self.list(shard, own);
    }

    /// Lets workers know that something else than a timer is due for `shard`.
    fn list(&self, shard: u32, mut own: MutexGuard<'_, ShardEvents>) {
        self.publish(shard, &mut own);
        drop(own);
        self.wake();
    }

    /// Wakes a worker, which then looks what waits here.
    pub(super) fn wake(&self) {
        self.alarm.ring_now(&self.outside);
    }

    /// Whether a timer or a message may be due at `now`, or a begun request waits.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        // Ordering: relaxed, because the values are hints; `fire` reads them again.
        let timers = self.alarm.next.load(Ordering::Relaxed) <= now.get();
        let due = timers && !self.alarm.stopped.load(Ordering::Relaxed) || !self.listed.is_empty() || self.has_begun();
        due && !self.closed.load(Ordering::Relaxed)
    }

    /// Lets each shard get the notice that the server starts, before anything else. Call this
    /// before the workers run.
    pub(crate) fn start(&self) {
        for (number, shard) in self.shards.iter().enumerate() {
            let mut own = lock(shard);
            own.starting = true;
            self.publish(number as u32, &mut own);
        }
    }

    /// Whether `shard` has not been told yet that the server starts. If so, it is what
    /// [`Events::next`] returns.
    pub(crate) fn is_to_start(&self, shard: u32) -> bool {
        lock(&self.shards[shard as usize]).starting
    }

    /// Number of shards that have messages and no event in progress.
    pub(crate) fn listed(&self) -> usize {
        self.listed.len()
    }

    /// Stops all timers, for a server that drains. If `hear`, each shard gets the notice that the
    /// server stops.
    pub(crate) fn stop(&self, hear: bool) {
        self.alarm.stopped.store(true, Ordering::Relaxed);
        if !hear {
            return;
        }
        for (number, shard) in self.shards.iter().enumerate() {
            let mut own = lock(shard);
            own.stopping = true;
            self.publish(number as u32, &mut own);
        }
        self.wake();
    }

    /// Whether the server drains, so that nothing new begins.
    pub(super) fn stops(&self) -> bool {
        self.alarm.stopped.load(Ordering::Relaxed)
    }

    /// Whether shards get no more events.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ends the delivery of events, for a server whose drain is over, and drops begun requests that
    /// no worker has taken.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.begun.clear();
    }

    /// A time that is not later than the earliest timer.
    pub(crate) fn next_timer(&self) -> Nanos {
        Nanos::new(self.alarm.next.load(Ordering::Relaxed))
    }

    /// Lets timers fire up to this time, and no others. To be called before [`Events::fire`].
    pub(crate) fn allow(&self, until: Nanos) {
        // Ordering: relaxed. A worker that reads an earlier value leaves a timer to the next look.
        self.allowed.store(until.get(), Ordering::Relaxed);
    }

    /// Calls `begin` for each shard for which something is due at `now` and [allowed], unless an
    /// event of the shard is in progress. The arguments are the shard, and whether messages wait
    /// there. `begin` returns whether it has begun an event; if so, call [`Events::fired`] at the
    /// event's end. If not, the others wait for the next call.
    ///
    /// [allowed]: Events::allow
    pub(crate) fn fire(&self, now: Nanos, mut begin: impl FnMut(u32, bool) -> bool) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        for _ in 0..self.listed.len() {
            let Some(shard) = self.listed.pop() else { break };
            let mut own = lock(&self.shards[shard as usize]);
            own.is_listed = false;
            if !self.fire_one(shard, own, |shard| begin(shard, true)) {
                return;
            }
        }
        if self.alarm.next.load(Ordering::Relaxed) > now.get() || self.alarm.stopped.load(Ordering::Relaxed) {
            return;
        }
        let until = now.min(Nanos::new(self.allowed.load(Ordering::Relaxed)));
        if self.alarm.next.load(Ordering::Relaxed) > until.get() {
            return self.alarm.hold(now);
        }
        // Ordering: see the head of this file.
        self.alarm.next.swap(NEVER, Ordering::SeqCst);
        let (mut next, first) = (NEVER, self.first.load(Ordering::Relaxed));
        for shard in (first..self.due.len()).chain(0..first) {
            let due = self.due[shard].load(Ordering::SeqCst);
            if due > until.get() {
                next = next.min(due);
            } else if !self.fire_one(shard as u32, lock(&self.shards[shard]), |shard| begin(shard, false)) {
                // This function is called again in each turn of a worker. While there is no packet,
                // it must not go through all shards each time.
                self.first.store(shard, Ordering::Relaxed);
                next = next.min(now.get());
                break;
            }
        }
        if next <= now.get() {
            self.alarm.hold(now);
        } else {
            self.alarm.release();
        }
        self.alarm.lower(next);
    }

    /// The earliest time of all timers. It may be later than `next`, which is set to it.
    fn earliest(&self) -> Nanos {
        // Ordering: see the head of this file.
        self.alarm.next.swap(NEVER, Ordering::SeqCst);
        let earliest = self.due.iter().map(|due| due.load(Ordering::SeqCst)).min().unwrap_or(NEVER);
        self.alarm.lower(earliest);
        Nanos::new(earliest)
    }

    /// Wakes a worker whenever a timer is due, until [`Events::stop`].
    pub(crate) async fn ring(self: Arc<Events>) {
        let Alarm { waits_until, changed, stopped, .. } = &self.alarm;
        while !stopped.load(Ordering::Relaxed) {
            let (until, now) = (self.alarm.rings_at(), clock::now());
            let wait = Nanos::new(until).minus(now);
            if wait > Nanos::ZERO {
                waits_until.store(until, Ordering::SeqCst);
                if self.alarm.rings_at() >= until {
                    let _ = timeout(wait.into(), changed.notified()).await;
                }
                continue;
            }
            waits_until.store(0, Ordering::SeqCst);
            // Most timers of connections are moved before their time; no worker wakes for these.
            if self.earliest() <= now {
                self.wake();
                changed.notified().await;
            }
        }
    }

    /// Calls `begin` for `shard`, unless an event of it is in progress. Returns false if `begin`
    /// began no event.
    fn fire_one(&self, shard: u32, mut own: MutexGuard<'_, ShardEvents>, begin: impl FnOnce(u32) -> bool) -> bool {
        if own.fires {
            return true;
        }
        // Set before the event begins, because another worker may end the event at once.
        own.fires = true;
        self.due[shard as usize].store(NEVER, Ordering::SeqCst);
        drop(own);
        let begun = begin(shard);
        if !begun {
            self.fired(shard);
        }
        begun
    }

    /// Call this after taking [`Ready::Events`], and before [`Events::fire`].
    pub(crate) fn hear(&self) {
        self.alarm.rings.store(false, Ordering::SeqCst);
    }

    /// Call this after [`Events::fire`]. If the alarm waits for that, it then waits for the next
    /// timer.
    pub(crate) fn heard(&self) {
        // Ordering: the alarm writes this before it reads `rings`, which the worker has cleared.
        if self.alarm.waits_until.load(Ordering::SeqCst) == 0 {
            self.alarm.changed.notify_one();
        }
    }

    /// Takes the next thing that is due for `shard` at `now`: the notice of the start, a wake,
    /// messages, then timers. Once timers are stopped, the notice of the stop comes last.
    pub(crate) fn next(&self, shard: u32, now: Nanos) -> Option<Due> {
        let mut own = lock(&self.shards[shard as usize]);
        if std::mem::take(&mut own.starting) {
            return Some(Due::Starting);
        }
        if std::mem::take(&mut own.woken) {
            return Some(Due::Woken);
        }
        if let Some(message) = own.messages.pop_front() {
            return Some(Due::Message(message));
        }
        if !self.stops() {
            let now = now.min(Nanos::new(self.allowed.load(Ordering::Relaxed)));
            own.order.first().filter(|(when, _)| *when <= now)?;
            let (when, key) = own.order.pop_first()?;
            own.times.remove(&key);
            return Some(Due::Timer(key, when));
        }
        std::mem::take(&mut own.stopping).then_some(Due::Stopping)
    }

    /// Notes that the event of `shard` has ended.
    pub(crate) fn fired(&self, shard: u32) {
        let mut own = lock(&self.shards[shard as usize]);
        own.fires = false;
        self.publish(shard, &mut own);
    }

    /// Publishes what is due for `shard`. While an event of the shard is in progress it does
    /// nothing, because the end of the event publishes.
    fn publish(&self, shard: u32, own: &mut ShardEvents) {
        if own.fires {
            return;
        }
        let first = own.order.first().map_or(NEVER, |(when, _)| when.get());
        self.due[shard as usize].store(first, Ordering::SeqCst);
        self.alarm.lower(first);
        if !own.is_listed && (own.starting || own.woken || !own.messages.is_empty() || own.stopping) {
            own.is_listed = true;
            let pushed = self.listed.push(shard);
            debug_assert!(pushed.is_ok(), "there is a place for each shard");
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
