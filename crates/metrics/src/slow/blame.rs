//! Explains why a request was delayed, from the slices of the workers that could have served it.

use super::host::Host;
use crate::fate::labels;
use crate::flight::SliceKind::{self, Checked, Child, Running, Short, Unchecked};
use crate::flight::{About, Delayed, PERMIT, Slice, receiver};
use crate::time::Nanos;
use serde_json::{Value, json};

labels! {
    /// The cause of a request's delay.
    #[derive(PartialOrd, Ord)]
    #[non_exhaustive]
    Cause {
        /// The worker ran many other requests, none of them for long.
        NoFreeWorker = "no_free_worker",
        /// The worker ran a long request that passed no checkpoint.
        NoCheckpoint = "no_checkpoint",
        /// The worker still runs a long request.
        Running = "running",
        /// The worker ran a long request that passed checkpoints, but the policy let it continue.
        Order = "order",
        /// The kernel ran another thread on the worker's CPU.
        RunQueue = "run_queue",
        /// A CPU quota throttled the worker.
        Throttled = "throttled",
        /// The worker slept, or did nothing that was recorded.
        Asleep = "asleep",
        /// The whole process or its host stood still.
        HostPause = "host_pause",
        /// An earlier request of the same flow, or of a flow in the same shard, was unfinished.
        Flow = "flow",
        /// All permits to work uninterrupted were taken.
        Permit = "permit",
        /// No helper was free for the request's work aside.
        Helper = "helper",
        /// The request's work aside was on a helper, but not on a CPU.
        Aside = "aside",
        /// The server had no free packet to receive the request into.
        Packets = "packets",
        /// The request's pool was busy, while the worker that received it was free.
        Pool = "pool",
    }
}

/// The cause of a delay, and the worker or the request that is to blame.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Culprit {
    pub cause: Cause,
    pub worker: usize,
    /// The request that delayed the other one for longest; `None` if the cause is no single
    /// request.
    pub by: Option<About>,
    /// The shard that kept the request waiting, if it was one.
    pub shard: Option<u32>,
    /// The place of the request that holds the shard up, while it does.
    pub place: Option<String>,
    /// For how long the culprit kept the worker or the shard busy during the delay.
    pub held: Nanos,
    /// The part of the delay that the cause explains, from 0 to 1.
    pub share: f64,
    /// Number of short requests that together caused the delay; 0 for other causes.
    pub short: u64,
}

impl Culprit {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "cause": self.cause.name(),
            "worker": self.worker,
            "shard": self.shard,
            "place": self.place,
            "request": self.by.map(|by| by.id),
            "class": self.by.map(|by| by.class),
            "held_us": self.held.as_micros_f64(),
            "share": (self.share * 1_000.0).round() / 1_000.0,
            "text": self.text(),
        })
    }

    /// One sentence that explains the delay.
    pub(super) fn text(&self) -> String {
        let (worker, us) = (self.worker, self.held.as_micros_f64().round());
        let by = self.by.map_or("other work".to_owned(), |by| format!("request {} (class {})", by.id, by.class));
        let shard = self.shard.unwrap_or_default();
        match self.cause {
            Cause::NoFreeWorker if self.short > 0 => {
                format!("worker {worker} ran {} short requests for {us} us", self.short)
            }
            Cause::NoFreeWorker => format!("worker {worker} ran several requests for {us} us, mostly {by}"),
            Cause::NoCheckpoint => format!("worker {worker} ran {by} for {us} us without a checkpoint"),
            Cause::Running => format!("worker {worker} has run {by} for {us} us"),
            Cause::Order => format!("worker {worker} ran {by} for {us} us: the policy let it run on"),
            Cause::RunQueue => format!("the kernel ran other threads on the CPU of worker {worker} for {us} us"),
            Cause::Throttled => format!("worker {worker} was off its CPU for {us} us, as the CPU quota was used up"),
            Cause::Asleep => format!("worker {worker} slept for {us} us"),
            Cause::HostPause => format!("the process or its host stood still for {us} us"),
            Cause::Flow => {
                let place = self.place.as_ref().map_or(String::new(), |place| format!(", which is {place}"));
                format!("its shard {shard} was busy for {us} us, at last with {by}{place}")
            }
            Cause::Permit => {
                format!("every permit to work uninterrupted was taken for {us} us: worker {worker} ran {by}")
            }
            Cause::Helper => {
                let did = self.by.map_or("other work".to_owned(), |_| format!("work of {by}"));
                format!("no helper was free for {us} us: helpers did {did}")
            }
            Cause::Aside => format!(
                "its work aside was on a helper and not on a CPU for {us} us: it waited, or workers had the CPUs"
            ),
            Cause::Packets => format!("every packet was in use for {us} us"),
            Cause::Pool => format!("worker {worker} of its pool ran {by} for {us} us, and another pool was free"),
        }
    }
}

