//! The datagram counts of client and server, compared.

use crate::endpoint::ServerView;
use schemars::JsonSchema;
use serde::Serialize;

/// The datagrams that a run sent and that its server received, warm-up included. Every datagram
/// sent is either received or dropped by the server's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Reconciled {
    /// Datagrams that the client's kernel took.
    pub client_sent: u64,
    /// Datagrams that the server received, by its own count.
    pub server_received: u64,
    /// Datagrams dropped at the server's sockets; `None` where the server cannot count them.
    pub server_kernel_dropped: Option<u64>,
    /// Datagrams sent, but neither received nor dropped; negative if the server counts more than
    /// were sent.
    pub unaccounted: i64,
}

impl Reconciled {
    /// Compares `client_sent` datagrams with the server's counts between `first` and `last`.
    pub(crate) fn of(client_sent: u64, first: &ServerView, last: &ServerView) -> Reconciled {
        let server_received = last.received().saturating_sub(first.received());
        let dropped = |view: &ServerView| view.kernel_dropped();
        let server_kernel_dropped = dropped(last).zip(dropped(first)).map(|(last, first)| last.saturating_sub(first));
        let accounted = server_received.saturating_add(server_kernel_dropped.unwrap_or(0));
        let unaccounted = client_sent.cast_signed().saturating_sub_unsigned(accounted);
        Reconciled { client_sent, server_received, server_kernel_dropped, unaccounted }
    }

    /// Why figures must not rest on these counts; `None` if every datagram is accounted for.
    pub(crate) fn objection(&self) -> Option<String> {
        let Reconciled { client_sent, server_received, server_kernel_dropped, unaccounted } = *self;
        let Some(dropped) = server_kernel_dropped else {
            return Some(format!(
                "what the server's kernel dropped is not known: the server cannot tell, and it received {server_received} \
                 of {client_sent} datagrams"
            ));
        };
        match unaccounted {
            0 => None,
            1.. => Some(format!(
                "{unaccounted} datagrams are unaccounted for: {client_sent} were sent, the server received \
                 {server_received}, and its kernel dropped {dropped} at its sockets"
            )),
            ..0 => Some(format!(
                "the server had {} datagrams more than the {client_sent} of this run, so that nobody can tell whether any \
                 of these were lost: keep others away from it, or leave --admin out",
                unaccounted.unsigned_abs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn server(received: u64, kernel_dropped: impl Into<Value>) -> ServerView {
        ServerView { body: json!({"fates": {"received": received, "kernel_dropped": kernel_dropped.into()}}) }
    }

    #[test]
    fn drops_that_cannot_be_told_are_not_zero() {
        for (first, last) in [(json!(0), Value::Null), (Value::Null, json!(0)), (Value::Null, Value::Null)] {
            let reconciled = Reconciled::of(100, &server(0, first), &server(100, last));
            assert_eq!(reconciled.server_kernel_dropped, None);
            assert!(reconciled.objection().is_some_and(|objection| objection.contains("dropped is not known")));
        }
    }
}
