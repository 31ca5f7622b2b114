//! Does `forebay check --host` look at the real host without a change, and does `deploy/host-setup.sh` apply what it says,
//! save what was, and bring it back? Method: a made-up root, since the settings of the real one belong to everybody.

use crate::support::prelude::*;
use crate::support::program::forebay;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/host-setup.sh");

/// A made-up host.
struct Made(tempfile::TempDir);

impl Made {
    /// A small receive buffer, two slow CPUs, and nothing else that can be read.
    fn new() -> Made {
        let made = Made(tempfile::tempdir().expect("a folder"));
        made.write("proc/sys/net/core/rmem_max", "212992");
        made.write("proc/sys/net/core/wmem_max", "4194304");
        made.write("proc/sys/net/ipv4/udp_mem", "100\t200\t300");
        for cpu in 0..2 {
            made.write(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "powersave");
        }
        made
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("root").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }

    fn saved(&self) -> PathBuf {
        self.0.path().join("state/saved")
    }

    fn script(&self, flags: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(SCRIPT);
        command.args(flags).env("FOREBAY", env!("CARGO_BIN_EXE_forebay"));
        command.env("ROOT", self.path("")).env("SAVED", self.saved());
        let Output { status, stdout, stderr } = command.output().expect("bash runs it");
        (status.code(), String::from_utf8(stdout).expect("text") + &String::from_utf8_lossy(&stderr))
    }

    /// The contents of the files, in the order of their paths.
    fn contents(&self) -> Vec<(PathBuf, String)> {
        let (mut folders, mut files) = (vec![self.path("")], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).expect("text");
                    files.push((path, text.split_whitespace().collect::<Vec<_>>().join(" ")));
                }
            }
        }
        files.sort();
        files
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("a file").trim().to_owned()
    }
}

#[test]
fn a_host_is_set_up_and_brought_back() {
    let made = Made::new();
    let before = made.contents();
    let (code, said) = made.script(&["--dry-run", "--workers", "2"]);
    assert_eq!((code, made.contents(), made.saved().exists()), (Some(0), before.clone(), false), "{said}");
    assert!(said.contains("rmem_max: 212992, would be 4194304"), "{said}");

    let (code, said) = made.script(&["--workers", "2"]);
    assert_eq!(code, Some(0), "{said}");
    let governors = [0, 1].map(|cpu| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    assert!(governors.iter().all(|path| made.text(path) == "performance"), "{said}");
    assert_eq!(made.text("proc/sys/net/core/rmem_max"), "4194304");
    assert_eq!(made.text("proc/sys/net/ipv4/udp_mem"), "100 200 8192");
    let check = |workers| {
        forebay(&format!("check --host --workers {workers} --root {}", made.path("").display()))
            .assert()
            .get_output()
            .status
            .code()
    };
    assert_eq!((check(2), check(4)), (Some(0), Some(1)));

    // A second run changes more, and does not take the values of the first for those of the host.
    let (code, said) = made.script(&["--workers", "4"]);
    assert!(code == Some(0) && said.contains("100 200 8192, now 100 200 16384"), "{said}");
    let (code, said) = made.script(&["--undo"]);
    assert_eq!((code, made.contents(), made.saved().exists()), (Some(0), before, false), "{said}");
    let (code, said) = made.script(&["--undo"]);
    assert!(code == Some(0) && said.contains("nothing is saved"), "{said}");
}

// Is a file that cannot be written named, with an exit code, and the rest done? Is what has no file to write said?
#[test]
fn what_cannot_be_done_is_said() {
    let made = Made::new();
    made.write("proc/2/comm", "kthreadd");
    made.write("proc/9/comm", "irqbalance");
    // Not even root writes into what is no file.
    let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let (code, said) = made.script(&["--nonsense"]);
    assert!(code == Some(2) && said.contains("--nonsense"), "{said}");
    let (code, said) = made.script(&["--undo", "--workers"]);
    assert!(code == Some(2) && said.contains("takes no flags"), "{said}");
    let (code, said) = made.script(&[]);
    assert!(code == Some(0) && said.contains("by hand: systemctl stop irqbalance"), "{said}");
    fs::remove_file(made.path(governor)).expect("a file");
    fs::create_dir(made.path(governor)).expect("a folder");
    let (code, said) = made.script(&["--undo"]);
    assert!(code == Some(1) && said.contains("scaling_governor: cannot be written"), "{said}");
    assert_eq!(made.text("proc/sys/net/core/rmem_max"), "212992");
    assert!(made.saved().exists(), "what was not brought back is forgotten");
}

// Does the check of the real host end with a table, and leave the settings as they are?
#[test]
fn the_real_host_is_only_looked_at() {
    let settings = || {
        let names = ["core/rmem_max", "core/wmem_max", "core/netdev_budget", "core/busy_read", "ipv4/udp_mem"];
        names.map(|name| fs::read_to_string(Path::new("/proc/sys/net").join(name)).ok())
    };
    let before = settings();
    let output = forebay("check --host --listen 0.0.0.0:9000").assert().get_output().clone();
    let said = String::from_utf8(output.stdout).expect("text");
    let code = if said.lines().last().is_some_and(|last| last.starts_with("0 of ")) { 0 } else { 1 };
    assert_eq!((output.status.code(), settings()), (Some(code), before), "{said}");
    assert!(said.contains("receive buffer") && said.contains("worth changing, "), "{said}");
}

// Are the scripts of deploy/ free of the usual mistakes of shell?
#[test]
fn scripts_are_clean() {
    let deploy = Path::new(SCRIPT).parent().expect("a folder");
    let entries = fs::read_dir(deploy).expect("deploy/");
    let scripts: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "sh"))
        .collect();
    assert!(scripts.contains(&SCRIPT.into()), "{scripts:?}");
    match Command::new("shellcheck").args(&scripts).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => skip(format_args!("shellcheck does not run ({error})")),
    }
}
