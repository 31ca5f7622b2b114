//! What an explored run came to, and what happened in it as one number: other decisions give
//! another one.

use crate::fate::{Expired, Fate};
use crate::time::Nanos;

/// The number of requests by fate, indexed by the fate's number.
pub(super) type Ends = [u64; Fate::ALL.len()];
/// The number of requests that expired, indexed by [`Expired`].
pub(super) type Expirations = [u64; Expired::ALL.len()];

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) ends: Ends,
    pub(super) expired: Expirations,
    /// Which requests had ended by when.
    pub(super) trace: Trace,
}

/// The FNV-1a hash (Fowler, Noll, Vo) of every change of the accounts, with its time: the same on
/// every machine and with every Rust.
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
    /// Notes the accounts at `now`: datagrams received, and ended by fate.
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
