//! The command that must never run twice: it tells by lines in a log that it lives, and so does what it starts.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    thread,
    time::Duration,
};

use nix::sys::{
    prctl,
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use tenure::store::Env;

use crate::log::{Family, Writer, nanos};

/// First arguments that make this program the command, or one of its kin, or the parent that one of these outlives.
pub(crate) const COMMAND: &str = "--command";
const KIN: &str = "--kin";
const LEAVER: &str = "--leaver";

/// The first argument that makes this program another one, which is killed when its parent dies.
pub(crate) const LEASH: &str = "--leash";

const BEAT_PAUSE: Duration = Duration::from_millis(5);

/// How the command behaves when it is to end, and what it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// It ends at SIGTERM, and says so.
    Obedient,
    /// It ignores SIGTERM.
    Stubborn,
    /// It ends at SIGTERM, and has a child that does not.
    Parent,
    /// It ends at SIGTERM, and has a grandchild that does not, in a session of its own, and whose parent is dead.
    Founder,
}

impl Style {
    pub(crate) const ALL: [Self; 4] = [Self::Obedient, Self::Stubborn, Self::Parent, Self::Founder];

    /// Whether there is more of it than one process.
    pub(crate) fn has_kin(self) -> bool {
        matches!(self, Self::Parent | Self::Founder)
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Style {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let style = Self::ALL.into_iter().find(|style| style.to_string() == text);
        style.ok_or_else(|| format!("no style: {text:?}"))
    }
}

/// The arguments that make this program such a command, for the test of this process id.
pub(crate) fn arguments(log: &Path, style: Style) -> Vec<String> {
    let (log, test) = (log.display().to_string(), std::process::id().to_string());
    vec![COMMAND.to_owned(), log, style.to_string(), test]
}

/// Does what the first argument says, if it says anything of that kind. Returns whether it did.
pub(crate) fn perform(arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        [COMMAND, log, style, test] => live(Path::new(log), style.parse().unwrap(), test),
        [KIN, log, term, family, test] => {
            hold_off(Signal::SIGTERM);
            let mut writer = Writer::new(Path::new(log), term.parse().unwrap(), family.parse().unwrap());
            while is_watched(test) {
                writer.write("beat");
                thread::sleep(BEAT_PAUSE);
            }
        }
        [LEAVER, rest @ ..] => {
            nix::unistd::setsid().unwrap();
            drop(again(KIN).args(rest).spawn().unwrap());
        }
        [LEASH, program, rest @ ..] => {
            use std::os::unix::process::CommandExt as _;
            prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
            panic!("{program}: {}", Command::new(program).args(rest).exec());
        }
        _ => return false,
    }
    true
}

/// The life of the command.
fn live(log: &Path, style: Style, test: &str) {
    let asked = (style != Style::Stubborn).then(|| listen(Signal::SIGTERM));
    if style == Style::Stubborn {
        hold_off(Signal::SIGTERM);
    }
    let node = std::env::var("TENURE_NODE").unwrap();
    // Where nobody tells the term, the starts are counted.
    let term = std::env::var("TENURE_TERM").ok().map(|term| term.parse().unwrap());
    let term = term.unwrap_or_else(|| {
        let text = std::fs::read_to_string(log).unwrap();
        text.lines().filter(|line| line.starts_with("start ")).count() as u64 + 1
    });
    let command = i32::try_from(std::process::id()).unwrap();
    let family = Family { node, command, born: nanos(&Env::system()) };
    let mut writer = Writer::new(log, term, family);
    writer.write("start");
    let kin = [log.display().to_string(), term.to_string(), writer.family.to_string(), test.to_owned()];
    match style {
        Style::Obedient | Style::Stubborn => {}
        Style::Parent => drop(again(KIN).args(kin).spawn().unwrap()),
        Style::Founder => assert!(again(LEAVER).args(kin).status().unwrap().success()),
    }
    while is_watched(test) {
        if asked.as_ref().is_some_and(|asked| asked.read_signal().unwrap().is_some()) {
            return writer.write("stop");
        }
        thread::sleep(BEAT_PAUSE);
        writer.write("beat");
    }
}

fn again(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(role);
    command
}

/// Whether the test still runs: nothing of a command is left when it was killed.
fn is_watched(test: &str) -> bool {
    PathBuf::from("/proc").join(test).exists()
}

/// Keeps a signal from ending this process.
fn hold_off(signal: Signal) {
    SigSet::from_iter([signal]).thread_block().unwrap();
}

fn listen(signal: Signal) -> SignalFd {
    hold_off(signal);
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&SigSet::from_iter([signal]), flags).unwrap()
}
