//! If the CPUs that the server may use change while it runs, does the number of working workers
//! follow?

use super::cgroup::Cgroup;
use crate::support::prelude::*;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const COST: Nanos = Nanos::from_micros(200);

/// A server whose stop would take very long if it waited for a parked worker.
fn start(policy: &str) -> Forebay {
    Forebay::start(&["--policy", policy, "--workers", "2", "--drain-timeout", "600s"])
}

fn parked(server: &Forebay) -> f64 {
    metric(&page(server.admin, "/metrics"), "forebay_parked_workers")
}

/// Asks from many source ports, so that each socket gets requests; returns the workers that
/// answered.
fn ask_all(server: &Forebay, asked: &mut u64) -> BTreeSet<u16> {
    let clients: Vec<Client> = (0..32).map(|_| Client::new(server.udp)).collect();
    clients.iter().for_each(|client| client.request(1, COST, b""));
    *asked += clients.len() as u64;
    clients.iter().map(|client| client.receive().header.served.worker).collect()
}

/// All CPUs that this program may use, or only the first of them.
fn cpus(all: bool) -> CpuSet {
    let mask = sched_getaffinity(Pid::from_raw(0)).expect("a mask");
    let allowed = (0..CpuSet::count()).filter(|cpu| mask.is_set(*cpu).expect("in range"));
    let mut cpus = CpuSet::new();
    allowed.take(if all { usize::MAX } else { 1 }).for_each(|cpu| cpus.set(cpu).expect("in range"));
    cpus
}

/// Lets every thread of `server` use `cpus`, as `taskset --all-tasks --pid` does.
fn confine(server: &Forebay, cpus: &CpuSet) {
    for thread in server.thread_ids().into_values() {
        sched_setaffinity(thread, cpus).expect("a thread of ours");
    }
}

/// Asks until this many workers are parked.
fn await_parked(server: &Forebay, asked: &mut u64, expected: f64) {
    let parks = || {
        ask_all(server, asked);
        parked(server) == expected
    };
    await_until(parks, &format!("{expected} workers park"));
}

/// Asks a server of two workers all the time. First both work. When the server `may_use_one` CPU,
/// one worker parks. Then both work again. At the stop, one is parked.
fn follows(policy: &str, server: Forebay, may_use_one: impl Fn(&Forebay, bool)) {
    // Each pool keeps its first worker. Under `isolated` no other worker serves a socket, so none
    // parks.
    let parks = if ["isolated", "pools"].contains(&policy) { 0.0 } else { 1.0 };
    let mut asked = 0;
    await_parked(&server, &mut asked, 0.0);
    may_use_one(&server, true);
    await_parked(&server, &mut asked, parks);
    if parks > 0.0 {
        for _ in 0..10 {
            assert_eq!(ask_all(&server, &mut asked), BTreeSet::from([0]), "{policy}: the other is parked");
        }
    }
    assert_eq!(ready(server.admin), (200, "ready\n".to_owned()), "{policy}");
    may_use_one(&server, false);
    await_parked(&server, &mut asked, 0.0);
    await_until(|| ask_all(&server, &mut asked).contains(&1), &format!("{policy}: both work"));
    may_use_one(&server, true);
    await_parked(&server, &mut asked, parks);
    let fates = quiescent(server.admin, asked);
    assert_eq!(fates, fates! { received: asked, answered: asked }, "{policy}");
    server.stop();
}

#[test]
fn workers_follow_an_affinity_mask() {
    let _alone = alone();
    if cpus(true) == cpus(false) {
        return skip("there is one CPU");
    }
    at_once(policies(), |policy| {
        let server = start(policy);
        follows(policy, server, |server, one| confine(server, &cpus(!one)));
    });
}

#[test]
fn workers_follow_the_cpuset_of_a_cgroup() {
    let _alone = alone();
    if cpus(true) == cpus(false) {
        return skip("there is one CPU");
    }
    at_once(["isolated", "auto"], |policy| {
        let Some(cgroup) = Cgroup::with_cpuset() else { return };
        let numbers = |all: bool| {
            let cpus = cpus(all);
            let set = (0..CpuSet::count()).filter(|cpu| cpus.is_set(*cpu).expect("in range"));
            set.map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
        };
        cgroup.confine(&numbers(true));
        let server = start(policy);
        cgroup.add(&server);
        follows(policy, server, |_, one| cgroup.confine(&numbers(!one)));
    });
}

// After a quota is used up, does time without a CPU count, too, and is no request shed because of
// it?
#[test]
fn workers_follow_a_quota() {
    let _alone = alone();
    if cpus(true) == cpus(false) {
        return skip("there is one CPU");
    }
    at_once(["isolated", "steal", "auto"], |policy| {
        let Some(cgroup) = Cgroup::of_cpus() else { return };
        let server = start(policy);
        cgroup.add(&server);
        let throttled =
            |what: &str| metric(&page(server.admin, "/metrics"), &format!("forebay_throttled_{what}_total"));
        let before = ["periods", "seconds"].map(throttled);
        cgroup.limit(20);
        let client = Client::new(server.udp);
        (0..40).for_each(|id| client.request(id, COST.times(10), b""));
        (0..40).for_each(|_| assert_eq!(client.receive().header.status, Status::Ok, "{policy}"));
        await_until(
            || throttled("periods") > before[0] && throttled("seconds") > before[1],
            "the quota is not used up",
        );
        server.stop();
        let server = start(policy);
        cgroup.limit(150);
        cgroup.add(&server);
        // A part of a CPU counts as one.
        follows(policy, server, |_, one| cgroup.limit(if one { 100 } else { 150 }));
    });
}
