//! From the texts of the layers to a [`Config`]: each value parsed, then the rules between settings.

use super::layers::{Effective, RawConfig, Row};
use super::lookup::Lookup;
use super::parse;
use super::problem::Problems;
use super::setting::SETTINGS;
use super::{Burn, Classify, Config, HandlerName, Io, Pool, Wait, cpus};
use crate::sched::{PolicyName, Sizes};
use crate::time::Nanos;

const HOUR: Nanos = Nanos::from_secs(3_600);
const MICROSECOND: Nanos = Nanos::from_micros(1);

/// The configuration that `raw` makes.
pub(super) fn resolve(raw: RawConfig) -> Result<Effective, Problems> {
    let mut lookup = Lookup::new(raw);
    let config = config(&mut lookup);
    match lookup.problems() {
        Some(problems) => Err(problems),
        None => Ok(Effective { rows: rows(&lookup, &config), config }),
    }
}

/// The value of the setting `key` in `config`, written as on the command line.
///
/// # Panics
/// If `key` is not in [`SETTINGS`].
pub(super) fn value_text(config: &Config, key: &str) -> String {
    match key {
        "listen" => config.listen.to_string(),
        "admin" => config.admin.to_string(),
        "policy" => config.policy.name().to_owned(),
        "workers" => config.workers.to_string(),
        "pools" => {
            let pools = config.pools.iter().map(|Pool { name, workers }| format!("{name}={workers}"));
            pools.collect::<Vec<_>>().join(",")
        }
        "slice" => config.slice.to_string(),
        "reserved" => config.reserved.map_or_else(|| "auto".to_owned(), |reserved| reserved.to_string()),
        "classify" => config.classify.name().to_owned(),
        "handler" => config.handler.name().to_owned(),
        "burn" => config.burn.name().to_owned(),
        "time-scale" => config.time_scale.to_string(),
        "wait" => config.wait.name().to_owned(),
        "io" => config.io.name().to_owned(),
        "reject-source-ports" => parse::ports_text(&config.reject_source_ports),
        "cost-cap" => config.cost_cap.to_string(),
        "drain-timeout" => config.drain_timeout.to_string(),
        "lame-duck" => config.lame_duck.to_string(),
        "unhealthy-after" => config.unhealthy_after.to_string(),
        "pin" => config.pin.to_string(),
        "log-format" => config.log_format.name().to_owned(),
        _ => unreachable!("{key} is not in the table of settings"),
    }
}

/// The configuration. After a problem it holds defaults in place of what was wrong, so that the rest is still
/// checked; the caller throws it away.
fn config(lookup: &mut Lookup) -> Config {
    let policy = lookup.value("policy", parse::choice);
    let (workers, pools) = staff(lookup, policy);
    let handler = lookup.value("handler", parse::choice);
    let burn = lookup.value("burn", parse::choice);
    let wait = wait(lookup, burn);
    check_handler(lookup, handler, burn);
    let (listen, io) = (lookup.value("listen", parse::listen), lookup.value("io", parse::choice));
    if io == Io::Portable && listen.ip().is_unspecified() {
        let claims = vec![lookup.claim("io"), lookup.claim("listen")];
        lookup.conflict(
            claims,
            "no portable call tells which address a datagram came to, and the reply must come from there; allowed: \
             listen on one address, or io batches or trains",
        );
    }
    let classify = lookup.value("classify", parse::choice);
    if policy.entry().needs_class && classify == Classify::None && !lookup.is_open("classify") {
        let claims = vec![lookup.claim("policy"), lookup.claim_of("classify", "none".to_owned())];
        let why = format!("{policy} must know the class of a request; allowed: classify header, or another policy");
        lookup.conflict(claims, &why);
    }
    Config {
        listen,
        admin: lookup.value("admin", parse::address),
        policy,
        workers,
        pools,
        slice: lookup.value("slice", |text| parse::duration(text, MICROSECOND..=Nanos::from_secs(1))),
        reserved: reserved(lookup, workers),
        classify,
        handler,
        burn,
        time_scale: lookup.value("time-scale", |text| parse::count(text, 1..=1_000_000)),
        wait,
        io,
        reject_source_ports: lookup.value("reject-source-ports", parse::ports),
        cost_cap: lookup.value("cost-cap", |text| parse::duration(text, MICROSECOND..=HOUR)),
        drain_timeout: lookup.value("drain-timeout", |text| parse::duration(text, Nanos::ZERO..=HOUR)),
        lame_duck: lookup.value("lame-duck", |text| parse::duration(text, Nanos::ZERO..=HOUR)),
        unhealthy_after: lookup.value("unhealthy-after", |text| parse::duration(text, Nanos::ZERO..=HOUR)),
        pin: lookup.value("pin", parse::switch),
        log_format: lookup.value("log-format", parse::choice),
    }
}

