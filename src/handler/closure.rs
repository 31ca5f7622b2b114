//! Handlers that call a closure.

use super::{Handler, Reply, Request};

/// A handler that calls a closure; [`handler_fn`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct HandlerFn<C>(C);

/// A handler that calls `serve` for each request. Use it for cheap requests only: a closure has no
/// checkpoint at which a policy could take the worker back.
///
/// ```no_run
/// use forebay::config::Config;
/// use forebay::handler::{Reply, Request, handler_fn};
/// use forebay::server::Server;
///
/// let config = Config::from_pairs([("listen", "127.0.0.1:9000")])?;
/// // "?abc" is answered with "!cba", which is no request: a server that is sent it says nothing.
/// let reversed = handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
///     let Some(text) = request.bytes().strip_prefix(b"?") else { return };
///     let answer = [b'!'].into_iter().chain(text.iter().rev().copied());
///     answer.for_each(|byte| reply.put(&[byte]).expect("it is as long as the request"));
/// });
/// Server::bind(&config)?.run(&reversed)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn handler_fn<C>(serve: C) -> HandlerFn<C>
where
    C: Fn(Request<'_>, &mut Reply<'_>) + Sync,
{
    HandlerFn(serve)
}

impl<C> Handler for HandlerFn<C>
where
    C: Fn(Request<'_>, &mut Reply<'_>) + Sync,
{
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        (self.0)(request, reply);
    }
}
