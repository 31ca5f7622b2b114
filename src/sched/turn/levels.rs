//! In which order a worker searches the priority levels. A server has one level; the runtime as a library has three.

/// The order of levels: the most urgent first, but for a bounded share of searches that begins elsewhere.
#[derive(Debug)]
pub(super) struct LevelOrder {
    levels: usize,
    searches: usize,
}

/// One search in 61 begins with a less urgent level, each in turn, so that none starves: with three levels each of the
/// two lower ones is served by at least one search in 122. A prime, so that no regular pattern of jobs is always hit.
const FAIR_EVERY: usize = 61;

impl LevelOrder {
    pub(super) fn new(levels: usize) -> LevelOrder {
        LevelOrder { levels, searches: 0 }
    }

    /// The levels in the order of the next search, each once.
    pub(super) fn next(&mut self) -> impl Iterator<Item = usize> + use<> {
        self.searches = self.searches.wrapping_add(1);
        let (levels, lower) = (self.levels, self.levels - 1);
        let first = if lower == 0 || !self.searches.is_multiple_of(FAIR_EVERY) {
            0
        } else {
            lower - (self.searches / FAIR_EVERY) % lower
        };
        std::iter::once(first).chain((0..levels).filter(move |level| *level != first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_search_looks_into_every_level_once() {
        for levels in 1..5 {
            let mut order = LevelOrder::new(levels);
            for _ in 0..1_000 {
                let mut seen: Vec<usize> = order.next().collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..levels).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_lower_level_is_first_in_its_bounded_share_and_no_more() {
        let mut order = LevelOrder::new(3);
        let firsts: Vec<usize> = (0..122 * 10).filter_map(|_| order.next().next()).collect();
        for turn in firsts.chunks(122) {
            let count = |level| turn.iter().filter(|first| **first == level).count();
            assert_eq!((count(0), count(1), count(2)), (120, 1, 1));
        }
        let mut rest = order.next();
        assert_eq!((rest.next(), rest.next(), rest.next()), (Some(0), Some(1), Some(2)));
    }
}
