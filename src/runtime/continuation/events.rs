//! What shards get beside datagrams: timers that are due, messages, and the news of a stop.
//!
//! A worker makes one event of all that a shard is to get. The event takes its turn in the shard as
//! a request does, and handles what is there by then. So a timer that its shard has stopped or
//! moved meanwhile does not fire.
//!
//! Each shard has its keys in the order of their times. Shards with messages are
//! [`Events::listed`]. Busy workers look at [`Events::is_due`] in each turn. While all of them
//! sleep, [`Alarm::ring`] wakes one for a timer, and [`Events::tell`] for a message.
//!
//! No timer is lost. A thread that arms one writes its time, first to `due`, then to `next`. A
//! worker that fires takes `next` before it reads `due`. So it sees the new time in `due`, or
//! leaves it in `next`. The alarm says until when it waits before it reads `next` again, and a
//! thread that lowers `next` reads that after it. So the alarm sees the new time, or is notified.
//!
//! No message is lost. A thread that lists a shard then looks at `rings`. A worker that takes
//! [`Ready::Events`] first clears `rings`, then takes what is listed. So it sees the shard, or the
//! thread rings anew.

use super::{Outside, Ready, lock};
use crate::fate::ShardEvent;
use crate::time::{Nanos, clock};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use std::any::Any;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Keys of one shard, at most: 1 MB of memory.
pub(crate) const TIMERS_MAX: usize = 1 << 14;

/// Messages that wait for one shard, at most: as many as it handles in some turns.
pub(crate) const MESSAGES_MAX: usize = 256;

/// No timer.
const NEVER: u64 = u64::MAX;

/// What a shard gets beside datagrams.
#[derive(Debug)]
pub(crate) enum Due {
    /// The time of this key has come.
    Timer(u64),
    /// A message to the shard.
    Message(Box<dyn Any + Send>),
    /// The server stops.
    Stopping,
}

/// The events of the shards of one server.
pub(crate) struct Events {
    shards: Box<[CachePadded<Mutex<Own>>]>,
    /// For each shard the time of its earliest key, in ns; [`NEVER`] while its event is under way.
    due: Box<[AtomicU64]>,
    /// The shards that have messages and no event under way. Each is there once at most.
    listed: ArrayQueue<u32>,
    alarm: Arc<Alarm>,
    outside: Arc<Outside>,
    /// Whether shards get nothing any more.
    closed: AtomicBool,
}

/// What one shard is to get.
#[derive(Default)]
struct Own {
    times: HashMap<u64, Nanos>,
    /// The same, in the order of the times.
    order: BTreeSet<(Nanos, u64)>,
    messages: VecDeque<Box<dyn Any + Send>>,
    stopping: bool,
    /// Whether an event that handles what is due is under way.
    fires: bool,
    is_listed: bool,
}

/// What wakes a worker once a timer is due.
pub(crate) struct Alarm {
    /// The earliest time in any shard, in ns, or an earlier one.
    next: CachePadded<AtomicU64>,
    /// Until when the alarm waits, in ns; 0 while it waits for a worker.
    waits_until: AtomicU64,
    /// Notified when `next` is before that, or when a worker has come.
    changed: Notify,
    /// Whether [`Ready::Events`] is out, and no worker has taken it.
    rings: AtomicBool,
    /// Whether timers fire no more.
    stopped: AtomicBool,
}

