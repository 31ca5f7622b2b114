//! How heavy requests learn of fresh ones on this system: `--notices`, as far as the kernel permits it.

use super::ServeError;
use crate::config::Notices;
use crate::runtime::notice;

/// The way that is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Whether the kernel gives notices.
    pub(super) by_kernel: bool,
    /// Why it does not, where it was asked to.
    pub(super) refused: Option<String>,
}

/// The permitted way nearest to `wanted`.
///
/// # Errors
/// [`ServeError::Unavailable`] where the kernel gives none and nothing else is wanted.
pub(super) fn find(wanted: Notices) -> Result<Found, ServeError> {
    if wanted == Notices::Looks {
        return Ok(Found { by_kernel: false, refused: None });
    }
    match notice::probe() {
        Ok(()) => Ok(Found { by_kernel: true, refused: None }),
        Err(error) if wanted == Notices::Ring => Err(ServeError::Unavailable(format!(
            "--notices ring: this system has no io_uring of Linux 6.1: {error}; allowed: auto, looks"
        ))),
        Err(error) => {
            let refused = format!("no io_uring of Linux 6.1: {error}");
            tracing::info!("heavy requests look for fresh ones (--notices looks): this system has {refused}");
            Ok(Found { by_kernel: false, refused: Some(refused) })
        }
    }
}

impl Found {
    /// The name of the way, and why it is not the better one.
    pub(super) fn text(&self) -> String {
        let name = if self.by_kernel { Notices::Ring } else { Notices::Looks }.name();
        match &self.refused {
            Some(refused) => format!("{name} ({refused})"),
            None => name.to_owned(),
        }
    }
}
