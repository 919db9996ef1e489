//! [`Name`]: what people call clusters, nodes, elections, servers and the like.

use std::{fmt, str::FromStr, sync::Arc};

use crate::StoreError;

/// A name chosen by a user: any UTF-8 of 1 to [`Name::BYTES_MAX`] bytes, without control characters.
///
/// Names are compared byte by byte: two spellings that look alike are two names. A clone is the same text, not a copy of it.
///
/// ```
/// use tenure_store::Name;
///
/// assert_eq!("nightly report 🌙".parse::<Name>()?.as_str(), "nightly report 🌙");
/// assert!("line\nbreak".parse::<Name>().is_err());
/// # Ok::<(), tenure_store::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes of UTF-8. Three of them and what we add fit [`Limits::KEY_BYTES_MAX`](crate::Limits).
    pub const BYTES_MAX: usize = 255;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as text that can be kept without copying it.
    #[must_use]
    pub fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The same, of a name that is not needed any more.
    #[must_use]
    pub fn into_shared(self) -> Arc<str> {
        self.0
    }
}

impl FromStr for Name {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        if text.is_empty() {
            return Err(StoreError::invalid("a name is empty: give it at least one character"));
        }
        if text.len() > Self::BYTES_MAX {
            let head: String = text.chars().take(24).collect();
            return Err(StoreError::invalid(format!(
                "name {head:?}... has {} bytes, the longest has {}: shorten it",
                text.len(),
                Self::BYTES_MAX
            )));
        }
        // Most are plain, which is quick to see.
        let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let mut characters = text.char_indices();
        if !plain && let Some((at, character)) = characters.find(|(_, character)| character.is_control()) {
            return Err(StoreError::invalid(format!(
                "name {text:?} has the control character {character:?} at byte {at}: remove it"
            )));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_script_are_fine() {
        for text in
            ["a", "A b", "naïve", "名前", "🦀", "../etc", "'; drop table kv; --", "%_", &"x".repeat(255)]
        {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn refusals_name_the_value_the_rule_and_the_way_out() {
        let refused = |text: &str| text.parse::<Name>().unwrap_err().to_string();
        assert!(refused("").contains("empty"));
        let long = refused(&"é".repeat(128));
        assert!(long.contains("256 bytes") && long.contains("255") && long.contains("shorten"), "{long}");
        for control in ["\0", "a\tb", "\u{7f}", "\u{85}"] {
            let refusal = refused(control);
            assert!(refusal.contains("control character") && !refusal.contains(control), "{refusal}");
        }
    }
}