/// The workers and the pools they form, from whichever of the two is given.
fn staff(lookup: &mut Lookup, policy: PolicyName) -> (usize, Vec<Pool>) {
    let workers = lookup.given("workers", parse::workers);
    let Some(pools) = lookup.given("pools", parse::pools) else {
        let workers = workers.unwrap_or_else(cpus);
        if policy.entry().sizes == Sizes::Pools && workers == 1 && !lookup.is_open("pools") {
            let claims = vec![lookup.claim("policy"), lookup.claim_of("workers", "1".to_owned())];
            lookup.conflict(
                claims,
                "one worker makes no two pools; allowed: 2 or more workers, or one pool on purpose (pools = \
                 \"front=1\"), or another policy",
            );
        }
        return (workers, default_pools(workers));
    };
    let sum = pools.iter().map(|pool| pool.workers).sum();
    match workers {
        None => lookup.imply("workers", "the sum of pools"),
        Some(workers) if workers != sum => {
            let claims = vec![lookup.claim("workers"), lookup.claim("pools")];
            lookup.conflict(claims, &format!("the pools have {sum} workers; allowed: workers {sum}, or none given"));
        }
        Some(_) => {}
    }
    (sum, pools)
}

fn reserved(lookup: &mut Lookup, workers: usize) -> Option<usize> {
    let reserved = lookup.value("reserved", parse::reserved);
    if reserved.is_some_and(|reserved| reserved > workers) && !lookup.is_open("workers") {
        let claims = vec![lookup.claim("reserved"), lookup.claim_of("workers", workers.to_string())];
        lookup.conflict(claims, &format!("there are {workers} workers; allowed: auto, or 1 to {workers}"));
    }
    reserved
}

fn wait(lookup: &mut Lookup, burn: Burn) -> Wait {
    let wait = lookup.value("wait", parse::choice);
    if burn == Burn::Cpu || wait == Wait::Park {
        return wait;
    }
    if lookup.has("wait") {
        let claims = vec![lookup.claim("burn"), lookup.claim("wait")];
        lookup.conflict(
            claims,
            "emulated cores share the real ones, and a worker that spins would take time from the others; allowed: \
             wait park, or none given, or burn cpu",
        );
    } else {
        lookup.imply("wait", "park because of burn sleep");
    }
    Wait::Park
}

fn check_handler(lookup: &mut Lookup, handler: HandlerName, burn: Burn) {
    if burn == Burn::Sleep && handler == HandlerName::Digest {
        let claims = vec![lookup.claim("burn"), lookup.claim("handler")];
        lookup.conflict(
            claims,
            "digest does real work, which cannot be slept; allowed: burn cpu, or handler echo, spin or fork",
        );
    }
}

/// Every setting of `config` and where `lookup` has it from.
fn rows(lookup: &Lookup, config: &Config) -> Vec<Row> {
    let row = |key| Row { key, value: value_text(config, key), origin: lookup.origin(key) };
    SETTINGS.iter().map(|setting| row(setting.key)).collect()
}

