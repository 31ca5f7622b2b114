//! The hooks that [`Handler`](super::Handler) and [`Service`](super::Service) share: what they
//! mean, and their defaults.

/// The shared items of the two traits.
///
/// A trait above both would hold them too, but every type would then have a second `impl`, if only
/// to name its ticket.
macro_rules! hooks {
    () => {
        /// Data that `admit` stores with the request until it ends: a number to echo, the parsed
        /// message, an `Option<Arc<..>>`. `()` stores nothing. However the request ends, its worker
        /// drops the ticket and puts the default in its place. So the default must cost nothing. A
        /// ticket without a destructor stays in its place.
        type Ticket: Default + Send + Sync;

        /// The names of the classes in metrics. Each name begins with a letter, and has only
        /// letters, digits and `_`. All are different, and none is `all`.
        /// [`Server::run`](crate::server::Server::run) checks them.
        const CLASS_NAMES: [&'static str; CLASSES] = fate::CLASS_NAMES;

        /// The names in metrics of the handler's own reasons to reject a request, at most
        /// [`REASONS`](fate::REASONS). [`Rejected::because`] takes an index into this list. Each
        /// name begins with a letter, and has only letters, digits and `_`. All are different, and
        /// none is a reason of the server ([`fate::Malformed`], [`fate::Refused`]).
        /// [`Server::run`](crate::server::Server::run) checks them.
        const REASON_NAMES: &'static [&'static str] = &[];

        /// Decides whether to serve a datagram. Called once per datagram, before it is queued. By
        /// default it is admitted in class 0.
        ///
        /// # Errors
        /// A [`Rejected`] if the datagram will not be served. Its variant decides whether the
        /// client is answered.
        fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Self::Ticket>, Rejected<Self::Ticket>> {
            let _ = arrival;
            Ok(Admitted::default())
        }

        /// Writes the answer to a request that was not served. An empty answer is not sent. The
        /// answer may be as long as the request; a validated sender may get more, see
        /// [`Admitted::reply_limit`]. If this method panics or overflows the reply, nothing is
        /// sent. With `--shed-answers silence`, the server does not call it for shed requests.
        fn refuse(&self, request: Request<'_, Self::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
            let _ = (request, unserved, reply);
        }

        /// Adds data to a finished reply that only the server knows, such as its times. Called for
        /// each datagram of the reply, in order, with the bytes of that datagram.
        fn seal(&self, request: Request<'_, Self::Ticket>, served: &Served, reply: &mut [u8]) {
            let _ = (request, served, reply);
        }
    };
}

pub(super) use hooks;
