//! [`Fault`]: what happens to the node that leads, or to its store. [`Deck`]: in which order.

use rand::{rngs::StdRng, seq::SliceRandom as _};

use crate::{command::Style, node::Program, store::Place};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Terminate,
    KillRun,
    KillGuardian,
    KillBoth,
    KillCommand,
    StopRun,
    StopGuardian,
    StopGuardianKillRun,
    StopGuardianTerminate,
    StopGuardianCut,
    StopCommand,
    StopCommandKillRun,
    KillStore,
    FreezeStore,
    Cut,
}

impl Fault {
    pub(crate) const ALL: [Self; 15] = [
        Self::Terminate,
        Self::KillRun,
        Self::KillGuardian,
        Self::KillBoth,
        Self::KillCommand,
        Self::StopRun,
        Self::StopGuardian,
        Self::StopGuardianKillRun,
        Self::StopGuardianTerminate,
        Self::StopGuardianCut,
        Self::StopCommand,
        Self::StopCommandKillRun,
        Self::KillStore,
        Self::FreezeStore,
        Self::Cut,
    ];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM to tenure run",
            Self::KillRun => "kill -9 of tenure run",
            Self::KillGuardian => "kill -9 of the guardian",
            Self::KillBoth => "kill -9 of both",
            Self::KillCommand => "kill -9 of the command",
            Self::StopRun => "tenure run stopped past the ttl",
            Self::StopGuardian => "guardian stopped past the ttl",
            Self::StopGuardianKillRun => "guardian stopped, tenure run killed",
            Self::StopGuardianTerminate => "guardian stopped, SIGTERM to tenure run",
            Self::StopGuardianCut => "guardian stopped, node cut off past the ttl",
            Self::StopCommand => "command stopped past the ttl",
            Self::StopCommandKillRun => "command stopped, tenure run killed",
            Self::KillStore => "store killed, started again",
            Self::FreezeStore => "store frozen past the ttl",
            Self::Cut => "node cut off past the ttl",
        }
    }

    /// Whether the command must have ended because of it.
    pub(crate) fn ends_life(self) -> bool {
        !matches!(self, Self::StopGuardian | Self::StopCommand | Self::KillStore)
    }

    /// Whether it can happen to a store of this kind: a file is neither killed nor far away.
    fn happens_to(self, place: Place) -> bool {
        let remote = matches!(self, Self::StopGuardianCut | Self::KillStore | Self::FreezeStore | Self::Cut);
        !remote || place != Place::Sqlite
    }

    /// Whether it can happen to a node with this program. One without a guardian passes no SIGTERM on.
    fn happens_to_program(self, program: Program) -> bool {
        let guarded = matches!(
            self,
            Self::Terminate
                | Self::KillGuardian
                | Self::KillBoth
                | Self::StopGuardian
                | Self::StopGuardianKillRun
                | Self::StopGuardianTerminate
                | Self::StopGuardianCut
        );
        program == Program::Tenure || !guarded
    }

    /// Whether it can happen while such a command runs. When all who look after it are dead, the kernel ends the
    /// command's first process only.
    fn happens_with(self, style: Style) -> bool {
        self != Self::KillBoth || !style.has_kin()
    }
}

/// All faults of a kind of store and of nodes in an order by chance, over and over.
#[derive(Debug)]
pub(crate) struct Deck {
    place: Place,
    program: Program,
    left: Vec<Fault>,
}

impl Deck {
    pub(crate) fn new(place: Place, program: Program) -> Self {
        Self { place, program, left: Vec::new() }
    }

    /// The next one that can happen to this command.
    pub(crate) fn draw(&mut self, style: Style, dice: &mut StdRng) -> Fault {
        loop {
            if let Some(at) = self.left.iter().position(|fault| fault.happens_with(style)) {
                return self.left.remove(at);
            }
            let mut all = Fault::ALL.to_vec();
            all.retain(|fault| fault.happens_to(self.place) && fault.happens_to_program(self.program));
            all.shuffle(dice);
            self.left.extend(all);
        }
    }
}
