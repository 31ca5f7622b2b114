//! Which places become mutants: a seed decides, folder by folder and kind by kind in turn, so that a small folder counts as
//! much as a large one.

use crate::places::{KINDS, Place};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// At most `count` of `places`, by index, without those that `is_refused`. A refused place is followed by the next of its
/// folder and kind, so the others stay.
pub fn draw(
    places: &[Place],
    folders: usize,
    count: usize,
    seed: u64,
    is_refused: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut order: Vec<_> = (0..places.len()).map(|place| (random.next_u64(), place)).collect();
    order.sort_unstable_by(|one, other| other.cmp(one));
    let mut cells = vec![Vec::new(); folders * KINDS.len()];
    for (_, place) in order {
        cells[places[place].folder * KINDS.len() + places[place].kind as usize].push(place);
    }
    let mut drawn: Vec<usize> = Vec::new();
    while drawn.len() < count && cells.iter().any(|cell| !cell.is_empty()) {
        for kind in 0..KINDS.len() {
            for folder in 0..folders {
                let cell = &mut cells[folder * KINDS.len() + kind];
                // Two meanings of one operator do not fit into one build.
                let is_free = |place: usize| {
                    let mut others = drawn.iter().map(|&other| &places[other]);
                    !is_refused(place) && !others.any(|other| other.is_at(&places[place]))
                };
                let next = std::iter::from_fn(|| cell.pop()).find(|&place| is_free(place));
                drawn.extend(next.filter(|_| drawn.len() < count));
            }
        }
    }
    drawn
}
