//! Who may do what: roles, tokens, certificates; and which hosts a request may be for.
//!
//! A page in somebody's browser must not reach a daemon on the same machine under a name of its own (rebinding), so a request is only taken for the hosts that are known, and
//! one that a page sends only from the same origin.

use std::{fmt, fs::File, io::Read as _, net::SocketAddr, path::Path, str::FromStr, sync::Arc};

use anyhow::{Context as _, bail, ensure};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;

use super::problem::Problem;

/// What somebody may do. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// Look.
    Read,
    /// Hold sessions, lead, send messages.
    TakePart,
    /// Depose, replay, delete.
    Operate,
}

impl FromStr for Role {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "read" => Self::Read,
            "take-part" => Self::TakePart,
            "operate" => Self::Operate,
            other => bail!("{other:?} is no role: write read, take-part or operate"),
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::TakePart => "take-part",
            Self::Operate => "operate",
        })
    }
}

/// The SHA-256 of a token or a certificate: nothing that could be printed by mistake.
pub(crate) type Fingerprint = [u8; 32];

/// The fingerprint of a token or a certificate.
pub(crate) fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    let mut fingerprint = Fingerprint::default();
    fingerprint.copy_from_slice(digest(&SHA256, bytes).as_ref());
    fingerprint
}

/// The certificate that a client has shown, and that was found to be good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientCertificate(pub(crate) Fingerprint);

/// The shortest token, in bytes.
const TOKEN_BYTES_MIN: usize = 16;

/// Who may do what.
#[derive(Debug)]
pub(crate) struct Access {
    /// What is known, and what each may do. Nothing: everybody may do everything.
    known: Vec<(Fingerprint, Role)>,
    hosts: Vec<String>,
}

impl Access {
    /// Everybody who reaches the daemon may do everything.
    pub(crate) fn open(hosts: Vec<String>) -> Self {
        Self { known: Vec::new(), hosts }
    }

    /// What a file says: a role and a token a line, or a role and `sha256:` with the fingerprint of a client's certificate.
    ///
    /// # Errors
    /// When it can't be read, others may read it, or it breaks a rule. No token is in the error.
    pub(crate) fn from_file(file: &Path, hosts: Vec<String>) -> anyhow::Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let name = file.display();
        let mut opened = File::open(file).with_context(|| format!("can't read --tokens {name}"))?;
        // Of what was opened: another file may have this name by now.
        let mode = opened.metadata()?.permissions().mode();
        ensure!(
            mode & 0o027 == 0,
            "--tokens {name} can be read by everybody, or written by others: chmod 600 {name}"
        );
        let mut text = String::new();
        opened.read_to_string(&mut text).with_context(|| format!("can't read --tokens {name}"))?;
        let known = Self::parse(&text).with_context(|| format!("--tokens {name}"))?;
        ensure!(!known.is_empty(), "--tokens {name} has no token: write a line such as: operate TOKEN");
        Ok(Self { known, hosts })
    }

    fn parse(text: &str) -> anyhow::Result<Vec<(Fingerprint, Role)>> {
        let mut known = Vec::new();
        for (line, words) in (1..).zip(text.lines()) {
            let words: Vec<&str> = words.split('#').next().unwrap_or_default().split_whitespace().collect();
            let (role, secret) = match words[..] {
                [] => continue,
                [role, secret] => (role, secret),
                _ => bail!("line {line} has {} words: write a role and a token", words.len()),
            };
            let role: Role = role.parse().with_context(|| format!("line {line}"))?;
            let fingerprint = match secret.strip_prefix("sha256:") {
                Some(hex) => fingerprint(hex).with_context(|| {
                    format!("line {line}: sha256: is followed by 64 hexadecimal digits, colons between them or not")
                })?,
                None => {
                    ensure!(
                        secret.len() >= TOKEN_BYTES_MIN,
                        "line {line}: the token has {} bytes, and needs {TOKEN_BYTES_MIN}: make one by openssl rand -hex 32",
                        secret.len()
                    );
                    fingerprint_of(secret.as_bytes())
                }
            };
            known.push((fingerprint, role));
        }
        Ok(known)
    }

    /// What whoever sent this may do; nothing if that is not known.
    fn role(&self, headers: &HeaderMap, certificate: Option<ClientCertificate>) -> Option<Role> {
        if self.known.is_empty() {
            return Some(Role::Operate);
        }
        let token =
            headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let token: Option<Fingerprint> = token.map(|token| fingerprint_of(token.trim_ascii()));
        let shown = [token, certificate.map(|certificate| certificate.0)];
        // All are compared, whichever fits: the time tells nothing.
        let fits = |known: &Fingerprint| shown.iter().flatten().any(|shown| bool::from(shown.ct_eq(known)));
        self.known.iter().filter(|(known, _)| fits(known)).map(|(_, role)| *role).max()
    }

    /// Whether a request is for a host that is known, and comes from no other origin.
    fn admits(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        if headers.get_all(header::HOST).iter().nth(1).is_some() {
            return Err(Problem::invalid("the request names two hosts: send the header Host once"));
        }
        // Browsers tell of requests that a page of others makes, also where they send no origin. Whoever follows a link to the page may.
        let says = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
        if (says("sec-fetch-site", "cross-site") || says("sec-fetch-site", "same-site"))
            && !says("sec-fetch-mode", "navigate")
        {
            let words = "the request comes from a page of another origin: pages of others are refused";
            return Err(Problem::new(StatusCode::FORBIDDEN, "wrong origin", words));
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let Some(host) = host.or_else(|| uri.authority().map(|authority| authority.as_str())) else {
            return Err(Problem::invalid("the request names no host: send the header Host"));
        };
        let name = without_port(host).to_ascii_lowercase();
        if !self.hosts.contains(&name) {
            let words = format!("this daemon is not called {name:?}: start it with --host {name}");
            return Err(Problem::new(StatusCode::FORBIDDEN, "wrong host", words));
        }
        if let Some(origin) = headers.get(header::ORIGIN) {
            let same = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            if same.is_none_or(|(_, from)| !from.eq_ignore_ascii_case(host)) {
                let words = "the request comes from a page of another origin: pages of others are refused";
                return Err(Problem::new(StatusCode::FORBIDDEN, "wrong origin", words));
            }
        }
        Ok(())
    }
}

