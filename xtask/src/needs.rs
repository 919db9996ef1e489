//! What a machine must have for the gate, as a table: how to find out, and how to get it.
//!
//! A need that is missing is installed where that is possible without asking anybody. Where it is not, it is an error with instructions.
//! It is never a reason to skip a check.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::task::Task;

/// Something that the gate cannot do without. To add one, add a line to [`NEEDS`].
pub(crate) struct Need {
    name: &'static str,
    /// Who needs it, for the instructions.
    wanted_for: &'static str,
    probe: Probe,
    source: Source,
}

/// How to find out whether a need is met.
enum Probe {
    /// The command runs and ends well.
    Runs(&'static [&'static str]),
    /// The command prints a version, and it is new enough.
    PrintsVersion(&'static [&'static str], &'static str),
}

/// Where to get what is missing.
enum Source {
    /// The Rust toolchain itself: only its owner can bring it.
    Toolchain,
    /// A component of the Rust toolchain.
    RustupComponent(&'static str),
    /// Debian packages.
    Debian(&'static [&'static str]),
}

/// Everything the gate needs.
pub(crate) const NEEDS: &[Need] = &[
    Need {
        name: "cargo",
        wanted_for: "everything",
        probe: Probe::PrintsVersion(&["cargo", "--version"], env!("CARGO_PKG_RUST_VERSION")),
        source: Source::Toolchain,
    },
    Need {
        name: "rustc",
        wanted_for: "everything",
        probe: Probe::PrintsVersion(&["rustc", "--version"], env!("CARGO_PKG_RUST_VERSION")),
        source: Source::Toolchain,
    },
    Need {
        name: "rustfmt",
        wanted_for: "the format check",
        probe: Probe::Runs(&["cargo", "fmt", "--version"]),
        source: Source::RustupComponent("rustfmt"),
    },
    Need {
        name: "clippy",
        wanted_for: "the lints",
        probe: Probe::Runs(&["cargo", "clippy", "--version"]),
        source: Source::RustupComponent("clippy"),
    },
    Need {
        name: "C compiler",
        wanted_for: "building SQLite",
        // Preprocessing a header finds out about the C library's headers too.
        probe: Probe::Runs(&["sh", "-c", "echo '#include <stdio.h>' | cc -fsyntax-only -x c -"]),
        source: Source::Debian(&["gcc", "libc6-dev"]),
    },
    Need {
        name: "git",
        wanted_for: "the list of files for the tidy check",
        probe: Probe::Runs(&["git", "--version"]),
        source: Source::Debian(&["git"]),
    },
    Need {
        name: "unshare",
        wanted_for: "the tests of the SQLite store",
        probe: Probe::Runs(&["unshare", "--version"]),
        source: Source::Debian(&["util-linux"]),
    },
    Need {
        name: "mount",
        wanted_for: "the tests of the SQLite store",
        probe: Probe::Runs(&["mount", "--version"]),
        source: Source::Debian(&["mount"]),
    },
    Need {
        name: "strace",
        wanted_for: "the tests of the SQLite store",
        probe: Probe::Runs(&["strace", "--version"]),
        source: Source::Debian(&["strace"]),
    },
];

/// The machine that needs are provided on: something that runs commands.
pub(crate) trait Host {
    /// Runs a command; its output, whether it ended well (`Ok`) or not.
    fn run(&self, command: &[&str]) -> Result<String, String>;

    /// Tells whoever watches what is being changed.
    fn say(&self, line: &str);
}

/// The machine we run on.
pub(crate) struct Machine {
    directory: PathBuf,
}

impl Machine {
    /// The machine, with commands running in a directory.
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }
}

