//! The ledger of work aside, for `/metrics`, `/slow` and `/readyz`. It has the pieces of work that
//! wait for a helper or run on one, and the CPU time of helpers.
//!
//! A piece has a place in the ledger from the time at which it is accepted until it ends. The
//! number of places is bounded, because the number of accepted pieces is.

use super::lock;
use crate::clock;
use crate::time::Nanos;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The ledger of one pool of helpers.
// Ordering: relaxed throughout, for figures that guard nothing. The lock of a piece's result
// orders its times for the request that takes the result.
pub struct Ledger {
    places: Mutex<Places>,
    /// The kernel's number of each helper's thread.
    threads: Mutex<Vec<i32>>,
    done: AtomicU64,
    refused: AtomicU64,
}

struct Places {
    pieces: Vec<Option<Arc<Piece>>>,
    free: Vec<u32>,
}

/// One piece of work, and its times.
#[derive(Debug, Default)]
pub struct Piece {
    /// Its place in the ledger, until it ends.
    place: u32,
    queued_at: Nanos,
    /// Nanoseconds; 0 = not yet.
    began_at: AtomicU64,
    ended_at: AtomicU64,
    /// The thread of the helper, once the piece has begun.
    thread: AtomicI32,
    /// The CPU time of that thread at the piece's start, in nanoseconds.
    cpu_before: AtomicU64,
    /// The CPU time of the piece, once it has ended.
    cpu: AtomicU64,
}

/// The times of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it was given to the pool.
    pub queued_at: Nanos,
    /// When a helper began it.
    pub began_at: Option<Nanos>,
    /// When it ended.
    pub ended_at: Option<Nanos>,
    /// The CPU time of the piece so far.
    pub cpu: Nanos,
}

/// The pool at one moment. Ages are zero if there is no such piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelpersState {
    /// Number of pieces that wait for a helper.
    pub waiting: usize,
    /// Number of pieces that helpers run.
    pub running: usize,
    /// How long the oldest waiting piece has waited.
    pub oldest_waiting: Nanos,
    /// How long the oldest running piece has run.
    pub oldest_running: Nanos,
    /// Number of pieces that have ended since the start of the process.
    pub done: u64,
    /// Number of pieces that were refused since the start of the process.
    pub refused: u64,
}

thread_local! {
    /// The number of this thread as the kernel counts; 0 on threads that are no helpers.
    static THREAD: Cell<i32> = const { Cell::new(0) };
}

impl Ledger {
    pub(super) const fn new() -> Ledger {
        let places = Mutex::new(Places { pieces: Vec::new(), free: Vec::new() });
        let (done, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Ledger { places, threads: Mutex::new(Vec::new()), done, refused }
    }

    /// Notes that the calling thread is a helper.
    pub(super) fn join(&self) {
        THREAD.set(gettid().as_raw());
        lock(&self.threads).push(THREAD.get());
    }

    /// Notes that a piece of work was not accepted.
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a piece of work that waits from now on. Who does it has the entry.
    pub(super) fn enter(&'static self) -> Entry {
        let mut places = lock(&self.places);
        let place = places.free.pop().unwrap_or(places.pieces.len() as u32);
        let piece = Arc::new(Piece { place, queued_at: clock::now(), ..Piece::default() });
        match places.pieces.get_mut(place as usize) {
            Some(free) => *free = Some(Arc::clone(&piece)),
            None => places.pieces.push(Some(Arc::clone(&piece))),
        }
        Entry { ledger: self, piece }
    }

    /// Calls `look` with the times of each piece.
    fn each(&self, mut look: impl FnMut(&Piece, Times)) {
        let places = lock(&self.places);
        places.pieces.iter().flatten().for_each(|piece| look(piece, piece.times()));
    }

    /// The pool at `now`.
    pub fn state(&self, now: Nanos) -> HelpersState {
        let (done, refused) = (self.done.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed));
        let mut state = HelpersState { done, refused, ..HelpersState::default() };
        self.each(|_, times| {
            let HelpersState { waiting, running, oldest_waiting, oldest_running, .. } = &mut state;
            let (count, oldest, since) = match times.began_at {
                None => (waiting, oldest_waiting, times.queued_at),
                Some(began_at) => (running, oldest_running, began_at),
            };
            (*count, *oldest) = (*count + 1, (*oldest).max(now.minus(since)));
        });
        state
    }

