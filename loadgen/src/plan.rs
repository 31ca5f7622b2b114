//! From flags to a [`Plan`] for one run: fills in defaults and refuses contradictions.

pub use crate::arguments::RETRIES_MAX;
use crate::arguments::{OfferArguments, ProtocolArguments, RunArguments, WORKLOAD_DEFAULT};
use crate::endpoint::{Endpoint, ServerView, resolve};
use crate::failure::Failure;
use crate::lab::workload::{Shape, Workload};
use crate::profile::{Capture, Chosen};
use crate::replay::Replay;
use forebay::config::Network;
use forebay::inside::emulation::overheads::Overheads;
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// The address where `forebay serve` listens by default.
const TARGET_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_000);

/// One run: requests, target, rate, duration, and the criteria of its validity.
#[derive(Clone, Debug)]
pub struct Plan {
    /// UDP address of the server.
    pub target: SocketAddr,
    /// The protocol of the requests.
    pub profile: Chosen,
    /// Requests of a trace to send again, instead of drawn ones.
    pub replay: Option<Arc<Replay>>,
    /// The workload to draw requests from. For a replay, the costs of its requests.
    pub workload: Workload,
    /// The workload from the middle of the measured time on; `None` for no change.
    pub then: Option<Workload>,
    /// Mean requests per second of `workload`, above 0.
    pub rate: f64,
    /// How drawn requests follow one another.
    pub arrivals: Shape,
    /// The measured time.
    pub duration: Nanos,
    /// The time before it, which is not measured.
    pub warmup: Nanos,
    /// When the schedule begins, on the real-time clock; `None` for at once.
    pub start_at: Option<Nanos>,
    /// The number of source ports, at least 1.
    pub flows: u16,
    /// The number of sending threads, at least 1 and at most `flows`.
    pub threads: u16,
    /// The addresses that flows send from; `None` = the system chooses one.
    pub sources: Option<Network>,
    /// The factor on every cost, at least 1.
    pub time_scale: u64,
    /// The time for one attempt. A later reply is late, or the request is sent again. `None` for
    /// the default.
    pub timeout: Option<Nanos>,
    /// Whether requests are sent again.
    pub retrying: Retrying,
    /// The percentile that the run must know. `None` for the highest one that it knows, up to
    /// p99.9.
    pub percentile: Option<Percentile>,
    /// The run ends as soon as it knows this percentile; `None` to go on for `duration`.
    pub until_known: Option<Percentile>,
    /// Whether to leave out more than `warmup`, if the latency settles later.
    pub finds_warmup: bool,
    /// Whether the run is one of several rounds that know a percentile only together. Such a run
    /// may be VALID without knowing it alone.
    pub is_round: bool,
    /// The seed of the schedule.
    pub seed: u64,
    /// The deadline in each header; 0 = none.
    pub deadline_us: u32,
    /// The number of the server's workers, where known.
    pub workers: Option<u16>,
    /// Whether the server uses other CPUs than this process may use.
    pub server_apart: bool,
    /// What each step costs the server's emulated cores, unscaled; [`Overheads::NONE`] on real
    /// cores. A load is a share of the capacity including these costs.
    pub overheads: Overheads,
    /// Whether latency on an emulated core is in the core's own time, as its replies tell, instead
    /// of this host's.
    pub by_core_time: bool,
}

/// Whether requests are sent again, and when; by default they are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retrying {
    /// The most retries of a request, at most [`RETRIES_MAX`].
    pub max: u8,
    /// The mean time from the end of the first attempt to the second. It doubles for each further
    /// attempt.
    pub backoff: Nanos,
}

/// Defaults that differ between `run` and `compare`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    /// The share of capacity when neither a rate nor a load was given.
    pub(crate) load: Option<f64>,
    /// The measured time.
    pub(crate) duration: Nanos,
    /// The time before it, which is not measured.
    pub(crate) warmup: Nanos,
}

