//! What becomes of honest requests beside forged ones?

mod slow_way;
