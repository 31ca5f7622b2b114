//! Requests under load: who is served, how soon, at what cost.

mod charged;
mod conformance;
mod fork;
mod overload;
mod policies;
mod steal;
mod upstream;