/// A fifth of the workers, rounded up, in front; the others behind, if any are left.
fn default_pools(workers: usize) -> Vec<Pool> {
    let front = workers.div_ceil(5).max(1);
    let pool = |name: &str, workers| Pool { name: name.to_owned(), workers };
    let mut pools = vec![pool("front", front)];
    if workers > front {
        pools.push(pool("heavy", workers - front));
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(pairs: &[(&str, &str)]) -> (usize, String) {
        let config = Config::from_pairs(pairs.iter().copied()).unwrap();
        (config.workers, value_text(&config, "pools"))
    }

    fn problems(pairs: &[(&str, &str)]) -> Vec<String> {
        let problems = Config::from_pairs(pairs.iter().copied()).unwrap_err();
        problems.iter().map(|problem| problem.to_string()).collect()
    }

    // Are the defaults those of CONTRACTS, and valid?
    #[test]
    fn defaults_hold() {
        let config = Config::from_pairs([]).unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config.workers, cpus());
        assert_eq!((config.policy.name(), config.wait, config.burn), ("steal", Wait::Adaptive, Burn::Cpu));
        assert_eq!(config.slice, Nanos::from_micros(50));
        assert_eq!(config.listen.to_string(), "127.0.0.1:9000");
    }

    // How are workers split when no pools are given, and counted when they are?
    #[test]
    fn workers_and_pools_decide_each_other() {
        for (workers, split) in [
            ("1", "front=1"),
            ("2", "front=1,heavy=1"),
            ("5", "front=1,heavy=4"),
            ("6", "front=2,heavy=4"),
            ("14", "front=3,heavy=11"),
        ] {
            assert_eq!(pools(&[("workers", workers)]), (workers.parse().unwrap(), split.to_owned()));
        }
        let given = ("front=1,middle=2,heavy=4".to_owned(), 7);
        assert_eq!(pools(&[("pools", &given.0)]), (given.1, given.0.clone()));
        assert_eq!(pools(&[("pools", &given.0), ("workers", "7")]), (given.1, given.0.clone()));
        assert_eq!(pools(&[("policy", "pools"), ("pools", "front=1")]), (1, "front=1".to_owned()));
        assert_eq!(pools(&[("policy", "global"), ("workers", "1")]), (1, "front=1".to_owned()));
    }

    // Does sleeping force parking, unless it is contradicted?
    #[test]
    fn sleeping_forces_parking() {
        for pairs in [vec![("burn", "sleep")], vec![("burn", "sleep"), ("wait", "park")]] {
            assert_eq!(Config::from_pairs(pairs).unwrap().wait, Wait::Park);
        }
    }

    // Does each rule between two settings name both, with what is allowed?
    #[test]
    fn conflicts_name_both_settings() {
        for (first, second) in [
            (("burn", "sleep"), ("wait", "spin")),
            (("burn", "sleep"), ("wait", "adaptive")),
            (("burn", "sleep"), ("handler", "digest")),
            (("workers", "4"), ("pools", "front=3,heavy=11")),
            (("policy", "pools"), ("workers", "1")),
            (("io", "portable"), ("listen", "0.0.0.0:9000")),
            (("io", "portable"), ("listen", "[::]:9000")),
        ] {
            let problems = problems(&[first, second]);
            assert_eq!(problems.len(), 1, "{problems:?}");
            let start = format!("{} = {:?} (code) with {} = {:?} (code): ", first.0, first.1, second.0, second.1);
            assert!(problems[0].starts_with(&start), "{problems:?}");
            assert!(problems[0].contains("allowed: "), "{problems:?}");
        }
    }

    // Are two conflicts of one setting both reported?
    #[test]
    fn one_conflict_does_not_hide_another() {
        let problems = problems(&[("burn", "sleep"), ("wait", "spin"), ("handler", "digest")]);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    // Is one worker left alone while it is unclear which pools were meant?
    #[test]
    fn a_wrong_value_is_not_half_of_a_conflict() {
        let problems = problems(&[("policy", "pools"), ("workers", "1"), ("pools", "front")]);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    // Do all problems come out together, and no conflict that rests on a value which is wrong anyway?
    #[test]
    fn problems_come_together_without_echoes() {
        let problems = problems(&[
            ("polcy", "pools"),
            ("policy", "pools"),
            ("workers", "0"),
            ("burn", "sleep"),
            ("handler", "digst"),
            ("wait", "spni"),
            ("slice", "50"),
        ]);
        let starts = ["polcy", "workers", "handler", "wait", "slice"];
        assert_eq!(problems.len(), starts.len(), "{problems:#?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(&format!("{start} = ")), "{problem}");
            assert!(problem.contains("allowed: "), "{problem}");
        }
    }
}
