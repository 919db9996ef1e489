//! One page lists every metric, so that whoever makes a chart or an alert of them need not read code.

use std::collections::BTreeSet;

use super::{File, Finding, Tree, tokens::tokens};

/// The page that lists them.
const PAGE: &str = "docs/operate/metrics.md";

/// What all of them begin with.
const PREFIX: &str = "tenure_";

/// Every metric of the code is in the page, and every metric of the page is in the code.
pub(super) fn listed(file: &File, tree: &Tree) -> Vec<Finding> {
    if file.path == PAGE {
        let known: BTreeSet<String> = tree.files().iter().flat_map(emitted).map(|(_, name)| name).collect();
        let unknown = rows(file).filter(|(_, name)| !known.contains(*name));
        return unknown
            .map(|(line, name)| Finding::new(file, line, format!("nothing measures `{name}`: remove it")))
            .collect();
    }
    let page = tree.files().iter().find(|file| file.path == PAGE);
    let known: BTreeSet<&str> = page.into_iter().flat_map(rows).map(|(_, name)| name).collect();
    let unknown = emitted(file).into_iter().filter(|(_, name)| !known.contains(name.as_str()));
    unknown
        .map(|(line, name)| Finding::new(file, line, format!("`{name}` is not in {PAGE}: add it")))
        .collect()
}

/// Every metric that a dashboard or an alert asks for is in the page, and has the suffix of its kind: Prometheus knows nothing of others, and stays silent.
pub(super) fn answered(file: &File, tree: &Tree) -> Vec<Finding> {
    let asks =
        file.path.starts_with("docs/operate/") && (file.has_extension("json") || file.has_extension("yml"));
    if !asks {
        return Vec::new();
    }
    let page = tree.files().iter().find(|file| file.path == PAGE);
    let known: BTreeSet<String> = page.into_iter().flat_map(series).collect();
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with(PREFIX) && !known.contains(*word)) {
            let advice = format!("Prometheus has no `{word}`: see {PAGE}");
            findings.push(Finding::new(file, number, advice));
        }
    }
    findings
}

/// What Prometheus calls the metrics that a page lists.
fn series(page: &File) -> Vec<String> {
    let is_histogram = |line: usize| {
        let row = page.lines().find(|(number, _)| *number == line);
        row.and_then(|(_, text)| text.split('|').nth(2)).is_some_and(|kind| kind.trim() == "histogram")
    };
    rows(page)
        .flat_map(|(line, name)| match is_histogram(line) {
            true => ["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")).to_vec(),
            false => vec![name.to_owned()],
        })
        .collect()
}

/// The metrics that a page lists: what stands first in the rows of its tables.
fn rows(page: &File) -> impl Iterator<Item = (usize, &str)> {
    page.lines().filter_map(|(line, text)| {
        let name = text.strip_prefix("| `")?.split('`').next()?;
        name.starts_with(PREFIX).then_some((line, name))
    })
}

/// The metrics that a file of a crate names. Only one that speaks of metrics at all does: tables of stores have the same prefix.
fn emitted(file: &File) -> Vec<(usize, String)> {
    let in_crate = file.path.starts_with("crates/") && file.path.contains("/src/");
    if !in_crate || !file.text.contains("metrics::") {
        return Vec::new();
    }
    let name = |text: &str| {
        let name = text.strip_prefix('"')?.strip_suffix('"')?;
        let rest = name.strip_prefix(PREFIX)?;
        let whole = !rest.is_empty() && !rest.ends_with('_');
        (whole && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')).then(|| name.to_owned())
    };
    let tokens = tokens(file).unwrap_or_default();
    tokens.iter().filter_map(|token| Some((token.line, name(&token.text)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "//! metrics::\nfn f() {\n  count(\"tenure_a_total\");\n  g(\"tenure_\", \"tenure_a_\", \"tenure_b\");\n}\n";

    fn found(page: &str, path: &str) -> Vec<String> {
        let tree = Tree::of(&[(PAGE, page), (path, CODE)]);
        let findings = tree.files().iter().flat_map(|file| listed(file, &tree));
        findings.map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn what_is_in_one_place_only_is_found_in_both_directions() {
        let page = "| metric |\n| `tenure_b` | gauge |\n| `tenure_c` | gauge |\n";
        assert_eq!(found(page, "crates/x/src/a.rs"), [format!("{PAGE}:3"), "crates/x/src/a.rs:3".to_owned()]);
    }

    #[test]
    fn what_is_in_both_passes_and_other_words_are_none() {
        let page =
            "| `tenure_a_total` | counter | `kind` |\n| `tenure_b` | gauge |\n| `prefix` | `tenure_x` |\n";
        assert_eq!(found(page, "crates/x/src/a.rs"), [""; 0]);
        assert_eq!(found("", "crates/x/tests/a.rs"), [""; 0]);
    }

    fn asked(path: &str, text: &str) -> Vec<usize> {
        let page = "| `tenure_links` | gauge | |\n| `tenure_wait_seconds` | histogram | |\n";
        let tree = Tree::of(&[(path, text), (PAGE, page)]);
        answered(&tree.files()[0], &tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn what_prometheus_does_not_know_is_found() {
        let text = "expr: tenure_links > 1\nexpr: rate(tenure_linkz[5m])\nexpr: tenure_wait_seconds\nexpr: tenure_links_count\n";
        assert_eq!(asked("docs/operate/alerts.yml", text), [2, 3, 4]);
        assert_eq!(asked("docs/operate/grafana.json", "\"expr\": \"sum(tenure_nothing)\"\n"), [1]);
    }

    #[test]
    fn what_prometheus_knows_passes() {
        let text = "sum(tenure_links{direction=\"in\"}) by (le)\nrate(tenure_wait_seconds_bucket[5m]) / tenure_wait_seconds_count\ntenure\n";
        assert_eq!(asked("docs/operate/grafana.json", text), [0; 0]);
        assert_eq!(asked("docs/operate/alerts.yml", text), [0; 0]);
        assert_eq!(asked("packaging/compose.yml", "tenure_other\n"), [0; 0]);
    }
}
