//! A capture: arrivals as the server saw them, for `GET /capture`. Workers write one record for each request that ends while a
//! capture is on, and read one flag for each request while none is.

use super::ring::Ring;
use crate::time::Nanos;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// An arrival whose request has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub came_at: Nanos,
    pub received_at: Nanos,
    /// The CPU time in the handler.
    pub service: Nanos,
    pub class: u8,
    /// The number of the socket that it came to.
    pub socket: u16,
    /// Whether it was served to the end: otherwise `service` says less than what it would have cost.
    pub served: bool,
}

impl Ended {
    fn words(&self, flow: u16) -> [u64; 4] {
        let Ended { came_at, received_at, service, class, socket, served } = *self;
        let flow = u64::from(flow) << 32 | u64::from(socket) << 16 | u64::from(class) << 8 | u64::from(served);
        [came_at.get(), received_at.get(), service.get(), flow]
    }

    #[cfg(feature = "admin")]
    fn of([came_at, received_at, service, mixed]: [u64; 4]) -> (Ended, u16) {
        let [came_at, received_at, service] = [came_at, received_at, service].map(Nanos::new);
        let [served, class, ..] = mixed.to_le_bytes();
        let (socket, served) = ((mixed >> 16) as u16, served > 0);
        (Ended { came_at, received_at, service, class, socket, served }, (mixed >> 32) as u16)
    }
}

/// Where one worker writes what ended. The memory is taken by the first capture, and stays.
#[derive(Debug)]
pub(super) struct Tape {
    // Ordering: relaxed. A worker that sees the flag late leaves out a request, which is then counted as left out.
    is_on: AtomicBool,
    ring: OnceLock<Ring<4>>,
    /// With the keys of this server, so that the number of a flow does not give its address away.
    hasher: RandomState,
}

impl Tape {
    pub(super) fn new(hasher: RandomState) -> Tape {
        Tape { is_on: AtomicBool::new(false), ring: OnceLock::new(), hasher }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Writes a request that came from `peer`. For the worker alone.
    #[cold]
    pub(super) fn write(&self, ended: &Ended, peer: impl Hash) {
        if let Some(ring) = self.ring.get() {
            ring.push(ended.words(self.hasher.hash_one(peer) as u16));
        }
    }

    #[cfg(feature = "admin")]
    fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }
}

#[cfg(feature = "admin")]
pub(crate) use reading::{Capture, Captured};

/// The control thread's side.
#[cfg(feature = "admin")]
mod reading {
    use super::{Ended, Ring, Tape};
    use crate::fate::Fate;
    use crate::metrics::{Track, WorkerMetrics};
    use crate::time::Nanos;
    use std::fmt;

    /// The most requests of one capture: 16 MiB, and twice as much as text.
    const REQUESTS_MAX: usize = 500_000;
    /// Requests that came in time have so long to end.
    const GRACE: Nanos = Nanos::from_secs(2);

