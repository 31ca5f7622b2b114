//! How long requests may wait, by what was measured in the last seconds.

use crate::config::{Burn, Classify, Config};
use crate::metrics::Recent;
use crate::net::RECV_BUFFER_BYTES;
use crate::runtime::continuation::lock;
use crate::sched::estimate::ServiceTimes;
use crate::sched::overload::{QueueBounds, WaitLimits};
use crate::sched::{MaxWait, waits};
use crate::time::Nanos;
use arc_swap::ArcSwap;
use std::sync::{Arc, Mutex};

/// What the kernel takes for a request's way in and out on stock sockets.
const KERNEL: Nanos = Nanos::from_micros(3);

/// What the kernel books of a receive buffer for a small datagram, which is twice what is asked for.
const BOOKED_BYTES: u64 = 832 / 2;
/// The least receive buffer: the kernel's default, which holds a burst of 512 small datagrams once it is doubled.
const RECEIVE_BUFFER_MIN: usize = 212_992;

/// The receive buffer of a socket, so small that whatever waits in it can still be served. It holds what a worker that
/// does nothing else takes out within the bound, where that is known from the start. A core that is `time_scale` times
/// slower has a socket that holds as many seconds of work.
pub(in crate::server) fn receive_buffer(max_wait: MaxWait, time_scale: u64) -> usize {
    let most = RECV_BUFFER_BYTES / usize::try_from(time_scale).unwrap_or(usize::MAX);
    let bytes = match max_wait {
        MaxWait::For(bound) => (bound.get() / KERNEL.times(time_scale).get()).saturating_mul(BOOKED_BYTES),
        MaxWait::Auto | MaxWait::Off => u64::MAX,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX).min(most).max(RECEIVE_BUFFER_MIN)
}

/// The bounds on waiting of one server.
#[derive(Debug)]
pub(in crate::server) struct Waiting {
    max_wait: Mutex<MaxWait>,
    /// What each request takes of a worker beside its service.
    pub(in crate::server) beside: Nanos,
    classified: bool,
    /// What the workers read.
    pub(in crate::server) limits: ArcSwap<WaitLimits>,
}

impl Waiting {
    /// The bounds that `config` starts with: none under `auto`, which has measured nothing yet.
    pub(in crate::server) fn new(config: &Config) -> Waiting {
        let max_wait = config.max_wait_scaled();
        let overheads = config.overheads_scaled();
        let beside = if config.burn == Burn::Sleep { overheads.receive.plus(overheads.send) } else { KERNEL };
        let bounds = QueueBounds::new(max_wait, &ServiceTimes::default(), beside, None);
        let waits = bounds.unwrap_or(QueueBounds::NONE);
        let limits = ArcSwap::from_pointee(WaitLimits { waits, ..WaitLimits::NONE });
        Waiting { max_wait: Mutex::new(max_wait), beside, classified: config.classify == Classify::Header, limits }
    }

    /// How long a request may wait where a queue stands, before it begins; `None` = for ever.
    pub(in crate::server) fn max_wait(&self) -> Option<Nanos> {
        Some(self.limits.load().bounds(false).bound).filter(|bound| *bound != Nanos::MAX)
    }

    /// Follows another setting: at once, and under `auto` from the next measurement on.
    pub(in crate::server) fn set(&self, max_wait: MaxWait) {
        let mut current = lock(&self.max_wait);
        if std::mem::replace(&mut *current, max_wait) == max_wait {
            return;
        }
        let bounds = QueueBounds::new(max_wait, &ServiceTimes::default(), self.beside, None);
        let expected = match max_wait {
            MaxWait::Off => WaitLimits::NONE.expected,
            MaxWait::Auto | MaxWait::For(_) => self.limits.load().expected,
        };
        self.limits.store(Arc::new(WaitLimits { waits: bounds.unwrap_or(QueueBounds::NONE), expected }));
    }

