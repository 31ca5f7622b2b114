//! The settings that a program adds to those of a server. They are the flags of a `clap` struct,
//! also in the environment and in the table `[service]` of the file.

use super::{read_bounded, value_text};
use crate::config::effective::{OwnRow, OwnSettings};
use crate::config::layers::Layers;
use crate::config::problem::{Origin, Problem};
use crate::config::table::{CONFIG, environment_name};
use crate::config::value::Shape;
use clap::error::{ContextKind, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;
use toml::de::DeValue;

/// The command line of a program, with its own flags.
#[derive(Clone, Debug)]
pub(crate) struct OwnFlags {
    settings: Vec<Arg>,
    command: Command,
    args: Vec<OsString>,
}

/// Turns the flags of `command` with a long name and a value into settings. The help names their
/// variables, and a switch takes `true` and `false`.
pub(crate) fn as_settings(command: Command) -> Command {
    command.mut_args(|arg| {
        let arg = match arg.get_action() {
            ArgAction::SetTrue => {
                let switch = arg.action(ArgAction::Set).num_args(0..=1).require_equals(true).value_name("BOOL");
                switch.default_missing_value("true").default_value("false").value_parser(value_parser!(bool))
            }
            _ => arg,
        };
        // Leaked once per process, because clap keeps names while it runs.
        let variable = key(&arg).map(|key| &*environment_name(key).leak());
        if let Some(variable) = variable { arg.env(variable) } else { arg }
    })
}

/// The key of the setting that `arg` is; `None` if it is only a flag.
fn key(arg: &Arg) -> Option<&str> {
    arg.get_long().filter(|_| arg.get_action().takes_values())
}

impl OwnFlags {
    /// The settings among the arguments of `own`. `command` has them and all other flags; `args`
    /// are the command line.
    pub(crate) fn new(own: &Command, command: Command, args: Vec<OsString>) -> OwnFlags {
        OwnFlags { settings: own.get_arguments().filter(|arg| key(arg).is_some()).cloned().collect(), command, args }
    }

    /// The keys of the settings, each with its flag.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &Arg)> {
        self.settings.iter().filter_map(|arg| Some((key(arg)?, arg)))
    }

    /// The command line with the own settings as text, so that problems of all layers are reported
    /// together. Prints help and ends the process where it stands behind a wrong value.
    pub(crate) fn texts(&self) -> ArgMatches {
        let is_text = |arg: &Arg| arg.get_action().takes_values() && arg.get_id() != CONFIG;
        let text = |arg: Arg| if is_text(&arg) { arg.required(false).value_parser(value_parser!(String)) } else { arg };
        self.command.clone().mut_args(text).ignore_errors(true).get_matches_from(&self.args)
    }

    /// Merges the layers: `matches` from [`OwnFlags::texts`], then those that `layers` have.
    pub(super) fn resolve(&self, matches: &ArgMatches, layers: &mut Layers) -> OwnSettings {
        let (mut args, mut origins, before) = (self.args.clone(), BTreeMap::new(), layers.problems.len());
        for (key, arg) in self.keys() {
            let is_flag = matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
            let given = layers.own.remove(key);
            let given = if is_flag { Some((texts(matches, arg), Origin::Flag)) } else { given };
            let is_secret = arg.is_hide_env_values_set();
            let given = given.or_else(|| is_secret.then(|| layers.credential(key))?);
            let Some((mut texts, origin)) = given else { continue };
            if is_secret && let Err(message) = texts.iter_mut().try_for_each(|text| read_secret(key, text, &mut args)) {
                layers.problems.push(Problem::of(key, OwnRow::SECRET, origin, message));
                continue;
            }
            let written: Vec<_> = texts.iter().map(|text| OsString::from(format!("--{key}={text}"))).collect();
            for (text, message) in texts.iter().zip(written.iter().map(|written| self.refusal(written))) {
                let text = if is_secret { OwnRow::SECRET } else { text };
                layers.problems.extend(message.map(|message| Problem::of(key, text, origin.clone(), message)));
            }
            if !is_flag {
                args.splice(1..1, written);
            }
            origins.insert(key, origin);
        }
        let parsed = self.command.clone().try_get_matches_from(args);
        if let Err(error) = &parsed
            && layers.problems.len() == before
        {
            let text = error.to_string();
            let said = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            let message = said.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            layers.problems.push(Problem { claims: Vec::new(), message });
        }
        let matches = parsed.unwrap_or_default();
        let row = |(key, arg): (&str, &Arg)| OwnRow {
            key: key.to_owned(),
            values: texts(&matches, arg),
            origin: origins.get(key).cloned().unwrap_or(Origin::Default),
            is_secret: arg.is_hide_env_values_set(),
        };
        let rows = if layers.problems.is_empty() { self.keys().map(row).collect() } else { Vec::new() };
        OwnSettings { rows, matches }
    }

    /// Why the argument `written` of the command line has a wrong value, and what is allowed. Rules
    /// between arguments are for the whole command line.
    fn refusal(&self, written: &OsString) -> Option<String> {
        let error = self.command.clone().try_get_matches_from([&self.args[0], written]).err()?;
        let why = match error.get(ContextKind::ValidValue) {
            Some(valid) => format!("allowed: {valid}"),
            None if error.kind() == ErrorKind::ValueValidation => error.source()?.to_string(),
            None => return None,
        };
        Some(if why.contains("allowed") { why } else { format!("{why}; --help says what is allowed") })
    }
}

