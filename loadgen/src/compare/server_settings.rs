//! Chooses the settings of the servers of a comparison, by flags, workload and machine.

use crate::arguments::CompareArguments;
use crate::compare::sizing::{self, Given};
use crate::failure::Failure;
use crate::lab::sim::{Fit, slice_of};
use crate::lab::workload::Workload;
use crate::plan::{Defaults, Plan, cpus, workload_of};
use crate::values;
use forebay::config::{Burn, Classify};
use forebay::inside::emulation::overheads::Overheads;
use forebay::inside::sched::PolicyName;
use forebay::time::Nanos;
use std::net::SocketAddr;

/// Default number of workers, as in the literature. On a machine with fewer CPUs, cores are
/// emulated.
pub(crate) const WORKERS_DEFAULT: u16 = 14;
/// From this number of CPUs on, cores are real by default. Two CPUs are for workers, and two for
/// the generator.
const REAL_CPUS_MIN: usize = 4;
/// The default load, at which the literature compares.
pub(crate) const LOAD_DEFAULT: f64 = 0.7;
const DEFAULTS: Defaults =
    Defaults { load: Some(LOAD_DEFAULT), duration: Nanos::from_secs(3), warmup: Nanos::from_secs(1) };

/// Settings that all servers of a comparison share.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    /// The flags from which the settings follow.
    pub(crate) arguments: CompareArguments,
    /// The number of workers of each server.
    pub(crate) workers: u16,
    /// Value of `--pools`; `None` for a single worker, which cannot be divided.
    pub(crate) pools: Option<String>,
    /// Value of `--slice`, unscaled.
    pub(crate) slice: Nanos,
    /// Real or emulated cores.
    pub(crate) burn: Burn,
    /// The factor by which the generator multiplies costs, and the server slices.
    pub(crate) time_scale: u64,
    /// Value of `--overheads`: the time that an emulated core is charged for each step.
    pub(crate) overheads: Overheads,
    /// Worker time per request outside its handler, unscaled. Emulated cores are charged for it. On
    /// real cores the kernel uses it.
    pub(crate) beside: Nanos,
    /// A warning if this machine cannot do what the given values require; otherwise empty.
    pub(crate) warning: String,
}

impl ServerSettings {
    /// Chooses the settings for this machine.
    ///
    /// # Errors
    /// A usage failure when `--pools` cannot be read, or contradicts `--workers`, or when no time
    /// scale fits.
    pub(crate) fn of(arguments: CompareArguments) -> Result<ServerSettings, Failure> {
        ServerSettings::on(cpus(), arguments)
    }

    fn on(cpus: usize, arguments: CompareArguments) -> Result<ServerSettings, Failure> {
        let sizes =
            |pools: &String| values::pools(pools).map_err(|why| Failure::usage(format!("--pools {pools}: {why}")));
        let in_pools = arguments.pools.as_ref().map(sizes).transpose()?;
        let in_pools = in_pools.map(|sizes| sizes.iter().sum());
        let workers = values::workers("--workers", arguments.workers, in_pools)?;
        // A server has 1,024 workers at most.
        let workers = workers.map_or_else(|| workers_on(cpus, arguments.burn), |workers| workers as u16);
        let burn = arguments.burn.unwrap_or_else(|| sizing::burn_on(cpus, workers));
        let usual = if burn == Burn::Sleep { Overheads::STOCK } else { Overheads::NONE };
        let overheads = arguments.overheads.unwrap_or(usual);
        if burn == Burn::Cpu && overheads != Overheads::NONE {
            return Err(Failure::usage(
                "--overheads are what an emulated core is charged, and these servers burn CPU: leave --overheads out, or add \
                 --burn sleep",
            ));
        }
        let charged = |workload: Workload| workload.with_time_beside(overheads.per_request());
        let workload = charged(workload_of(&arguments.offer));
        let offer = &arguments.offer;
        let then = offer.then.clone().map(charged);
        let given = Given {
            workers,
            workload: &workload,
            then: then.as_ref(),
            rate: offer.rate,
            load: offer.load.unwrap_or(LOAD_DEFAULT),
            lasts: offer.warmup.unwrap_or(DEFAULTS.warmup).plus(offer.duration.unwrap_or(DEFAULTS.duration)),
            burn,
            time_scale: arguments.time_scale,
        };
        let (time_scale, warning) = sizing::size(cpus, &given)?;
        let kernel = Overheads::STOCK.mapped(|step| Nanos::new(step.get() / time_scale));
        let beside = if burn == Burn::Sleep { overheads } else { kernel }.per_request();
        let mut settings = ServerSettings {
            workers,
            pools: arguments.pools.clone(),
            slice: arguments.slice.unwrap_or_else(|| slice_of(workload.smallest_cost())),
            burn,
            time_scale,
            overheads,
            beside,
            warning,
            arguments,
        };
        if settings.pools.is_none() {
            settings.pools = settings.pools_for(&workload);
        }
        Ok(settings)
    }

