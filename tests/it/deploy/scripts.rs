//! Does shellcheck find no mistake in the scripts of deploy/? It reads no settings of this user. Is
//! a package installed although another program installs one?

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use support::prelude::*;

#[test]
fn scripts_are_clean() {
    let entries = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy")).expect("deploy/");
    let paths = entries.flatten().map(|entry| entry.path());
    let scripts: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "sh")).collect();
    assert!(scripts.iter().any(|path| path.ends_with("balance.sh")), "{scripts:?}");
    match Command::new("shellcheck").arg("--norc").args(&scripts).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => skip(format_args!("shellcheck does not run ({error})")),
    }
}

// Is `apt-get` tried again while another one has a lock, and only then? Method: an `apt-get` that
// counts its calls, and finds a lock in the first two or says that there is no package.
#[test]
fn a_package_is_installed_once_a_lock_is_free() {
    let dir = tempfile::tempdir().expect("a directory");
    let programs = [
        ("sudo", "exec \"$@\""),
        (
            "apt-get",
            "echo >>\"$0.calls\"; case \"$*\" in *absent) echo 'E: Unable to locate package absent' >&2; exit 100 ;; esac\n\
             [ \"$(wc -l <\"$0.calls\")\" -gt 2 ] || { echo 'E: Could not get lock /lock' >&2; exit 100; }",
        ),
    ];
    for (name, body) in programs {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its owner may");
    }
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").expect("there is one"));
    let calls = |package| {
        let _ = fs::remove_file(dir.path().join("apt-get.calls"));
        let mut waiting = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/apt-waiting"));
        let output = waiting.args(["install", package]).env("PATH", &path).output().expect("it runs");
        let calls = fs::read_to_string(dir.path().join("apt-get.calls")).expect("it was called");
        (output.status.success(), calls.lines().count(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(calls("present"), (true, 3, String::new()));
    assert_eq!(calls("absent"), (false, 1, "E: Unable to locate package absent\n".to_owned()));
}
