//! Chooses real or emulated cores, and the time scale of costs. A pure function of the number of
//! CPUs and the given flags.
//!
//! If sending packets keeps the machine busy, a comparison of policies shows nothing. Multiplying
//! every cost by a scale makes packets rarer at the same load. The scale is the smallest round
//! number at which the machine can handle the packets. README.md beside this file has the rule.

use crate::drive::schedule::REQUESTS_MAX;
use crate::failure::Failure;
use crate::lab::workload::Workload;
use crate::text::{factor, grouped};
use forebay::config::Burn;
use forebay::inside::emulation::overheads::Overheads;
use forebay::time::Nanos;

/// Packets per second that the generator can send, if its sender and its receiver have a CPU each.
const SENDER_RPS_MAX: f64 = 250_000.0;
/// Kernel time per request at the server, whatever the handler does. One estimate is used for all
/// hosts.
const KERNEL_PER_PACKET: Nanos = Overheads::STOCK.per_request();
/// The largest share of the server's CPU time that the kernel's part may take.
const KERNEL_SHARE_MAX: f64 = 0.05;
/// On an emulated core the shortest request takes at least this long. A core oversleeps by about 50
/// us, a small share of it.
const EMULATED_MIN: Nanos = Nanos::from_millis(2);
/// The condition of [`EMULATED_MIN`] raises the scale to at most this.
const EMULATED_TIME_SCALE_MAX: u64 = 1_000;
const TIME_SCALE_MAX: u64 = 1_000_000;

/// The run for which a scale is chosen, as far as flags and workload determine it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    /// The number of workers of each server.
    pub(crate) workers: u16,
    /// The workload to draw requests from.
    pub(crate) workload: &'a Workload,
    /// The workload of the second half of the run, if it changes.
    pub(crate) then: Option<&'a Workload>,
    /// Requests per second of the first workload, if given.
    pub(crate) rate: Option<f64>,
    /// The share of the workers' capacity, used if no rate is given.
    pub(crate) load: f64,
    /// Warm-up and measured time together.
    pub(crate) lasts: Nanos,
    /// Real or emulated cores.
    pub(crate) burn: Burn,
    /// The factor on costs, if given.
    pub(crate) time_scale: Option<u64>,
}

/// Real cores if the machine has more CPUs than workers, otherwise emulated ones.
pub(crate) fn burn_on(cpus: usize, workers: u16) -> Burn {
    if usize::from(workers) < cpus { Burn::Cpu } else { Burn::Sleep }
}

/// Chooses the smallest time scale of 1, 2, 5, 10, 20, .. at which a machine with `cpus` CPUs can
/// handle the packets. On emulated cores the shortest request must also be long enough. Given
/// values are kept, even if they do not fit. Returns the scale, and a warning if given values do
/// not fit.
///
/// # Errors
/// A usage failure if no time scale is large enough.
pub(crate) fn size(cpus: usize, given: &Given<'_>) -> Result<(u64, String), Failure> {
    let least = if given.burn == Burn::Cpu { 1 } else { least_emulated(given.workload) };
    let time_scale = match (given.time_scale, given.rate) {
        (Some(time_scale), _) => time_scale,
        (None, Some(_)) => least,
        (None, None) => {
            let fits = |scale: &u64| given.overfills(cpus, *scale) <= 1.0;
            let scale = round_scales().filter(|scale| *scale >= least).find(fits);
            scale.ok_or_else(|| too_much(given, given.overfills(cpus, 1)))?
        }
    };
    Ok((time_scale, warning(cpus, given, time_scale)))
}

/// A warning about each limit that is exceeded at `time_scale`; empty if there is none.
fn warning(cpus: usize, given: &Given<'_>, time_scale: u64) -> String {
    let mut said = String::new();
    if given.overfills(cpus, time_scale) > 1.0 {
        let (rate, requests) = given.demand(time_scale);
        said += &format!(
            "{} packets/s in {} requests are too much for this machine: expect INVALID, raise --time-scale or lower --rate. ",
            grouped(rate.round() as u64),
            grouped(requests.round() as u64),
        );
    }
    let workers = usize::from(given.workers);
    if given.burn == Burn::Cpu && workers >= cpus {
        let load = given.workload.load_at(given.rate(time_scale), 1, time_scale);
        said += &format!(
            "{workers} workers that burn CPU need {} CPUs and one more for the generator: expect INVALID, leave --burn cpu out.",
            factor(Some(load.min(workers as f64)))
        );
    }
    said
}

