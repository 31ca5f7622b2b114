//! From requests and replies to figures: one fate for each request, and its latency.

use crate::drive::Exchange;
pub(crate) use crate::drive::SLIP_LIMIT;
use crate::drive::schedule::Request;
use crate::lab::stats::{Block, Memory, Sample};
use crate::plan::Plan;
use crate::report::by_class::{ByClass, Values};
use crate::report::histogram::Packed;
use crate::report::parts::{Parts, parts_us};
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
}

impl Fates {
    /// The sum of all fates: the number of requests.
    pub fn sum(&self) -> u64 {
        let known = self.kernel_dropped.unwrap_or(0);
        self.answered + self.late + self.shed + self.refused + self.failed + known + self.lost
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
    pub(crate) parts_us: Parts,
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
            if let Some(reply) = seen.reply {
                *codes.entry(reply.code).or_default() += 1;
                *(if seen.is_late { &mut fates.late } else { fates.of_reply(reply.status) }) += 1;
            } else {
                unanswered += 1;
            }
            if took_us.is_finite() {
                answered.add(class, took_us);
                by_second[second].1 += 1;
            }
            latency.add(class, took_us);
            let cost_us = seen.request.cost.as_micros_f64();
            slowdown.add(class, took_us / cost_us);
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
mod tests {
    use super::*;
    use crate::drive::receiver::{Replies, Reply};
    use crate::drive::sender::Sent;
    use crate::plan::test_plan;
    use forebay::inside::wire::Served;
    use forebay::time::Nanos;

    fn request(at_ms: u64, class: u8) -> Request {
        Request { at: Nanos::from_millis(at_ms), cost: Nanos::from_micros(10), flow: 0, class }
    }

    /// The figures of `schedule` with these slips and replies; the warm-up is `warmup`, the timeout
    /// 100 ms.
    fn figures(
        schedule: Vec<Request>,
        slips: Vec<Nanos>,
        last: Vec<Option<Reply>>,
        warmup: Nanos,
        dropped: u64,
    ) -> RunResult {
        let timeout = Some(Nanos::from_millis(100));
        let plan = Plan { warmup, timeout, workers: None, ..test_plan() };
        let (sent, replies) = (Sent { slips, ..Sent::default() }, Replies { last, ..Replies::default() });
        let exchange = Exchange { start: Nanos::from_secs(5), schedule, sent, replies, reply_price: None };
        RunResult::of(&plan, &exchange, Some(dropped))
    }

    /// Requests at 0, 1, 2, .. ms; each is replied to after the given number of milliseconds, if
    /// any.
    fn result(replies: &[Option<(u64, Status)>], warmup_ms: u64, kernel_dropped: u64) -> RunResult {
        let schedule: Vec<Request> = (0..replies.len()).map(|ms| request(ms as u64, (ms % 2) as u8)).collect();
        let reply = |(ms, reply): (u64, &Option<(u64, Status)>)| {
            reply.map(|(took, status)| Reply {
                at: Nanos::from_millis(5_000 + ms + took),
                status,
                code: "",
                served: Served::default(),
                late: false,
            })
        };
        let replies = (0..).zip(replies).map(reply).collect();
        let slips = vec![Nanos::from_micros(3); schedule.len()];
        figures(schedule, slips, replies, Nanos::from_millis(warmup_ms), kernel_dropped)
    }

    #[test]
    fn every_reply_has_one_fate_and_the_unanswered_are_shared_out() {
        let mut replies: Vec<_> = Status::ALL.into_iter().map(|status| Some((1, status))).collect();
        replies.extend([Some((101, Status::Ok)), Some((101, Status::ShedRate)), None, None, None]);
        let fates = result(&replies, 0, 2).fates;
        let of = |ending| Status::ALL.into_iter().filter(|status| status.ending() == ending).count() as u64;
        let [answered, shed, refused, failed] =
            [Ending::Answered, Ending::Shed, Ending::Refused, Ending::Failed].map(of);
        assert!(answered == 1 && shed >= 4 && refused >= 1 && failed >= 2);
        let expected = Fates { answered, late: 2, shed, refused, failed, kernel_dropped: Some(2), lost: 1 };
        assert_eq!(fates, expected);
        assert_eq!(fates.sum(), replies.len() as u64);
        let capped = result(&replies, 0, 1_000).fates;
        assert_eq!((capped.kernel_dropped, capped.lost), (Some(3), 0));
    }

    // Is each request counted in the second in which it should have been sent, and only those
    // answered in time answered?
    #[test]
    fn seconds_count_from_the_end_of_the_warm_up() {
        let answered = |took| Some((took, Status::Ok));
        let mut replies = vec![answered(1); 2_600];
        (replies[150], replies[1_200], replies[2_550]) = (None, Some((1, Status::ShedWaited)), answered(101));
        assert_eq!(result(&replies, 100, 0).by_second, [(1_000, 999), (1_000, 999), (500, 499)]);
    }

    #[test]
    fn whatever_is_not_answered_is_infinite_in_latency_and_slowdown_only() {
        let replies = [Some((1, Status::Ok)), Some((1, Status::ShedRate)), Some((3, Status::Ok)), None];
        let result = result(&replies, 0, 0);
        assert_eq!(result.latency_us.all().p50, Some(3_000.0));
        assert_eq!(result.latency_us.all().p90, None);
        assert_eq!(result.slowdown.of("long").expect("a class").p50, None);
        assert_eq!(result.slowdown.of("short").expect("a class").max, Some(300.0));
        assert_eq!(result.latency_answered_us.all().max, Some(3_000.0));
        assert_eq!(result.latency_us.all().count, 2);
    }

    // Method: slips around the limit, of which one is of the warm-up.
    #[test]
    fn slips_are_told_and_those_above_the_limit_counted() {
        let schedule: Vec<Request> = (0..5).map(|ms| request(ms, 0)).collect();
        let [limit, over] = [SLIP_LIMIT, SLIP_LIMIT.plus(Nanos::new(1))];
        let slips = vec![over, limit, over, Nanos::from_secs(1), Nanos::from_micros(7)];
        let result = figures(schedule, slips, vec![None; 5], Nanos::from_millis(1), 0);
        assert_eq!(result.slips_over_limit, 2);
        let slip = result.slip_us;
        assert_eq!((slip.count, slip.p50, slip.max), (4, Some(10_000.0), Some(1e6)));
    }

    // On emulated cores, is latency the slip and the core's own time, and is what the host was late
    // beside it told apart?
    #[test]
    fn an_emulated_core_is_charged_its_own_time() {
        let [slip, served, price] = [3, 20, 2].map(Nanos::from_millis);
        let reply = |at_ms| Reply {
            at: Nanos::from_millis(at_ms),
            status: Status::Ok,
            code: "",
            served: Served { service: served, ..Served::default() },
            late: false,
        };
        let mut exchange = Exchange {
            start: Nanos::from_secs(5),
            schedule: vec![request(10, 0), request(20, 1)],
            sent: Sent { slips: vec![slip; 2], ..Sent::default() },
            // Its wall clock says 190 ms of the first one, which is beyond the timeout of 100 ms.
            replies: Replies { last: vec![Some(reply(5_200)), None], ..Replies::default() },
            reply_price: None,
        };
        let timeout = Some(Nanos::from_millis(100));
        let plan = Plan { warmup: Nanos::ZERO, timeout, workers: None, ..test_plan() };
        let mut of = |price| {
            exchange.reply_price = price;
            let result = RunResult::of(&plan, &exchange, Some(0));
            let short = result.latency_us.of("short").expect("a class").max;
            (result.fates.answered, short, result.late_us.max)
        };
        assert_eq!(of(Some(price)), (1, Some(25_000.0), Some(168_000.0)));
        assert_eq!(of(None), (0, None, Some(3_000.0)), "a real core keeps the time of this host");
    }

    #[test]
    fn a_reply_stamped_before_its_send_took_no_less_than_the_slip() {
        let stamped =
            Reply { at: Nanos::from_secs(4), status: Status::Ok, code: "", served: Served::default(), late: false };
        let result = figures(vec![request(10, 0)], vec![Nanos::from_micros(40)], vec![Some(stamped)], Nanos::ZERO, 0);
        assert_eq!(result.latency_us.all().max, Some(40.0));
    }
}
