//! The settings that a program has, and the defaults that it replaces.

use super::own::OwnFlags;
use crate::config::layers::{Layers, no_such_setting};
use crate::config::problem::{Origin, Problem};
use crate::config::table::{FREE_ADMIN, Group, SETTINGS, Setting};

/// Which settings a program has: all, or only those of a service, with the program's own defaults.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    with_bench: bool,
    defaults: Vec<(String, String)>,
    pub(crate) own: Option<OwnFlags>,
}

impl Scope {
    /// All settings, as the bench server has them.
    pub(crate) const ALL: Scope = Scope { with_bench: true, defaults: Vec::new(), own: None };

    /// The settings of a service, without those of the bench server. `defaults` are pairs of key
    /// and value that replace the defaults of the table.
    pub(crate) fn of_service(defaults: &[(&str, &str)]) -> Scope {
        let admin = [FREE_ADMIN].into_iter().filter(|admin| defaults.iter().all(|(key, _)| *key != admin.0));
        let defaults = defaults.iter().copied().chain(admin);
        let defaults = defaults.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Scope { with_bench: false, defaults, own: None }
    }

    /// The settings that the program has.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| self.with_bench || setting.group != Group::Bench)
    }

    /// The keys of the settings that the program has.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.settings().map(|setting| setting.key)
    }

    /// The keys of the settings that the program adds.
    pub(crate) fn own_keys(&self) -> impl Iterator<Item = &str> {
        self.own.iter().flat_map(OwnFlags::keys).map(|(key, _)| key)
    }

    /// The setting named `key`, if the program has it.
    pub(crate) fn find(&self, key: &str) -> Option<&'static Setting> {
        self.settings().find(|setting| setting.key == key)
    }

    /// The default of `setting` as help shows it.
    pub(crate) fn default_text(&self, setting: &Setting) -> &str {
        let own = self.defaults.iter().find(|(key, _)| key == setting.key);
        own.map_or(setting.default, |(_, value)| value)
    }

    /// Offers the program's own defaults to `layers`. Call it after every other layer.
    pub(crate) fn offer_defaults(&self, layers: &mut Layers) {
        for (key, value) in &self.defaults {
            match self.find(key) {
                Some(setting) => layers.offer(setting.key, value.clone(), Origin::Program),
                None => {
                    let message = no_such_setting(key, self.keys());
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

    // Does any layer replace a program's default? Is a wrong name in the defaults a problem like
    // any other?
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

    // Is an operator warned of a setting without effect, but not of a program's default?
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
