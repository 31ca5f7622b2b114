//! If the CPUs that the server may use change while it runs, does the number of working workers
//! follow?

use super::cgroup::Cgroup;
use super::overload::pause;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use support::prelude::*;

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

/// The number of attempts: a host that is busy takes CPU time beside the quota.
const TRIALS: usize = 3;

/// The part of its CPU time that a server under a quota of 20 % spends on answers within a second,
/// while twice as much comes. `None`, and skipped, without a cgroup.
fn spent_in_time(policy: &str) -> Option<f64> {
    /// One request, of 1 ms, each 2.5 ms: the quota allows one in 5 ms.
    const WORK: Nanos = Nanos::from_millis(1);
    const EACH: Nanos = Nanos::from_micros(2_500);
    /// The number of the first request that counts: before, the queues fill.
    const FIRST: u64 = 800;
    const REQUESTS: u64 = FIRST + 1_600;
    let cgroup = Cgroup::of_cpus()?;
    let server = start(policy);
    let cpu_time = || metric(&page(server.admin, "/metrics"), "process_cpu_seconds_total");
    let clients: Vec<Client> = (0..32).map(|_| Client::new(server.udp)).collect();
    cgroup.add(&server);
    cgroup.limit(20);
    let mut in_time = Nanos::ZERO;
    let mut hear = |within: Nanos| {
        for client in &clients {
            while let Some(answer) = client.receive_within(within) {
                let Header { status, id, served, .. } = answer.header;
                let took = served.kernel_wait.plus(served.queue_wait).plus(served.service);
                if status == Status::Ok && id >= FIRST && took < Nanos::from_secs(1) {
                    in_time = in_time.plus(WORK);
                }
            }
        }
    };
    let (mut next, mut before) = (clock::now(), 0.0);
    for id in 0..REQUESTS {
        if id == FIRST {
            before = cpu_time();
            next = clock::now();
        }
        clients[id as usize % clients.len()].request(id, WORK, b"");
        hear(Nanos::ZERO);
        pause(&mut next, EACH);
    }
    let used = cpu_time() - before;
    cgroup.limit(200);
    quiescent(server.admin, REQUESTS);
    hear(Nanos::from_millis(1));
    server.stop();
    Some(in_time.get() as f64 / Nanos::from_secs(1).get() as f64 / used)
}

// Twice as much comes as a quota allows. Is at least a fifth of the CPU time that the server gets
// spent on answers in time?
#[test]
fn a_quota_is_spent_on_answers_in_time() {
    let _alone = alone();
    at_once(["isolated", "steal", "auto"], |policy| {
        let mut parts = Vec::new();
        while parts.iter().all(|part| *part < 0.2) {
            assert!(parts.len() < TRIALS, "{policy}: {parts:?} of the CPU time");
            let Some(part) = spent_in_time(policy) else { return };
            parts.push(part);
        }
    });
}
