//! Does a whole server account for every datagram, and is nothing ever stuck? Method: the server's
//! own path and the workers' own turn, in virtual time with sockets in memory. Handlers fork, hop,
//! panic and stall. Policies, requests, switches and a stop are drawn from a seed. The accounts are
//! checked after every event. A failure names its seed, and the same seed repeats the run.
//!
//! Each check has a twin: a server with one planted defect, which must be caught. Otherwise the
//! check could not fail.

mod answers;
mod cases;
mod handler;
mod hints;
mod memory;
mod order;
mod run;
mod scenario;
mod server;
mod shards;
mod timers;

use crate::fate::Fate;
use forebay_sim::world::Fault;
use handler::Scripted;
use run::{Ends, Run};
use scenario::Scenario;
use server::Flaw;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::golden::assert_golden;

/// Number of seeds of an ordinary test run; `FOREBAY_SEEDS` asks for more.
const SEEDS: u64 = 1_000;
/// Number of seeds within which a planted defect must be caught.
const CAUGHT_WITHIN: u64 = 10_000;

// Do the accounts balance, and does each seed end as recorded?
#[test]
fn the_books_balance_and_each_seed_ends_as_before() {
    let seeds = std::env::var("FOREBAY_SEEDS").ok().map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    let first = std::env::var("FOREBAY_SEED").ok().map_or(0, |seed| seed.parse().expect("a seed"));
    let (mut ends, mut table) = (Ends::default(), String::new());
    for seed in first..first + seeds {
        let run = explored(seed, None, None).unwrap_or_else(|trouble| {
            panic!("seed {seed} (FOREBAY_SEED={seed} FOREBAY_SEEDS=1 repeats it): {trouble}")
        });
        ends.iter_mut().zip(run.ends).for_each(|(all, of_run)| *all += of_run);
        let _ = write!(table, "{:016x}{}", run.trace.hash, if seed % 8 == 7 { '\n' } else { ' ' });
    }
    // `shards.rs` has what only shards bring.
    let met = |fate: &Fate| ends[*fate as usize] > 0 || *fate == Fate::Handled;
    assert!(seeds < SEEDS || Fate::ALL.iter().all(met), "a fate that no request met: {ends:?}");
    if (first, seeds) == (0, SEEDS) {
        assert_golden("explorer.txt", &table);
    }
}

/// Runs one seed. Returns the result, or the violated rule.
fn explored(seed: u64, fault: Option<Fault>, flaw: Option<Flaw>) -> Result<Run, String> {
    let handler = Scripted { splits_flows: flaw == Some(Flaw::SplitsFlows), ..Scripted::default() };
    let run = || server::explore(&Scenario::draw(seed), &handler, fault, flaw);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let said =
            panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(format!("a panic: {}", said.unwrap_or_default()))
    })
}

// Is each server with a planted defect caught, by the check meant for it?
#[test]
fn every_twin_is_caught() {
    for (fault, flaw, said) in [
        (Some(Fault::LosesWakes), None, "stuck"),
        (Some(Fault::OrphansQueues), None, "stuck"),
        (Some(Fault::KeepsPermits), None, "stuck"),
        (None, Some(Flaw::ForgetsFates), "packets"),
        (None, Some(Flaw::KeepsPackets), "packets"),
        (None, Some(Flaw::KeepsSetAside), "stuck"),
        (None, Some(Flaw::SplitsFlows), "flow"),
        (None, Some(Flaw::Amplifies), "a source that may be forged"),
        (None, Some(Flaw::InventsTime), "worked"),
    ] {
        let caught =
            (0..CAUGHT_WITHIN).find_map(|seed| explored(seed, fault, flaw).err().map(|trouble| (seed, trouble)));
        let (seed, trouble) = caught.unwrap_or_else(|| panic!("{fault:?} {flaw:?} survives {CAUGHT_WITHIN} seeds"));
        assert!(trouble.contains(said), "{fault:?} {flaw:?}, seed {seed}: caught by something else: {trouble}");
    }
}
