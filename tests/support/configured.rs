//! The built binary with a file of settings, which it reads again at SIGHUP.

use super::http::page;
use super::process::Forebay;
use super::{await_until, listen};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A server, its file, and its log.
pub(crate) struct Configured {
    pub(crate) server: Forebay,
    directory: tempfile::TempDir,
}

impl Configured {
    pub(crate) fn start(text: &str) -> Configured {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("forebay.toml");
        fs::write(&file, text).expect("a file");
        let log = fs::File::create(directory.path().join("log")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.env_clear().args(["serve", "--listen", &listen(), "--admin", "127.0.0.1:0", "--workers", "2"]);
        let server = Forebay::spawn_to(command.args(["--config".as_ref(), file.as_os_str()]), Stdio::from(log));
        Configured { server, directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("forebay.toml")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).expect("text")
    }

    /// The body of `/config`.
    pub(crate) fn config(&self) -> Value {
        serde_json::from_str(&page(self.server.admin, "/config")).expect("JSON")
    }

    pub(crate) fn value(&self, key: &str) -> String {
        self.setting(key).0
    }

    /// The value of `key` in force, and its origin.
    pub(crate) fn setting(&self, key: &str) -> (String, String) {
        let setting = &self.config()["settings"][key];
        let text = |part: &str| setting[part].as_str().expect("a text").to_owned();
        (text("value"), text("origin"))
    }

    /// Writes `text` to the file, lets the server read it, and returns what `/config` then says of that.
    pub(crate) fn reload(&self, text: &str) -> Value {
        fs::write(self.file(), text).expect("a file");
        let before = self.config()["reloads"].as_u64();
        self.server.signal(Signal::SIGHUP);
        await_until(|| self.config()["reloads"].as_u64() > before, "it does not read its file");
        self.config()["last_reload"].clone()
    }
}
