//! Rust source as words and marks: enough to find paths in it, with comments and literals out of the way.

/// A word or a mark, and its line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// An identifier or keyword, `::`, or one other character.
    pub(crate) text: &'a str,
    /// Where it stands.
    pub(crate) line: usize,
}

impl Token<'_> {
    /// Whether it is an identifier or keyword.
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(|first: char| first.is_alphabetic() || first == '_')
    }
}

/// The tokens of `source` but for comments, literals and lifetimes.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, kept) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => (block_comment(rest), false),
            '"' => (quoted(rest, '"'), false),
            '\'' => (quote(rest), false),
            _ if first.is_alphabetic() || first == '_' => word(rest),
            _ if first.is_ascii_digit() => (word_length(rest), false),
            _ if rest.starts_with("::") => (2, true),
            _ => (first.len_utf8(), !first.is_whitespace()),
        };
        let (text, after) = rest.split_at(length);
        if kept {
            tokens.push(Token { text: text.trim_start_matches("r#"), line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// The length of what begins like a word, and whether it is one: `r"..."`, `b'x'` and their like are literals.
fn word(text: &str) -> (usize, bool) {
    let length = word_length(text);
    let (prefix, after) = text.split_at(length);
    if matches!(prefix, "r" | "br" | "cr") {
        let marks = after.bytes().take_while(|byte| *byte == b'#').count();
        if after[marks..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(marks));
            let opened = length + marks + 1;
            return (text[opened..].find(&end).map_or(text.len(), |at| opened + at + end.len()), false);
        }
        if prefix == "r" && marks == 1 {
            return (length + 1 + word_length(&after[1..]), true);
        }
    }
    match after.chars().next() {
        Some('"') if matches!(prefix, "b" | "c") => (length + quoted(after, '"'), false),
        Some('\'') if prefix == "b" => (length + quoted(after, '\''), false),
        _ => (length, true),
    }
}

fn word_length(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len())
}

/// The length of a literal between two `mark`s.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == mark => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal or of a lifetime.
fn quote(text: &str) -> usize {
    let mut letters = text.chars().skip(1);
    match (letters.next(), letters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => 1 + word_length(&text[1..]),
    }
}

/// The length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(next) = text[at..].find("/*").into_iter().chain(text[at..].find("*/")).min() {
        at += next;
        depth = if text[at..].starts_with("/*") { depth + 1 } else { depth - 1 };
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}
