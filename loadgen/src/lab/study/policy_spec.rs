//! The values of `--policy`: a policy of the server, or one that exists in simulation only.

use crate::lab::sim::Reference;
use forebay::inside::sched::{Entry, PolicyName, name_here};
use std::fmt;
use std::str::FromStr;

/// A policy to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicySpec {
    /// A policy that a server can follow.
    Server(PolicyName),
    /// A reference policy, simulated as a bound.
    Reference(Reference),
}

impl PolicySpec {
    /// Whether the policy has pools.
    pub(crate) fn has_pools(self) -> bool {
        self.entry().is_some_and(Entry::has_pools)
    }

    /// The table entry of a policy that a server can follow; `None` for a reference policy.
    pub(crate) fn entry(self) -> Option<&'static Entry> {
        match self {
            PolicySpec::Server(policy) => Some(policy.entry()),
            PolicySpec::Reference(_) => None,
        }
    }
}

impl FromStr for PolicySpec {
    type Err = String;

    fn from_str(text: &str) -> Result<PolicySpec, String> {
        let text = text.trim();
        let ours = text.parse().map(PolicySpec::Server);
        ours.or_else(|_| text.parse().map(PolicySpec::Reference)).map_err(|()| {
            format!(
                "no policy is called `{text}`{}; there are {}, and in simulation only srpt, priority and darc",
                name_here(text),
                PolicyName::list(|_| true)
            )
        })
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicySpec::Server(policy) => policy.fmt(f),
            PolicySpec::Reference(reference) => reference.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_offered() {
        for text in ["steal", "auto", "srpt", "darc"] {
            assert_eq!(text.parse::<PolicySpec>().map(|spec| spec.to_string()), Ok(text.to_owned()));
        }
        let error = "stael".parse::<PolicySpec>().expect_err("a slip");
        assert!(PolicyName::ALL.iter().all(|policy| error.contains(policy.name())), "{error}");
    }
}
