//! The file of a host's overheads: `loadgen calibrate` writes it, and `--overheads file:PATH` reads
//! it.

use super::{Overheads, STEP_MAX};
use crate::time::Nanos;
use std::fs::File;
use std::io::Read as _;
use toml::de::{DeTable, DeValue};

/// Name and version of the file's format.
pub const SCHEMA: &str = "forebay-overheads/1";
/// The largest file that is read: a thousand times as large as a written one.
const BYTES_MAX: u64 = 1 << 20;

/// The overheads in the file at `path`.
///
/// # Errors
/// What is wrong with the file, in words.
pub(super) fn read(path: &str) -> Result<Overheads, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| format!("it cannot be read: {error}; loadgen calibrate --out FILE writes one"))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("it is larger than {} KiB", BYTES_MAX >> 10));
    }
    parse(&text)
}

/// The overheads in `text`, which must have the schema and every step exactly once.
fn parse(text: &str) -> Result<Overheads, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let message = error.message().lines().map(str::trim).collect::<Vec<_>>().join(", ");
        format!("it is not TOML: {message}")
    })?;
    let table = table.get_ref();
    let text = |key: &str| match table.get(key).map(|value| value.get_ref()) {
        Some(DeValue::String(text)) => Ok(text),
        Some(other) => Err(format!("{key} is {}, and has to be text in quotes", other.type_str())),
        None => Err(format!("it lacks {key}")),
    };
    let schema = text("schema")?;
    if schema != SCHEMA {
        return Err(format!("its schema is {schema:?}, and has to be {SCHEMA:?}"));
    }
    let mut keys = table.keys().map(|key| &**key.get_ref());
    if let Some(key) = keys.find(|key| *key != "schema" && !Overheads::STEPS.contains(key)) {
        return Err(format!("{key} is no step; steps are {}", Overheads::STEPS.join(", ")));
    }
    let mut overheads = Overheads::NONE;
    for (name, step) in overheads.steps_mut() {
        let written = text(name)?;
        let time = written.parse::<Nanos>().ok().filter(|time| *time <= STEP_MAX);
        *step = time.ok_or_else(|| format!("{name} is {written:?}, and has to be 0ns to {STEP_MAX}"))?;
    }
    Ok(overheads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(steps: &Overheads) -> String {
        let mut steps = *steps;
        let lines = steps.steps_mut().map(|(name, time)| format!("{name} = \"{time}\" # a comment\n"));
        format!("schema = \"{SCHEMA}\"\n{}", lines.concat())
    }

    // Is a written file read back unchanged? Does every fault of a file give a clear error?
    #[test]
    fn a_file_is_whole_or_refused() {
        let right = text(&Overheads::STOCK);
        assert_eq!(parse(&right), Ok(Overheads::STOCK));
        for (wrong, said) in [
            (right.replace("/1", "/2"), "its schema is \"forebay-overheads/2\", and has to be \"forebay-overheads/1\""),
            (right.replace("look = \"150ns\"", ""), "it lacks look"),
            (right.replace("look = \"150ns\"", "look = \"150\""), "look is \"150\", and has to be 0ns to 10ms"),
            (right.replace("look = \"150ns\"", "look = \"11ms\""), "look is \"11ms\", and has to be 0ns to 10ms"),
            (right.replace("look = \"150ns\"", "look = 150"), "look is integer, and has to be text in quotes"),
            (right.replace("look =", "glance ="), "glance is no step; steps are steal, hop, yield"),
            (right.replace("look = ", "look "), "it is not TOML: "),
            (String::new(), "it lacks schema"),
        ] {
            let error = parse(&wrong).expect_err(said);
            assert!(error.contains(said), "{said}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(read("/nowhere").is_err_and(|error| error.contains("cannot be read: No such file")));
        assert!(read("/dev/zero").is_err());
    }
}
