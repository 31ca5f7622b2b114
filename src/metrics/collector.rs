//! The control thread's side of the board: asks for ledgers, sums them up, and answers what was measured.

use super::Stage;
use super::board::Board;
use super::distribution::Distribution;
use super::ledger::{Ledger, Totals};
use super::measured::Measured;
use super::ring::Ring;
use super::snapshot::{Gauges, Recent, Snapshot};
use crate::time::{Nanos, clock};
use std::thread;

/// How long one [`Collector::collect`] waits for workers to hand over. A worker between two turns of its loop takes
/// microseconds; one in a long job is late, and a scrape that waited for it would miss its own 100 ms.
const PATIENCE: Nanos = Nanos::from_millis(20);

/// The first pause while waiting, doubled up to [`LONGEST_PAUSE`]: a woken worker needs about this long.
const FIRST_PAUSE: Nanos = Nanos::from_micros(50);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(2);

/// Gathers what the workers of one [`Board`] measured. Owned by one thread; a board has one collector.
#[derive(Debug)]
pub struct Collector<'b> {
    board: &'b Board,
    asked: Vec<Asked>,
    /// The sum of the ledgers picked up in one go: adding histograms of one shape is cheap, sorting out their bins is
    /// not.
    gathered: Ledger,
    since_start: Totals,
    began: Nanos,
    /// On the real-time clock: no two servers on one address have the same.
    start_time: Nanos,
    seconds: Ring,
    tens: Ring,
}

/// What the collector knows of one worker.
#[derive(Debug, Default)]
struct Asked {
    /// The ledger to offer next; `None` while the worker has it and owes its own.
    spare: Option<Box<Ledger>>,
    /// The worker's count of entries when it was last asked. Read before the question, so that an entry made in
    /// between leads to one question too many and never to one too few.
    recorded: u64,
}

impl<'b> Collector<'b> {
    /// The collector of `board`.
    pub fn new(board: &'b Board) -> Collector<'b> {
        Collector {
            board,
            asked: (0..board.recorders()).map(|_| Asked { spare: Some(Box::default()), recorded: 0 }).collect(),
            gathered: Ledger::default(),
            since_start: Totals::default(),
            began: clock::now(),
            start_time: clock::realtime(),
            seconds: Ring::new(10, Nanos::from_secs(1)),
            tens: Ring::new(6, Nanos::from_secs(10)),
        }
    }

    /// Asks every worker that measured something for its ledger, calls `wake` with the number of each (a sleeping
    /// worker hands nothing over), and gathers what comes within 20 ms; the rest is gathered next time. To be called
    /// once per second, so that the windows are right, and before a [`Collector::snapshot`]. On an idle server it asks
    /// nobody and wakes nobody.
    ///
    /// Once all recorders are dropped, it gathers everything there is without waiting.
    pub fn collect(&mut self, wake: impl Fn(usize)) {
        for worker in 0..self.asked.len() {
            self.pick_up(worker);
            if self.ask(worker) {
                wake(worker);
            }
        }
        self.wait();
        self.fold(clock::now());
    }

    /// The counters now, and the distributions as of the last [`Collector::collect`]: those may lack the latest entries
    /// of workers that were late, so that an answered request can be in the fates and not yet in a distribution.
    pub fn snapshot(&self, gauges: Gauges) -> Snapshot {
        let now = clock::now();
        let counts = self.board.counts();
        let since_start = Measured::from(&self.since_start);
        let windows = [self.seconds.last(now), self.tens.last(now)];
        Snapshot::new(gauges, self.start_time, counts, since_start, windows.each_ref())
    }

    /// Service times of the last seconds, as of the last [`Collector::collect`].
    pub fn recent(&self) -> Recent {
        let now = clock::now();
        let measured = self.seconds.last_of(now, &[Stage::Service]);
        let services = measured.classes.iter().map(|class| &class.stages[Stage::Service as usize]);
        let spent = Nanos::new(services.clone().map(Distribution::sum).sum());
        let span = self.seconds.covered(now).min(now.minus(self.began));
        Recent {
            service_times: services
                .flat_map(Distribution::values)
                .map(|(time, count)| (Nanos::new(time), count))
                .collect(),
            by_class: std::array::from_fn(|class| {
                let service = &measured.classes[class].stages[Stage::Service as usize];
                (service.count(), Nanos::new(service.sum()))
            }),
            busy_workers: spent.as_secs_f64() / span.as_secs_f64().max(f64::MIN_POSITIVE),
        }
    }

    /// Offers the worker an empty ledger if it has something to give, can still answer and owes nothing.
    fn ask(&mut self, worker: usize) -> bool {
        let asked = &mut self.asked[worker];
        let recorded = self.board.recorded(worker);
        let mailbox = self.board.mailbox(worker);
        if recorded == asked.recorded || mailbox.is_gone() {
            return false;
        }
        // One that still owes an answer was woken when it was asked, and hands over before it sleeps.
        let Some(empty) = asked.spare.take() else { return false };
        asked.recorded = recorded;
        mailbox.ask(empty);
        true
    }

    /// Picks up what comes until nobody owes anything or patience ends.
    fn wait(&mut self) {
        let deadline = clock::now().plus(PATIENCE);
        let mut pause = FIRST_PAUSE;
        loop {
            let owing = (0..self.asked.len()).filter(|worker| !self.pick_up(*worker)).count();
            if owing == 0 || clock::now() >= deadline {
                break;
            }
            thread::sleep(pause.into());
            pause = pause.times(2).min(LONGEST_PAUSE);
        }
    }

    /// Takes what the worker laid out; true if it owes nothing more.
    fn pick_up(&mut self, worker: usize) -> bool {
        let mailbox = self.board.mailbox(worker);
        let asked = &mut self.asked[worker];
        // Before the mailbox is emptied: who is gone by now has laid out everything.
        let gone = mailbox.is_gone();
        while let Some(mut full) = mailbox.pick_up() {
            self.gathered.add(&full);
            full.reset();
            asked.spare = Some(full);
        }
        if gone && asked.spare.is_none() {
            asked.spare = mailbox.take_back();
        }
        asked.spare.is_some()
    }

    /// Moves what was gathered into the totals and windows.
    fn fold(&mut self, now: Nanos) {
        if self.gathered.is_empty() {
            return;
        }
        let measured = Measured::from(&self.gathered);
        self.gathered.reset();
        self.since_start.absorb(&measured);
        self.seconds.add(now, &measured);
        self.tens.add(now, &measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Recorder, Sample};
    use std::cell::{Cell, RefCell};

    fn sample(class: u8, service_us: u64) -> Sample {
        Sample { class, service: Nanos::from_micros(service_us), ..Sample::default() }
    }

    fn in_total(collector: &Collector<'_>, class: usize) -> u64 {
        collector.since_start.class(class).map_or(0, |class| class.slowdown.histogram.len())
    }

    /// Is every sample counted exactly once, whatever the interleaving of recording, asking and stopping?
    /// Method: two workers record and hand over as fast as they can while the control thread collects all the time.
    #[test]
    fn nothing_is_lost_and_nothing_counted_twice() {
        const SAMPLES: u64 = 30_000;
        let board = Board::new(2);
        let mut collector = Collector::new(&board);
        std::thread::scope(|scope| {
            let work = |mut recorder: Recorder<'_>, class| {
                for number in 0..SAMPLES {
                    recorder.answered(&sample(class, number % 100 + 1));
                    recorder.hand_over();
                }
            };
            let workers = [0, 1].map(|class: u8| {
                let recorder = board.recorder(usize::from(class));
                scope.spawn(move || work(recorder, class))
            });
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                collector.collect(|_| ());
                assert!(in_total(&collector, 0) <= SAMPLES);
            }
        });
        collector.collect(|_| ());
        assert_eq!([in_total(&collector, 0), in_total(&collector, 1)], [SAMPLES; 2]);
        let exact: u64 = (0..SAMPLES).map(|number| (number % 100 + 1) * 1_000).sum();
        assert_eq!(collector.since_start.class(0).expect("samples").stages[0].sum, exact);
    }

