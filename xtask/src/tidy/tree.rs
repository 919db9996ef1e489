//! [`Tree`]: the text files that git knows or would add.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// The files of a repository.
#[derive(Debug)]
pub(crate) struct Tree {
    files: Vec<File>,
    /// Files that are not text. Links may lead to them.
    others: Vec<String>,
}

/// A text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Where it is, seen from the root, with `/` between its parts.
    pub(crate) path: String,
    /// What it says.
    pub(crate) text: String,
}

impl Tree {
    /// Reads the repository in which a folder is the root.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        // Whoever can run the checks may read the files, though they belong to someone else, as in many containers.
        let output = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("could not run git to list the files")?;
        if !output.status.success() {
            bail!("git could not list the files: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let list = String::from_utf8(output.stdout).context("a file's name is not UTF-8; rename it")?;
        let mut tree = Self { files: Vec::new(), others: Vec::new() };
        for path in list.split_terminator('\0') {
            tree.read(root, path)?;
        }
        if tree.files.is_empty() {
            bail!("git lists no files in {}", root.display());
        }
        Ok(tree)
    }

    /// A repository with these files, for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self { files: files.iter().map(file).collect(), others: Vec::new() }
    }

    /// All text files.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// Whether there is such a file, or a folder with files in it.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let paths = self.files.iter().map(|file| &file.path).chain(&self.others);
        let mut below = paths.filter_map(|known| known.strip_prefix(path));
        path.is_empty() || below.any(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn read(&mut self, root: &Path, path: &str) -> Result<()> {
        let full = root.join(path);
        // A file that was deleted but not yet staged is still listed, and a link is checked where it leads.
        if !full.is_file() || full.is_symlink() {
            return Ok(());
        }
        let bytes = std::fs::read(&full).with_context(|| format!("could not read {path}"))?;
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => self.files.push(File { path: path.to_owned(), text }),
            _ => self.others.push(path.to_owned()),
        }
        Ok(())
    }
}

impl File {
    /// Whether its name ends in `.extension`.
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.strip_suffix(extension).is_some_and(|rest| rest.ends_with('.'))
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Its lines, each with its number, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_known_by_their_files() {
        let tree = Tree::of(&[("docs/stores/one.md", "")]);
        assert!(tree.contains("docs/stores/one.md") && tree.contains("docs/stores") && tree.contains("docs"));
        assert!(!tree.contains("docs/store") && !tree.contains("stores"));
    }

    #[test]
    fn files_are_told_apart_by_name() {
        let file = File { path: "a/b.rs".to_owned(), text: "1\n2\n".to_owned() };
        assert!(file.has_extension("rs") && !file.has_extension("s"));
        assert_eq!(file.name(), "b.rs");
        assert_eq!(file.lines().last(), Some((2, "2")));
    }
}
