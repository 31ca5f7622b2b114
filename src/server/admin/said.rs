//! Log messages about the state of the server: one line when a problem begins, and one when it has
//! ended.

use crate::fate::{Fate, ReceiveError, Unsent};
use crate::metrics::{Counts, Decision, GivenUp};
use crate::sched::Recent;
use crate::shards::FullShards;
use crate::time::{Nanos, Onset, QUIET, Turn};

/// Workers count as saturated above this utilisation over ten seconds. The policy `auto` uses the
/// same limit for idle time.
const SATURATED: f64 = 0.98;

/// The fates of requests that were turned away because of overload. `shed_rate` and `shed_draining`
/// have other causes.
const TURNED_AWAY: [Fate; 3] = [Fate::ShedQueueFull, Fate::ShedExpired, Fate::ShedWaited];

/// Log messages when GSO or the ring fails, and when it works again.
const GIVEN_UP: [[&str; 2]; 2] = [
    [
        "the device cannot cut GSO batches: replies leave one by one, and GSO is tried again each minute",
        "GSO has worked again for 10 s",
    ],
    [
        "io_uring has failed: heavy requests look for fresh ones, and a ring is tried again each minute",
        "io_uring has worked again for 10 s",
    ],
];

/// The log message when a shard is full.
const SHARD_FULL: &str =
    "a shard is full, and its requests are turned away: /slow says what holds it up, `Service::ROOM` is its room";

/// Interval between calls of [`Said::say`]. On a busy host they come late; a call that is later
/// than [`LATE`] is logged as a pause.
const SECOND: Nanos = Nanos::from_secs(1);
const LATE: Nanos = Nanos::from_millis(500);

/// Remembers what was logged, and the counts at that time.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// When [`Said::say`] was last called.
    at: Option<Nanos>,
    counts: Counts,
    kernel_dropped: u64,
    saturated: Onset,
    turning_away: Onset,
    full_shards: Onset,
    given_up: [Onset; 2],
    /// How many requests had been turned away before the current problem began.
    turned_away: u64,
    /// How many requests have found their shard full, and how many had before the current problem
    /// began.
    found_full: u64,
    found_full_before: u64,
    /// The errors of receiving in the last second and in the one before.
    receive_errors: [Option<String>; 2],
    decision: Option<Decision>,
}

impl Said {
    /// Compares the counts with those of the last call, and logs problems that have begun or ended.
    /// Call it once a second.
    pub(crate) fn say(&mut self, counts: Counts, kernel_dropped: Option<u64>, now: Nanos) {
        let late = self.at.replace(now).map_or(Nanos::ZERO, |last| now.minus(last).minus(SECOND));
        if late >= LATE {
            let seconds = late.as_secs_f64();
            tracing::warn!(seconds, "paused: the process or its host stood still");
        }
        let last = std::mem::replace(&mut self.counts, counts);
        let counted = &self.counts.counted;
        let errors = more(&ReceiveError::NAMES, &last.counted.receive_errors, &counted.receive_errors);
        if let Some(errors) = &errors {
            tracing::warn!(reasons = errors, "datagrams cannot be received");
        }
        self.receive_errors.swap(0, 1);
        self.receive_errors[0] = errors;
        if let Some(more) = more(&Unsent::NAMES, &last.counted.unsent, &counted.unsent) {
            tracing::warn!(reasons = more, "the kernel did not take replies");
        }
        let kernel_dropped = kernel_dropped.unwrap_or(self.kernel_dropped);
        let by_fate = |ended: &[u64], dropped| [&TURNED_AWAY.map(|fate| ended[fate as usize])[..], &[dropped]].concat();
        let before = by_fate(&last.ended, std::mem::replace(&mut self.kernel_dropped, kernel_dropped));
        let after = by_fate(&self.counts.ended, kernel_dropped);
        let names = [&TURNED_AWAY.map(Fate::name)[..], &["kernel_dropped"]].concat();
        let more = more(&names, &before, &after);
        match (self.turning_away.see(more.is_some(), QUIET, now), more) {
            (Some(Turn::Begins), Some(fates)) => {
                self.turned_away = before.iter().sum();
                tracing::warn!(fates, "requests are turned away; /slow says what the oldest ones wait for");
            }
            (Some(Turn::Ends), _) => {
                let count = after.iter().sum::<u64>() - self.turned_away;
                tracing::info!(count, "no request has been turned away for 10 s");
            }
            _ => {}
        }
    }

    /// Whether a worker could not receive in the last second.
    pub(crate) fn has_receive_errors(&self) -> bool {
        self.receive_errors[0].is_some()
    }