/// What a value of a secret begins with if the rest is the path of its file.
pub(super) const IN_FILE: &str = "file:";

/// Replaces the value `text` of the secret `key` by the text of its file, also among the arguments
/// `args` of the command line. A newline at the end is left out. Other values stay as they are.
///
/// # Errors
/// Why the file cannot be read.
fn read_secret(key: &str, text: &mut String, args: &mut [OsString]) -> Result<(), String> {
    let Some(path) = text.strip_prefix(IN_FILE) else { return Ok(()) };
    let wrong = |why: String| {
        let why = why.split_once("; allowed").map_or(&*why, |(why, _)| why);
        format!("{path}: {why}; allowed: {IN_FILE} and the path of a readable file")
    };
    let mut secret = read_bounded(Path::new(path)).map_err(wrong)?;
    if secret.ends_with('\n') {
        secret.pop();
    }
    let (flag, before) = (format!("--{key}"), text.clone());
    for place in 1..args.len() {
        if args[place - 1] == *flag && args[place] == *before {
            args[place] = secret.clone().into();
        } else if args[place] == *format!("{flag}={before}") {
            args[place] = format!("{flag}={secret}").into();
        }
    }
    *text = secret;
    Ok(())
}

/// The values of `arg` as text.
fn texts(matches: &ArgMatches, arg: &Arg) -> Vec<String> {
    let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

/// The texts of a value of the file: of a list, all of them. `None` for other types.
pub(super) fn file_texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let scalar =
        |value| [Shape::Text, Shape::Count, Shape::Switch].into_iter().find_map(|shape| value_text(value, shape));
    match value {
        DeValue::Array(values) => values.iter().map(|value| scalar(value.get_ref())).collect(),
        value => scalar(value).map(|text| vec![text]),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::effective::Effective;
    use crate::config::problem::Problems;
    use crate::config::sources::{OwnFlags, Scope, as_settings, load, with_flags};
    use clap::{Args as _, Command, FromArgMatches as _};

    #[derive(clap::Args, Debug, PartialEq)]
    struct Flags {
        /// Names
        #[arg(long)]
        zone: Vec<String>,
        #[arg(long, value_parser = ["fast", "safe"])]
        mode: Option<String>,
        #[arg(long, requires = "mode")]
        fail_open: bool,
        #[arg(long, required = true, value_parser = clap::value_parser!(u16).range(1..=9))]
        most: u16,
        #[arg(long, hide_env_values = true)]
        token: Option<u64>,
        #[arg(short)]
        verbose: bool,
    }

    fn loaded(args: &[&str], environment: &[(&str, &str)], file: &str) -> Result<Effective, Problems> {
        let path = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(path.path(), file).expect("written");
        let mut scope = Scope::of_service(&[]);
        let own = as_settings(Flags::augment_args(Command::new("x")));
        let args = ["x"].iter().chain(args).map(Into::into).collect();
        let own = OwnFlags::new(&own, with_flags(own.clone(), &scope), args);
        let matches = own.texts();
        scope.own = Some(own);
        let named = [("FOREBAY_CONFIG".into(), path.path().into())];
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        load(&scope, &matches, environment.chain(named))
    }

    // Does each form of a value come from each layer, and a list as a whole from the highest?
    #[test]
    fn each_form_comes_from_each_layer() {
        let file = "[service]\nzone = [\"b\", \"a, c\"]\nmode = \"safe\"\nfail-open = true\nmost = 0x9\n";
        let flags = |zone: &[&str], fail_open, most, verbose| Flags {
            zone: zone.iter().map(ToString::to_string).collect(),
            mode: Some("safe".to_owned()),
            fail_open,
            most,
            token: None,
            verbose,
        };
        for (args, environment, expected) in [
            (&[][..], &[][..], flags(&["b", "a, c"], true, 9, false)),
            (&["--zone=z", "--zone", "y", "-v"], &[("FOREBAY_ZONE", "e")], flags(&["z", "y"], true, 9, true)),
            (&["--fail-open=false"], &[("FOREBAY_MOST", "3")], flags(&["b", "a, c"], false, 3, false)),
            (&["--fail-open"], &[("FOREBAY_FAIL_OPEN", "false")], flags(&["b", "a, c"], true, 9, false)),
        ] {
            let effective = loaded(args, environment, file).expect("all is right");
            assert_eq!(Flags::from_arg_matches(&effective.own.matches).expect("checked"), expected, "{args:?}");
            let shown = effective.to_string();
            let shown = loaded(&args[..0], &[], &shown).expect("what is shown is a file");
            let values =
                |effective: &Effective| effective.own.rows.iter().map(|row| row.values.clone()).collect::<Vec<_>>();
            assert_eq!(values(&shown), values(&effective));
        }
    }

    // Are all problems said at once, each with its setting and what is allowed? Are rules between
    // settings checked over all layers, and is a wrong secret not shown?
    #[test]
    fn problems_name_the_setting_and_what_is_allowed() {
        let environment = [("FOREBAY_MODE", "sage"), ("FOREBAY_MOST", "x"), ("FOREBAY_TOKEN", "hush")];
        let said = loaded(&["--most=10", "--workers=0"], &environment, "[service]\nfail-open = \"no\"\n").unwrap_err();
        let expected = [
            "workers = \"0\" (flag --workers): out of range; allowed: 1 to 1024",
            "mode = \"sage\" (environment FOREBAY_MODE): allowed: fast, safe",
            "most = \"10\" (flag --most): 10 is not in 1..=9; --help says what is allowed",
            "token = \"(secret)\" (environment FOREBAY_TOKEN): invalid digit found in string; --help says what is allowed",
        ];
        let said: Vec<String> = said.iter().map(ToString::to_string).collect();
        expected.iter().for_each(|line| assert!(said.iter().any(|said| said == line), "{line}: {said:#?}"));
        assert!(said.len() == 5 && said.iter().any(|said| said.starts_with("fail-open = \"no\" (file")), "{said:#?}");
        for (args, expected) in [
            (&[][..], "the following required arguments were not provided: --most <MOST>"),
            (&["--most=1", "--fail-open"], "the following required arguments were not provided: --mode <MODE>"),
            (&["--most=1", "--wrong"], "unexpected argument '--wrong' found"),
        ] {
            let said = loaded(args, &[], "").unwrap_err().to_string();
            assert!(said.ends_with(&format!("\n  {expected}")), "{said}");
        }
    }
}