    /// Follows `recent` measurements, under a policy whose first slices are so long; too few measurements change nothing. To be
    /// called every second.
    pub(in crate::server) fn follow(&self, recent: &Recent, first_slice: Option<Nanos>) {
        // Held until the end: a setting that comes meanwhile is not overwritten.
        let max_wait = lock(&self.max_wait);
        let mut limits = **self.limits.load();
        limits.follow(waits(recent, *max_wait, self.beside, first_slice, self.classified));
        self.limits.store(Arc::new(limits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::CLASSES;
    use crate::sched::overload::latest_start;

    fn config(pairs: &[(&str, &str)]) -> Config {
        Config::from_pairs(pairs.iter().copied()).expect("a valid configuration")
    }

    /// A hundred requests of 1 ms in class 0, and as many of 100 ms in class 1.
    fn recent() -> Recent {
        let [light, heavy] = [1, 100].map(|ms| (Nanos::from_millis(ms), 100));
        let mut times_of_class: [Vec<_>; CLASSES] = Default::default();
        (times_of_class[0], times_of_class[1]) = (vec![light], vec![heavy]);
        Recent { service_times: vec![light, heavy], times_of_class, ..Recent::default() }
    }

    fn latest_starts(waiting: &Waiting) -> [Nanos; 2] {
        let (expires_at, deadline) = (Nanos::from_millis(1_000), Nanos::from_millis(900));
        [0, 1].map(|class| latest_start(expires_at, deadline, waiting.limits.load().expected(class), Nanos::ZERO))
    }

    #[test]
    fn auto_knows_no_bound_until_it_has_measured() {
        let waiting = Waiting::new(&config(&[]));
        assert_eq!(waiting.max_wait(), None);
        waiting.follow(&Recent::default(), None);
        assert_eq!(waiting.max_wait(), None, "silence");
        waiting.follow(&recent(), None);
        let bound = waiting.max_wait().expect("measured");
        assert!(
            bound > Nanos::from_millis(1_900) && bound < Nanos::from_millis(2_000),
            "20 of the heavy ones: {bound}"
        );
        waiting.follow(&Recent::default(), None);
        assert_eq!(waiting.max_wait(), Some(bound), "silence says nothing");
    }

    // Does a buffer hold what can be taken out within the bound, the kernel's default at least, and all where that is not
    // known?
    #[test]
    fn a_socket_holds_what_can_be_taken_out_within_the_bound() {
        let bytes = |bound, scale| receive_buffer(MaxWait::For(bound), scale);
        assert_eq!(bytes(Nanos::from_millis(15), 1), 5_000 * 416);
        assert_eq!(bytes(Nanos::from_millis(15), 2), 2_500 * 416);
        assert_eq!(bytes(Nanos::from_micros(1), 1), 212_992);
        assert_eq!(bytes(Nanos::from_millis(40), 1), RECV_BUFFER_BYTES, "no limit");
        let auto = |scale| [MaxWait::Auto, MaxWait::Off].map(|max_wait| receive_buffer(max_wait, scale));
        assert_eq!([1, 8, 1_000].map(auto), [[RECV_BUFFER_BYTES; 2], [RECV_BUFFER_BYTES / 8; 2], [212_992; 2]]);
    }

    #[test]
    fn a_duration_is_scaled_and_off_is_none() {
        let scaled = Waiting::new(&config(&[("max-wait", "20ms"), ("time-scale", "100"), ("burn", "sleep")]));
        assert_eq!(scaled.max_wait(), Some(Nanos::from_secs(2)));
        let off = Waiting::new(&config(&[("max-wait", "off")]));
        off.follow(&recent(), None);
        assert_eq!((off.max_wait(), latest_starts(&off)), (None, [Nanos::from_millis(1_000); 2]));
    }

    // Does another setting take effect at once, and is nothing left of the old one?
    #[test]
    fn another_setting_counts_at_once() {
        let waiting = Waiting::new(&config(&[]));
        waiting.follow(&recent(), None);
        assert!(latest_starts(&waiting)[0] < Nanos::from_millis(1_000));
        let second = Nanos::from_secs(1);
        for (max_wait, bound) in [(MaxWait::For(second), Some(second)), (MaxWait::Off, None), (MaxWait::Auto, None)] {
            waiting.set(max_wait);
            assert_eq!(waiting.max_wait(), bound);
        }
        assert_eq!(latest_starts(&waiting), [Nanos::from_millis(1_000); 2], "nothing is expected any more");
        waiting.follow(&recent(), None);
        let measured = waiting.max_wait();
        assert!(measured.is_some());
        waiting.set(MaxWait::Auto);
        assert_eq!(waiting.max_wait(), measured, "nothing has changed");
    }

    // Is service expected by class where classes are known, and of all of them otherwise?
    #[test]
    fn service_is_expected_of_what_may_be_known() {
        let ms = Nanos::from_millis;
        for (classify, expected) in [("none", [ms(900), ms(900)]), ("header", [ms(999), ms(900)])] {
            let waiting = Waiting::new(&config(&[("classify", classify)]));
            assert_eq!(latest_starts(&waiting), [ms(1_000); 2], "nothing is expected yet");
            waiting.follow(&recent(), None);
            assert_eq!(latest_starts(&waiting), expected, "{classify}");
        }
    }
}