impl Events {
    /// Nothing yet, for so many shards. `outside` is how a worker is woken.
    pub(crate) fn new(shards: usize, outside: &Arc<Outside>) -> Events {
        Events {
            shards: (0..shards).map(|_| CachePadded::default()).collect(),
            due: (0..shards).map(|_| AtomicU64::new(NEVER)).collect(),
            listed: ArrayQueue::new(shards.max(1)),
            alarm: Arc::new(Alarm {
                next: CachePadded::new(AtomicU64::new(NEVER)),
                waits_until: AtomicU64::new(0),
                changed: Notify::new(),
                rings: AtomicBool::new(false),
                stopped: AtomicBool::new(false),
            }),
            outside: Arc::clone(outside),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn alarm(&self) -> &Arc<Alarm> {
        &self.alarm
    }

    /// Lets `key` of `shard` fire at `when`, and not at the time that it had; `None` stops it.
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

    /// Sends `message` to `shard`, modulo the number of shards. Gives it back if too many wait
    /// there or the server stops.
    pub(crate) fn tell<M: Send + 'static>(&self, shard: usize, message: M) -> Result<(), M> {
        let shard = shard % self.shards.len();
        let own = lock(&self.shards[shard]);
        if own.messages.len() >= MESSAGES_MAX || self.closed.load(Ordering::SeqCst) {
            return Err(message);
        }
        self.put(shard as u32, own, Box::new(message));
        Ok(())
    }

    /// Sends `shard` the result of work that it has begun, even if too many messages wait. What is
    /// begun has a bound of its own.
    pub(crate) fn report(&self, shard: u32, result: Box<dyn Any + Send>) {
        self.put(shard, lock(&self.shards[shard as usize]), result);
    }

    fn put(&self, shard: u32, mut own: MutexGuard<'_, Own>, message: Box<dyn Any + Send>) {
        own.messages.push_back(message);
        self.publish(shard, &mut own);
        drop(own);
        self.alarm.ring_now(&self.outside);
    }

    /// Whether something may be due at `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        // Ordering: relaxed, hints; `fire` reads them again.
        let timers = self.alarm.next.load(Ordering::Relaxed) <= now.get();
        let due = timers && !self.alarm.stopped.load(Ordering::Relaxed) || !self.listed.is_empty();
        due && !self.closed.load(Ordering::Relaxed)
    }

    /// Number of shards to which messages are on their way.
    pub(crate) fn listed(&self) -> usize {
        self.listed.len()
    }

