//! Chooses how heavy requests learn of fresh ones: `--notices`, as far as the kernel permits.

use super::error::ServeError;
use crate::config::Notices;
use crate::runtime::notice;

/// The way by which running jobs learn of arrivals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoticeWay {
    /// Whether the kernel gives notices.
    pub(super) by_kernel: bool,
    /// The name of the way, with the reason if it is not the better one.
    pub(super) text: String,
}

/// The permitted way nearest to `wanted`.
///
/// # Errors
/// [`ServeError::Unavailable`] if the kernel gives no notices and only they are wanted.
pub(super) fn find(wanted: Notices) -> Result<NoticeWay, ServeError> {
    if wanted == Notices::Looks {
        return Ok(NoticeWay { by_kernel: false, text: Notices::Looks.name().to_owned() });
    }
    let Err(error) = notice::probe() else {
        return Ok(NoticeWay { by_kernel: true, text: Notices::Ring.name().to_owned() });
    };
    let refused = format!("no io_uring of Linux 6.1: {error}");
    if wanted == Notices::Ring {
        let why = format!("--notices ring: this system has {refused}; allowed: auto, looks");
        return Err(ServeError::Unavailable(why));
    }
    tracing::info!("heavy requests look for fresh ones (--notices looks): this system has {refused}");
    Ok(NoticeWay { by_kernel: false, text: format!("{} ({refused})", Notices::Looks.name()) })
}
