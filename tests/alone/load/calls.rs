//! How many system calls does a lone datagram cost, and none of them to change what a worker waits
//! for? Method: a tracer counts the calls of both workers. Each datagram is sent once both wait. So
//! the count is the same on a busy host.

use nix::libc::{SYS_epoll_ctl, SYS_epoll_pwait, SYS_recvmmsg, SYS_sendmmsg, SYS_write, c_long};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use support::prelude::*;

const COUNTED: usize = 60;

/// How often the calls are counted at most. One count takes a part of a second.
const TRIES: usize = 20;

/// The calls by which a worker waits.
#[cfg(target_arch = "x86_64")]
const WAITS: [c_long; 2] = [nix::libc::SYS_epoll_wait, SYS_epoll_pwait];
#[cfg(not(target_arch = "x86_64"))]
const WAITS: [c_long; 1] = [SYS_epoll_pwait];

/// The call at whose begin or end `thread` is stopped.
fn call_of(thread: Pid) -> c_long {
    let registers = ptrace::getregs(thread).expect("it is stopped");
    #[cfg(target_arch = "x86_64")]
    let number = registers.orig_rax;
    #[cfg(target_arch = "aarch64")]
    let number = registers.regs[8];
    number as c_long
}

/// A worker under the tracer.
struct Traced {
    thread: Pid,
    /// The call that it is in.
    call: Option<c_long>,
    /// How often it has begun each call.
    calls: BTreeMap<c_long, usize>,
}

impl Traced {
    fn new(thread: Pid) -> Traced {
        ptrace::seize(thread, ptrace::Options::PTRACE_O_TRACESYSGOOD).expect("root may");
        ptrace::interrupt(thread).expect("it is traced");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it stops");
        ptrace::syscall(thread, None).expect("it is stopped");
        Traced { thread, call: None, calls: BTreeMap::new() }
    }

    /// Notes a call that has begun or ended, if there is one, and lets the worker go on.
    fn follow(&mut self) {
        let status = waitpid(self.thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)).expect("it is traced");
        match status {
            WaitStatus::StillAlive => return,
            WaitStatus::PtraceSyscall(_) if self.call.is_some() => self.call = None,
            WaitStatus::PtraceSyscall(_) => {
                let call = call_of(self.thread);
                self.call = Some(call);
                *self.calls.entry(call).or_default() += 1;
            }
            other => assert!(matches!(other, WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _)), "{other:?}"),
        }
        ptrace::syscall(self.thread, None).expect("it is stopped");
    }

    /// Whether it waits for an event, and the kernel has put it to sleep.
    fn waits(&self, process: u32) -> bool {
        let stat = || fs::read_to_string(format!("/proc/{process}/task/{}/stat", self.thread)).expect("it lives");
        self.call.is_some_and(|call| WAITS.contains(&call))
            && stat().rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // Only a stopped thread can be left, and the server cannot end before.
        let _ = ptrace::interrupt(self.thread);
        let _ = waitpid(self.thread, Some(WaitPidFlag::__WALL));
        let _ = ptrace::detach(self.thread, None);
    }
}

/// The calls of `COUNTED` datagrams, each alone in the server.
fn calls(policy: &str) -> BTreeMap<c_long, usize> {
    let server = Forebay::start(&["--policy", policy, "--workers", "2", "--wait", "park", "--handler", "echo"]);
    let (process, threads) = (server.process.child.id(), server.thread_ids());
    let clients = [(); 8].map(|()| Client::new(server.udp));
    let mut workers = ["forebay-0", "forebay-1"].map(|name| Traced::new(threads[name]));
    let mut settle = |client: Option<&Client>| {
        let mut is_answered = client.is_none();
        await_until(
            || {
                workers.iter_mut().for_each(Traced::follow);
                is_answered = is_answered || client.is_some_and(|client| client.receive_within(Nanos::ZERO).is_some());
                is_answered && workers.iter().all(|worker| worker.waits(process))
            },
            policy,
        );
        workers.each_ref().map(|worker| worker.calls.clone())
    };
    settle(None);
    let mut before = BTreeMap::new();
    for number in 0..2 * COUNTED {
        let client = &clients[number % clients.len()];
        client.request(number as u64, Nanos::ZERO, b"");
        let so_far = settle(Some(client)).into_iter().flatten().fold(BTreeMap::new(), |mut all, (call, count)| {
            *all.entry(call).or_insert(0) += count;
            all
        });
        if number + 1 == COUNTED {
            before = so_far;
        } else if number + 1 == 2 * COUNTED {
            return so_far.into_iter().map(|(call, count)| (call, count - before.get(&call).unwrap_or(&0))).collect();
        }
    }
    unreachable!("the last one returns")
}

#[test]
fn a_lone_datagram_costs_three_calls() {
    let _alone = alone();
    for policy in ["isolated", "global", "levels", "auto"] {
        // A worker that follows a new limit wakes the others, by a write. Then all count again.
        let is_undisturbed = |calls: &BTreeMap<c_long, usize>| calls.get(&SYS_write).is_none_or(|writes| *writes == 0);
        let calls = (0..TRIES).map(|_| calls(policy)).find(is_undisturbed);
        let calls = calls.expect("the limits change once a second at most");
        let of = |these: &[c_long]| these.iter().filter_map(|call| calls.get(call)).sum::<usize>();
        assert_eq!(
            [of(&WAITS), of(&[SYS_recvmmsg]), of(&[SYS_sendmmsg]), of(&[SYS_epoll_ctl])],
            [COUNTED, COUNTED, COUNTED, 0],
            "{policy}: {calls:?}"
        );
        // A worker also looks now and then what its thread has used.
        let all: usize = calls.values().sum();
        assert!(all <= 3 * COUNTED + COUNTED / 5, "{policy}: {calls:?}");
    }
}
