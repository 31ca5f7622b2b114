//! Taking values out of the layers: each parsed once, what is wrong written down.

use super::layers::RawConfig;
use super::parse::Refusal;
use super::problem::{Claim, Origin, Problem, Problems};
use super::setting::{DefaultValue, find};
use std::collections::BTreeMap;

/// The layers' texts, and what has been found out about them so far.
pub(super) struct Lookup {
    raw: RawConfig,
    /// Settings that nobody gave and that another setting decides, with the reason.
    implied: BTreeMap<&'static str, &'static str>,
}

impl Lookup {
    /// Nothing looked up yet.
    pub(super) fn new(raw: RawConfig) -> Lookup {
        Lookup { raw, implied: BTreeMap::new() }
    }

    /// Whether some layer has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.raw.given.contains_key(key)
    }

    /// The value of `key`, or its default if nobody gave one, or if what was given is a problem.
    pub(super) fn value<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, Refusal>) -> T {
        self.given(key, &parse).unwrap_or_else(|| match find(key).map(|setting| setting.default) {
            Some(DefaultValue::Text(default)) => parse(default).expect("a test holds that the defaults are valid"),
            _ => unreachable!("{key} is not a setting with a fixed default"),
        })
    }

    /// The value of `key` if some layer has it and it is right.
    pub(super) fn given<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, Refusal>) -> Option<T> {
        let given = self.raw.given.get(key)?;
        match parse(&given.text) {
            Ok(value) => Some(value),
            Err(refusal) => {
                let allowed = find(key).map_or(String::new(), |setting| setting.allowed.to_string());
                let problem =
                    Problem { claims: vec![self.claim(key)], message: format!("{refusal}; allowed: {allowed}") };
                self.raw.problems.push(problem);
                None
            }
        }
    }

    /// What `key` was given as, or else its default.
    pub(super) fn claim(&self, key: &'static str) -> Claim {
        let default = find(key).map_or("", |setting| setting.default.text());
        self.claim_of(key, default.to_owned())
    }

    /// What `key` was given as, or else `default`.
    pub(super) fn claim_of(&self, key: &'static str, default: String) -> Claim {
        match self.raw.given.get(key) {
            Some(given) => Claim { key: key.to_owned(), value: given.text.clone(), origin: given.origin.clone() },
            None => Claim { key: key.to_owned(), value: default, origin: Origin::Default },
        }
    }

    /// Whether it is open what `key` was meant to be: its value is wrong, or it may have one in a layer that could not be
    /// read.
    pub(super) fn is_open(&self, key: &str) -> bool {
        let is_it = |problem: &Problem| matches!(problem.claims.as_slice(), [claim] if claim.key == key);
        self.raw.problems.iter().any(is_it) || (self.raw.incomplete && !self.has(key))
    }

    /// Reports `claims` as excluding each other, unless one of them is open: the conflict may vanish with what is wrong
    /// there.
    pub(super) fn conflict(&mut self, claims: Vec<Claim>, message: &str) {
        if !claims.iter().any(|claim| self.is_open(&claim.key)) {
            self.raw.problems.push(Problem { claims, message: message.to_owned() });
        }
    }

    /// Notes that another setting decides `key`, which nobody gave.
    pub(super) fn imply(&mut self, key: &'static str, reason: &'static str) {
        self.implied.insert(key, reason);
    }

    /// Where the value of `key` comes from.
    pub(super) fn origin(&self, key: &str) -> Origin {
        match (self.implied.get(key), self.raw.given.get(key)) {
            (Some(reason), _) => Origin::Implied(reason),
            (None, Some(given)) => given.origin.clone(),
            (None, None) => Origin::Default,
        }
    }

    /// What was wrong, if anything was. To be asked once, at the end.
    pub(super) fn problems(&mut self) -> Option<Problems> {
        Problems::from_vec(std::mem::take(&mut self.raw.problems))
    }
}
