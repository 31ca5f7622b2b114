//! Which settings a program has, and its own defaults.

use crate::config::layers::{Layers, no_such_setting};
use crate::config::problem::{Origin, Problem};
use crate::config::table::{Group, SETTINGS, Setting};

/// The settings of a program: those of any service, with defaults of its own, or all.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    with_bench: bool,
    defaults: Vec<(String, String)>,
}

impl Scope {
    /// Every setting: the bench server has them all.
    pub(crate) const ALL: Scope = Scope { with_bench: true, defaults: Vec::new() };

    /// The settings of a service, without those of the bench server. `defaults`, keys and values,
    /// replace ours.
    pub(crate) fn of_service(defaults: &[(&str, &str)]) -> Scope {
        let defaults = defaults.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        Scope { with_bench: false, defaults }
    }

    /// The settings that the program has.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| self.with_bench || setting.group != Group::Bench)
    }

    /// The row of `key`, if the program has this setting.
    pub(crate) fn find(&self, key: &str) -> Option<&'static Setting> {
        self.settings().find(|setting| setting.key == key)
    }

    /// The default of `setting` as help shows it.
    pub(crate) fn default_text(&self, setting: &Setting) -> &str {
        let own = self.defaults.iter().find(|(key, _)| key == setting.key);
        own.map_or(setting.default, |(_, value)| value)
    }

    /// Offers `layers` the program's own defaults: after every other layer.
    pub(crate) fn offer_defaults(&self, layers: &mut Layers) {
        for (key, value) in &self.defaults {
            match self.find(key) {
                Some(setting) => layers.offer(setting.key, value.clone(), Origin::Program),
                None => {
                    let message = no_such_setting(key, self.settings());
                    layers.problems.push(Problem::of(key, value, Origin::Program, message));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sources::{load, with_flags};

    // Is a default of a program a default that only a layer replaces, and a wrong name a problem
    // like any other?
    #[test]
    fn defaults_of_a_program_are_its_last_layer() {
        let scope = Scope::of_service(&[("slice", "7us"), ("policy", "steal"), ("burn", "sleep")]);
        let mut layers = Layers::default();
        layers.offer("policy", "global".to_owned(), Origin::Flag);
        scope.offer_defaults(&mut layers);
        assert_eq!((&*layers.given["slice"].value, &layers.given["slice"].origin), ("7us", &Origin::Program));
        assert_eq!(layers.given["policy"].value, "global");
        let problems: Vec<String> = layers.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("burn = \"sleep\" (default of this program): no such setting"), "{problems:?}");
    }

    // Is an operator told of a setting without effect, but not of a default that the program chose?
    #[test]
    fn defaults_of_a_program_are_no_choice_of_an_operator() {
        let scope = Scope::of_service(&[("policy", "steal"), ("slice", "1ms"), ("pools", "front=1,heavy=1")]);
        let command = with_flags(clap::Command::new("x"), &scope);
        let unused = |args: &[&str]| {
            let matches = command.clone().get_matches_from(args);
            load(&scope, &matches, []).expect("a configuration").unused()
        };
        assert_eq!(unused(&["x"]), [""; 0]);
        let told = unused(&["x", "--slice", "2ms"]);
        assert!(matches!(&told[..], [told] if told.starts_with("slice = \"2ms\" (flag --slice)")), "{told:?}");
    }
}
