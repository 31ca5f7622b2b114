//! Counts the instructions of a part of this program. Other programs do not change the count, so it
//! has a fixed bound. To count, valgrind runs this program again with only this part.

use std::process::Command;

/// The flag before the name of a part and a number: run only this part, this many times.
pub(crate) const ONLY: &str = "--only";

/// Instructions of one run of the part called `name`. The count for `few` runs is subtracted from
/// the count for `many`. `None` if valgrind is not installed.
///
/// # Panics
///
/// If `CI` is set and valgrind is not installed, or if the part fails.
pub(crate) fn instructions(name: &str, few: usize, many: usize) -> Option<f64> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "valgrind is missing, so that no instructions are counted");
        return None;
    }
    let [few_took, many_took] = [few, many].map(|times| taken(name, times));
    Some((many_took - few_took) / (many - few) as f64)
}

/// Instructions of this program when it runs only the part called `name`, `times` times.
fn taken(name: &str, times: usize) -> f64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe().expect("the path of this program")).args([ONLY, name, &times.to_string()]);
    let output = valgrind.output().expect("valgrind starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("refs:")).expect("a count of instructions").1;
    count.trim().replace(',', "").parse().expect("a number")
}
