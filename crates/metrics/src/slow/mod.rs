//! `GET /slow`: the requests that wait, the slowest ones, and who blocked whom. Schema
//! `forebay-slow/1`.

mod blame;
mod host;

pub use blame::Cause;
pub use host::Tick;

use super::flight::{About, DELAYED, Delayed, LONG_WAIT, PERMIT, Slice, SliceKind, Track, Wait, number, receiver};
use super::worker_metrics::WorkerMetrics;
use crate::fate::CLASSES;
use crate::time::Nanos;
use blame::{Culprit, blame, by_helpers};
use host::Host;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter;

/// The time that a report covers.
const WINDOW: Nanos = Nanos::from_secs(60);
/// The most slow requests in a report.
const SHOWN: usize = 32;
/// The most slow requests that one call explains and keeps. Each explanation examines thousands of
/// slices.
const EXPLAINED: usize = 8;

/// The most slices of a worker that are read to explain a delay. At most loads they cover half a
/// second.
const READ: u64 = 4_096;

/// The most pairs that an interval of `/history` keeps: those that lost most time.
const PAIRS: usize = 8;

/// An unfinished request, and what it waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unended {
    /// The request.
    pub about: About,
    /// Its shard, if it has one.
    pub shard: Option<u32>,
    /// What it waits for; `None` = nothing, or a free worker.
    pub wait: Option<Wait>,
    /// How long the work aside that it waits for has waited for a helper.
    pub for_helper: Nanos,
    /// How long that work has been on a helper.
    pub on_helper: Nanos,
    /// The part of `on_helper` in which the helper had a CPU.
    pub helper_cpu: Nanos,
}

impl Unended {
    /// Whether a helper does its work aside.
    fn is_on_helper(&self) -> bool {
        self.on_helper > Nanos::ZERO
    }

    /// Whether it keeps other requests out of its shard.
    fn holds_shard(&self) -> bool {
        self.shard.is_some() && !matches!(self.wait, Some(Wait::Flow(_)))
    }

    /// Where it is, if it runs on worker `running`, and began on `began_on`.
    fn place(&self, running: Option<usize>, began_on: Option<usize>) -> String {
        match (running, self.wait) {
            (Some(worker), _) => format!("running on worker {worker}"),
            (None, Some(Wait::Permit)) => "waiting for a permit".to_owned(),
            (None, Some(Wait::Flow(shard))) => format!("waiting for shard {shard}"),
            (None, Some(Wait::Aside(_))) if self.is_on_helper() => "on a helper".to_owned(),
            (None, Some(Wait::Aside(_))) => "waiting for a helper".to_owned(),
            (None, None) if began_on.is_some() => "interrupted".to_owned(),
            (None, None) => "waiting".to_owned(),
        }
    }
}

/// Who blocked whom: the class of the request that waited, the class of the request that ran, and
/// the cause.
pub type Pair = (u8, Option<u8>, Cause);

/// A delayed request that has ended, with the explanation of its delay.
type Named = (Delayed, Option<Culprit>);

/// The control thread's knowledge of delayed requests.
#[derive(Debug, Default)]
pub struct Slow {
    host: Host,
    /// The slowest requests of the last minute.
    named: Vec<Named>,
    /// Sum of explained delays since the start, by [`Pair`].
    pub blocked: BTreeMap<Pair, Nanos>,
    /// The explained delays since the last [`Slow::interval`].
    interval: BTreeMap<Pair, Blocked>,
}

/// The delays of a [`Pair`].
#[derive(Clone, Debug, Default)]
struct Blocked {
    requests: u64,
    time: Nanos,
    /// The latency of the slowest of the requests, and the explanation of its delay.
    slowest: (Nanos, String),
}

impl Blocked {
    fn add(&mut self, late: &Delayed, culprit: &Culprit) {
        (self.requests, self.time) = (self.requests + 1, self.time.plus(late.delay()));
        let latency = late.ended_at.minus(late.about.came_at);
        if latency > self.slowest.0 {
            self.slowest = (latency, culprit.text());
        }
    }
}