    /// The errors of the last second if workers could not receive in the one before either. Fewer
    /// are momentary. They stay while the errors do, because workers try again each second.
    #[cfg(any(test, feature = "admin"))]
    pub(crate) fn receiving_fails(&self) -> Option<&str> {
        self.receive_errors[1].as_ref().and(self.receive_errors[0].as_deref())
    }

    /// Logs when the workers have had almost no idle time for ten seconds while `queued` requests
    /// wait, and when this ends.
    pub(crate) fn say_saturated(&mut self, recent: &Recent, workers: usize, queued: usize, now: Nanos) {
        match self.saturated.see(is_saturated(recent, workers, queued), QUIET, now) {
            Some(Turn::Begins) => {
                let utilisation = 1.0 - recent.idle_workers / workers as f64;
                tracing::warn!(utilisation, queued, "saturated: the workers have no time left, and requests wait");
            }
            Some(Turn::Ends) => tracing::info!("no longer saturated: the workers have had idle time for 10 s"),
            None => {}
        }
    }

    /// Logs the shard when requests are turned away because it is full, and when this ends.
    pub(crate) fn say_full_shards(&mut self, FullShards { count, last }: FullShards, now: Nanos) {
        let before = std::mem::replace(&mut self.found_full, count);
        match self.full_shards.see(count > before, QUIET, now) {
            Some(Turn::Begins) => {
                self.found_full_before = before;
                tracing::warn!(count = count - before, shard = last, "{SHARD_FULL}");
            }
            Some(Turn::Ends) => {
                tracing::info!(count = count - self.found_full_before, "no shard has been full for 10 s");
            }
            None => {}
        }
    }

    /// Logs when a kernel feature fails, and when it works again.
    pub(crate) fn say_given_up(&mut self, GivenUp { gso_sockets, ring_workers }: GivenUp, now: Nanos) {
        let counts = [gso_sockets, ring_workers];
        for ((onset, count), [fails, works]) in self.given_up.iter_mut().zip(counts).zip(GIVEN_UP) {
            match onset.see(count > 0, QUIET, now) {
                Some(Turn::Begins) => tracing::warn!(count, "{fails}"),
                Some(Turn::Ends) => tracing::info!("{works}"),
                None => {}
            }
        }
    }

    /// Logs the decision. A line that would equal the last one is left out: two policies may differ
    /// in details that the line does not show.
    pub(crate) fn say_decision(&mut self, decision: Decision) {
        if self.decision.as_ref() != Some(&decision) {
            let Decision { policy, budget_us, reason } = &decision;
            tracing::info!(policy, budget_us, reason, "the policy follows the load");
            self.decision = Some(decision);
        }
    }
}

fn is_saturated(recent: &Recent, workers: usize, queued: usize) -> bool {
    let has_time = recent.busy_workers == 0.0 || recent.idle_workers >= (1.0 - SATURATED) * workers as f64;
    !has_time && queued > 0
}

