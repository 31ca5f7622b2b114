//! Servers that hand over to one another, and sockets that servers share.

use super::process::{Forebay, ended};
use super::program::FOREBAY;
use crate::listen;
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;

/// A UDP socket at `address`, which other sockets may share.
pub fn shared_socket(address: SocketAddr) -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    socket.set_reuse_port(true).expect("an option of Linux");
    socket.bind(&address.into()).expect("a free port, or that of the group");
    socket.into()
}

/// A directory for the hand-over socket, and the flags that all servers share.
pub struct Place {
    pub directory: tempfile::TempDir,
    pub flags: Vec<(&'static str, String)>,
}

impl Place {
    pub fn new(handler: &str) -> Place {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket").to_str().expect("text").to_owned();
        let flags = vec![
            ("--listen", listen()),
            ("--admin", "127.0.0.1:0".to_owned()),
            ("--workers", "2".to_owned()),
            ("--max-wait", "off".to_owned()),
            ("--drain-timeout", "60s".to_owned()),
            ("--handler", handler.to_owned()),
            ("--handover", path),
        ];
        Place { directory, flags }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A server with these flags; `other` replaces the value of one flag.
    pub fn command(&self, other: Option<(&str, &str)>) -> Command {
        let mut command = Command::new(FOREBAY.path());
        command.env_clear().arg("serve");
        let shared = self.flags.iter().map(|(flag, value)| (*flag, value.as_str()));
        let kept = shared.filter(|(flag, _)| other.is_none_or(|(name, _)| name != *flag));
        command.args(kept.chain(other).flat_map(|(flag, value)| [flag, value]));
        command
    }

    pub fn start(&self) -> Forebay {
        Forebay::spawn(&mut self.command(None))
    }

    /// The exit code and the error of a server that must fail to start.
    pub fn fails(&self, flag: &str, value: &str) -> (Option<i32>, String) {
        let (code, _, said) = ended(&mut self.command(Some((flag, value))));
        (code, said)
    }
}
