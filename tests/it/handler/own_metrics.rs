//! If a handler's own metric panics, or does not return, is the server undisturbed?

use crate::support::prelude::*;
use std::sync::mpsc::channel;

fn has(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.starts_with(&format!("{name} ")))
}

// Method: a panic in the handler's own code poisons a lock, so each later reading of the metric
// panics.
#[test]
fn a_metric_that_panics_is_absent() {
    let poisoned = Arc::new(Mutex::new(1.0));
    let lock = Arc::clone(&poisoned);
    let server = bound(&[("workers", "1")]).gauge("before", "", || 1.0).expect("a fine name");
    let server = server.gauge("locked", "", move || *lock.lock().expect("no panic")).expect("a fine name");
    let server = Running::on(server.gauge("after", "", || 2.0).expect("a fine name"), Erased::new(scripted().0));
    let found = || ["before", "locked", "after"].map(|name| has(&server.metrics(), name));
    assert_eq!(found(), [true; 3]);
    let poison = || {
        let _held = poisoned.lock();
        panic!("caught by its thread");
    };
    thread::scope(|scope| assert!(scope.spawn(poison).join().is_err()));
    for _ in 0..3 {
        assert_eq!(found(), [true, false, true]);
    }
    poisoned.clear_poison();
    assert_eq!(found(), [true; 3], "it is read again");
    let report = server.stop();
    assert_eq!(report.totals.gauges.own.len(), 3, "the report has them too");
}

// Does the endpoint answer about health meanwhile, and does the scrape show the metrics before this
// one?
#[test]
fn a_metric_that_does_not_return_delays_no_answer_about_health() {
    let (release, released) = channel::<()>();
    let (begin, begun) = channel();
    let (released, begin) = (Mutex::new(released), Mutex::new(begin));
    let read = move || {
        let _ = begin.lock().expect("no panic").send(());
        // Waits until the first release; afterwards it returns at once.
        let _ = released.lock().expect("no panic").recv();
        3.0
    };
    let server = bound(&[("workers", "1")]).gauge("before", "", || 1.0).expect("a fine name");
    let server = server.gauge("kept", "", read).expect("a fine name");
    let server = Running::on(server.gauge("after", "", || 2.0).expect("a fine name"), Erased::new(scripted().0));
    let found = |text: &str| ["before", "kept", "after"].map(|name| has(text, name));
    let release = thread::scope(|scope| {
        // If the test fails, this is dropped and the scrape ends.
        let release = release;
        let scrape = scope.spawn(|| server.metrics());
        begun.recv().expect("it is read");
        for path in ["/healthz", "/readyz", "/slow"] {
            assert_eq!(http(server.admin, &format!("GET {path}")).map(|reply| reply.status), Some(200), "{path}");
            assert!(!scrape.is_finished(), "{path} waited for the metric");
        }
        assert_eq!(found(&scrape.join().expect("no panic")), [true, false, false]);
        release
    });
    assert_eq!(found(&server.metrics()), [true, false, false]);
    drop(release);
    await_until(|| found(&server.metrics()) == [true; 3], "it is not read again");
}
