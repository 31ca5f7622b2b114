//! Handlers behind one type (type erasure). A server is compiled for each type of handler: with
//! thirty types, a test crate took four minutes of CPU time to compile. The future of each request
//! is boxed.

use forebay::fate::{CLASS_NAMES, CLASSES};
use forebay::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Served, Unserved};
use std::future::Future;
use std::pin::Pin;

/// A handler whose tickets are `T`.
pub struct Erased<T>(Box<dyn Erasable<T> + Send>);

impl<T> Erased<T> {
    /// Erases the type of `handler`. The handler may not have names of its own, because names
    /// belong to its type.
    pub fn new<H: Handler<Ticket = T> + Send + 'static>(handler: H) -> Erased<T> {
        let is_nameless = H::REASON_NAMES.is_empty() && H::CLASS_NAMES == CLASS_NAMES;
        assert!(is_nameless, "a handler with names of its own is started by `Running::on`");
        Erased(Box::new(handler))
    }
}

trait Erasable<T>: Sync {
    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<T>, Rejected<T>>;
    fn handle<'r>(
        &'r self,
        request: Request<'r, T>,
        reply: &'r mut Reply<'_>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'r>>;
    fn refuse(&self, request: Request<'_, T>, unserved: Unserved, reply: &mut Reply<'_>);
    fn seal(&self, request: Request<'_, T>, served: &Served, reply: &mut [u8]);
}

impl<H: Handler> Erasable<H::Ticket> for H {
    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<H::Ticket>, Rejected<H::Ticket>> {
        Handler::admit(self, arrival)
    }

    fn handle<'r>(
        &'r self,
        request: Request<'r, H::Ticket>,
        reply: &'r mut Reply<'_>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'r>> {
        Box::pin(Handler::handle(self, request, reply))
    }

    fn refuse(&self, request: Request<'_, H::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
        Handler::refuse(self, request, unserved, reply);
    }

    fn seal(&self, request: Request<'_, H::Ticket>, served: &Served, reply: &mut [u8]) {
        Handler::seal(self, request, served, reply);
    }
}

impl<T: Default + Send + Sync> Handler for Erased<T> {
    type Ticket = T;

    const CLASS_NAMES: [&'static str; CLASSES] = CLASS_NAMES;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<T>, Rejected<T>> {
        self.0.admit(arrival)
    }

    async fn handle(&self, request: Request<'_, T>, reply: &mut Reply<'_>) {
        self.0.handle(request, reply).await;
    }

    fn refuse(&self, request: Request<'_, T>, unserved: Unserved, reply: &mut Reply<'_>) {
        self.0.refuse(request, unserved, reply);
    }

    fn seal(&self, request: Request<'_, T>, served: &Served, reply: &mut [u8]) {
        self.0.seal(request, served, reply);
    }
}
