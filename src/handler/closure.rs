//! Plain closures, for what is cheap and simple.

use super::{Handler, Reply, Request};

/// A closure serves requests that are cheap: it has no checkpoints, so nothing can take its worker from it.
///
/// ```no_run
/// use forebay::config::Config;
/// use forebay::handler::{Reply, Request};
/// use forebay::server::Server;
///
/// let config = Config::from_pairs([("listen", "127.0.0.1:9000")])?;
/// let reversed = |request: Request<'_>, reply: &mut Reply<'_>| {
///     request.bytes().iter().rev().for_each(|byte| {
///         reply.put(&[*byte]);
///     });
/// };
/// Server::bind(&config)?.run(&reversed)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<C> Handler for C
where
    C: Fn(Request<'_>, &mut Reply<'_>) + Sync,
{
    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        self(request, reply);
    }
}
