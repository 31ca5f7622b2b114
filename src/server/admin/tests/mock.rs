//! A server without workers, behind the endpoint under test.

use crate::config::Config;
use crate::metrics::{Description, Gauges, Tick, Unended};
use crate::runtime::activity::Activity;
use crate::sched::Recent;
use crate::server::admin::endpoint::Pages;
use crate::server::admin::{Probe, Upkeep};
use crate::server::reload::Reloads;
use crate::time::{Nanos, clock};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Stands in for a server.
pub(super) struct Server {
    reloads: Reloads,
    activity: Activity,
    /// Whether it has nothing to do.
    pub(super) is_idle: AtomicBool,
    /// How often the gate has decided.
    pub(super) decisions: AtomicUsize,
}

impl Server {
    pub(super) fn new() -> Server {
        let pairs = [("burn", "sleep"), ("time-scale", "10"), ("workers", "1"), ("overheads", "none")];
        Server {
            reloads: Reloads::none(&Config::from_pairs(pairs).expect("a configuration")),
            activity: Activity::default(),
            is_idle: AtomicBool::new(false),
            decisions: AtomicUsize::new(0),
        }
    }
}

impl Pages for Server {
    fn tick(&self) -> Tick {
        Tick { at: clock::now(), ..Tick::default() }
    }

    fn oldest(&self, _: usize) -> Vec<Unended> {
        Vec::new()
    }

    fn helpers(&self) -> Vec<Option<Nanos>> {
        Vec::new()
    }

    fn unreceived(&self) -> Vec<u64> {
        Vec::new()
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn reloads(&self) -> &Reloads {
        &self.reloads
    }
}

impl Upkeep for Server {
    fn adapt(&self, _: &Recent) {}

    fn turn_away(&self) {
        self.decisions.fetch_add(1, Ordering::Relaxed);
    }

    fn feed_watchdog(&self) {}

    fn begin_rest(&self) -> bool {
        self.activity.rest();
        self.is_idle.load(Ordering::Relaxed)
    }

    fn activity(&self) -> &Activity {
        &self.activity
    }
}

impl Probe for Server {
    fn kernel_dropped(&self) -> Option<u64> {
        None
    }

    fn check_health(&self) -> Result<(), String> {
        Ok(())
    }

    fn gauges(&self) -> Gauges {
        let (policy, listen) = ("steal".into(), "127.0.0.1:9000".into());
        let description = Description {
            policy,
            listen,
            workers: 1,
            groups: 1,
            burn: "cpu".into(),
            time_scale: 1,
            overheads: None,
            notices: "ring".into(),
        };
        Gauges { description, ..Gauges::default() }
    }

    fn watchdog_every(&self) -> Option<Nanos> {
        None
    }
}