/// The increases from `last` to `now`, by name: `denied 3, other 1`.
fn more(names: &[&str], last: &[u64], now: &[u64]) -> Option<String> {
    let grown = names.iter().zip(last.iter().zip(now)).filter(|(_, (last, now))| now > last);
    let text: Vec<String> = grown.map(|(name, (last, now))| format!("{name} {}", now - last)).collect();
    (!text.is_empty()).then(|| text.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{CounterName, WorkerMetrics};
    use crate::server::admin::logged;

    // Do workers count as saturated if they were never idle while requests waited?
    #[test]
    fn workers_are_saturated_that_have_no_time() {
        let saturated = |busy_workers, idle_workers, queued| {
            is_saturated(&Recent { busy_workers, idle_workers, ..Recent::default() }, 4, queued)
        };
        assert_eq!([saturated(3.9, 0.05, 9), saturated(3.9, 0.05, 0)], [true, false]);
        assert_eq!([saturated(3.8, 0.1, 9), saturated(0.0, 0.0, 9)], [false; 2], "nothing was measured yet");
    }

    #[test]
    fn increases_have_names() {
        let names = ["a", "b", "c"];
        assert_eq!(more(&names, &[0; 3], &[0, 0, 0]), None);
        assert_eq!(more(&names, &[0; 3], &[2, 0, 1]).as_deref(), Some("a 2, c 1"));
        assert_eq!(more(&names, &[2, 0, 1], &[2, 0, 4]).as_deref(), Some("c 3"));
    }

    // Is the same decision logged only once, until another one is?
    #[test]
    fn a_decision_is_logged_once() {
        let mut said = Said::default();
        let decision = |budget_us| Decision { policy: "levels".to_owned(), budget_us, ..Decision::default() };
        let log = logged(|| {
            for budget_us in [Some(50.0), Some(50.0), None, None, Some(50.0)] {
                said.say_decision(decision(budget_us));
            }
        });
        let budgets =
            log.lines().map(|line| line.contains("the policy follows the load").then(|| line.contains("budget_us=50")));
        assert_eq!(budgets.collect::<Vec<_>>(), [Some(true), Some(false), Some(true)], "{log}");
    }

    // Is one second with errors ignored, are two a reason, and does one without end them?
    #[test]
    fn only_failures_that_last_keep_a_server_from_being_ready() {
        let (mut said, metrics) = (Said::default(), WorkerMetrics::new(2));
        let mut workers = [0, 1].map(|worker| metrics.recorder(worker));
        let mut second = 0;
        let mut after = |fails: Option<usize>| {
            for worker in fails.into_iter().chain(fails) {
                workers[worker].count(CounterName::ReceiveErrors(ReceiveError::Denied));
            }
            second += 1;
            said.say(metrics.counts(), None, Nanos::from_secs(second));
            (said.has_receive_errors(), said.receiving_fails().map(str::to_owned))
        };
        let denied = || Some("denied 2".to_owned());
        assert_eq!([None, Some(0), None, Some(1)].map(&mut after).map(|(_, fails)| fails), [None, None, None, None]);
        assert_eq!([Some(0), Some(0)].map(&mut after), [(true, denied()), (true, denied())]);
        assert_eq!([None, Some(1)].map(&mut after), [(false, None), (true, None)]);
    }

    #[test]
    fn a_pause_is_one_line() {
        let mut said = Said::default();
        let seconds = [0.0, 1.0, 2.49, 4.6, 5.6].map(|seconds| Nanos::new((seconds * 1e9) as u64));
        let log = logged(|| seconds.into_iter().for_each(|now| said.say(Counts::default(), None, now)));
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("stood still") && log.contains("seconds=1.1"), "{log}");
    }

    // If a kernel feature fails, is there one line, however often it is tried again, and one line
    // when it works again?
    #[test]
    fn what_is_given_up_is_two_lines_in_the_log() {
        let mut said = Said::default();
        let log = logged(|| {
            for second in 0..200 {
                let fails = (5..150).contains(&second);
                // A ring may be created but fail again at once.
                let ring_fails = fails && second % 60 > 0;
                let given_up = GivenUp { gso_sockets: 3 * usize::from(fails), ring_workers: usize::from(ring_fails) };
                said.say_given_up(given_up, Nanos::from_secs(second));
            }
        });
        let lines: Vec<&str> = log.lines().collect();
        let expected =
            ["the device cannot cut GSO batches", "io_uring has failed", "GSO has worked", "io_uring has worked"];
        assert_eq!(lines.len(), expected.len(), "{log}");
        assert!(lines.iter().zip(expected).all(|(line, part)| line.contains(part)), "{log}");
        assert!(lines[0].contains("count=3") && lines[1].contains("count=1"), "{log}");
    }

    // Is a full shard named when it begins to turn requests away, and is their number told at the
    // end?
    #[test]
    fn a_full_shard_is_two_lines_in_the_log() {
        let mut said = Said::default();
        let log = logged(|| {
            for second in 0..30 {
                let full = FullShards { count: [0, 7, 9][usize::min(second as usize / 4, 2)], last: 5 };
                said.say_full_shards(full, Nanos::from_secs(second));
            }
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(lines[0].contains("a shard is full") && lines[0].contains("count=7 shard=5"), "{log}");
        assert!(lines[1].contains("no shard has been full for 10 s") && lines[1].contains("count=9"), "{log}");
    }

    // When requests begin to be shed or dropped, is there one line with their fates? After ten
    // seconds without, is there one line with their number? Is there one line for replies that were
    // not sent?
    #[test]
    fn what_is_turned_away_is_two_lines_in_the_log() {
        let (mut said, metrics) = (Said::default(), WorkerMetrics::new(1));
        let mut recorder = metrics.recorder(0);
        let log = logged(|| {
            for second in 0..30 {
                if (2..5).contains(&second) {
                    recorder.ended(Fate::ShedWaited);
                    recorder.ended(Fate::ShedRate);
                }
                if second == 3 {
                    recorder.count(CounterName::Unsent(Unsent::Denied));
                }
                let dropped = if second < 4 { 0 } else { 7 };
                said.say(metrics.counts(), Some(dropped), Nanos::from_secs(second));
            }
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(lines[0].contains("requests are turned away") && lines[0].contains("fates=\"shed_waited 1\""), "{log}");
        assert!(lines[1].contains("the kernel did not take replies") && lines[1].contains("denied 1"), "{log}");
        assert!(
            lines[2].contains("no request has been turned away for 10 s") && lines[2].contains("count=10"),
            "{log}"
        );
    }
}
