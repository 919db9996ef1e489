//! What opening a store says when it can't be done, and that no password is ever printed.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::{net::TcpListener, time::Duration};

use tenure_etcd::EtcdStore;
use tenure_store::{Commit, CommitError, Env, Key, Range, Store, StoreError, StoreExt};
use tenure_testbed::{Etcd, Options};

const PASSWORD: &str = "opensesame1";

fn set(text: &str) -> Commit {
    Commit::new().set(Key::from(text), "v")
}

/// Opens a store, which must fail with these words.
async fn refused(url: &str, words: &[&str]) -> StoreError {
    let error = EtcdStore::open(url).await.map(|store| panic!("{store} was opened")).unwrap_err();
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} in: {error}");
    }
    assert!(!format!("{error} {error:?}").contains(PASSWORD), "{error:?}");
    error
}

fn with_login(etcd: &Etcd, login: &str) -> String {
    format!("etcd://{login}@{}", etcd.endpoints().join(","))
}

#[tokio::test]
async fn hosts_that_cannot_be_reached_are_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("etcd://root:{PASSWORD}@{free},127.0.0.1:1");
    let error = refused(&url, &[&free.to_string(), "127.0.0.1:1", "refused"]).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");

    // It accepts, and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap();
    let url = format!("etcd://{address}?request_timeout=100ms");
    let error = refused(&url, &[&address.to_string(), "100ms"]).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn one_member_that_is_there_is_enough() {
    let etcd = Etcd::start(1, &Options::default()).unwrap();
    let url = format!("etcd://127.0.0.1:1,{},127.0.0.1:2", etcd.endpoints()[0]);
    for _ in 0..8 {
        let store = EtcdStore::open(&url).await.unwrap();
        store.commit(set("k")).await.unwrap();
    }
}

#[tokio::test]
async fn logins_that_are_refused_say_so() {
    let options = Options { password: Some(PASSWORD.into()), ..Options::default() };
    let etcd = Etcd::start(1, &options).unwrap();
    let root = format!("root:{PASSWORD}");
    let store = EtcdStore::open(&etcd.url()).await.unwrap();
    store.commit(set("k")).await.unwrap();
    let printed = format!("{store} {store:?}");
    assert!(
        !printed.contains(PASSWORD) && printed.contains("token: Mutex { data: Some(Sensitive) }"),
        "{printed}"
    );
    assert_eq!(store.to_string(), format!("etcd://root@{}/tenure", etcd.endpoints()[0]));

    let wrong = refused(&with_login(&etcd, "root:wrong"), &["check the user and the password"]).await;
    assert!(matches!(wrong, StoreError::Invalid(_)), "{wrong}");
    let nobody = refused(&with_login(&etcd, &format!("nobody:{PASSWORD}")), &["check the user"]).await;
    assert!(matches!(nobody, StoreError::Invalid(_)), "{nobody}");
    let without = format!("etcd://{}", etcd.endpoints()[0]);
    let without = refused(&without, &["asks for a login", "etcd://user:password@host"]).await;
    assert!(matches!(without, StoreError::Invalid(_)), "{without}");

    // Rights for the prefix are enough, and less is not.
    place::control(&etcd, Some(&root), &["user", "add", "al:alpw"]);
    let poor = with_login(&etcd, "al:alpw");
    let poor = refused(&poor, &["permission denied", "grant"]).await;
    assert!(matches!(poor, StoreError::Invalid(_)), "{poor}");
    place::control(&etcd, Some(&root), &["role", "add", "reader"]);
    place::control(&etcd, Some(&root), &["user", "grant-role", "al", "reader"]);
    let grant = ["role", "grant-permission", "reader", "read", "tenure//", "--prefix=true"];
    place::control(&etcd, Some(&root), &grant);
    refused(&with_login(&etcd, "al:alpw"), &["permission denied", "grant"]).await;
    let grant = ["role", "grant-permission", "reader", "readwrite", "tenure//", "--prefix=true"];
    place::control(&etcd, Some(&root), &grant);
    let rich = EtcdStore::open(&with_login(&etcd, "al:alpw")).await.unwrap();
    rich.commit(set("k").append(Key::from("l"), "v")).await.unwrap();

    // Taken away again while the store is open: a definite refusal, and nothing written.
    place::control(&etcd, Some(&root), &["user", "revoke-role", "al", "reader"]);
    let error = rich.commit(set("never")).await.unwrap_err();
    assert!(matches!(&error, CommitError::Failed(StoreError::Invalid(_))), "{error}");
    assert!(store.get(&Key::from("never")).await.unwrap().is_none());
    // All changes of rights made tokens old, and none of it was noticed here.
    store.commit(set("k")).await.unwrap();
}

