//! The stability bound of pools, that is the load which they can just bear, and pool sizes within
//! it.

/// The load from which on some pool falls behind, for pools of these `sizes` and in whatever order
/// they serve. It is a share of the capacity of all workers, at most 1. `demands` has the CPU time
/// that each pool needs, in any unit.
///
/// # Panics
/// If there is not one demand for each size.
pub(crate) fn unstable_from(demands: &[f64], sizes: &[usize]) -> f64 {
    assert_eq!(demands.len(), sizes.len(), "each group has a demand");
    let (total, workers) = (demands.iter().sum::<f64>(), sizes.iter().sum::<usize>() as f64);
    let bound = |(demand, size): (&f64, &usize)| {
        if *demand > 0.0 { *size as f64 / workers * total / demand } else { 1.0 }
    };
    demands.iter().zip(sizes).map(bound).fold(1.0, f64::min)
}

/// Divides `workers` among pools with these `demands` (CPU time in any unit), at least one for each
/// pool. On average `busy` workers are busy. The busiest pool is as little busy as possible.
///
/// A pool of one worker would be overloaded at some moments. If there is one, each pool gets
/// workers in proportion to its demand plus the square root of this demand. This is square-root
/// staffing (Halfin and Whitt, 1981). The rule does not apply if some pool could then hardly keep
/// up, or not at all.
pub(crate) fn share_out(demands: &[f64], workers: usize, busy: f64) -> Vec<usize> {
    let total = demands.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let at_full_load = |demand: &f64| demand / total * workers as f64;
    let evenly: Vec<f64> = demands.iter().map(at_full_load).collect();
    let staffed: Vec<f64> = evenly.iter().map(|demand| demand + demand.sqrt()).collect();
    let [staffed, evenly] = [staffed, evenly].map(|needs| in_proportion(&needs, workers));
    let is_alone = evenly.iter().zip(&staffed).any(|(even, staffed)| *even == 1 && *staffed > 1);
    let preferred = if is_alone { &staffed } else { &evenly };
    let candidates = [preferred, &evenly];
    let bears = |sizes: &&Vec<usize>, share: f64| busy < share * unstable_from(demands, sizes) * workers as f64;
    let best = |share| candidates.into_iter().find(|sizes| bears(sizes, share));
    best(WELL_WITHIN).or(best(1.0)).unwrap_or(preferred).clone()
}

/// Up to this share of the stability bound, square-root staffing may be used. It gives light
/// requests a margin at the expense of heavy ones. Closer to the bound, the heavy queue becomes the
/// longer one. Example: requests of 0.5 us take 0.9 of 14 workers, requests of 500 us the others.
/// At .98 of its bound, 2+12 has a p99.9 slowdown of 5, and 1+13 has 23.
const WELL_WITHIN: f64 = 0.99;

/// Divides `workers` among pools so that the largest need per worker is as small as possible.
fn in_proportion(needs: &[f64], workers: usize) -> Vec<usize> {
    let mut sizes = vec![1; needs.len()];
    for _ in needs.len()..workers {
        let need = |group: &usize| needs[*group] / sizes[*group] as f64;
        if let Some(neediest) = (0..needs.len()).max_by(|a, b| need(a).total_cmp(&need(b))) {
            sizes[neediest] += 1;
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPU time of each of two pools: of extreme-bimodal, and of `micropools`.
    const EXTREME: [f64; 2] = [0.4975, 2.5];
    const MICROPOOLS: [f64; 2] = [0.9999, 0.2];

    fn assert_near(bound: f64, expected: f64) {
        assert!((bound - expected).abs() < 0.001, "{bound}, expected {expected}");
    }

    #[test]
    fn a_pool_bears_what_its_workers_can_do() {
        assert_near(unstable_from(&EXTREME, &[3, 11]), 11.0 / 14.0 / 0.834);
        assert_near(unstable_from(&MICROPOOLS, &[13, 1]), 1.0 / 14.0 / 0.1667);
        assert_near(unstable_from(&[1.0], &[14]), 1.0);
        assert_near(unstable_from(&EXTREME, &[2, 12]), 2.0 / 14.0 / 0.166);
        assert_near(unstable_from(&[1.0, 2.0, 1.0], &[2, 1, 1]), 1.0 / 4.0 / 0.5);
        assert_near(unstable_from(&[0.0, 1.0], &[1, 3]), 0.75);
    }

    // If any division of the workers is stable, is the recommended one stable? Method: every mix of
    // two pools in hundredths, every load in twentieths, every division of the workers.
    #[test]
    fn what_is_recommended_is_stable_where_anything_is() {
        let mut unstable = 0;
        for workers in [2, 3, 8, 14] {
            for (light, load) in (0..=100).flat_map(|light| (1..=20).map(move |load| (light, load))) {
                let (demands, load) = ([f64::from(light), f64::from(100 - light)], f64::from(load) / 20.0);
                let bears = |sizes: &[usize]| load < unstable_from(&demands, sizes);
                let sizes = share_out(&demands, workers, load * workers as f64);
                assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, workers));
                let any = (1..workers).any(|front| bears(&[front, workers - front]));
                assert!(bears(&sizes) || !any, "{sizes:?} for {demands:?} at {load}");
                unstable += usize::from(!any);
            }
        }
        assert!(unstable > 100, "some loads are too much for any sizes");
    }
}