/// Explains why the request `late` waited between its arrival and `late.ended_at`. `None` if the
/// records no longer cover that time. `slices` returns the slices of a worker, oldest first.
pub(super) fn blame<'a>(
    late: &Delayed,
    slices: impl Fn(usize) -> &'a [Slice],
    host: &Host,
    workers: usize,
) -> Option<Culprit> {
    let (from, until) = (late.about.came_at, late.ended_at);
    let began_on = usize::from(late.worker).min(workers - 1);
    let held_up = |worker| WorkerSpan::of(worker, slices(worker), late);
    if let Some(culprit) = by_helpers(late, began_on) {
        return Some(culprit);
    }
    if late.set_aside.times(2) >= late.delay() {
        let (cause, worker, by) = if late.behind == PERMIT {
            let longest = (0..workers).filter_map(held_up).max_by_key(|held| held.most);
            let (worker, by) = longest.map_or((began_on, None), |held| (held.worker, held.by));
            (Cause::Permit, worker, by)
        } else {
            let before = (late.behind > 0).then_some(About { id: late.behind, ..late.about });
            (Cause::Flow, began_on, before)
        };
        let (held, share) = (late.set_aside, share(late.set_aside, late.delay()));
        let shard = late.shard.filter(|_| cause == Cause::Flow);
        return Some(Culprit { cause, worker, by, shard, held, share, place: None, short: 0 });
    }
    let received_by = receiver(late.about.id).min(workers - 1);
    let candidates = if received_by == began_on { vec![began_on] } else { vec![began_on, received_by] };
    let held = candidates.into_iter().filter_map(held_up).max_by_key(|held| held.most)?;
    // If the records cover only the last part of a long wait, this part is judged.
    let (delay, from) = (late.delay().min(until.minus(held.from)), held.from.max(from));
    let explains = |time: Nanos| time.times(2) >= delay;
    let named = |cause, time, by| {
        let (worker, share) = (held.worker, share(time, delay));
        Culprit { cause, worker, by, shard: None, place: None, held: time, share, short: 0 }
    };
    let off_cpu = host.off_cpu(held.worker, from, until);
    // A request seems long if its worker was off the CPU meanwhile, so the limit is then higher.
    let one = held.by.is_some() && explains(held.most);
    if off_cpu.get() as f64 >= if one { ONE_OFF_CPU } else { OFF_CPU } * delay.get() as f64 {
        // Throttled threads also wait for a CPU. The kernel reports throttling only for all
        // together.
        let throttled = host.grown(|tick| Some(&tick.throttled), from, until);
        let is_quota = throttled > Nanos::ZERO && throttled.times(2) >= off_cpu;
        return Some(named(if is_quota { Cause::Throttled } else { Cause::RunQueue }, off_cpu, None));
    }
    let paused = host.paused(from, until);
    if explains(paused) {
        return Some(named(Cause::HostPause, paused, None));
    }
    if explains(held.without_packets) {
        return Some(named(Cause::Packets, held.without_packets, None));
    }
    let idle = delay.minus(held.busy);
    // A request may wait for a worker of another pool while the worker that received it is free.
    let is_free = held_up(received_by).is_some_and(|first| !explains(first.busy));
    let others = (0..workers).filter(|worker| is_free && host.apart(*worker, received_by));
    let other = others.filter_map(held_up).max_by_key(|other| other.most);
    if let Some(other) = other.filter(|other| explains(other.busy)) {
        return Some(Culprit { worker: other.worker, ..named(Cause::Pool, other.most, other.by) });
    }
    Some(match held.kind {
        Checked if explains(held.most) => named(Cause::Order, held.most, held.by),
        Running if explains(held.most) => named(Cause::Running, held.most, held.by),
        Unchecked | Child if explains(held.most) => named(Cause::NoCheckpoint, held.most, held.by),
        _ if explains(idle) => named(Cause::Asleep, idle, None),
        kind => {
            let short = if kind == Short { held.short } else { 0 };
            Culprit { short, ..named(Cause::NoFreeWorker, held.busy, held.by) }
        }
    })
}

