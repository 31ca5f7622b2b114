//! How workers share waiting jobs: which victim a thief takes from and how much, and where a job enters a sharded queue.
//! The options are the same for every policy; each policy says whether it steals, and which jobs go through a queue, at
//! all.
//!
//! An option changes an order and never a set: every place that a search covers is looked at, once at least, before a
//! worker rests.

use super::WorkerId;
use super::bounds::{DEQUE_PLACES, STEAL_MAX};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::str::FromStr;

/// The options. `benches/stealing.md` has the evidence for the defaults: but for `steal_every`, which costs, none makes
/// a difference above the noise of two processors. So servers have the defaults; the library and `simulate --sharing`
/// have all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// The victim that a thief asks first.
    pub victim: Victim,
    /// How much a thief takes.
    pub amount: Amount,
    /// Steal first with probability 1/N, whatever waits in the own deque; 0 = never. Drawn at random and not counted,
    /// so that it coincides with nothing periodic; with 1 a worker would leave its own work to others for as long as
    /// they have any. Rare searches, which go another way so that nothing starves, do not steal first.
    pub steal_every: u32,
    /// Deques of each worker, at least 1. Its jobs go into them in turn, and thieves that come together begin at
    /// different ones.
    pub deques: usize,
    /// Which shard of a queue a job is put into.
    pub insertion: Insertion,
}

/// The victim that a thief asks first; then all others follow in order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Victim {
    /// Drawn at random.
    Random,
    /// The one after the victim that the last search asked first.
    RoundRobin,
    /// Of two drawn at random, the one that has more: jobs in its deques, or time in its present job.
    TwoChoices,
}

/// How much a thief takes from a deque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Amount {
    /// One job.
    One,
    /// Half of what is there.
    Half,
}

/// Which shard of a queue a job is put into. A full shard passes the job on to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Insertion {
    /// Drawn at random.
    Random,
    /// The one after the shard of the producer's last job.
    RoundRobin,
    /// The shorter of two neighbours drawn at random.
    ShorterOfTwo,
}

/// The most deques that a worker has: more than there ever are concurrent thieves.
pub const DEQUES_MAX: usize = 16;
/// The largest N of `steal_every`: a share below 1/N could not be measured.
pub const STEAL_EVERY_MAX: u32 = 1_000_000;

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing {
            victim: Victim::RoundRobin,
            amount: Amount::Half,
            steal_every: 0,
            deques: 1,
            insertion: Insertion::ShorterOfTwo,
        }
    }
}

/// An option that is out of its range.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSharing {
    /// The number of deques is zero or too large.
    #[error("deques is {0}; allowed: 1 to {DEQUES_MAX}")]
    Deques(usize),
    /// A worker would always steal first, or too rarely.
    #[error("steal_every is {0}; allowed: 0 for never, or 2 to {STEAL_EVERY_MAX}")]
    StealEvery(u32),
    /// The text is no option, or has none of its values.
    #[error(
        "`{0}` is no option of sharing: victim=random|round-robin|two-choices, amount=one|half, every=0 or 2 to \
         {STEAL_EVERY_MAX}, deques=1 to {DEQUES_MAX}, insertion=random|round-robin|shorter-of-two"
    )]
    Text(String),
}

impl std::fmt::Debug for BadSharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Sharing {
    /// Whether every option is in its range.
    ///
    /// # Errors
    /// The first option that is out of its range.
    pub fn check(&self) -> Result<(), BadSharing> {
        if !(1..=DEQUES_MAX).contains(&self.deques) {
            return Err(BadSharing::Deques(self.deques));
        }
        if self.steal_every == 1 || self.steal_every > STEAL_EVERY_MAX {
            return Err(BadSharing::StealEvery(self.steal_every));
        }
        Ok(())
    }

    /// Whether this search of `worker` steals first.
    pub(super) fn obliges(&self, worker: WorkerId, search: usize) -> bool {
        // The upper half of the number: the lower one chooses the victim.
        self.steal_every > 0 && (draw(worker, search) >> 32).is_multiple_of(u64::from(self.steal_every))
    }
}

impl FromStr for Sharing {
    type Err = BadSharing;