    /// The workload and load for which policies choose their sizes.
    pub(crate) fn fit(&self, workload: &Workload, load: f64) -> Fit {
        let workload = workload.clone().with_time_beside(self.beside);
        Fit::new(&workload, self.workers.into(), load).tuned(|tuning| {
            tuning.budget = self.slice;
            tuning.classified = self.classified();
            tuning.objective = self.arguments.optimise;
        })
    }

    /// The pool sizes that policy `pools` would choose, as in `simulate` and `plan`. `None` for a
    /// single worker.
    fn pools_for(&self, workload: &Workload) -> Option<String> {
        let pools = PolicyName::ALL.iter().find(|name| name.entry().has_pools())?;
        match self.fit(workload, 1.0).policy(*pools).sizes()[..] {
            [front, heavy] => Some(format!("front={front},heavy={heavy}")),
            _ => None,
        }
    }

    /// Arguments of `forebay serve` for `policy`, on `listen` and an admin port chosen by the
    /// system.
    pub(crate) fn serve_arguments(&self, policy: &str, listen: SocketAddr) -> Vec<String> {
        let set = |flag: &str, value: String| [flag.to_owned(), value];
        let Self { arguments, slice, .. } = self;
        let always = [
            set("--listen", listen.to_string()),
            set("--admin", "127.0.0.1:0".to_owned()),
            set("--policy", policy.to_owned()),
            set("--workers", self.workers.to_string()),
            set("--slice", format!("{}ns", slice.get())),
            set("--burn", self.burn.name().to_owned()),
            set("--time-scale", self.time_scale.to_string()),
            set("--classify", arguments.classify.name().to_owned()),
            set("--handler", "spin".to_owned()),
            set("--optimise", arguments.optimise.name().to_owned()),
        ];
        let pools = self.pools.clone().map(|pools| set("--pools", pools));
        let charged = (self.burn == Burn::Sleep).then(|| set("--overheads", self.overheads.text()));
        always.into_iter().chain(pools).chain(charged).flatten().collect()
    }

    /// Workers of each pool; `None` without pools.
    pub(crate) fn sizes(&self) -> Option<Vec<usize>> {
        values::pools(self.pools.as_deref()?).ok()
    }

    /// True if policies may know a request's class.
    pub(crate) fn classified(&self) -> bool {
        self.arguments.classify == Classify::Header
    }

    /// The plan of a run against the server at `target`.
    ///
    /// # Errors
    /// See [`Plan::of_offer`].
    pub(crate) fn plan(&self, target: SocketAddr) -> Result<Plan, Failure> {
        let (offer, workers) = (&self.arguments.offer, Some(self.workers));
        Plan::of_offer(offer, &DEFAULTS, target, workers, self.time_scale, self.overheads, self.beside)
    }
}