impl Plan {
    /// The plan of `loadgen run` with the profile from [`chosen`]. `endpoint` is the server's admin
    /// endpoint, if there is one, and `server` its answer.
    ///
    /// # Errors
    /// A usage failure when flags contradict the server, or do not determine the rate, or do not
    /// determine the target together with the server.
    pub(crate) fn of_run(
        arguments: &RunArguments,
        profile: Chosen,
        endpoint: Option<&Endpoint>,
        server: Option<&ServerView>,
    ) -> Result<Plan, Failure> {
        let workers = agreed("--workers", arguments.workers, server.and_then(ServerView::workers))?;
        let time_scale = agreed("--time-scale", arguments.time_scale, server.and_then(ServerView::time_scale))?;
        let seconds = if arguments.until_known.is_some() { 300 } else { 10 };
        let defaults = Defaults { load: None, duration: Nanos::from_secs(seconds), warmup: Nanos::from_secs(2) };
        let target = match (&arguments.target, endpoint, server) {
            (Some(target), ..) => resolve("--target", target)?,
            (None, Some(endpoint), Some(server)) => endpoint.target(server)?,
            (None, Some(_), None) => {
                return Err(Failure::usage("only --admin could say where: add --target HOST:PORT"));
            }
            (None, None, _) => TARGET_DEFAULT,
        };
        let overheads = server.map_or(Ok(Overheads::NONE), ServerView::overheads)?;
        let time_scale = time_scale.unwrap_or(1);
        let replay = match (&arguments.replay, &profile.recorded, &profile.requests) {
            (None, ..) => None,
            (Some(_), Some(recorded), Some(requests)) => Some(Replay::of_capture(recorded, requests, arguments.speed)),
            (Some(path), ..) => Some(Replay::read(path, arguments.speed, time_scale)?),
        };
        let offer = replay.as_ref().map(|replay| replay.offer(&arguments.offer));
        let offer = &offer.unwrap_or_else(|| of_profile(&arguments.offer, &profile));
        let beside = overheads.per_request();
        let plan = Plan::of_offer(offer, &defaults, target, workers, time_scale, overheads, beside)?;
        let replayed = replay.as_ref().and_then(|replay| replay.deadline);
        let deadline_us = arguments.deadline.or(replayed).map_or(0, |deadline| deadline.get().div_ceil(1_000));
        let deadline_us = u32::try_from(deadline_us)
            .map_err(|_| Failure::usage("--deadline is too long: the protocol carries at most 4294s"))?;
        let retrying = Retrying { max: arguments.retries, backoff: arguments.backoff };
        let replay = replay.map(Arc::new);
        let RunArguments { from: sources, threads, until_known, find_warmup: finds_warmup, start_at, .. } = *arguments;
        if threads > plan.flows {
            let why =
                format!("--threads is {threads}, but --flows {}: each thread needs a flow of its own", plan.flows);
            return Err(Failure::usage(why));
        }
        let plan = Plan { percentile: plan.percentile.or(until_known), until_known, finds_warmup, ..plan };
        Ok(Plan { profile, replay, threads, sources, start_at, deadline_us, retrying, ..plan })
    }

    /// The part of a plan that both commands share. The server has these overheads. `beside` is the
    /// time that a request takes a worker beyond its cost.
    ///
    /// # Errors
    /// A usage failure when the rate is not determined, or the costs do not fit a schedule.
    pub(crate) fn of_offer(
        offer: &OfferArguments,
        defaults: &Defaults,
        target: SocketAddr,
        workers: Option<u16>,
        time_scale: u64,
        overheads: Overheads,
        beside: Nanos,
    ) -> Result<Plan, Failure> {
        let charged = |workload: Workload| workload.with_time_beside(beside);
        let workload = charged(workload_of(offer));
        let rate = match (offer.rate, offer.load.or(defaults.load), workers) {
            (Some(rate), _, _) => rate,
            (None, Some(load), Some(workers)) => workload.rate_at(load, usize::from(workers), time_scale),
            (None, Some(_), None) => {
                return Err(Failure::usage(
                    "--load needs the number of workers: add --workers N, or --admin URL to ask the server",
                ));
            }
            (None, None, _) => {
                return Err(Failure::usage("say how much to offer: --rate N (requests/s) or --load SHARE"));
            }
        };
        Ok(Plan {
            target,
            profile: Chosen::default(),
            replay: None,
            workload,
            then: offer.then.clone().map(charged),
            rate,
            arrivals: offer.arrivals.clone(),
            duration: offer.duration.unwrap_or(defaults.duration),
            warmup: offer.warmup.unwrap_or(defaults.warmup),
            flows: offer.flows.unwrap_or_else(|| workers.map_or(256, |workers| workers.saturating_mul(32)).max(256)),
            threads: 1,
            sources: None,
            start_at: None,
            time_scale,
            timeout: offer.timeout,
            retrying: Retrying::default(),
            percentile: offer.percentile,
            until_known: None,
            finds_warmup: false,
            is_round: false,
            seed: offer.seed,
            deadline_us: 0,
            workers,
            server_apart: false,
            overheads,
            by_core_time: true,
        })
    }

