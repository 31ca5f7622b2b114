//! Reads the layers above the defaults, command line, environment and file, as text per setting.

mod own;
mod scope;
mod unused;

pub(crate) use super::table::{CHECK_CONFIG, CHECK_HEALTH, HELP_ALL};
use own::IN_FILE;
pub(crate) use own::{OwnFlags, as_settings};
pub(crate) use scope::Scope;

use super::effective::{Effective, SERVICE, resolve};
use super::layers::{Layers, no_such_setting};
use super::problem::{Claim, Origin, Problem, Problems};
use super::table::{CONFIG, Setting, environment_name};
use super::value::Shape;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

// The flags that are not settings. The struct has no doc comment: clap would show it as the
// command's description.
#[derive(clap::Args)]
struct MetaFlags {
    /// TOML file with settings
    ///
    /// A line is key = value, where a key is the name of a flag below. Text and durations stand in
    /// quotes; counts, true and false do not. [env: FOREBAY_CONFIG] [default: no file]
    #[arg(long, id = CONFIG, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the settings in effect, and exit
    ///
    /// Each has its value and its origin; the memory that follows comes last. Where anything is
    /// wrong, print all problems and exit with 2.
    #[arg(long, id = CHECK_CONFIG)]
    check_config: bool,
    /// Ask the running server for its health, and exit
    ///
    /// The exit code is 0 if /healthz of the admin address says ok within 5s, else 1 with the
    /// reason. The admin address comes from flag, environment or file, as for the server.
    #[arg(long, id = CHECK_HEALTH, conflicts_with = CHECK_CONFIG)]
    check_health: bool,
    /// Print help with all settings, those for tuning and benches too
    #[arg(long, id = HELP_ALL, action = ArgAction::HelpLong)]
    help_all: Option<bool>,
}

/// Adds to `command` a flag for each setting of `scope`, and the flags that are not settings.
/// [`load`] parses the values later, so that all problems of all layers are reported together.
pub(crate) fn with_flags(command: Command, scope: &Scope) -> Command {
    let flags = scope.settings().map(|setting| flag(setting, scope.default_text(setting)));
    MetaFlags::augment_args(command.args(flags))
}