    /// Lets no timer fire any more: for a server that drains. If shards `hear` of it, tells each.
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
        self.alarm.ring_now(&self.outside);
    }

    /// Gives shards nothing any more: for a server whose drain is over.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Calls `begin` for each shard that is to get something at `now` and has no event under way.
    /// It returns whether it has begun one, whose end [`Events::fired`] must tell.
    pub(crate) fn fire(&self, now: Nanos, mut begin: impl FnMut(u32, ShardEvent) -> bool) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        for _ in 0..self.listed.len() {
            let Some(shard) = self.listed.pop() else { break };
            let mut own = lock(&self.shards[shard as usize]);
            own.is_listed = false;
            let kind = if own.messages.is_empty() { ShardEvent::Stopping } else { ShardEvent::Message };
            if !self.fire_one(shard, own, |shard| begin(shard, kind)) {
                return;
            }
        }
        if self.alarm.next.load(Ordering::Relaxed) > now.get() || self.alarm.stopped.load(Ordering::Relaxed) {
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
            self.fire_one(shard as u32, lock(&self.shards[shard]), |shard| begin(shard, ShardEvent::Timer));
        }
        self.alarm.lower(next);
    }

    /// Calls `begin` for `shard`, unless its event is under way. Returns false if it began none.
    fn fire_one(&self, shard: u32, mut own: MutexGuard<'_, Own>, begin: impl FnOnce(u32) -> bool) -> bool {
        if own.fires {
            return true;
        }
        // Before it begins: another worker may end it at once.
        own.fires = true;
        self.due[shard as usize].store(NEVER, Ordering::SeqCst);
        drop(own);
        let begun = begin(shard);
        if !begun {
            self.fired(shard);
        }
        begun
    }

    /// A worker has taken [`Ready::Events`], and will call [`Events::fire`].
    pub(crate) fn hear(&self) {
        self.alarm.rings.store(false, Ordering::SeqCst);
    }

    /// It has called it.
    pub(crate) fn heard(&self) {
        self.alarm.changed.notify_one();
    }

    /// Takes what `shard` is to get at `now`: messages first, the news of a stop last.
    pub(crate) fn next(&self, shard: u32, now: Nanos) -> Option<Due> {
        let mut own = lock(&self.shards[shard as usize]);
        if let Some(message) = own.messages.pop_front() {
            return Some(Due::Message(message));
        }
        if !self.alarm.stopped.load(Ordering::Relaxed) {
            own.order.first().filter(|(when, _)| *when <= now)?;
            let (_, key) = own.order.pop_first()?;
            own.times.remove(&key);
            return Some(Due::Timer(key));
        }
        std::mem::take(&mut own.stopping).then_some(Due::Stopping)
    }

    /// The event of `shard` has ended, whatever it has handled.
    pub(crate) fn fired(&self, shard: u32) {
        let mut own = lock(&self.shards[shard as usize]);
        own.fires = false;
        self.publish(shard, &mut own);
    }

    /// Makes known what `shard` is to get, unless its event is under way: the end of that does.
    fn publish(&self, shard: u32, own: &mut Own) {
        if own.fires {
            return;
        }
        let first = own.order.first().map_or(NEVER, |(when, _)| when.get());
        self.due[shard as usize].store(first, Ordering::SeqCst);
        self.alarm.lower(first);
        if !own.is_listed && (!own.messages.is_empty() || own.stopping) {
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

impl Alarm {
    /// Makes known that a timer is due at `time`.
    fn lower(&self, time: u64) {
        self.next.fetch_min(time, Ordering::SeqCst);
        if time < self.waits_until.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Wakes a worker, unless one is about to come.
    fn ring_now(&self, outside: &Outside) {
        if !self.rings.swap(true, Ordering::SeqCst) {
            outside.put(Ready::Events);
        }
    }

    /// Wakes a worker whenever a timer is due, until [`Events::stop`].
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
            self.ring_now(&outside);
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

    fn events(shards: usize) -> Events {
        Events::new(shards, &Arc::new(Outside::new(2)))
    }

    /// The next key of `shard` that is due at `now`.
    fn key(events: &Events, shard: u32, now: Nanos) -> Option<u64> {
        events.next(shard, now).map(|due| if let Due::Timer(key) = due { key } else { panic!("{due:?}") })
    }

    /// The next message of `shard`.
    fn message(events: &Events, shard: u32) -> Option<u64> {
        let Due::Message(message) = events.next(shard, Nanos::ZERO)? else { panic!("no message") };
        Some(*message.downcast().expect("a number"))
    }

    /// The keys that fire at `now`, by shard, in their order.
    fn fired(events: &Events, now: Nanos) -> Vec<(u32, Vec<u64>)> {
        let mut begun = Vec::new();
        events.fire(now, |shard, _| {
            begun.push(shard);
            true
        });
        let keys = |shard| std::iter::from_fn(|| key(events, shard, now)).collect();
        begun.into_iter().map(|shard| (shard, keys(shard))).collect()
    }

    // Does each key fire once, at its last time, in the order of the times, and none that was
    // stopped? Method: random calls beside a map.
    #[test]
    fn each_key_fires_once_at_its_last_time() {
        const SHARDS: u32 = 3;
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let (events, mut model) = (events(SHARDS as usize), BTreeMap::new());
        let mut now = US(1);
        for _ in 0..20_000 {
            let (shard, key) = (random.random_range(0..SHARDS), random.random_range(0..20));
            if random.random_bool(0.7) {
                let when = random.random_bool(0.8).then(|| now.plus(US(random.random_range(0..50))));
                assert!(events.set(shard, key, when));
                match when {
                    Some(when) => _ = model.insert((shard, key), when),
                    None => _ = model.remove(&(shard, key)),
                }
                continue;
            }
            now = now.plus(US(random.random_range(0..10)));
            let is_due = model.values().any(|when| *when <= now);
            assert!(!is_due || events.is_due(now), "no timer is lost");
            let mut seen = 0;
            for (shard, keys) in fired(&events, now) {
                let times: Vec<_> = keys.iter().map(|key| model.remove(&(shard, *key)).expect("it is armed")).collect();
                assert!(times.is_sorted() && times.iter().all(|when| *when <= now), "{times:?} at {now}");
                seen += keys.len();
                events.fired(shard);
            }
            assert!(seen > 0 || !is_due);
            assert!(model.values().all(|when| *when > now), "all that is due fires");
            assert!(!events.is_due(now), "it waits for the next one");
        }
    }

    // Has a shard one event at a time, which takes what is due by then? Does what comes meanwhile
    // fire after it, and what had no packet, later?
    #[test]
    fn a_shard_has_one_event_at_a_time() {
        let events = events(2);
        events.set(1, 5, Some(US(10)));
        events.fire(US(10), |_, _| false);
        assert!(events.is_due(US(10)), "there was no packet");
        let mut begun = 0;
        events.fire(US(10), |_, _| {
            begun += 1;
            true
        });
        events.set(1, 6, Some(US(11)));
        events.fire(US(12), |_, _| panic!("one is under way"));
        assert_eq!((begun, key(&events, 1, US(10)), key(&events, 1, US(10))), (1, Some(5), None));
        events.fired(1);
        assert_eq!(fired(&events, US(12)), [(1, vec![6])]);
        events.fired(1);
        events.set(0, 1, Some(US(20)));
        events.stop(false);
        assert!(!events.is_due(US(30)));
        events.fire(US(30), |_, _| panic!("it has stopped"));
    }

    // Does the alarm hear of each next time, also of one that a busy worker finds while the alarm
    // looks? Method: a worker that is now busy, now asleep fires events that are armed anew.
    #[test]
    fn the_alarm_rings_each_time() {
        let (outside, end) = (Arc::new(Outside::new(2)), Arc::new(Notify::new()));
        let events = Events::new(64, &outside);
        let (alarm, heard, ended) = (events.alarm().clone(), Arc::clone(&outside), Arc::clone(&end));
        let ringing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! { () = alarm.ring(heard) => {} () = ended.notified() => {} }
            });
        });
        let arm = |shard: u32| events.set(shard, 0, Some(clock::now().plus(US(u64::from(shard) * 7))));
        (0..64).for_each(|shard| _ = arm(shard));
        let (give_up_at, mut fired) = (clock::now().plus(Nanos::from_secs(60)), 0);
        while fired < 20_000 {
            // Asleep each second thousand, until it is woken.
            let (is_asleep, is_woken) = (fired / 1_000 % 2 == 1, outside.next().is_some());
            let goes = is_woken || !is_asleep && events.is_due(clock::now());
            assert!(clock::now() < give_up_at, "the alarm does not ring after {fired}");
            if !goes {
                std::thread::yield_now();
                continue;
            }
            let mut begun = Vec::new();
            if is_woken {
                events.hear();
            }
            events.fire(clock::now(), |shard, _| {
                begun.push(shard);
                true
            });
            if is_woken {
                events.heard();
            }
            for shard in begun {
                fired += usize::from(key(&events, shard, clock::now()).is_some());
                arm(shard);
                events.fired(shard);
            }
        }
        end.notify_one();
        ringing.join().expect("no panic");
    }

    #[test]
    fn a_shard_has_a_bound() {
        let events = events(1);
        let fits = (0..=TIMERS_MAX as u64).filter(|key| events.set(0, *key, Some(US(1)))).count();
        assert_eq!(fits, TIMERS_MAX);
        assert!(events.set(0, 3, Some(US(2))), "a key that is there moves");
        assert!(events.set(0, 4, None) && events.set(0, TIMERS_MAX as u64, Some(US(1))), "one goes, one comes");
    }

    // Does a shard get its messages in order, before its timers, and the news of a stop last? Has
    // it one event at a time, and a bound?
    #[test]
    fn messages_come_in_order_and_before_the_news_of_a_stop() {
        let events = events(4);
        let begun = |now| {
            let mut begun = Vec::new();
            events.fire(now, |shard, kind| {
                begun.push((shard, kind));
                true
            });
            begun
        };
        (0..MESSAGES_MAX as u64).for_each(|number| events.tell(5, number).expect("there is room"));
        assert_eq!(events.tell(1, 9), Err(9), "5 is 1 of 4");
        events.set(1, 7, Some(US(1)));
        assert!(events.is_due(Nanos::ZERO) && events.listed() == 1);
        assert_eq!(begun(US(2)), [(1, ShardEvent::Message)], "one event for all");
        let half = MESSAGES_MAX as u64 / 2;
        assert!((0..half).eq((0..half).map_while(|_| message(&events, 1))));
        events.tell(1, 1_000_u64).expect("there is room");
        assert_eq!((events.listed(), begun(US(2))), (0, vec![]), "its event is under way");
        events.fired(1);
        assert_eq!(begun(US(2)), [(1, ShardEvent::Message)]);
        assert!((half..MESSAGES_MAX as u64).chain([1_000]).all(|number| message(&events, 1) == Some(number)));
        assert_eq!(key(&events, 1, US(2)), Some(7));
        events.fired(1);
        events.tell(2, 2_u64).expect("there is room");
        events.set(2, 3, Some(US(1)));
        events.stop(true);
        let kinds = begun(US(2));
        assert_eq!(kinds[0], (2, ShardEvent::Message));
        assert!(kinds[1..].iter().map(|(_, kind)| *kind).eq([ShardEvent::Stopping; 3]), "{kinds:?}");
        assert_eq!(message(&events, 2), Some(2));
        (0..4).for_each(|shard| assert!(matches!(events.next(shard, US(2)), Some(Due::Stopping)), "no timer, once"));
        assert!((0..4).all(|shard| events.next(shard, US(2)).is_none()));
        (0..4).for_each(|shard| events.fired(shard));
        events.close();
        assert_eq!((events.tell(0, 1), events.is_due(US(2))), (Err(1), false));
    }

    // Is no message lost, and no worker rung without need, while threads tell shards? Method: a
    // worker that only comes when it is rung.
    #[test]
    fn each_message_rings_until_a_worker_comes() {
        const EACH: u64 = 20_000;
        let outside = Arc::new(Outside::new(2));
        let events = Events::new(8, &outside);
        let give_up_at = clock::now().plus(Nanos::from_secs(60));
        std::thread::scope(|scope| {
            for thread in 0..2_usize {
                let events = &events;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let shard = thread * 4 + number as usize % 4;
                        while events.tell(shard, number).is_err() {
                            assert!(clock::now() < give_up_at, "nobody comes");
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let (mut next, mut looks) = ([0, 1, 2, 3, 0, 1, 2, 3], false);
            while next.iter().any(|next| *next < EACH) {
                assert!(clock::now() < give_up_at, "no ring after {next:?}");
                // A worker that has ended an event looks again before it sleeps.
                let is_rung = outside.next().is_some();
                if !is_rung && !looks {
                    std::thread::yield_now();
                    continue;
                }
                if is_rung {
                    events.hear();
                }
                let mut begun = Vec::new();
                events.fire(clock::now(), |shard, _| {
                    begun.push(shard);
                    true
                });
                for &shard in &begun {
                    while let Some(number) = message(&events, shard) {
                        assert_eq!(number, next[shard as usize], "in order");
                        next[shard as usize] += 4;
                    }
                    events.fired(shard);
                }
                looks = !begun.is_empty();
            }
        });
    }
}
