//! The Unix socket at which successors ask.

use super::message::new_socket;
use crossbeam_utils::atomic::AtomicCell;
use socket2::{SockAddr, Socket};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Successors that may wait; one is served at a time.
const BACKLOG: i32 = 4;

/// A listener, and its file, which the server that owns it removes at its end.
#[derive(Debug)]
pub(crate) struct Door {
    pub(super) listener: Socket,
    path: PathBuf,
    /// Whether the file is this server's: from when it serves, until a successor does.
    pub(crate) own: AtomicCell<bool>,
}

impl Door {
    /// Listens at `path`, for this user alone. Replaces the socket of a server that has ended
    /// without removing it.
    ///
    /// # Errors
    /// The kernel's error; [`io::ErrorKind::AddrInUse`] also when something other than a socket is
    /// in the way, or a socket at which a server listens.
    pub(crate) fn open(path: &Path) -> io::Result<Door> {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "there is a file, and it is no socket"));
            }
            Ok(_) if new_socket()?.connect(&SockAddr::unix(path)?).is_ok() => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
            }
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        let listener = new_socket()?;
        listener.bind(&SockAddr::unix(path)?)?;
        // Nothing can connect before `listen`.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.listen(BACKLOG)?;
        Ok(Door { listener, path: path.to_owned(), own: AtomicCell::new(true) })
    }

    /// The door of the predecessor, at `path`, which is the predecessor's until this server serves.
    pub(crate) fn taken(listener: OwnedFd, path: &Path) -> Door {
        Door { listener: Socket::from(listener), path: path.to_owned(), own: AtomicCell::new(false) }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.own.load() {
            // One that has been removed already is what is wanted.
            let _ = fs::remove_file(&self.path);
        }
    }
}