/// Loads the configuration from flags, environment, file and defaults, in this order of precedence.
/// `scope` has the program's settings. `matches` come from a command with [`with_flags`].
/// `environment` is the whole environment. `--config` or `FOREBAY_CONFIG` names the file; without
/// them there is none.
///
/// # Errors
/// All problems of all layers. Unknown names and wrong types come first, then wrong values in the
/// order of [`super::SETTINGS`], then values that exclude each other. A value that a higher layer
/// replaces is not parsed, but a wrong type is still a problem.
///
/// # Panics
/// If the command behind `matches` lacks a flag of [`with_flags`].
pub(crate) fn load(
    scope: &Scope,
    matches: &ArgMatches,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Effective, Problems> {
    let environment: Vec<(OsString, OsString)> = environment.into_iter().collect();
    let mut layers = Layers::default();
    layers.credentials = environment.iter().find(|(name, _)| name == CREDENTIALS).map(|(_, folder)| folder.into());
    for setting in scope.settings() {
        if let Some(text) = matches.get_one::<String>(setting.key) {
            layers.offer(setting.key, text.clone(), Origin::Flag);
        }
    }
    let by_flag = matches.get_one::<PathBuf>(CONFIG).map(|path| (path.clone(), Origin::Flag));
    let by_variable = read_environment(scope, environment, &mut layers);
    if let Some((path, named_by)) = by_flag.or(by_variable) {
        read_file(scope, &path, &named_by, &mut layers);
    }
    scope.offer_defaults(&mut layers);
    let own = scope.own.as_ref().map(|own| own.resolve(matches, &mut layers));
    let mut effective = Effective { own: own.unwrap_or_default(), ..resolve(layers)? };
    effective.rows.retain(|row| scope.find(&row.key).is_some());
    Ok(effective)
}

/// The variable with the folder of systemd's credentials (`LoadCredential=`).
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

impl Layers {
    /// The value of the secret `key` that systemd's credential of this name is, if there is one.
    fn credential(&self, key: &str) -> Option<(Vec<String>, Origin)> {
        let path = self.credentials.as_ref()?.join(key);
        path.exists().then(|| (vec![format!("{IN_FILE}{}", path.display())], Origin::File { path, line: 1 }))
    }

    /// Takes the value of a layer, unless an earlier, higher layer had the setting.
    fn offer(&mut self, key: &'static str, text: String, origin: Origin) {
        self.given.entry(key.to_owned()).or_insert(Claim::new(key, text, origin));
    }
}

fn flag(setting: &Setting, default: &str) -> Arg {
    let Setting { key, group, value_name, allowed, help, details, .. } = *setting;
    let environment = setting.environment_name();
    let text = [vec![help.to_owned()], details()].concat().join(" ");
    let arg = Arg::new(key)
        .long(key)
        .value_name(value_name)
        .help_heading(group.name())
        .help(help)
        .long_help(format!("{text}\nAllowed: {}.\n[env: {environment}] [default: {default}]", allowed()));
    match setting.shape {
        // `--pin` alone means true; `--pin=false` overrides a lower layer.
        Shape::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        Shape::Text | Shape::Count => arg.allow_negative_numbers(true),
    }
}

const PREFIX: &str = "FOREBAY_";

/// Offers every `FOREBAY_` variable to `layers`, and returns the configuration file that one may
/// name. An unknown variable is a problem: a typo would silently leave the server on its default.
fn read_environment(
    scope: &Scope,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    layers: &mut Layers,
) -> Option<(PathBuf, Origin)> {
    let mut ours: Vec<(String, OsString)> = variables
        .into_iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, value)| name.starts_with(PREFIX) && !is_service_link(name, value))
        .collect();
    // Sorted, because the environment has no order and problems should have one.
    ours.sort();
    let mut file = None;
    for (name, value) in ours {
        let key = name[PREFIX.len()..].to_lowercase().replace('_', "-");
        if name == environment_name(CONFIG) {
            file = Some((PathBuf::from(value), Origin::Environment));
            continue;
        }
        let setting = scope.find(&key).filter(|setting| setting.environment_name() == name);
        let message = match (setting, value.to_str()) {
            (Some(setting), Some(text)) => {
                layers.offer(setting.key, text.to_owned(), Origin::Environment);
                continue;
            }
            (Some(setting), None) => format!("not text (UTF-8); allowed: {}", (setting.allowed)()),
            (None, Some(text)) if scope.own_keys().any(|own| environment_name(own) == name) => {
                layers.own.insert(key, (vec![text.to_owned()], Origin::Environment));
                continue;
            }
            (None, _) => no_such_setting(&key, scope.keys().chain(scope.own_keys())),
        };
        layers.problems.push(Problem::of(&key, value.to_string_lossy(), Origin::Environment, message));
    }
    file
}

/// Whether Kubernetes made this variable. For a service called `forebay` (or `forebay-admin`, ...),
/// all containers of the namespace get `FOREBAY_SERVICE_HOST`, `FOREBAY_PORT=udp://..`,
/// `FOREBAY_PORT_9000_UDP_ADDR` and others. (Kubernetes' documentation: "Accessing the Service",
/// environment variables.)
fn is_service_link(name: &str, value: &OsStr) -> bool {
    let numbered_port =
        name.split_once("_PORT_").is_some_and(|(_, number)| number.starts_with(|first: char| first.is_ascii_digit()));
    let port_address = name.ends_with("_PORT") && value.to_string_lossy().contains("://");
    name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || numbered_port || port_address
}