impl Given<'_> {
    /// The rate of the first workload in requests per second.
    fn rate(&self, time_scale: u64) -> f64 {
        let of_load = || self.workload.rate_at(self.load, usize::from(self.workers), time_scale);
        self.rate.unwrap_or_else(of_load)
    }

    /// The highest rate of either workload, and an upper estimate of the number of requests.
    fn demand(&self, time_scale: u64) -> (f64, f64) {
        let first = self.rate(time_scale);
        // The second workload has the rate at which it needs the same CPU time.
        let second = self.then.map_or(0.0, |then| then.rate_at(self.workload.load_at(first, 1, 1), 1, 1));
        (first.max(second), (first + second) * self.lasts.as_secs_f64())
    }

    /// The highest rate at which the sender can send. Then the rate at which the kernel alone would
    /// use all of the server's CPU time.
    fn room(&self, cpus: usize) -> (f64, f64) {
        let workers = usize::from(self.workers);
        // Workers that burn CPU time leave the other CPUs to the generator. If only one is left,
        // sender and receiver share it.
        let (spare, server) =
            if self.burn == Burn::Cpu { (cpus.saturating_sub(workers), workers) } else { (cpus, cpus) };
        let sender = if spare < 2 { SENDER_RPS_MAX / 2.0 } else { SENDER_RPS_MAX };
        (sender, server as f64 / KERNEL_PER_PACKET.as_secs_f64())
    }

    /// The factor by which the run exceeds the machine's limits; at most 1 if it fits.
    fn overfills(&self, cpus: usize, time_scale: u64) -> f64 {
        let ((rate, requests), (rate_max, kernel_rate)) = (self.demand(time_scale), self.room(cpus));
        // The length of a schedule is random. So the mean stays six standard deviations below the
        // most requests.
        let requests_max = REQUESTS_MAX as f64 - 6.0 * (REQUESTS_MAX as f64).sqrt();
        (rate / rate_max.min(kernel_rate * KERNEL_SHARE_MAX)).max(requests / requests_max)
    }
}

/// The smallest scale at which the shortest request is long enough on emulated cores.
fn least_emulated(workload: &Workload) -> u64 {
    let shortest = workload.smallest_cost().plus(workload.time_beside());
    let long_enough = |scale: &u64| *scale >= EMULATED_TIME_SCALE_MAX || shortest.times(*scale) >= EMULATED_MIN;
    round_scales().find(long_enough).unwrap_or(EMULATED_TIME_SCALE_MAX)
}

/// 1, 2, 5, 10, 20, .. up to [`TIME_SCALE_MAX`].
fn round_scales() -> impl Iterator<Item = u64> {
    let scales = (0..=6).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    scales.take_while(|scale| *scale <= TIME_SCALE_MAX)
}

