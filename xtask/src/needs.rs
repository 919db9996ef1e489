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
    /// There is such a library, where servers look for it.
    Library(&'static str),
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
    /// Python packages, each with its version. They go to a folder of their own: what else the machine has of Python is left alone.
    Python(&'static [&'static str]),
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
    Need {
        name: "PostgreSQL",
        wanted_for: "the tests of the PostgreSQL store",
        probe: Probe::Runs(&["initdb", "--version"]),
        source: Source::Debian(&["postgresql"]),
    },
    Need {
        name: "psql",
        wanted_for: "the tests of the PostgreSQL store",
        probe: Probe::Runs(&["psql", "--version"]),
        source: Source::Debian(&["postgresql-client"]),
    },
    Need {
        name: "PgBouncer",
        wanted_for: "the tests of the PostgreSQL store",
        probe: Probe::Runs(&["pgbouncer", "--version"]),
        source: Source::Debian(&["pgbouncer"]),
    },
    Need {
        name: "MariaDB",
        wanted_for: "the tests of the MySQL store",
        probe: Probe::Runs(&["mariadbd", "--no-defaults", "--version"]),
        source: Source::Debian(&["mariadb-server"]),
    },
    Need {
        name: "MariaDB's client",
        wanted_for: "the tests of the MySQL store",
        probe: Probe::Runs(&["mariadb", "--no-defaults", "--version"]),
        source: Source::Debian(&["mariadb-client"]),
    },
    Need {
        name: "Galera",
        wanted_for: "the tests of the MySQL store",
        probe: Probe::Library("libgalera_smm.so"),
        source: Source::Debian(&["galera-4"]),
    },
    Need {
        name: "rsync",
        wanted_for: "Galera, in the tests of the MySQL store",
        probe: Probe::Runs(&["rsync", "--version"]),
        source: Source::Debian(&["rsync"]),
    },
    Need {
        name: "socat",
        wanted_for: "Galera, in the tests of the MySQL store",
        probe: Probe::Runs(&["socat", "-V"]),
        source: Source::Debian(&["socat"]),
    },
    Need {
        name: "lsof",
        wanted_for: "Galera, in the tests of the MySQL store",
        probe: Probe::Runs(&["lsof", "-v"]),
        source: Source::Debian(&["lsof"]),
    },
    Need {
        name: "etcd",
        wanted_for: "the tests of the etcd store",
        probe: Probe::Runs(&["etcd", "--version"]),
        source: Source::Debian(&["etcd-server"]),
    },
    Need {
        name: "etcdctl",
        wanted_for: "the tests of the etcd store",
        probe: Probe::Runs(&["etcdctl", "version"]),
        source: Source::Debian(&["etcd-client"]),
    },
    Need {
        name: "libfaketime",
        wanted_for: "the tests of servers whose clock steps",
        probe: Probe::Library("libfaketimeMT.so.1"),
        source: Source::Debian(&["libfaketime"]),
    },
    Need {
        name: "openssl",
        wanted_for: "the tests of servers with TLS",
        probe: Probe::Runs(&["openssl", "version"]),
        source: Source::Debian(&["openssl"]),
    },
    Need {
        name: "setpriv",
        wanted_for: "running servers that refuse root",
        probe: Probe::Runs(&["setpriv", "--version"]),
        source: Source::Debian(&["util-linux"]),
    },
    Need {
        name: "promtool",
        wanted_for: "the test of alerts and dashboards",
        probe: Probe::Runs(&["promtool", "--version"]),
        source: Source::Debian(&["prometheus"]),
    },
    Need {
        name: "systemd-analyze",
        wanted_for: "the test of units for systemd",
        probe: Probe::Runs(&["systemd-analyze", "--version"]),
        source: Source::Debian(&["systemd"]),
    },
    Need {
        name: "Chromium",
        wanted_for: "the tests of the dashboard",
        probe: Probe::Runs(&["chromium", "--version"]),
        source: Source::Debian(&["chromium"]),
    },
    Need {
        name: "Python",
        wanted_for: "the tests of the dashboard",
        // Debian has what makes a folder for packages in a package of its own.
        probe: Probe::Runs(&["python3", "-c", "import ensurepip, venv"]),
        source: Source::Debian(&["python3", "python3-venv"]),
    },
    Need {
        name: "Playwright",
        wanted_for: "the tests of the dashboard",
        probe: Probe::Runs(&[
            "sh",
            "-c",
            "target/python/bin/python -c 'from importlib.metadata import version; assert version(\"playwright\") == \"1.65.2\"'",
        ]),
        source: Source::Python(&["playwright==1.65.2"]),
    },
    Need {
        name: "Schemathesis",
        wanted_for: "the tests of the daemon's API",
        probe: Probe::Runs(&[
            "sh",
            "-c",
            "target/python/bin/python -c 'from importlib.metadata import version; assert version(\"schemathesis\") == \"4.32.5\"'",
        ]),
        source: Source::Python(&["schemathesis==4.32.5"]),
    },
];

