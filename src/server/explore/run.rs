//! The result of an explored run, with a hash of all that happened, which differs for other
//! decisions.

use crate::fate::{Expired, Fate};
use crate::time::Nanos;

/// Number of requests by fate, indexed by the fate's number.
pub(super) type Ends = [u64; Fate::ALL.len()];
/// Number of requests that expired, indexed by [`Expired`].
pub(super) type Expirations = [u64; Expired::ALL.len()];

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) ends: Ends,
    pub(super) expired: Expirations,
    /// What its shards hand over.
    pub(super) handed_over: Vec<u8>,
    /// A hash of which requests had ended at which time.
    pub(super) trace: Trace,
}

/// The FNV-1a hash (Fowler, Noll, Vo) of every change of the accounts, with its time. Equal on
/// every machine and with every Rust version.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) hash: u64,
    accounts: (u64, Ends),
}

impl Default for Trace {
    fn default() -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, accounts: Default::default() }
    }
}

impl Trace {
    /// Adds the accounts at `now`: datagrams received, and ended by fate.
    pub(super) fn note(&mut self, now: Nanos, accounts: (u64, Ends)) {
        if self.accounts == accounts {
            return;
        }
        self.accounts = accounts;
        let (received, ends) = accounts;
        for byte in [now.get(), received].into_iter().chain(ends).flat_map(u64::to_le_bytes) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