/// A user who was deleted and made again is the same to us, but his tokens are gone.
#[tokio::test]
async fn a_login_is_made_again_when_its_token_is_gone() {
    let options = Options { password: Some(PASSWORD.into()), ..Options::default() };
    let etcd = Etcd::start(1, &options).unwrap();
    let make_user = || {
        for args in [&["user", "add", "al:alpw"][..], &["user", "grant-role", "al", "root"]] {
            place::control(&etcd, Some(&format!("root:{PASSWORD}")), args);
        }
    };
    let make_again = || {
        place::control(&etcd, Some(&format!("root:{PASSWORD}")), &["user", "delete", "al"]);
        make_user();
    };
    make_user();
    let store = EtcdStore::open(&with_login(&etcd, "al:alpw")).await.unwrap();
    // A commit finds out, and is made.
    make_again();
    store.commit(set("k")).await.unwrap();
    // A watch finds out, and is made again: its member hung up.
    let (env, patience) = (Env::system(), Duration::from_secs(2));
    let mut watch = store.watch(Range::all());
    make_again();
    etcd.kill(0).unwrap();
    etcd.restart(0).unwrap();
    while env.timeout(patience, watch.changed()).await.is_ok() {}
    store.commit(set("k")).await.unwrap();
    assert!(env.timeout(patience, watch.changed()).await.is_ok());
}

#[tokio::test]
async fn a_login_where_none_is_asked_for_is_fine() {
    let etcd = Etcd::start(1, &Options::default()).unwrap();
    let store = EtcdStore::open(&with_login(&etcd, &format!("root:{PASSWORD}"))).await.unwrap();
    store.commit(set("k")).await.unwrap();
    // And when it is asked for later, it is given.
    let root = format!("root:{PASSWORD}");
    place::control(&etcd, None, &["user", "add", &root]);
    place::control(&etcd, None, &["user", "grant-role", "root", "root"]);
    place::control(&etcd, None, &["auth", "enable"]);
    store.commit(set("k")).await.unwrap();
}

#[tokio::test]
async fn encrypted_clusters_are_opened_with_the_right_certificates_only() {
    let options = Options { tls: true, ..Options::default() };
    let etcd = Etcd::start(1, &options).unwrap();
    let (plain, ca) = (format!("etcd://{}", etcd.endpoints()[0]), etcd.ca());
    let store = EtcdStore::open(&format!("{plain}?tls_ca={}", ca.display())).await.unwrap();
    store.commit(set("k")).await.unwrap();

    let error = refused(&plain, &[&etcd.endpoints()[0], "tls=true"]).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    refused(&format!("{plain}?tls=true"), &["certificate"]).await;
    refused(&format!("{plain}?tls_ca=/not/there.pem"), &["tls_ca", "/not/there.pem"]).await;

    let open = Etcd::start(1, &Options::default()).unwrap();
    let url = format!("etcd://{}?tls_ca={}", open.endpoints()[0], ca.display());
    refused(&url, &[&open.endpoints()[0], "leave tls"]).await;
}

#[tokio::test]
async fn a_certificate_of_our_own_is_shown_where_it_is_asked_for() {
    let options = Options { tls: true, client_certificates: true, ..Options::default() };
    let etcd = Etcd::start(1, &options).unwrap();
    let url = format!("etcd://{}?tls_ca={}", etcd.endpoints()[0], etcd.ca().display());
    refused(&url, &[&etcd.endpoints()[0]]).await;
    let (certificate, key) = etcd.client_certificate();
    let url = format!("{url}&tls_cert={}&tls_key={}", certificate.display(), key.display());
    EtcdStore::open(&url).await.unwrap().commit(set("k")).await.unwrap();
}

#[tokio::test]
async fn a_cluster_with_smaller_transactions_is_refused() {
    let options = Options::default().setting("max-txn-ops", "100");
    let etcd = Etcd::start(1, &options).unwrap();
    let error = refused(&etcd.url(), &["too many operations", "--max-txn-ops=128"]).await;
    assert!(matches!(error, StoreError::TooLarge(_)), "{error}");
}
