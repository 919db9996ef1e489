//! Links from one page of the repository to another lead somewhere.

use super::{File, Finding, Tree};

/// A relative link in a Markdown file leads to a file or a folder that git knows.
pub(super) fn resolve(file: &File, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.has_extension("md") {
        return findings;
    }
    let mut fenced = false;
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(&without_code(line)) {
            if !leads_somewhere(&file.path, &target, tree) {
                let advice = format!("the link to `{target}` leads nowhere: correct it, or add the file");
                findings.push(Finding::new(file, number, advice));
            }
        }
    }
    findings
}

/// A line without its `code`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// Where the links of a line lead: `[text](target "title")` and `[text]: target`.
fn targets(line: &str) -> Vec<String> {
    let definition = line.trim_start().starts_with('[').then(|| line.split_once("]: ")).flatten();
    let inline = line.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or(rest));
    let all = inline.chain(definition.map(|(_, rest)| rest));
    let first_word =
        |target: &str| target.split_whitespace().next().map(|word| word.trim_matches(['<', '>']).to_owned());
    all.filter_map(first_word).collect()
}

fn leads_somewhere(from: &str, target: &str, tree: &Tree) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." if parts.is_empty() => return false,
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    tree.contains(&parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{super::NOTHING, *};

    fn broken(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[("docs/a.md", text), ("docs/stores/b.md", ""), ("README.md", "")]);
        resolve(&tree.files()[0], &tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "fine\n[x](missing.md)\n[y](b.md) [z](../stores/b.md)\n[w](/README.md)\n[v](../../README.md)\n\n[u]: no.md \"t\"\n";
        assert_eq!(broken(text), [2, 3, 3, 4, 5, 7]);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[a](stores/b.md#top) ![b](../README.md \"title\") [c](./stores/) [d](#here) [e](https://a.b/c)\n\
                    [f](<stores/b.md>) [g](mailto:a@b.c) [h](..)\n`[i](none)`\n```text\n[j](none)\n```\n[k]: ../README.md\n";
        assert_eq!(broken(text), NOTHING);
    }

    #[test]
    fn only_markdown_has_links() {
        let tree = Tree::of(&[("a.rs", "//! [a](b)\n")]);
        assert_eq!(resolve(&tree.files()[0], &tree), []);
    }
}
