//! Whole programs around an application, or around a handler with two doors.

use crate::application::Application;
use crate::arguments::{Both, ConnectionArguments, QuicArguments};
use crate::doors::Doors;
use forebay::server::Server;
use forebay::{Handler, clap};
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs a complete program around an application, as [`forebay::main`] does.
///
/// - `A` holds the settings that the program adds to those of Forebay and of QUIC, and `defaults`
///   replace defaults of settings.
/// - `make` makes the application.
///
/// Datagrams of one connection that come at once are one event (`--io gro`), unless `defaults` say
/// otherwise.
///
/// ```no_run
/// use forebay_quic::{Application, Connection};
/// use std::convert::Infallible;
/// use std::process::ExitCode;
/// use std::sync::Arc;
///
/// struct Nothing;
///
/// impl Application for Nothing {
///     fn protocols(&self) -> Vec<String> {
///         vec!["nothing".into()]
///     }
///
///     async fn serve(self: Arc<Self>, connection: Connection) {
///         connection.closed().await;
///     }
/// }
///
/// fn main() -> ExitCode {
///     forebay_quic::serve(&[("listen", "127.0.0.1:4433")], |()| Ok::<_, Infallible>(Nothing))
/// }
/// ```
///
/// Returns the exit code, as [`forebay::main`].
pub fn serve<A, P, E>(defaults: &[(&str, &str)], make: impl FnOnce(A) -> Result<P, E>) -> ExitCode
where
    A: clap::Args,
    P: Application,
    E: Into<Box<dyn Error>>,
{
    let defaults = [&[("io", "gro"), ("datagram-max", "16384")], defaults].concat();
    forebay::main(&defaults, |Both { own, quic }: Both<A, ConnectionArguments>, bind| -> Result<_, Box<dyn Error>> {
        let application = make(own).map_err(|error| -> Box<dyn Error> { error.into() })?;
        let certificate = quic.certificate().map_err(whole)?;
        let service = quic.service(&certificate, Arc::new(application)).map_err(whole)?;
        let reload =
            move |Both { quic, .. }: Both<A, ConnectionArguments>| quic.read_again(&certificate).map_err(whole);
        let server = service.counts.shown(bind()?.on_reload(reload))?;
        Ok(server.run(&service)?)
    })
}

/// Runs a complete program around a handler, as [`forebay::main`] does, with one more door. With
/// `--quic`, one of the addresses of `--listen`, clients reach the handler there over QUIC. Each
/// bidirectional stream is one request: the client sends it and finishes its side, and the server
/// answers and finishes its own. Requests of both doors run under one policy. They have the same
/// classes, fates and reasons.
///
/// - `A` holds the settings that the program adds, and `defaults` replace defaults of settings.
/// - `make` makes the handler.
///
/// A stream is reset if its request gets no answer: with the number of the
/// [`Status`](forebay::fate::Status), or with 1 for a malformed or ignored request. Classes 6 and 7
/// count packets, together with requests of the handler that have these classes. Datagrams are not
/// joined (`--io gro`), and no router fragments long replies.
///
/// Returns the exit code, as [`forebay::main`].
pub fn main<A, H, E>(defaults: &[(&str, &str)], make: impl FnOnce(A) -> Result<H, E>) -> ExitCode
where
    A: clap::Args,
    H: Handler + Send + 'static,
    E: Into<Box<dyn Error>>,
{
    forebay::main(defaults, |Both { own, quic }: Both<A, QuicArguments>, bind| -> Result<_, Box<dyn Error>> {
        let handler = Arc::new(make(own).map_err(|error| -> Box<dyn Error> { error.into() })?);
        let certificate = quic.door.certificate().map_err(whole)?;
        let Some((asked, certificate)) = quic.door.address().zip(certificate) else {
            return Ok(bind()?.run(&*handler)?);
        };
        let service = quic.service(&certificate, &handler).map_err(whole)?;
        let reload = move |Both { quic, .. }: Both<A, QuicArguments>| quic.door.read_again(&certificate).map_err(whole);
        let server = service.counts.shown(bind()?.on_reload(reload))?;
        let at = address_of(&server, asked)?;
        Ok(server.run(&Doors::new(handler, service, at))?)
    })
}

/// An error and its causes, in one line.
#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn whole(error: anyhow::Error) -> String {
    format!("{error:#}")
}

/// The address of the server at which QUIC is asked for. A port that the system chose is not known
/// before.
fn address_of(server: &Server, asked: SocketAddr) -> Result<SocketAddr, String> {
    let all = server.udp_addresses();
    let fits = |bound: &&SocketAddr| **bound == asked || asked.port() == 0 && bound.ip() == asked.ip();
    let bound = all.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    all.iter().find(fits).copied().ok_or_else(|| format!("--quic {asked}; allowed: an address of --listen, {bound}"))
}