impl Host for Machine {
    fn run(&self, command: &[&str]) -> Result<String, String> {
        let (program, args) = command.split_first().expect("every command here has a program");
        match Task::program(&self.directory, program, args).capture() {
            Ok((ended, output)) if ended.well() => Ok(output),
            Ok((ended, output)) => Err(format!("`{}`: {ended}\n{output}", command.join(" "))),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    fn say(&self, line: &str) {
        println!("  {line}");
    }
}

/// Makes sure of every need, installing what is missing and can be installed. Returns instructions for what is still missing.
pub(crate) fn provide(needs: &[Need], host: &dyn Host) -> Vec<String> {
    let missing: Vec<&Need> = needs.iter().filter(|need| need.probe.check(host).is_err()).collect();
    let mut troubles = Vec::new();
    for need in &missing {
        if let Source::RustupComponent(component) = need.source {
            let command = ["rustup", "component", "add", component];
            host.say(&format!("{} is missing: {}", need.name, command.join(" ")));
            troubles.extend(host.run(&command).err());
        }
    }
    let packages: BTreeSet<&str> = missing.iter().flat_map(|need| need.source.packages()).copied().collect();
    if !packages.is_empty() {
        troubles.extend(install(&packages, host).err());
    }
    let still_missing =
        missing.iter().filter_map(|need| Some(need.instruction(&need.probe.check(host).err()?)));
    let still_missing: Vec<String> = still_missing.collect();
    if still_missing.is_empty() { still_missing } else { [troubles, still_missing].concat() }
}

impl Need {
    fn instruction(&self, found: &str) -> String {
        let Self { name, wanted_for, source, .. } = self;
        let remedy = match source {
            Source::Toolchain => {
                "Install or update Rust (`rustup update stable`, or see https://rustup.rs).".to_owned()
            }
            Source::RustupComponent(component) => format!("Run `rustup component add {component}`."),
            Source::Debian(packages) => {
                format!(
                    "As root, run `apt-get install {}`, or install it your system's way.",
                    packages.join(" ")
                )
            }
        };
        format!("error: {name} is missing, needed for {wanted_for}. {remedy}\n  {}", found.trim_end())
    }
}

impl Source {
    fn packages(&self) -> &'static [&'static str] {
        match self {
            Self::Debian(packages) => packages,
            Self::Toolchain | Self::RustupComponent(_) => &[],
        }
    }
}

impl Probe {
    /// Whether the need is met; if not, what was found instead.
    fn check(&self, host: &dyn Host) -> Result<(), String> {
        match *self {
            Self::Runs(command) => host.run(command).map(drop),
            Self::PrintsVersion(command, wanted) => {
                let output = host.run(command)?;
                let found = output.split_whitespace().nth(1).unwrap_or_default();
                if version(found) < version(wanted) {
                    return Err(format!(
                        "{wanted} or newer is needed, `{}` says: {output}",
                        command.join(" ")
                    ));
                }
                Ok(())
            }
        }
    }
}

/// `1.90.0-nightly` as a list of numbers that can be compared. What is no version is older than any.
fn version(text: &str) -> Vec<u32> {
    let numbers = text.split('-').next().unwrap_or_default().split('.');
    numbers.map_while(|number| number.parse().ok()).collect()
}

fn install(packages: &BTreeSet<&str>, host: &dyn Host) -> Result<(), String> {
    host.run(&["apt-get", "--version"])?;
    let root = host.run(&["id", "-u"]).is_ok_and(|id| id.trim() == "0");
    if !root && host.run(&["sudo", "-n", "true"]).is_err() {
        return Err(
            "Packages can't be installed from here: neither root nor sudo without a password.".to_owned()
        );
    }
    let prefix: &[&str] = if root { &[] } else { &["sudo", "-n"] };
    let mut packages: Vec<&str> = packages.iter().copied().collect();
    host.say(&format!("missing Debian packages are installed now: {}", packages.join(" ")));
    let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    host.run(&[prefix, &apt, &["update"]].concat())?;
    packages.splice(0..0, ["install", "-y", "--no-install-recommends"]);
    host.run(&[prefix, &apt, &packages].concat()).map(drop)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const WANTED: &[Need] = &[
        Need {
            name: "compiler",
            wanted_for: "the test",
            probe: Probe::PrintsVersion(&["rustc", "--version"], "1.90"),
            source: Source::Toolchain,
        },
        Need {
            name: "linter",
            wanted_for: "the test",
            probe: Probe::Runs(&["lint"]),
            source: Source::RustupComponent("lint"),
        },
        Need {
            name: "database",
            wanted_for: "the test",
            probe: Probe::Runs(&["db", "--version"]),
            source: Source::Debian(&["db-server", "db-client"]),
        },
    ];

    /// A machine of which the test says what works, and what starts to work after a command.
    #[derive(Default)]
    struct Pretended {
        works: RefCell<Vec<(&'static str, &'static str)>>,
        brings: Vec<(&'static str, &'static str)>,
        ran: RefCell<Vec<String>>,
    }

    impl Host for Pretended {
        fn run(&self, command: &[&str]) -> Result<String, String> {
            let command = command.join(" ");
            self.ran.borrow_mut().push(command.clone());
            let brought = self.brings.iter().filter(|(by, _)| *by == command).map(|&(_, what)| (what, ""));
            self.works.borrow_mut().extend(brought);
            let works = self.works.borrow();
            let found = works.iter().find(|(known, _)| *known == command);
            found.map(|(_, output)| (*output).to_owned()).ok_or_else(|| format!("`{command}` not found"))
        }

        fn say(&self, _line: &str) {}
    }

    const UPDATE: &str = "env DEBIAN_FRONTEND=noninteractive apt-get update";
    const INSTALL: &str =
        "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends db-client db-server";

    #[test]
    fn what_is_there_is_left_alone() {
        let host = Pretended::default();
        *host.works.borrow_mut() =
            vec![("rustc --version", "rustc 1.90.0 (x)"), ("lint", ""), ("db --version", "")];
        assert_eq!(provide(WANTED, &host), Vec::<String>::new());
        assert_eq!(*host.ran.borrow(), ["rustc --version", "lint", "db --version"]);
    }

    #[test]
    fn root_installs_what_is_missing() {
        let host =
            Pretended { brings: vec![(INSTALL, "db --version"), (ADD, "lint")], ..Pretended::default() };
        *host.works.borrow_mut() = vec![
            ("rustc --version", "rustc 2.1.0"),
            ("apt-get --version", ""),
            ("id -u", "0\n"),
            (UPDATE, ""),
            (INSTALL, ""),
            (ADD, ""),
        ];
        assert_eq!(provide(WANTED, &host), Vec::<String>::new());
    }

    const ADD: &str = "rustup component add lint";

    #[test]
    fn others_install_with_sudo() {
        let host = Pretended::default();
        *host.works.borrow_mut() = vec![("apt-get --version", ""), ("id -u", "1000\n"), ("sudo -n true", "")];
        provide(WANTED, &host);
        assert!(host.ran.borrow().contains(&format!("sudo -n {UPDATE}")), "{:?}", host.ran);
    }

    #[test]
    fn what_cannot_be_installed_is_an_error_with_instructions() {
        let host = Pretended::default();
        *host.works.borrow_mut() =
            vec![("rustc --version", "rustc 1.9.0"), ("apt-get --version", ""), ("id -u", "1000\n")];
        let errors = provide(WANTED, &host).join("\n");
        for expected in [
            "neither root nor sudo",
            "compiler is missing, needed for the test. Install or update Rust",
            "1.90 or newer is needed",
            "Run `rustup component add lint`",
            "run `apt-get install db-server db-client`",
        ] {
            assert!(errors.contains(expected), "no {expected:?} in:\n{errors}");
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("1.100.0") > version("1.90"));
        assert!(version("1.90.0-nightly") >= version("1.90"));
        assert!(version("1.9.9") < version("1.90"));
        assert!(version("what") < version("1.0"));
    }
}
