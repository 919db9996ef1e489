//! [`Directory`]: what links ask the membership.

use tenure_store::Name;

use super::Peer;

/// Who is where, and which session of each node is the present one.
///
/// # Obligations
/// To be correct, an implementation must
/// - **answer at once, from memory, and never call links back**: it is asked for every message, while links hold a lock;
/// - **never go back**: once it has shown a session of a node, never again one that came before, neither by `find` nor by `me`. That is what makes sure
///   that nothing of an earlier incarnation is delivered after something of a later one;
/// - show a node's session by `find` for as long as the session may go on, also when it is suspected to be dead.
pub trait Directory: Send + Sync + 'static {
    /// This node. Its name stays, its session is another after it has joined again.
    fn me(&self) -> Peer;

    /// A member, as its present session recorded it. Nothing if there is none of that name, or its session has ended.
    fn find(&self, node: &Name) -> Option<Peer>;

    /// All members that are live; this node may be among them.
    fn live(&self) -> Vec<Peer>;
}
