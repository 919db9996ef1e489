//! The dashboard: a page that is part of this program.
//!
//! `GET /` is the page, `GET /assets/NAME` are its files. They hold nothing of the cluster, so that everybody may have them: what the page shows it asks for, with the token of who
//! looks at it. There is no build step: what is here is what the browser gets.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `app.js` | the page itself: views, keys, themes; shows once a frame what was told |
//! | `live.js` | the daemon: the stream of events, which mends itself, and single requests |
//! | `state.js` | what is known of the cluster, and what only time tells |
//! | `list.js`, `view.js`, `tabs.js`, `panel.js` | lists of any length; a list with its filter; the views; one row, opened |
//! | `members.js` ... `events.js` | what each view shows |
//! | `actions.js` | what an operator can do, and the question before it |
//! | `draw.js`, `text.js` | drawings; words, numbers, elements |

use axum::{
    Router,
    http::{HeaderName, header},
    response::IntoResponse,
    routing::get,
};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// Nothing but our own files runs, is shown, or is asked; no other page shows this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! assets {
    ($($name:literal: $sort:expr,)*) => {
        &[$((concat!("/assets/", $name), $sort, include_str!($name))),*]
    };
}

/// The files beside the page: where, what sort, what is in them.
const ASSETS: &[(&str, &str, &str)] = assets! {
    "actions.js": SCRIPT,
    "app.js": SCRIPT,
    "draw.js": SCRIPT,
    "elections.js": SCRIPT,
    "events.js": SCRIPT,
    "icon.svg": IMAGE,
    "list.js": SCRIPT,
    "live.js": SCRIPT,
    "members.js": SCRIPT,
    "panel.js": SCRIPT,
    "registries.js": SCRIPT,
    "servers.js": SCRIPT,
    "state.js": SCRIPT,
    "style.css": STYLE,
    "tabs.js": SCRIPT,
    "text.js": SCRIPT,
    "view.js": SCRIPT,
};

/// The routes of the page and its files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let page = Router::new().route("/", get(|| async { file(HTML, include_str!("index.html")) }));
    ASSETS.iter().fold(page, |routes, &(path, sort, text)| {
        routes.route(path, get(move || async move { file(sort, text) }))
    })
}

fn file(sort: &'static str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, sort),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A new daemon may have a new page.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}
