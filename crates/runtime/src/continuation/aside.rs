//! How long a request waits for its work aside: for a helper, and while the helper does the work.
//!
//! A request may wait for several pieces of work at once, and run between them. So times count only
//! while the request is away from its worker, and only once. The future that waits for a piece
//! looks at the piece's times whenever it is polled or dropped. What a worker tells it before the
//! poll, and takes from it afterwards, is thread-local, as in `context.rs`.

use super::context;
use super::helpers::{Piece, Times};
use crate::time::Nanos;
use std::cell::Cell;
use std::sync::Arc;
use std::task::Poll;

/// The time of a request for work aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    /// How long its work waited for a helper.
    pub for_helper: Nanos,
    /// How long its work was on a helper.
    pub on_helper: Nanos,
    /// The part of `on_helper` in which the helper had a CPU.
    pub cpu: Nanos,
}

impl Aside {
    /// The sum of both, time by time.
    #[inline]
    pub fn plus(self, other: Aside) -> Aside {
        Aside {
            for_helper: self.for_helper.plus(other.for_helper),
            on_helper: self.on_helper.plus(other.on_helper),
            cpu: self.cpu.plus(other.cpu),
        }
    }

    /// All of the time.
    pub fn whole(&self) -> Nanos {
        self.for_helper.plus(self.on_helper)
    }

    /// The time of a piece between `from` and `until`. If that is a part of its time on a helper,
    /// it has the same part of the piece's CPU time.
    fn of(times: Times, from: Nanos, until: Nanos) -> Aside {
        let Times { queued_at, began_at, ended_at, cpu } = times;
        let overlap = |begin: Nanos, end: Nanos| end.min(until).minus(begin.max(from));
        let for_helper = overlap(queued_at, began_at.unwrap_or(until));
        let Some(began_at) = began_at else { return Aside { for_helper, ..Aside::default() } };
        let ended_at = ended_at.unwrap_or(until);
        let (on_helper, whole) = (overlap(began_at, ended_at), ended_at.minus(began_at));
        let share = on_helper.get() as f64 / whole.get().max(1) as f64;
        let cpu = Nanos::new((cpu.get() as f64 * share) as u64).min(on_helper);
        Aside { for_helper, on_helper, cpu }
    }
}

/// A time in which the request that is polled was away from its worker, as far as it is not
/// attributed yet. Outside of a poll after such a time it is empty.
#[derive(Clone, Copy, Default)]
struct Away {
    from: Nanos,
    until: Nanos,
    aside: Aside,
}

thread_local! {
    static AWAY: Cell<Away> = const { Cell::new(Away { from: Nanos::ZERO, until: Nanos::ZERO, aside: NONE }) };
}

const NONE: Aside = Aside { for_helper: Nanos::ZERO, on_helper: Nanos::ZERO, cpu: Nanos::ZERO };

/// For the poll of a request that was away between `from` and `until`: call [`came_back`] after it.
#[inline]
pub fn was_away(from: Nanos, until: Nanos) {
    AWAY.set(Away { from, until, aside: NONE });
}

/// The part of the time since [`was_away`] in which the request waited for work aside.
#[inline]
pub fn came_back() -> Aside {
    AWAY.take().aside
}

/// A future's wait for a piece of work.
pub(crate) struct Waits(pub Arc<Piece>);

impl Waits {
    /// Counts the time of the piece, which `polled` says has ended or not. If it has not, the
    /// worker learns that the request waits for it.
    pub(crate) fn look<T>(&self, polled: Poll<T>) -> Poll<T> {
        self.count();
        if polled.is_pending() {
            context::aside_pauses(self.0.place());
        }
        polled
    }

    fn count(&self) {
        let Away { from, until, aside } = AWAY.get();
        if until > from {
            let times = self.0.times();
            let from_now = times.ended_at.unwrap_or(until).clamp(from, until);
            AWAY.set(Away { from: from_now, until, aside: aside.plus(Aside::of(times, from, until)) });
        }
    }
}

impl Drop for Waits {
    // A future that gives up its wait was away too.
    fn drop(&mut self) {
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `poll` counts of a request that was away between `from` and `until`.
    fn after(from: Nanos, until: Nanos, poll: impl FnOnce()) -> Aside {
        was_away(from, until);
        poll();
        came_back()
    }

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn aside(for_helper: u64, on_helper: u64, cpu: u64) -> Aside {
        Aside { for_helper: MS(for_helper), on_helper: MS(on_helper), cpu: MS(cpu) }
    }

    // Is a piece's time divided into its wait and its run, within the time in which the request was
    // away?
    #[test]
    fn a_wait_and_a_run_are_told_apart() {
        let times = |began: Option<u64>, ended: Option<u64>| Times {
            queued_at: MS(100),
            began_at: began.map(MS),
            ended_at: ended.map(MS),
            cpu: MS(30),
        };
        let of = |times, from, until| Aside::of(times, MS(from), MS(until));
        assert_eq!(of(times(None, None), 100, 190), aside(90, 0, 0), "it has not begun");
        assert_eq!(of(times(Some(140), None), 100, 200), aside(40, 60, 30), "it runs");
        assert_eq!(of(times(Some(140), Some(200)), 110, 230), aside(30, 60, 30), "it waits for its worker from 200 on");
        assert_eq!(of(times(Some(140), Some(200)), 180, 230), aside(0, 20, 10), "it was at its worker until 180");
        assert_eq!(of(times(Some(140), Some(200)), 210, 230), aside(0, 0, 0), "the worker was late");
        assert_eq!(of(times(Some(140), Some(150)), 100, 230).cpu, MS(10), "no more than it was there");
    }

    // If a request waits for two pieces at once, does each time count once? Does nothing count for
    // a request that was not away, or after the poll?
    #[test]
    fn two_pieces_at_once_are_counted_once() {
        let piece = |queued, began, ended| {
            Waits(Arc::new(Piece::of(Times {
                queued_at: MS(queued),
                began_at: Some(MS(began)),
                ended_at: Some(MS(ended)),
                cpu: MS(0),
            })))
        };
        let (one, other) = (piece(100, 110, 160), piece(100, 120, 180));
        let look = || [&one, &other, &one].iter().for_each(|waits| _ = waits.look(Poll::Ready(())));
        let both = after(MS(100), MS(200), look);
        assert_eq!(both, aside(10, 70, 0), "of 100 to 180");
        look();
        assert_eq!(after(MS(100), MS(200), || ()), NONE);
        assert_eq!(after(Nanos::ZERO, Nanos::ZERO, look), NONE);
        assert_eq!(after(MS(100), MS(200), || drop((one, other))), both, "given up");
    }
}