/// The largest configuration file that is read, in bytes: 50 times a file with every setting and
/// its explanation.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Offers every setting of the file at `path` to `layers`; `named_by` is the origin of the path.
fn read_file(scope: &Scope, path: &Path, named_by: &Origin, layers: &mut Layers) {
    let mut unusable = |message| {
        layers.problems.push(Problem::of(CONFIG, path.display().to_string(), named_by.clone(), message));
        layers.incomplete = true;
    };
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(why) => return unusable(why),
    };
    let (table, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let line = error.span().map_or(1, |span| line_of(&text, span.start));
        // The parser's message has several lines with a drawing; a problem has one line.
        let message = error.message().lines().map(str::trim).collect::<Vec<_>>().join(", ");
        unusable(format!("line {line} is not TOML: {message}"));
    }
    // What the parser recovers from a broken file may not be in its text.
    if errors.is_empty() {
        read_table(scope, table.get_ref(), false, &text, path, layers);
    }
}

/// The text of the file at `path`, or why it is unusable. The read is bounded, because devices and
/// pipes have no size.
fn read_bounded(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 <= FILE_BYTES_MAX => Ok(text),
        Ok(_) => Err(format!("the file is larger than {} KiB; allowed: a file of settings", FILE_BYTES_MAX >> 10)),
        Err(error) => Err(format!("the file cannot be read: {error}; allowed: the path of a readable TOML file")),
    }
}

/// Offers the entries of `table`. `is_own` tells the table with the settings that the program adds.
fn read_table(scope: &Scope, table: &DeTable<'_>, is_own: bool, text: &str, path: &Path, layers: &mut Layers) {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let origin = Origin::File { path: path.to_owned(), line: line_of(text, key.span().start) };
        let (key, found): (&str, _) = (key.get_ref(), value.get_ref().type_str());
        let written = text.get(value.span()).unwrap_or_default();
        let problem = |message| Problem::of(key, unquoted(written), origin.clone(), message);
        let is_known = scope.own_keys().any(|own| own == key);
        match (scope.find(key).filter(|_| !is_own), value.get_ref()) {
            (Some(setting), value) => match value_text(value, setting.shape) {
                Some(text) => layers.offer(setting.key, text, origin),
                None => {
                    let (expected, allowed) = (shape_text(setting.shape), (setting.allowed)());
                    layers.problems.push(problem(format!("expected {expected}, found {found}; allowed: {allowed}")));
                }
            },
            (None, DeValue::Table(own)) if key == SERVICE && !is_own => {
                read_table(scope, own, true, text, path, layers);
            }
            (None, value) if is_own && is_known => match own::file_texts(value) {
                Some(texts) => drop(layers.own.entry(key.to_owned()).or_insert((texts, origin))),
                // The value may be secret.
                None => layers.problems.push(Problem::of(key, found, origin, OWN_ALLOWED.to_owned())),
            },
            (None, _) if is_known => {
                layers.problems.push(problem(format!("a setting of this program; allowed: in the table [{SERVICE}]")));
            }
            (None, _) if is_own => layers.problems.push(problem(no_such_setting(key, scope.own_keys()))),
            (None, _) => layers.problems.push(problem(no_such_setting(key, scope.keys()))),
        }
    }
}

/// What a setting that the program adds may be in the file.
const OWN_ALLOWED: &str = "allowed: text, a whole number, true or false, or a list of these";

/// The text of `value` as a flag would have it; `None` if its type does not match `shape`.
fn value_text(value: &DeValue<'_>, shape: Shape) -> Option<String> {
    match (shape, value) {
        (Shape::Text, DeValue::String(text)) => Some(text.clone().into_owned()),
        // A number too large for the type is passed on as text and refused as out of range later.
        (Shape::Count, DeValue::Integer(number)) => Some(
            i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()),
        ),
        (Shape::Switch, DeValue::Boolean(on)) => Some(on.to_string()),
        _ => None,
    }
}

const fn shape_text(shape: Shape) -> &'static str {
    match shape {
        Shape::Text => "text in quotes",
        Shape::Count => "a whole number without quotes",
        Shape::Switch => "true or false without quotes",
    }
}

