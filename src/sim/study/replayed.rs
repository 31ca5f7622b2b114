//! A replayed run: requests of a trace, simulated again.

use crate::workload::{Trace, Workload};
use std::path::{Path, PathBuf};

/// A trace to replay.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    /// The path of the trace.
    pub(crate) path: PathBuf,
    /// The requests of the trace.
    pub(crate) offered: Trace,
    /// The costs of the trace as a workload.
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
