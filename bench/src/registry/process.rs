//! [`Node`]: a node as the run sees it: this program again, told by lines what to do, and telling by lines what came of it. The store's URL is not an argument, which
//! everybody on the machine could read.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use tenure_store::Env;

use crate::task::{Done, Look, Start, Task, Work};

/// The first argument that makes this program a node.
pub(crate) const NODE: &str = "--node";

/// The one that makes it the executor of a node's last will.
pub(crate) const EXECUTOR: &str = "--executor";

/// A node. Killed when dropped.
pub(crate) struct Node {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// How it was when it had all names.
    pub(crate) started: Look,
}

impl Node {
    pub(crate) fn start(url: &str, name: String) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.arg(NODE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output).lines();
        let mut node = Self { child, input, output, started: Look::default() };
        node.write(&serde_json::to_string(&Start { url: url.to_owned(), node: name }).unwrap());
        let Done::Look(started) = node.hear() else { panic!("a node that has started says how it is") };
        node.started = started;
        node
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Tells it to do something. What came of it must be heard afterwards.
    pub(crate) fn tell(&mut self, task: &Task) {
        self.write(&serde_json::to_string(task).unwrap());
    }

    pub(crate) fn hear(&mut self) -> Done {
        let line = self.output.next().expect("a node goes on until it is told to leave").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Has something done.
    pub(crate) fn does(&mut self, task: &Task) -> Done {
        self.tell(task);
        self.hear()
    }

    pub(crate) fn look(&mut self) -> Look {
        let Done::Look(look) = self.does(&Task::Look) else { panic!("it says how it is") };
        look
    }

    pub(crate) fn work(&mut self, task: &Task) -> Work {
        let Done::Work(work) = self.does(task) else { panic!("it says what came of it") };
        work
    }

    /// The moment that it tells, in nanoseconds.
    pub(crate) fn moment(&mut self) -> u64 {
        let Done::At(moment) = self.hear() else { panic!("it says when it was") };
        moment
    }

    /// Kills it. Returns when that was.
    pub(crate) fn kill(mut self) -> u64 {
        let now = u64::try_from(Env::system().now().since_start().as_nanos()).unwrap();
        self.child.kill().unwrap();
        now
    }

    /// Lets it leave. Returns when that began.
    pub(crate) fn leave(mut self) -> u64 {
        self.tell(&Task::Leave);
        let begun = self.moment();
        // It ends by itself, and is waited for when this is dropped.
        self.child.wait().unwrap();
        begun
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
