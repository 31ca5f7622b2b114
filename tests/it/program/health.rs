//! Does `--check-health` tell whether the server with the same settings is healthy? Method: the
//! built binary asks servers that run, that have ended, and that report being stuck.

use support::prelude::*;

/// The exit code of a check of `admin`, and its output.
fn checked(admin: SocketAddr) -> (Option<i32>, String) {
    let mut command = FOREBAY.command("serve --check-health");
    // A check must not use a proxy.
    let command = command.env("FOREBAY_ADMIN", admin.to_string()).env("http_proxy", "http://127.0.0.1:1");
    let output = command.output().expect("it starts");
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
}

// Is a server healthy that listens on one address or on all of them, and not healthy after it has
// ended?
#[test]
fn a_server_that_runs_is_well() {
    for all in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let server = Forebay::start(&["--workers", "1", "--admin", all]);
        let admin = server.admin;
        assert_eq!(checked(admin), (Some(0), "ok\n".to_owned()), "{all}");
        server.stop();
        let (code, said) = checked(admin);
        assert!(code == Some(1) && said.starts_with(&format!("forebay: http://{admin}/healthz: ")), "{said}");
    }
}

#[test]
fn the_reason_of_a_503_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let admin = listener.local_addr().expect("bound");
    let answering = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let _ = client.read(&mut [0; 4_096]).expect("a question");
        let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 6\r\nconnection: close\r\n\r\nstuck\n";
        client.write_all(answer.as_bytes()).expect("sent");
    });
    let said = format!("forebay: http://{admin}/healthz: 503 Service Unavailable: stuck\n");
    assert_eq!(checked(admin), (Some(1), said));
    answering.join().expect("it answered");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    FOREBAY.assert_refused(
        "
serve --check-health --admin off => --check-health needs admin; allowed: an address with a port, not 0
serve --check-health --admin 127.0.0.1:0 => --check-health needs admin; allowed: an address with a port, not 0
serve --check-health --check-config => cannot be used with
serve --check-health --workers 0 => workers = \"0\" (flag",
    );
}
