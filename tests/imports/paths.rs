//! The paths that a source file names, in `use` declarations and elsewhere.

use crate::tokens::{Token, tokens};

/// A path as it is written, `use` groups taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its segments; the last is `*` for a glob. From the crate's root if `in_crate`.
    pub(crate) segments: Vec<String>,
    /// Whether it leads into this crate, by `crate`, `self`, `super` or the crate's own name.
    pub(crate) in_crate: bool,
    /// Whether a `use` names it.
    pub(crate) is_use: bool,
    /// Its line, counted from 1.
    pub(crate) line: usize,
}

/// The paths in `source`, a file that is the module `module` (`["net", "socket"]`) of the crate. Single words are paths
/// too.
pub(crate) fn paths(source: &str, module: &[&str]) -> Vec<Named> {
    let tokens = tokens(source);
    let mut reader = Reader { tokens: &tokens, at: 0, modules: Vec::new(), depth: 0, found: Vec::new() };
    reader.read(module);
    reader.found
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// The inline modules around `at`, each with the brace depth outside it.
    modules: Vec<(&'a str, usize)>,
    depth: usize,
    found: Vec<Named>,
}

impl<'a> Reader<'a> {
    fn read(&mut self, file: &[&str]) {
        while let Some(token) = self.tokens.get(self.at).copied() {
            match token.text {
                "mod" if self.text(2) == "{" => {
                    self.modules.push((self.text(1), self.depth));
                    self.at += 2;
                    continue;
                }
                "{" => self.depth += 1,
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.modules.last().is_some_and(|(_, outside)| *outside == self.depth) {
                        self.modules.pop();
                    }
                }
                // Not the `use<..>` of an opaque type.
                "use" if self.text(1) != "<" => {
                    self.at += 1;
                    self.use_tree(&mut Vec::new(), file);
                    continue;
                }
                _ if token.is_word() => {
                    let segments = self.run();
                    self.name(&segments, false, token.line, file);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    /// Words joined by `::`, from `at` on.
    fn run(&mut self) -> Vec<&'a str> {
        let mut segments = vec![self.text(0)];
        self.at += 1;
        while self.text(0) == "::" && self.tokens.get(self.at + 1).is_some_and(Token::is_word) {
            segments.push(self.text(1));
            self.at += 2;
        }
        segments
    }

    /// One branch of a `use`, behind `prefix`; stops at the `,`, `}` or `;` after it.
    fn use_tree(&mut self, prefix: &mut Vec<&'a str>, file: &[&str]) {
        let outer = prefix.len();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        loop {
            match self.text(0) {
                "" | "," | "}" | ";" => break,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        self.use_tree(prefix, file);
                        self.at += usize::from(self.text(0) == ",");
                    }
                    self.at += 1;
                    prefix.truncate(outer);
                    return;
                }
                "as" => self.at += 1,
                // In a group, `self` is what stands before it.
                "self" if !prefix.is_empty() => {}
                "::" => {}
                segment => prefix.push(segment),
            }
            self.at += 1;
        }
        self.name(prefix, true, line, file);
        prefix.truncate(outer);
    }

    fn name(&mut self, segments: &[&str], is_use: bool, line: usize, file: &[&str]) {
        let inline = self.modules.iter().map(|(name, _)| *name);
        let mut base: Vec<&str> = file.iter().copied().chain(inline).collect();
        let mut rest = segments;
        let mut in_crate = true;
        match segments.first() {
            Some(&("crate" | "forebay")) => {
                base.clear();
                rest = &rest[1..];
            }
            Some(&("self" | "super")) if segments.len() > 1 || is_use => {
                rest = rest.strip_prefix(&["self"]).unwrap_or(rest);
                while let Some(("super", after)) = rest.split_first().map(|(first, after)| (*first, after)) {
                    base.pop();
                    rest = after;
                }
            }
            _ => {
                base.clear();
                in_crate = false;
            }
        }
        let segments = base.into_iter().chain(rest.iter().copied()).map(str::to_owned).collect();
        self.found.push(Named { segments, in_crate, is_use, line });
    }
}
