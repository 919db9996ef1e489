//! Words that have better ones.

use super::{File, Finding, Tree};

/// Words to avoid, each with what to say. In two parts, so as not to be found here.
const AVOIDED: &[(&str, &str)] = &[
    (concat!("black", "list"), "deny list"),
    (concat!("white", "list"), "allow list"),
    (concat!("mas", "ter"), "leader, primary or main, whichever it is"),
    (concat!("sla", "ve"), "follower or replica, whichever it is"),
];

/// No word that has a better one, as a word or as a part of an identifier. Addresses are not ours to choose.
pub(super) fn well_chosen(file: &File, _tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let own = line.split_whitespace().filter(|part| !part.contains("://"));
        let own = own.flat_map(|part| part.split('_')).collect::<Vec<_>>().join(" ").to_lowercase();
        for (word, better) in AVOIDED {
            if contains(&own, word) || contains(&own, &format!("{word}s")) {
                findings.push(Finding::new(file, number, format!("`{word}`: say {better}")));
            }
        }
    }
    findings
}

/// Whether a line contains a word, not as a part of a longer one.
pub(super) fn contains(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part_of_word) && !line[at + word.len()..].starts_with(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NOTHING, lines_found},
        *,
    };

    #[test]
    fn avoided_words_are_found() {
        for (word, _) in AVOIDED {
            let text = format!("fine\nthe {word}.\nlet {}_KEY = 1;\nmany {word}s\n", word.to_uppercase());
            assert_eq!(lines_found(well_chosen, "a.rs", &text), [2, 3, 4], "{word}");
        }
    }

    #[test]
    fn longer_words_and_addresses_pass() {
        let text = format!("{0}ful re{0}\nhttps://host/{0}/x\n", AVOIDED[2].0);
        assert_eq!(lines_found(well_chosen, "a.md", &text), NOTHING);
    }
}