    /// The times of the piece in this place; `None` if it is free.
    pub fn times(&self, place: u32) -> Option<Times> {
        let places = lock(&self.places);
        places.pieces.get(place as usize)?.as_ref().map(|piece| piece.times())
    }

    /// The thread of each helper, and when it began the piece that it does now.
    pub fn helpers(&self) -> Vec<(i32, Option<Nanos>)> {
        let mut helpers: Vec<_> = lock(&self.threads).iter().map(|thread| (*thread, None)).collect();
        self.each(|piece, times| {
            let thread = piece.thread.load(Ordering::Relaxed);
            if let Some((_, began_at)) = helpers.iter_mut().find(|(helper, _)| *helper == thread) {
                *began_at = times.began_at;
            }
        });
        helpers
    }

    /// The CPU time of all helpers since their start; `None` if the kernel does not tell.
    pub fn cpu(&self) -> Option<Nanos> {
        lock(&self.threads)
            .iter()
            .map(|thread| of_thread(*thread))
            .try_fold(Nanos::ZERO, |sum, cpu| Some(sum.plus(cpu?)))
    }
}

impl Piece {
    /// Its place in the ledger, until it ends.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// A piece that was on a helper at these times.
    #[cfg(test)]
    pub fn of(Times { queued_at, began_at, ended_at, cpu }: Times) -> Piece {
        let time = |at: Option<Nanos>| AtomicU64::new(at.unwrap_or_default().get());
        let (began_at, ended_at, cpu) = (time(began_at), time(ended_at), time(Some(cpu)));
        Piece { queued_at, began_at, ended_at, cpu, ..Piece::default() }
    }

    /// Its times so far.
    pub fn times(&self) -> Times {
        let time = |at: &AtomicU64| Some(Nanos::new(at.load(Ordering::Relaxed))).filter(|at| *at > Nanos::ZERO);
        let (began_at, ended_at) = (time(&self.began_at), time(&self.ended_at));
        let of = |cpu: &AtomicU64| Nanos::new(cpu.load(Ordering::Relaxed));
        let cpu = match (began_at, ended_at) {
            (None, _) => Nanos::ZERO,
            (_, Some(_)) => of(&self.cpu),
            (_, None) => {
                let now = of_thread(self.thread.load(Ordering::Relaxed));
                now.map_or(Nanos::ZERO, |now| now.minus(of(&self.cpu_before)))
            }
        };
        Times { queued_at: self.queued_at, began_at, ended_at, cpu }
    }
}

/// The place of a piece of work, which is free again when this is dropped.
pub(super) struct Entry {
    ledger: &'static Ledger,
    pub(super) piece: Arc<Piece>,
}

impl Entry {
    /// Does the `work` of the piece on the calling thread, a helper.
    pub(super) fn work<R>(&self, work: impl FnOnce() -> R) -> R {
        let Piece { began_at, ended_at, thread, cpu_before, cpu, .. } = &*self.piece;
        let before = clock::of_thread();
        cpu_before.store(before.get(), Ordering::Relaxed);
        thread.store(THREAD.get(), Ordering::Relaxed);
        began_at.store(clock::now().get().max(1), Ordering::Relaxed);
        let made = work();
        cpu.store(clock::of_thread().minus(before).get(), Ordering::Relaxed);
        ended_at.store(clock::now().get().max(1), Ordering::Relaxed);
        self.ledger.done.fetch_add(1, Ordering::Relaxed);
        made
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut places = lock(&self.ledger.places);
        places.pieces[self.piece.place as usize] = None;
        places.free.push(self.piece.place);
    }
}

