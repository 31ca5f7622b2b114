//! The text values of a configuration, gathered from its layers: flag, environment, file.

use super::problem::{Claim, Origin, Problem};
use super::table::{CHECK_CONFIG, CHECK_HEALTH, CONFIG, Config, HELP_ALL, SettingSource, find};
use super::value::{Refusal, suggestion};
use std::collections::BTreeMap;
#[cfg(feature = "cli")]
use std::path::PathBuf;

/// The value of each setting from the highest layer that has it, and the problems so far.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// The settings that some layer has, by key.
    pub(super) given: BTreeMap<String, Claim>,
    /// The texts of settings that the program adds, by key.
    #[cfg(feature = "cli")]
    pub(super) own: BTreeMap<String, (Vec<String>, Origin)>,
    /// The folder with systemd's credentials, if there is one.
    #[cfg(feature = "cli")]
    pub(super) credentials: Option<PathBuf>,
    pub(super) problems: Vec<Problem>,
    /// Whether a layer could not be read. Settings that seem missing may then be in it.
    pub(super) incomplete: bool,
    /// Settings that no layer has but that follow from another setting, with the reason.
    implied: BTreeMap<&'static str, &'static str>,
}

impl SettingSource for Layers {
    fn given<T>(&mut self, key: &str, parse: fn(&str) -> Result<T, Refusal>) -> Option<T> {
        let given = self.given.get(key)?;
        let refusal = match parse(&given.value) {
            Ok(value) => return Some(value),
            Err(refusal) => refusal,
        };
        let allowed = find(key).map_or_else(String::new, |setting| (setting.allowed)());
        let message = format!("{refusal}; allowed: {allowed}");
        self.problems.push(Problem { claims: vec![given.clone()], message });
        None
    }
}

impl Layers {
    /// True if some layer has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// Whether the user's value for `key` is unknown: it is wrong, or may be in a layer that could
    /// not be read.
    pub(super) fn is_open(&self, key: &str) -> bool {
        let is_it = |problem: &Problem| matches!(problem.claims.as_slice(), [claim] if claim.key == key);
        self.problems.iter().any(is_it) || (self.incomplete && !self.has(key))
    }

    /// Reports that the values of two settings exclude each other. Reports nothing if one of them
    /// is unknown: correcting it may resolve the conflict.
    pub(super) fn conflict(&mut self, config: &Config, keys: [&str; 2], message: String) {
        if keys.iter().any(|key| self.is_open(key)) {
            return;
        }
        let claim = |key: &str| {
            let shown = || find(key).map_or_else(String::new, |setting| (setting.show)(config));
            self.given.get(key).cloned().unwrap_or_else(|| Claim::new(key, shown(), Origin::Default))
        };
        self.problems.push(Problem { claims: keys.map(claim).to_vec(), message });
    }

    /// Notes that another setting decides the value of `key`, which no layer has.
    pub(super) fn imply(&mut self, key: &'static str, reason: &'static str) {
        self.implied.insert(key, reason);
    }

    /// The origin of the value of `key`.
    pub(super) fn origin(&self, key: &str) -> Origin {
        match (self.implied.get(key), self.given.get(key)) {
            (Some(reason), _) => Origin::Implied(reason),
            (None, Some(given)) => given.origin.clone(),
            (None, None) => Origin::Default,
        }
    }
}

/// The message for a `key` that is not among `settings`.
pub(super) fn no_such_setting<'a>(key: &str, settings: impl Iterator<Item = &'a str>) -> String {
    if [CONFIG, CHECK_CONFIG, CHECK_HEALTH, HELP_ALL].contains(&key) {
        return "only a flag, never a setting".to_owned();
    }
    let keys: Vec<&str> = settings.collect();
    format!("no such setting{}; allowed: {}", suggestion(key, keys.iter().copied()), keys.join(", "))
}
