//! Makes a copy of the sources in which each mutant has a switch, and builds its test binaries.

use crate::places::{Place, rewrite};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The bytes of each file, by path.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// The files in `root` that git tracks or would add.
pub fn tree(root: &Path) -> Result<Tree> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output()?;
    ensure!(output.status.success(), "git cannot list the files");
    // A file that is deleted but not committed is listed too.
    let read = |path: &str| Some((path.to_owned(), fs::read(root.join(path)).ok()?));
    Ok(String::from_utf8(output.stdout)?.split_terminator('\0').filter_map(read).collect())
}

/// A test starts programs with an empty environment. This passes the mutant's variables on.
const INHERITED: &str = r#".env_clear().envs(std::env::vars().filter(|(name, _)| name.starts_with("MUTANT")))"#;

/// Writes `tree` to `copy`, with a switch for each of `mutants`. An unchanged file keeps its time,
/// so cargo does not compile it again.
pub fn write(root: &Path, copy: &Path, tree: &Tree, mutants: &[Place]) -> Result<()> {
    let switch = ("crates/base/src/mutant.rs".to_owned(), include_bytes!("switch.rs").to_vec());
    for (path, bytes) in tree.iter().chain([(&switch.0, &switch.1)]) {
        let mut bytes = bytes.clone();
        if path.ends_with(".rs") && !path.starts_with("tests/mutants/") {
            let places = mutants.iter().enumerate().filter(|(_, place)| place.file == *path);
            bytes = rewrite(str::from_utf8(&bytes)?, places).replace(".env_clear()", INHERITED).into_bytes();
        }
        // What forebay depends on cannot name it. QUIC and HTTP/3 depend on forebay.
        let is_above = ["crates/http3/", "crates/quic/"].iter().any(|above| path.starts_with(above));
        if path.starts_with("crates/") && !is_above && path.ends_with(".rs") {
            bytes = str::from_utf8(&bytes)?.replace("::forebay::mutant::", "::forebay_base::mutant::").into_bytes();
        }
        if path == "crates/base/src/lib.rs" {
            bytes.extend(b"\n#[allow(missing_docs)]\npub mod mutant;\nextern crate self as forebay_base;\n");
        }
        if path == "src/lib.rs" {
            // Library, programs and tests name the switches by the same path. Some tests of the
            // library have this line already.
            let text = str::from_utf8(&bytes)?;
            bytes =
                text.replace("#[cfg(all(test, feature = \"cli\"))]\nextern crate self as forebay;\n", "").into_bytes();
            bytes.extend(b"\n#[allow(missing_docs)]\npub use forebay_base::mutant;\nextern crate self as forebay;\n");
        }
        let to = copy.join(path);
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::create_dir_all(to.parent().context("it is below the copy")?)?;
            fs::write(&to, bytes).context(path.clone())?;
            if let Ok(original) = fs::metadata(root.join(path)) {
                fs::set_permissions(&to, original.permissions())?;
            }
        }
    }
    Ok(())
}

/// A test binary, and the folder in which cargo runs it.
pub struct Binary {
    pub name: String,
    pub path: PathBuf,
    pub folder: PathBuf,
}

#[derive(Default)]
pub struct Built {
    pub binaries: Vec<Binary>,
    /// The files and lines with compiler errors.
    pub errors: Vec<(String, usize)>,
}

/// Compiles the tests of `copy`.
pub fn build(copy: &Path, target: &Path, targets: &[&str]) -> Result<Built> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(copy).env("CARGO_TARGET_DIR", target).args(["test", "--no-run", "--locked"]);
    // All of the workspace, so that its dependencies have the features that .ci/run compiles.
    cargo.args(["--workspace", "--no-fail-fast", "--message-format", "json", "--quiet"]).args(targets);
    let output = cargo.stderr(Stdio::inherit()).output().context("cargo does not start")?;
    let (mut built, mut said) = (Built::default(), String::new());
    for line in str::from_utf8(&output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line).context("cargo speaks another language")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if message["profile"]["test"] == true && message["executable"].is_string() {
            let folder = PathBuf::from(text(&message["manifest_path"])).parent().unwrap_or(copy).to_owned();
            let name = folder.strip_prefix(copy)?.join(text(&message["target"]["name"])).display().to_string();
            built.binaries.push(Binary { name, path: text(&message["executable"]).into(), folder });
        } else if message["message"]["level"] == "error" {
            said += &text(&message["message"]["rendered"]);
            let spans = message["message"]["spans"].as_array().into_iter().flatten();
            let place = |span: &Value| {
                let line = span["line_start"].as_u64()?;
                Some((in_tree(copy, span["file_name"].as_str()?), line as usize))
            };
            built.errors.extend(spans.filter(|span| span["is_primary"] == true).filter_map(place));
        }
    }
    ensure!(output.status.success() || !built.errors.is_empty(), "the copy does not compile:\n{said}");
    Ok(built)
}

/// The name in `tree` for `path`. The library's tests compile files of loadgen by the path
/// `src/../loadgen/src/..`.
pub fn in_tree(root: &Path, path: &str) -> String {
    let canonical = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let full = canonical(&root.join(path));
    full.strip_prefix(canonical(root)).unwrap_or(&full).display().to_string()
}
