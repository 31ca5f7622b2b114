//! From requests and replies to figures: one fate for each request, and its latency.

use crate::drive::Exchange;
pub(crate) use crate::drive::SLIP_LIMIT;
use crate::drive::schedule::Request;
use crate::lab::stats::{Block, Memory, Sample};
use crate::plan::Plan;
use crate::report::by_class::{ByClass, Values};
use crate::report::histogram::Packed;
use crate::report::parts::{LatencyParts, parts_us};
use crate::report::seen::seen;
use forebay::fate::Ending;
use forebay::inside::wire::Status;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of requests of a run by fate, as the client sees it. The fates are disjoint and sum
/// to the requests sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Fates {
    /// Requests served in time.
    pub answered: u64,
    /// Requests whose first reply came after the timeout. With retries, after the timeout of the
    /// last attempt.
    pub late: u64,
    /// Requests whose last attempt the server shed: too busy, over its rate, too late or stopping.
    pub shed: u64,
    /// Requests of a kind that the server does not serve.
    pub refused: u64,
    /// Requests whose handler panicked or stalled.
    pub failed: u64,
    /// Requests without a reply, up to the number that the server's kernel dropped. `None` if the
    /// server cannot count its drops.
    pub kernel_dropped: Option<u64>,
    /// Requests without a reply, for no known reason.
    pub lost: u64,
    /// Requests late, shed or without a reply that this host sent late, or in the burst that
    /// follows late sends. The server might have answered them in time.
    pub unjudged: u64,
}

impl Fates {
    /// The sum of all fates: the number of requests.
    pub fn sum(&self) -> u64 {
        let known = self.kernel_dropped.unwrap_or(0);
        self.answered + self.late + self.shed + self.refused + self.failed + known + self.lost + self.unjudged
    }

    fn of_reply(&mut self, status: Status) -> &mut u64 {
        match status.ending() {
            Ending::Answered => &mut self.answered,
            Ending::Refused => &mut self.refused,
            Ending::Shed => &mut self.shed,
            Ending::Failed => &mut self.failed,
        }
    }
}

/// How long queues remember (see [`Memory`]) at `load` with the `requests` of `plan`.
pub(crate) fn memory_of(plan: &Plan, requests: &[Request], load: Option<f64>) -> Memory {
    let Some(load) = load else { return Memory::UNKNOWN };
    let beside = plan.overheads.per_request().times(plan.time_scale);
    let times = requests.iter().map(|request| request.cost.plus(beside).as_secs_f64());
    let (sum, squares) = times.fold((0.0, 0.0), |(sum, squares), time| (sum + time, squares + time * time));
    let count = requests.len().max(1) as f64;
    Memory::of_moments(load, sum / count, squares / count)
}

/// The figures of a run, over the requests after the warm-up.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RunResult {
    /// The number of requests by fate; sums to the requests attempted.
    pub fates: Fates,
    /// The number of replies by what their protocol calls them; empty in the bench protocol.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub codes: BTreeMap<&'static str, u64>,
    /// Microseconds from the intended first send to the kernel's receive stamp of the reply. On
    /// emulated cores, to the end of the core's send by the core's own time. Infinite for
    /// unanswered requests.
    pub latency_us: ByClass<Block>,
    /// The same over the answered requests only.
    pub latency_answered_us: ByClass<Block>,
    /// Latency over scaled cost; infinite for every request not answered. Empty without costs.
    #[serde(skip_serializing_if = "ByClass::is_empty")]
    pub slowdown: ByClass<Block>,
    /// Microseconds from the intended to the actual send.
    pub slip_us: Block,
    /// Microseconds by which this host was late with the send, and on emulated cores with the
    /// reply. The second part is not in `latency_us`.
    pub late_us: Block,
    /// Sends with a slip above [`SLIP_LIMIT`].
    #[serde(skip)]
    pub(crate) slips_over_limit: u64,
    /// Where requests spend their time; empty if the server does not tell.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) parts_us: LatencyParts,
    /// The values of `latency_us` as histograms, which `loadgen merge` adds up.
    pub(crate) histograms: ByClass<Packed>,
    /// For each second of the measured time: requests that were due, and how many were answered in
    /// time.
    pub by_second: Vec<(u64, u64)>,
    /// The values behind `slowdown`, for intervals of ratios.
    #[serde(skip)]
    pub(crate) slowdowns: ByClass<Sample>,
    /// The values behind `latency_us`.
    #[serde(skip)]
    pub(crate) latencies: ByClass<Sample>,
    /// The same as `slowdowns` and `latencies`, but what this host disturbed took no time.
    #[serde(skip)]
    pub(crate) least_slowdowns: ByClass<Sample>,
    #[serde(skip)]
    pub(crate) least_latencies: ByClass<Sample>,
    /// Microseconds of the shortest request of each class, scaled; infinite without one.
    #[serde(skip)]
    pub(crate) shortest_us: ByClass<f64>,
    /// How long the server's queues remember, as far as known.
    #[serde(skip)]
    pub(crate) memory: Memory,
}

