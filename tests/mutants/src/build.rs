//! A copy of the sources in which each drawn place has a switch, and its test binaries.

use crate::places::Place;
use crate::rewrite::rewrite;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// The bytes of each file, by path.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// The files of the tree at `root` that git knows or would add.
pub fn tree(root: &Path) -> Result<Tree> {
    let mut git = Command::new("git");
    let output =
        git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output()?;
    ensure!(output.status.success(), "git cannot list the files");
    let paths = String::from_utf8(output.stdout)?;
    let files = paths.split_terminator('\0').map(|path| Ok((path.to_owned(), fs::read(root.join(path)))));
    // What is deleted and not yet committed is listed too.
    files
        .filter(|file| !matches!(file, Ok((_, Err(error))) if error.kind() == io::ErrorKind::NotFound))
        .map(|file: Result<_>| file.and_then(|(path, bytes)| Ok((path.clone(), bytes.context(path)?))))
        .collect()
}

const INHERITED: &str = r#".env_clear().envs(std::env::vars().filter(|(name, _)| name.starts_with("MUTANT")))"#;

/// Writes `tree` to `copy`, with a switch for each of `drawn`. What is as it was keeps its time, so that cargo does not
/// compile it again.
pub fn write(root: &Path, copy: &Path, tree: &Tree, drawn: &[Place]) -> Result<()> {
    let mut by_file: BTreeMap<&str, Vec<(usize, &Place)>> = BTreeMap::new();
    for (number, place) in drawn.iter().enumerate() {
        by_file.entry(&place.file).or_default().push((number, place));
    }
    let switch = ("src/mutant.rs".to_owned(), include_bytes!("switch.rs").to_vec());
    for (path, bytes) in tree.iter().chain([(&switch.0, &switch.1)]) {
        let mut bytes = bytes.clone();
        if let Some(drawn) = by_file.get(path.as_str()) {
            bytes = rewrite(std::str::from_utf8(&bytes)?, drawn).into_bytes();
        }
        if path.ends_with(".rs") && !path.starts_with("tests/mutants/") {
            // What a test starts without its environment has the mutant too.
            bytes = String::from_utf8(bytes)?.replace(".env_clear()", INHERITED).into_bytes();
        }
        if path == "src/lib.rs" {
            // The same path leads to the switches from the library, the programs and the tests.
            bytes.extend(b"\n#[allow(missing_docs)]\npub mod mutant;\nextern crate self as forebay;\n");
        }
        let to = copy.join(path);
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::create_dir_all(to.parent().expect("it is below the copy"))?;
            fs::write(&to, bytes).context(path.clone())?;
            if let Ok(original) = fs::metadata(root.join(path)) {
                fs::set_permissions(&to, original.permissions())?;
            }
        }
    }
    Ok(())
}

/// A test binary and the folder in which cargo runs it.
pub struct Binary {
    pub name: String,
    pub path: PathBuf,
    pub folder: PathBuf,
}

pub enum Built {
    Binaries(Vec<Binary>),
    /// Where the compiler found mistakes: files and lines.
    Errors(Vec<(String, usize)>),
}

/// Compiles the tests of `copy`.
pub fn build(copy: &Path, target: &Path, targets: &[&str]) -> Result<Built> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(copy).env("CARGO_TARGET_DIR", target).args(["test", "--no-run", "--locked"]);
    cargo.args(["--package", "forebay", "--package", "loadgen", "--message-format", "json", "--quiet"]).args(targets);
    let output = cargo.stderr(Stdio::inherit()).output().context("cargo does not start")?;
    let (mut binaries, mut errors, mut said) = (Vec::new(), Vec::new(), String::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("cargo speaks another language")?;
        if let Some(path) = message["executable"].as_str().filter(|_| message["profile"]["test"] == true) {
            let folder = Path::new(message["manifest_path"].as_str().unwrap_or_default()).parent().unwrap_or(copy);
            let package = folder.strip_prefix(copy).ok().and_then(Path::to_str).filter(|folder| !folder.is_empty());
            let name =
                format!("{}:{}", package.unwrap_or("forebay"), message["target"]["name"].as_str().unwrap_or("?"));
            binaries.push(Binary { name, path: path.into(), folder: folder.to_owned() });
        } else if message["message"]["level"] == "error" {
            said += message["message"]["rendered"].as_str().unwrap_or_default();
            let spans = message["message"]["spans"].as_array().into_iter().flatten();
            errors.extend(spans.filter(|span| span["is_primary"] == true).filter_map(|span| {
                Some((span["file_name"].as_str()?.to_owned(), span["line_start"].as_u64()? as usize))
            }));
        }
    }
    match output.status.success() {
        true => Ok(Built::Binaries(binaries)),
        false if errors.is_empty() => bail!("the copy does not compile:\n{said}"),
        false => Ok(Built::Errors(errors)),
    }
}
