//! What the policies are called.

use std::fmt;
use std::str::FromStr;

/// A policy, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyName {
    /// Every worker serves its own socket and nothing else (the literature's d-FCFS).
    Isolated,
    /// All workers serve one shared queue, first come, first served (c-FCFS).
    Global,
    /// A worker without work takes from a busy one: from its deque and from its socket.
    Steal,
    /// As steal, and an overloaded worker puts surplus requests where idle ones look before they steal (work shedding).
    Shed,
    /// Micropools: requests start in the first pool; those that turn out heavy move on to the next.
    Pools,
    /// Classes that are known from the header have workers of their own, as many as their demand needs (DARC).
    Reserve,
    /// Fresh requests first everywhere; heavy ones give way after a slice, sooner on reserved workers (soft reservation).
    Hybrid,
    /// A heavy request steps aside when a fresh one waits that finds no free worker.
    OnDemand,
    /// Chooses among global, steal, hybrid and ondemand, and their budget, by what it measures; begins as steal.
    Auto,
}

impl PolicyName {
    /// Every policy, in the order in which help and error messages list them.
    pub const ALL: [PolicyName; 9] = [
        PolicyName::Isolated,
        PolicyName::Global,
        PolicyName::Steal,
        PolicyName::Shed,
        PolicyName::Pools,
        PolicyName::Reserve,
        PolicyName::Hybrid,
        PolicyName::OnDemand,
        PolicyName::Auto,
    ];

    /// The name in flags, files, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyName::Isolated => "isolated",
            PolicyName::Global => "global",
            PolicyName::Steal => "steal",
            PolicyName::Shed => "shed",
            PolicyName::Pools => "pools",
            PolicyName::Reserve => "reserve",
            PolicyName::Hybrid => "hybrid",
            PolicyName::OnDemand => "ondemand",
            PolicyName::Auto => "auto",
        }
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<PolicyName, UnknownPolicy> {
        PolicyName::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or_else(|| UnknownPolicy { text: text.to_owned() })
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no policy is called {text:?}; there are isolated, global, steal, shed, pools, reserve, hybrid, ondemand and auto"
)]
pub struct UnknownPolicy {
    /// What was written instead of a name.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do names and policies map onto each other, and does the error offer every name?
    #[test]
    fn names_and_policies_are_inverses() {
        let error = "polls".parse::<PolicyName>().unwrap_err();
        for policy in PolicyName::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
            assert!(error.to_string().contains(policy.name()), "{error} does not offer {policy}");
        }
        assert!("Pools".parse::<PolicyName>().is_err(), "names are lower case");
    }
}
