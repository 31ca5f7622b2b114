//! Does `.ci/lines` count code without tests, comments and blank lines? Method: a repository of a few known lines.

use crate::support::prelude::*;

const FILES: [(&str, &str); 4] = [
    ("src/a.rs", include_str!("lines/a.txt")),
    ("src/a/tests.rs", "fn of_tests() {\n}\n"),
    ("tests/it.rs", "fn of_tests() {}\n"),
    ("deploy/run.sh", "#!/bin/sh\n# A comment.\n\ntrue\n"),
];

#[test]
fn lines_of_code_are_counted() {
    let counter = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/lines");
    let folder = tempfile::tempdir().expect("a folder");
    let run = |program: &str, arguments: &[&str]| Command::new(program).current_dir(&folder).args(arguments).output();
    for (path, text) in FILES {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        fs::write(path, text).expect("a writable folder");
    }
    let prepared = run("git", &["init", "--quiet"]).and(run("git", &["add", "."])).and(run("python3", &["--version"]));
    if let Err(error) = prepared {
        return skip(format_args!("git and python3 count lines: {error}"));
    }
    let output = run(counter.to_str().expect("text"), &[]).expect("it was prepared");
    let said = String::from_utf8(output.stdout).expect("text");
    for (count, what) in [(7, "src"), (1, "deploy"), (8, "the repository without tests"), (7, "tests")] {
        assert!(said.contains(&format!("{count:7}  {what}\n")), "{count} {what}:\n{said}");
    }
}