    /// Does the wake reach a worker that has something and sleeps, and no other?
    #[test]
    fn only_workers_with_news_are_woken() {
        let board = Board::new(2);
        let mut collector = Collector::new(&board);
        let sleeper = RefCell::new(board.recorder(1));
        sleeper.borrow_mut().answered(&sample(0, 5));
        let woken = Cell::new(0);
        let wake = |worker| {
            assert_eq!(worker, 1);
            woken.set(woken.get() + 1);
            sleeper.borrow_mut().hand_over();
        };
        collector.collect(wake);
        assert_eq!((in_total(&collector, 0), woken.get()), (1, 1));
        collector.collect(wake);
        assert_eq!(woken.get(), 1, "nothing new, nobody asked");
    }

    /// Does a worker that is late delay nothing but its own ledger?
    #[test]
    fn a_late_ledger_is_picked_up_next_time() {
        let board = Board::new(2);
        let mut collector = Collector::new(&board);
        let (mut late, mut prompt) = (board.recorder(0), board.recorder(1));
        late.answered(&sample(0, 5));
        prompt.answered(&sample(1, 5));
        let prompt = RefCell::new(prompt);
        let wake = |worker| {
            if worker == 1 {
                prompt.borrow_mut().hand_over();
            }
        };
        collector.collect(wake);
        assert_eq!([in_total(&collector, 0), in_total(&collector, 1)], [0, 1]);
        late.answered(&sample(0, 5));
        late.hand_over();
        late.answered(&sample(0, 5));
        collector.collect(wake);
        assert_eq!(in_total(&collector, 0), 2, "the third entry is in the new ledger");
        drop(late);
        collector.collect(wake);
        assert_eq!(in_total(&collector, 0), 3);
    }

    /// Does a worker that stops with a question open leave everything, and is the control thread not kept waiting?
    #[test]
    fn a_stopped_worker_leaves_its_last_ledger() {
        let board = Board::new(1);
        let mut collector = Collector::new(&board);
        let mut recorder = board.recorder(0);
        recorder.answered(&sample(0, 5));
        collector.collect(|_| ());
        assert_eq!(in_total(&collector, 0), 0, "the worker did not answer");
        recorder.answered(&sample(0, 5));
        drop(recorder);
        collector.collect(|_| panic!("nobody is left to wake"));
        assert_eq!(in_total(&collector, 0), 2);
        assert!(collector.asked[0].spare.is_some(), "the question was taken back");
    }
}
