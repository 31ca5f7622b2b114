//! The counters and histograms that workers write and any thread may read.

use super::counters::{CounterName, Counts, Spent, WorkerCounters};
use super::flight::{Pen, Track};
use super::window::{Histograms, Sample};
use crate::fate::Fate;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, Ordering};

/// The measurements of one server. They are made once and shared by reference; workers write them
/// without locks.
#[derive(Debug)]
pub struct WorkerMetrics {
    workers: Box<[WorkerRecords]>,
}

impl WorkerMetrics {
    /// Metrics for `workers` workers, numbered from 0. The thread that stops the server has the
    /// number `workers`, because it ends requests too.
    pub fn new(workers: usize) -> WorkerMetrics {
        let hasher = RandomState::new();
        let worker = |_| WorkerRecords {
            counters: CachePadded::default(),
            histograms: CachePadded::default(),
            taken: AtomicBool::new(false),
            track: Track::new(workers, hasher.clone()),
        };
        WorkerMetrics { workers: (0..=workers).map(worker).collect() }
    }

    /// Number of workers, without the stopping thread.
    pub fn workers(&self) -> usize {
        self.workers.len() - 1
    }

    /// Number of datagrams received and not yet ended; exact while no worker runs.
    pub fn in_flight(&self) -> u64 {
        let counts = self.counts();
        counts.received - counts.ended.iter().sum::<u64>()
    }

    /// Number of datagrams received, and of events of shards that have begun.
    pub fn received(&self) -> u64 {
        self.counts().received
    }

    /// Number of datagrams received, and number that ended in each fate.
    pub fn ends(&self) -> (u64, [u64; Fate::ALL.len()]) {
        let counts = self.counts();
        (counts.received, counts.ended)
    }

    /// Number of datagrams with an impossible age, in the order of
    /// [`ClockAnomaly::ALL`](crate::fate::ClockAnomaly::ALL).
    pub fn clock_anomalies(&self) -> [u64; crate::fate::ClockAnomaly::ALL.len()] {
        self.counts().counted.clock_anomalies
    }

    /// Takes the recorder of `worker`, or of the stopping thread (see [`WorkerMetrics::new`]).
    /// There is only one, because each counter has one writer.
    ///
    /// # Panics
    /// If there is no such worker, or its recorder was taken before.
    pub fn recorder(&self, worker: usize) -> Recorder<'_> {
        let worker = &self.workers[worker];
        // Ordering: relaxed. Only the exchange matters, because the counters are zero before the
        // metrics are shared.
        assert!(!worker.taken.swap(true, Ordering::Relaxed), "a worker has one recorder");
        Recorder { counters: &worker.counters, histograms: &worker.histograms, flight: Pen::new(&worker.track) }
    }

    /// The sums of all counters now.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::read(self.workers.iter().map(|worker| &*worker.counters));
        // The stopping thread is not a worker.
        counts.busy.truncate(self.workers());
        counts
    }

    /// The histograms of each worker, the stopping thread last.
    pub(super) fn histograms(&self) -> Vec<&Histograms> {
        self.workers.iter().map(|worker| &*worker.histograms).collect()
    }

    /// Start of the current slice of `worker`; `None` between slices.
    pub fn running_since(&self, worker: usize) -> Option<Nanos> {
        self.workers[worker].counters.busy.since()
    }

    /// A count that grows with every turn of the loop of `worker`, and with every slice of its
    /// jobs. It stands still while the worker is stuck.
    pub fn moves(&self, worker: usize) -> u64 {
        self.workers[worker].counters.moves.read()
    }

    /// The track of each worker, the stopping thread last: what it ran recently.
    #[cfg(feature = "admin")]
    pub(super) fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.workers.iter().map(|worker| &worker.track)
    }
}

/// The metrics of one worker. They are padded, so that workers do not share the cache lines that
/// they write for every datagram.
#[derive(Debug)]
struct WorkerRecords {
    counters: CachePadded<WorkerCounters>,
    histograms: CachePadded<Histograms>,
    taken: AtomicBool,
    track: Track,
}

/// A worker's handle to its own metrics; the only writer.
#[derive(Debug)]
pub struct Recorder<'b> {
    counters: &'b WorkerCounters,
    histograms: &'b Histograms,
    /// Records what the worker runs.
    pub flight: Pen<'b>,
}

