//! The names and properties of the policies, and how to make one by name.

use super::Policy;
use super::rows::ROWS;
use crate::time::Nanos;
use crate::tuning::Tuning;
use std::fmt;
use std::str::FromStr;

/// The properties of a policy: one row of [`ROWS`].
#[derive(Debug)]
pub struct Entry {
    /// The name in flags, files, metrics and JSON.
    pub name: &'static str,
    /// The policy's names in the literature, separated by commas; `None` if it has none there.
    pub literature: Option<&'static str>,
    /// One line of help that says what the policy does.
    pub help: &'static str,
    /// When not to use the policy.
    pub not_for: &'static str,
    /// Whether workers also receive from each other's sockets.
    pub shares_sockets: bool,
    /// Whether the policy adapts to measurements.
    pub adapts: bool,
    /// Keys of the settings that this policy uses but not every policy.
    pub settings: &'static [&'static str],
    /// Makes the policy; [`Entry::make`] calls it.
    pub(crate) constructor: fn(&Tuning) -> Made,
}

/// The name of a policy: a reference to its row.
#[derive(Clone, Copy)]
pub struct PolicyName(&'static Entry);

/// A policy made from a tuning, with its parameters and reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The policy's name; under `auto`, that of the chosen policy.
    pub name: PolicyName,
    /// The policy.
    pub policy: Policy,
    /// CPU time after which a request counts as heavy; `None` if the policy has no such limit.
    pub budget: Option<Nanos>,
    /// The chosen parameters as text, such as `pools 3+11, slice 5us`; empty if there are none.
    pub chosen: String,
    /// Why they were chosen, if the policy adapts.
    pub reason: String,
}

impl Entry {
    /// The values for fields that a row leaves out: no settings, nothing shared.
    pub(crate) const PLAIN: Entry = Entry {
        name: "",
        literature: None,
        help: "",
        not_for: "",
        shares_sockets: false,
        adapts: false,
        settings: &[],
        constructor: |_| unreachable!("every row has its own"),
    };

    /// Makes the policy from `tuning`. Equal tunings give equal policies.
    pub fn make(&'static self, tuning: &Tuning) -> Made {
        let made = (self.constructor)(tuning);
        // `auto` sets the name of the policy that it chose.
        if made.name == PolicyName::NONE { Made { name: PolicyName(self), ..made } } else { made }
    }

    /// Whether the policy has pools.
    pub fn has_pools(&self) -> bool {
        self.settings.contains(&"pools")
    }

    /// Whether workers may form groups. With pools they may not, because the sizes of pools are for
    /// all workers.
    pub fn may_group(&self) -> bool {
        !self.has_pools()
    }
}

impl PolicyName {
    /// Every policy of a server, in the order of help and error messages.
    pub const ALL: &[PolicyName] = &{
        let mut all = [PolicyName(&ROWS[0]); ROWS.len()];
        let mut row = 0;
        while row < ROWS.len() {
            all[row] = PolicyName(&ROWS[row]);
            row += 1;
        }
        all
    };

    /// Stands for a name that is not set yet.
    pub(super) const NONE: PolicyName = PolicyName(&Entry::PLAIN);

    /// The policy with this name.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn named(name: &str) -> PolicyName {
        name.parse().expect("a row has this name")
    }

    /// The policy's row.
    #[cfg_attr(doc, doc(hidden))]
    pub const fn entry(self) -> &'static Entry {
        self.0
    }

    /// The name in flags, files, metrics and JSON.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// The policy that the literature calls `name`, ignoring case, hyphens and underscores.
    fn of_literature(name: &str) -> Option<PolicyName> {
        let plain = |name: &str| name.to_lowercase().replace(['-', '_'], " ");
        let is_it = |names: &str| names.split(", ").any(|known| plain(known) == plain(name));
        PolicyName::ALL.iter().copied().find(|policy| policy.entry().literature.is_some_and(is_it))
    }

    /// The names of all policies for which `holds` is true, as text: `pools, levels and auto`.
    #[cfg_attr(doc, doc(hidden))]
    pub fn list(holds: impl Fn(&Entry) -> bool) -> String {
        let names: Vec<&str> =
            PolicyName::ALL.iter().filter(|policy| holds(policy.0)).map(|policy| policy.name()).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.concat(),
        }
    }
}

