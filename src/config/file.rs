//! The settings in a TOML file: flat, one key a setting.

use super::flags::{CHECK_CONFIG, CONFIG};
use super::layers::RawConfig;
use super::problem::{Claim, Origin, Problem, suggestion};
use super::setting::{SETTINGS, Shape, find};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The largest file that is read: every setting and its explanation take a fiftieth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Offers `raw` every setting of the file at `path`; `named_by` is where the path came from.
pub(super) fn read(path: &Path, named_by: &Origin, raw: &mut RawConfig) {
    let mut unusable = |message| {
        let claim = Claim { key: CONFIG.to_owned(), value: path.display().to_string(), origin: named_by.clone() };
        raw.problems.push(Problem { claims: vec![claim], message });
        raw.incomplete = true;
    };
    let text = match read_bounded(path) {
        Ok(text) if text.len() as u64 <= FILE_BYTES_MAX => text,
        Ok(_) => {
            unusable(format!("the file is larger than {} KiB; allowed: a file of settings", FILE_BYTES_MAX >> 10));
            return;
        }
        Err(error) => {
            unusable(format!("the file cannot be read: {error}; allowed: the path of a readable TOML file"));
            return;
        }
    };
    let (table, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let line = error.span().map_or(1, |span| line_of(&text, span.start));
        // The parser's message spreads over lines and draws the place; here it must fit into one.
        let message = error.message().lines().map(str::trim).collect::<Vec<_>>().join(", ");
        unusable(format!("line {line} is not TOML: {message}"));
    }
    // What could be made of a broken file may have keys and values that nobody wrote.
    if errors.is_empty() {
        read_table(table.get_ref(), &text, path, raw);
    }
}

/// The text of the file at `path`, or one byte more than a file may have. The file's own size is no bound: a device and
/// a pipe have none.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn read_table(table: &DeTable<'_>, text: &str, path: &Path, raw: &mut RawConfig) {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let origin = Origin::File { path: path.to_owned(), line: line_of(text, key.span().start) };
        let key: &str = key.get_ref();
        let written = text.get(value.span()).unwrap_or_default();
        let problem = |message| Problem {
            claims: vec![Claim { key: key.to_owned(), value: unquoted(written), origin: origin.clone() }],
            message,
        };
        match find(key) {
            None => raw.problems.push(problem(no_such_setting(key))),
            Some(setting) => match value_text(value.get_ref(), setting.shape) {
                Some(text) => raw.offer(setting.key, text, origin),
                None => {
                    let found = value.get_ref().type_str();
                    let (expected, allowed) = (shape_text(setting.shape), setting.allowed);
                    raw.problems.push(problem(format!("expected {expected}, found {found}; allowed: {allowed}")));
                }
            },
        }
    }
}

/// What is said about a key that is no setting.
pub(super) fn no_such_setting(key: &str) -> String {
    if key == CONFIG || key == CHECK_CONFIG {
        return "only a flag, never a key".to_owned();
    }
    let keys = SETTINGS.map(|setting| setting.key);
    format!("no such setting{}; allowed: {}", suggestion(key, keys), keys.join(", "))
}

/// The text of `value` in the form that flags have, if it is of the type that `shape` asks for.
fn value_text(value: &DeValue<'_>, shape: Shape) -> Option<String> {
    match (shape, value) {
        (Shape::Text, DeValue::String(text)) => Some(text.clone().into_owned()),
        // One that is too large for the type is passed on as it stands, to be out of range there.
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

/// `written` without the quotes of a plain TOML string, since a problem shows values in quotes of its own.
fn unquoted(written: &str) -> String {
    written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written).to_owned()
}

/// The line that byte `offset` of `text` is on, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> RawConfig {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut raw = RawConfig::default();
        read(file.path(), &Origin::Flag, &mut raw);
        raw
    }

    // Does each TOML type reach the setting that wants it, and only that one?
    #[test]
    fn types_are_checked() {
        let good = "policy = 'pools'\nworkers = 1_0\ntime-scale = 0x10\npin = true\nslice = \"50us\"\n";
        let raw = read_text(good);
        assert_eq!(raw.problems, []);
        let texts: Vec<(&str, &str)> = raw.given.iter().map(|(key, given)| (*key, given.text.as_str())).collect();
        let expected =
            [("pin", "true"), ("policy", "pools"), ("slice", "50us"), ("time-scale", "16"), ("workers", "10")];
        assert_eq!(texts, expected);

        let bad = "policy = 5\nworkers = \"3\"\ntime-scale = 1.5\npin = 1\nslice = 50\npools = { front = 1 }\n\
                   listen = [1]\nburn = 1979-05-27\n";
        let raw = read_text(bad);
        assert_eq!(raw.problems.len(), 8, "{:#?}", raw.problems);
        for (index, problem) in raw.problems.iter().enumerate() {
            assert!(problem.message.starts_with("expected "), "{problem}");
            assert!(problem.to_string().contains(&format!("line {})", index + 1)), "{problem}");
        }
        assert!(raw.given.is_empty());
    }

    // Does a file that is not TOML say where, and does what is left of it count for nothing?
    #[test]
    fn broken_files_are_located() {
        let raw = read_text("workers = 3\n\npolicy = \"pools\nslice = \"1s\"\n");
        assert!(!raw.problems.is_empty());
        assert!(raw.problems[0].message.starts_with("line 3 is not TOML"), "{}", raw.problems[0]);
        assert!(raw.given.is_empty() && raw.incomplete);
    }

    // Is a file without an end, and one of a byte too much, refused instead of read?
    #[test]
    fn what_is_read_is_bounded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let problems = |bytes: usize| {
            std::fs::write(file.path(), "#".repeat(bytes)).unwrap();
            let mut raw = RawConfig::default();
            read(file.path(), &Origin::Flag, &mut raw);
            raw.problems
        };
        assert_eq!(problems(FILE_BYTES_MAX as usize), []);
        assert!(problems(FILE_BYTES_MAX as usize + 1)[0].message.contains("larger than 1024 KiB"));
        let mut raw = RawConfig::default();
        read(Path::new("/dev/zero"), &Origin::Flag, &mut raw);
        let problem = raw.problems[0].to_string();
        assert!(problem.contains("/dev/zero") && problem.contains("larger than 1024 KiB"), "{problem}");
        assert!(raw.incomplete);
    }
}
