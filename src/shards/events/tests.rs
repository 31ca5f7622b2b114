//! Does each shard get its timers and messages once and in order?

use super::*;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use tokio::sync::Notify;

const US: fn(u64) -> Nanos = Nanos::from_micros;

fn events(shards: usize) -> Events {
    Events::new(shards, 4, &Arc::new(Outside::new(2)))
}

/// The next key of `shard` that is due at `now`.
fn key(events: &Events, shard: u32, now: Nanos) -> Option<u64> {
    events.next(shard, now).map(|due| if let Due::Timer(key, _) = due { key } else { panic!("{due:?}") })
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

// Does each key fire once, at the time that was set last, in the order of the times? Does no
// stopped key fire? Method: random calls, compared with a map.
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

// Has a shard one event at a time, which takes what is due when it begins? Do timers that become
// due meanwhile fire after it? Do those for which there was no packet fire later?
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

// Is state kept only for a successor, and within a bound? Does each shard get its own, and is what
// does not fit counted?
#[test]
fn shards_inherit_what_was_handed_over() {
    let (before, after) = (events(4), events(3));
    assert_eq!(before.hand_over(0, vec![7]), Err(vec![7]), "nobody would get it");
    before.permit_hand_over();
    for (shard, state) in [(2, vec![1, 2]), (0, vec![]), (3, vec![4; 5]), (2, vec![3])] {
        assert_eq!(before.hand_over(shard, state), Ok(()));
    }
    assert!(before.hand_over(1, vec![0; 1 << 26]).is_err());
    let state = before.take_handed_over();
    assert!(before.hand_over(0, vec![7]).is_err(), "it has left");
    assert_eq!(after.inherit(&state, |state| state), 5, "there is no shard 3");
    let inherited = |shard| {
        let Due::Message(message) = after.next(shard, Nanos::ZERO)? else { panic!("no message") };
        message.downcast::<Vec<u8>>().ok().map(|state| *state)
    };
    let all = [0, 1, 2].map(|shard| std::iter::from_fn(|| inherited(shard)).collect::<Vec<_>>());
    assert_eq!(all, [vec![vec![]], vec![], vec![vec![1, 2], vec![3]]]);
    // A predecessor that dies half-way leaves a part.
    assert_eq!(after.inherit(&state[..12], |state| state), 2);
    assert_eq!(after.inherit(&state[..9], |state| state), 9);
}

// Does the alarm learn of each next time, even if a busy worker sets it while the alarm looks?
// Method: a worker that is busy and asleep by turns fires timers, which are armed again each time.
#[test]
fn the_alarm_rings_each_time() {
    let (outside, end) = (Arc::new(Outside::new(2)), Arc::new(Notify::new()));
    let events = Arc::new(Events::new(64, 0, &outside));
    let (alarm, ended) = (Arc::clone(&events), Arc::clone(&end));
    let ringing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! { () = alarm.ring() => {} () = ended.notified() => {} }
        });
    });
    let arm = |shard: u32| events.set(shard, 0, Some(clock::now().plus(US(u64::from(shard) * 7))));
    (0..64).for_each(|shard| _ = arm(shard));
    let (give_up_at, mut fired) = (clock::now().plus(Nanos::from_secs(60)), 0);
    while fired < 20_000 {
        // In every second thousand, the worker sleeps until it is woken.
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

// Does a timer that has moved on need a worker no more, once the alarm has looked?
#[test]
fn the_alarm_finds_the_earliest_time() {
    let events = events(2);
    events.set(0, 1, Some(US(10)));
    events.set(1, 1, Some(US(30)));
    events.set(0, 1, Some(US(20)));
    assert!(events.is_due(US(10)), "a busy worker would look in vain");
    assert_eq!(events.earliest(), US(20));
    assert!(!events.is_due(US(19)) && events.is_due(US(20)));
}

#[test]
fn a_shard_has_a_bound() {
    let events = events(1);
    let fits = (0..=TIMERS_MAX as u64).filter(|key| events.set(0, *key, Some(US(1)))).count();
    assert_eq!(fits, TIMERS_MAX);
    assert!(events.set(0, 3, Some(US(2))), "a key that is there moves");
    assert!(events.set(0, 4, None) && events.set(0, TIMERS_MAX as u64, Some(US(1))), "one goes, one comes");
}

// Does a shard get its messages in order, before its timers, and the notice of the stop last? Has
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
    assert_eq!(begun(US(2)), [(1, true)], "one event for all");
    let half = MESSAGES_MAX as u64 / 2;
    assert!((0..half).eq((0..half).map_while(|_| message(&events, 1))));
    events.tell(1, 1_000_u64).expect("there is room");
    assert_eq!((events.listed(), begun(US(2))), (0, vec![]), "its event is under way");
    events.fired(1);
    assert_eq!(begun(US(2)), [(1, true)]);
    assert!((half..MESSAGES_MAX as u64).chain([1_000]).all(|number| message(&events, 1) == Some(number)));
    assert_eq!(key(&events, 1, US(2)), Some(7));
    events.fired(1);
    events.tell(2, 2_u64).expect("there is room");
    events.set(2, 3, Some(US(1)));
    events.stop(true);
    let kinds = begun(US(2));
    assert_eq!(kinds[0], (2, true));
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert_eq!(message(&events, 2), Some(2));
    (0..4).for_each(|shard| assert!(matches!(events.next(shard, US(2)), Some(Due::Stopping)), "no timer, once"));
    assert!((0..4).all(|shard| events.next(shard, US(2)).is_none()));
    (0..4).for_each(|shard| events.fired(shard));
    events.close();
    assert_eq!((events.tell(0, 1), events.is_due(US(2))), (Err(1), false));
}

