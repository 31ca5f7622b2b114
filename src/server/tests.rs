//! Behaviour of a server when a part of it fails, or when the system grants less than it asks for.

use super::listening::small_buffers;
use super::*;
use crate::handler::{Reply, Request, handler_fn};
use crate::net::{RECV_BUFFER_BYTES, SEND_BUFFER_BYTES};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// A bound far above the duration of any test here.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// Does a server whose admin endpoint has failed end, and say why, instead of running blind? Method: in place of the
/// admin listener a file whose readiness cannot be awaited.
#[test]
fn a_dead_admin_endpoint_ends_the_server() {
    let config = Config::from_pairs([("listen", "127.0.0.1:0"), ("admin", "127.0.0.1:0"), ("workers", "1")]);
    let mut server = Server::bind(&config.expect("a configuration")).expect("free ports");
    server.bound.listening.admin = Some(OwnedFd::from(File::open("/dev/null").expect("there is one")).into());
    let (end, ended) = channel();
    thread::spawn(move || drop(end.send(server.run(&handler_fn(|_: Request<'_>, _: &mut Reply<'_>| {})).map(drop))));
    match ended.recv_timeout(GIVE_UP_AFTER).expect("it ends") {
        Err(ServeError::Admin(reason)) => assert!(reason.contains("not permitted"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Is each buffer that is too small named with the setting in deploy/sysctl, and no other?
#[test]
fn small_buffers_name_their_sysctl() {
    let deployed = include_str!("../../deploy/sysctl/60-forebay.conf");
    assert!(small_buffers(RECV_BUFFER_BYTES, SEND_BUFFER_BYTES).is_empty());
    for (receive, send, sysctl, wanted) in [
        (212_992, SEND_BUFFER_BYTES, "net.core.rmem_max", RECV_BUFFER_BYTES),
        (RECV_BUFFER_BYTES, 212_992, "net.core.wmem_max", SEND_BUFFER_BYTES),
    ] {
        let small = small_buffers(receive, send);
        assert_eq!(small.len(), 1, "{small:?}");
        assert!(small[0].contains("buffer of 212992 bytes"), "{small:?}");
        assert!(small[0].contains(&format!("`sysctl {sysctl}={wanted}`")), "{small:?}");
        assert!(deployed.contains(&format!("\n{sysctl} = {wanted}\n")), "{sysctl}");
    }
}
