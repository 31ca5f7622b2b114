//! Results as one HTML file with charts. It needs no other file, and fits light and dark screens
//! and telephones.

use forebay::output::{PAGE_CHARTS, PAGE_STYLE};
use serde_json::Value;

const FRAME: &str = include_str!("frame.html");

/// The page with this title. `script` draws the data of `report` with the functions of `charts.js`.
pub(crate) fn render(title: &str, script: &str, report: &Value) -> String {
    // Inside a script element nothing may look like its end.
    let data = report.to_string().replace('<', "\\u003c");
    let page = FRAME.replace("<!--title-->", title).replace("/*style*/", PAGE_STYLE);
    let page = page.replace("/*script*/", &format!("{PAGE_CHARTS}{script}"));
    page.replace("/*results*/null", &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // Does every place in the frame get what it is for, and can no text of a result end the script?
    #[test]
    fn a_page_is_whole_and_needs_nothing_else() {
        let page = render("a title", "draw();\n", &json!({"workload": "</script>"}));
        assert_eq!(page.matches("a title").count(), 2);
        assert!(page.contains(r#"const report = {"workload":"\u003c/script>"};"#) && page.contains("draw();"));
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(
            ["<!--", "/*style", "/*script", "/*results", "http://", "https://"].iter().all(|left| !page.contains(left))
        );
    }
}