    /// The same for one of several rounds that know `percentile` only together. Who asks for a
    /// percentile asks every run for it.
    pub(crate) fn of_round(self, percentile: Option<Percentile>) -> Plan {
        let is_round = self.percentile.is_none() && percentile.is_some();
        Plan { is_round, percentile: self.percentile.or(percentile), ..self }
    }

    /// The rate as a share of capacity, if the number of workers is known.
    pub fn load(&self) -> Option<f64> {
        let workers = self.workers.filter(|_| self.workload.has_costs());
        workers.map(|workers| self.workload.load_at(self.rate, usize::from(workers), self.time_scale))
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        if let Some(replay) = &self.replay {
            return replay.requests.iter().map(|request| usize::from(request.class) + 1).max().unwrap_or(0);
        }
        self.then.iter().chain([&self.workload]).map(|workload| workload.classes().len()).max().unwrap_or(0)
    }

    /// Their names.
    pub(crate) fn class_names(&self) -> &[&'static str] {
        let names = self.profile.profile.classes();
        &names[..names.len().min(self.classes())]
    }

    /// The name of the offered workload.
    pub fn offered(&self) -> String {
        let then = self.then.as_ref().map_or_else(String::new, |then| format!(", then {}", then.name()));
        format!("{}{then}{}", self.workload.name(), self.arrivals.told())
    }

    /// How many CPUs of this process the server's workers leave to each sending thread and its
    /// receiver; 0 if the number of workers is unknown.
    pub fn spare_cpus(&self) -> usize {
        let among_ours = |workers: u16| if self.server_apart { 0 } else { usize::from(workers) };
        self.workers.map_or(0, |workers| cpus().saturating_sub(among_ours(workers)) / usize::from(self.threads))
    }
}

/// CPUs that this process may use, by its affinity mask and its cgroup's quota.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The workload that the flags name.
pub(crate) fn workload_of(offer: &OfferArguments) -> Workload {
    offer.workload.clone().unwrap_or_else(|| WORKLOAD_DEFAULT.parse().expect("a form"))
}

/// The profile that `arguments` choose.
///
/// # Errors
/// See [`of_protocol`].
pub(crate) fn chosen(arguments: &RunArguments) -> Result<Chosen, Failure> {
    let RunArguments { protocol, admin, time_scale, deadline, retries, replay, offer, .. } = arguments;
    let given = [
        (admin.is_some(), "--admin"),
        (time_scale.is_some(), "--time-scale"),
        (deadline.is_some(), "--deadline"),
        (*retries > 0, "--retries"),
        (replay.is_some(), "--replay"),
    ];
    let capture = replay.as_deref().and_then(Path::to_str).filter(|path| Capture::is_at(path));
    match capture.filter(|_| protocol.profile.is_none() && protocol.payload.is_empty()) {
        Some(path) => {
            let profile: Chosen =
                format!("pcap={path}").parse().map_err(|error| Failure::usage(format!("--replay: {error}")))?;
            if profile.recorded.is_none() {
                let why = "the datagrams have no times: send them at a rate, with --profile pcap=FILE --rate N";
                return Err(Failure::usage(format!("--replay {path}: {why}")));
            }
            sole(profile, "--replay", offer, &given[..given.len() - 1])
        }
        None => of_protocol(protocol, offer, &given),
    }
}

/// The profile that `protocol` chooses. `given` has flags that only the bench protocol has.
///
/// # Errors
/// A usage failure for payloads that do not fit together, or a flag that only the bench protocol
/// has.
pub(crate) fn of_protocol(
    protocol: &ProtocolArguments,
    offer: &OfferArguments,
    given: &[(bool, &str)],
) -> Result<Chosen, Failure> {
    let (profile, flag) = match &protocol.profile {
        Some(profile) => (profile.clone(), "--profile"),
        None if protocol.payload.is_empty() => return Ok(Chosen::default()),
        None => (Chosen::of_payloads(protocol.payload.clone(), protocol.repeats)?, "--payload"),
    };
    sole(profile, flag, offer, given)
}

