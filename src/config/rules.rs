//! The rules between settings: where one decides another, and which values exclude each other.

use super::caches;
use super::layers::Layers;
use super::table::Config;
use super::value::{Burn, SOCKETS_MAX};
use crate::emulation::overheads::Overheads;
use crate::sched::{Wait, grouping};

/// Applies every rule to `config`, whose values are each valid on their own.
pub(super) fn apply(config: &mut Config, layers: &mut Layers) {
    pools(config, layers);
    parking(config, layers);
    if config.groups == 0 {
        let groups = || grouping::groups_of(config.workers, caches::used(config.workers));
        config.groups = if config.policy.entry().may_group() { groups() } else { 1 };
    }
    for (excluded, keys, why) in exclusions(config) {
        if excluded {
            layers.conflict(config, keys, why);
        }
    }
}

/// Derives the number of workers from the pools. Policy `pools` needs two workers, unless one pool
/// is given on purpose.
fn pools(config: &mut Config, layers: &mut Layers) {
    let sum = config.pools.iter().map(|pool| pool.workers).sum();
    if layers.has("pools") {
        if !layers.has("workers") {
            layers.imply("workers", "the sum of pools");
        } else if config.workers != sum {
            let why = format!("the pools have {sum} workers; allowed: workers {sum}, or none given");
            layers.conflict(config, ["workers", "pools"], why);
        }
        config.workers = sum;
    } else if config.policy.entry().has_pools() && config.workers == 1 && !layers.is_open("pools") {
        let why = "one worker makes no two pools; allowed: 2 or more workers, or one pool on purpose (pools = \
                   \"front=1\"), or another policy";
        layers.conflict(config, ["policy", "workers"], why.to_owned());
    }
}

/// Makes workers on emulated cores park instead of spinning.
fn parking(config: &mut Config, layers: &mut Layers) {
    if config.burn == Burn::Cpu || config.wait == Wait::Park {
        return;
    }
    if layers.has("wait") {
        let why = "emulated cores share the real ones, and a worker that spins would take time from the others; \
                   allowed: wait park, or none given, or burn cpu";
        layers.conflict(config, ["burn", "wait"], why.to_owned());
    } else {
        layers.imply("wait", "park because of burn sleep");
    }
    config.wait = Wait::Park;
}

/// For each pair of settings: whether their values exclude each other, the keys, and the reason.
fn exclusions(config: &Config) -> [(bool, [&'static str; 2], String); 5] {
    let &Config { ref listen, policy, workers, groups, burn, .. } = config;
    let addresses = listen.len();
    [
        (
            burn == Burn::Cpu && config.overheads != Overheads::NONE,
            ["overheads", "burn"],
            "a real core pays for its steps by itself, only an emulated one is charged; allowed: overheads none, or \
             none given, or burn sleep"
                .to_owned(),
        ),
        // Every worker needs a socket on each address.
        (
            workers * addresses > SOCKETS_MAX,
            ["workers", "listen"],
            format!(
                "{workers} workers on {addresses} addresses need {} sockets; allowed: {SOCKETS_MAX} sockets, so {} \
                 workers or fewer addresses",
                workers * addresses,
                SOCKETS_MAX / addresses
            ),
        ),
        (
            config.handover.is_some() && config.admin.is_none(),
            ["handover", "admin"],
            "a successor is to take the admin endpoint over; allowed: handover off, or an address for admin".to_owned(),
        ),
        (groups > workers, ["groups", "workers"], format!("a group has a worker; allowed: auto, or 1 to {workers}")),
        (
            groups > 1 && !policy.entry().may_group(),
            ["groups", "policy"],
            format!("the sizes of {policy} are of all workers; allowed: groups auto or 1, or another policy"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value;

    fn pools(pairs: &[(&str, &str)]) -> (usize, String) {
        let config = Config::from_pairs(pairs.iter().copied()).unwrap();
        (config.workers, value::list_text(&config.pools))
    }

    fn problems(pairs: &[(&str, &str)]) -> Vec<String> {
        let problems = Config::from_pairs(pairs.iter().copied()).unwrap_err();
        problems.iter().map(|problem| problem.to_string()).collect()
    }

    // How are workers split without pools, and counted with pools?
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

    // Does an emulated core pay the `stock` costs by default, and a real core nothing?
    #[test]
    fn emulated_cores_are_charged() {
        let overheads = |pairs: &[(&str, &str)]| Config::from_pairs(pairs.iter().copied()).unwrap().overheads;
        assert_eq!(overheads(&[]), Overheads::NONE);
        assert_eq!(overheads(&[("overheads", "none")]), Overheads::NONE);
        assert_eq!(overheads(&[("burn", "sleep")]), Overheads::STOCK);
        assert_eq!(overheads(&[("burn", "sleep"), ("overheads", "lab")]), Overheads::LAB);
        assert_eq!(problems(&[("overheads", "stock")]).len(), 1);
    }

    // Does each rule between two settings name both, and what is allowed?
    #[test]
    fn conflicts_name_both_settings() {
        for (first, second) in [
            (("burn", "sleep"), ("wait", "spin")),
            (("burn", "sleep"), ("wait", "adaptive")),
            (("overheads", "lab"), ("burn", "cpu")),
            (("workers", "4"), ("pools", "front=3,heavy=11")),
            (("policy", "pools"), ("workers", "1")),
            (("groups", "5"), ("workers", "4")),
            (("groups", "2"), ("policy", "pools")),
            (("workers", "1024"), ("listen", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5")),
        ] {
            let problems = problems(&[first, second]);
            assert_eq!(problems.len(), 1, "{problems:?}");
            let start = format!("{} = {:?} (code) with {} = {:?} (code): ", first.0, first.1, second.0, second.1);
            assert!(problems[0].starts_with(&start), "{problems:?}");
            assert!(problems[0].contains("allowed: "), "{problems:?}");
        }
        // One problem does not hide another. A wrong value takes part in no conflict.
        assert_eq!(
            problems(&[
                ("burn", "sleep"),
                ("wait", "spin"),
                ("overheads", "lab"),
                ("policy", "pools"),
                ("workers", "1")
            ])
            .len(),
            2
        );
        assert_eq!(problems(&[("policy", "pools"), ("workers", "1"), ("pools", "front")]).len(), 1);
    }
}
