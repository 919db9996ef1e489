//! `docs/operate/openapi.json` is the document that this program serves: whoever reads the one has the other.

use std::path::Path;

use serde_json::Value;

/// Set to write the file anew.
const WRITE: &str = "TENURE_WRITE_OPENAPI";

#[test]
fn the_document_in_the_repository_is_that_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/openapi.json");
    let text = super::document().to_pretty_json().expect("the document is JSON") + "\n";
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(file.parent().expect("it is in a folder")).expect("the folder is made");
        std::fs::write(&file, &text).expect("the file is written");
    }
    // In which order members stand is up to how serde_json was built, and means nothing.
    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap_or_default()).unwrap_or_default();
    let made: Value = serde_json::from_str(&text).expect("the document is JSON");
    assert!(
        kept == made,
        "docs/operate/openapi.json is not what the code says: {WRITE}=1 cargo test -p tenure-cli --all-features --bin tenure the_document"
    );
}
