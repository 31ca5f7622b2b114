//! In place of the endpoint, in a program without its code.

use super::{Desk, Question};
use crate::metrics::Gauges;
use std::io;
use std::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// Bounds on clients: there are none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits;

impl Limits {
    pub(crate) const DEFAULT: Limits = Limits;
}

/// The pages' view of their server.
pub(crate) trait Pages {}

impl<T> Pages for T {}

/// What is recorded for pages: nothing.
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
    use super::{Limits, Question, TcpListener, io, mpsc, watch};

    /// Accepts nothing.
    pub(crate) async fn accept(
        _: Option<TcpListener>,
        _: mpsc::Sender<Question>,
        _: Limits,
        _: watch::Receiver<bool>,
    ) -> io::Result<()> {
        std::future::pending().await
    }
}
