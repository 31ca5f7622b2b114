//! [`Builder`]: builds a server from settings in code.

use super::error::ServeError;
use super::listening::InheritedSockets;
use super::serve::Server;
use crate::config::{Config, FREE_ADMIN, listen_text};
use crate::net::by_address;
use std::net::{SocketAddr, UdpSocket};

/// Collects the settings of a server. [`Builder::bind`] checks all of them at once. A setting that
/// you do not set has its default.
///
/// ```
/// use forebay::{Reply, Request, Server, handler_fn};
///
/// let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).workers(2).set("policy", "levels").bind()?;
/// # server.stop_handle().stop();
/// server.run(&handler_fn(|_: Request<'_>, _: &mut Reply<'_>| {}))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder {
    settings: Vec<(String, String)>,
    sockets: Vec<UdpSocket>,
}

impl Builder {
    /// Sets the address where requests arrive; port 0 takes a free port.
    pub fn listen(self, address: SocketAddr) -> Builder {
        self.listen_all([address])
    }

    /// Sets several addresses where requests arrive. Every worker has a socket on each of
    /// `addresses`.
    pub fn listen_all(self, addresses: impl IntoIterator<Item = SocketAddr>) -> Builder {
        self.set("listen", &listen_text(&Vec::from_iter(addresses)))
    }

    /// Sets the HTTP address for metrics, latency and health; port 0 takes a free port. With `None`
    /// there is no HTTP endpoint, and [`Server::metrics`] still works.
    pub fn admin(self, address: impl Into<Option<SocketAddr>>) -> Builder {
        self.set("admin", &address.into().map_or_else(|| "off".to_owned(), |address| address.to_string()))
    }

    /// Uses sockets that are already bound, instead of new ones. Each address needs one socket per
    /// worker, with `SO_REUSEPORT`. Sets `listen` to their addresses, in the order of first
    /// appearance, and `workers` to the number of sockets per address. A server that stops leaves
    /// waiting datagrams in these sockets, for other processes that hold them.
    pub fn sockets(mut self, sockets: Vec<UdpSocket>) -> Builder {
        // Sockets without an address are refused later, when they are compared with the settings.
        let found = by_address(&sockets, |socket| socket.local_addr()).unwrap_or_default();
        let (addresses, workers): (Vec<_>, Vec<_>) =
            found.into_iter().map(|(address, sockets)| (address, sockets.len())).unzip();
        self.sockets = sockets;
        match workers.into_iter().max() {
            Some(workers) => self.listen_all(addresses).workers(workers),
            None => self,
        }
    }

    /// Sets the number of worker threads.
    pub fn workers(self, workers: usize) -> Builder {
        self.set("workers", &workers.to_string())
    }

    /// Sets any setting of [`SETTINGS`](crate::config::SETTINGS), written as for the flag, such as
    /// `set("max-wait", "50ms")`. The last value of a setting counts.
    pub fn set(mut self, name: &str, value: &str) -> Builder {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Checks the settings and returns them as a configuration.
    ///
    /// # Errors
    /// [`ServeError::Settings`] with all problems.
    pub fn config(&self) -> Result<Config, ServeError> {
        let pairs = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(Config::from_pairs(pairs)?)
    }

    /// Binds the server as [`Server::bind`] does.
    ///
    /// # Errors
    /// [`ServeError::Settings`] with all problems. [`ServeError::Unavailable`] if
    /// [`Builder::sockets`] do not match the settings. Otherwise as [`Server::bind`].
    pub fn bind(self) -> Result<Server, ServeError> {
        Server::with(&self.config()?, InheritedSockets { sockets: self.sockets, admin: None })
    }
}

impl Server {
    /// Starts building a server, from the default settings. The admin endpoint takes a free port
    /// unless you set `admin`.
    pub fn builder() -> Builder {
        let (admin, free) = FREE_ADMIN;
        Builder { settings: vec![(admin.to_owned(), free.to_owned())], sockets: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do settings become a configuration, with the last value of a name? Are all problems reported
    // at once?
    #[test]
    fn settings_are_checked_all_at_once() {
        let builder = Server::builder().workers(3).set("policy", "levels").workers(2).set("max-wait", "50ms");
        let config = builder.config().expect("all is right");
        assert_eq!((config.workers, config.policy.name()), (2, "levels"));
        let error = builder.workers(0).set("polcy", "steal").bind().expect_err("two are wrong").to_string();
        assert!(error.contains("workers = \"0\"") && error.contains("polcy"), "{error}");
        assert_eq!(error.contains("did you mean policy?"), cfg!(feature = "admin"), "{error}");
    }
}
