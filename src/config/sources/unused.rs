//! Finds settings that were given but have no effect.

use crate::config::effective::Effective;
use crate::config::problem::{Claim, Origin};
use crate::config::table::find;
use crate::config::value::{Burn, HandlerName};
use crate::sched::PolicyName;

/// Settings that only some policies use.
const OF_POLICIES: [&str; 5] = ["pools", "slice", "optimise", "classify", "notices"];

impl Effective {
    /// Settings that a layer sets to something other than the default but that have no effect here,
    /// with the reason.
    pub(crate) fn unused(&self) -> Vec<String> {
        let chosen = self.rows.iter().filter(|row| is_chosen(row));
        chosen.filter_map(|row| Some(format!("{row}: {}", self.why_unused(&row.key)?))).collect()
    }

    fn why_unused(&self, key: &str) -> Option<String> {
        let uses = |policy: PolicyName| policy.entry().settings.contains(&key);
        match key {
            "slice" if self.config.handler == HandlerName::Fork => None,
            "time-scale" if self.config.burn == Burn::Cpu => {
                Some("a real core is no slower for it: only slice, max-wait and cost-cap are longer".to_owned())
            }
            _ if OF_POLICIES.contains(&key) && !uses(self.config.policy) => {
                let those = PolicyName::list(|entry| entry.settings.contains(&key));
                Some(format!("policy {} does not use it, but {those}", self.config.policy))
            }
            _ => None,
        }
    }
}

/// Whether an operator chose the value. A value equal to the default is not chosen.
fn is_chosen(row: &Claim) -> bool {
    let differs = find(&row.key).is_some_and(|setting| setting.computed || setting.default != row.value);
    differs && !matches!(row.origin, Origin::Default | Origin::Program | Origin::Implied(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::effective::from_pairs;
    use crate::config::table::SETTINGS;

    /// The keys that `pairs` give a warning for.
    fn unused(pairs: &[(&str, &str)]) -> Vec<String> {
        let warnings = from_pairs(pairs.iter().copied()).expect("a configuration").unused();
        warnings.iter().map(|warning| warning.split(' ').next().expect("a key").to_owned()).collect()
    }

    // Is exactly each setting named that the policy does not use?
    #[test]
    fn what_a_policy_does_not_use_is_named() {
        let given = [
            ("pools", "front=1,heavy=1"),
            ("slice", "1ms"),
            ("optimise", "latency"),
            ("classify", "header"),
            ("notices", "looks"),
        ];
        assert_eq!(given.map(|(key, _)| key), OF_POLICIES);
        for policy in PolicyName::ALL {
            let all = [&given[..], &[("policy", policy.name()), ("drain-timeout", "1s")]].concat();
            let mut expected: Vec<&str> = OF_POLICIES.to_vec();
            expected.retain(|key| !policy.entry().settings.contains(key));
            expected.sort_by_key(|key| SETTINGS.iter().position(|setting| setting.key == *key));
            assert_eq!(unused(&all), expected, "{policy}");
        }
        let steal = ("policy", "steal");
        for (pairs, named) in [
            // Nothing is given; the default is given; a setting that the handler uses.
            (&[steal][..], &[][..]),
            (&[steal, ("slice", "50us")], &[]),
            (&[steal, ("slice", "1ms"), ("handler", "fork")], &[]),
            // On real cores the time scale changes only a few times.
            (&[("time-scale", "10")], &["time-scale"]),
            (&[("time-scale", "10"), ("burn", "sleep")], &[]),
        ] {
            assert_eq!(unused(pairs), named, "{pairs:?}");
        }
    }
}
