//! The policy in force, and what it was configured as.

use super::adapt::Adaptation;
use crate::config::{Config, Pool};
use crate::sched::{Policy, PolicyName};

/// The policy that the workers follow.
pub(in crate::server) struct Following {
    pub(super) adaptation: Adaptation,
    /// The policy's name as configured, which may be `auto`.
    pub(super) name: PolicyName,
    pub(super) pools: Vec<Pool>,
}

impl Following {
    /// The policy that `config` starts with.
    pub(in crate::server) fn new(config: &Config) -> Following {
        Following { adaptation: Adaptation::new(config), name: config.policy, pools: config.pools.clone() }
    }

    /// The policy for the workers as of now.
    pub(in crate::server) fn policy(&self) -> Policy {
        self.adaptation.policy()
    }
}
