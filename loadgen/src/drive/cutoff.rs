//! Ends a run early that can no longer become valid.

use crate::drive::live::Live;
use crate::drive::parts::Parts;
use crate::drive::schedule::{PATIENCE, silence_max};
use forebay::time::Nanos;

/// A server counts as gone only if this many requests are unanswered. A slow run may lose one or
/// two and still be valid.
const UNANSWERED_MIN: u64 = 10;

/// Watches a run for reasons to end it.
#[derive(Debug)]
pub(crate) struct Cutoff<'a> {
    parts: &'a Parts<'a>,
    silence_max: Nanos,
    /// The send time of the first request sent after the last answer.
    waiting_since: Option<Nanos>,
    replied: u64,
    sent_at_last_reply: u64,
}

impl<'a> Cutoff<'a> {
    /// A cutoff for a run of `parts`.
    pub(crate) fn new(parts: &'a Parts<'a>) -> Cutoff<'a> {
        Cutoff { parts, silence_max: silence_max(parts.whole), waiting_since: None, replied: 0, sent_at_last_reply: 0 }
    }

    /// The reason to end the run at `elapsed` after its start; `None` if there is none.
    pub(crate) fn reason(&mut self, elapsed: Nanos) -> Option<String> {
        let live = &self.parts.live();
        self.refusal(elapsed, live).or_else(|| self.silence(elapsed, live)).or_else(|| self.lateness(elapsed))
    }

    /// Reports a refused connection, unless the server has answered before and may come back.
    fn refusal(&self, elapsed: Nanos, live: &Live) -> Option<String> {
        let seconds = elapsed.as_secs_f64();
        let reason =
            format!("the run was ended after {seconds:.1} s: the target's host says that no server has this port");
        live.is_refused().then_some(reason)
    }

    fn silence(&mut self, elapsed: Nanos, live: &Live) -> Option<String> {
        let (sent, replied) = (live.taken(), live.replied());
        if replied > self.replied {
            (self.replied, self.sent_at_last_reply, self.waiting_since) = (replied, sent, None);
        }
        let waiting = sent.saturating_sub(self.sent_at_last_reply);
        if waiting == 0 {
            return None;
        }
        let since = *self.waiting_since.get_or_insert(elapsed);
        (waiting >= UNANSWERED_MIN && elapsed.minus(since) >= self.silence_max).then(|| {
            format!(
                "the run was ended after {:.1} s, for the last {:.1} s of which nothing was answered, though {waiting} \
                 requests were sent: is the server alive?",
                elapsed.as_secs_f64(),
                elapsed.minus(since).as_secs_f64()
            )
        })
    }

    fn lateness(&self, elapsed: Nanos) -> Option<String> {
        let late = self.parts.late(elapsed);
        (late >= PATIENCE).then(|| {
            format!(
                "the run was ended after {:.1} s, when the generator was {:.1} s behind its schedule: lower --rate or --load, \
                 raise --time-scale, or leave the machine more to itself",
                elapsed.as_secs_f64(),
                late.as_secs_f64()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::schedule::Request;

    /// A schedule of one request every 100 ms for 20 s, each of this cost.
    fn schedule(cost: Nanos) -> Vec<Request> {
        (0..200).map(|nth| Request { at: Nanos::from_millis(100 * nth), cost, flow: 0, class: 0 }).collect()
    }

    /// The end of a run in ms and its reason. `sends` says which requests are sent on time, and
    /// `answers` which are answered at once.
    fn ended(
        schedule: &[Request],
        sends: impl Fn(u64) -> bool,
        answers: impl Fn(u64) -> bool,
    ) -> Option<(u64, String)> {
        let parts = Parts::split(schedule, 1, false);
        let (live, mut cutoff) = (&parts.parts[0].live, Cutoff::new(&parts));
        let mut sent = 0;
        for now in (0..30_000).step_by(50) {
            while sent < schedule.len() as u64 && schedule[sent as usize].at <= Nanos::from_millis(now) && sends(sent) {
                live.count_sent();
                if answers(sent) {
                    live.count_replied();
                }
                sent += 1;
            }
            if let Some(reason) = cutoff.reason(Nanos::from_millis(now)) {
                return Some((now, reason));
            }
        }
        None
    }

    /// Whether the request of this number is sent, or answered.
    type Of = fn(u64) -> bool;
    /// When a run ends, in ms, and a part of the reason.
    type End = Option<(u64, &'static str)>;

    // Does a dead server end a run after 5 s of silence, and the largest cost on top? From the
    // start, or from when it died? Does a generator that stands still end it, and do lost requests
    // here and there end none?
    #[test]
    fn silence_ends_a_run_and_losses_here_and_there_do_not() {
        let nobody = "nothing was answered, though 51 requests were sent";
        let ends: [(u64, Of, Of, End); 7] = [
            (1, |_| true, |_| true, None),
            (1, |_| true, |_| false, Some((5_050, nobody))),
            (1, |_| true, |nth| nth < 100, Some((15_050, ""))),
            (1, |_| true, |nth| nth % 2 == 0, None),
            // Nine at the end.
            (1, |_| true, |nth| nth < 191, None),
            (7_000, |_| true, |_| false, Some((12_000, ""))),
            // The request of 3 s is 5 s late.
            (1, |nth| nth < 30, |_| true, Some((8_000, "5.0 s behind its schedule"))),
        ];
        for (number, (cost_ms, sends, answers, expected)) in ends.into_iter().enumerate() {
            let end = ended(&schedule(Nanos::from_millis(cost_ms)), sends, answers);
            assert_eq!(end.as_ref().map(|end| end.0), expected.map(|end| end.0), "row {number}: {end:?}");
            let (said, words) = (end.unwrap_or_default().1, expected.unwrap_or_default().1);
            assert!(said.contains(words), "row {number}: {said}");
        }
    }
}
