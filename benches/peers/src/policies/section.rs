//! The part of a file that the tables fill.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- begin: peers policies -->\n";
const END: &str = "<!-- end: peers policies -->\n";

/// A file with both markers.
pub(super) struct Section {
    path: PathBuf,
    before: String,
    after: String,
}

impl Section {
    /// Looks for the markers in the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or lacks one.
    pub(super) fn open(path: &Path) -> Result<Section> {
        let text = fs::read_to_string(path).with_context(|| format!("--into {} cannot be read", path.display()))?;
        let (before, after) = divided(&text).with_context(|| {
            format!("--into {} lacks the lines {} and, after it, {}", path.display(), BEGIN.trim_end(), END.trim_end())
        })?;
        Ok(Section { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() })
    }

    /// Writes `text` between the markers.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn fill(self, text: &str) -> Result<()> {
        let Section { path, before, after } = self;
        fs::write(&path, format!("{before}{text}{after}"))
            .with_context(|| format!("--into {} cannot be written", path.display()))
    }
}

/// What stands before the section, its first marker included, and after it.
fn divided(text: &str) -> Option<(&str, &str)> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some((&text[..begin], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.md");
        fs::write(&path, format!("above\n{BEGIN}old\n{END}below\n")).expect("written");
        for text in ["new\n", "newer\n"] {
            Section::open(&path).and_then(|section| section.fill(text)).expect("filled");
            assert_eq!(fs::read_to_string(&path).expect("text"), format!("above\n{BEGIN}{text}{END}below\n"));
        }
        fs::write(&path, format!("{END}{BEGIN}")).expect("written");
        assert!(Section::open(&path).is_err_and(|error| error.to_string().contains("lacks the lines <!-- begin")));
    }
}
