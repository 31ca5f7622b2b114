//! Names of a handler's own reasons to reject: what may be shown on `/metrics` beside the server's.

use super::ServeError;
use crate::fate::{Malformed, REASONS, Refused};

/// Checks the names of a handler's reasons.
///
/// # Errors
/// [`ServeError::Reason`] for the first name that is not allowed.
pub(super) fn check(names: &[&'static str]) -> Result<(), ServeError> {
    for (place, name) in names.iter().copied().enumerate() {
        let refuse = |allowed| Err(ServeError::Reason { name, allowed });
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !name.bytes().all(is_word) {
            return refuse("a letter, then letters, digits and _");
        }
        if Malformed::NAMES.contains(&name) || Refused::NAMES.contains(&name) {
            return refuse("a name that no reason of the server has");
        }
        if names[..place].contains(&name) {
            return refuse("each name once");
        }
        if place == REASONS {
            return refuse("16 names");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Are as many names allowed as there are counters, and is each rule that a name breaks said, with the name?
    #[test]
    fn names_that_cannot_be_shown_are_refused() {
        const NAMES: [&str; REASONS + 1] =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
        assert!(check(&[]).is_ok() && check(&NAMES[..REASONS]).is_ok() && check(&["Opcode_2"]).is_ok());
        let bad: [(&[&'static str], &str, &str); 7] = [
            (&NAMES, "q", "16 names"),
            (&["fine", ""], "", "a letter, then"),
            (&["2nd"], "2nd", "a letter, then"),
            (&["no-cookie"], "no-cookie", "a letter, then"),
            (&["opcode", "rate", "opcode"], "opcode", "each name once"),
            (&["magic"], "magic", "a name that no reason of the server"),
            (&["cost_cap"], "cost_cap", "a name that no reason of the server"),
        ];
        for (names, name, allowed) in bad {
            let error = check(names).expect_err("a bad name").to_string();
            let named = error.contains(&format!("REASON_NAMES: {name:?}: not allowed"));
            assert!(named && error.contains(&format!("allowed: {allowed}")), "{error}");
        }
    }
}
