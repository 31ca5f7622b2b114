//! Are honest requests answered beside forged ones?

mod slow_way;
