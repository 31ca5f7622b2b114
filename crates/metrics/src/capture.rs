//! A capture: records arrivals for a while, for `GET /capture`.

use super::counters::Counts;
use super::flight::{Ended, Track};
use super::worker_metrics::WorkerMetrics;
use crate::fate::Fate;
use crate::time::Nanos;
use crossbeam_queue::ArrayQueue;
use forebay_clock as clock;
use std::fmt;
use std::iter;
use std::sync::atomic::Ordering::Relaxed;

/// The most requests of one capture. They take 16 MiB, and twice as much as text.
const REQUESTS_MAX: usize = 500_000;
/// After its time is over, a capture waits at most this long for its requests to end.
const GRACE: Nanos = Nanos::from_secs(2);

/// A capture in progress. When it is dropped, workers stop recording.
#[derive(Debug)]
pub struct Capture<'m> {
    metrics: &'m WorkerMetrics,
    until: Nanos,
    /// The counters, and the kernel's drops, at the start; `None` once the capture's time is over.
    before: Option<(Counts, Option<u64>)>,
    captured: Captured,
}

/// The result of a capture. Each arrival is in `requests` or counted as left out.
#[derive(Debug, Default)]
pub struct Captured {
    /// The requests, in order of arrival.
    pub requests: Vec<Ended>,
    from: Nanos,
    arrived: u64,
    not_served: u64,
    malformed: u64,
    kernel_dropped: u64,
    no_room: u64,
}

impl<'m> Capture<'m> {
    /// Starts a capture that records for `seconds`. `dropped` is the number of datagrams that the
    /// kernel has dropped so far.
    pub fn begin(metrics: &'m WorkerMetrics, seconds: Nanos, dropped: Option<u64>) -> Capture<'m> {
        let slots = Track::slots(metrics.workers());
        let before = Some((metrics.counts(), dropped));
        let now = clock::now();
        for track in metrics.tracks() {
            // Discards requests that an earlier capture has left in the queue.
            read(track).for_each(drop);
            track.ended.get_or_init(|| ArrayQueue::new(slots));
            track.missed.store(0, Relaxed);
            track.captures.store(true, Relaxed);
        }
        let captured = Captured { from: now, ..Captured::default() };
        Capture { metrics, until: now.plus(seconds), before, captured }
    }

    /// Reads the requests that have ended since the last call, and returns whether the capture is
    /// over. Call it often, because the queue of a busy worker holds little more than 20 ms of
    /// requests. `oldest` returns the arrival time of the oldest unfinished request. `dropped`
    /// returns the number of datagrams that the kernel has dropped.
    pub fn look(&mut self, oldest: impl Fn() -> Option<Nanos>, dropped: impl Fn() -> Option<u64>) -> bool {
        let now = clock::now();
        if let Some((before, before_dropped)) = self.before.take_if(|_| now >= self.until) {
            let (after, captured) = (self.metrics.counts(), &mut self.captured);
            let malformed = |counts: &Counts| counts.ended[Fate::Malformed as usize];
            captured.malformed = malformed(&after) - malformed(&before);
            captured.kernel_dropped = dropped().zip(before_dropped).map_or(0, |(after, before)| after - before);
            captured.arrived = after.received - before.received + captured.kernel_dropped;
            // The capture is a little longer than planned, because arrivals are counted until now.
            self.until = now;
        }
        // Decided before the queues are read, so that the queues hold all requests that have ended
        // until then.
        let over =
            now >= self.until.plus(GRACE) || now >= self.until && oldest().is_none_or(|oldest| oldest >= self.until);
        let Captured { requests, from, not_served, no_room, .. } = &mut self.captured;
        let in_time = |ended: &Ended| (*from..self.until).contains(&ended.received_at);
        for ended in self.metrics.tracks().flat_map(read).filter(in_time) {
            match ended.served {
                false => *not_served += 1,
                true if requests.len() < REQUESTS_MAX => requests.push(ended),
                true => *no_room += 1,
            }
        }
        *no_room += self.metrics.tracks().map(|track| track.missed.swap(0, Relaxed)).sum::<u64>();
        over
    }

    /// Ends the capture and returns what it recorded.
    pub fn end(mut self) -> Captured {
        let mut captured = std::mem::take(&mut self.captured);
        captured.requests.sort_unstable_by_key(|ended| ended.came_at);
        captured
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        self.metrics.tracks().for_each(|track| track.captures.store(false, Relaxed));
    }
}

/// Takes the requests that a worker has recorded. Their number is bounded, because the worker may
/// continue to write.
fn read(track: &Track) -> impl Iterator<Item = Ended> {
    track.ended.get().into_iter().flat_map(|ended| iter::from_fn(|| ended.pop()).take(ended.capacity()))
}

impl Captured {
    /// When the capture began, or its first request arrived, whichever is earlier.
    pub fn from(&self) -> Nanos {
        self.requests.first().map_or(self.from, |first| self.from.min(first.came_at))
    }

