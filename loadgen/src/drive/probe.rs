//! The probe reads the server's own figures during a run.

use crate::drive::reconciled::Reconciled;
use crate::endpoint::{Endpoint, ServerView};
use crate::interrupt::Interrupt;
use crate::text::escaped;
use forebay::time::{Nanos, clock};
use std::thread;
use std::time::Duration;

/// How long to wait for a server without progress. After a run it may still hold requests whose
/// replies are no longer awaited. Each datagram received or finished restarts the wait.
const PROGRESS_WAIT: Nanos = Nanos::from_secs(5);
/// The wait for a server without progress after an interrupt.
const INTERRUPTED_WAIT: Nanos = Nanos::from_millis(500);
/// The longest wait in all. At any load worth a run, the server's sockets hold no more work than
/// this.
const WAIT_MAX: Nanos = Nanos::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Reads the server's endpoint, if there is one, and keeps the answers that matter.
#[derive(Debug, Default)]
pub(crate) struct Probe<'a> {
    endpoint: Option<&'a Endpoint>,
    /// The answer before anything was sent.
    first: Option<ServerView>,
    /// The answer from which the figures of the run count.
    baseline: Option<ServerView>,
    /// When the baseline and the last answer came.
    baseline_at: Nanos,
    last_at: Nanos,
    /// The last answer.
    pub(crate) last: Option<ServerView>,
    /// The error of the endpoint: no answer, or an invalid one.
    pub(crate) error: Option<String>,
    /// The reason why the last answer is from another server than the first.
    pub(crate) restarted: Option<String>,
}

