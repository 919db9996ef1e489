//! [`Node`]: a process that runs the command when it leads, as the test sees it.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{
    command::{self, Style},
    process,
};

/// The election in which all nodes of a case stand.
const OFFICE: &str = "office";

/// What runs the command on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Tenure,
    /// It has no guardian, never ends the command by itself, and ends when the command has ended.
    Etcdctl,
}

/// What a node is to be.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    /// No node before had this name: nobody needs to wait for the end of its session.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) ttl: Duration,
    pub(crate) style: Style,
}

/// A running node. Killed when dropped, with its command.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) post: Post,
    process: Child,
    errors: PathBuf,
    joined: bool,
    /// Whether something was done to it that may end it.
    pub(crate) may_end: bool,
}

impl Node {
    /// Starts it. What it tells goes to a file in the folder.
    pub(crate) fn new(program: Program, post: Post, folder: &Path) -> Self {
        match program {
            Program::Tenure => Self::tenure(post, folder),
            Program::Etcdctl => Self::etcdctl(post, folder),
        }
    }

    fn tenure(post: Post, folder: &Path) -> Self {
        let ttl = format!("{}ms", post.ttl.as_millis());
        let words = [
            env!("CARGO_BIN_EXE_tenure"),
            "run",
            OFFICE,
            "--json",
            "--restart=always",
            &format!("--store={}", post.url),
            &format!("--node={}", post.name),
            &format!("--ttl={ttl}"),
            "--",
        ];
        Self::start(post.clone(), &words, folder)
    }

    /// `etcdctl lock` in the place of `tenure run`.
    fn etcdctl(post: Post, folder: &Path) -> Self {
        let etcdctl = tenure_testbed::program("etcdctl").unwrap();
        let ttl = post.ttl.as_secs();
        let words = [
            &etcdctl,
            &format!("--endpoints={}", post.url.replace("etcd://", "http://")),
            "lock",
            OFFICE,
            &format!("--ttl={ttl}"),
            "--",
        ];
        let mut node = Self::start(post.clone(), &words, folder);
        // It does not say when it is there, and ends with its command.
        (node.joined, node.may_end) = (true, true);
        node
    }

    fn start(post: Post, words: &[&str], folder: &Path) -> Self {
        let this = std::env::current_exe().unwrap();
        let errors = folder.join(format!("{}.errors", post.name));
        let process = Command::new(&this)
            .arg(command::LEASH)
            .args(words)
            .arg(&this)
            .args(command::arguments(&folder.join(crate::LOG), post.style))
            .env("TENURE_NODE", &post.name)
            .env("ETCDCTL_API", "3")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        Self { post, process, errors, joined: false, may_end: false }
    }

    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    /// The guardian of a `tenure run`, if it is there.
    pub(crate) fn guardian(&self) -> Option<i32> {
        let children = process::children(self.id()).into_iter();
        children.into_iter().find(|id| process::arguments(*id).get(1).is_some_and(|word| word == "guardian"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        process::send(self.id(), signal);
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.may_end = true;
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Whether it has joined the cluster: before, it may give up when there is no store.
    pub(crate) fn has_joined(&mut self) -> bool {
        self.joined = self.joined || self.errors().contains("\"waiting\"");
        self.joined
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// What it told.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A guardian that was stopped could not do its duty.
        self.guardian().into_iter().for_each(|guardian| process::send(guardian, Signal::SIGCONT));
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