    /// Reads what differs from the default: `victim=random,amount=one,every=61,deques=2,insertion=round-robin`.
    fn from_str(text: &str) -> Result<Sharing, BadSharing> {
        let mut sharing = Sharing::default();
        for part in text.split(',').map(str::trim) {
            let bad = || BadSharing::Text(part.to_owned());
            let (option, value) = part.split_once('=').ok_or_else(bad)?;
            match option {
                "victim" => sharing.victim = named(&Victim::ALL, Victim::name, value).ok_or_else(bad)?,
                "amount" => sharing.amount = named(&Amount::ALL, Amount::name, value).ok_or_else(bad)?,
                "insertion" => sharing.insertion = named(&Insertion::ALL, Insertion::name, value).ok_or_else(bad)?,
                "every" => sharing.steal_every = value.parse().map_err(|_| bad())?,
                "deques" => sharing.deques = value.parse().map_err(|_| bad())?,
                _ => return Err(bad()),
            }
        }
        sharing.check().map(|()| sharing)
    }
}

fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, text: &str) -> Option<T> {
    all.iter().copied().find(|choice| name(*choice) == text)
}

impl Victim {
    /// Every choice, in the order in which help and error messages list them.
    pub const ALL: [Victim; 3] = [Victim::Random, Victim::RoundRobin, Victim::TwoChoices];

    /// The name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Victim::Random => "random",
            Victim::RoundRobin => "round-robin",
            Victim::TwoChoices => "two-choices",
        }
    }

    /// The position, among `count` victims, of the one that the search of `worker` asks first; `load` says how much is
    /// to be had from one.
    pub(super) fn first<L: Ord>(
        self,
        worker: WorkerId,
        search: usize,
        count: usize,
        load: impl Fn(usize) -> L,
    ) -> usize {
        if self == Victim::RoundRobin || count < 2 {
            return search % count.max(1);
        }
        let (one, step) = halves(draw(worker, search));
        let one = one % count;
        if self == Victim::Random {
            return one;
        }
        let other = (one + 1 + step % (count - 1)) % count;
        if load(other) > load(one) { other } else { one }
    }
}

impl Amount {
    /// Every choice, in the order in which help and error messages list them.
    pub const ALL: [Amount; 2] = [Amount::One, Amount::Half];

    /// Jobs that a thief whose deque holds `own` takes from a deque that holds `victims`, at most. With
    /// [`Amount::Half`] they stay below what a deque holds.
    pub fn limit(self, victims: usize, own: usize) -> usize {
        match self {
            Amount::One => 1,
            Amount::Half => victims.div_ceil(2).min(STEAL_MAX).min(DEQUE_PLACES.saturating_sub(own)).max(1),
        }
    }

    /// The name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Amount::One => "one",
            Amount::Half => "half",
        }
    }
}

impl Insertion {
    /// Every choice, in the order in which help and error messages list them.
    pub const ALL: [Insertion; 3] = [Insertion::Random, Insertion::RoundRobin, Insertion::ShorterOfTwo];

    /// The name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Insertion::Random => "random",
            Insertion::RoundRobin => "round-robin",
            Insertion::ShorterOfTwo => "shorter-of-two",
        }
    }

    /// Two shard numbers, to be taken modulo the number of shards: the shorter shard takes the job that is the
    /// `turn`-th of `producer`. Where they are equal there is no choice.
    pub fn shards(self, producer: usize, turn: usize) -> [usize; 2] {
        let any = || halves(draw(producer, turn)).0;
        match self {
            Insertion::Random => [any(); 2],
            Insertion::RoundRobin => [producer.wrapping_add(turn); 2],
            Insertion::ShorterOfTwo => [any(), any().wrapping_add(1)],
        }
    }
}

/// A number without a pattern over the turns of one worker or over workers, the same whenever it is asked for.
fn draw(worker: usize, turn: usize) -> u64 {
    SplitMix64::seed_from_u64(((worker as u64) << 48).wrapping_add(turn as u64)).next_u64()
}

/// Two numbers of 32 bits.
fn halves(number: u64) -> (usize, usize) {
    ((number & u64::from(u32::MAX)) as usize, (number >> 32) as usize)
}