/// The default number of workers. On real cores, two CPUs are left for the generator's sender and
/// receiver.
fn workers_on(cpus: usize, burn: Option<Burn>) -> u16 {
    match burn {
        Some(Burn::Sleep) => WORKERS_DEFAULT,
        _ if cpus < REAL_CPUS_MIN => WORKERS_DEFAULT,
        _ => u16::try_from(cpus - 2).unwrap_or(u16::MAX).min(WORKERS_DEFAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn arguments(flags: &str) -> CompareArguments {
        let words = ["loadgen", "compare"].into_iter().chain(flags.split_whitespace());
        match Arguments::try_parse_from(words).expect("flags").command {
            Command::Compare(arguments) => *arguments,
            _ => panic!("not compare"),
        }
    }

    fn settings(flags: &str) -> Result<ServerSettings, Failure> {
        ServerSettings::of(arguments(flags))
    }

    fn chosen(flags: &str) -> ServerSettings {
        settings(flags).unwrap_or_else(|error| panic!("{flags}: {error}"))
    }

    #[test]
    fn defaults_follow_from_the_workload() {
        let defaults = chosen("--burn sleep");
        assert_eq!((defaults.workers, defaults.pools.as_deref()), (14, Some("front=8,heavy=6")));
        let free = chosen("--burn sleep --overheads none");
        assert_eq!((free.workers, free.pools.as_deref()), (14, Some("front=8,heavy=6")));
        assert_eq!((defaults.slice, defaults.time_scale), (Nanos::from_micros(100), 200));
        let high = chosen("--burn cpu --workload high-bimodal --workers 4");
        assert_eq!((high.pools.as_deref(), high.slice), (Some("front=1,heavy=3"), Nanos::from_micros(10)));
        assert_eq!(high.time_scale, 1);
        // Most of the work of these short requests is in the kernel, on real cores too.
        let brief = chosen("--burn cpu --cost bimodal:0.995:0.5us:500us --workers 14 --time-scale 1");
        assert_eq!(brief.pools.as_deref(), Some("front=8,heavy=6"));
        // Every request spends its first slice in the front pool, unless its class says that it is
        // heavy.
        let zygos = "--burn sleep --overheads none --workload zygos-bimodal-1";
        assert_eq!(chosen(zygos).pools.as_deref(), Some("front=12,heavy=2"));
        assert_eq!(chosen(&format!("{zygos} --classify header")).pools.as_deref(), Some("front=6,heavy=8"));
        // The heavy pool has at least one worker. A single worker cannot be divided into pools.
        let of = |workers| chosen(&format!("--cost fixed:1us --workers {workers}")).pools;
        assert_eq!((of(4).as_deref(), of(1)), (Some("front=3,heavy=1"), None));
    }

    // From 4 CPUs on, are cores real, with all CPUs but two as workers, at a scale that fits? Are
    // given values kept?
    #[test]
    fn the_machine_decides_how_many_workers_burn() {
        for (machine, flags, expected) in [
            (3, "", (Burn::Sleep, 14, 200)),
            (4, "", (Burn::Cpu, 2, 2)),
            (15, "", (Burn::Cpu, 13, 2)),
            (1_024, "", (Burn::Cpu, 14, 2)),
            (16, "--burn sleep --time-scale 7 --rate 100", (Burn::Sleep, 14, 7)),
        ] {
            let settings = ServerSettings::on(machine, arguments(flags)).expect("a choice");
            let chosen = (settings.burn, settings.workers, settings.time_scale);
            assert_eq!(chosen, expected, "{machine} CPUs {flags}");
        }
    }

    // Does a load include the overheads that servers charge, or the kernel's part on real cores?
    #[test]
    fn what_is_charged_takes_capacity() {
        let rate = |flags: &str| chosen(flags).plan(SocketAddr::from(([127, 0, 0, 1], 9))).expect("a plan").rate;
        let cost = "--workers 2 --cost fixed:10us --load 0.5 --time-scale 100 --burn";
        assert!((rate(&format!("{cost} sleep --overheads none")) - 1_000.0).abs() < 1e-6);
        assert!((rate(&format!("{cost} sleep --overheads receive=3us,send=7us")) - 500.0).abs() < 1e-6);
        // The kernel takes 2.68 us beside a scaled cost of 1 ms.
        assert!((rate(&format!("{cost} cpu")) * 1.002_68 - 1_000.0).abs() < 0.1);
        assert_eq!(chosen(&format!("{cost} sleep")).overheads, Overheads::STOCK);
        let error = settings(&format!("{cost} cpu --overheads lab")).expect_err("real cores").to_string();
        assert!(error.contains("--overheads") && error.contains("--burn sleep"), "{error}");
    }

    // Do servers get the pools of `--pools`, if these differ from the default pools?
    #[test]
    fn the_servers_get_the_pools_that_were_asked_for() {
        // The flags fix what the default pools depend on: emulated cores without overheads. So the
        // result is the same on any machine.
        let flags = "--workers 3 --burn sleep --overheads none --workload extreme-bimodal";
        let (chosen, asked) = (chosen(flags), chosen(&format!("{flags} --pools front=2,heavy=1")));
        let pools = |settings: &ServerSettings| {
            let arguments = settings.serve_arguments("pools", SocketAddr::from(([127, 0, 0, 1], 0)));
            let flag = arguments.iter().position(|argument| argument == "--pools").expect("the flag");
            arguments[flag + 1].clone()
        };
        assert_eq!((pools(&chosen), pools(&asked)), ("front=1,heavy=2".to_owned(), "front=2,heavy=1".to_owned()));
        assert_eq!(asked.sizes(), Some(vec![2, 1]));
    }

    #[test]
    fn pools_determine_the_workers() {
        assert_eq!(chosen("--pools front=1,heavy=2").workers, 3);
        assert_eq!(chosen("--pools front=1,heavy=2").sizes(), Some(vec![1, 2]));
        let error = settings("--pools front=1,heavy=2 --workers 4").expect_err("a contradiction").to_string();
        assert!(error.contains("--workers is 4") && error.contains("--pools have 3"), "{error}");
        for pools in [
            "front",
            "front=0",
            "front=0,heavy=2",
            "front=1,",
            "front=-1,heavy=3",
            "front=x,heavy=1",
            "front=65535,heavy=2",
        ] {
            let error = settings(&format!("--pools {pools}")).expect_err(pools).to_string();
            assert!(error.contains("like front=3,heavy=11"), "{error}");
        }
    }
}
