//! Can a program contain a server: without an endpoint, with metrics through the library, on
//! sockets that the program has bound? Does such a build leave out crates that only the program
//! `forebay` needs?

use forebay::config::PolicyName;
use support::place::shared_socket as bound;
use support::prelude::*;

fn assert_echoes(server: SocketAddr) {
    assert_eq!(ask_from(&client_of(server), "forebay"), "forebay");
}

// Does a server without an endpoint serve? Does the program get its metrics, as numbers and as both
// texts, while it runs?
#[test]
fn measurements_without_an_endpoint() {
    let builder = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(2);
    let bound = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).bind().expect("free ports");
    assert_eq!(bound.admin_address(), None);
    assert_eq!(bound.announcement(), format!("listening on udp {}, admin off", bound.udp_address()));
    let unused = bound.metrics();
    drop(bound);
    assert!(unused.snapshot().is_none(), "it has never run");

    let server = Running::on(builder.bind().expect("free ports"), Erased::new(handler_fn(echo)));
    assert_echoes(server.udp);
    // A reply is counted once it is sent.
    let answered = || server.measured.snapshot().is_some_and(|snapshot| snapshot.fates.of(Fate::Answered) == 1);
    await_until(answered, "the answer was never counted");
    let snapshot = server.measured.snapshot().expect("it runs");
    assert_eq!((snapshot.fates.received, snapshot.gauges.description.workers), (1, 2));
    assert!(snapshot.to_json().contains("\"answered\":1"), "{}", snapshot.to_json());
    let text = snapshot.to_prometheus(forebay::metrics::Format::Classic);
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("forebay_datagrams_received_total 1\n"), "{text}");
    let metrics = server.measured.clone();
    assert_eq!(server.stop().totals.fates.answered, 1);
    assert!(metrics.snapshot().is_none(), "it has ended");
}

// Does a server for tests run until it is stopped or dropped?
#[test]
fn a_server_for_tests_is_one_line() {
    let server = Server::for_tests(handler_fn(echo));
    assert_echoes(server.address);
    assert_eq!(server.stop().expect("it ran").totals.fates.answered, 1);
    let held = Arc::new(());
    let handler = {
        let held = Arc::clone(&held);
        move |request: Request<'_>, reply: &mut Reply<'_>| {
            let _ = &held;
            echo(request, reply);
        }
    };
    drop(Server::for_tests(handler_fn(handler)));
    assert_eq!(Arc::strong_count(&held), 1, "it has ended with its handler");
}

// Does a server serve on sockets of several addresses, given in any order, and report missing ones?
#[test]
fn sockets_of_several_addresses() {
    let [one, other] = [([127, 0, 0, 1], 0), ([127, 0, 0, 2], 0)].map(|address| bound(address.into()));
    let [first, second] = [&one, &other].map(|socket| socket.local_addr().expect("it is bound"));
    let sockets = vec![one, bound(first), other, bound(second)];
    let swapped = Server::builder().admin(None).sockets(sockets).listen_all([second, first]);
    let server = swapped.bind().expect("they are those that are asked for");
    assert_eq!(server.udp_addresses(), [second, first]);
    assert_eq!(server.announcement(), format!("listening on udp {second},{first}, admin off"));
    let server = Running::on(server, Erased::new(handler_fn(echo)));
    (0..20).for_each(|_| [first, second].into_iter().for_each(assert_echoes));
    assert_eq!(server.stop().totals.fates.answered, 40);

    let refused = |sockets: Vec<SocketAddr>, listen: &[SocketAddr]| {
        let sockets = sockets.into_iter().map(bound).collect();
        let builder = Server::builder().admin(None).sockets(sockets).workers(1).listen_all(listen.iter().copied());
        builder.bind().expect_err("they do not fit").to_string()
    };
    let said = refused(vec![first, second, first], &[first, second]);
    let expected =
        format!("workers 1, and 3 UDP sockets: 2 at {first}, 1 at {second}; allowed: a worker for each socket");
    assert!(said.contains(&expected), "{said}");
    let few = Server::builder().admin(None).sockets(vec![bound(first)]).workers(2).bind();
    assert_eq!(few.expect("the server opens the other one").udp_addresses(), [first]);
    let said = refused(vec![first], &[first, second]);
    assert!(
        said.contains(&format!("allowed: {first}, which the UDP sockets are bound to; none at {second}")),
        "{said}"
    );
    let said = refused(vec![first, second], &[first]);
    assert!(said.contains(&format!("--listen {first}; allowed: {first},{second}, which the UDP")), "{said}");
}

// Is a hand-over refused if the server has no endpoint for the successor?
#[test]
fn a_hand_over_takes_an_endpoint() {
    let refused = Server::builder().admin(None).set("handover", "/tmp/forebay-none").bind().expect_err("no endpoint");
    let text = refused.to_string();
    assert!(text.contains("handover") && text.contains("allowed: handover off, or an address for admin"), "{text}");
}

// Without features for programs, does the library have at most 40 crates, itself and its layers as
// one? Are the numbers of crates those of the pages?
#[test]
fn the_library_alone_is_small() {
    let crates = |features: &[&str]| {
        let tree = ["tree", "--package", "forebay", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
        let text = cargo(&[&tree[..], features].concat());
        let mut crates: Vec<String> =
            text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        crates.retain(|name| !name.is_empty());
        crates.sort_unstable();
        crates.dedup();
        crates
    };
    let alone = crates(&["--no-default-features"]);
    let others = alone.iter().filter(|name| !name.starts_with("forebay-")).count();
    assert!(alone.contains(&"tokio".to_owned()) && others <= 40, "{others}: {alone:?}");
    let (alone, all) = (alone.len(), crates(&[]).len());
    let admin = crates(&["--no-default-features", "--features", "admin"]).len();
    let page = include_str!("../../../src/handler/README.md").replace('\n', " ");
    for said in [format!("{alone} crates instead of {all}."), format!("systemd's sockets: {admin} crates.")] {
        assert!(page.contains(&said), "src/handler/README.md shall say: {said}");
    }
    assert!(include_str!("../../../README.md").contains("[fewer than half the crates]") && 2 * alone < all);
}

// Does an error that `main` returns print as text, and not as its fields?
#[test]
fn errors_print_as_text() {
    fn assert_text(error: Result<(), impl std::error::Error>) {
        let error = error.expect_err("it fails");
        assert_eq!(format!("{error:?}"), error.to_string());
    }
    assert_text(Config::from_pairs([("workers", "0")]).map(drop));
    assert_text("polls".parse::<PolicyName>().map(drop));
    let config = Config::from_pairs([("listen", "192.0.2.1:9"), ("admin", "off")]).expect("a configuration");
    assert_text(Server::bind(&config).map(drop));
    assert_text("1".parse::<Nanos>().map(drop));
}
