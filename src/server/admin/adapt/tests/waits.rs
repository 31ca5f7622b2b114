//! How long may requests wait, by configuration and measurements?

use super::{adaptation, config};
use crate::fate::CLASSES;
use crate::sched::Recent;
use crate::sched::overload::{WaitLimits, latest_start};
use crate::sched::{Adaptation, MaxWait};
use crate::server::admin::waiting::max_wait;
use crate::time::Nanos;

/// A hundred requests of 1 ms in class 0, and as many of 100 ms in class 1.
fn recent() -> Recent {
    let [light, heavy] = [1, 100].map(|ms| (Nanos::from_millis(ms), 100));
    let mut times_of_class: [Vec<_>; CLASSES] = Default::default();
    (times_of_class[0], times_of_class[1]) = (vec![light], vec![heavy]);
    Recent { service_times: vec![light, heavy], times_of_class, ..Recent::default() }
}

/// A server with these settings and a policy without slices.
fn server(pairs: &[(&str, &str)]) -> Adaptation {
    adaptation(&config(&[&[("policy", "global")], pairs].concat()))
}

fn followed(server: &mut Adaptation, recent: &Recent) -> WaitLimits {
    server.follow(recent);
    server.limits
}

fn latest_starts(limits: &WaitLimits) -> [Nanos; 2] {
    let (expires_at, deadline) = (Nanos::from_millis(1_000), Nanos::from_millis(900));
    [0, 1].map(|class| latest_start(expires_at, deadline, limits.expected(class), Nanos::ZERO))
}

#[test]
fn auto_waits_for_half_of_the_patience_until_it_has_measured() {
    let mut server = server(&[]);
    let start = server.limits;
    assert_eq!(max_wait(&start), Some(Nanos::from_millis(500)));
    assert_eq!(max_wait(&followed(&mut server, &Recent::default())), max_wait(&start), "silence");
    let bound = max_wait(&followed(&mut server, &recent())).expect("measured");
    // 20 units of the heavy requests would be 2 s. But clients wait for a second, and a tenth of it
    // is kept for service.
    assert_eq!(bound, Nanos::from_millis(900));
    assert_eq!(max_wait(&followed(&mut server, &Recent::default())), Some(bound), "silence says nothing");
}

#[test]
fn a_duration_is_scaled_and_off_is_none() {
    let scaled = server(&[("max-wait", "20ms"), ("time-scale", "100"), ("burn", "sleep")]).limits;
    assert_eq!(max_wait(&scaled), Some(Nanos::from_secs(2)));
    let off = followed(&mut server(&[("max-wait", "off")]), &recent());
    assert_eq!((max_wait(&off), latest_starts(&off)), (None, [Nanos::from_millis(1_000); 2]));
}

// Does a changed setting take effect at once, without traces of the old one?
#[test]
fn another_setting_counts_at_once() {
    let mut server = server(&[]);
    assert!(latest_starts(&followed(&mut server, &recent()))[0] < Nanos::from_millis(1_000));
    let (second, half) = (Nanos::from_secs(1), Nanos::from_millis(500));
    for (setting, bound) in [(MaxWait::For(second), Some(second)), (MaxWait::Off, None), (MaxWait::Auto, Some(half))] {
        server.set_max_wait(setting);
        assert_eq!(max_wait(&server.limits), bound);
    }
    assert_eq!(latest_starts(&server.limits), [Nanos::from_millis(1_000); 2], "nothing is expected any more");
    let measured = followed(&mut server, &recent());
    assert!(max_wait(&measured).is_some_and(|bound| bound > half));
    server.set_max_wait(MaxWait::Auto);
    assert_eq!(max_wait(&server.limits), max_wait(&measured), "nothing has changed");
}

// Is the expected service time that of the class if classes are known, and that of all requests
// otherwise?
#[test]
fn service_is_expected_of_what_may_be_known() {
    let ms = Nanos::from_millis;
    for (classify, expected) in [("none", [ms(900), ms(900)]), ("header", [ms(999), ms(900)])] {
        let mut server = server(&[("classify", classify)]);
        assert_eq!(latest_starts(&server.limits), [ms(1_000); 2], "nothing is expected yet");
        assert_eq!(latest_starts(&followed(&mut server, &recent())), expected, "{classify}");
    }
}
