//! How often does a server wake while nothing comes? Method: how often its threads have waited,
//! which a busy host does not raise.

use support::prelude::*;

/// Once a second the admin thread collects, adapts, and looks at the host. It may wait a few times
/// meanwhile, for example for a lock of the kernel.
const WAITS_A_SECOND: u64 = 4;

const SECONDS: u64 = 5;

/// How often the threads of `server` have waited so far.
fn waits(server: &Forebay) -> u64 {
    let of = |status: &String| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    };
    server.threads("status").values().filter_map(of).sum()
}

#[test]
fn an_idle_server_hardly_wakes() {
    let _alone = alone();
    at_once(["steal", "auto"], |policy| {
        let server = Forebay::start(&["--policy", policy, "--workers", "2"]);
        // It rests once nothing has come for a second, of which a busy host may miss some.
        let hardly_wakes = || {
            let before = waits(&server);
            thread::sleep(Nanos::from_secs(SECONDS).into());
            (SECONDS - 1..=WAITS_A_SECOND * SECONDS).contains(&(waits(&server) - before))
        };
        await_until(hardly_wakes, policy);
    });
}
