//! Reads what helpers do: for `/metrics` and `/latency`, for `/slow`, and for the watch that finds
//! a stuck pool.

use crate::metrics::Helpers;
use crate::runtime::continuation::{HelpersState, LEDGER};
use crate::runtime::cpus::run_queue::wait_of;
use crate::server::admin::helpers::Helper;
use crate::time::Nanos;

/// The helpers of this process at `now`.
pub(super) fn state(now: Nanos) -> Helpers {
    let HelpersState { waiting, running, oldest_waiting, oldest_running, done, refused } = LEDGER.state(now);
    let threads = LEDGER.helpers();
    let waits = threads.iter().map(|(thread, _)| wait_of(*thread));
    let run_queue_wait = waits.into_iter().try_fold(Nanos::ZERO, |sum, wait| Some(sum.plus(wait?)));
    let (threads, cpu) = (threads.len(), LEDGER.cpu());
    Helpers { threads, waiting, oldest_waiting, running, oldest_running, done, refused, cpu, run_queue_wait }
}

/// What each helper does, for the watch.
pub(super) fn each() -> Vec<Helper> {
    let helper = |(thread, began_at): (i32, Option<Nanos>)| Helper {
        began_at,
        // An idle helper keeps nothing waiting.
        waited: began_at.and_then(|_| wait_of(thread)).unwrap_or_default(),
    };
    LEDGER.helpers().into_iter().map(helper).collect()
}

#[cfg(feature = "admin")]
mod pages {
    use super::LEDGER;
    use crate::metrics::{Open, Unended, Wait};
    use crate::runtime::continuation::Times;
    use crate::time::Nanos;

    /// An unfinished request at `now`, with the times of its work aside if it waits for that.
    pub(in crate::server::life) fn unended(Open { about, shard, wait }: Open, now: Nanos) -> Unended {
        let unended = Unended { about, shard, wait, ..Unended::default() };
        let Some(Wait::Aside(place)) = wait else { return unended };
        // The work has just ended if its place is free, and the request's wait is over.
        let Some(Times { queued_at, began_at, cpu, .. }) = LEDGER.times(place) else {
            return Unended { wait: None, ..unended };
        };
        let for_helper = began_at.unwrap_or(now).minus(queued_at);
        let on_helper = began_at.map_or(Nanos::ZERO, |began_at| now.minus(began_at));
        Unended { for_helper, on_helper, helper_cpu: cpu.min(on_helper), ..unended }
    }

    /// For how long each helper has done its present work at `now`; `None` = it does none.
    pub(in crate::server::life) fn running(now: Nanos) -> Vec<Option<Nanos>> {
        LEDGER.helpers().into_iter().map(|(_, began_at)| began_at.map(|began_at| now.minus(began_at))).collect()
    }
}

#[cfg(feature = "admin")]
pub(super) use pages::{running, unended};
