//! What everybody else did to the machine while a round ran: figures of a machine that is not left alone mean little.

use anyhow::{Context, Result};
use forebay::time::{Nanos, clock};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::fs;

/// The CPU time of a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Nanos,
    machine_s: f64,
    ours_s: f64,
}

impl Moment {
    /// Now. The CPU time of servers counts as ours once they have ended.
    ///
    /// # Errors
    /// If the system does not tell.
    pub(crate) fn now() -> Result<Moment> {
        let ours = |who| -> Result<f64> {
            let usage = getrusage(who).context("asking for our CPU time")?;
            Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
        };
        let ours_s = ours(UsageWho::RUSAGE_SELF)? + ours(UsageWho::RUSAGE_CHILDREN)?;
        Ok(Moment { at: clock::now(), machine_s: busy_seconds(|name| name == "cpu")?, ours_s })
    }

    /// How many CPUs' worth of time others took, the hypervisor's other guests among them, from `earlier` to here.
    pub(crate) fn others_since(&self, earlier: &Moment) -> f64 {
        let busy_s = (self.machine_s - earlier.machine_s) - (self.ours_s - earlier.ours_s);
        (busy_s / self.at.minus(earlier.at).as_secs_f64()).max(0.0)
    }
}

/// `USER_HZ`: what /proc counts in, whatever the kernel's own tick is.
const TICKS_PER_SECOND: f64 = 100.0;

/// The time that `cpus` were not idle since the machine was started.
///
/// # Errors
/// If the system does not tell.
pub(crate) fn busy_seconds_of(cpus: &[usize]) -> Result<f64> {
    let names: Vec<String> = cpus.iter().map(|cpu| format!("cpu{cpu}")).collect();
    busy_seconds(|name| names.iter().any(|wanted| wanted == name))
}

/// The time that was not idle, summed over the rows of the system's table whose name is `wanted`.
fn busy_seconds(wanted: impl Fn(&str) -> bool) -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let mut sum = 0.0;
    for row in stat.lines() {
        let Some((_, columns)) = row.split_once(' ').filter(|(name, _)| wanted(name)) else { continue };
        let ticks = columns.split_ascii_whitespace().map(str::parse);
        let ticks: Vec<f64> = ticks.collect::<Result<_, _>>().context("reading /proc/stat")?;
        // user nice system idle iowait irq softirq steal; what follows is counted in these already.
        anyhow::ensure!(ticks.len() >= 8, "/proc/stat has too few columns");
        sum += ticks[..8].iter().sum::<f64>() - ticks[3] - ticks[4];
    }
    Ok(sum / TICKS_PER_SECOND)
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_burn_ourselves_is_not_the_others() {
        let moment = |at_s, machine_s, ours_s| Moment { at: Nanos::from_secs(at_s), machine_s, ours_s };
        let (begin, end) = (moment(10, 100.0, 5.0), moment(20, 116.0, 20.0));
        assert!((end.others_since(&begin) - 0.1).abs() < 1e-9);
        // Ticks are coarse.
        assert!(moment(20, 114.9, 20.0).others_since(&begin).abs() < 1e-9);
        let now = Moment::now().expect("a Linux system");
        assert!(now.machine_s >= now.ours_s * 0.5, "{now:?}");
        let each: Vec<f64> = (0..2).map(|cpu| busy_seconds_of(&[cpu]).expect("a Linux system")).collect();
        let both = busy_seconds_of(&[0, 1]).expect("a Linux system");
        // Read later, and sums of decimal fractions are not exact.
        let sum = each.iter().sum::<f64>() - 1e-6;
        assert!(both >= sum && both <= now.machine_s + 60.0, "{each:?} {both} {now:?}");
    }
}
