//! What is shed if a neighbour, or a quota, takes the CPU of workers again and again?

use super::*;
use std::collections::VecDeque;

/// What a thread has used until `now` that has its CPU for `on` ms at the start of each `period`.
fn in_pieces(now: Nanos, [on, period]: [u64; 2]) -> ThreadUse {
    let whole = now.get() / MS(period).get();
    worked(MS(on).times(whole).plus(now.minus(MS(period).times(whole)).min(MS(on))))
}

/// Reads what a thread has used until a given time.
type Used = fn(Nanos) -> ThreadUse;

/// A worker, what its thread has used until a given time, and what waits for it.
struct Worker {
    shedding: Shedding,
    used: Used,
    now: Nanos,
    socket: VecDeque<Nanos>,
    deque: VecDeque<Stay>,
}

impl Worker {
    /// Works for `cpu`, as soon as there is a CPU; returns how long that took.
    fn work(&mut self, cpu: Nanos) -> Nanos {
        let (from, before) = (self.now, (self.used)(self.now).cpu);
        loop {
            let left = cpu.minus((self.used)(self.now).cpu.minus(before));
            if left == Nanos::ZERO {
                return self.now.minus(from);
            }
            self.now = self.now.plus(left.max(Nanos::from_micros(1)));
        }
    }
}

/// Requests that come to workers, each to the next socket.
struct Offer {
    per_second: u64,
    cost: Nanos,
    /// Whether workers take from one another, or serve their own socket only.
    shared: bool,
}

/// What became of the requests: when each came, and the wait of each that was answered.
type Ends = Vec<(Nanos, Option<Nanos>)>;

impl Offer {
    /// Serves the offer for ten seconds with workers whose threads have used this. The limits
    /// follow what is measured.
    fn serve(&self, threads: &[Used]) -> Ends {
        let shedding = Shedding::new(threads.len(), threads.len(), 1_024, false);
        let new = |used: &Used| Worker {
            shedding: shedding.clone().with_cpu(*used),
            used: *used,
            now: Nanos::ZERO,
            socket: VecDeque::new(),
            deque: VecDeque::new(),
        };
        let mut workers: Vec<Worker> = threads.iter().map(new).collect();
        let mut arrivals = (0..10 * self.per_second).map(|k| MS(1_000 * k / self.per_second)).enumerate().peekable();
        let (mut ends, mut took, mut limits) = (Ends::new(), Vec::new(), WaitLimits::unmeasured(MaxWait::Auto));
        loop {
            let me = (0..workers.len()).min_by_key(|id| workers[*id].now).expect("there are some");
            let now = workers[me].now;
            while let Some((number, came)) = arrivals.next_if(|(_, came)| *came <= now) {
                workers[number % threads.len()].socket.push_back(came);
            }
            if arrivals.peek().is_none()
                && workers.iter().all(|worker| worker.socket.is_empty() && worker.deque.is_empty())
            {
                return ends;
            }
            if took.len() % 100 == 99 {
                let times = ServiceTimes::new(took.iter().rev().take(1_000).map(|took| (*took, 1)));
                limits = queues(MaxWait::Auto, &times, None).unwrap_or(limits);
            }
            self.turn(&mut workers, me, &limits, &mut ends, &mut took);
        }
    }

    /// Lets the worker `me` receive a batch, run a request, or rest.
    fn turn(&self, workers: &mut [Worker], me: usize, limits: &WaitLimits, ends: &mut Ends, took: &mut Vec<Nanos>) {
        let mine = |of: &dyn Fn(&Worker) -> bool| {
            let others = (0..workers.len()).filter(|_| self.shared);
            [me].into_iter().chain(others).find(|id| !of(&workers[*id]))
        };
        let (jobs, socket) = (mine(&|worker| worker.deque.is_empty()), mine(&|worker| worker.socket.is_empty()));
        if let Some(owner) = jobs {
            let mut stay = workers[owner].deque.pop_front().expect("there is one");
            let worker = &mut workers[me];
            if worker.shedding.on_begin(&stay, 0, owner, worker.now, || (0, false), limits).is_some() {
                return ends.push((stay.came_at, None));
            }
            let ran = worker.work(self.cost);
            stay.service = worker.shedding.worked(ran, worker.now);
            worker.shedding.on_end(&stay, worker.now);
            took.push(stay.service);
            ends.push((stay.came_at, Some(worker.now.minus(stay.came_at))));
        } else if let Some(owner) = socket {
            let batch = workers[owner].socket.len().min(32);
            let came: Vec<Nanos> = workers[owner].socket.drain(..batch).collect();
            let worker = &mut workers[me];
            worker.work(Nanos::from_micros(2).times(batch as u64));
            for came_at in came {
                if worker.shedding.is_old(owner, worker.now, came_at, limits) {
                    ends.push((came_at, None));
                    continue;
                }
                let mut stay = Stay::new(came_at);
                stay.start_by = worker.shedding.start_by(&stay, 0, limits);
                worker.deque.push_back(stay);
            }
        } else {
            let worker = &mut workers[me];
            worker.shedding.on_rest(worker.now);
            worker.now = worker.now.plus(Nanos::from_micros(500));
            // It wakes once it has a CPU.
            worker.work(Nanos::from_micros(1));
        }
    }
}

