//! A server without workers, behind the endpoint under test.

use crate::config::Config;
use crate::metrics::{Description, Gauges, Tick, Unended};
use crate::sched::Recent;
use crate::server::admin::endpoint::Pages;
use crate::server::admin::{Probe, Upkeep};
use crate::server::reload::Reloads;
use crate::time::{Nanos, clock};

/// Stands in for a server.
pub(super) struct Server(Reloads);

impl Server {
    pub(super) fn new() -> Server {
        let pairs = [("burn", "sleep"), ("time-scale", "10"), ("workers", "1"), ("overheads", "none")];
        Server(Reloads::none(&Config::from_pairs(pairs).expect("a configuration")))
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
        &self.0
    }
}

impl Upkeep for Server {
    fn adapt(&self, _: &Recent) {}

    fn turn_away(&self) {}

    fn feed_watchdog(&self) {}
}

impl Probe for Server {
    fn kernel_dropped(&self) -> Option<u64> {
        None
    }

    fn healthy(&self) -> Result<(), String> {
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
