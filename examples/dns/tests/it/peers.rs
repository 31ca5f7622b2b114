//! Other servers for the same zone, from Debian's packages, without their usual accounts and
//! folders.

use crate::support::{Process, await_until, example_zone, free_port, output, path};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn started(command: &mut Command, port: u16) -> (Process, SocketAddr) {
    let process =
        Process(command.env("PATH", path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    await_until(|| TcpStream::connect(address).is_ok(), &format!("{command:?} does not serve"));
    (process, address)
}

/// The zones of a server: names and files.
type Zones = [(String, PathBuf)];

/// The zone of the README's first steps.
pub(crate) fn example() -> [(String, PathBuf); 1] {
    [("example.test".to_owned(), example_zone())]
}

/// NSD, with its files in `dir`.
pub(crate) fn nsd(dir: &Path, zones: &Zones) -> (Process, SocketAddr) {
    let (port, at) = (free_port(), dir.display());
    let zone = |(name, file): &(_, PathBuf)| format!("zone:\n  name: {name}\n  zonefile: \"{}\"\n", file.display());
    let zones: String = zones.iter().map(zone).collect();
    let text = format!(
        "server:\n  ip-address: 127.0.0.1@{port}\n  username: \"\"\n  chroot: \"\"\n  zonesdir: \"{at}\"\n  database: \"\"\n  \
         pidfile: \"{at}/nsd.pid\"\n  xfrdfile: \"{at}/nsd.xfrd\"\n  zonelistfile: \"{at}/nsd.list\"\n  \
         logfile: \"{at}/nsd.log\"\n  server-count: 2\n  reuseport: yes\n  rrl-ratelimit: 0\nremote-control:\n  control-enable: no\n\
         {zones}"
    );
    let file = dir.join("nsd.conf");
    fs::write(&file, text).expect("written");
    started(Command::new("nsd").args(["-d", "-c"]).arg(file), port)
}

/// Knot, with its files in `dir`. With `algorithm` it signs on demand.
pub(crate) fn knot(dir: &Path, zones: &Zones, algorithm: Option<&str>) -> (Process, SocketAddr) {
    let (port, file) = knot_config(dir, zones, algorithm);
    started(Command::new("knotd").arg("-c").arg(file), port)
}

/// Writes a configuration of Knot; returns its port and file.
pub(crate) fn knot_config(dir: &Path, zones: &Zones, algorithm: Option<&str>) -> (u16, PathBuf) {
    let (port, at) = (free_port(), dir.display());
    let signing = algorithm.map(|algorithm| {
        let size = if algorithm.starts_with("rsa") { "    zsk-size: 2048\n    ksk-size: 2048\n" } else { "" };
        format!(
            "policy:\n  - id: online\n    algorithm: {algorithm}\n{size}    single-type-signing: on\nmod-onlinesign:\n  \
             - id: online\n    policy: online\n"
        )
    });
    let module = algorithm.map_or("", |_| "    module: mod-onlinesign/online\n");
    let zone = |(name, file): &(_, PathBuf)| {
        let file = file.display();
        format!("  - domain: {name}\n    file: {file}\n    zonefile-sync: -1\n    journal-content: none\n{module}")
    };
    let zones: String = zones.iter().map(zone).collect();
    let text = format!(
        "server:\n  rundir: {at}\n  listen: 127.0.0.1@{port}\n  udp-workers: 2\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {at}/knot\n{}zone:\n{zones}",
        signing.unwrap_or_default()
    );
    let file = dir.join("knot.conf");
    fs::create_dir_all(dir.join("knot")).expect("a directory");
    fs::write(&file, text).expect("written");
    (port, file)
}

/// PowerDNS, with its files in `dir`. With `algorithm` it signs on demand. Its denial is an NSEC3
/// record for the question (narrow), whose signature is new for each name. It keeps the signature
/// of a wildcard's records.
pub(crate) fn powerdns(dir: &Path, algorithm: Option<&str>) -> (Process, SocketAddr) {
    let (port, at, zone) = (free_port(), dir.display(), example_zone());
    let signing = algorithm.map(|algorithm| {
        let size = if algorithm.starts_with("rsa") { "default-ksk-size=2048\n" } else { "" };
        format!("bind-dnssec-db={at}/keys.db\ndefault-ksk-algorithm={algorithm}\n{size}")
    });
    let text = format!(
        "launch=bind\nbind-config={at}/named.conf\nlocal-address=127.0.0.1\nlocal-port={port}\nsocket-dir={at}\nsetuid=\n\
         setgid=\nreceiver-threads=2\ndistributor-threads=1\nreuseport=yes\nsecurity-poll-suffix=\n{}",
        signing.as_deref().unwrap_or_default()
    );
    fs::write(dir.join("pdns.conf"), text).expect("written");
    let zone = format!("zone \"example.test\" {{ type native; file \"{}\"; }};\n", zone.display());
    fs::write(dir.join("named.conf"), zone).expect("written");
    let config = format!("--config-dir={at}");
    if signing.is_some() {
        let keys = format!("{at}/keys.db");
        for arguments in [
            &["create-bind-db", &keys][..],
            &["secure-zone", "example.test"],
            &["set-nsec3", "example.test", "1 0 0 -", "narrow"],
        ] {
            output(Command::new("pdnsutil").arg(&config).args(arguments));
        }
    }
    started(Command::new("pdns_server").arg(&config), port)
}
