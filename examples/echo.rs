//! The smallest server: it answers `?text` with `!text`. An answer is never a valid request, so two
//! servers cannot answer each other for ever.
//!
//! `cargo run --example echo -- 127.0.0.1:9000`, and then
//! `printf '?hello' | nc -u -w1 127.0.0.1 9000`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]

use forebay::{Reply, Request, Server, handler_fn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9000".into());
    let echo = handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
        let Some(text) = request.bytes().strip_prefix(b"?") else { return };
        // A reply may be as long as its request.
        let _ = reply.put(b"!").and_then(|()| reply.put(text));
    });
    let server = Server::builder().set("listen", &address).bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&echo)?;
    Ok(())
}
