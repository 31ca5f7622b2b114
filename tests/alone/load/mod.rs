//! Requests under load: who is served, how soon, at what cost.

mod burn;
mod charged;
mod conformance;
mod fork;
mod gate;
mod overload;
mod steal;