// While there are few packets, does a look end at the first shard that gets none, and does the next
// look begin there? So what a look takes does not grow with the number of timers that are due.
#[test]
fn a_look_ends_where_there_is_no_packet() {
    const SHARDS: u32 = 1_000;
    let events = events(SHARDS as usize);
    (0..SHARDS).for_each(|shard| _ = events.set(shard, 0, Some(US(10))));
    let (mut begun, mut refused) = (Vec::new(), 0);
    while begun.len() < SHARDS as usize {
        let packets = begun.len() + 3;
        events.fire(US(10), |shard, _| {
            let fits = begun.len() < packets;
            if fits {
                begun.push(shard);
            } else {
                refused += 1;
            }
            fits
        });
        assert!(events.is_due(US(10)) || begun.len() == SHARDS as usize);
    }
    assert!(begun.iter().copied().eq(0..SHARDS), "in turn: {begun:?}");
    assert_eq!(refused, SHARDS / 3, "once in each look");
}

// Does each shard get the notice of the start once? Does it come before all messages, also before
// one that was there first?
#[test]
fn the_notice_of_the_start_comes_first() {
    let events = events(3);
    events.tell(1, 8_u64).expect("there is room");
    events.start();
    let mut begun = Vec::new();
    // There is one packet.
    events.fire(US(1), |shard, kind| {
        begun.push((shard, kind));
        begun.len() < 2
    });
    assert_eq!((&begun[..], events.listed()), (&[(1, true), (0, true)][..], 2), "the others wait for packets");
    events.tell(1, 9_u64).expect("there is room");
    assert!(events.is_to_start(1) && matches!(events.next(1, US(1)), Some(Due::Starting)) && !events.is_to_start(1));
    assert_eq!([message(&events, 1), message(&events, 1), message(&events, 1)], [Some(8), Some(9), None]);
    events.fired(1);
    events.fire(US(1), |_, _| true);
    for shard in [0, 2] {
        assert!(matches!(events.next(shard, US(1)), Some(Due::Starting)) && events.next(shard, US(1)).is_none());
        events.fired(shard);
    }
    assert!(!events.is_due(US(1)), "once");
}

// While threads send messages to shards, is no message lost, and no worker woken without need?
// Method: a worker that comes only when it is woken.
#[test]
fn each_message_rings_until_a_worker_comes() {
    const EACH: u64 = 20_000;
    let outside = Arc::new(Outside::new(2));
    let events = Events::new(8, 0, &outside);
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
            // After an event, a worker looks again before it sleeps.
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
