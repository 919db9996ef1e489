//! [`Process`]: a process of the demo, which dies with it, and whose lines are heard.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader, Read, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    thread,
};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::node::{SECRET, STORE};
use crate::run::launch;

/// Lines of a process's errors that are kept.
const ERRORS_KEPT: usize = 8;

/// What all processes of a demo are told.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) cluster: String,
    pub(crate) url: String,
    pub(crate) secret: String,
}

/// A process. It is killed when dropped, and by the kernel when the demo dies.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    errors: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts one. Its lines go to `lines`, and `None` when there will be no more.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start<T: Send + 'static>(
        words: &[&str],
        place: &Place,
        lines: mpsc::Sender<T>,
        heard: impl Fn(Option<String>) -> T + Send + 'static,
    ) -> anyhow::Result<Self> {
        // This one binds its life to ours, and becomes the other.
        let mut command = Command::new("/proc/self/exe");
        command.arg(launch::COMMAND).arg(std::process::id().to_string()).arg("/proc/self/exe").args(words);
        // What is set for other commands is not meant for the demo's.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TENURE_"))
        {
            command.env_remove(name);
        }
        command.env(STORE, &place.url).env(SECRET, &place.secret).env("TENURE_CONFIG", "/dev/null");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("can't start {}", words.join(" ")))?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Self { child, input, errors: Arc::default() };
        let kept = Arc::clone(&process.errors);
        thread::spawn(move || {
            each_line(errors, |line| {
                let mut kept = kept.lock();
                kept.push_back(line);
                if kept.len() > ERRORS_KEPT {
                    kept.pop_front();
                }
                true
            });
        });
        thread::spawn(move || {
            each_line(output, |line| lines.blocking_send(heard(Some(line))).is_ok());
            // Nobody listens any more when the demo is over.
            let _ = lines.blocking_send(heard(None));
        });
        Ok(process)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it a line. One that is dead hears nothing, which is noticed elsewhere.
    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}");
        }
    }

    /// Kills it.
    ///
    /// # Errors
    /// When that is not possible.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// What it has said of its errors.
    pub(crate) fn errors(&self) -> String {
        let lines: Vec<String> = self.errors.lock().iter().cloned().collect();
        if lines.is_empty() { "it did not say why".to_owned() } else { lines.join("\n") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn each_line(source: Option<impl Read>, mut hear: impl FnMut(String) -> bool) {
    let lines = source.map(BufReader::new).into_iter().flat_map(BufReader::lines);
    for line in lines.map_while(Result::ok) {
        if !hear(line) {
            return;
        }
    }
}
