//! A run whose requests are simulated once more.

use crate::workload::{Offered, Workload};
use std::path::{Path, PathBuf};

/// What it offered.
#[derive(Clone, Debug)]
pub(in crate::command) struct Replayed {
    /// Where it was read.
    pub(in crate::command) path: PathBuf,
    /// Its requests.
    pub(in crate::command) offered: Offered,
    /// Their costs.
    pub(in crate::command) workload: Workload,
}

impl Replayed {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A message that names the flag, the file, and the line if one is wrong.
    pub(super) fn read(path: &Path) -> Result<Replayed, String> {
        let offered = Offered::read(path).map_err(|error| format!("--replay {}: {error}", path.display()))?;
        Ok(Replayed { path: path.to_owned(), workload: offered.to_workload(), offered })
    }
}
