//! [`LastWill`]: a node's hold on the process that ends its session if the node dies.

use std::{
    io,
    path::{self, PathBuf},
    time::Duration,
};

use tenure_store::Env;

use super::{Will, WillError, WillProgram, message::Message, process::Process};

/// How long the program may take to start, and to say that it has a will. It takes a few milliseconds, on a machine that is not overloaded.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A last will that is being kept by a process of its own. It is carried out when this process has died.
///
/// Dropping it changes nothing: the will is kept until this process ends, and then carried out. To take it back, [revoke](Self::revoke) it.
#[derive(Debug)]
pub struct LastWill {
    program: PathBuf,
    /// Of the will that was sent last.
    number: u64,
    /// `None` once it is known to be lost.
    process: Option<Process>,
}

impl LastWill {
    /// Starts the program and hands the will over. When this returns, it is kept.
    ///
    /// # Errors
    /// [`WillError::Program`], [`WillError::Ended`], [`WillError::Silent`] and [`WillError::FirstProcess`]: there is no last will then, and no process is left.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a will that is kept, as when a `LastWill` is dropped.
    ///
    /// # Panics
    /// On a runtime without I/O.
    pub async fn start(program: &WillProgram, will: &Will, env: &Env) -> Result<Self, WillError> {
        if std::process::id() == 1 {
            return Err(WillError::FirstProcess);
        }
        let unable = |path: &PathBuf, source: io::Error| WillError::Program { program: path.clone(), source };
        // The executor has another working directory.
        let path = path::absolute(&program.path).map_err(|error| unable(&program.path, error))?;
        let process = Process::spawn(&path, &program.arguments).map_err(|error| unable(&path, error))?;
        let mut started = Self { program: path, number: 0, process: Some(process) };
        started.replace(will, env).await?;
        Ok(started)
    }

    /// Hands over a will that takes the place of the one before. When this returns, only the new one is kept.
    ///
    /// # Errors
    /// [`WillError::Ended`] and [`WillError::Silent`]: neither is kept then. [Start](Self::start) anew.
    ///
    /// # Cancel safety
    /// Dropping the future leaves either the one or the other kept.
    pub async fn replace(&mut self, will: &Will, env: &Env) -> Result<(), WillError> {
        self.number += 1;
        let (number, will) = (self.number, will.clone());
        let kept = match &mut self.process {
            Some(process) => env.timeout(ANSWER_LIMIT, hand_over(process, number, will)).await,
            None => Ok(Ok(false)),
        };
        match kept {
            Ok(Ok(true)) => Ok(()),
            Ok(_) => Err(self.ended(env).await),
            Err(_) => {
                self.end(env).await;
                Err(WillError::Silent { program: self.program.clone(), after: ANSWER_LIMIT })
            }
        }
    }

    /// Waits until the will is not kept any more, though nobody revoked it: because somebody killed the process that kept it. [Start](Self::start) anew.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn lost(&mut self, env: &Env) -> WillError {
        if let Some(process) = &mut self.process {
            // Whatever comes is an answer that nobody waited for. As many of them as were sent.
            while let Ok(Some(_)) = process.answer().await {}
        }
        self.ended(env).await
    }

    /// Takes the will back. When this returns, the process that kept it is gone.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the will revoked, or kept until this process ends.
    pub async fn revoke(mut self, env: &Env) {
        if let Some(process) = &mut self.process {
            let asking = async {
                process.send(&Message::Revoke.encode()).await?;
                while process.answer().await?.is_some() {}
                io::Result::Ok(())
            };
            // If it does not end by itself, it is killed, which comes to the same.
            let _ = env.timeout(ANSWER_LIMIT, asking).await;
        }
        self.end(env).await;
    }

    /// The process that keeps the will, as long as it is not known to be lost.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    async fn ended(&mut self, env: &Env) -> WillError {
        let said = match &mut self.process {
            Some(process) => process.said(env).await,
            None => String::new(),
        };
        self.end(env).await;
        WillError::Ended { program: self.program.clone(), said }
    }

    async fn end(&mut self, env: &Env) {
        if let Some(process) = &mut self.process {
            process.end(env).await;
            self.process = None;
        }
    }
}

/// Whether the executor says that it keeps the will. Answers to wills before it are those of calls that did not wait for them.
async fn hand_over(process: &mut Process, number: u64, will: Will) -> io::Result<bool> {
    process.send(&Message::Keep { number, will }.encode()).await?;
    while let Some(answer) = process.answer().await? {
        if answer == number {
            return Ok(true);
        }
    }
    Ok(false)
}
