//! Does loom catch each scenario with one fault? The scenarios are those of `main.rs`; this shows
//! that they can fail. One scenario without a fault is also here, because it takes too long for
//! every change. `.ci/release` runs this file.

#[allow(dead_code, reason = "scenarios that are played whole alone")]
mod sleep_loom;
#[allow(dead_code, reason = "its own twin stands beside it")]
mod tasks_loom;

// The files under test look for these names here.
use forebay_base::time;
use forebay_sched as sched;
use sleep_loom::kernel::Fault;
use sleep_loom::world::Flaw;
use sleep_loom::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The model's message when every thread waits.
const FORGOTTEN: &str = "forgotten";

/// Checks that loom finds the fault of `broken`, with this `message`.
fn assert_caught(message: &str, broken: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(broken)).expect_err("loom sees the flaw");
    let said = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    assert!(said.as_ref().is_some_and(|said| said.contains(message)), "another flaw than meant: {said:?}");
}

/// Makes a test of each scenario with a fault, and the message of the model.
macro_rules! caught {
    ($($name:ident: $message:expr, $broken:expr;)*) => {$(
        #[test]
        fn $name() {
            assert_caught($message, || $broken);
        }
    )*};
}

caught! {
    a_look_before_the_announcement_is_caught: FORGOTTEN, one_job(Flaw::LooksFirst);
    a_wake_before_the_job_is_caught: FORGOTTEN, one_job(Flaw::WakesFirst);
    a_chain_that_breaks_is_caught: FORGOTTEN, two_jobs(Flaw::WakesNoNext);
    a_watcher_that_keeps_its_role_is_caught: FORGOTTEN,
        three_arrivals(|world| (0..3).for_each(|_| world.arrive(1, 1)), Flaw::KeepsRole);
    an_ingress_that_nobody_sees_is_caught: FORGOTTEN, two_arrivals(at_one, Flaw::HidesIngress);
    a_kernel_that_is_silent_on_what_was_ready_is_caught: FORGOTTEN,
        two_arrivals(at_one, Flaw::Kernel(Fault::ReportsNoAdded));
    a_kernel_that_is_silent_on_what_its_owner_adds_is_caught: FORGOTTEN,
        arrivals_at_one(Flaw::Kernel(Fault::ReportsNoOwn));
    a_thief_that_forgets_the_rest_is_caught: FORGOTTEN, three_arrivals(|world| world.arrive(1, 3), Flaw::ForgetsRest);
    a_worker_that_a_switch_takes_from_a_job_in_silence_is_caught: FORGOTTEN,
        switched(global, pools, 0..2, 2, Flaw::FollowsInSilence);
    a_switch_that_wakes_too_early_is_caught: FORGOTTEN,
        switched(pools, || levels(2), 1..2, 2, Flaw::WakesBeforeSwitch);
    a_switch_that_keeps_the_old_pools_is_caught: FORGOTTEN, switched(pools, || levels(2), 1..2, 2, Flaw::KeepsPools);
    two_wakes_for_one_datagram_are_caught: "one worker wakes", arrival_at_a_switch(Flaw::Kernel(Fault::TellsAll));
    a_kernel_that_tells_nobody_of_a_busy_owners_datagram_is_caught: FORGOTTEN,
        two_arrivals(at_one, Flaw::Kernel(Fault::TellsOwnerOnly));
    a_worker_that_sleeps_beside_its_ingress_is_caught: FORGOTTEN, arrivals_at_one(Flaw::SleepsBesideIngress);
    a_worker_that_asks_too_late_is_caught: "a job is left", stopped(Flaw::AsksLate);
    a_notice_of_later_arrivals_only_is_caught: FORGOTTEN,
        arrivals_in_heavy_work(Flaw::Kernel(Fault::NoticesNoPresent));
    a_notice_that_is_not_asked_for_again_is_caught: FORGOTTEN, arrivals_in_heavy_work(Flaw::AsksOnce);
    a_notice_in_place_of_a_wake_is_caught: FORGOTTEN, a_swallowed_turn(Flaw::Kernel(Fault::NoticesInsteadOfWaking));
}

#[test]
fn the_lack_of_fences_is_caught() {
    sync::FENCES.set(false);
    assert_caught(FORGOTTEN, || one_job(Flaw::None));
    sync::FENCES.set(true);
}

/// This takes a minute; the scenarios of `main.rs` take seconds.
#[test]
fn a_switch_forgets_no_job() {
    switched(pools, || levels(2), 1..2, 2, Flaw::None);
    switched(global, pools, 0..2, 2, Flaw::None);
}