    /// Number of arrivals that are missing in `requests`.
    pub fn left_out(&self) -> u64 {
        self.arrived.saturating_sub(self.requests.len() as u64)
    }
}

/// Writes how many arrivals were captured and left out, as the comments at the head of the trace.
impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured { arrived, not_served, malformed, kernel_dropped, no_room, .. } = *self;
        let known = not_served + malformed + kernel_dropped + no_room;
        let unfinished = self.left_out().saturating_sub(known);
        writeln!(f, "# {arrived} arrived, {} are below. Left out:", self.requests.len())?;
        writeln!(f, "# {not_served} not served, {malformed} malformed, {kernel_dropped} dropped by the kernel,")?;
        writeln!(f, "# {unfinished} not finished in time, {no_room} without room in memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::CounterName;
    use crate::fate::Malformed;
    use crate::window::Sample;
    use forebay_clock::virtual_time;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    // Is every arrival captured, or counted as left out with its reason? Method: two workers end
    // requests before, during and after a capture.
    #[test]
    fn each_arrival_is_captured_or_counted() {
        let metrics = WorkerMetrics::new(2);
        let mut recorders = [metrics.recorder(0), metrics.recorder(1)];
        let ended = |at: u64, served| Ended {
            came_at: US(at - 5),
            received_at: US(at),
            service: US(1 << 40),
            class: 255,
            socket: u16::MAX,
            served,
            ..Ended::default()
        };
        assert!(!recorders[0].flight.captures(), "none is on");
        recorders[0].received(1);
        virtual_time::set(Some(US(1_000)));
        let mut capture = Capture::begin(&metrics, US(1_000), Some(4));
        assert!(recorders.iter().all(|recorder| recorder.flight.captures()));
        recorders[0].flight.capture(&ended(900, true), "a", 7);
        recorders[0].received(5);
        recorders[0].flight.capture(&ended(1_002, true), "a", 7);
        recorders[1].flight.capture(&ended(1_001, true), "b", 7);
        recorders[1].flight.capture(&ended(1_003, true), "a", 7);
        virtual_time::set(Some(US(1_500)));
        assert!(!capture.look(|| None, || Some(9)));
        recorders[1].flight.capture(&ended(1_600, false), "a", 7);
        recorders[1].count(CounterName::Malformed(Malformed::Magic));
        recorders[1].received(1);
        virtual_time::set(Some(US(2_100)));
        assert!(!capture.look(|| Some(US(1_900)), || Some(6)), "one that came in time has not ended");
        recorders[1].received(1);
        recorders[1].served(&Sample::default(), Fate::Answered);
        recorders[1].flight.capture(&ended(2_500, true), "a", 7);
        virtual_time::set(Some(US(2_600)));
        assert!(capture.look(|| Some(US(2_100)), || Some(9)));
        virtual_time::set(None);
        let captured = capture.end();
        assert!(!recorders[0].flight.captures(), "it is over");
        let expected = "# 8 arrived, 3 are below. Left out:\n# 1 not served, 1 malformed, 2 dropped by the kernel,\n\
                        # 1 not finished in time, 0 without room in memory\n";
        assert_eq!(captured.to_string(), expected);
        let same = [1_001, 1_002, 1_003].map(|at| ended(at, true));
        let requests: Vec<_> = captured.requests.iter().map(|ended| Ended { flow: 0, source: 0, ..*ended }).collect();
        assert_eq!((captured.from(), &requests[..]), (US(996), &same[..]));
        let [_, one, other] = captured.requests[..] else { unreachable!("there are three") };
        assert_eq!((captured.left_out(), one.flow), (5, other.flow), "one flow has one number, whatever its worker");
        assert_eq!(one.source, other.source, "and so has one network");
    }

    // Does a capture count the requests that it had no room for?
    #[test]
    fn what_finds_no_room_is_counted() {
        let metrics = WorkerMetrics::new(1_024);
        let mut recorder = metrics.recorder(0);
        virtual_time::set(Some(US(1)));
        let mut capture = Capture::begin(&metrics, US(10), None);
        let ended = Ended { received_at: US(2), served: true, ..Ended::default() };
        recorder.received(1_500);
        (0..1_500).for_each(|_| recorder.flight.capture(&ended, "a", 7));
        virtual_time::set(Some(US(20)));
        assert!(capture.look(|| None, || None));
        virtual_time::set(None);
        let text = capture.end().to_string();
        assert!(text.contains("1500 arrived, 1024 are below") && text.contains("476 without room"), "{text}");
    }
}
