//! Is the template unit correct, and does it give a service only the rights that it needs? Method:
//! systemd-analyze checks the files; it needs no running systemd.

use crate::support::prelude::*;

/// The drop-ins, and the highest allowed exposure with each, in tenths. A successor is not a child
/// of the main process, so with hand-overs every process of the unit may talk to systemd.
const DROP_INS: [(&str, &str); 3] = [("", "15"), ("bench.conf", "15"), ("handover.conf", "16")];

#[test]
fn the_sandbox_is_tight() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd");
    let programs = Path::new(env!("CARGO_BIN_EXE_forebay")).parent().expect("a folder").to_str().expect("text");
    for (drop_in, exposure) in DROP_INS {
        let folder = tempfile::tempdir().expect("a folder");
        let unit = folder.path().join("forebay.service");
        // The commands must exist, or systemd-analyze reports a mistake.
        let text = |name: &str| fs::read_to_string(units.join(name)).expect("text").replace("/usr/local/bin", programs);
        fs::write(&unit, text("service.service")).expect("written");
        if !drop_in.is_empty() {
            fs::create_dir(folder.path().join("forebay.service.d")).expect("made");
            fs::write(folder.path().join("forebay.service.d").join(drop_in), text(drop_in)).expect("written");
        }
        let tight = ["security", "--no-pager", "--offline=true", "--threshold", exposure];
        for arguments in [&["verify", "--man=no"][..], &tight] {
            let Ok(output) = Command::new("systemd-analyze").args(arguments).arg(&unit).output() else {
                return skip("systemd-analyze is not installed");
            };
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            let is_well = output.status.success() && (arguments != ["verify", "--man=no"] || said.is_empty());
            assert!(is_well, "{arguments:?} with {drop_in:?}:\n{said}");
        }
    }
}