/// Blames helpers, if the request's work aside explains half of the delay: the wait for a helper,
/// and the time on one without a CPU.
pub(super) fn by_helpers(late: &Delayed, worker: usize) -> Option<Culprit> {
    let off_cpu = late.on_helper.minus(late.helper_cpu);
    let explained = late.for_helper.plus(off_cpu);
    if explained == Nanos::ZERO || explained.times(2) < late.delay() {
        return None;
    }
    let waited = late.for_helper >= off_cpu;
    let (cause, held) = if waited { (Cause::Helper, late.for_helper) } else { (Cause::Aside, off_cpu) };
    let share = share(held, late.delay());
    Some(Culprit { cause, worker, by: None, shard: None, place: None, held, share, short: 0 })
}

/// `time` as a share of `delay`, from 0 to 1.
fn share(time: Nanos, delay: Nanos) -> f64 {
    (time.get() as f64 / delay.get().max(1) as f64).min(1.0)
}

/// What one worker did while a request waited.
#[derive(Default)]
struct WorkerSpan {
    worker: usize,
    /// Start of the judged time: the arrival of the request, or later if older slices are not
    /// examined.
    from: Nanos,
    /// The time in which the worker ran other requests.
    busy: Nanos,
    /// The longest time that the worker spent on one request.
    most: Nanos,
    /// The kind of the slices of this request.
    kind: SliceKind,
    /// The request on which the worker spent `most`; `None` for short requests and children, which
    /// are summed.
    by: Option<About>,
    short: u64,
    without_packets: Nanos,
}

impl WorkerSpan {
    fn of(worker: usize, slices: &[Slice], late: &Delayed) -> Option<WorkerSpan> {
        let (from, until) = (late.about.came_at, late.ended_at);
        // The ring no longer holds slices from the beginning of the wait.
        if slices.first().is_none_or(|first| first.began > from) {
            return None;
        }
        let [begin, end] = [from, until].map(|time| slices.partition_point(|slice| slice.end() <= time));
        // The slice before may be a lack of packets, after which the worker slept. It lasts until
        // the next slice.
        let lacked = begin > 0 && slices[begin - 1].kind == SliceKind::NoPacket;
        let (begin, end) = (begin - usize::from(lacked), slices.len().min(end + 1));
        let walked = &slices[begin.max(end.saturating_sub(WALKED))..end];
        let from = if walked.len() < end - begin { walked[0].began } else { from };
        let mut held = WorkerSpan { worker, from, kind: SliceKind::Short, ..WorkerSpan::default() };
        // Slices of one request are summed; so are all short ones, and all children.
        let mut sums: Vec<(About, SliceKind, Nanos)> = Vec::new();
        let mut lack: Option<(Nanos, Nanos)> = None;
        for (at, slice) in walked.iter().enumerate().filter(|(_, slice)| slice.began < until) {
            let overlap = slice.end().min(until).minus(slice.began.max(from));
            match slice.kind {
                SliceKind::NoPacket => {
                    // The lack of packets lasts until the worker ran something again.
                    let end = walked.get(at + 1).map_or(until, |next| next.began).min(until);
                    lack = Some((lack.map_or(slice.began.max(from), |(first, _)| first), end));
                    continue;
                }
                _ if slice.about.id == late.about.id && slice.kind != SliceKind::Short => continue,
                SliceKind::Short => held.short += slice.about.id,
                _ => {}
            }
            held.busy = held.busy.plus(overlap);
            let same = |kind: SliceKind, about: About| match slice.kind {
                SliceKind::Short | SliceKind::Child => kind == slice.kind,
                _ => kind != SliceKind::Short && about.id == slice.about.id,
            };
            match sums.iter_mut().rev().take(SUMS).find(|(about, kind, _)| same(*kind, *about)) {
                Some((_, kind, sum)) => {
                    *sum = sum.plus(overlap);
                    // The request ran again after another one, so it must have passed a checkpoint.
                    *kind = if *kind == SliceKind::Unchecked { SliceKind::Checked } else { *kind };
                }
                None => sums.push((slice.about, slice.kind, overlap)),
            }
        }
        held.without_packets = lack.map_or(Nanos::ZERO, |(first, last)| last.minus(first));
        if let Some(&(about, kind, most)) = sums.iter().max_by_key(|(_, _, sum)| *sum) {
            (held.most, held.kind) = (most, kind);
            held.by = (!matches!(kind, SliceKind::Short | SliceKind::Child)).then_some(about);
        }
        Some(held)
    }
}

/// If a worker was off its CPU for this share of a delay, that explains the delay. The share is
/// low, because readings come only four times a second and do not show the exact time.
const OFF_CPU: f64 = 0.25;
/// As [`OFF_CPU`], if a single request ran for half of the delay.
const ONE_OFF_CPU: f64 = 0.4;

/// How many of the latest sums are searched for a request that runs again.
const SUMS: usize = 8;
/// The most slices of one worker that are examined.
const WALKED: usize = 2_048;

#[cfg(test)]
mod tests;
