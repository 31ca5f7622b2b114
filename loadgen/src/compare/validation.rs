//! Validation (`compare --simulate`): simulates the requests of each run in virtual time, under the
//! server's policy.

use crate::compare::server_settings::ServerSettings;
use crate::drive::receiver::Reply;
use crate::drive::{Exchange, trace};
use crate::endpoint::ServerView;
use crate::lab::sim::{Replay, simulate};
use crate::lab::stats::{Block, Sample};
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::json::RunReport;
use crate::text::time;
use forebay::config::Burn;
use forebay::inside::sched::{Made, PolicyName};
use forebay::inside::wire::Status;
use forebay::time::Nanos;
use serde::Serialize;

/// The simulation of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Simulated {
    /// The policy's sizes and budgets, in words.
    chosen: String,
    /// The cost of each step, unscaled like the costs of requests.
    overheads: String,
    /// Slowdown (latency over cost) of all requests sent after the warm-up.
    pub(crate) slowdown: ByClass<Block>,
    /// The slowdowns in batches, so that they can be joined with those of other runs.
    #[serde(skip)]
    pub(crate) slowdowns: ByClass<Sample>,
    /// The choices of virtual time and of the server, if they differ. Only for a policy that
    /// follows measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disagreement: Option<String>,
    /// Under `isolated`: how many replies named the worker that the flow map predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sockets: Option<Sockets>,
}

/// How often answers came from the worker that the flow map predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sockets {
    /// The number of requests that were served.
    pub(crate) replies: usize,
    /// Answers from another worker than predicted.
    pub(crate) elsewhere: usize,
}

impl Sockets {
    /// Compares the worker that each reply names with the worker that `socket_of` predicts for the
    /// request's flow. Requests that were not served do not count: their replies name no worker.
    pub(crate) fn of(socket_of: &[u16], exchange: &Exchange) -> Sockets {
        let mut sockets = Sockets { replies: 0, elsewhere: 0 };
        for (request, reply) in exchange.schedule.iter().zip(&exchange.replies.last) {
            if let Some(Reply { status: Status::Ok, served, .. }) = reply {
                sockets.replies += 1;
                sockets.elsewhere += usize::from(socket_of[usize::from(request.flow)] != served.worker);
            }
        }
        sockets
    }
}

impl Simulated {
    /// The reasons why the run of `report` cannot be compared with this simulation.
    pub(crate) fn objections(&self, report: &RunReport) -> impl Iterator<Item = String> {
        let elsewhere = self.sockets.filter(|sockets| sockets.elsewhere > 0).map(|Sockets { replies, elsewhere }| {
            format!("{elsewhere} of {replies} replies came from another worker than was learnt of their flows")
        });
        let decision = self.disagreement.as_ref().map(|disagreement| {
            format!(
                "at the end the server followed {disagreement} as in virtual time: a longer --warmup lets it measure enough"
            )
        });
        let refused: u64 = report.facts.send_errors.values().sum();
        let refused = (refused > 0).then(|| {
            format!(
                "our own kernel did not take {refused} requests: the run counts them as lost, the simulation leaves them out"
            )
        });
        [elsewhere, decision, refused].into_iter().flatten()
    }
}

/// Simulates the run of `plan` with the requests of `exchange` under `policy`. `server` is the last
/// `/latency` of the server, which had these `settings`. `socket_of` is its socket for each flow.
/// `None` if the run has no request.
pub(crate) fn simulated(
    settings: &ServerSettings,
    policy: &str,
    plan: &Plan,
    socket_of: &[u16],
    exchange: &Exchange,
    server: &ServerView,
) -> Option<Simulated> {
    let offered = trace::offered(plan, settings.burn == Burn::Sleep, settings.workers, socket_of, exchange);
    // There is no request if the user interrupts the run before the first one.
    let policy: PolicyName = policy.parse().ok().filter(|_| !offered.requests.is_empty())?;
    let fit = offered.fit().tuned(|tuning| {
        tuning.budget = settings.slice;
        tuning.sizes = settings.sizes();
        tuning.classified = settings.classified();
        tuning.objective = settings.arguments.optimise;
        if settings.burn == Burn::Sleep {
            // A server with emulated cores decides by the overheads that it charges, so the
            // simulation does too.
            tuning.yield_cost = settings.overheads.yield_.max(Nanos::new(1));
            tuning.look_cost = settings.overheads.look;
            tuning.notice_cost = settings.overheads.notice;
        }
    });
    let (fitted, setup) = offered.server(&fit, policy);
    let tally = simulate(&setup, offered.arrivals());
    Some(Simulated {
        disagreement: policy.entry().adapts.then(|| disagreement(&fitted, offered.time_scale, server)).flatten(),
        chosen: fitted.chosen,
        overheads: setup.overheads.to_string(),
        slowdown: ByClass(tally.slowdown()),
        slowdowns: ByClass(tally.slowdown.samples()),
        sockets: (!policy.entry().shares_sockets).then(|| Sockets::of(socket_of, exchange)),
    })
}

