//! Handlers: what a server runs for each request.
