//! Does deploy/try-systemd run every command of deploy/upgrade.md? Method: the script names the
//! section of each block of commands.

// A second block in one section would need a number.
#[test]
fn every_command_of_the_page_is_followed() {
    let (page, checks) =
        (include_str!("../../../deploy/upgrade.md"), include_str!("../../../deploy/try-systemd/checks"));
    let sections: Vec<&str> = page.split("\n## ").skip(1).filter(|section| section.contains("\n```sh\n")).collect();
    assert!(sections.len() >= 3, "{sections:?}");
    for section in sections {
        let title = section.lines().next().expect("a title");
        let quote = if title.contains('\'') { '"' } else { '\'' };
        assert_eq!(section.matches("\n```sh\n").count(), 1, "{title}");
        assert!(
            checks.contains(&format!("follow {quote}{title}{quote} 1\n")),
            "nothing runs the commands of {title:?}"
        );
    }
    assert_eq!(
        page.matches("\n```").count(),
        2 * page.matches("\n```sh\n").count(),
        "blocks of another kind are not run"
    );
}