/// Both decisions in words, if `server` ended with another policy than `fitted`, or with a budget
/// that differs by more than a factor of 2. Smaller differences are noise.
fn disagreement(fitted: &Made, time_scale: u64, server: &ServerView) -> Option<String> {
    let (policy, budget_us) = server.decision();
    let wanted_us = fitted.budget.map(|budget| budget.times(time_scale).as_micros_f64());
    let is_like = match (budget_us, wanted_us) {
        (Some(one), Some(other)) => one <= 2.0 * other && other <= 2.0 * one,
        (one, other) => one == other,
    };
    let words = |name: &str, budget_us: Option<f64>| match budget_us {
        Some(budget_us) => format!("{name} from {}", time(Some(budget_us))),
        None => name.to_owned(),
    };
    let name = fitted.name.name();
    (policy != Some(name) || !is_like)
        .then(|| format!("{}, not {}", words(policy.unwrap_or("nothing"), budget_us), words(name, wanted_us)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::receiver::Replies;
    use crate::drive::schedule::Request;
    use crate::drive::sender::Sent;
    use crate::lab::workload::{Recording, Trace};
    use forebay::inside::wire::Served;
    use forebay::time::Nanos;
    use serde_json::json;

    fn made(policy: &str) -> Made {
        let offered = "forebay-trace/1 time-scale=1000 burn=sleep workers=2 seed=1 warmup=0ns workload=two\n";
        let lines: String = (0..200)
            .map(|number| {
                format!("{number}ms {number}ms {} 0 1\n", if number % 10 == 0 { "long 500us" } else { "short 1us" })
            })
            .collect();
        let offered: Trace = Trace::parse(&format!("{offered}{lines}")).expect("a trace");
        offered.server(&offered.fit(), policy.parse().expect("a policy")).0
    }

    // Is a difference between the decisions of server and virtual time reported, unless noise
    // explains it?
    #[test]
    fn decisions_are_alike_up_to_what_noise_makes_of_them() {
        let made = made("levels");
        let budget_us = made.budget.expect("levels").as_micros_f64() * 1e3;
        let said = |decision: serde_json::Value| {
            let server = ServerView { body: json!({ "decision": decision }) };
            disagreement(&made, 1_000, &server)
        };
        assert_eq!(said(json!({"policy": "levels", "budget_us": budget_us})), None);
        assert_eq!(said(json!({"policy": "levels", "budget_us": budget_us * 1.9})), None);
        assert_eq!(said(json!({"policy": "levels", "budget_us": budget_us / 1.9})), None);
        for (other, words) in [
            (json!({"policy": "levels", "budget_us": budget_us * 2.1}), "levels from"),
            (json!({"policy": "levels", "budget_us": budget_us / 2.1}), "levels from"),
            (json!({"policy": "global", "budget_us": budget_us}), "global from"),
            (json!({"policy": "global"}), "global, not levels from"),
            (serde_json::Value::Null, "nothing, not levels from"),
        ] {
            let said = said(other.clone()).unwrap_or_else(|| panic!("{other} agrees"));
            assert!(said.starts_with(words), "{other}: {said}");
        }
    }

    // Does an answer of another worker count as a disagreement? A refusal must not: all refusals
    // name worker 0.
    #[test]
    fn a_refusal_says_nothing_of_its_socket() {
        let reply = |status, worker| {
            let served = Served { worker, ..Served::default() };
            Some(Reply { at: Nanos::ZERO, status, code: "", served, late: false })
        };
        let replies = vec![
            reply(Status::Ok, 1),
            reply(Status::ShedWaited, 0),
            reply(Status::Failed, 0),
            None,
            reply(Status::Ok, 0),
        ];
        let request = Request { at: Nanos::ZERO, cost: Nanos::ZERO, flow: 1, class: 0 };
        let exchange = Exchange {
            start: Nanos::ZERO,
            schedule: vec![request; replies.len()],
            sent: Sent::default(),
            replies: Replies { last: replies, ..Replies::default() },
            reply_price: None,
        };
        let Sockets { replies, elsewhere } = Sockets::of(&[0, 1], &exchange);
        assert_eq!((replies, elsewhere), (2, 1));
    }
}
