//! Requests under load: who is served, how soon, at what cost.

mod charged;
mod conformance;
mod fork;
mod overload;
mod steal;
mod upstream;
