//! Do the shards of a service get their datagrams, timers and messages one at a time, in order, and
//! each once? Does each hear of the start before all that, and of the stop? Does each request that
//! a shard begins end once, and is the shard told how it ended? Is nothing lost before a stop? Does
//! the state that a shard hands over come to the successor's shard? Method: a service and its
//! successor in virtual time, beside a model of what is due. Requests, policies, a hand-over and a
//! stop are drawn from a seed.

use super::answers::{Answers, answer, of_act};
use super::scenario::{Event, Scenario};
use super::server::explore_service;
use crate::fate::Fate;
use crate::handler::{self, Admitted, Arrival, Carried, Out, Rejected, Request, Service, checkpoint};
use crate::sched::overload::WaitLimits;
use crate::time::Nanos;
use crate::time::clock::{self, virtual_time};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

const SHARDS: usize = 4;
const SEEDS: u64 = 300;
const US: fn(u64) -> Nanos = Nanos::from_micros;

/// A mistake that the service, or what it is told, makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// All shards have one state.
    Confused,
    /// A timer fires that is not armed.
    Unarmed,
    /// A message is not sent.
    Untold,
    /// Two messages change places.
    Swapped,
    /// A shard is woken for nothing.
    Rewoken,
    /// A shard takes no note of the start.
    Unstarted,
    /// A shard hands nothing over.
    Forgotten,
    /// What the shards hand over comes twice.
    Repeated,
    /// A shard takes no note of the end of its requests.
    Unfinished,
    /// A shard takes note of the requests of another one.
    Foreign,
}

/// What the service knows to be due.
#[derive(Default)]
struct Model {
    /// The time of each armed key, by shard.
    armed: BTreeMap<(usize, u64), Nanos>,
    /// The number of the last message sent and handled, by sender and receiver.
    told: [[(u64, u64); SHARDS]; SHARDS],
    /// What may end the unfinished requests of each shard, by their numbers.
    begun: BTreeMap<(usize, u64), Option<Fate>>,
    works: u64,
    /// What has ended such requests.
    ends: BTreeSet<&'static str>,
    /// The shards that were woken, and have not heard of it.
    woken: BTreeSet<usize>,
    served: [bool; SHARDS],
    started: [bool; SHARDS],
    stopped: [bool; SHARDS],
    /// What each shard of the predecessor handed over, until it has come.
    before: [Option<u64>; SHARDS],
    /// What each shard hands over.
    left: [Option<u64>; SHARDS],
    trouble: Option<String>,
}

struct Sharded {
    model: Mutex<Model>,
    answers: Arc<Answers>,
    flaw: Option<Flaw>,
}

type Told<'a> = Out<'a, (usize, u64)>;

/// A client of all shards, and an identity of requests.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 7);
const IDENTITY: u64 = 0x5eed_5eed_5eed_5eed;