/// The CPU time of a thread of this process; `None` if there is no such thread.
fn of_thread(thread: i32) -> Option<Nanos> {
    // The kernel's own form of such a clock (`include/linux/posix-timers_types.h`). Above three
    // bits that say "of a thread" and "time on a CPU" is the inverted number of the thread.
    let clock = ClockId::from_raw(!thread << 3 | 6);
    clock_gettime(clock).ok().map(|time| Nanos::from(std::time::Duration::from(time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    // Do the ages and numbers of waiting and running pieces follow each piece, in places that are
    // used again? Is a refused piece only counted?
    #[test]
    fn each_piece_is_waiting_then_running_then_done() {
        static LEDGER: Ledger = Ledger::new();
        let at = |ms| clock::virtual_time::set(Some(MS(ms)));
        at(100);
        let first = LEDGER.enter();
        at(130);
        let second = LEDGER.enter();
        LEDGER.refuse();
        let state = HelpersState { waiting: 2, oldest_waiting: MS(100), refused: 1, ..HelpersState::default() };
        assert_eq!(LEDGER.state(MS(200)), state);
        assert_eq!(LEDGER.times(9), None);
        at(150);
        first.work(|| {
            let state =
                HelpersState { waiting: 1, running: 1, oldest_waiting: MS(70), oldest_running: MS(50), ..state };
            assert_eq!(LEDGER.state(MS(200)), state);
            at(170);
        });
        let times = LEDGER.times(first.piece.place).expect("it is there until its entry is dropped");
        assert_eq!((times.began_at, times.ended_at, times.cpu), (Some(MS(150)), Some(MS(170)), MS(20)));
        let place = first.piece.place;
        drop(first);
        assert_eq!((LEDGER.times(place), LEDGER.state(MS(200)).running), (None, 0));
        let third = LEDGER.enter();
        assert_eq!((third.piece.place, second.piece.place), (place, place + 1));
        drop((second, third));
        clock::virtual_time::set(None);
        assert_eq!(
            LEDGER.state(MS(200)),
            HelpersState { done: 1, refused: 1, ..HelpersState::default() },
            "two never began"
        );
    }

    // Is the CPU time of a helper known while it runs, and does it not grow while the helper waits?
    #[test]
    fn the_time_of_a_thread_is_read_from_another_one() {
        static LEDGER: Ledger = Ledger::new();
        assert_eq!((LEDGER.cpu(), LEDGER.helpers()), (Some(Nanos::ZERO), Vec::new()), "there is none yet");
        let (told, tells) = std::sync::mpsc::channel();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let helper = std::thread::spawn(move || {
            LEDGER.join();
            LEDGER.enter().work(|| {
                while clock::of_thread() < MS(20) {}
                told.send(clock::of_thread()).expect("the test waits");
                let _ = held.recv();
            });
        });
        let used = tells.recv().expect("it works");
        let cpu = LEDGER.cpu().expect("there is this thread");
        // Until it waits, it takes a little more.
        assert!(cpu >= used && cpu < used.plus(MS(10)), "{used} to {cpu}");
        let [(_, Some(began_at))] = LEDGER.helpers()[..] else { panic!("{:?}", LEDGER.helpers()) };
        let running = LEDGER.times(0).expect("it runs");
        let later = LEDGER.cpu().expect("there is this thread");
        assert!(running.began_at == Some(began_at) && running.cpu <= later && running.cpu >= MS(15), "{running:?}");
        drop(release);
        helper.join().expect("no panic");
        assert!(matches!(LEDGER.helpers()[..], [(_, None)]), "its work has ended");
        // The kernel forgets a thread that has ended a little later than it lets others join it.
        let until = clock::now().plus(MS(10_000));
        while LEDGER.cpu().is_some() {
            assert!(clock::now() < until, "the thread has ended, which helpers never do");
            std::thread::yield_now();
        }
    }
}
