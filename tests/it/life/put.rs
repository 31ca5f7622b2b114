//! Does a client change the policy and the log level of a running server by PUT, until SIGHUP? Who may change nothing?
//! Method: the built binary, a file, and requests by HTTP.

use crate::support::prelude::*;

const FILE: &str = "policy = \"steal\"\nclassify = \"header\"\nmax-wait = \"off\"\n";
const UNTIL: &str = "in force until SIGHUP or the next PUT\n";

#[track_caller]
fn taken(admin: SocketAddr, path: &str, value: &str) {
    let reply = put(admin, path, "", value);
    assert_eq!((reply.status, &*reply.body), (200, UNTIL), "{path} {value}");
}

// Does /config say which policy is in force, and why? `switch.rs` asks what becomes of requests meanwhile.
#[test]
fn a_put_lasts_until_the_configuration_is_read() {
    let running = Configured::start(FILE);
    let (udp, admin) = (running.server.udp, running.server.admin);
    let in_force = |value: &str, origin: &str| {
        assert_eq!(latency(admin)["policy"], value);
        let (policy, came_from) = running.setting("policy");
        assert!(policy == value && came_from.contains(origin), "{policy} by {came_from}, not {value} by {origin}");
        assert_eq!(status_at(udp), Status::Ok, "{value}");
    };
    for policy in policies() {
        taken(admin, "/policy", policy);
        in_force(policy, "PUT");
    }
    let changed = running.reload(FILE)["changed"].clone();
    assert_eq!(changed, serde_json::json!(["policy"]));
    in_force("steal", "forebay.toml line 1");
    let asked = policies().count() + 1;
    let said = running.server.stop();
    assert!(said.starts_with(&format!("received {asked}, answered {asked}\n")), "{said}");
}

#[test]
fn a_client_puts_the_level_of_the_log() {
    let running = Configured::start("handler = \"echo\"\n");
    let admin = running.server.admin;
    let line =
        |policy: &str| format!("policy = {policy}, by PUT until the configuration is read again peer=127.0.0.1:");
    taken(admin, "/log", "warn");
    assert_eq!(running.setting("log-level"), ("warn".to_owned(), "PUT".to_owned()));
    taken(admin, "/policy", "global");
    taken(admin, "/log", "debug");
    taken(admin, "/policy", "levels");
    // The log has a thread of its own.
    await_until(|| running.log().contains(&line("levels")), "the log is silent");
    assert!(!running.log().contains(&line("global")), "{}", running.log());
    taken(admin, "/log", "off");
    running.reload("handler = \"echo\"\n");
    assert_eq!(running.setting("log-level"), ("info".to_owned(), "default".to_owned()));
    await_until(|| running.log().contains("the configuration has been read again"), "the log is still off");
    running.server.stop();
}

// `src/config/reload.rs` has every wrong value, and `src/server/admin/tests.rs` every client that may not ask.
#[test]
fn what_is_wrong_changes_nothing() {
    let running = Configured::start("policy = \"steal\"\n");
    let (admin, before) = (running.server.admin, running.config());
    for (path, value, part) in [
        ("/policy", "polls", "policy = \"polls\" (PUT): no such name, did you mean pools?"),
        ("/policy", "reserve", " with classify = \"none\" (running)"),
        ("/log", "", "log-level = \"\" (PUT): no such name"),
    ] {
        let reply = put(admin, path, "", value);
        assert!(reply.status == 400 && reply.body.contains(part), "{reply:?}");
    }
    assert_eq!(put(admin, "/policy", "origin: http://evil.example\r\n", "global").status, 403);
    assert_eq!(running.config(), before);
    running.server.stop();
}

#[test]
fn a_log_that_others_direct_keeps_its_level() {
    let (program, _) = run_scripted(&[("policy", "steal"), ("workers", "2")]);
    let reply = put(program.admin, "/policy", "", "global");
    assert_eq!((reply.status, &*reply.body), (200, "in force until the next PUT\n"));
    let config = config(program.admin);
    let origins = ["policy", "log-level"].map(|key| &config["settings"][key]["origin"]);
    assert_eq!(origins, ["PUT", "code"]);
    let server = Forebay::spawn(serve(&[]).env("RUST_LOG", "info"));
    for admin in [program.admin, server.admin] {
        let reply = put(admin, "/log", "", "debug");
        assert!(reply.status == 400 && reply.body.starts_with("log-level has no effect: RUST_LOG, "), "{reply:?}");
    }
}

// Method: in a network of its own this host has an address that is not a loopback one.
#[test]
fn another_host_needs_the_token() {
    if !in_own_network("life::put::another_host_needs_the_token") {
        return;
    }
    lonely_device();
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), "s3cret\n").expect("written");
    let path = file.path().to_str().expect("text");
    let start = |token_file| {
        let server = Forebay::start(&["--admin", "0.0.0.0:0", "--admin-token-file", token_file]);
        let elsewhere = SocketAddr::from((HERE, server.admin.port()));
        (server, elsewhere)
    };
    let (server, elsewhere) = start(path);
    let refused = ["", "authorization: Bearer wrong\r\n", "authorization: Bearer off\r\n"];
    for headers in refused {
        let reply = put(elsewhere, "/policy", headers, "global");
        assert!(reply.status == 403 && reply.body.starts_with("allowed: from this host, or "), "{reply:?}");
    }
    assert_eq!(latency(elsewhere)["policy"], "auto");
    assert_eq!(put(elsewhere, "/policy", "authorization: Bearer s3cret\r\n", "global").status, 200);
    assert_eq!(latency(elsewhere)["policy"], "global");
    taken(SocketAddr::from(([127, 0, 0, 1], server.admin.port())), "/policy", "steal");
    let (_server, elsewhere) = start("off");
    for headers in refused.into_iter().chain(["authorization: Bearer s3cret\r\n"]) {
        assert_eq!(put(elsewhere, "/policy", headers, "global").status, 403, "{headers}");
    }
}
