//! The level of a request, as in a multilevel feedback queue. It follows from the CPU time that the
//! request has taken and, where policies may know it, from its class.

use crate::fate::CLASSES;
use crate::time::Nanos;
use arrayvec::ArrayVec;

/// Levels beside the first, at most: each adds two queues to a search that finds nothing.
pub const LIMITS_MAX: usize = 7;

/// The levels that a request comes to, the first one at once, the others as it has taken some CPU
/// time: both ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(ArrayVec<(Nanos, usize), { LIMITS_MAX + 1 }>);

impl Ladder {
    /// A request that is of this level from its begin to its end.
    pub fn new(level: usize) -> Ladder {
        Ladder(ArrayVec::from_iter([(Nanos::ZERO, level)]))
    }

    /// From the time `from` on a request is of `level`, if it was of a lower one.
    pub fn rise_to(&mut self, level: usize, from: Nanos) {
        if level > self.last() {
            self.0.push((from, level));
        }
    }

    /// The level of a fresh request.
    pub fn first(&self) -> usize {
        self.0[0].1
    }

    /// The level of a request that runs for ever.
    pub fn last(&self) -> usize {
        self.0[self.0.len() - 1].1
    }

    /// The level of a request that has taken this much CPU time.
    pub fn level(&self, attained: Nanos) -> usize {
        self.0.iter().rev().find(|(from, _)| *from <= attained).map_or(self.first(), |(_, level)| *level)
    }

    /// The CPU times from which on a request is of another level, ascending.
    pub fn limits(&self) -> impl Iterator<Item = Nanos> {
        self.0.iter().skip(1).map(|(from, _)| *from)
    }

    /// Whether `other` differs by no more than noise. Then a fresh request has the same level, and
    /// each limit of one ladder is near a limit of the other.
    fn is_like(&self, other: &Ladder) -> bool {
        let in_one = |from: &Ladder, to: &Ladder| from.limits().all(|a| to.limits().any(|b| a.is_near(b)));
        self.first() == other.first() && in_one(self, other) && in_one(other, self)
    }
}

/// Levels from 0 on, each of which begins at one of these CPU times.
impl FromIterator<Nanos> for Ladder {
    fn from_iter<T: IntoIterator<Item = Nanos>>(limits: T) -> Ladder {
        let mut ladder = Ladder::new(0);
        limits.into_iter().for_each(|limit| ladder.rise_to(ladder.last() + 1, limit));
        ladder
    }
}

/// The levels of requests of every class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladders {
    /// Those of a request whose class is not known.
    pub all: Ladder,
    /// Those of a request of each class, where classes are known.
    pub of_class: Option<Box<[Ladder; CLASSES]>>,
}

impl Ladders {
    /// The levels of requests whose classes are not known.
    pub fn blind(all: Ladder) -> Ladders {
        Ladders { all, of_class: None }
    }

    /// The levels of a request of `class`.
    pub fn of(&self, class: Option<u8>) -> &Ladder {
        match (class, &self.of_class) {
            (Some(class), Some(of_class)) => &of_class[usize::from(class)],
            _ => &self.all,
        }
    }

    /// The highest level that there is.
    pub fn last(&self) -> usize {
        let of_class = self.of_class.iter().flat_map(|of_class| of_class.iter());
        of_class.map(Ladder::last).fold(self.all.last(), usize::max)
    }

    /// The CPU time from which on requests of unknown class give way; `None` = never.
    pub fn first_limit(&self) -> Option<Nanos> {
        self.all.limits().next()
    }

    /// Whether `other` differs by no more than noise.
    pub fn are_like(&self, other: &Ladders) -> bool {
        let of_class = match (&self.of_class, &other.of_class) {
            (Some(one), Some(other)) => one.iter().zip(other.iter()).all(|(one, other)| one.is_like(other)),
            (one, other) => one == other,
        };
        of_class && self.all.is_like(&other.all)
    }

    /// In words, the classes whose requests begin above level 0; empty where there is none.
    pub fn classes_text(&self) -> String {
        let classes = self.of_class.iter().flat_map(|of_class| of_class.iter().enumerate());
        let above = classes.filter(|(_, ladder)| ladder.first() > 0);
        above.map(|(class, ladder)| format!(", class {class} begins at level {}", ladder.first())).collect()
    }
}
