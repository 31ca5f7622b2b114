//! Simulates a run of a real server: the same requests at the same times and sockets.
//!
//! Times of the run are divided by its time scale, and costs are unscaled already. A request
//! arrives when the generator *sent* it. Its latency counts from the time when it should have been
//! sent, as on the real client. So both latencies include the generator's lateness.

use super::{ArrivingRequest, Fit, Rest, Setup};
use crate::workload::{Recording, Trace};
use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_sched::{Made, PolicyName, Wait};

/// The time to wake the thread of an emulated core (`--burn sleep`), in real time. A busy core
/// begins the next job without a wake-up, when its last job ends in its own time. So only idle
/// workers pay this time. Waking and receiving take 35 to 80 us on the machine of
/// [`Overheads::STOCK`], and longer if its two processors are busy.
const EMULATED: Overheads = Overheads { wake: Nanos::from_micros(50), ..Overheads::NONE };

/// Simulates a [`Trace`].
pub trait Replay {
    /// The cost of each step. On real cores it is [`Overheads::STOCK`]. Emulated cores have the
    /// overheads that the run charged them. Waking the thread of a core, divided by the time scale,
    /// is added.
    fn costs_of_steps(&self) -> Overheads;

    /// The costs and the load of the run, with default settings. Policies are made from this fit.
    fn fit(&self) -> Fit;

    /// The policy called `name`, made from `fit`, and a server that follows it.
    ///
    /// # Panics
    /// As [`Fit::policy`].
    fn server(&self, fit: &Fit, name: PolicyName) -> (Made, Setup);

    /// How an idle worker waits: `rest`, except for emulated cores that slept at once.
    fn rest(&self, rest: Rest) -> Rest;

    /// All requests, in the order in which they were sent.
    fn arrivals(&self) -> impl Iterator<Item = ArrivingRequest>;
}

impl Replay for Trace {
    fn costs_of_steps(&self) -> Overheads {
        let threads = if self.emulated { EMULATED } else { Overheads::STOCK };
        // The run's clock is scaled: a step of a thread takes less unscaled time by this factor.
        let threads = threads.mapped(|step| Nanos::new(step.get() / self.time_scale));
        let wake = self.overheads.wake.plus(threads.wake);
        // Emulated cores were not charged for contention. Their threads did contend, but this real
        // time is negligible after division by the time scale.
        let charged = Overheads { wake, serial: Nanos::ZERO, contend: Nanos::ZERO, ..self.overheads };
        if self.emulated { charged } else { threads }
    }

    fn fit(&self) -> Fit {
        let requests = self.requests.iter().map(|request| (request.class, request.cost));
        let beside = self.costs_of_steps().per_request();
        Fit::to_requests(requests, self.workers.into(), self.load_with(beside), beside)
    }

    fn server(&self, fit: &Fit, name: PolicyName) -> (Made, Setup) {
        let (made, setup) = fit.server(name, self.costs_of_steps());
        (made, Setup { rest: self.rest(setup.rest), ..setup })
    }

    fn rest(&self, rest: Rest) -> Rest {
        if rest == Rest::LOOKS {
            return rest;
        }
        // An emulated core that is not charged for wake-ups sleeps at once.
        let parks = self.emulated && self.overheads.wake == Nanos::ZERO;
        let nap_min = Nanos::new(rest.nap_min.get() / self.time_scale);
        Rest { wait: if parks { Wait::Park } else { rest.wait }, nap_min }
    }

    fn arrivals(&self) -> impl Iterator<Item = ArrivingRequest> {
        let Trace { time_scale, warmup, deadline, ref requests, .. } = *self;
        let unscaled = move |time: Nanos| Nanos::new(time.get() / time_scale);
        requests.iter().map(move |request| ArrivingRequest {
            at: unscaled(request.sent),
            due: unscaled(request.intended),
            cost: request.cost,
            class: request.class,
            socket: usize::from(request.socket),
            source: request.source,
            deadline: deadline.map_or(Nanos::MAX, unscaled),
            counts: request.intended >= warmup,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate;
    use forebay_metrics::Percentile;

    fn named(policy: &str) -> PolicyName {
        policy.parse().expect("a policy")
    }

    fn offered(lines: &str) -> Trace {
        let header = "forebay-trace/1 time-scale=1000 burn=sleep workers=2 seed=1 warmup=10ms workload=two";
        Trace::parse(&format!("{header}\n{lines}")).expect("a run")
    }

    /// Are times divided by the time scale, and costs not? Does latency count from the intended
    /// time?
    #[test]
    fn requests_come_when_they_were_sent_and_count_from_when_they_should_have_been() {
        let offered = offered("5ms 5ms short 2us 0 1\n20ms 24ms long 8us 1 0\n");
        let us = Nanos::from_micros;
        let incoming: Vec<ArrivingRequest> = offered.arrivals().collect();
        let last = ArrivingRequest { due: us(20), class: 1, ..ArrivingRequest::new(us(24), us(8)) };
        assert_eq!((incoming[0].socket, incoming[0].counts, incoming[1]), (1, false, last));
        let (_, setup) = offered.server(&offered.fit(), named("isolated"));
        let free = Setup { overheads: Overheads::NONE, rest: Rest::LOOKS, ..setup };
        let tally = simulate(&free, offered.arrivals());
        assert_eq!((tally.fates().answered, tally.latency_mean(None)), (2, us(12)));
        assert_eq!(tally.slowdown_at(Percentile::P50), 1.5);
    }

    /// Does the server in virtual time have the wake-up, the sleep and the time limits of the real
    /// one?
    #[test]
    fn the_server_is_that_of_the_run() {
        let offered = offered("0ns 0ns short 1us 0 0\n1s 1s short 1us 0 0\n");
        let steal = |run: &Trace| run.server(&run.fit(), named("steal")).1;
        let setup = steal(&offered);
        assert_eq!(setup.overheads, EMULATED.mapped(|step| Nanos::new(step.get() / 1_000)));
        assert_eq!(setup.rest, Rest { wait: Wait::Park, nap_min: Nanos::from_micros(1) });
        assert_eq!(setup.policy.stuck_after, Nanos::from_micros(20));
        let charged = Trace { overheads: Overheads::STOCK, ..offered.clone() };
        let setup = steal(&charged);
        assert_eq!(
            Overheads { wake: Nanos::ZERO, ..setup.overheads },
            Overheads { wake: Nanos::ZERO, serial: Nanos::ZERO, contend: Nanos::ZERO, ..Overheads::STOCK },
            "threads contended by themselves"
        );
        let cpu = Trace { emulated: false, time_scale: 1, ..offered };
        let setup = steal(&cpu);
        let as_served = Rest { wait: Wait::Adaptive, nap_min: Nanos::from_millis(1) };
        assert_eq!((setup.overheads, setup.rest), (Overheads::STOCK, as_served));
    }
}
