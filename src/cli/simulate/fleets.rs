//! From flags to fleets.

use crate::lab::sim::{Balance, Fleet};

/// The most workers of a fleet: so many take some hundred MiB.
const WORKERS_MAX: usize = 16_384;

/// The fleet of `servers` servers with this many workers each, of which `lost` are lost.
///
/// # Errors
/// A message that names the flags in question and what is allowed.
pub(in crate::cli) fn fleet(servers: u16, workers: usize, lost: u16, balance: Balance) -> Result<Fleet, String> {
    if lost >= servers {
        return Err(format!("--lost {lost}: of --servers {servers} one must be left; allowed: 0 to {}", servers - 1));
    }
    let all = usize::from(servers) * workers;
    if all > WORKERS_MAX {
        return Err(format!(
            "--servers {servers} of {workers} workers are {all} workers, and a fleet has {WORKERS_MAX} at most: lower \
             --servers or the workers of each"
        ));
    }
    Ok(Fleet { servers: servers.into(), lost: lost.into(), balance })
}
