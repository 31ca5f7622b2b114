//! How long requests may wait, by what was measured in the last seconds.

use crate::config::{Burn, Classify, Config};
use crate::metrics::Recent;
use crate::net::RECV_BUFFER_BYTES;
use crate::sched::overload::{QueueBounds, WaitLimits};
use crate::sched::{MaxWait, waits};
use crate::time::Nanos;

/// What the kernel takes for a request's way in and out on stock sockets.
const KERNEL: Nanos = Nanos::from_micros(3);

/// What the kernel books of a receive buffer for a small datagram, which is twice what is asked
/// for.
const BOOKED_BYTES: u64 = 832 / 2;
/// The least receive buffer: the kernel's default, which holds a burst of 512 small datagrams once
/// it is doubled.
const RECEIVE_BUFFER_MIN: usize = 212_992;

/// The receive buffer of a socket, so small that whatever waits in it can still be served. It holds
/// what a worker that does nothing else takes out within the bound, where that is known from the
/// start. A core that is `time_scale` times slower has a socket that holds as many seconds of work.
pub(crate) fn receive_buffer(max_wait: MaxWait, time_scale: u64) -> usize {
    let most = RECV_BUFFER_BYTES / usize::try_from(time_scale).unwrap_or(usize::MAX);
    let bytes = match max_wait {
        MaxWait::For(bound) => (bound.get() / KERNEL.times(time_scale).get()).saturating_mul(BOOKED_BYTES),
        MaxWait::Auto | MaxWait::Off => u64::MAX,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX).min(most).max(RECEIVE_BUFFER_MIN)
}

/// What each request takes of a worker beside its service.
pub(crate) fn beside(config: &Config) -> Nanos {
    let overheads = config.overheads_scaled();
    if config.burn == Burn::Sleep { overheads.receive.plus(overheads.send) } else { KERNEL }
}

/// The limits that `config` starts with, which has measured nothing yet.
pub(crate) fn limits(config: &Config) -> WaitLimits {
    WaitLimits { waits: QueueBounds::unmeasured(config.max_wait_scaled()), ..WaitLimits::NONE }
}

/// How long a request may wait where a queue stands, before it begins; `None` = for ever.
pub(crate) fn max_wait(limits: &WaitLimits) -> Option<Nanos> {
    Some(limits.bounds(false).bound).filter(|bound| *bound != Nanos::MAX)
}

/// The limits after `old` once `now` is in force: another bound at once, and under `auto` from the
/// next measurement on.
pub(crate) fn reset(old: WaitLimits, was: &Config, now: &Config) -> WaitLimits {
    match now.max_wait {
        same if same == was.max_wait => old,
        MaxWait::Off => limits(now),
        MaxWait::Auto | MaxWait::For(_) => WaitLimits { expected: old.expected, ..limits(now) },
    }
}

/// The limits after `old` by `recent` measurements, under a policy whose first slices are so long.
/// Too few measurements change nothing.
pub(crate) fn follow(mut old: WaitLimits, config: &Config, recent: &Recent, first_slice: Option<Nanos>) -> WaitLimits {
    let classified = config.classify == Classify::Header;
    old.follow(waits(recent, config.max_wait_scaled(), beside(config), first_slice, classified));
    old
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

    fn latest_starts(limits: &WaitLimits) -> [Nanos; 2] {
        let (expires_at, deadline) = (Nanos::from_millis(1_000), Nanos::from_millis(900));
        [0, 1].map(|class| latest_start(expires_at, deadline, limits.expected(class), Nanos::ZERO))
    }

    #[test]
    fn auto_waits_for_half_of_the_patience_until_it_has_measured() {
        let config = config(&[]);
        let start = limits(&config);
        assert_eq!(max_wait(&start), Some(Nanos::from_millis(500)));
        let silent = follow(start, &config, &Recent::default(), None);
        assert_eq!(max_wait(&silent), max_wait(&start), "silence");
        let measured = follow(silent, &config, &recent(), None);
        let bound = max_wait(&measured).expect("measured");
        // 20 of the heavy ones are 2 s. Clients wait for a second, and a tenth of that is for the
        // service.
        assert_eq!(bound, Nanos::from_millis(900));
        let silent = follow(measured, &config, &Recent::default(), None);
        assert_eq!(max_wait(&silent), Some(bound), "silence says nothing");
    }

    // Does a buffer hold what can be taken out within the bound, the kernel's default at least, and
    // all where that is not known?
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
        let scaled = limits(&config(&[("max-wait", "20ms"), ("time-scale", "100"), ("burn", "sleep")]));
        assert_eq!(max_wait(&scaled), Some(Nanos::from_secs(2)));
        let off = config(&[("max-wait", "off")]);
        let off = follow(limits(&off), &off, &recent(), None);
        assert_eq!((max_wait(&off), latest_starts(&off)), (None, [Nanos::from_millis(1_000); 2]));
    }

    // Does another setting take effect at once, and is nothing left of the old one?
    #[test]
    fn another_setting_counts_at_once() {
        let auto = config(&[]);
        let (mut was, mut now) = (config(&[]), follow(limits(&auto), &auto, &recent(), None));
        assert!(latest_starts(&now)[0] < Nanos::from_millis(1_000));
        for (text, bound) in [("1s", Some(Nanos::from_secs(1))), ("off", None), ("auto", Some(Nanos::from_millis(500)))]
        {
            let next = config(&[("max-wait", text)]);
            (now, was) = (reset(now, &was, &next), next);
            assert_eq!(max_wait(&now), bound);
        }
        assert_eq!(latest_starts(&now), [Nanos::from_millis(1_000); 2], "nothing is expected any more");
        let measured = follow(now, &auto, &recent(), None);
        assert!(max_wait(&measured).is_some());
        assert_eq!(max_wait(&reset(measured, &was, &auto)), max_wait(&measured), "nothing has changed");
    }

    // Is service expected by class where classes are known, and of all of them otherwise?
    #[test]
    fn service_is_expected_of_what_may_be_known() {
        let ms = Nanos::from_millis;
        for (classify, expected) in [("none", [ms(900), ms(900)]), ("header", [ms(999), ms(900)])] {
            let config = config(&[("classify", classify)]);
            assert_eq!(latest_starts(&limits(&config)), [ms(1_000); 2], "nothing is expected yet");
            let measured = follow(limits(&config), &config, &recent(), None);
            assert_eq!(latest_starts(&measured), expected, "{classify}");
        }
    }
}