impl<'a> Probe<'a> {
    /// A probe that has read nothing yet.
    pub(crate) fn new(endpoint: Option<&'a Endpoint>) -> Probe<'a> {
        Probe { endpoint, ..Probe::default() }
    }

    /// Reads the endpoint; the first answer is the origin of all counts.
    pub(crate) fn look(&mut self) {
        match self.endpoint.map(Endpoint::latency) {
            None => {}
            Some(Ok(view)) => self.note(view),
            Some(Err(error)) => self.error = Some(escaped(&format!("{error:#}"))),
        }
    }

    /// Reads the endpoint, and makes the answer the new baseline.
    pub(crate) fn start_counting(&mut self) {
        self.look();
        self.baseline.clone_from(&self.last);
        self.baseline_at = self.last_at;
    }

    /// Reads until the server has received all `sent` datagrams and holds none of them, or until it
    /// makes no progress.
    pub(crate) fn settle(&mut self, sent: u64, interrupt: &Interrupt) {
        let begun = clock::now();
        let (mut progressed, mut accounted) = (begun, 0);
        loop {
            self.look();
            let Some(reconciled) = self.reconciled(sent).filter(|_| self.error.is_none()) else { return };
            let in_flight = self.last.as_ref().map_or(0, ServerView::in_flight);
            // Datagrams of other clients cannot be distinguished from ours, and waiting does not
            // reduce them.
            if reconciled.unaccounted < 0 || (reconciled.unaccounted == 0 && in_flight == 0) {
                return;
            }
            // Progress counts both datagrams received and datagrams finished.
            let now_accounted = reconciled.server_received.saturating_mul(2).saturating_sub(in_flight);
            let now = clock::now();
            if now_accounted > accounted {
                (progressed, accounted) = (now, now_accounted);
            }
            let patience = if interrupt.is_raised() { INTERRUPTED_WAIT } else { PROGRESS_WAIT };
            if now.minus(progressed) >= patience || now.minus(begun) >= WAIT_MAX {
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// The comparison of our `sent` datagrams with the server's counts; `None` without an endpoint,
    /// or if the server restarted.
    pub(crate) fn reconciled(&self, sent: u64) -> Option<Reconciled> {
        let (first, last) = self.first.as_ref().zip(self.last.as_ref())?;
        self.restarted.is_none().then(|| Reconciled::of(sent, first, last))
    }

    /// Datagrams dropped by the server's kernel from the baseline to the last answer. 0 without an
    /// endpoint, `None` where the server does not know.
    pub(crate) fn kernel_dropped(&self) -> Option<u64> {
        if self.endpoint.is_none() {
            return Some(0);
        }
        let dropped = |view: &Option<ServerView>| view.as_ref().and_then(ServerView::kernel_dropped);
        Some(dropped(&self.last)?.saturating_sub(dropped(&self.baseline)?))
    }

    /// The share of `measured` for which the server's `workers` were busy, from the baseline to the
    /// last answer. `None` if the server does not tell. At most 1, because work left over after the
    /// run counts too.
    pub(crate) fn utilisation(&self, workers: u16, measured: Nanos) -> Option<f64> {
        let busy_us = |view: &Option<ServerView>| view.as_ref().and_then(ServerView::busy_us);
        let busy_us = busy_us(&self.last)? - busy_us(&self.baseline)?;
        let all_us = measured.as_micros_f64() * f64::from(workers);
        (all_us > 0.0 && self.restarted.is_none()).then(|| (busy_us / all_us).clamp(0.0, 1.0))
    }

    /// Whether the server's cores are emulated.
    pub(crate) fn is_emulated(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.burn().as_deref() == Some("sleep"))
    }

    /// With emulated cores: the time that workers overslept, as a share of the time that they
    /// should have slept. An error says why this is unknown.
    pub(crate) fn overshoot_share(&self) -> Option<Result<f64, String>> {
        let last = self.last.as_ref().filter(|_| self.is_emulated())?;
        let before = self.baseline.as_ref().and_then(ServerView::overslept).unwrap_or((0.0, 0.0));
        let Some((slept_us, overshoot_us)) = last.overslept() else {
            return Some(Err("the server's answer has no emulation/slept_us and emulation/overshoot_share".to_owned()));
        };
        let (slept_us, overshoot_us) = (slept_us - before.0, overshoot_us - before.1);
        Some(Ok(if slept_us > 0.0 { overshoot_us / slept_us } else { 0.0 }))
    }

    /// How long the server's workers waited for a CPU, as a share of the run and per worker. `None`
    /// without an endpoint that tells. Also `None` with emulated cores, which share few CPUs and
    /// wait for none.
    pub(crate) fn run_queue_share(&self) -> Option<f64> {
        let (before, last) = self.baseline.as_ref().zip(self.last.as_ref())?;
        let waited_us = last.run_queue_wait_us()? - before.run_queue_wait_us()?;
        let run_us = self.last_at.minus(self.baseline_at).as_micros_f64() * f64::from(last.workers()?);
        (last.burn().as_deref() == Some("cpu") && run_us > 0.0).then_some(waited_us / run_us)
    }

    fn note(&mut self, view: ServerView) {
        self.note_at(view, clock::now());
    }

    fn note_at(&mut self, view: ServerView, now: Nanos) {
        if self.baseline.is_none() {
            self.baseline_at = now;
        }
        self.last_at = now;
        self.first.get_or_insert_with(|| view.clone());
        self.baseline.get_or_insert_with(|| view.clone());
        if let Some(restarted) = self.last.as_ref().and_then(|last| restarted(last, &view)) {
            self.restarted = Some(restarted);
        }
        self.last = Some(view);
    }
}

/// Why `now` cannot come from the server that answered `before`.
fn restarted(before: &ServerView, now: &ServerView) -> Option<String> {
    if let (Some(then), Some(since)) = (before.start_time_seconds(), now.start_time_seconds())
        && then != since
    {
        return Some(format!("its start time was {then:.6}, and then {since:.6} (seconds since the Unix epoch)"));
    }
    let (had, has) = (before.received(), now.received());
    (has < had).then(|| format!("it had received {had} datagrams, and then {has}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(start: Option<f64>, received: u64) -> ServerView {
        ServerView { body: json!({"start_time_seconds": start, "fates": {"received": received, "kernel_dropped": 0}}) }
    }

    fn probe(views: impl IntoIterator<Item = ServerView>) -> Probe<'static> {
        let mut probe = Probe::new(None);
        views.into_iter().for_each(|view| probe.note(view));
        probe
    }

    #[test]
    fn another_start_time_or_fewer_received_is_another_server() {
        let same = probe([view(Some(5.0), 10), view(Some(5.0), 10), view(Some(5.0), 12)]);
        assert_eq!(same.restarted, None);
        assert_eq!(same.reconciled(2).map(|reconciled| reconciled.unaccounted), Some(0));
        for (views, said) in [
            ([view(Some(5.0), 10), view(Some(5.000_001), 20), view(Some(5.000_001), 30)], "start time was 5.000000"),
            ([view(None, 10), view(None, 9), view(None, 50)], "had received 10 datagrams, and then 9"),
            ([view(Some(5.0), 10), view(Some(5.0), 9), view(Some(5.0), 50)], "had received 10 datagrams, and then 9"),
            ([view(Some(5.0), 10), view(None, 9), view(Some(5.0), 50)], "had received 10 datagrams, and then 9"),
        ] {
            let probe = probe(views);
            assert!(probe.restarted.as_ref().is_some_and(|restarted| restarted.contains(said)), "{probe:?}");
            assert_eq!(probe.reconciled(40), None, "counts of two servers say nothing");
        }
    }

    // Is the wait that of the run alone, shared out over workers, and unknown where cores are
    // emulated?
    #[test]
    fn the_wait_for_a_cpu_is_that_of_the_run() {
        let share = |burn: &str, waits: [Option<f64>; 2]| {
            let mut probe = Probe::new(None);
            for (wait, at) in waits.into_iter().zip([5, 7]) {
                let body = json!({"burn": burn, "workers": 4, "run_queue_wait_us": wait});
                probe.note_at(ServerView { body }, Nanos::from_secs(at));
            }
            probe.run_queue_share()
        };
        // 80 ms of 2 s on 4 workers, after an hour of waiting.
        assert_eq!(share("cpu", [Some(3_600e6), Some(3_600e6 + 80e3)]), Some(0.01));
        assert_eq!(share("cpu", [Some(5.0), Some(5.0)]), Some(0.0));
        assert_eq!((share("sleep", [Some(0.0), Some(8e6)]), share("cpu", [None, None])), (None, None));
    }

    #[test]
    fn utilisation_is_that_of_the_run() {
        let view = |busy_us: Option<f64>| ServerView {
            body: json!({"busy_us": busy_us, "fates": {"received": 0}, "emulation": {"charged_us": 1_000.0}}),
        };
        let of = |before, after| probe([view(before), view(after)]).utilisation(2, Nanos::from_secs(1));
        assert_eq!(of(Some(5e6), Some(6.5e6)), Some(0.75));
        assert_eq!(of(Some(5e6), Some(9e6)), Some(1.0));
        assert_eq!(of(None, Some(9e6)), None);
    }

    #[test]
    fn overshoot_is_that_of_the_run() {
        let view = |slept: f64, share: Option<f64>| ServerView {
            body: json!({"burn": "sleep", "fates": {"received": 0, "kernel_dropped": 0},
                "emulation": {"slept_us": slept, "overshoot_share": share}}),
        };
        // An hour without overshoot does not hide a bad minute.
        let share = probe([view(1_000_000.0, Some(0.0)), view(1_010_000.0, Some(0.000_5))]).overshoot_share();
        let share = share.expect("emulated cores").expect("told");
        assert!((share - 505.0 / 10_000.0).abs() < 1e-9, "{share}");
        assert_eq!(probe([view(0.0, Some(0.0)), view(0.0, Some(0.0))]).overshoot_share(), Some(Ok(0.0)));
        // The share of nothing is null.
        assert_eq!(probe([view(0.0, None), view(0.0, None)]).overshoot_share(), Some(Ok(0.0)));
        assert_eq!(probe([view(0.0, None), view(500.0, Some(0.25))]).overshoot_share(), Some(Ok(0.25)));
        let silent = ServerView { body: json!({"burn": "sleep", "fates": {"received": 0}}) };
        assert!(probe([silent]).overshoot_share().expect("emulated cores").is_err());
        let burning = ServerView { body: json!({"burn": "cpu", "fates": {"received": 0}}) };
        assert_eq!(probe([burning]).overshoot_share(), None);
    }
}
