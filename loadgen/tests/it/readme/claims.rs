//! Does each claim of the pages have a command or a reason, and is a wrong one seen? Method: the
//! tool judges the pages of this repository, and small pages with programs that only print.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use support::pages::root;

/// Whether the tool is content, and what it says. `python3` is what .ci/run needs too.
fn claims(root_of_pages: &Path, programs: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("python3");
    command.arg(root().join("benches/claims.py")).arg("--root").arg(root_of_pages).args(arguments);
    let output = command.env("BIN", programs).output().expect("python3 starts");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn each_claim_has_a_command_or_a_reason() {
    let (is_well, said) = claims(root(), Path::new("/nonexistent"), &["--check"]);
    assert!(is_well, "{said}");
}

const TABLE: &str = "| claim | figure of | figures | command |\n|---|---|---|---|\n\
                     | light | short p99.9 | `auto` 3.06 | `loadgen simulate` |\n";
const MEASURED: &str = "| claim | figures | command |\n|---|---|---|\n| a scrape | 4.9 ms | [a.md](a.md) |\n";
const ENTRY: &str = "[[number]]\npage = \"README.md\"\nsays = \"at most 2,048 bytes\"\ncommand = \"forebay serve\"\n\
                     prints = 'default: (\\d+)'\n";
/// What the program `loadgen` writes to the file after `--json`.
const WRITES: &str = r#"while [ "$1" != --json ]; do shift; done; echo '{"results":[{"policy":"auto",\
"slowdown":{"short":{"p99_9":3.061}}}]}' >"$2""#;

/// The tool's verdict on such pages, where `forebay` prints that the default is 2048.
fn judged(table: &str, readme: &str, entries: &str, arguments: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    write("benches/README.md", table);
    write("benches/claims.toml", entries);
    write("README.md", readme);
    write("CHANGELOG.md", "");
    for (program, text) in [("loadgen", &*WRITES.replace("\\\n", "")), ("forebay", "echo default: 2048")] {
        write(program, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(folder.path().join(program), fs::Permissions::from_mode(0o755)).expect("ours");
    }
    claims(folder.path(), folder.path(), arguments)
}

#[test]
fn what_is_wrong_or_has_no_command_is_seen() {
    let marked = format!("<!-- not run: one machine -->\n{MEASURED}");
    let right = "at most 2,048 bytes";
    for (table, readme, entries, arguments, expected) in [
        (TABLE, right, ENTRY, &[][..], Ok("2 agree, 0 differ, 0 NOT RUN")),
        (&marked, right, ENTRY, &[], Ok("1 agree, 0 differ, 1 NOT RUN")),
        (TABLE, "In `p99.9` of `code` no number counts.", "", &[], Ok("1 agree")),
        (TABLE, right, ENTRY, &["--draw", "0"], Ok("1 agree, 0 differ, 0 NOT RUN, 1 not drawn")),
        (TABLE, right, ENTRY, &["--check"], Ok("2 not drawn")),
        // The page has another figure than the command.
        (&TABLE.replace("3.06", "3.05"), right, ENTRY, &[], Err("the command says `auto` 3.06")),
        (
            TABLE,
            "at most 4,096 bytes",
            &ENTRY.replace("2,048", "4,096"),
            &[],
            Err("the command says at most 2,048 bytes"),
        ),
        (TABLE, right, &ENTRY.replace("default", "nothing"), &[], Err("nothing like")),
        // Nothing gives it, and nothing says why.
        (MEASURED, right, ENTRY, &[], Err("a scrape: no command gives it")),
        (TABLE, "at most 2,048 bytes, and 7 more", ENTRY, &["--check"], Err("and 7 more..: no command gives it")),
        (TABLE, "no number", ENTRY, &["--check"], Err("at most 2,048 bytes: no command gives it")),
        // A mark is for one table.
        (&format!("{marked}\n{MEASURED}"), right, ENTRY, &[], Err("a scrape: no command gives it")),
        // A command that fails, and a run of nothing.
        (&TABLE.replace("loadgen simulate", "loadgen"), right, &ENTRY.replace("forebay", "false"), &[], Err("DIFFERS")),
        (TABLE, right, ENTRY, &["no such claim"], Err("0 claims")),
    ] {
        let (is_well, said) = judged(table, readme, entries, arguments);
        let part = *expected.as_ref().unwrap_or_else(|part| part);
        assert!(is_well == expected.is_ok() && said.contains(part), "{expected:?}:\n{said}");
    }
}