impl Slow {
    /// Reads the delayed requests since the last call, and explains the longest delays. Call it a
    /// few times a second, because the slices that explain a delay are soon overwritten.
    pub fn look(&mut self, metrics: &WorkerMetrics, tick: Tick) {
        let now = tick.at;
        self.host.add(tick);
        let read = metrics.tracks().flat_map(|track| iter::from_fn(|| track.delayed.pop()).take(DELAYED));
        let mut delayed: Vec<Delayed> = read.collect();
        delayed.sort_unstable_by_key(|late| Reverse(late.delay()));
        delayed.truncate(EXPLAINED);
        let last = delayed.iter().map(|late| late.ended_at).fold(now, Nanos::max);
        let tracks = Tracks::new(metrics, last);
        let named = delayed.into_iter().map(|late| (late, tracks.blame(&late, &self.host)));
        let named: Vec<Named> = named.collect();
        for (pair, late, culprit) in named.iter().filter_map(blocked) {
            let sum = self.blocked.entry(pair).or_default();
            *sum = sum.plus(late.delay());
            self.interval.entry(pair).or_default().add(late, culprit);
        }
        self.named.extend(named);
        self.named.retain(|(late, _)| now.minus(late.ended_at) < WINDOW);
    }

    /// Who blocked whom since the last call, the most time first. Each pair has the latency of its
    /// slowest request, and the explanation of its delay.
    pub fn interval(&mut self) -> Value {
        let mut pairs: Vec<_> = std::mem::take(&mut self.interval).into_iter().collect();
        pairs.sort_by_key(|(_, blocked)| Reverse(blocked.time));
        pairs
            .iter()
            .take(PAIRS)
            .map(|of| {
                let (latency, text) = &of.1.slowest;
                let mut told = pair((&of.0, &of.1));
                (told["latency_us"], told["text"]) = (latency.as_micros_f64().into(), text.as_str().into());
                told
            })
            .collect()
    }

    /// The slowest requests of the last minute, the longest delay first.
    fn slowest(&self) -> impl Iterator<Item = &Named> {
        let mut slowest: Vec<&Named> = self.named.iter().collect();
        slowest.sort_by_key(|(late, _)| Reverse(late.delay()));
        slowest.into_iter()
    }

    /// The body of `GET /slow` as of `now`. Call it soon after [`Slow::look`]. `waiting` has the
    /// oldest unfinished requests, and the ones that hold up their shards. `sockets` has the number
    /// of bytes that wait in the sockets of each worker. `helpers` says of each helper for how long
    /// it has done its present work. `names` are the names of the classes.
    pub fn report(
        &self,
        metrics: &WorkerMetrics,
        waiting: &[Unended],
        sockets: &[u64],
        helpers: &[Option<Nanos>],
        names: &[&'static str; CLASSES],
        now: Nanos,
    ) -> Value {
        let tracks = Tracks::new(metrics, now);
        let mut pairs = BTreeMap::<Pair, Blocked>::new();
        for (pair, late, culprit) in self.slowest().filter_map(blocked) {
            pairs.entry(pair).or_default().add(late, culprit);
        }
        // Of all work on helpers, that which has been there for longest.
        let work = waiting.iter().filter(|unended| unended.is_on_helper()).max_by_key(|unended| unended.on_helper);
        let work = work.map(|unended| unended.about);
        let helper = |(number, running): (usize, &Option<Nanos>)| json!({ "helper": number, "running_us": running.map(Nanos::as_micros_f64) });
        let unreceived = sockets.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        json!({
            "schema": "forebay-slow/1",
            "window_s": WINDOW.as_secs_f64() as u64,
            "delay_min_us": LONG_WAIT.as_micros_f64(),
            "workers": (0..metrics.workers()).map(|worker| tracks.strip(worker)).collect::<Value>(),
            "helpers": helpers.iter().enumerate().map(helper).collect::<Value>(),
            "waiting": waiting.iter().map(|unended| tracks.waits(unended, waiting, work, &self.host)).collect::<Value>(),
            "sockets": unreceived.map(|(worker, bytes)| tracks.socket(worker, *bytes, &self.host)).collect::<Value>(),
            "slowest": self.slowest().take(SHOWN).map(|slowest| ended(slowest, now)).collect::<Value>(),
            "blocked": pairs.iter().map(pair).collect::<Value>(),
            "class_names": names,
        })
    }
}

/// The slices of all workers as of `now`. The slices of a worker are read when they are first
/// needed.
struct Tracks<'m> {
    tracks: Vec<&'m Track>,
    now: Nanos,
    running: Vec<Option<Slice>>,
    slices: Vec<OnceCell<Vec<Slice>>>,
}

