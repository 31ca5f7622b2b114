//! Does a server outside this crate work as the README shows? Method: `examples/factors.rs` is
//! exactly the README's program; it runs as a child process.

use support::prelude::*;

/// 2^31 - 1, a prime: 46,340 divisions.
const LARGE_PRIME: &str = "2147483647";

fn start(flags: &[&str]) -> Forebay {
    let mut command = Command::new(example("factors"));
    Forebay::spawn(command.env_clear().args(["--listen", &listen(), "--admin", "127.0.0.1:0"]).args(flags))
}

// Does the README's question get the promised answer in each shell? Method: shells run its line
// with another port.
#[test]
fn the_readme_asks_as_written() {
    let server = start(&[]);
    let readme = include_str!("../../../README.md");
    let begin = readme.split_once("Ask it:\n\n```sh\n").expect("the question").1;
    let question = begin.lines().next().expect("a line");
    let place = "/127.0.0.1/9100;";
    assert!(question.contains(place) && readme.contains("(\"listen\", \"127.0.0.1:9100\")"), "{question}");
    let question = question.replace(place, &format!("/{}/{};", server.udp.ip(), server.udp.port()));
    for shell in ["sh", "bash", "zsh", "fish"] {
        match Command::new(shell).args(["-c", &question]).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "7", "{shell}: {output:?}"),
            Err(_) => skip(format_args!("{shell} is missing (Debian: zsh fish)")),
        }
    }
}

// Is an answer never a valid request, so two servers never answer each other? Method: each answer
// is sent back unchanged. If it were answered, that answer would come before the next one.
#[test]
fn the_readme_server_serves() {
    // No light request uses up this slice, however busy the machine, so a request moves only by its
    // own hop.
    let server = start(&["--policy=pools", "--pools=front=1,heavy=1", "--slice=1s", "--largest=4294967295"]);
    let socket = client_of(server.udp);
    for (question, answer) in [("2?", "2"), ("4?", "2"), ("91?", "7"), ("97?\n", "97"), ("1000003?", "1000003")] {
        assert_eq!(ask_from(&socket, question), answer, "{question}");
        socket.send(answer.as_bytes()).expect("sent");
    }
    assert_eq!(ask_from(&socket, format!("{LARGE_PRIME}?")), LARGE_PRIME);
    // Text without a number, or a number above the flag's limit, gets no answer. So the next answer
    // belongs to the next question.
    socket.send(b"how many?").expect("sent");
    socket.send(b"4294967296?").expect("sent");
    assert_eq!(ask_from(&socket, "15?"), "3");
    assert_eq!(quiescent(server.admin, 14), fates! { received: 14, answered: 7, no_reply: 7 });
    let text = page(server.admin, "/metrics");
    assert_eq!(metric(&text, "forebay_continuations_total{reason=\"hop\"}"), 1.0, "the large prime moved");
    assert_eq!(latency(server.admin)["policy"], "pools");
    let said = server.stop();
    assert!(said.contains("received 14, answered 7, no_reply 7\n"), "{said}");
}
