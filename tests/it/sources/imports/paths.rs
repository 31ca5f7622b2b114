//! Finds the paths that a source file names, in `use` declarations and elsewhere. Comments and
//! literals do not count.
//!
//! A visitor of syn would not be shorter: syn leaves the content of macros as tokens, and these
//! name paths too.

use proc_macro2::{Ident, TokenStream, TokenTree};

/// A path as it is written, with `use` groups taken apart. A single word is a path too.
pub(crate) struct Named {
    /// The segments of the path; the last one is `*` for a glob. If `in_crate`, they begin at the
    /// root of Forebay, under which the load generator is `loadgen`. A layer is `crates::sched`.
    pub(crate) segments: Vec<String>,
    /// Whether it leads into one of these crates, by `crate`, `self`, `super` or the crate's own
    /// name.
    pub(crate) in_crate: bool,
    /// The module that names it, if a file has several.
    pub(crate) module: Vec<String>,
    /// Whether a `use` names it.
    pub(crate) is_use: bool,
    /// Its line, counted from 1.
    pub(crate) line: usize,
}

/// The paths in `source`, a file that is the module `module` (`["net", "socket"]`) of the crate.
pub(crate) fn paths(source: &str, module: &[String]) -> Vec<Named> {
    let mut found = Vec::new();
    read(source.parse().expect("Rust"), module, &[], false, &mut found);
    found
}

/// Reads `tokens` in `module`; `prefix` stands before each path if they are a `use` group.
fn read(tokens: TokenStream, module: &[String], prefix: &[String], mut is_use: bool, found: &mut Vec<Named>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = &tokens[..];
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (TokenTree::Ident(word), [TokenTree::Ident(name), TokenTree::Group(body), ..]) if word == "mod" => {
                read(body.stream(), &[module, &[name.to_string()]].concat(), prefix, is_use, found);
                rest = &after[2..];
            }
            (TokenTree::Ident(word), [TokenTree::Ident(next), ..]) if word == "extern" && next == "crate" => {
                let line = word.span().start().line;
                let (segments, module) = (vec!["extern crate".to_owned()], module.to_vec());
                found.push(Named { segments, in_crate: false, module, is_use, line });
                rest = &after[1..];
            }
            // Not the `use<..>` of an opaque type.
            (TokenTree::Ident(word), [next, ..]) if word == "use" => is_use = !is(next, '<'),
            // Another name, and a lifetime.
            (TokenTree::Ident(word), [_, ..]) if is_use && word == "as" => rest = &after[1..],
            (TokenTree::Punct(mark), [_, ..]) if mark.as_char() == '\'' => rest = &after[1..],
            (TokenTree::Punct(mark), _) if mark.as_char() == ';' => is_use = false,
            (TokenTree::Ident(word), _) => rest = path(word, after, module, prefix, is_use, found),
            (TokenTree::Group(group), _) => read(group.stream(), module, prefix, is_use, found),
            _ => {}
        }
    }
}

/// Reads the path that begins with `first`; returns the tokens after it.
fn path<'a>(
    first: &Ident,
    mut rest: &'a [TokenTree],
    module: &[String],
    prefix: &[String],
    is_use: bool,
    found: &mut Vec<Named>,
) -> &'a [TokenTree] {
    let mut segments = prefix.to_vec();
    // In a group, `self` means the path before the group.
    if prefix.is_empty() || first != "self" {
        segments.push(plain(first));
    }
    while let [colon, colon_too, next, after @ ..] = rest
        && is(colon, ':')
        && is(colon_too, ':')
    {
        match next {
            TokenTree::Ident(next) => segments.push(plain(next)),
            TokenTree::Group(group) if is_use => {
                read(group.stream(), module, &segments, is_use, found);
                return after;
            }
            _ if is_use && is(next, '*') => segments.push("*".to_owned()),
            _ => break,
        }
        rest = after;
    }
    found.push(from_root(segments, module, is_use, first.span().start().line));
    rest
}

fn from_root(mut segments: Vec<String>, module: &[String], is_use: bool, line: usize) -> Named {
    let mut base = Vec::new();
    let in_crate = match segments[0].as_str() {
        "crate" => {
            let root = match module.first().map_or("", String::as_str) {
                "loadgen" => 1,
                "crates" => 2,
                _ => 0,
            };
            base.extend(module.iter().take(root).cloned());
            true
        }
        "forebay" => true,
        "self" | "super" if segments.len() > 1 || is_use => {
            base = module.to_vec();
            true
        }
        _ => false,
    };
    while in_crate && segments.first().is_some_and(|word| ["crate", "forebay", "self", "super"].contains(&&**word)) {
        if segments.remove(0) == "super" {
            base.pop();
        }
    }
    Named { segments: [base, segments].concat(), in_crate, module: module.to_vec(), is_use, line }
}

fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn plain(word: &Ident) -> String {
    word.to_string().trim_start_matches("r#").to_owned()
}