impl Recorder<'_> {
    /// Counts `datagrams` as received. Call it before any of them can end, on any worker.
    #[inline]
    pub fn received(&mut self, datagrams: u64) {
        self.counters.received.add(datagrams);
    }

    /// Counts the end of a datagram, whichever worker received it. For served datagrams call
    /// [`Recorder::answered`] or [`Recorder::served`] instead, which also record times. A fate with
    /// reasons counts under its default reason; [`Recorder::count`] takes a specific one.
    pub fn ended(&mut self, fate: Fate) {
        match CounterName::of_fate(fate) {
            Some(counter) => self.count(counter),
            None => self.counters.ended[fate as usize].add(1),
        }
    }

    /// Counts a datagram that ended as `fate` for the handler's own reason of this number.
    ///
    /// # Panics
    /// When `reason` is not below [`REASONS`](crate::fate::REASONS).
    pub fn rejected(&mut self, fate: Fate, reason: u8) {
        self.counters.rejected[fate as usize][usize::from(reason)].add(1);
    }

    /// Adds one to `counter`. If the counter is a reason of a fate, this counts as the end of a
    /// datagram.
    #[inline]
    pub fn count(&mut self, counter: CounterName) {
        self.counters.counted.of(counter).add(1);
    }

    /// Counts a datagram that ended as [`Fate::Answered`], and records its times. Allocates only at
    /// the first sample of a class.
    #[inline]
    pub fn answered(&mut self, sample: &Sample) {
        self.served(sample, Fate::Answered);
    }

    /// As [`Recorder::answered`], for a served datagram that ended as `fate`.
    #[inline]
    pub fn served(&mut self, sample: &Sample, fate: Fate) {
        self.histograms.record(sample);
        if let Some(late) = sample.late {
            self.count(CounterName::AnsweredLate(late));
            self.spend(Spent::Late, sample.service);
        }
        self.counters.ended[fate as usize].add(1);
    }

    /// Records the CPU time of a request of `class` that ends unanswered. Does not count its end.
    pub fn unanswered(&mut self, class: u8, spent: Nanos) {
        self.histograms.record_unanswered(class, spent);
        self.spend(Spent::Unanswered, spent);
    }

    /// Begins a slice of a job at `now`. The time until [`Recorder::end_slice`] counts as busy.
    #[inline]
    pub fn begin_slice(&mut self, now: Nanos) {
        self.counters.busy.begin(now);
    }

    /// Ends the current slice, which took `time`.
    #[inline]
    pub fn end_slice(&mut self, time: Nanos) {
        self.counters.busy.end(time);
    }

    /// Begins an idle time at `now`. It lasts until [`Recorder::end_idle`].
    #[inline]
    pub fn begin_idle(&mut self, now: Nanos) {
        self.counters.idle.begin(now);
        self.flight.rest();
    }

    /// Ends the idle time, which lasted for `time`.
    #[inline]
    pub fn end_idle(&mut self, time: Nanos) {
        self.counters.idle.end(time);
    }

    /// Adds `time` to the time spent on `on`.
    #[inline]
    pub fn spend(&mut self, on: Spent, time: Nanos) {
        self.counters.spent_ns[on as usize].add(time.get());
    }

    /// Records that an emulated core slept for `slept` and woke `late` after its deadline.
    pub fn overshoot(&mut self, slept: Nanos, late: Nanos) {
        self.histograms.record_overshoot(late);
        self.spend(Spent::Slept, slept);
        self.spend(Spent::Overslept, late);
    }

    /// Counts a turn of the worker's loop.
    #[inline]
    pub fn turned(&mut self) {
        self.counters.moves.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Refused;
    use std::sync::mpsc;

    /// Does every reading see at least as many arrivals as ends, while one thread receives and
    /// another ends requests? Method: a channel between the two is the queue; a third thread reads
    /// all the time.
    #[test]
    fn no_reading_ever_sees_more_ends_than_arrivals() {
        const DATAGRAMS: u64 = 30_000;
        let metrics = WorkerMetrics::new(2);
        let (queue, jobs) = mpsc::sync_channel(64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut recorder, queue) = (metrics.recorder(0), queue);
                for job in 0..DATAGRAMS {
                    recorder.received(1);
                    queue.send(job).expect("the other thread receives to the end");
                }
            });
            scope.spawn(|| {
                let mut recorder = metrics.recorder(1);
                for job in jobs {
                    match job % 3 {
                        0 => recorder.answered(&Sample::default()),
                        1 => recorder.count(CounterName::Refused(Refused::CostCap)),
                        _ => recorder.ended(Fate::ShedExpired),
                    }
                }
            });
            loop {
                let counts = metrics.counts();
                let ended: u64 = counts.ended.iter().sum();
                assert!(ended <= counts.received, "{ended} ended, {} received", counts.received);
                if ended == DATAGRAMS {
                    break;
                }
            }
        });
        let counts = metrics.counts();
        assert_eq!((counts.received, counts.ended[Fate::Refused as usize]), (DATAGRAMS, DATAGRAMS / 3));
    }

    /// Is a second recorder for the same counters impossible?
    #[test]
    #[should_panic(expected = "a worker has one recorder")]
    fn a_worker_has_one_recorder() {
        let metrics = WorkerMetrics::new(1);
        let _first = metrics.recorder(0);
        let _second = metrics.recorder(0);
    }
}