fn fingerprint(hex: &str) -> anyhow::Result<Fingerprint> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b':').collect();
    ensure!(digits.len() == 64, "there are {} digits", digits.len());
    let mut bytes = Fingerprint::default();
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair)?, 16)?;
    }
    Ok(bytes)
}

/// A host without its port; an IPv6 address without its brackets.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// The hosts that a daemon is called by: what it listens on, what it was told, and what a machine calls itself.
pub(crate) fn hosts(listen: SocketAddr, told: &[String]) -> Vec<String> {
    let mut hosts: Vec<String> = told.iter().map(|host| host.to_ascii_lowercase()).collect();
    hosts.push(listen.ip().to_string());
    if listen.ip().is_loopback() || listen.ip().is_unspecified() {
        hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    }
    hosts
}

/// Refuses requests for other hosts and from other origins.
pub(crate) async fn check_host(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.admits(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Refuses whoever may not do what these routes do.
pub(crate) async fn check_role(
    State((access, needed)): State<(Arc<Access>, Role)>,
    mut request: Request,
    next: Next,
) -> Response {
    let certificate = request.extensions().get::<ClientCertificate>().copied();
    match access.role(request.headers(), certificate) {
        Some(role) if role >= needed => {
            request.extensions_mut().insert(role);
            next.run(request).await
        }
        Some(role) => {
            let words =
                format!("this needs the role {needed}, and you have {role}: use a token that may do more");
            Problem::new(StatusCode::FORBIDDEN, "role too low", words).into_response()
        }
        None => {
            let words =
                "this daemon knows neither your token nor your certificate: send Authorization: Bearer TOKEN";
            Problem::new(StatusCode::UNAUTHORIZED, "who are you?", words).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const READ: &str = "0123456789abcdef";
    const OPERATE: &str = "fedcba9876543210";

    fn access(text: &str) -> Access {
        Access { known: Access::parse(text).unwrap(), hosts: vec!["localhost".into(), "::1".into()] }
    }

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn tokens_and_certificates_have_roles() {
        let certificate = fingerprint_of(b"certificate");
        let hex = certificate.map(|byte| format!("{byte:02X}")).join(":");
        let access =
            access(&format!("# who\nread {READ}\noperate {OPERATE} # ops\ntake-part sha256:{hex}\n\n"));
        let role =
            |authorization: &str| access.role(&headers(&[(header::AUTHORIZATION, authorization)]), None);
        assert_eq!(role(&format!("Bearer {READ}")), Some(Role::Read));
        assert_eq!(role(&format!("Bearer {OPERATE}")), Some(Role::Operate));
        for wrong in ["Bearer x", "Bearer ", "Basic abc", READ] {
            assert_eq!(role(wrong), None, "{wrong}");
        }
        let shown = Some(ClientCertificate(certificate));
        assert_eq!(access.role(&HeaderMap::new(), shown), Some(Role::TakePart));
        assert_eq!(access.role(&HeaderMap::new(), Some(ClientCertificate([0; 32]))), None);
        let both = headers(&[(header::AUTHORIZATION, &format!("Bearer {OPERATE}"))]);
        assert_eq!(access.role(&both, shown), Some(Role::Operate), "the better of the two");
    }

    #[test]
    fn what_a_file_may_not_say_is_named_without_the_secret() {
        let wrong = [
            ("admin 0123456789abcdef", "admin"),
            ("read hunter2", "7 bytes"),
            ("read a b", "3 words"),
            ("read sha256:12", "64 hexadecimal"),
            ("read", "1 words"),
        ];
        for (text, named) in wrong {
            let refusal = format!("{:#}", Access::parse(text).unwrap_err());
            assert!(refusal.contains(named) && refusal.contains("line 1"), "{refusal}");
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let access = access("");
        let admitted = |host: &str, origin: Option<&str>| {
            let mut pairs = vec![(header::HOST, host)];
            pairs.extend(origin.map(|origin| (header::ORIGIN, origin)));
            access.admits(&Uri::from_static("/"), &headers(&pairs)).is_ok()
        };
        assert!(
            admitted("localhost:4040", None) && admitted("LOCALHOST", None) && admitted("[::1]:4040", None)
        );
        assert!(admitted("localhost:4040", Some("http://localhost:4040")));
        assert!(!admitted("evil.example:4040", None), "rebinding");
        assert!(!admitted("localhost:4040", Some("http://evil.example")));
        assert!(!admitted("localhost:4040", Some("http://localhost:1")), "another port is another origin");
        assert!(!admitted("localhost:4040", Some("null")));
        assert!(access.admits(&Uri::from_static("/"), &HeaderMap::new()).is_err());
        let mut two = headers(&[(header::HOST, "localhost")]);
        two.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(access.admits(&Uri::from_static("/"), &two).is_err());
        let fetched = |mode: &'static str| {
            let mut headers = headers(&[(header::HOST, "localhost")]);
            headers.insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
            headers.insert("sec-fetch-mode", HeaderValue::from_static(mode));
            access.admits(&Uri::from_static("/"), &headers).is_ok()
        };
        assert!(!fetched("no-cors") && fetched("navigate"), "an image of others; a link");
    }
}