impl RunResult {
    /// Computes the figures of the run of `plan`. `kernel_dropped` is the number of datagrams that
    /// the server's kernel dropped during the measured time; `None` if the server cannot count
    /// them.
    pub(crate) fn of(plan: &Plan, exchange: &Exchange, kernel_dropped: Option<u64>) -> RunResult {
        let (mut fates, mut codes, mut unanswered) = (Fates::default(), BTreeMap::new(), 0);
        let [mut slips_us, mut late_us] = [(); 2].map(|()| Values::default());
        let (mut slips_over_limit, mut by_second) = (0, Vec::<(u64, u64)>::new());
        let [mut latency, mut answered] = [(); 2].map(|()| ByClass::empty(plan.class_names()));
        let mut slowdown = if plan.workload.has_costs() { latency.clone() } else { ByClass(Vec::new()) };
        let mut shortest_us = latency.map(|_| f64::INFINITY);
        for seen in seen(plan, exchange) {
            let (class, second, took_us) = (seen.request.class, seen.second, seen.latency_us());
            slips_us.add(seen.slip.as_micros_f64());
            late_us.add(seen.host_late.as_micros_f64());
            slips_over_limit += u64::from(seen.slip > SLIP_LIMIT);
            by_second.resize(by_second.len().max(second + 1), (0, 0));
            by_second[second].0 += 1;
            seen.reply.iter().for_each(|reply| *codes.entry(reply.code).or_default() += 1);
            *match seen.reply {
                _ if seen.is_unjudged() => &mut fates.unjudged,
                Some(_) if seen.is_late => &mut fates.late,
                Some(reply) => fates.of_reply(reply.status),
                None => &mut unanswered,
            } += 1;
            if took_us.is_finite() {
                answered.add(class, took_us, false);
                by_second[second].1 += 1;
            }
            latency.add(class, took_us, seen.is_disturbed);
            let cost_us = seen.request.cost.as_micros_f64();
            slowdown.add(class, took_us / cost_us, seen.is_disturbed);
            shortest_us.of_request(class).for_each(|shortest| *shortest = shortest.min(cost_us));
        }
        let Exchange { schedule, replies, .. } = exchange;
        let memory = memory_of(plan, schedule, plan.load().map(|load| load * replies.attempts.per_request()));
        fates.kernel_dropped = kernel_dropped.map(|dropped| dropped.min(unanswered));
        fates.lost = unanswered - fates.kernel_dropped.unwrap_or(0);
        codes.remove("");
        RunResult {
            fates,
            codes,
            parts_us: parts_us(seen(plan, exchange)),
            histograms: latency.map(Values::packed),
            slowdowns: slowdown.map(Values::sample),
            latencies: latency.map(Values::sample),
            least_slowdowns: slowdown.map(Values::least),
            least_latencies: latency.map(Values::least),
            shortest_us,
            memory,
            latency_us: latency.into_blocks(memory),
            latency_answered_us: answered.into_blocks(memory),
            slowdown: slowdown.into_blocks(memory),
            slip_us: slips_us.into_block(Memory::UNKNOWN),
            late_us: late_us.into_block(Memory::UNKNOWN),
            slips_over_limit,
            by_second,
        }
    }
}

#[cfg(test)]
mod tests;
