//! The trace of a run for the simulator: the schedule, how late each request was sent, and the
//! server's socket for each flow.

use crate::drive::Exchange;
use crate::lab::workload::{Trace, TraceRequest};
use crate::plan::Plan;
use forebay::time::Nanos;

/// The trace of the run of `plan` with this `exchange`, without requests that our own kernel did
/// not take. `emulated` says whether the server has emulated cores. `socket_of` is the server's
/// socket for each flow.
pub(crate) fn offered(plan: &Plan, emulated: bool, workers: u16, socket_of: &[u16], exchange: &Exchange) -> Trace {
    let attempts = exchange.schedule.iter().zip(&exchange.sent.slips).zip(&exchange.sent.taken);
    let sent = attempts.filter_map(|(request, taken)| taken.then_some(request));
    let requests = sent.map(|(request, slip)| TraceRequest {
        intended: request.at,
        sent: request.at.plus(*slip),
        cost: Nanos::new(request.cost.get() / plan.time_scale),
        flow: request.flow,
        socket: socket_of[usize::from(request.flow)],
        class: request.class,
        source: 0,
    });
    Trace {
        time_scale: plan.time_scale,
        emulated,
        overheads: plan.overheads,
        workers,
        seed: plan.seed,
        warmup: plan.warmup,
        deadline: (plan.deadline_us > 0).then(|| Nanos::from_micros(plan.deadline_us.into())),
        left_out: 0,
        workload: plan.offered().replace(char::is_control, " "),
        requests: requests.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::receiver::Replies;
    use crate::drive::schedule::Request;
    use crate::drive::sender::Sent;
    use crate::plan::test_plan;

    #[test]
    fn what_was_not_sent_was_not_offered() {
        let request = |ms| Request { at: Nanos::from_millis(ms), cost: Nanos::from_micros(1), flow: 0, class: 0 };
        let schedule: Vec<Request> = (0..4).map(request).collect();
        let (slips, taken) = (vec![Nanos::from_micros(5); 4], vec![true, false, true, true]);
        let sent = Sent { slips, taken, ..Sent::default() };
        let (replies, reply_price) = (Replies::default(), None);
        let exchange = Exchange { start: Nanos::ZERO, schedule, sent, replies, reply_price };
        let offered = offered(&test_plan(), false, 2, &[1], &exchange);
        let sent: Vec<u64> = offered.requests.iter().map(|request| request.sent.get() / 1_000).collect();
        assert_eq!(sent, [5, 2_005, 3_005]);
    }
}
