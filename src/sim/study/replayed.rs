//! A run whose requests are simulated once more.

use crate::workload::{Trace, Workload};
use std::path::{Path, PathBuf};

/// The requests of a run, and where they were read.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    /// The file of the trace.
    pub(crate) path: PathBuf,
    /// The requests of the run.
    pub(crate) offered: Trace,
    /// The workload of the run: the costs of its requests.
    pub(crate) workload: Workload,
}

impl Replayed {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A message that names the flag, the file, and the line if one is wrong.
    pub(crate) fn read(path: &Path) -> Result<Replayed, String> {
        let offered = Trace::read(path).map_err(|error| format!("--replay {}: {error}", path.display()))?;
        Ok(Replayed { path: path.to_owned(), workload: offered.to_workload(), offered })
    }
}
