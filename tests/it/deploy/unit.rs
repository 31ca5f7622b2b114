//! Is the template unit correct, and does it give a service only the rights that it needs? Method:
//! systemd-analyze checks the files; it needs no running systemd.

use support::prelude::*;

/// The drop-ins, and the highest allowed exposure with each, in tenths. A successor is not a child
/// of the main process, so with hand-overs every process of the unit may talk to systemd.
const DROP_INS: [(&str, &str); 3] = [("", "15"), ("bench.conf", "15"), ("handover.conf", "16")];

const VERIFY: [&str; 2] = ["verify", "--man=no"];

/// What systemd gives each service as a dependency. The units of this host would bring those of
/// other packages, with their mistakes.
const TARGETS: [&str; 3] = ["sysinit.target", "basic.target", "shutdown.target"];

/// A folder with our unit, its drop-ins, and nothing that another package has installed.
fn units(unit: &str, drop_in: Option<(&str, &str)>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    TARGETS.iter().for_each(|target| write(target, "[Unit]\nDescription=of systemd\n"));
    write("forebay.service", unit);
    if let Some((name, text)) = drop_in {
        write(&format!("forebay.service.d/{name}"), text);
    }
    folder
}

/// A command that reads the units in `folder` alone: without a colon at its end, this path replaces
/// all others.
fn analyze(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("systemd-analyze");
    command.args(arguments).arg(folder.join("forebay.service")).env("SYSTEMD_UNIT_PATH", folder);
    command
}

/// Whether `command` is content, and what it says. `None` if it is not installed.
fn said_by(command: &mut Command) -> Option<(bool, String)> {
    let Ok(output) = command.output() else {
        skip("systemd-analyze is not installed");
        return None;
    };
    Some((output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()))
}

/// The file `name` of deploy/systemd. The commands must exist, or systemd-analyze reports a
/// mistake.
fn text(name: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_forebay")).parent().expect("a folder").to_str().expect("text");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd").join(name);
    fs::read_to_string(path).expect("text").replace("/usr/local/bin", programs)
}

#[test]
fn the_sandbox_is_tight() {
    for (drop_in, exposure) in DROP_INS {
        let drop_in = (!drop_in.is_empty()).then(|| (drop_in, text(drop_in)));
        let folder = units(&text("service.service"), drop_in.as_ref().map(|(name, text)| (*name, text.as_str())));
        let tight = ["security", "--no-pager", "--offline=true", "--threshold", exposure];
        for arguments in [&VERIFY[..], &tight] {
            let Some((is_well, said)) = said_by(&mut analyze(arguments, folder.path())) else { return };
            let is_well = is_well && (arguments != VERIFY || said.is_empty());
            assert!(is_well, "{arguments:?} with {drop_in:?}:\n{said}");
        }
    }
}

/// A line that no version of systemd knows.
const MISTAKE: &str = "[Service]\nForebayMistake=yes\n";

// Is a mistake of our unit or of a drop-in seen, although no other unit is read?
#[test]
fn a_mistake_of_ours_is_seen() {
    let unit = text("service.service");
    let own = units(&unit.replace("[Service]\n", MISTAKE), None);
    let dropped = units(&unit, Some(("mistake.conf", MISTAKE)));
    for folder in [own, dropped] {
        let Some((_, said)) = said_by(&mut analyze(&VERIFY, folder.path())) else { return };
        assert!(said.contains("ForebayMistake"), "{said}");
    }
}

/// Runs `$2..` where `$1` has the units of the host.
const WITH_UNITS: &str = r#"mount --bind "$1" /etc/systemd/system && shift && exec "$@""#;

// Is nothing said of a unit of another package? Method: in a mount namespace, the host has such a
// unit with a mistake, and wants it at every start. With the paths of the host it is told.
#[test]
fn a_mistake_of_another_package_is_not_ours() {
    let others = tempfile::tempdir().expect("a folder");
    let wants = others.path().join("sysinit.target.wants");
    fs::create_dir(&wants).expect("made");
    let other = format!("{MISTAKE}ExecStart=/bin/true\n");
    fs::write(others.path().join("other.service"), other).expect("a unit");
    std::os::unix::fs::symlink("../other.service", wants.join("other.service")).expect("a link");
    let folder = units(&text("service.service"), None);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", WITH_UNITS, "sh"]).arg(others.path());
    let analyze = analyze(&VERIFY, folder.path());
    command.arg(analyze.get_program()).args(analyze.get_args());
    let Some((_, said)) = said_by(&mut command) else { return };
    if !said.contains("ForebayMistake") {
        return skip(format_args!("mount namespaces are not permitted here, or systemd is not installed: {said}"));
    }
    let Some((is_well, said)) = said_by(command.env("SYSTEMD_UNIT_PATH", folder.path())) else { return };
    assert!(is_well && said.is_empty(), "{said}");
}
