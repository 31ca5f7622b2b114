//! Does the published crate have all that its users need, and nothing that only this repository
//! needs? Method: cargo lists the crates that may be published, and the files of one. `.ci/release`
//! builds it from these files.

use support::prelude::*;

/// The files and folders in the crate; cargo adds some of them.
const CONTENTS: [&str; 12] = [
    ".cargo_vcs_info.json",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "build.rs",
    "deploy",
    "examples",
    "src",
];

// The layers are published too, because the crate is made of them, and QUIC and HTTP/3, which stand
// on it.
#[test]
fn the_crates_are_published() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"])).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let published: Vec<_> = packages.iter().filter(|package| package["publish"].is_null()).collect();
    let mut names: Vec<_> = published.iter().filter_map(|package| package["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "forebay",
            "forebay-base",
            "forebay-clock",
            "forebay-http3",
            "forebay-metrics",
            "forebay-quic",
            "forebay-runtime",
            "forebay-sched",
            "forebay-sim",
            "forebay-tasks",
            "forebay-udp"
        ]
    );
    for package in published {
        for field in ["description", "license", "readme", "repository", "rust_version"] {
            assert!(package[field].is_string(), "{field} of {}", package["name"]);
        }
    }
}

#[test]
fn it_has_what_its_users_need() {
    let listed = cargo(&["package", "--package", "forebay", "--list", "--allow-dirty"]);
    let top: BTreeSet<&str> = listed.lines().map(|path| path.split('/').next().expect("a first part")).collect();
    assert_eq!(top.into_iter().collect::<Vec<_>>(), CONTENTS);
    // Files that the sources include as text.
    for file in ["src/server/admin/page.html", "src/output/page.css", "deploy/systemd/service.service"] {
        assert!(listed.lines().any(|path| path == file), "{file} is missing:\n{listed}");
    }
    assert!(!listed.contains("deploy/manual"), "a crate of its own:\n{listed}");
}