impl Sharded {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().expect("no panic")
    }

    fn must(&self, holds: bool, rule: &str) {
        if !holds {
            self.model().trouble.get_or_insert_with(|| rule.to_owned());
        }
    }

    async fn act(&self, shard: usize, request: &Request<'_>, out: &mut Told<'_>) {
        for act in &request.bytes()[1..] {
            virtual_time::pass(US(1));
            let key = u64::from(act % 4);
            match act >> 5 {
                0 | 1 => checkpoint().await,
                2 => {
                    out.at(key, None).expect("there is room");
                    self.model().armed.remove(&(shard, key));
                }
                3 | 4 => {
                    let when = clock::now().plus(US(u64::from(*act) % 32));
                    out.at(key, clock::instant(when)).expect("there is room");
                    if self.flaw != Some(Flaw::Unarmed) {
                        self.model().armed.insert((shard, key), when);
                    }
                }
                5 => self.begin(shard, *act, out),
                6 if act.is_multiple_of(2) => self.wake(usize::from(*act) / 2 % SHARDS, out),
                _ => self.tell(shard, usize::from(*act) % SHARDS, out),
            }
        }
    }

    fn wake(&self, shard: usize, out: &Told<'_>) {
        // Before the wake, which another worker may handle at once.
        self.model().woken.insert(shard);
        out.teller().wake(shard);
        if self.flaw == Some(Flaw::Rewoken) {
            out.teller().wake(shard + 1);
        }
    }

    fn tell(&self, from: usize, to: usize, out: &Told<'_>) {
        let (sent, _) = &mut self.model().told[from][to];
        *sent += 1;
        let number = if self.flaw == Some(Flaw::Swapped) { *sent ^ 1 } else { *sent };
        if self.flaw != Some(Flaw::Untold) {
            out.teller().tell(to, (from, number)).expect("there is room");
        }
    }

    /// Begins a request that passes checkpoints, and then ends by itself or otherwise. A handler
    /// serves every second one.
    fn begin(&self, shard: usize, act: u8, out: &Told<'_>) {
        let (number, source) = (self.model().works, (!act.is_multiple_of(3)).then_some(CLIENT));
        let (ends, has_begun) = if number.is_multiple_of(2) {
            let (ends, admitted) = of_act(act, |admitted| (Some(Fate::Duplicate), admitted.identity(IDENTITY)));
            (
                ends,
                out.begin(number, source, admitted, async move { (SHARDS, answer(act, ends, number).await) }).is_ok(),
            )
        } else {
            let bytes = [&[act][..], &number.to_le_bytes()].concat();
            let (ends, _) = of_act(act, |admitted| (Some(Fate::Refused), admitted));
            (ends, out.serve(number, &self.answers, Carried::new(bytes, CLIENT, CLIENT)).is_ok())
        };
        if has_begun {
            let shard = if self.flaw == Some(Flaw::Foreign) { (shard + 1) % SHARDS } else { shard };
            let mut model = self.model();
            model.works += 1;
            model.begun.insert((shard, number), ends);
            let (waiting, most) = (out.waiting(), model.begun.len());
            drop(model);
            self.must((1..=most).contains(&waiting), "not as many wait as have begun");
        }
    }

    /// Notes the end of a request of `shard`: with a result, or as this fate.
    fn end(&self, shard: usize, number: u64, fate: Option<Fate>) {
        let mut model = self.model();
        let ends = model.begun.get(&(shard, number)).copied();
        if self.flaw != Some(Flaw::Unfinished) {
            model.begun.remove(&(shard, number));
        }
        model.ends.extend(fate.map(Fate::name));
        drop(model);
        self.must(ends.is_some(), "a request ends twice, or in another shard");
        let must_fail = |ends: &Option<Fate>| matches!(ends, Some(Fate::Failed | Fate::Stalled));
        let is_so = |ends: Option<Fate>| if fate.is_some() { fate == ends } else { !must_fail(&ends) };
        self.must(ends.is_none_or(is_so), "a request ends as another one");
    }

    /// What was due by `now`, and is still to come.
    fn overdue(&self, now: Nanos) -> Option<String> {
        let model = self.model();
        let timer = model.armed.iter().find(|(_, when)| **when <= now).map(|late| format!("no timer: {late:?}"));
        let lost = |(sent, handled): &(u64, u64)| sent != handled;
        let message = model.told.iter().flatten().any(lost).then(|| "a message is lost".to_owned());
        let state = model.before.iter().flatten().next().map(|_| "a predecessor's state is lost".to_owned());
        let wake = model.woken.first().map(|shard| format!("a wake is lost: {shard}"));
        let work = model.begun.keys().next().map(|key| format!("a request is lost: {key:?}"));
        timer.or(message).or(wake).or(work).or(state).or_else(|| model.trouble.clone())
    }
}

/// The turn of a shard, which ends also if its future is dropped.
struct Turn<'a>(&'a Sharded, usize);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.model().served[self.1] = false;
    }
}

impl Service for Sharded {
    type Ticket = ();
    /// Its number, and how many events it and its predecessors had.
    type Shard = (usize, u64);
    /// The shard that sends it, and its number. `SHARDS` stands for work that ended.
    type Message = (usize, u64);

    const SHARDS: usize = SHARDS;
    const HEARS_START: bool = true;
    const HEARS_STOP: bool = true;

    fn shard(&self, number: usize) -> (usize, u64) {
        (number, 0)
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).shard(u32::from(arrival.bytes()[0]) % SHARDS as u32))
    }

    async fn handle(&self, state: &mut (usize, u64), event: handler::Event<'_, (), (usize, u64)>, out: &mut Told<'_>) {
        let (shard, events) = (state.0, &mut state.1);
        *events += 1;
        let place = if self.flaw == Some(Flaw::Confused) { 0 } else { shard };
        let before = std::mem::replace(&mut self.model().served[place], true);
        self.must(!before, "a shard has two events at a time");
        let _turn = Turn(self, place);
        let has_begun = self.model().started[shard] != matches!(event, handler::Event::Starting);
        self.must(has_begun, "a shard hears of the start late, or twice");
        match event {
            handler::Event::Datagram(request) => self.act(shard, &request, out).await,
            handler::Event::Timer { key, due } => {
                let when = self.model().armed.remove(&(shard, key));
                self.must(when.is_none_or(|when| when == clock::at(due)), "a timer tells another time");
                self.must(when.is_some(), "a timer fires that is not armed");
                self.must(when.is_none_or(|when| when <= clock::now()), "a timer fires early");
                checkpoint().await;
            }
            handler::Event::HandedOver(bytes) => {
                let before = u64::from_le_bytes(bytes[..].try_into().expect("one number"));
                let is_due = self.model().before[shard].take() == Some(before);
                self.must(is_due, "a shard has another's state, or its own twice");
                *events += before;
                checkpoint().await;
            }
            handler::Event::Message((SHARDS, number)) => {
                self.end(shard, number, None);
                checkpoint().await;
            }
            handler::Event::Message((from, number)) => {
                let handled = {
                    let (_, handled) = &mut self.model().told[from][shard];
                    *handled += 1;
                    *handled
                };
                self.must(number == handled, "a message comes twice, or not in order");
                checkpoint().await;
            }
            handler::Event::Starting => {
                checkpoint().await;
                self.model().started[shard] = self.flaw != Some(Flaw::Unstarted);
            }
            handler::Event::Woken => {
                let is_due = self.model().woken.remove(&shard);
                self.must(is_due, "a shard is woken twice");
            }
            handler::Event::Replied { key, reply } => {
                self.must(reply == key.to_le_bytes(), "a request gets the reply to another one");
                self.end(shard, key, None);
            }
            handler::Event::Unfinished { key, fate } => self.end(shard, key, Some(fate)),
            handler::Event::Stopping => {
                let before = std::mem::replace(&mut self.model().stopped[shard], true);
                self.must(!before, "a shard hears of the stop twice");
                self.model().left[shard] = Some(*events);
                if self.flaw != Some(Flaw::Forgotten) {
                    out.hand_over(events.to_le_bytes().to_vec()).expect("there is room");
                }
            }
        }
    }
}

