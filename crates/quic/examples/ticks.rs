//! Tells each client the time, until it has heard enough. README.md shows its part that matters.

use forebay::clap;
use forebay::handler::sleep;
use forebay_quic::{Application, Connection};
use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Sends `tick 1`, `tick 2` and so on, each on a stream of its own.
#[derive(clap::Args)]
#[command(version)]
struct Ticks {
    /// Milliseconds between two ticks
    #[arg(long, default_value_t = 1_000)]
    every: u64,
}

impl Application for Ticks {
    fn protocols(&self) -> Vec<String> {
        vec!["ticks".into()]
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        for number in 1_u64.. {
            sleep(Duration::from_millis(self.every)).await;
            // Waits while the client allows no further stream, and ends with the connection.
            let Ok(mut send) = connection.open_uni().await else { return };
            let _ = send.write_all(format!("tick {number}").as_bytes()).await;
        }
    }
}

fn main() -> ExitCode {
    forebay_quic::serve(&[("listen", "127.0.0.1:4433")], |ticks: Ticks| Ok::<_, Infallible>(ticks))
}
