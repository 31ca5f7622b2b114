//! A server restarts, reloads, idles and stays as large as it was.

mod handover;
mod idle;
mod memory;
mod reload;
