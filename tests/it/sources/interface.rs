//! Is each break of the public interface one that `.ci/interface` lists, with a reason? Method:
//! `.ci/semver` reads what a `cargo` says that only prints.

use std::os::unix::fs::PermissionsExt;
use support::prelude::*;

/// What cargo-semver-checks 0.51 prints for two breaks.
const SAID: &str = "--- failure inherent_method_missing: pub method removed or renamed ---\n\n\
Description:\nA method is no longer available.\n\
       impl: https://github.com/obi1kenobi/cargo-semver-checks/tree/v0.51.0/src/lints/inherent_method_missing.ron\n\n\
Failed in:\n  Builder::policy, previously in file /a/src/server/builder.rs:123\n\n\
--- failure enum_variant_added: enum variant added ---\n\n\
       impl: https://github.com/obi1kenobi/cargo-semver-checks/tree/v0.51.0/src/lints/enum_variant_added.ron\n\n\
Failed in:\n  variant Fate:Lost in /a/src/fate.rs:12\n";
const METHOD: &str = "inherent_method_missing: Builder::policy";
const VARIANT: &str = "enum_variant_added: variant Fate:Lost";

/// What it prints of a layer: a name that `forebay` shows is gone, and one that it does not show.
const OF_LAYER: &str = "--- failure function_missing: pub fn removed or renamed ---\n\n\
       impl: https://github.com/obi1kenobi/cargo-semver-checks/tree/v0.51.0/src/lints/function_missing.ron\n\n\
Failed in:\n  function forebay_runtime::fork, previously in file /a/crates/runtime/src/fork.rs:30\n  \
function forebay_runtime::give_way, previously in file /a/crates/runtime/src/lib.rs:12\n";
const SHOWN: &str = "forebay-runtime function_missing: function forebay_runtime::fork";

/// Whether `.ci/semver` is content with `listed`, and what it says.
fn judged(listed: &str, said: &str, layer: &str, code: u8) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/semver"), path("semver")).expect("a copy");
    fs::write(path("interface"), listed).expect("written");
    fs::write(path("said"), said).expect("written");
    fs::write(path("layer"), layer).expect("written");
    let cargo = format!(
        "case \"$*\" in\n*'--package forebay '*) cat \"${{0%cargo}}said\"; exit {code} ;;\n\
         *forebay-runtime*) cat \"${{0%cargo}}layer\" ;;\nesac\n"
    );
    // Each revision has each layer.
    for (name, script) in [("cargo", &*cargo), ("git", "echo a line\n")] {
        fs::write(path(name), format!("#!/bin/sh\n{script}")).expect("written");
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let programs = format!("{}:{}", folder.path().display(), env::var("PATH").unwrap_or_default());
    let output = Command::new(path("semver")).arg("base").env("PATH", programs).output().expect("python3 starts");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_break_without_a_line_is_seen() {
    let both = format!("base x\n\nbecause of this\n{METHOD}\nbecause of that\n{VARIANT}\n");
    for (listed, said, code, expected) in [
        (&*both, SAID, 100, Ok("2 breaks since base, 2 of them on purpose")),
        ("# nothing\nbase x\n", "no break", 0, Ok("0 breaks")),
        (&both.replace(METHOD, ""), SAID, 100, Err(format!("NOT LISTED  {METHOD}"))),
        ("base x\n", SAID, 100, Err(format!("NOT LISTED  {VARIANT}"))),
        // What was a break once and is none now would hide the next one.
        (&both, SAID.split("--- failure enum").next().expect("a part"), 100, Err(format!("NO BREAK    {VARIANT}"))),
        (&format!("base x\n{METHOD}\n"), SAID, 100, Err("a break without a reason".to_owned())),
        ("base x\n", "error: the base does not compile", 1, Err("names no break".to_owned())),
    ] {
        let (is_well, output) = judged(listed, said, "no break", code);
        let (Ok(part) | Err(part)) = expected.as_ref().map(|part| *part).map_err(String::as_str);
        assert!(is_well == expected.is_ok() && output.contains(part), "{expected:?}:\n{output}");
    }
}

// Is a name of a layer compared, if it is one that `forebay` shows?
#[test]
fn a_break_of_a_layer_is_seen() {
    let (is_well, output) = judged("base x\n", "no break", OF_LAYER, 0);
    assert!(!is_well && output.contains(&format!("NOT LISTED  {SHOWN}")), "{output}");
    let listed = format!("base x\nbecause of this\n{SHOWN}\n");
    let (is_well, output) = judged(&listed, "no break", OF_LAYER, 0);
    assert!(is_well && output.contains("1 breaks since base, 1 of them on purpose"), "{output}");
}

// Is the base a release, or the revision that it was from the first? A later one would hide breaks.
#[test]
fn the_base_stays_until_there_is_a_release() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/interface")).expect("text");
    let bases: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("base ")).collect();
    assert_eq!(bases, ["287eaea7275cf567393eb1ca1f8b89293fd30f4e"]);
}
