//! A cgroup of a test's own, of either version.

use support::prelude::*;

const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup below the root. It must outlive its processes.
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// A new cgroup without processes, in the first of these hierarchies that has this file.
    /// `None`, and skipped, if none has it, or this user may create none.
    fn new(hierarchies: [[&str; 2]; 2]) -> Option<Cgroup> {
        let mut refusals = Vec::new();
        for [hierarchy, file] in hierarchies {
            match Cgroup::within(&Path::new(ROOT).join(hierarchy), file) {
                Ok(cgroup) => return Some(cgroup),
                Err(why) => refusals.push(why),
            }
        }
        skip(format_args!("no cgroup can be made here: {}", refusals.join("; ")));
        None
    }

    /// A new cgroup in the hierarchy `root`, which must have `file`; otherwise why it has not.
    fn within(root: &Path, file: &str) -> Result<Cgroup, String> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // In version 2 a cgroup has limits only if its parent enables them. One at a time: the
        // kernel takes none of a list if it lacks one.
        for controller in ["+cpu", "+cpuset"] {
            let _ = fs::write(root.join("cgroup.subtree_control"), controller);
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = root.join(format!("forebay-test-{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let cgroup = Cgroup { folder };
        if cgroup.has(file) { Ok(cgroup) } else { Err(format!("{} has no {file}", cgroup.folder.display())) }
    }

    fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    /// A cgroup that limits CPU time.
    pub(crate) fn of_cpus() -> Option<Cgroup> {
        Cgroup::new([["cpu", "cpu.cfs_quota_us"], ["", "cpu.max"]])
    }

    /// A cgroup that confines processes to CPUs. In version 1 it begins with no CPU and no memory.
    pub(crate) fn with_cpuset() -> Option<Cgroup> {
        let cgroup = Cgroup::new([["cpuset", "cpuset.cpus"], ["", "cpuset.cpus"]])?;
        if let Ok(memory) = fs::read_to_string(cgroup.folder.join("../cpuset.mems")) {
            cgroup.write("cpuset.mems", &memory);
        }
        Some(cgroup)
    }

    /// Confines its processes to `cpus`.
    pub(crate) fn confine(&self, cpus: &str) {
        self.write("cpuset.cpus", cpus);
    }

    /// A cgroup that can freeze its processes.
    pub(crate) fn that_freezes() -> Option<Cgroup> {
        Cgroup::new([["unified", "cgroup.freeze"], ["", "cgroup.freeze"]])
    }

    pub(crate) fn add(&self, server: &Forebay) {
        self.write("cgroup.procs", &server.id().to_string());
    }

    /// Limits its processes to this share of a CPU, in percent.
    pub(crate) fn limit(&self, percent: u32) {
        let quota_us = 1_000 * percent;
        match self.has("cpu.max") {
            true => self.write("cpu.max", &format!("{quota_us} 100000")),
            false => self.write("cpu.cfs_quota_us", &quota_us.to_string()),
        }
    }

    /// Stops its processes, or lets them continue, and waits until this is done.
    pub(crate) fn freeze(&self, frozen: bool) {
        let state = u8::from(frozen).to_string();
        self.write("cgroup.freeze", &state);
        let line = format!("frozen {state}");
        let events = || fs::read_to_string(self.folder.join("cgroup.events")).expect("a file");
        await_until(|| events().lines().any(|event| event == line), &line);
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It is empty unless a test has failed.
        let _ = fs::remove_dir(&self.folder);
    }
}