/// The `profile` of `flag`, unless a flag is given that does not go with it.
fn sole(profile: Chosen, flag: &str, offer: &OfferArguments, given: &[(bool, &str)]) -> Result<Chosen, Failure> {
    let of_offer =
        [(offer.workload.is_some(), "--workload"), (offer.then.is_some(), "--then"), (offer.load.is_some(), "--load")];
    match given.iter().chain(&of_offer).find(|(is_given, _)| *is_given && profile.requests.is_some()) {
        Some((_, bench)) => Err(Failure::usage(format!(
            "{bench} needs the bench protocol, and {flag} sends another: leave one of them out"
        ))),
        None => Ok(profile),
    }
}

/// What `profile` offers.
pub(crate) fn of_profile(offer: &OfferArguments, profile: &Chosen) -> OfferArguments {
    OfferArguments { workload: profile.requests.clone().or_else(|| offer.workload.clone()), ..offer.clone() }
}

/// A value from a flag or from the server. An error if both have one and they differ.
fn agreed<T: PartialEq + std::fmt::Display>(
    flag: &str,
    given: Option<T>,
    server: Option<T>,
) -> Result<Option<T>, Failure> {
    match (given, server) {
        (Some(given), Some(server)) if given != server => Err(Failure::usage(format!(
            "{flag} is {given}, but the server at --admin says {server}: leave {flag} out, or correct it"
        ))),
        (given, server) => Ok(given.or(server)),
    }
}

/// A plan of one second, half of it warm-up, at 1,000 requests/s, for a server of two workers.
#[cfg(test)]
pub(crate) fn test_plan() -> Plan {
    use crate::arguments::{Arguments, Command};
    let flags = "run --target 127.0.0.1:9 --workload extreme-bimodal --rate 1000 --duration 500ms --warmup 500ms --flows 64 \
                 --percentile 99 --workers 2";
    let words = ["loadgen"].into_iter().chain(flags.split_whitespace());
    let Command::Run(arguments) = <Arguments as clap::Parser>::parse_from(words).command else {
        unreachable!("the first flag says so")
    };
    Plan::of_run(&arguments, Chosen::default(), None, None).unwrap_or_else(|failure| panic!("{failure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do the workers of a server with CPUs of its own leave this process's CPUs to the pacer?
    #[test]
    fn a_server_apart_takes_no_cpu_from_the_pacer() {
        let plan = Plan { workers: Some(u16::MAX), ..test_plan() };
        assert_eq!(plan.spare_cpus(), 0, "no machine has that many CPUs to spare");
        assert_eq!(Plan { workers: Some(1), ..plan.clone() }.spare_cpus(), cpus() - 1);
        let apart = Plan { server_apart: true, ..plan };
        assert_eq!(apart.spare_cpus(), cpus());
        assert_eq!(Plan { threads: 2, ..apart.clone() }.spare_cpus(), cpus() / 2, "they share them");
        assert_eq!(Plan { workers: None, ..apart }.spare_cpus(), 0, "nobody knows the workers");
    }

    #[test]
    fn a_flag_may_repeat_what_the_server_says_but_not_contradict_it() {
        assert_eq!(agreed("--workers", Some(2), Some(2)).ok(), Some(Some(2)));
        assert_eq!(agreed("--workers", None, Some(2)).ok(), Some(Some(2)));
        let error = agreed("--workers", Some(3), Some(2)).expect_err("a contradiction").to_string();
        assert!(error.contains("--workers is 3") && error.contains("says 2"), "{error}");
    }

    #[test]
    fn load_is_the_share_of_capacity() {
        let plan = Plan { rate: 1_000.0, workload: "fixed:1ms".parse().expect("a form"), ..test_plan() };
        assert_eq!(plan.load(), Some(0.5));
        let charged = plan.workload.clone().with_time_beside(Nanos::from_micros(600));
        let load = Plan { workload: charged, ..plan }.load().expect("workers");
        assert!((load - 0.8).abs() < 1e-9, "{load}");
    }
}
