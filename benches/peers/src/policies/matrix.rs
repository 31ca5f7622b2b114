//! What is to be measured, in which order. Rounds are interleaved: with each seed, everything once; for each mix the
//! policies take turns at each load, so that what else the machine does affects them all.

use super::arguments::PoliciesArguments;
use super::mix::Mix;
use crate::cpus::Division;
use crate::trial::GENERATOR_CPUS;
use anyhow::{Result, bail};
use forebay::sched::{PolicyName, Sizes};
use forebay::sim::Fit;
use forebay::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The policy whose capacity loads are shares of.
pub(super) const BASE: &str = "isolated";

/// A server and its mix, in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// The server's cores, and workers.
    pub(super) cores: usize,
    /// What it is offered.
    pub(super) mix: Mix,
    /// What it follows.
    pub(super) policy: PolicyName,
    /// The round.
    pub(super) seed: u64,
}

/// The same, as files have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    /// The server's cores.
    pub(super) cores: usize,
    /// The name of the mix.
    pub(super) mix: String,
    /// The name of the policy.
    pub(super) policy: String,
    /// The round.
    pub(super) seed: u64,
}

/// Something to be measured, with a fresh server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Job {
    /// Its capacity.
    Saturate(Cell),
    /// Its latencies at a load.
    Run(Cell, f64),
}

impl Cell {
    /// As files have it.
    pub(super) fn key(&self) -> Key {
        let (mix, policy) = (self.mix.name().to_owned(), self.policy.name().to_owned());
        Key { cores: self.cores, mix, policy, seed: self.seed }
    }

    /// The arguments of `forebay serve`: as it comes, pinned, with the slice that `loadgen compare` and the simulator
    /// choose, and told the class of a request only if the policy cannot do without.
    pub(super) fn server_arguments(&self, workload: &Workload) -> Vec<String> {
        let slice = Fit::new(workload, self.cores, 0.5).slice;
        let classify = if self.policy.entry().needs_class { "header" } else { "none" };
        let text = format!(
            "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --policy {} --workers {} --pin --handler spin --burn cpu --classify \
             {classify} --slice {}ns",
            self.policy,
            self.cores,
            slice.get(),
        );
        text.split_whitespace().map(str::to_owned).collect()
    }
}

impl Job {
    /// The server.
    pub(super) fn cell(&self) -> Cell {
        match *self {
            Job::Saturate(cell) | Job::Run(cell, _) => cell,
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { cores, mix, policy, seed } = self.cell();
        let what = match self {
            Job::Saturate(_) => "capacity".to_owned(),
            Job::Run(_, load) => format!("load {load}"),
        };
        let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        write!(f, "seed {seed}, {cores}, {}, {what}, {policy}", mix.name())
    }
}

/// Everything that the flags ask for, in order.
///
/// # Errors
/// If there are too few CPUs, if nothing is left to measure, or if something is named twice.
pub(super) fn jobs(arguments: &PoliciesArguments) -> Result<Vec<Job>> {
    for cores in &arguments.cores {
        if Division::new(usize::from(*cores), GENERATOR_CPUS)? == Division::Shared {
            bail!(
                "--cores {cores}: that many for the server and one at least for the generator are more than this process may \
                 use: leave it out"
            );
        }
    }
    ordered(arguments)
}

fn ordered(arguments: &PoliciesArguments) -> Result<Vec<Job>> {
    let all = PolicyName::ALL.to_vec();
    let policies = if arguments.policies.is_empty() { &all } else { &arguments.policies };
    let base: PolicyName = BASE.parse()?;
    let mut jobs = Vec::new();
    for &seed in &arguments.seeds {
        for &cores in &arguments.cores {
            for &mix in &arguments.mixes {
                let cell = |policy| Cell { cores: usize::from(cores), mix, policy, seed };
                let fitting: Vec<PolicyName> = policies.iter().copied().filter(|policy| fits(*policy, cores)).collect();
                let others = fitting.iter().copied().filter(|policy| *policy != base);
                if !fitting.is_empty() {
                    jobs.extend(std::iter::once(base).chain(others).map(|policy| Job::Saturate(cell(policy))));
                }
                for &load in &arguments.loads {
                    jobs.extend(fitting.iter().map(|policy| Job::Run(cell(*policy), load)));
                }
            }
        }
    }
    if jobs.is_empty() {
        bail!(
            "nothing to measure: {} need two cores at least, see --cores",
            PolicyName::list(|entry| !fits_one(entry.sizes))
        );
    }
    if let Some(job) = jobs.iter().enumerate().find_map(|(place, job)| jobs[..place].contains(job).then_some(job)) {
        bail!("{job} is asked for twice: name each policy, mix, number of cores, load and seed once");
    }
    Ok(jobs)
}

/// Whether `policy` can divide this many workers.
fn fits(policy: PolicyName, cores: u16) -> bool {
    cores > 1 || fits_one(policy.entry().sizes)
}

fn fits_one(sizes: Sizes) -> bool {
    !matches!(sizes, Sizes::Pools | Sizes::Groups)
}

#[cfg(test)]
mod tests {
    use super::super::arguments::parsed;
    use super::*;

    // Are rounds interleaved, is the base saturated before all that depends on it, and is every policy where it fits?
    #[test]
    fn policies_take_turns_at_each_load_after_the_base_was_saturated() {
        let said = |flags: &str| -> Vec<String> {
            ordered(&parsed(flags)).expect("jobs").iter().map(ToString::to_string).collect()
        };
        let flags = "--policies steal,ondemand --mixes 1ms --cores 1 --loads 0.5,0.7 --seeds 4";
        assert_eq!(
            said(flags),
            [
                "seed 4, 1 core, 1ms, capacity, isolated",
                "seed 4, 1 core, 1ms, capacity, steal",
                "seed 4, 1 core, 1ms, capacity, ondemand",
                "seed 4, 1 core, 1ms, load 0.5, steal",
                "seed 4, 1 core, 1ms, load 0.5, ondemand",
                "seed 4, 1 core, 1ms, load 0.7, steal",
                "seed 4, 1 core, 1ms, load 0.7, ondemand",
            ]
        );
        let all = said("");
        let runs = all.iter().filter(|job| job.contains("load")).count();
        assert_eq!(runs, 3 * 4 * 5 * (8 + 10), "eight policies on one core, ten on two");
        assert_eq!(all.len() - runs, 3 * 4 * (8 + 10));
        assert!(all.iter().position(|job| job.contains("seed 2")) > all.iter().rposition(|job| job.contains("seed 1")));
        let error = |flags: &str| ordered(&parsed(flags)).expect_err(flags).to_string();
        assert!(error("--policies pools --cores 1").contains("pools and reserve need two cores"));
        assert!(
            error("--loads 0.5,0.5").contains("load 0.5, isolated is asked for twice"),
            "{}",
            error("--loads 0.5,0.5")
        );
    }

    #[test]
    fn a_server_is_told_the_class_only_if_it_must_be() {
        let arguments = |policy: &str| {
            let cell = Cell { cores: 2, mix: Mix::Ms1, policy: policy.parse().expect("a policy"), seed: 1 };
            cell.server_arguments(&Mix::Ms1.workload().expect("a workload")).join(" ")
        };
        assert!(
            arguments("hybrid")
                .ends_with("--workers 2 --pin --handler spin --burn cpu --classify none --slice 100000ns")
        );
        assert!(arguments("reserve").contains("--classify header"));
    }
}
