//! The Unix socket at which successors connect.

use super::message::new_socket;
use crossbeam_utils::atomic::AtomicCell;
use socket2::{SockAddr, Socket};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Number of successors that may wait; one is served at a time.
const BACKLOG: i32 = 4;

/// The Unix socket at which successors connect, with its file. The server that owns the file
/// removes it when it ends.
#[derive(Debug)]
pub(crate) struct Door {
    pub(super) listener: Socket,
    path: PathBuf,
    /// Whether this server owns the file: from the time when it serves until a successor serves.
    pub(crate) own: AtomicCell<bool>,
}

impl Door {
    /// Listens at `path`, for this user only. Replaces the socket of a server that ended without
    /// removing it.
    ///
    /// # Errors
    /// The kernel's error. It is [`io::ErrorKind::AddrInUse`] if another server listens at `path`,
    /// or if `path` is a file but no socket.
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

    /// The predecessor's door at `path`. The predecessor owns the file until this server serves.
    pub(crate) fn taken(listener: OwnedFd, path: &Path) -> Door {
        Door { listener: Socket::from(listener), path: path.to_owned(), own: AtomicCell::new(false) }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.own.load() {
            // An error is ignored, because the file may have been removed already.
            let _ = fs::remove_file(&self.path);
        }
    }
}
