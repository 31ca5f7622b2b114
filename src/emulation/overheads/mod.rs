//! The CPU time of each step of a server: what a setting or flag names, or as measured on this
//! host.

#[cfg(feature = "cli")]
pub mod file;
#[cfg(not(feature = "cli"))]
mod file {
    //! Without the feature `cli` there is no TOML parser, so no file can be read.
    pub(super) fn read(_: &str) -> Result<super::Overheads, String> {
        Err("this program was built without forebay's feature cli, which reads such files".to_owned())
    }
}

pub use forebay_base::overheads::{Overheads, OverheadsError, STEP_MAX};

/// Reads the value of a setting or a flag: a name or a file, and steps that differ from it.
///
/// # Errors
/// As [`Overheads::parse_with`].
pub fn read(text: &str) -> Result<Overheads, OverheadsError> {
    Overheads::parse_with(text, file::read)
}
