//! Hashes passwords over HTTP/3: light and heavy requests on the same connections. README.md shows
//! how to run it.

use bytes::Bytes;
use forebay::{Admitted, checkpoint, clap};
use forebay_http3::{PROTOCOL, Stream, configure};
use forebay_quic::connection::Unserved;
use forebay_quic::quinn_proto::TransportConfig;
use forebay_quic::{Application, Connection};
use http::{Request, Response, StatusCode};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const PAGE: &str = "<!doctype html><title>Hashes</title><p>Ask for <a href=\"/hash/secret\">/hash/secret</a>.\n";

/// Shows a page at `/`, and at `/hash/PASSWORD` a hash of the password, which takes long.
#[derive(clap::Args)]
#[command(version)]
struct Hashes {
    /// Rounds of SHA-256 for each hash
    #[arg(long, default_value_t = 600_000)]
    rounds: u32,
}

impl Application for Hashes {
    fn protocols(&self) -> Vec<String> {
        vec![PROTOCOL.to_owned()]
    }

    fn configure(&self, limits: &mut TransportConfig) {
        configure(limits);
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        let on = connection.clone();
        forebay_http3::serve(&connection, move |request, stream| answer(self.rounds, on.clone(), request, stream))
            .await;
    }
}

async fn answer(rounds: u32, connection: Connection, request: Request<()>, mut stream: Stream) {
    let (status, body) = match (request.uri().path(), request.uri().path().strip_prefix("/hash/")) {
        ("/", _) => (StatusCode::OK, PAGE.to_owned()),
        (_, Some(password)) => {
            // Class 2 is the first that packets do not have.
            let admitted = Admitted::new(()).class(2).deadline(Duration::from_secs(5)).validated(true);
            match connection.begin(admitted, hash(password.to_owned(), rounds)).await {
                Ok(hash) => (StatusCode::OK, hash),
                Err(Unserved::As(_)) => (StatusCode::SERVICE_UNAVAILABLE, "too much to do; try again\n".to_owned()),
                Err(Unserved::ConnectionLost(_)) => return,
            }
        }
        _ => (StatusCode::NOT_FOUND, "there is no such page\n".to_owned()),
    };
    let response = Response::builder().status(status).header("content-type", "text/html").body(());
    // A client that has gone misses nothing.
    if stream.send_response(response.expect("it is valid")).await.is_ok() {
        let _ = stream.send_data(Bytes::from(body)).await;
        let _ = stream.finish().await;
    }
}

/// Rounds of SHA-256 stand for a hash with checkpoints. One without, such as Argon2's, belongs in
/// `forebay::handler::aside`.
async fn hash(password: String, rounds: u32) -> String {
    let mut hash = Sha256::digest(password);
    for round in 1..rounds {
        hash = Sha256::digest(hash);
        if round % 100 == 0 {
            checkpoint().await; // lets other requests run, also those of the same connection
        }
    }
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn main() -> ExitCode {
    forebay_quic::serve(&[("listen", "127.0.0.1:4433")], |hashes: Hashes| Ok::<_, Infallible>(hashes))
}
