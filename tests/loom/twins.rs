//! Does loom catch each scenario that is broken in one thing? The scenarios are those of `main.rs`, which could not fail
//! otherwise. One that takes too long for every change stands here whole. `.ci/release` runs it.

#[allow(dead_code, reason = "scenarios that are played whole alone")]
mod sleep_loom;
#[allow(dead_code, reason = "its own twin stands beside it")]
mod tasks_loom;

// Where the files under test look for them.
use forebay::{sched, time};
use sleep_loom::kernel::Fault;
use sleep_loom::world::Flaw;
use sleep_loom::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the model says when every thread waits.
const FORGOTTEN: &str = "forgotten";

/// Loom must find what is wrong with `broken`, and it must be what `message` says.
fn assert_caught(message: &str, broken: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(broken)).expect_err("loom sees the flaw");
    let said = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    assert!(said.as_ref().is_some_and(|said| said.contains(message)), "another flaw than meant: {said:?}");
}

#[test]
fn a_look_before_the_announcement_is_caught() {
    assert_caught(FORGOTTEN, || one_job(Flaw::LooksFirst));
}

#[test]
fn a_wake_before_the_job_is_caught() {
    assert_caught(FORGOTTEN, || one_job(Flaw::WakesFirst));
}

#[test]
fn the_lack_of_fences_is_caught() {
    sync::FENCES.set(false);
    assert_caught(FORGOTTEN, || one_job(Flaw::None));
    sync::FENCES.set(true);
}

#[test]
fn a_chain_that_breaks_is_caught() {
    assert_caught(FORGOTTEN, || two_jobs(Flaw::WakesNoNext));
}

#[test]
fn a_watcher_that_keeps_its_role_is_caught() {
    assert_caught(FORGOTTEN, || two_arrivals(at_one, Flaw::KeepsRole));
}

#[test]
fn an_ingress_that_nobody_sees_is_caught() {
    assert_caught(FORGOTTEN, || two_arrivals(at_one, Flaw::HidesIngress));
}

#[test]
fn a_kernel_that_is_silent_on_what_was_ready_is_caught() {
    assert_caught(FORGOTTEN, || two_arrivals(at_one, Flaw::Kernel(Fault::ReportsNoAdded)));
}

#[test]
fn a_kernel_that_is_silent_on_what_its_owner_adds_is_caught() {
    assert_caught(FORGOTTEN, || arrivals_at_one(Flaw::Kernel(Fault::ReportsNoOwn)));
}

#[test]
fn a_thief_that_forgets_the_rest_is_caught() {
    assert_caught(FORGOTTEN, || three_arrivals(|world| world.arrive(1, 3), Flaw::ForgetsRest));
}

#[test]
fn a_worker_that_a_switch_takes_from_a_job_in_silence_is_caught() {
    assert_caught(FORGOTTEN, || switched(global, pools, 0..2, 2, Flaw::FollowsInSilence));
}

#[test]
fn a_switch_that_wakes_too_early_is_caught() {
    assert_caught(FORGOTTEN, || switched(pools, || hybrid(2), 1..2, 2, Flaw::WakesBeforeSwitch));
}

#[test]
fn a_switch_that_keeps_the_old_pools_is_caught() {
    assert_caught(FORGOTTEN, || switched(pools, || hybrid(2), 1..2, 2, Flaw::KeepsPools));
}

#[test]
fn two_wakes_for_one_datagram_are_caught() {
    assert_caught("one worker wakes", || arrival_at_a_switch(Flaw::Kernel(Fault::KeepsWatching)));
}

#[test]
fn a_worker_that_sleeps_beside_its_ingress_is_caught() {
    assert_caught(FORGOTTEN, || arrivals_at_one(Flaw::SleepsBesideIngress));
}

#[test]
fn a_worker_that_asks_too_late_is_caught() {
    assert_caught("a job is left", || stopped(Flaw::AsksLate));
}

#[test]
fn a_notice_of_later_arrivals_only_is_caught() {
    assert_caught(FORGOTTEN, || arrivals_in_heavy_work(Flaw::Kernel(Fault::NoticesNoPresent)));
}

#[test]
fn a_notice_that_is_not_asked_for_again_is_caught() {
    assert_caught(FORGOTTEN, || arrivals_in_heavy_work(Flaw::AsksOnce));
}

#[test]
fn a_notice_in_place_of_a_wake_is_caught() {
    assert_caught(FORGOTTEN, || a_swallowed_turn(Flaw::Kernel(Fault::NoticesInsteadOfWaking)));
}

/// Takes a minute, where the scenarios of `main.rs` take seconds.
#[test]
fn a_switch_forgets_no_job() {
    switched(pools, || hybrid(2), 1..2, 2, Flaw::None);
    switched(global, pools, 0..2, 2, Flaw::None);
}
