//! Replaces the endpoint in a program without feature `admin`.

use super::{Desk, Question};
use crate::metrics::Gauges;
use std::io;
use std::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// Empty, because there are no clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits;

impl ClientLimits {
    pub(crate) const DEFAULT: ClientLimits = ClientLimits;
}

/// Empty, because there are no pages.
pub(crate) trait Pages {}

impl<T> Pages for T {}

/// Empty, because nothing is recorded for pages.
#[derive(Default)]
pub(super) struct Flight<'m> {
    pub(super) capturing: Option<&'m ()>,
}

impl Desk<'_, '_> {
    pub(super) fn gauges(&self) -> Gauges {
        self.probe.gauges()
    }

    pub(super) fn look(&self) {}

    pub(super) fn look_at_capture(&self) {}
}

pub(super) mod http {
    use super::{ClientLimits, Question, TcpListener, io, mpsc, watch};

    /// Never accepts a connection, because there is no endpoint.
    pub(crate) async fn accept(
        _: Option<TcpListener>,
        _: mpsc::Sender<Question>,
        _: ClientLimits,
        _: watch::Receiver<bool>,
    ) -> io::Result<()> {
        std::future::pending().await
    }
}