    /// A capture under way. Workers stop to write when it is dropped.
    #[derive(Debug)]
    pub(crate) struct Capture<'m> {
        metrics: &'m WorkerMetrics,
        /// For each recorder, the number of the next record to read.
        next: Vec<u64>,
        until: Nanos,
        before: Came,
        /// What had come when its time was over.
        after: Option<Came>,
        captured: Captured,
    }

    /// Counters at one time.
    #[derive(Clone, Copy, Debug)]
    struct Came {
        received: u64,
        malformed: u64,
        dropped: Option<u64>,
    }

    impl Came {
        fn read(metrics: &WorkerMetrics, dropped: Option<u64>) -> Came {
            let counts = metrics.counts();
            Came { received: counts.received, malformed: counts.ended[Fate::Malformed as usize], dropped }
        }
    }

    /// The arrivals of a capture. Each is among the requests or among those left out.
    #[derive(Debug, Default)]
    pub(crate) struct Captured {
        requests: Vec<(Ended, u16)>,
        from: Nanos,
        arrived: u64,
        not_served: u64,
        malformed: u64,
        kernel_dropped: u64,
        no_room: u64,
    }

    impl<'m> Capture<'m> {
        /// Begins one of so many `seconds`, where the kernel has dropped so many datagrams.
        pub(crate) fn begin(
            metrics: &'m WorkerMetrics,
            seconds: Nanos,
            dropped: Option<u64>,
            clock: impl Fn() -> Nanos,
        ) -> Capture<'m> {
            let slots = Track::slots(metrics.workers());
            let next = tapes(metrics).map(|tape| tape.ring.get_or_init(|| Ring::new(slots)).written()).collect();
            let before = Came::read(metrics, dropped);
            let now = clock();
            tapes(metrics).for_each(|tape| tape.turn(true));
            let captured = Captured { from: now, ..Captured::default() };
            Capture { metrics, next, until: now.plus(seconds), before, after: None, captured }
        }

        /// Reads what ended since the last look. To be called often: the rings of busy workers hold little more than 20 ms.
        /// `oldest` says when the oldest request came that has not ended, and `dropped` how many datagrams the kernel has
        /// dropped. Returns whether the capture is over.
        pub(crate) fn look(
            &mut self,
            oldest: impl Fn() -> Option<Nanos>,
            dropped: impl Fn() -> Option<u64>,
            now: Nanos,
        ) -> bool {
            if now >= self.until && self.after.is_none() {
                self.after = Some(Came::read(self.metrics, dropped()));
                // What came since its time was over is counted too.
                self.until = now;
            }
            // Asked before the tapes are read: what has ended by now is on them.
            let over = now >= self.until.plus(GRACE)
                || now >= self.until && oldest().is_none_or(|oldest| oldest >= self.until);
            let Captured { requests, from, not_served, no_room, .. } = &mut self.captured;
            for (tape, next) in tapes(self.metrics).zip(&mut self.next) {
                let Some(ring) = tape.ring.get() else { continue };
                let (records, then) = ring.since(*next);
                *no_room += then - *next - records.len() as u64;
                *next = then;
                let in_time = |(ended, _): &(Ended, u16)| (*from..self.until).contains(&ended.received_at);
                for (ended, flow) in records.into_iter().map(Ended::of).filter(in_time) {
                    match ended.served {
                        false => *not_served += 1,
                        true if requests.len() < REQUESTS_MAX => requests.push((ended, flow)),
                        true => *no_room += 1,
                    }
                }
            }
            over
        }

        /// What was captured.
        pub(crate) fn end(mut self) -> Captured {
            let (before, after) = (self.before, self.after.unwrap_or(self.before));
            let mut captured = std::mem::take(&mut self.captured);
            captured.kernel_dropped = after.dropped.zip(before.dropped).map_or(0, |(after, before)| after - before);
            captured.malformed = after.malformed - before.malformed;
            captured.arrived = after.received - before.received + captured.kernel_dropped;
            captured.requests.sort_unstable_by_key(|(ended, _)| ended.came_at);
            captured
        }
    }

    impl Drop for Capture<'_> {
        fn drop(&mut self) {
            tapes(self.metrics).for_each(|tape| tape.turn(false));
        }
    }

    fn tapes(metrics: &WorkerMetrics) -> impl Iterator<Item = &Tape> {
        metrics.tracks().map(|track| &track.tape)
    }

    impl Captured {
        /// The requests, each with the number of its flow, in the order of their arrival.
        pub(crate) fn requests(&self) -> &[(Ended, u16)] {
            &self.requests
        }

        /// When it began, or when the first of its requests came, if that was earlier.
        pub(crate) fn from(&self) -> Nanos {
            self.requests.first().map_or(self.from, |(first, _)| self.from.min(first.came_at))
        }

        /// The number of arrivals that are not among the requests.
        pub(crate) fn left_out(&self) -> u64 {
            self.arrived.saturating_sub(self.requests.len() as u64)
        }
    }

    /// The account, as comments before a trace.
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
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use super::*;
    use crate::fate::{Fate, Malformed};
    use crate::metrics::{Counter, Sample, WorkerMetrics};

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    // Is every arrival in the capture or counted as left out, by its reason?
    // Method: two workers end requests before, in and after the time of a capture.
    #[test]
    fn each_arrival_is_captured_or_counted() {
        let metrics = WorkerMetrics::new(2);
        let mut recorders = [metrics.recorder(0), metrics.recorder(1)];
        let ended = |at: u64, served| Ended {
            came_at: US(at - 5),
            received_at: US(at),
            service: US(7_000),
            class: 1,
            socket: 1,
            served,
        };
        assert!(!recorders[0].flight.captures(), "none is on");
        recorders[0].received(1);
        let mut capture = Capture::begin(&metrics, US(1_000), Some(4), || US(1_000));
        assert!(recorders.iter().all(|recorder| recorder.flight.captures()));
        recorders[0].flight.capture(&ended(900, true), "a");
        recorders[0].received(5);
        recorders[0].flight.capture(&ended(1_002, true), "a");
        recorders[1].flight.capture(&ended(1_001, true), "b");
        recorders[1].flight.capture(&ended(1_003, true), "a");
        assert!(!capture.look(|| None, || Some(9), US(1_500)));
        recorders[1].flight.capture(&ended(1_600, false), "a");
        recorders[1].count(Counter::Malformed(Malformed::Magic));
        recorders[1].received(1);
        assert!(!capture.look(|| Some(US(1_900)), || Some(6), US(2_100)), "one that came in time has not ended");
        recorders[1].received(1);
        recorders[1].served(&Sample::default(), Fate::Answered);
        recorders[1].flight.capture(&ended(2_500, true), "a");
        assert!(capture.look(|| Some(US(2_100)), || Some(9), US(2_600)));
        let captured = capture.end();
        assert!(!recorders[0].flight.captures(), "it is over");
        let expected = "# 8 arrived, 3 are below. Left out:\n# 1 not served, 1 malformed, 2 dropped by the kernel,\n\
                        # 1 not finished in time, 0 without room in memory\n";
        assert_eq!(captured.to_string(), expected);
        let came: Vec<_> = captured.requests().iter().map(|(ended, _)| ended.came_at).collect();
        assert_eq!((captured.from(), came), (US(996), vec![US(996), US(997), US(998)]));
        let flows: Vec<u16> = captured.requests().iter().map(|(_, flow)| *flow).collect();
        assert_eq!((captured.left_out(), flows[1]), (5, flows[2]), "one flow has one number, whatever its worker");
    }

    // Does a capture say how many requests it had no room for?
    #[test]
    fn what_finds_no_room_is_counted() {
        let metrics = WorkerMetrics::new(1_024);
        let mut recorder = metrics.recorder(0);
        let mut capture = Capture::begin(&metrics, US(10), None, || US(1));
        let ended = Ended { received_at: US(2), served: true, ..Ended::default() };
        recorder.received(1_500);
        (0..1_500).for_each(|_| recorder.flight.capture(&ended, "a"));
        assert!(capture.look(|| None, || None, US(20)));
        let text = capture.end().to_string();
        assert!(text.contains("1500 arrived, 1024 are below") && text.contains("476 without room"), "{text}");
    }

    // Are words and records the same thing?
    #[test]
    fn records_come_back_as_they_were() {
        let ended = Ended {
            came_at: US(3),
            received_at: US(4),
            service: US(1 << 40),
            class: 255,
            socket: u16::MAX,
            served: true,
        };
        for ended in [ended, Ended { served: false, ..ended }] {
            assert_eq!(Ended::of(ended.words(u16::MAX)), (ended, u16::MAX));
        }
    }
}
