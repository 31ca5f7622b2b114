//! Handlers behind references.

use super::{Admitted, Arrival, Handler, Rejected, Reply, Request, Served, Unserved};
use crate::fate::CLASSES;
use std::future::Future;
use std::sync::Arc;

/// Every method calls that of the handler behind the pointer.
macro_rules! forwards {
    ($(<$($life:lifetime)?> $pointer:ty),+) => { $(
        impl<$($life,)? H: Handler + ?Sized> Handler for $pointer
        where
            $pointer: Sync,
        {
            type Ticket = H::Ticket;

            const CLASS_NAMES: [&'static str; CLASSES] = H::CLASS_NAMES;

            const REASON_NAMES: &'static [&'static str] = H::REASON_NAMES;

            fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<H::Ticket>, Rejected<H::Ticket>> {
                (**self).admit(arrival)
            }

            fn handle(
                &self,
                request: Request<'_, H::Ticket>,
                reply: &mut Reply<'_>,
            ) -> impl Future<Output = ()> + Send {
                (**self).handle(request, reply)
            }

            fn refuse(&self, request: Request<'_, H::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
                (**self).refuse(request, unserved, reply);
            }

            fn seal(&self, request: Request<'_, H::Ticket>, served: &Served, reply: &mut [u8]) {
                (**self).seal(request, served, reply);
            }
        }
    )+ };
}

forwards!(<'h> &'h H, <> Arc<H>);