impl Tuning {
    /// Makes the policy called `name` from this tuning.
    ///
    /// # Panics
    /// If there is none.
    pub fn policy(&self, name: &str) -> Policy {
        PolicyName::named(name).entry().make(self).policy
    }
}

impl Made {
    /// A policy without parameters.
    ///
    /// # Panics
    /// If the policy puts jobs where no worker looks.
    pub(crate) fn plain(policy: Policy) -> Made {
        let (policy, chosen, reason) = (policy.checked(), String::new(), String::new());
        Made { name: PolicyName::NONE, policy, budget: None, chosen, reason }
    }

    /// Whether `other` decides the same, with limits that differ by noise only.
    pub fn is_like(&self, other: &Made) -> bool {
        self.policy.is_like(&other.policy)
    }

    /// Number of workers in each pool.
    pub fn sizes(&self) -> Vec<usize> {
        let topology = &self.policy.topology;
        (0..topology.pools()).map(|pool| topology.members(pool).len()).collect()
    }
}

impl PartialEq for PolicyName {
    fn eq(&self, other: &PolicyName) -> bool {
        self.name() == other.name()
    }
}

impl Eq for PolicyName {}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<PolicyName, UnknownPolicy> {
        let named = PolicyName::ALL.iter().find(|policy| policy.name() == text);
        named.copied().ok_or_else(|| UnknownPolicy { text: text.to_owned() })
    }
}

/// An error: no policy has this name.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called {text:?}{}; there are {}", name_here(text), PolicyName::list(|_| true))]
pub struct UnknownPolicy {
    /// The unknown name.
    pub text: String,
}

crate::time::show_as_text!(UnknownPolicy);

/// Names of policies that a server does not have, and what to use instead.
const ELSEWHERE: [(&str, &str); 4] = [
    ("ondemand", "levels, with --slice"),
    ("hybrid", "auto"),
    ("reserve", "darc, in virtual time: loadgen simulate --policy darc"),
    ("darc", "darc, in virtual time: loadgen simulate --policy darc"),
];

/// The hint `; the name here is X` for a name from the literature or from elsewhere; otherwise
/// empty.
pub fn name_here(text: &str) -> String {
    let elsewhere =
        ELSEWHERE.iter().find(|(other, _)| *other == text.to_lowercase()).map(|(_, here)| (*here).to_owned());
    let named = || PolicyName::of_literature(text).map(|policy| policy.to_string());
    elsewhere.or_else(named).map_or_else(String::new, |here| format!("; the name here is {here}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    // Does the page list every policy, and when not to use it?
    #[test]
    fn the_page_lists_every_policy() {
        let page = include_str!("../../README.md");
        for Entry { name, literature, not_for, .. } in ROWS {
            let row = format!("| `{name}` | {} | {not_for} |", literature.unwrap_or("-"));
            assert!(page.contains(&row), "the page lacks {row}");
        }
    }

    // Does each name parse to its policy? Does the error list every name?
    #[test]
    fn names_and_policies_are_inverses() {
        let error = "polls".parse::<PolicyName>().unwrap_err();
        for policy in PolicyName::ALL {
            assert_eq!(policy.name().parse().as_ref(), Ok(policy));
            assert!(error.to_string().contains(policy.name()), "{error} does not offer {policy}");
        }
        assert!("Pools".parse::<PolicyName>().is_err(), "names are lower case");
        assert!("micropools".parse::<PolicyName>().unwrap_err().to_string().contains("; the name here is pools; "));
        let names: HashSet<&str> = PolicyName::ALL.iter().map(|policy| policy.name()).collect();
        assert_eq!(names.len(), PolicyName::ALL.len(), "no name is given twice");
        assert_eq!(PolicyName::list(Entry::has_pools), "pools");
        for (other, here) in ELSEWHERE {
            assert!(other.parse::<PolicyName>().is_err_and(|error| error.to_string().contains(here)), "{other}");
        }
    }
}