fn too_much(given: &Given<'_>, factor: f64) -> Failure {
    Failure::usage(format!(
        "{} at this --load of {} workers is {factor:.0} times more than the generator can send, and --time-scale is at most \
         {TIME_SCALE_MAX}: lower --load, --workers or --duration, or take dearer requests",
        given.workload.name(),
        given.workers
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::workload::PRESETS;
    use crate::plan::{Plan, test_plan};

    fn parsed(text: &str) -> Workload {
        text.parse().expect("a workload")
    }

    fn given(workload: &Workload) -> Given<'_> {
        let (then, rate, load, lasts, time_scale) = (None, None, 0.7, Nanos::from_secs(23), None);
        Given { workers: 14, workload, then, rate, load, lasts, burn: Burn::Sleep, time_scale }
    }

    fn sizing(cpus: usize, given: &Given<'_>) -> (u64, String) {
        let burn = burn_on(cpus, given.workers);
        let given = Given { burn, ..*given };
        size(cpus, &given).unwrap_or_else(|error| panic!("{cpus} CPUs, {given:?}: {error}"))
    }

    // Does every choice fit, on any machine? Method: every number of CPUs from 1 to 1,024, with
    // every preset, few and many workers, light and heavy loads. Whether it fits is computed again
    // from the rate of the plan.
    #[test]
    fn what_is_chosen_fits_on_1_to_1024_cpus() {
        let workloads = PRESETS.map(|(name, _)| parsed(name));
        for cpus in 1..=1_024_usize {
            for workload in &workloads {
                for (workers, load, seconds) in
                    [(14, 0.7, 23), (1, 0.1, 1), (2, 0.95, 600), (cpus as u16, 0.7, 23), (1_024, 2.0, 3_600)]
                {
                    let given = Given { workers, load, lasts: Nanos::from_secs(seconds), ..given(workload) };
                    let (chosen, fits) = sizing(cpus, &given);
                    let case =
                        format!("{cpus} CPUs, {}, {workers} workers, load {load}: {chosen}, {fits}", workload.name());
                    let burn = burn_on(cpus, workers);
                    let given = Given { burn, ..given };
                    assert_eq!(burn == Burn::Cpu, usize::from(workers) < cpus, "{case}");
                    let rate = workload.rate_at(load, workers.into(), chosen);
                    assert!(rate <= 250_000.0, "{case}");
                    assert!(rate * seconds as f64 <= 49_900_000.0, "{case}");
                    let server = if burn == Burn::Cpu { usize::from(workers) } else { cpus };
                    assert!(rate * 2.68e-6 <= 0.0500001 * server as f64, "{case}");
                    // The choice is also minimal: the next smaller round scale does not fit.
                    let smaller = chosen * 2 / 5;
                    let least = if burn == Burn::Cpu { 1 } else { least_emulated(workload) };
                    assert!(chosen == least || given.overfills(cpus, smaller.max(1)) > 1.0, "{case}");
                    assert_eq!(fits, "");
                }
            }
        }
    }

    // On machines of some sizes, is the default as the README says, and can its schedule be drawn?
    #[test]
    fn the_default_runs_on_real_cores_where_there_are_15() {
        let workload = parsed("extreme-bimodal");
        let of = |cpus| (burn_on(cpus, 14), sizing(cpus, &given(&workload)).0);
        assert_eq!([1, 2, 14].map(of), [(Burn::Sleep, 1_000); 3]);
        // One CPU is left, so sender and receiver share it.
        assert_eq!(of(15), (Burn::Cpu, 50));
        assert_eq!([16, 17, 64, 128, 1_024].map(of), [(Burn::Cpu, 20); 5]);
        let plan = Plan {
            rate: given(&workload).rate(20),
            warmup: Nanos::from_secs(3),
            duration: Nanos::from_secs(20),
            ..test_plan()
        };
        let drawn = crate::drive::schedule::draw(&plan).map(|schedule| schedule.len() as f64).ok();
        assert!(drawn.is_some_and(|drawn| (drawn / 3_759_800.0 - 1.0).abs() < 0.01), "{drawn:?}");
        let (given, all) = (given(&workload), REQUESTS_MAX as f64);
        let ((rate, requests), (rate_max, kernel_rate)) =
            (given.demand(20), Given { burn: Burn::Cpu, ..given }.room(16));
        assert_eq!((rate.round(), rate_max), (163_470.0, 250_000.0));
        assert!(requests < all && (rate / kernel_rate - 0.0313).abs() < 5e-5, "{requests} and {}", rate / kernel_rate);
    }

    // If the mix shifts to cheaper requests, do the rates of both halves fit?
    #[test]
    fn the_second_workload_has_to_fit_too() {
        let (dear, cheap) = (parsed("high-bimodal"), parsed("zygos-bimodal-1"));
        let (chosen, _) = sizing(16, &Given { then: Some(&cheap), ..given(&dear) });
        assert!(cheap.rate_at(0.7, 14, chosen) <= 250_000.0, "{chosen}");
        assert!(chosen > sizing(16, &given(&dear)).0);
    }

    // Are given values kept, with a warning if they do not fit? Is a run refused if no scale fits?
    #[test]
    fn what_is_given_is_kept_and_judged() {
        let workload = parsed("extreme-bimodal");
        let given = given(&workload);
        let unscaled = sizing(16, &Given { time_scale: Some(1), lasts: Nanos::from_secs(1), ..given });
        assert!(unscaled.0 == 1 && unscaled.1.contains("too much for this machine"), "{unscaled:?}");
        let rate = sizing(16, &Given { rate: Some(8_000.0), ..given });
        assert!(rate.0 == 1 && !rate.1.contains("INVALID"), "{rate:?}");
        let few = size(2, &Given { burn: Burn::Cpu, ..given }).expect("a scale");
        assert!(few.1.contains("need 9.80 CPUs and one more"), "{few:?}");
        let nanoseconds = parsed("fixed:1ns");
        let endless = Given { workers: 1_024, workload: &nanoseconds, load: 10.0, ..given };
        let error = size(2, &endless).expect_err("nothing is large enough").to_string();
        assert!(error.contains("lower --load, --workers or --duration"), "{error}");
    }
}
