use super::*;
use crate::clock::virtual_time;

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

/// When checkpoints with these `spacings` first pause, within these limits, from 1 ms on.
fn paused_at(ask_at: Nanos, expires_at: Nanos, spacings: impl IntoIterator<Item = Nanos>) -> Option<Nanos> {
    let (start, mut spacings) = (Nanos::from_millis(1), spacings.into_iter());
    virtual_time::set(Some(start));
    let limits = Limits { ask_at: start.plus(ask_at), expires_at: start.plus(expires_at) };
    let pauses = |spacing| {
        virtual_time::pass(spacing);
        checkpoint_pauses()
    };
    let poll = enter(&mut None, start, limits, None);
    let paused = spacings.any(pauses);
    let _ = poll.leave(&mut None);
    let now = clock::now();
    virtual_time::set(None);
    paused.then(|| now.minus(start))
}

// If checkpoints are evenly spaced, does the first one after the time pause, even though few
// read the clock?
#[test]
fn even_checkpoints_pause_in_time() {
    let far = Nanos::from_secs(1);
    for spacing in [1, 3, 7, 100] {
        let evenly = || std::iter::repeat_n(us(spacing), 2_000);
        for after in [0_u64, 1, 5, 50, 500, 1_999] {
            let due = us(after.max(1).div_ceil(spacing) * spacing);
            assert_eq!(paused_at(us(after), far, evenly()), Some(due), "{after} us, each {spacing} us");
            assert_eq!(paused_at(far, us(after), evenly()), Some(due), "{after} us, each {spacing} us");
        }
    }
    assert_eq!(paused_at(far, far, std::iter::repeat_n(us(1), 2_000)), None);
}

// How late does a handler pause whose checkpoints suddenly come farther apart?
#[test]
fn a_change_of_spacing_makes_it_late_by_a_few_checkpoints() {
    let slower = || std::iter::repeat_n(us(1), 100).chain(std::iter::repeat_n(us(100), 100));
    let paused = paused_at(us(150), Nanos::from_secs(1), slower()).expect("it pauses");
    assert!(paused <= us(100 + u64::from(STRETCH_MAX) * 100), "{paused}");
}

// Does what is polled outside pass its checkpoints, though the handler around it must pause?
// Does the handler pause afterwards, as if nothing had been between, also after a panic?
#[test]
fn what_is_polled_outside_pauses_no_handler() {
    let token = CancellationToken::new();
    for cancelled in [false, true] {
        let limits = Limits { ask_at: Nanos::ZERO, expires_at: Nanos::MAX };
        let poll = enter(&mut None, clock::now(), limits, Some(&token));
        cancelled.then(|| token.cancel());
        outside(|| assert!((0..100).all(|_| !checkpoint_pauses() && !pauses_for(Resume::In(1)))));
        let caught = std::panic::catch_unwind(|| outside(|| std::panic::resume_unwind(Box::new(()))));
        assert!(caught.is_err() && pause().is_none() && checkpoint_pauses());
        let (pause, _) = poll.leave(&mut None);
        let expected = if cancelled { Pause::Abort(AbortCause::Cancelled) } else { Pause::Resume(Resume::Here) };
        assert_eq!(pause, Some(expected));
    }
}

// Does a checkpoint see a cancelled token at once, however many came before?
#[test]
fn a_cancelled_token_is_seen_at_the_next_checkpoint() {
    for before in [0, 100] {
        let token = CancellationToken::new();
        let limits = Limits { ask_at: Nanos::MAX, expires_at: Nanos::MAX };
        let poll = enter(&mut None, clock::now(), limits, Some(&token));
        assert!((0..before).all(|_| !checkpoint_pauses()));
        token.cancel();
        assert!(checkpoint_pauses(), "after {before}");
        let (pause, _) = poll.leave(&mut None);
        assert_eq!(pause, Some(Pause::Abort(AbortCause::Cancelled)));
    }
}