impl<'m> Tracks<'m> {
    fn new(metrics: &'m WorkerMetrics, now: Nanos) -> Tracks<'m> {
        let tracks: Vec<&Track> = metrics.tracks().take(metrics.workers()).collect();
        let running = tracks.iter().map(|track| track.running(now)).collect();
        Tracks { slices: vec![OnceCell::new(); tracks.len()], tracks, now, running }
    }

    fn slices(&self, worker: usize) -> &[Slice] {
        self.slices[worker].get_or_init(|| {
            let mut slices = self.tracks[worker].slices(READ, self.now);
            // The running slice may have ended meanwhile; then it is in the ring already.
            let runs = |slice: &Slice| slices.last().is_none_or(|last| last.began < slice.began);
            slices.extend(self.running[worker].filter(runs));
            slices
        })
    }

    fn blame(&self, late: &Delayed, host: &Host) -> Option<Culprit> {
        blame(late, |worker| self.slices(worker), host, self.tracks.len())
    }

    /// The worker that runs the request `id` now, the one on which it began, and its CPU time.
    fn ran(&self, id: u64) -> (Option<usize>, Option<usize>, Nanos) {
        let workers = 0..self.tracks.len();
        let runs = |worker: &usize| self.running[*worker].is_some_and(|slice| slice.about.id == id);
        let (mut service, mut began_on) = (Nanos::ZERO, None);
        for worker in workers.clone() {
            let slices = self.slices(worker).iter().filter(|slice| slice.about.id == id);
            let of_worker = slices.fold(Nanos::ZERO, |sum, slice| sum.plus(slice.took));
            service = service.plus(of_worker);
            began_on = began_on.or((of_worker > Nanos::ZERO).then_some(worker));
        }
        (workers.into_iter().find(runs), began_on, service)
    }

    /// Describes an unfinished request of `all` that are listed: where it is, and why it waits.
    /// `work` is the request whose work has been on a helper for longest.
    fn waits(&self, unended: &Unended, all: &[Unended], work: Option<About>, host: &Host) -> Value {
        let Unended { about, shard, wait, for_helper, on_helper, helper_cpu } = *unended;
        let (running, began_on, service) = self.ran(about.id);
        let worker = began_on.unwrap_or(receiver(about.id)) as u16;
        let age = self.now.minus(about.came_at);
        let waited = age.minus(service);
        let holder = all.iter().find(|other| other.shard == shard && other.holds_shard() && !unended.holds_shard());
        let (behind, set_aside) = match wait {
            Some(Wait::Permit) => (PERMIT, waited),
            Some(Wait::Flow(_)) => (holder.map_or(0, |holder| holder.about.id), waited),
            Some(Wait::Aside(_)) | None => (0, Nanos::ZERO),
        };
        let late =
            Delayed { about, worker, ended_at: self.now, service, set_aside, behind, shard, ..Delayed::default() };
        let late = Delayed { for_helper, on_helper, helper_cpu, ..late };
        let culprit = match running {
            Some(_) => None,
            // A little time without a CPU is no reason for the age of the request.
            None if unended.is_on_helper() => {
                by_helpers(&late, worker.into()).filter(|culprit| culprit.held.times(2) >= on_helper)
            }
            None => self.blame(&late, host),
        };
        let by_other = |culprit: Culprit| match (culprit.cause, holder) {
            (Cause::Flow, Some(holder)) => {
                let (running, began_on, _) = self.ran(holder.about.id);
                Culprit { by: Some(holder.about), place: Some(holder.place(running, began_on)), ..culprit }
            }
            (Cause::Helper, _) => Culprit { by: culprit.by.or(work), ..culprit },
            _ => culprit,
        };
        let culprit = culprit.map(|culprit| by_other(culprit).to_json());
        let (age_us, mut place) = (age.as_micros_f64(), unended.place(running, began_on));
        // What waits aside holds up its shard.
        if let (Some(Wait::Aside(_)), Some(shard)) = (wait, shard) {
            place += &format!(", with shard {shard}");
        }
        json!({
            "request": about.id,
            "class": about.class,
            "age_us": age_us,
            "place": place,
            "shard": shard,
            "culprit": culprit,
        })
    }

    /// Describes why datagrams wait in the sockets of a worker.
    fn socket(&self, worker: usize, waiting_bytes: u64, host: &Host) -> Value {
        // The arrival times of requests in a socket are unknown. They count from the start of the
        // worker's current slice, because since then it could not receive.
        let since = self.running[worker].map_or(self.now.minus(LONG_WAIT), |slice| slice.began);
        let about = About { id: number(worker, 0), class: 0, came_at: since };
        let late = Delayed { about, worker: worker as u16, ended_at: self.now, ..Delayed::default() };
        let culprit = self.blame(&late, host).map(|culprit| culprit.to_json());
        json!({ "worker": worker, "waiting_bytes": waiting_bytes, "culprit": culprit })
    }

    /// Describes what a worker did in the last second.
    fn strip(&self, worker: usize) -> Value {
        let slices = self.slices(worker);
        // The time covers a second, or less if the ring does not reach back so far.
        let held = slices.first().map_or(self.now, |first| first.began);
        let from = self.now.minus(Nanos::from_secs(1)).max(held);
        let slices = slices[slices.partition_point(|slice| slice.end() <= from)..].iter();
        let busy = slices
            .filter(|slice| slice.kind != SliceKind::NoPacket)
            .map(|slice| slice.end().minus(slice.began.max(from)));
        let busy = busy.fold(Nanos::ZERO, Nanos::plus);
        let busy = busy.get() as f64 / self.now.minus(from).get().max(1) as f64;
        let running = self.running[worker].filter(|slice| slice.about.id > 0).map(|slice| {
            let About { id, class, .. } = slice.about;
            json!({ "request": id, "class": class, "for_us": slice.took.as_micros_f64() })
        });
        json!({ "worker": worker, "busy": busy.min(1.0), "running": running })
    }
}

/// Describes a delayed request that has ended.
fn ended((late, culprit): &Named, now: Nanos) -> Value {
    let Delayed { about, worker, received_at, ended_at, service, set_aside, for_helper, on_helper, .. } = *late;
    let kernel = received_at.minus(about.came_at);
    let queue = ended_at.minus(received_at).minus(service).minus(set_aside).minus(for_helper).minus(on_helper);
    json!({
        "request": about.id,
        "class": about.class,
        "ended_s_ago": (now.minus(ended_at).as_secs_f64() * 10.0).round() / 10.0,
        "latency_us": ended_at.minus(about.came_at).as_micros_f64(),
        "delay_us": late.delay().as_micros_f64(),
        "kernel_us": kernel.as_micros_f64(),
        "queue_us": queue.as_micros_f64(),
        "set_aside_us": set_aside.as_micros_f64(),
        "for_helper_us": for_helper.as_micros_f64(),
        "on_helper_us": on_helper.as_micros_f64(),
        "service_us": service.as_micros_f64(),
        "worker": worker,
        "culprit": culprit.as_ref().map(Culprit::to_json),
    })
}

/// Who blocked this request.
fn blocked((late, culprit): &Named) -> Option<(Pair, &Delayed, &Culprit)> {
    let culprit = culprit.as_ref()?;
    Some(((late.about.class, culprit.by.map(|by| by.class), culprit.cause), late, culprit))
}

/// Describes one pair: who blocked whom, how often and for how long.
fn pair(((class, by_class, cause), Blocked { requests, time, .. }): (&Pair, &Blocked)) -> Value {
    let blocked_us = time.as_micros_f64();
    json!({ "class": class, "by_class": by_class, "cause": cause.name(), "requests": requests, "blocked_us": blocked_us })
}

#[cfg(test)]
mod tests;
