//! What fixed groups of workers can bear: the stability bound of their sizes, and sizes that are within it.

/// Whose work the workers of a group do beside their own group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// No other's.
    None,
    /// That of lighter groups, which stand before it.
    Lighter,
}

/// The load, as a share of the capacity of all workers, from which on groups of these `sizes` fall behind for ever, whatever
/// the order. Then some of the work comes faster than all workers that may do it can do it. At most 1, where all workers
/// together are too few. Below it they may still fall behind, where help for lighter groups costs a heavy one more than it
/// can spare. `demands` is what each group takes of the CPU time, in any unit.
///
/// # Panics
/// If there is not one demand for each size.
pub fn unstable_from(demands: &[f64], sizes: &[usize], help: Help) -> f64 {
    assert_eq!(demands.len(), sizes.len(), "each group has a demand");
    let (total, workers) = (demands.iter().sum::<f64>(), sizes.iter().sum::<usize>() as f64);
    // The work of a group and of all heavier ones is done by their workers only.
    let bound = |group: usize| {
        let last = if help == Help::Lighter { sizes.len() } else { group + 1 };
        let demand: f64 = demands[group..last].iter().sum();
        let size: usize = sizes[group..last].iter().sum();
        if demand > 0.0 { size as f64 / workers * total / demand } else { 1.0 }
    };
    (0..sizes.len()).map(bound).fold(1.0, f64::min)
}

/// Divides `workers`, of which there is one for each group at least, among groups of these `demands` (CPU time in any unit).
/// With `busy` workers busy, the busiest group is as little busy as it can be. (Persephone rounds each group's share to the
/// nearest. Of 14 workers that leaves two to the light requests of extreme-bimodal, which keep 2.3 busy: too few from a load
/// of 0.86 on.)
///
/// If that leaves a group one worker, more comes at some moments than it can do. Then each group gets what it keeps busy and
/// the square root of that number. (Square-root staffing: Halfin and Whitt, 1981.) Not so if some group could then hardly
/// keep up, or not at all. Where only sizes that leave light groups to their helpers can keep up, it is those. Where none
/// can, the light groups keep their margin: no size helps the heaviest.
pub fn share_out(demands: &[f64], workers: usize, busy: f64, help: Help) -> Vec<usize> {
    let total = demands.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let at_full_load = |demand: &f64| demand / total * workers as f64;
    let evenly: Vec<f64> = demands.iter().map(at_full_load).collect();
    let staffed: Vec<f64> = evenly.iter().map(|demand| demand + demand.sqrt()).collect();
    let [staffed, evenly] = [staffed, evenly].map(|needs| in_proportion(&needs, workers));
    let least = if help == Help::Lighter { least_for_heavy(demands, workers, busy) } else { None };
    let is_alone = evenly.iter().zip(&staffed).any(|(even, staffed)| *even == 1 && *staffed > 1);
    let preferred = if is_alone { &staffed } else { &evenly };
    let candidates = [Some(preferred), Some(&evenly), least.as_ref()];
    let bears = |sizes: &&Vec<usize>, share: f64| busy < share * unstable_from(demands, sizes, help) * workers as f64;
    let best = |share| candidates.into_iter().flatten().find(|sizes| bears(sizes, share));
    best(WELL_WITHIN).or(best(1.0)).unwrap_or(preferred).clone()
}

/// The share of their bound up to which a margin for light groups is worth what it costs the heavy ones. Nearer, the queue
/// of these is the longer one. Example: requests of 0.5 us take 0.9 of 14 workers, requests of 500 us the rest. At .98 of
/// its bound, 2+12 has a p99.9 slowdown of 5, and 1+13 one of 23.
const WELL_WITHIN: f64 = 0.99;

