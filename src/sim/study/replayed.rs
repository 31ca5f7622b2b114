//! A run whose requests are simulated once more.

use crate::workload::{Trace, Workload};
use std::path::{Path, PathBuf};

/// What it offered.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    /// Where it was read.
    pub(crate) path: PathBuf,
    /// Its requests.
    pub(crate) offered: Trace,
    /// Their costs.
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
