//! [`Cluster`]: questions to the cluster, with a login where one is needed.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_store::{Env, Password, StoreError};
use tonic::{Streaming, codegen::tokio_stream::Stream};

use crate::{
    Settings,
    error::{Failure, Meaning},
    members::{Members, Repeat, Token},
    messages::{AuthenticateRequest, Method, StatusRequest, StatusResponse},
    rounds::Rounds,
};

/// How often one request may find its login outdated: the token had expired, then the rights were changed meanwhile.
const LOGINS_MAX: usize = 2;

/// A cluster, reached through whichever of its members answers.
#[derive(Debug)]
pub(crate) struct Cluster {
    members: Arc<Members>,
    login: Option<Login>,
}

/// Who we are to the cluster. Tokens live for some minutes, and not longer than the user they were given to.
#[derive(Debug)]
struct Login {
    token: Arc<Mutex<Option<Token>>>,
    rounds: Rounds<()>,
}

impl Cluster {
    /// A cluster as the settings say. Nothing is asked yet.
    pub(crate) fn new(settings: &Settings, env: Env) -> Result<Self, StoreError> {
        let members = Arc::new(Members::new(settings, env)?);
        let login = match (&settings.user, &settings.password) {
            (Some(user), Some(password)) => Some(Login::new(&members, user, password)),
            _ => None,
        };
        Ok(Self { members, login })
    }

    /// Gets a token, if a user is given.
    pub(crate) async fn log_in(&self) -> Result<(), StoreError> {
        match &self.login {
            None => Ok(()),
            Some(login) => login.rounds.join().await,
        }
    }

    /// Asks the cluster.
    pub(crate) async fn ask<M: Method>(
        &self,
        doing: &str,
        request: &M,
        repeat: Repeat,
    ) -> Result<M::Answer, Failure> {
        let mut logins = 0;
        loop {
            let token = self.token();
            let failure = match self.members.ask(doing, request, token.as_ref(), repeat).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.meaning != Meaning::Login || logins == LOGINS_MAX {
                return Err(failure);
            }
            logins += 1;
            self.renew(token, failure).await?;
        }
    }

    /// Opens a stream, and returns the index of the member that it is at.
    pub(crate) async fn stream<M: Method>(
        &self,
        doing: &str,
        requests: impl Stream<Item = M> + Send + 'static,
    ) -> Result<(usize, Streaming<M::Answer>), Failure> {
        self.members.stream(doing, requests, self.token().as_ref()).await
    }

    /// Asks another member from now on than this one, on which a stream broke.
    pub(crate) fn leave(&self, index: usize) {
        self.members.leave(index);
    }

    /// What a member is called.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.members.name(index)
    }

    /// What a member says about itself.
    pub(crate) async fn status(&self) -> Result<StatusResponse, Failure> {
        self.ask("ask for the state", &StatusRequest {}, Repeat::Safe).await
    }

    fn token(&self) -> Option<Token> {
        self.login.as_ref().and_then(|login| login.token.lock().clone())
    }

    /// Gets a new token if `stale` is still the one in use; returns the failure where no login can help.
    async fn renew(&self, stale: Option<Token>, failure: Failure) -> Result<(), Failure> {
        let Some(login) = &self.login else { return Err(failure) };
        if *login.token.lock() != stale {
            return Ok(());
        }
        login.rounds.join().await.map_err(|error| match error {
            StoreError::Unavailable(reason) => Failure::unsent(reason),
            StoreError::Invalid(reason) => Failure { meaning: Meaning::Invalid, reason, broken: false },
            _ => failure,
        })
    }
}

impl Login {
    fn new(members: &Arc<Members>, user: &str, password: &Password) -> Self {
        let token = Arc::new(Mutex::new(None));
        let request = AuthenticateRequest { name: user.to_owned(), password: password.reveal().to_owned() };
        let rounds = Rounds::start({
            let (members, token) = (Arc::clone(members), Arc::clone(&token));
            move || {
                let (members, token, request) = (Arc::clone(&members), Arc::clone(&token), request.clone());
                async move {
                    let made = authenticate(&members, &request).await?;
                    *token.lock() = made;
                    Ok(())
                }
            }
        });
        Self { token, rounds }
    }
}

/// A new token, or none where the cluster asks for none.
async fn authenticate(members: &Members, request: &AuthenticateRequest) -> Result<Option<Token>, StoreError> {
    match members.ask("log in", request, None, Repeat::Safe).await {
        Ok(answer) => {
            let mut token: Token = answer.token.parse().map_err(|_| {
                StoreError::corrupt(
                    "the cluster gave a token that can't be sent back to it: look at its --auth-token",
                )
            })?;
            // So it is not printed either.
            token.set_sensitive(true);
            Ok(Some(token))
        }
        Err(failure) if failure.reason.to_string().contains("authentication is not enabled") => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}