/// A thread that always has its CPU, beside one that rarely has.
const STARVED: [Used; 2] = [worked, |now| in_pieces(now, [10, 200])];
/// Two threads that rarely have their CPUs.
const BOTH: [Used; 2] = [|now| in_pieces(now.plus(MS(150)), [4, 300]), |now| in_pieces(now, [4, 400])];
/// A thread under a quota of 20 %, in periods of four lengths.
const QUOTA: [[Used; 1]; 4] = [
    [|now| in_pieces(now, [2, 10])],
    [|now| in_pieces(now, [20, 100])],
    [|now| in_pieces(now, [40, 200])],
    [|now| in_pieces(now, [100, 500])],
];

// A neighbour leaves a worker, or each of them, few pieces of its CPU. Is nothing shed at a load of
// .004?
#[test]
fn a_worker_with_few_pieces_of_its_cpu_sheds_nothing() {
    for (threads, shared) in [(STARVED, true), (STARVED, false), (BOTH, true), (BOTH, false)] {
        let ends = Offer { per_second: 200, cost: Nanos::from_micros(20), shared }.serve(&threads);
        let shed = ends.iter().filter(|(_, wait)| wait.is_none()).count();
        assert_eq!((shed, ends.len()), (0, 2_000), "shared: {shared}");
    }
}

// Twice as much comes as the workers have CPU time for, because a quota or a neighbour takes it. Is
// at least half of what they have time for answered before the client leaves, in each second?
// This needs two rules. Absences must not prolong the time that clients wait, and a time without a
// CPU must not count as service.
#[test]
fn what_fits_into_pieces_of_a_cpu_is_served_in_time() {
    let quota = QUOTA.iter().map(|one| (&one[..], MS(1), true));
    let others = [(&QUOTA[1][..], Nanos::from_micros(200), true), (&BOTH[..], Nanos::from_micros(100), true)];
    for (case, (threads, cost, shared)) in quota.chain(others).enumerate() {
        let had: u64 = threads.iter().map(|used| used(MS(12_000)).cpu.get() / 12).sum();
        let fits = had / cost.get();
        let ends = Offer { per_second: 2 * fits, cost, shared }.serve(threads);
        let in_time = [1, 2, 3, 4, 5, 6, 7, 8].map(|second| {
            let of_second = |came: &Nanos| *came >= MS(1_000 * second) && *came < MS(1_000 * (second + 1));
            ends.iter().filter(|(came, wait)| of_second(came) && wait.is_some_and(|wait| wait < MS(1_000))).count()
                as u64
        });
        assert!(in_time.iter().all(|count| count * 2 >= fits), "{case}: {in_time:?} of {fits}");
    }
}

// Twice the capacity comes, and a neighbour leaves one of two workers few pieces of its CPU. Are
// the answered requests young, and does no worker run out of work?
#[test]
fn overload_beside_a_worker_with_few_pieces_of_its_cpu_is_shed() {
    let ends = Offer { per_second: 2_000, cost: MS(1), shared: true }.serve(&STARVED);
    let late = ends.iter().filter(|(came, _)| *came >= MS(2_000));
    let waits: Vec<Nanos> = late.filter_map(|(_, wait)| *wait).collect();
    let old = waits.iter().filter(|wait| **wait > MS(300)).count();
    assert!(waits.len() > 8_000, "{} in eight seconds", waits.len());
    assert!(old * 100 < waits.len(), "{old} of {} waited longer than 300 ms", waits.len());
}

// Is the time in which a worker rested or had no CPU left out of the wait?
#[test]
fn nobody_waits_while_there_is_no_cpu() {
    // The thread had the CPU except between 1 s and 2 s.
    let mut absence = Absence::new(|now| worked(now.min(MS(1_000)).plus(now.minus(MS(2_000)))));
    absence.look(MS(990));
    assert_eq!(absence.since(MS(0)), MS(0));
    absence.look(MS(2_010));
    assert_eq!([0, 1_400, 2_010].map(|time| absence.since(MS(time))), [1_000, 610, 0].map(MS));
    let mut absence = Absence::new(|now| worked(now.minus(if now < MS(1_500) { MS(1_000) } else { MS(1_020) })));
    absence.look(MS(1_000));
    absence.look(MS(1_600));
    assert_eq!(absence.since(MS(0)), MS(1_000), "a short one after it counts as a wait");
    absence.look(MS(2_010));
    assert_eq!(absence.since(MS(0)), MS(1_000), "there was none");
    // A short absence shortly before a long one does not change waits in between.
    let mut absence = Absence::new(|now| worked(now.minus(if now < MS(1_000) { MS(20) } else { MS(620) })));
    absence.look(MS(500));
    absence.look(MS(1_200));
    assert_eq!([0, 600].map(|time| absence.since(MS(time))), [600, 600].map(MS));
    let mut absence = present();
    absence.on_rest(MS(100));
    absence.look(MS(600));
    assert_eq!([0, 400, 700].map(|time| absence.since(MS(time))), [500, 200, 0].map(MS));
    // Through the whole rule: after a second without a CPU everything is served, and later overload
    // is shed.
    let limits = auto(&[(1_000, 100)]);
    let mut shedding = Shedding::new(1, 1, 1_024, false).with_cpu(|now| worked(now.minus(MS(1_000))));
    assert!((0..800).all(|ms| !shedding.is_old(0, MS(1_000 + ms), MS(2 * ms), &limits)));
    assert!((1_800..3_000).any(|ms| shedding.is_old(0, MS(ms), MS(1_600), &limits)), "it stands");
}
