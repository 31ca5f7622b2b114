//! The levels of a multilevel feedback queue. A request's level follows from its CPU time so far
//! and, if policies may know it, from its class.

use crate::fate::CLASSES;
use crate::time::Nanos;
use arrayvec::ArrayVec;

/// The most levels after the first. Each level adds two queues to every search that finds nothing.
pub const LIMITS_MAX: usize = 7;

/// The levels that a request passes through as it uses CPU time: pairs of the CPU time from which a
/// level applies, and the level. Both ascend; the first pair begins at zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(ArrayVec<(Nanos, usize), { LIMITS_MAX + 1 }>);

impl Ladder {
    /// A single level for the whole request.
    pub fn new(level: usize) -> Ladder {
        Ladder(ArrayVec::from_iter([(Nanos::ZERO, level)]))
    }

    /// Adds a level that begins at the CPU time `from`, if it is above the last one.
    pub fn rise_to(&mut self, level: usize, from: Nanos) {
        if level > self.last() {
            self.0.push((from, level));
        }
    }

    /// The level of a fresh request.
    pub fn first(&self) -> usize {
        self.0[0].1
    }

    /// The highest level, which a long request keeps until its end.
    pub fn last(&self) -> usize {
        self.0[self.0.len() - 1].1
    }

    /// The level of a request that has used this much CPU time.
    pub fn level(&self, attained: Nanos) -> usize {
        self.0.iter().rev().find(|(from, _)| *from <= attained).map_or(self.first(), |(_, level)| *level)
    }

    /// The CPU times at which a request changes its level, ascending.
    pub fn limits(&self) -> impl Iterator<Item = Nanos> {
        self.0.iter().skip(1).map(|(from, _)| *from)
    }

    /// Whether `other` differs only as much as noise in the measurements explains. The first level
    /// must be the same, and each limit near a limit of the other ladder.
    fn is_like(&self, other: &Ladder) -> bool {
        let in_one = |from: &Ladder, to: &Ladder| from.limits().all(|a| to.limits().any(|b| a.is_near(b)));
        self.first() == other.first() && in_one(self, other) && in_one(other, self)
    }
}

/// Levels 0, 1, 2 and so on; level 1 begins at the first of these CPU times.
impl FromIterator<Nanos> for Ladder {
    fn from_iter<T: IntoIterator<Item = Nanos>>(limits: T) -> Ladder {
        let mut ladder = Ladder::new(0);
        limits.into_iter().for_each(|limit| ladder.rise_to(ladder.last() + 1, limit));
        ladder
    }
}

/// The levels of all requests, by class if classes are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladders {
    /// The levels of a request of unknown class.
    pub all: Ladder,
    /// The levels of a request of each class; `None` if classes are not known.
    pub of_class: Option<Box<[Ladder; CLASSES]>>,
}

impl Ladders {
    /// The same levels for all requests, whatever their class.
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

    /// The highest level of any request.
    pub fn last(&self) -> usize {
        let of_class = self.of_class.iter().flat_map(|of_class| of_class.iter());
        of_class.map(Ladder::last).fold(self.all.last(), usize::max)
    }

    /// The CPU time after which requests of unknown class yield; `None` = never.
    pub fn first_limit(&self) -> Option<Nanos> {
        self.all.limits().next()
    }

    /// Whether `other` differs by noise only.
    pub fn are_like(&self, other: &Ladders) -> bool {
        let of_class = match (&self.of_class, &other.of_class) {
            (Some(one), Some(other)) => one.iter().zip(other.iter()).all(|(one, other)| one.is_like(other)),
            (one, other) => one == other,
        };
        of_class && self.all.is_like(&other.all)
    }

    /// A text that names the classes whose requests begin above level 0; empty if there is no such
    /// class.
    pub fn classes_text(&self) -> String {
        let classes = self.of_class.iter().flat_map(|of_class| of_class.iter().enumerate());
        let above = classes.filter(|(_, ladder)| ladder.first() > 0);
        above.map(|(class, ladder)| format!(", class {class} begins at level {}", ladder.first())).collect()
    }
}