/// Runs one seed: a service, and its successor. Returns what ended requests of the successor that
/// did not end by themselves.
///
/// # Errors
/// The violated rule.
fn explored(seed: u64, flaw: Option<Flaw>) -> Result<BTreeSet<&'static str>, String> {
    let ((left, mut parts), _) = served(seed, flaw, None)?;
    if flaw == Some(Flaw::Repeated) {
        parts.extend_from_within(..);
    }
    served(seed ^ 1, flaw, Some((left, parts))).map(|(_, ends)| ends)
}

/// What each shard hands over, by the model and as it is handed over.
type Left = ([Option<u64>; SHARDS], Vec<u8>);

/// Runs one service, with what its predecessor hands over if it has one.
fn served(seed: u64, flaw: Option<Flaw>, inherited: Option<Left>) -> Result<(Left, BTreeSet<&'static str>), String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut scenario = Scenario::draw(seed);
    // All is served that comes, so that what is due can be told. Nothing is lost but by a flaw.
    (scenario.waits, scenario.set_aside) = (WaitLimits::NONE, [1_000, 64]);
    (scenario.socket_capacity, scenario.queued, scenario.drain) = (1_000, 1_000, US(100_000));
    scenario.packets += 200;
    let (mut events, mut at) = (Vec::new(), US(1));
    for _ in 0..random.random_range(1..50) {
        at = at.plus(US([0, 0, 1, 3, 20][random.random_range(0..5)]));
        let acts = (0..random.random_range(2..12)).map(|_| random.random()).collect();
        events.push((at, Event::Datagram(random.random_range(0..scenario.workers), acts)));
    }
    let switches = scenario.events.drain(..).filter(|(_, event)| matches!(event, Event::Switch(_)));
    events.extend(switches);
    let stop = at.plus(US(2_000));
    events.extend((0..4_000).step_by(20).map(|us| (at.plus(US(us)), Event::Tick)));
    events.extend((0..at.get() / 1_000).step_by(7).map(|us| (US(us), Event::Tick)));
    events.push((stop, Event::Stop));
    let (before, parts) = inherited.unzip();
    events.extend(parts.map(|parts| (US(random.random_range(0..=at.get() / 1_000)), Event::Inherit(parts))));
    events.sort_by_key(|(at, _)| *at);
    scenario.events = events;
    let model = Mutex::new(Model { before: before.unwrap_or_default(), ..Model::default() });
    let service = Sharded { flaw, model, answers: Arc::new(Answers) };
    let trouble = || service.model().trouble.clone();
    let run = explore_service(&scenario, &service, &trouble, None, None)?;
    service.overdue(Nanos::MAX).map_or(Ok(()), Err)?;
    let mut model = service.model();
    let ends = std::mem::take(&mut model.ends);
    let hears = |shard: &usize| model.started[*shard] && model.stopped[*shard];
    match (0..SHARDS).find(|shard| !hears(shard)) {
        None => Ok(((model.left, run.handed_over), ends)),
        Some(shard) => Err(format!("shard {shard} does not hear of the start and the stop")),
    }
}

#[test]
fn shards_get_all_that_is_due_once_and_in_order() {
    let explore = |seed| explored(seed, None).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
    let ends: BTreeSet<_> = (0..SEEDS).flat_map(explore).collect();
    assert!(ends.into_iter().eq(["duplicate", "failed", "refused", "shed_expired", "stalled"]), "not all are explored");
}

// Is each service with a planted defect caught, by the rule meant for it?
#[test]
fn every_twin_of_a_service_is_caught() {
    for (flaw, said) in [
        (Flaw::Confused, "two events at a time"),
        (Flaw::Unarmed, "not armed"),
        (Flaw::Untold, "lost"),
        (Flaw::Swapped, "not in order"),
        (Flaw::Rewoken, "woken twice"),
        (Flaw::Unstarted, "the start late"),
        (Flaw::Forgotten, "state is lost"),
        (Flaw::Repeated, "its own twice"),
        (Flaw::Unfinished, "a request is lost"),
        (Flaw::Foreign, "in another shard"),
    ] {
        let trouble = (0..SEEDS).find_map(|seed| explored(seed, Some(flaw)).err()).unwrap_or_default();
        assert!(trouble.contains(said), "{flaw:?}: {trouble:?}");
    }
}
