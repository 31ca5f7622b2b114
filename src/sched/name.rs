//! placeholder until merge
/// x
pub enum PolicyName {}
