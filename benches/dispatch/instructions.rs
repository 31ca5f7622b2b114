//! How many instructions does a part of this program take? Other load on the machine does not
//! change that, so a bound can hold. valgrind counts them, of this program run again for one part.

use std::process::Command;

/// Before the name of a part and a number of times: does this part so often, and nothing else.
pub(crate) const ONLY: &str = "--only";

/// Instructions of one time of the part called `name`: of `many` times, less those of `few`.
/// `None` = valgrind is not installed.
///
/// # Panics
///
/// Where `CI` is set and valgrind is not installed; where the part fails.
pub(crate) fn instructions(name: &str, few: usize, many: usize) -> Option<f64> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "valgrind is missing, so that no instructions are counted");
        return None;
    }
    let [few_took, many_took] = [few, many].map(|times| taken(name, times));
    Some((many_took - few_took) / (many - few) as f64)
}

/// Instructions of this program when it does only the part called `name`.
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
