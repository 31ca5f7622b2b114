//! Settings that are given and change nothing.

use crate::config::effective::Effective;
use crate::config::problem::{Claim, Origin};
use crate::config::setting::find;
use crate::config::{Burn, HandlerName};
use crate::sched::PolicyName;

/// Settings that some policies use and others do not.
const OF_POLICIES: [&str; 6] = ["pools", "slice", "optimise", "reserved", "classify", "notices"];

impl Effective {
    /// Each setting that a layer has, with another value than the default, and that does nothing here; and why.
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
            "classic-buckets" | "admin-token-file" if self.config.admin.is_none() => {
                Some("there is no admin endpoint".to_owned())
            }
            _ if OF_POLICIES.contains(&key) && !uses(self.config.policy) => {
                let those = PolicyName::list(|entry| entry.settings.contains(&key));
                Some(format!("policy {} does not use it, but {those}", self.config.policy))
            }
            _ => None,
        }
    }
}

/// Whether an operator chose the value of `row`. A value that a server without settings has is not chosen.
fn is_chosen(row: &Claim) -> bool {
    let differs = find(&row.key).is_some_and(|setting| setting.computed || setting.default != row.value);
    differs && !matches!(row.origin, Origin::Default | Origin::Program | Origin::Implied(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SETTINGS;
    use crate::config::effective::from_pairs;

    /// The keys of what `pairs` warn of.
    fn unused(pairs: &[(&str, &str)]) -> Vec<String> {
        let warnings = from_pairs(pairs.iter().copied()).expect("a configuration").unused();
        warnings.iter().map(|warning| warning.split(' ').next().expect("a key").to_owned()).collect()
    }

    // Is each setting named that the policy does not use, and no other?
    #[test]
    fn what_a_policy_does_not_use_is_named() {
        let given = [
            ("pools", "front=1,heavy=1"),
            ("slice", "1ms"),
            ("optimise", "latency"),
            ("reserved", "1"),
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
        assert_eq!(unused(&[("policy", "steal")]), [""; 0], "nothing is given");
        assert_eq!(unused(&[("policy", "steal"), ("slice", "50us")]), [""; 0], "the default");
        assert_eq!(unused(&[("policy", "steal"), ("slice", "1ms"), ("handler", "fork")]), [""; 0]);
    }

    // Are settings of the admin endpoint named where there is none?
    #[test]
    fn an_endpoint_that_is_off_has_no_settings() {
        let given = [("classic-buckets", "true"), ("admin-token-file", "/proc/sys/kernel/ostype")];
        assert_eq!(unused(&given), [""; 0]);
        assert_eq!(unused(&[&given[..], &[("admin", "off")]].concat()), ["admin-token-file", "classic-buckets"]);
    }

    // Is a scale named that nothing but a few times follows?
    #[test]
    fn a_scale_of_real_cores_is_named() {
        assert_eq!(unused(&[("time-scale", "10")]), ["time-scale"]);
        assert_eq!(unused(&[("time-scale", "10"), ("burn", "sleep")]), [""; 0]);
    }
}
