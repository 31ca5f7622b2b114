//! The table of permitted imports (`layers.txt`), and the check of one file against it.

use super::paths::{Named, paths};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// A row of `layers.txt`: what a module may name. If several rows apply to a file, the longest one
/// counts.
struct Layer {
    module: &'static str,
    /// Other modules of this crate, or parts of them.
    imports: Vec<&'static str>,
    /// Forbidden paths. A path matches whole, as a part of a longer one, or as one word. A `*` at
    /// the end matches any ending.
    banned: Vec<&'static str>,
}

/// The table, and the folders in which every module must have a row.
fn table() -> &'static (Vec<Layer>, Vec<&'static str>) {
    static TABLE: LazyLock<(Vec<Layer>, Vec<&'static str>)> = LazyLock::new(|| {
        let (mut layers, mut sets) = (Vec::<Layer>::new(), BTreeMap::<&str, Vec<&str>>::new());
        for line in include_str!("layers.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (head, words) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
            let (imports, banned) = words.split_once("! ").unwrap_or((words, ""));
            let banned = banned.split_whitespace().flat_map(|word| sets.get(word).cloned().unwrap_or(vec![word]));
            let (banned, imports) = (banned.collect(), imports.split_whitespace().collect());
            if head.chars().all(char::is_uppercase) {
                sets.insert(head, banned);
            } else {
                layers.push(Layer { module: head, imports, banned });
            }
        }
        let each = sets.remove("EACH").expect("a line");
        (layers, each)
    });
    &TABLE
}

/// The errors in the file at `path` (from the root of the repository) with the content `text`.
pub(crate) fn complaints(path: &str, text: &str) -> Vec<String> {
    let module = module_of(path);
    if is_root(&module) {
        return Vec::new();
    }
    let (layers, each) = table();
    let layer_of = |module: &[String]| {
        layers.iter().filter(|layer| is_below(module, layer.module)).max_by_key(|layer| layer.module.len())
    };
    let is_part = |layer: &Layer| module.last().is_some_and(|name| *name != "tests" && !layer.module.ends_with(name));
    let Some(layer) = layer_of(&module).filter(|layer| !(each.contains(&layer.module) && is_part(layer))) else {
        return vec![format!("{path}: {} is not in the table: give it a row", module.join("::"))];
    };
    let mut complaints = Vec::new();
    for Named { segments, in_crate, module: within, is_use, line } in paths(text, &module) {
        let layer = layer_of(&within).unwrap_or(layer);
        // The path after `inside` counts.
        let segments = if segments.len() > 1 && segments[0] == "inside" { segments[1..].to_vec() } else { segments };
        let mut complain = |what: String| complaints.push(format!("{path}:{line}: {what}"));
        let below_root =
            if is_own(&module, &segments) && is_below(&segments, LOADGEN) { &segments[1..] } else { &segments };
        match below_root.first().map_or("", String::as_str) {
            "" | "*" if in_crate && is_use => complain("names the crate's root".to_owned()),
            "" => {}
            _ if in_crate && is_own(&module, &segments) && !layer.may_import(&segments) => {
                complain(format!("{} may not import {}", layer.module, segments.join("::")));
            }
            first @ ("std" | "core" | "alloc") if is_use && segments.get(1).is_none_or(|second| second == "*") => {
                complain(format!("brings in all of {first}, under no name that could be checked"));
            }
            "extern crate" => complain("extern crate brings a crate in under any name".to_owned()),
            _ => {}
        }
        let folder = layers.iter().filter(|outer| each.contains(&outer.module) && is_below(&within, outer.module));
        let banned: BTreeSet<_> = folder.chain([layer]).flat_map(|layer| &layer.banned).collect();
        for banned in banned.into_iter().filter(|banned| contains(&segments, banned)) {
            complain(format!("{} may not name {banned}", layer.module));
        }
    }
    complaints
}

/// For the folders in `EACH`: rows of modules that name a module without a row below theirs.
pub(crate) fn pointing_up() -> Vec<String> {
    let (layers, each) = table();
    let part = |path: &'static str| {
        let folder =
            each.iter().find(|folder| path.strip_prefix(**folder).is_some_and(|rest| rest.starts_with("::")))?;
        path[folder.len() + 2..].split("::").next().map(|name| (*folder, name))
    };
    let mut complaints = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        let Some((folder, name)) = part(layer.module) else { continue };
        for (of, other) in layer.imports.iter().copied().filter_map(part).filter(|found| *found != (folder, name)) {
            if of == folder && !layers[at + 1..].iter().any(|below| part(below.module) == Some((of, other))) {
                complaints.push(format!("{} names {other}, which has no row below", layer.module));
            }
        }
    }
    complaints
}

impl Layer {
    fn may_import(&self, segments: &[String]) -> bool {
        is_below(segments, self.module) || self.imports.iter().any(|import| is_below(segments, import))
    }
}

/// Whether `segments` are the path `module` or lead into it.
fn is_below(segments: &[String], module: &str) -> bool {
    let mut segments = segments.iter();
    module.split("::").all(|part| segments.next().is_some_and(|segment| segment == part))
}

/// The module name of the load generator's crate; all other modules are Forebay's.
const LOADGEN: &str = "loadgen";

/// Whether `module` is the root of its crate.
fn is_root(module: &[String]) -> bool {
    module.is_empty() || module == [LOADGEN]
}

/// Whether `segments` lead into the crate of `module`.
fn is_own(module: &[String], segments: &[String]) -> bool {
    is_below(module, LOADGEN) == is_below(segments, LOADGEN)
}

/// The module that represents `module` when circles are searched: the one directly below the root
/// of its crate.
pub(crate) fn top_of(module: &[String]) -> Option<String> {
    let depth = if is_below(module, LOADGEN) { 2 } else { 1 };
    (module.len() >= depth).then(|| module[..depth].join("::"))
}

/// The top modules of its own crate that are named in the file `module` with the content `text`.
/// Its own may be among them.
pub(crate) fn imports(module: &[String], text: &str) -> Vec<String> {
    let named = paths(text, module).into_iter().filter(|named| named.in_crate && is_own(module, &named.segments));
    named.filter_map(|named| top_of(&named.segments)).collect()
}

/// Whether `banned` is the path or a part of it.
fn contains(segments: &[String], banned: &str) -> bool {
    let banned: Vec<&str> = banned.split("::").collect();
    let matches = |(segment, banned): (&String, &&str)| match banned.strip_suffix('*') {
        Some(start) => segment.starts_with(start),
        None => segment == banned,
    };
    segments.windows(banned.len()).any(|window| window.iter().zip(&banned).all(matches))
}

/// `src/server/cores.rs` is `server::cores`, and `loadgen/src/text.rs` is `loadgen::text`;
/// Forebay's roots are nothing.
pub(crate) fn module_of(path: &str) -> Vec<String> {
    let segments = path.trim_end_matches(".rs").split('/');
    let segments = segments.filter(|segment| !matches!(*segment, "src" | "mod" | "lib" | "main"));
    segments.map(str::to_owned).collect()
}