/// Makes the folder with Python packages, if it is not there, and puts packages into it.
const INSTALL_PYTHON: &str = "\
[ -x target/python/bin/python ] || python3 -m venv target/python || exit 1
target/python/bin/python -m pip install --quiet --disable-pip-version-check \"$@\"
";

/// Installs packages whose services must not start: they would take ports, memory and a place on somebody's machine. That is what Debian
/// asks this file about. Where there is one already, the machine's owner has decided.
const INSTALL: &str = "\
policy=/usr/sbin/policy-rc.d
if [ ! -e \"$policy\" ]; then
    trap 'rm -f \"$policy\"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\\nexit 101\\n' >\"$policy\" && chmod 755 \"$policy\" || exit 1
fi
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \"$@\"
";

/// The machine that needs are provided on: something that runs commands.
pub(crate) trait Host {
    /// Runs a command, found on the path or where servers are; its output, whether it ended well (`Ok`) or not.
    fn run(&self, command: &[&str]) -> Result<String, String>;

    /// Looks for a library, where servers look for it.
    fn library(&self, name: &str) -> Result<(), String>;

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
        let found = tenure_testbed::program(program).unwrap_or_else(|_| (*program).to_owned());
        match Task::program(&self.directory, &found, args).capture() {
            Ok((ended, output)) if ended.well() => Ok(output),
            Ok((ended, output)) => Err(format!("`{}`: {ended}\n{output}", command.join(" "))),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    fn library(&self, name: &str) -> Result<(), String> {
        tenure_testbed::library(name).map(drop).map_err(|error| format!("{error:#}"))
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
    // Last: Python itself may have been missing.
    for need in &missing {
        if let Source::Python(packages) = need.source {
            host.say(&format!("{} is missing: pip install {}", need.name, packages.join(" ")));
            troubles.extend(host.run(&[&["sh", "-c", INSTALL_PYTHON, "sh"], packages].concat()).err());
        }
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
            Source::Python(packages) => format!(
                "Run `python3 -m venv target/python` and `target/python/bin/pip install {}`.",
                packages.join(" ")
            ),
        };
        format!("error: {name} is missing, needed for {wanted_for}. {remedy}\n  {}", found.trim_end())
    }
}

impl Source {
    fn packages(&self) -> &'static [&'static str] {
        match self {
            Self::Debian(packages) => packages,
            Self::Toolchain | Self::RustupComponent(_) | Self::Python(_) => &[],
        }
    }
}

impl Probe {
    /// Whether the need is met; if not, what was found instead.
    fn check(&self, host: &dyn Host) -> Result<(), String> {
        match *self {
            Self::Runs(command) => host.run(command).map(drop),
            Self::Library(name) => host.library(name),
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
    let packages: Vec<&str> = packages.iter().copied().collect();
    host.say(&format!("missing Debian packages are installed now: {}", packages.join(" ")));
    host.say(
        "their services are not started now; `systemctl disable` keeps them from starting with the machine",
    );
    host.run(&[prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "update"]].concat())?;
    host.run(&[prefix, &["sh", "-c", INSTALL, "sh"], &packages].concat()).map(drop)
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
        Need {
            name: "plug-in",
            wanted_for: "the test",
            probe: Probe::Library("db.so"),
            source: Source::Debian(&["db-server"]),
        },
        Need {
            name: "robot",
            wanted_for: "the test",
            probe: Probe::Runs(&["robot"]),
            source: Source::Python(&["robot==1"]),
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
            let command = command.join(" ").replace(&format!("sh -c {INSTALL} sh"), "install");
            let command = command.replace(&format!("sh -c {INSTALL_PYTHON} sh"), "pip install");
            self.ran.borrow_mut().push(command.clone());
            let brought = self.brings.iter().filter(|(by, _)| *by == command).map(|&(_, what)| (what, ""));
            self.works.borrow_mut().extend(brought);
            let works = self.works.borrow();
            let found = works.iter().find(|(known, _)| *known == command);
            found.map(|(_, output)| (*output).to_owned()).ok_or_else(|| format!("`{command}` not found"))
        }

        fn library(&self, name: &str) -> Result<(), String> {
            self.run(&["library", name]).map(drop)
        }

        fn say(&self, _line: &str) {}
    }

    const UPDATE: &str = "env DEBIAN_FRONTEND=noninteractive apt-get update";
    const INSTALL_BOTH: &str = "install db-client db-server";

    #[test]
    fn what_is_there_is_left_alone() {
        let host = Pretended::default();
        *host.works.borrow_mut() = vec![
            ("rustc --version", "rustc 1.90.0 (x)"),
            ("lint", ""),
            ("db --version", ""),
            ("library db.so", ""),
            ("robot", ""),
        ];
        assert_eq!(provide(WANTED, &host), Vec::<String>::new());
        assert_eq!(*host.ran.borrow(), ["rustc --version", "lint", "db --version", "library db.so", "robot"]);
    }

    #[test]
    fn root_installs_what_is_missing() {
        let host = Pretended {
            brings: vec![
                (INSTALL_BOTH, "db --version"),
                (INSTALL_BOTH, "library db.so"),
                (ADD, "lint"),
                (INSTALL_ROBOT, "robot"),
            ],
            ..Pretended::default()
        };
        *host.works.borrow_mut() = vec![
            ("rustc --version", "rustc 2.1.0"),
            ("apt-get --version", ""),
            ("id -u", "0\n"),
            (UPDATE, ""),
            (INSTALL_BOTH, ""),
            (ADD, ""),
            (INSTALL_ROBOT, ""),
        ];
        assert_eq!(provide(WANTED, &host), Vec::<String>::new());
        let ran = host.ran.borrow();
        let place = |wanted: &str| ran.iter().position(|command| command == wanted);
        assert!(place(INSTALL_BOTH) < place(INSTALL_ROBOT), "Python may come with the packages: {ran:?}");
    }

    const ADD: &str = "rustup component add lint";
    const INSTALL_ROBOT: &str = "pip install robot==1";

    #[test]
    fn others_install_with_sudo() {
        let host = Pretended::default();
        *host.works.borrow_mut() = vec![("apt-get --version", ""), ("id -u", "1000\n"), ("sudo -n true", "")];
        provide(WANTED, &host);
        assert!(host.ran.borrow().contains(&format!("sudo -n {UPDATE}")), "{:?}", host.ran);
        assert!(
            !host.ran.borrow().iter().any(|command| command.contains(INSTALL_BOTH)),
            "the update failed: {:?}",
            host.ran
        );
        host.works.borrow_mut().push(("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get update", ""));
        provide(WANTED, &host);
        assert!(host.ran.borrow().contains(&format!("sudo -n {INSTALL_BOTH}")), "{:?}", host.ran);
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
            "`target/python/bin/pip install robot==1`",
        ] {
            assert!(errors.contains(expected), "no {expected:?} in:\n{errors}");
        }
    }

    /// What an installation with a stand-in for `apt-get` prints: whether services may start meanwhile, and the packages. And whether it
    /// ended well.
    fn install_with(policy: &Path, apt_get: &str) -> (bool, String) {
        let script = INSTALL.replace("/usr/sbin/policy-rc.d", policy.to_str().unwrap());
        let script = format!("apt_get() {{ {apt_get}; }}\n{}", script.replace(" apt-get ", " apt_get "));
        let task = Task::program(Path::new("."), "sh", &["-c", &script, "sh", "one", "two"]);
        let (ended, output) = task.capture().unwrap();
        (ended.well(), output)
    }

    #[test]
    fn services_do_not_start_while_packages_are_installed() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy");
        let ask = "\"$policy\" db start; echo \"$? $*\"";
        let (well, output) = install_with(&policy, ask);
        assert!(well && output == "101 install -y --no-install-recommends one two\n", "{output}");
        assert!(!policy.exists(), "it is removed");
        assert!(!install_with(&policy, "false").0, "a failure is told");
        assert!(!policy.exists(), "it is removed");
    }

    #[test]
    fn the_owners_own_policy_stays() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy");
        std::fs::write(&policy, "exit 0").unwrap();
        let (_, output) = install_with(&policy, "sh \"$policy\"; echo $?");
        assert_eq!(output, "0\n");
        assert!(policy.exists());
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("1.100.0") > version("1.90"));
        assert!(version("1.90.0-nightly") >= version("1.90"));
        assert!(version("1.9.9") < version("1.90"));
        assert!(version("what") < version("1.0"));
    }
}
