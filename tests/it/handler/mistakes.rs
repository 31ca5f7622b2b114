//! For each of the commonest mistakes of a handler's author, is there an error that names it?
//! Method: the compiler checks a small file for each mistake, against the library of these tests.
//! One mistake shows only at run time; there, this test binary is the server.

use support::prelude::*;

const MISTAKES: [(&str, &str, &str); 6] = [
    (
        "a closure without handler_fn",
        "pub fn f() { Server::for_tests(|_: Request<'_>, _: &mut Reply<'_>| {}); }",
        "serves no requests",
    ),
    (
        "a type without the trait",
        "struct Nothing; pub fn f() { Server::for_tests(Nothing); }",
        "`Nothing` serves no requests",
    ),
    (
        "state that is not shared",
        "pub struct Counting(std::cell::Cell<u64>);
         impl Handler for Counting { type Ticket = (); async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {} }",
        "`Cell<u64>` cannot be shared between threads safely",
    ),
    (
        "a value that cannot move, kept over an await",
        "pub struct Kept;
         impl Handler for Kept {
             type Ticket = ();
             async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {
                 let kept = std::rc::Rc::new(1); checkpoint().await; drop(kept);
             }
         }",
        "future returned by `handle` is not `Send`",
    ),
    (
        "a closure of one argument",
        "pub fn f() { Server::for_tests(handler_fn(|_: Request<'_>| {})); }",
        "closure is expected to take 2 arguments, but it takes 1 argument",
    ),
    (
        "a ticket that cannot move",
        "pub struct Named;
         impl Handler for Named {
             type Ticket = std::rc::Rc<str>;
             async fn handle(&self, _: Request<'_, std::rc::Rc<str>>, _: &mut Reply<'_>) {}
         }",
        "`Rc<str>` cannot be sent between threads safely",
    ),
];

/// The library that was built last; this test needs it.
fn library() -> PathBuf {
    let here = env::current_exe().expect("a path");
    let files = fs::read_dir(here.parent().expect("a folder")).expect("a folder").flatten();
    let is_it = |name: &str| name.starts_with("libforebay-") && name.ends_with(".rlib");
    let found = files.filter(|file| file.file_name().to_str().is_some_and(is_it));
    found.max_by_key(|file| file.metadata().and_then(|about| about.modified()).expect("a time")).expect("one").path()
}

#[test]
fn mistakes_are_named() {
    let library = library();
    let place = tempfile::tempdir().expect("a folder");
    at_once(MISTAKES.into_iter().enumerate(), |(number, (mistake, text, expected))| {
        let file = place.path().join(format!("m{number}.rs"));
        fs::write(&file, format!("#![allow(unused_imports)] use forebay::*; {text}")).expect("written");
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc
            .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "-L"])
            .arg(library.parent().expect("a folder"));
        rustc
            .arg("--extern")
            .arg(format!("forebay={}", library.display()))
            .arg("--out-dir")
            .arg(place.path())
            .arg(file);
        let output = rustc.output().expect("the compiler");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{mistake}: {said}");
    });
}

/// If this variable is set, this process is the server.
const SERVES: &str = "FOREBAY_TEST_LONG_REPLIES";

/// Allows long replies, but validates no address.
struct Long;

impl Handler for Long {
    type Ticket = ();

    fn admit(&self, _: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::default().reply_limit(100))
    }

    async fn handle(&self, _: Request<'_>, reply: &mut Reply<'_>) {
        let _ = reply.put(&[0; 100]);
    }
}

/// Writes longer replies than it allows, also where it refuses.
struct Overflowing;

impl Handler for Overflowing {
    type Ticket = ();

    async fn handle(&self, _: Request<'_>, reply: &mut Reply<'_>) {
        let _ = reply.put(&[0; 100]);
    }

    fn refuse(&self, _: Request<'_>, _: Unserved, reply: &mut Reply<'_>) {
        let _ = reply.put(&[0; 100]);
    }
}

/// Fails, and its answer to that is too long.
struct Refusing;

impl Handler for Refusing {
    type Ticket = ();

    async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {
        std::panic::resume_unwind(Box::new(()))
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        Overflowing.refuse(request, unserved, reply);
    }
}

#[test]
fn the_server_itself() {
    let Some(serves) = env::var_os(SERVES) else { return };
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    if serves == "refusing" {
        let server = Server::for_tests(Refusing);
        let socket = client_of(server.address);
        for _ in 0..3 {
            socket.send(b"ask").expect("the server's port is open");
        }
        assert_eq!(server.stop().expect("it ran").totals.fates.failed, 3);
        return;
    }
    let server = Server::for_tests(Long);
    let socket = client_of(server.address);
    for _ in 0..3 {
        socket.send(b"ask").expect("the server's port is open");
    }
    assert_eq!(server.stop().expect("it ran").totals.fates.shed_rate, 3);
    let server = Server::for_tests(Overflowing);
    let socket = client_of(server.address);
    for _ in 0..3 {
        socket.send(b"ask").expect("the server's port is open");
    }
    assert_eq!(server.stop().expect("it ran").totals.fates.failed, 3);
}

#[test]
fn replies_that_are_too_long_for_their_source_are_logged_once() {
    let (code, _, said) = ended(&mut this_as("handler::mistakes::the_server_itself", SERVES, "1"));
    assert_eq!((code, said.matches("write no more than Reply::room").count()), (Some(0), 1), "{said}");
    let why = "a reply is longer than the 3 bytes that its request of 3 bytes allows: nothing is sent (failed, reason overflow)";
    assert_eq!((said.matches(why).count(), said.matches("Admitted::reply_limit").count()), (1, 1), "{said}");
    let (code, _, said) = ended(&mut this_as("handler::mistakes::the_server_itself", SERVES, "refusing"));
    let why = "the 3 bytes that its request of 3 bytes allows: nothing is sent (an answer of refuse)";
    assert_eq!((code, said.matches(why).count()), (Some(0), 1), "{said}");
}
