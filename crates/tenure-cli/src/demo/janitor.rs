//! The janitor: a process that waits until the demo and all its nodes are gone, in whatever way, and removes what they leave.
//!
//! Its standard input is a pipe whose other end they all hold: it ends with the last of them.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{fs::DirBuilderExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use nix::{
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl},
    sys::signal::SigSet,
    unistd::pipe2,
};
use tenure::{
    cluster::{Keys, will::UNHEARD},
    store::{Commit, Name},
};

use super::node::STORE;

/// The hidden command that starts one: followed by the folder to be made and removed, and the cluster.
pub(crate) const COMMAND: &str = "demo-janitor";

/// What it says when the folder is there.
const READY: &[u8] = b"ready\n";

/// A janitor, as the demo sees it. It does its work when this is dropped and all nodes are gone.
#[derive(Debug)]
pub(crate) struct Janitor {
    process: Child,
    /// The end of the pipe that every process has which is started from now on.
    life: Option<OwnedFd>,
}

impl Janitor {
    /// Starts one, which makes the folder. With a `store`, it removes the cluster from it.
    ///
    /// # Errors
    /// When it can't be started, or the folder can't be made.
    pub(crate) fn start(folder: &Path, cluster: &str, store: Option<&str>) -> anyhow::Result<Self> {
        let (death, life) = pipe2(OFlag::O_CLOEXEC)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(COMMAND).arg(folder).arg(cluster).env_remove(STORE);
        command.envs(store.map(|url| (STORE, url)));
        // Ctrl-C, and whoever kills our group, must leave it alive.
        let process = command.stdin(Stdio::from(death)).stdout(Stdio::piped()).process_group(0).spawn();
        let mut process = process.context("can't start a janitor")?;
        fcntl(life.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
        let mut said = [0; READY.len()];
        let output = process.stdout.take().context("it has an output")?;
        let heard = { output }.read_exact(&mut said);
        ensure!(heard.is_ok() && said == READY, "can't make the folder {}", folder.display());
        Ok(Self { process, life: Some(life) })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.life = None;
        // If it fails, it says so itself.
        let _ = self.process.wait();
    }
}

/// Makes the folder, waits, and cleans up.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match clean(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "tenure demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn clean(arguments: &[OsString]) -> anyhow::Result<()> {
    let [folder, cluster] = arguments else { bail!("only `tenure demo` starts this") };
    let (folder, cluster) = (PathBuf::from(folder), cluster.to_str().context("a cluster is a text")?);
    let cluster: Name = cluster.parse()?;
    let unheard: SigSet = UNHEARD.into_iter().collect();
    unheard.thread_block()?;
    DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("can't make {}", folder.display()))?;
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let told = output.write_all(READY);
    drop(output);
    // What is said is of no interest; that nobody is left to say anything is.
    let waited = told.and_then(|()| io::copy(&mut io::stdin().lock(), &mut io::sink()));
    let forgotten = std::env::var(STORE).ok().map(|url| forget(&url, &cluster));
    fs::remove_dir_all(&folder).with_context(|| format!("can't remove {}", folder.display()))?;
    forgotten.transpose().with_context(|| format!("can't remove cluster {cluster} from the store"))?;
    waited.map(|_| ()).context("can't wait for the demo")
}

/// Removes a cluster from a store that others use as well.
fn forget(url: &str, cluster: &Name) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = tenure::open(url).await?;
        store.commit(Commit::new().delete_range(Keys::new(cluster).all())).await?;
        Ok(())
    })
}
