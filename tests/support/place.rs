//! Servers that take over from one another, and sockets that servers share.

use super::listen;
use super::process::{Forebay, Process, wait_for_exit};
use socket2::{Domain, Socket, Type};
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A UDP socket at `address`, which others may share.
pub(crate) fn shared_socket(address: SocketAddr) -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    socket.set_reuse_port(true).expect("an option of Linux");
    socket.bind(&address.into()).expect("a free port, or that of the group");
    socket.into()
}

/// A directory for the socket of successors, and the flags that all of them share.
pub(crate) struct Place {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) flags: Vec<(&'static str, String)>,
}

impl Place {
    pub(crate) fn new(handler: &str) -> Place {
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

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A server with these flags, of which `other` has another value.
    pub(crate) fn command(&self, other: Option<(&str, &str)>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.env_clear().arg("serve");
        let value = |flag: &'static str, shared: &String| match other {
            Some((name, value)) if name == flag => value.to_owned(),
            _ => shared.clone(),
        };
        command.args(self.flags.iter().flat_map(|(flag, shared)| [(*flag).to_owned(), value(flag, shared)]));
        if let Some((name, value)) = other.filter(|(name, _)| !self.flags.iter().any(|(flag, _)| flag == name)) {
            command.args([name, value]);
        }
        command
    }

    pub(crate) fn start(&self) -> Forebay {
        Forebay::spawn(&mut self.command(None))
    }

    /// The exit code and the complaint of a server that does not come to serve.
    pub(crate) fn fails(&self, other: (&str, &str)) -> (Option<i32>, String) {
        let mut command = self.command(Some(other));
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut process = Process { child };
        let (code, mut said) = (wait_for_exit(&mut process.child).code(), String::new());
        process.child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
        (code, said)
    }
}