/// `written` without the quotes of a plain TOML string: a problem quotes values itself.
fn unquoted(written: &str) -> String {
    written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written).to_owned()
}

/// The line of byte `offset` in `text`, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(variables: &[(&str, &str)]) -> Layers {
        let mut layers = Layers::default();
        read_environment(&Scope::ALL, variables.iter().map(|(name, value)| (name.into(), value.into())), &mut layers);
        layers
    }

    // Are typos reported, and the variables ignored that Kubernetes makes for a service called
    // forebay?
    #[test]
    fn typos_are_problems_and_service_links_are_not() {
        let layers = read_all(&[
            ("FOREBAY_SERVICE_HOST", "10.0.0.11"),
            ("FOREBAY_SERVICE_PORT_REQUESTS", "9000"),
            ("FOREBAY_PORT", "udp://10.0.0.11:9000"),
            ("FOREBAY_PORT_9000_UDP_ADDR", "10.0.0.11"),
            ("FOREBAY_ADMIN_PORT", "tcp://10.0.0.12:9001"),
            ("PATH", "/bin"),
        ]);
        assert_eq!(layers.problems, []);

        let layers = read_all(&[("FOREBAY_WORKRES", "3"), ("FOREBAY_LISTEN_PORT", "9000")]);
        let messages: Vec<&str> = layers.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].starts_with("no such setting"), "{messages:?}");
        assert!(messages[1].contains("did you mean workers?"), "{messages:?}");
    }

    // Is a value that is not UTF-8 a problem of its setting, not a crash?
    #[test]
    fn values_must_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let mut layers = Layers::default();
        read_environment(&Scope::ALL, [("FOREBAY_POLICY".into(), OsString::from_vec(vec![0xff]))], &mut layers);
        assert_eq!(layers.problems.len(), 1);
        assert_eq!(layers.problems[0].claims[0].key, "policy");
    }

    fn read(path: &Path) -> Layers {
        let mut layers = Layers::default();
        read_file(&Scope::ALL, path, &Origin::Flag, &mut layers);
        layers
    }

    fn read_text(text: &str) -> Layers {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    // Does each TOML type reach only the setting that wants it?
    #[test]
    fn types_are_checked() {
        let good = "policy = 'pools'\nworkers = 1_0\ntime-scale = 0x10\npin = true\nslice = \"50us\"\n";
        let layers = read_text(good);
        assert_eq!(layers.problems, []);
        let texts: Vec<(&str, &str)> =
            layers.given.iter().map(|(key, given)| (key.as_str(), given.value.as_str())).collect();
        let expected =
            [("pin", "true"), ("policy", "pools"), ("slice", "50us"), ("time-scale", "16"), ("workers", "10")];
        assert_eq!(texts, expected);

        let bad = "policy = 5\nworkers = \"3\"\ntime-scale = 1.5\npin = 1\nslice = 50\npools = { front = 1 }\n\
                   listen = [1]\nburn = 1979-05-27\n";
        let layers = read_text(bad);
        assert_eq!(layers.problems.len(), 8, "{:#?}", layers.problems);
        for (index, problem) in layers.problems.iter().enumerate() {
            assert!(problem.message.starts_with("expected "), "{problem}");
            assert!(problem.to_string().contains(&format!("line {})", index + 1)), "{problem}");
        }
        assert!(layers.given.is_empty());
    }

    // Is a file refused that has no end, or is one byte too long?
    #[test]
    fn what_is_read_is_bounded() {
        let problems = |bytes: usize| read_text(&"#".repeat(bytes)).problems;
        assert_eq!(problems(FILE_BYTES_MAX as usize), []);
        assert!(problems(FILE_BYTES_MAX as usize + 1)[0].message.contains("larger than 1024 KiB"));
        let layers = read(Path::new("/dev/zero"));
        let problem = layers.problems[0].to_string();
        assert!(problem.contains("/dev/zero") && problem.contains("larger than 1024 KiB"), "{problem}");
        assert!(layers.incomplete);
    }
}