/// For heavy groups the fewest workers with which they are stable, for the lightest the rest; `None` if nothing is left
/// for it.
fn least_for_heavy(demands: &[f64], workers: usize, busy: f64) -> Option<Vec<usize>> {
    let total = demands.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut sizes = vec![1; demands.len()];
    let (mut demand, mut given) = (0.0, 0);
    for group in (1..demands.len()).rev() {
        demand += demands[group] / total * busy;
        sizes[group] = (demand as usize + 1).saturating_sub(given).max(1);
        given += sizes[group];
    }
    sizes[0] = workers.checked_sub(given).filter(|rest| *rest > 0)?;
    Some(sizes)
}

/// The number of `workers` that each group gets so that the largest need per worker is as small as it can be.
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

    /// Shares of the CPU time of extreme-bimodal and of `micropools`.
    const EXTREME: [f64; 2] = [0.4975, 2.5];
    const MICROPOOLS: [f64; 2] = [0.9999, 0.2];

    fn assert_near(bound: f64, expected: f64) {
        assert!((bound - expected).abs() < 0.001, "{bound}, expected {expected}");
    }

    #[test]
    fn a_group_bears_what_its_workers_can_do() {
        for help in [Help::None, Help::Lighter] {
            assert_near(unstable_from(&EXTREME, &[3, 11], help), 11.0 / 14.0 / 0.834);
            assert_near(unstable_from(&MICROPOOLS, &[13, 1], help), 1.0 / 14.0 / 0.1667);
            assert_near(unstable_from(&[1.0], &[14], help), 1.0);
        }
        assert_near(unstable_from(&EXTREME, &[2, 12], Help::None), 2.0 / 14.0 / 0.166);
        assert_near(unstable_from(&EXTREME, &[2, 12], Help::Lighter), 1.0);
        // The two heavier of three groups share their workers upwards only.
        assert_near(unstable_from(&[1.0, 2.0, 1.0], &[2, 1, 1], Help::Lighter), 2.0 / 4.0 / 0.75);
        assert_near(unstable_from(&[1.0, 2.0, 1.0], &[2, 1, 1], Help::None), 1.0 / 4.0 / 0.5);
        assert_near(unstable_from(&[0.0, 1.0], &[1, 3], Help::None), 0.75);
    }

    // Is what is recommended stable whenever any sizes are? Method: every mix of two groups in hundredths, every load in
    // twentieths, against every division of the workers.
    #[test]
    fn what_is_recommended_is_stable_where_anything_is() {
        let mut unstable = 0;
        for (workers, help) in [2, 3, 8, 14].into_iter().flat_map(|n| [(n, Help::None), (n, Help::Lighter)]) {
            for (light, load) in (0..=100).flat_map(|light| (1..=20).map(move |load| (light, load))) {
                let (demands, load) = ([f64::from(light), f64::from(100 - light)], f64::from(load) / 20.0);
                let bears = |sizes: &[usize]| load < unstable_from(&demands, sizes, help);
                let sizes = share_out(&demands, workers, load * workers as f64, help);
                assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, workers));
                let any = (1..workers).any(|front| bears(&[front, workers - front]));
                assert!(bears(&sizes) || !any, "{sizes:?} for {demands:?} at {load}, {help:?}");
                unstable += usize::from(!any);
            }
        }
        assert!(unstable > 100, "some loads are too much for any sizes");
    }

    #[test]
    fn an_overloaded_heavy_group_leaves_the_light_ones_what_they_need() {
        // The light group keeps 0.9 of 14 workers busy, the heavy one all that it can get.
        assert_eq!(share_out(&[0.9, 13.1], 14, 14.0, Help::Lighter), [2, 12]);
        assert_eq!(share_out(&[0.9, 0.9, 12.2], 14, 14.0, Help::Lighter), [2, 2, 10]);
        // Where the heavy one can be served, it is.
        assert_eq!(share_out(&[0.9, 13.1], 14, 12.8, Help::Lighter), [1, 13]);
        assert_eq!(share_out(&[0.9, 13.1], 14, 12.6, Help::Lighter), [2, 12]);
    }
}
