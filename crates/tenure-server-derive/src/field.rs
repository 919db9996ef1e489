//! [`Part`]: a field of the struct, with what its attributes say.

use proc_macro2::Span;
use syn::{Error, Field, Ident, LitStr, Result, Type, ext::IdentExt};

/// A field of the struct.
pub(crate) struct Part<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
    /// The name that it is stored under.
    pub(crate) name: String,
    /// Whether its type is itself a state in parts.
    pub(crate) parts: bool,
    /// Where the name stands in the source.
    pub(crate) span: Span,
}

impl<'a> Part<'a> {
    pub(crate) fn new(field: &'a Field) -> Result<Self> {
        let Some(ident) = &field.ident else {
            return Err(Error::new_spanned(field, "a field of a state needs a name"));
        };
        let mut part =
            Self { ident, ty: &field.ty, name: ident.unraw().to_string(), parts: false, span: ident.span() };
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("state")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("parts") {
                    part.parts = true;
                    return Ok(());
                }
                if !meta.path.is_ident("rename") {
                    return Err(meta.error("unknown: a field can have `parts` and `rename = \"...\"`"));
                }
                let name: LitStr = meta.value()?.parse()?;
                if name.value().is_empty() {
                    return Err(Error::new(name.span(), "the name of a field must not be empty"));
                }
                (part.name, part.span) = (name.value(), name.span());
                Ok(())
            })?;
        }
        Ok(part)
    }
}
