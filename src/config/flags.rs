//! The settings on the command line.

use super::layers::RawConfig;
use super::problem::Origin;
use super::setting::{SETTINGS, Setting, Shape};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::path::PathBuf;

/// The flag that names the file.
pub(super) const CONFIG: &str = "config";
/// The flag that prints the configuration instead of using it.
pub(super) const CHECK_CONFIG: &str = "check-config";

/// A flag for each setting. Values are taken as they are: [`super::load`] parses them, so that all problems of all
/// layers come out together.
pub fn flags() -> Vec<Arg> {
    SETTINGS.iter().map(flag).collect()
}

/// The flags about the configuration itself: `--config` and `--check-config`.
pub fn meta_flags() -> [Arg; 2] {
    [
        Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("A TOML file with any of the settings above: key = value, keys named like the flags.")
            .long_help(
                "A TOML file with any of the settings above: key = value, keys named like the flags. Text and \
                 durations in quotes, counts and true or false without.\n[env: FOREBAY_CONFIG] [default: no file]",
            ),
        Arg::new(CHECK_CONFIG).long(CHECK_CONFIG).action(ArgAction::SetTrue).help(
            "Print every setting, its value and where it comes from, and the memory that follows, and exit; or every problem, and exit with 2.",
        ),
    ]
}

/// Whether `--check-config` is among `matches`.
pub fn wants_check(matches: &ArgMatches) -> bool {
    matches.get_flag(CHECK_CONFIG)
}

/// Offers `raw` the settings in `matches`.
pub(super) fn read(matches: &ArgMatches, raw: &mut RawConfig) {
    for setting in &SETTINGS {
        if let Some(text) = matches.get_one::<String>(setting.key) {
            raw.offer(setting.key, text.clone(), Origin::Flag);
        }
    }
    raw.config_file = matches.get_one::<PathBuf>(CONFIG).map(|path| (path.clone(), Origin::Flag));
}

fn flag(setting: &Setting) -> Arg {
    let default = setting.default.text();
    let Setting { key, value_name, allowed, help, .. } = *setting;
    let environment = setting.environment_name();
    let arg = Arg::new(key)
        .long(key)
        .value_name(value_name)
        .help(help.to_string())
        .long_help(format!("{help}\nAllowed: {allowed}.\n[env: {environment}] [default: {default}]"));
    match setting.shape {
        // `--pin` alone means true; `--pin=false` undoes what a lower layer says.
        Shape::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        Shape::Text | Shape::Count => arg.allow_negative_numbers(true),
    }
}
