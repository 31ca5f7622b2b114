//! Does `--pin` give each worker one CPU, in turn, and leave all other threads unchanged? Method:
//! the built binary; the kernel's list of allowed CPUs for each of its threads.

use support::prelude::*;

/// The allowed CPUs of each thread of `server`, by the thread's name.
fn affinities(server: &Forebay) -> BTreeMap<String, String> {
    let allowed = |(name, status): (String, String)| (name, allowed_by(&status));
    server.threads("status").into_iter().map(allowed).collect()
}

fn allowed_by(status: &str) -> String {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("it is there").trim().to_owned()
}

/// The CPUs that this process may use, one by one.
fn allowed() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").expect("this process has a status");
    let list = allowed_by(&status);
    let ranges = list.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().expect("a CPU")..=last.parse().expect("a CPU")
    });
    ranges.map(|cpu| cpu.to_string()).collect()
}

#[test]
fn pinned_workers_have_a_cpu_each() {
    let server = Forebay::start(&["--pin", "--workers", "3"]);
    let cpus = allowed();
    let expected: Vec<(String, String)> =
        (0..3).map(|worker| (format!("forebay-{worker}"), cpus[worker % cpus.len()].clone())).collect();
    // Threads pin themselves as they begin.
    await_until(
        || {
            let affinities = affinities(&server);
            let pinned = expected.iter().all(|(name, cpu)| affinities.get(name) == Some(cpu));
            pinned && affinities.contains_key("forebay-admin")
        },
        &format!("not all of {expected:?}"),
    );
    let others = affinities(&server);
    assert_eq!(others["forebay-admin"], others["forebay"], "only workers are pinned");
    assert_eq!(others["forebay"].contains(['-', ',']), cpus.len() > 1);
    let free = Forebay::start(&["--workers", "1"]);
    await_until(|| affinities(&free).get("forebay-0") == Some(&others["forebay"]), "it is pinned");
}
