//! The implementation that is derived.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Fields, LitStr, Path, Result, parse_quote, spanned::Spanned};

use crate::field::Part;

/// `impl State for ...`.
pub(crate) fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let home = home(input)?;
    let parts = parts(input)?;
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    let save = parts.iter().map(|part| save(part, &home));
    let load = parts.iter().map(|part| {
        let (ident, load) = (part.ident, load(part, &home));
        quote!(#ident: #load)
    });
    let undo = parts.iter().map(|part| undo(part, &home));
    let tracked: Vec<_> = parts.iter().filter(|part| part.parts).map(|part| part.ident).collect();
    Ok(quote! {
        #[automatically_derived]
        impl #generics #home::State for #name #arguments #conditions {
            #[allow(unused_variables, reason = "a struct may have no fields")]
            fn save(&self, at: &mut #home::Saver<'_>) -> ::core::result::Result<(), #home::StateError> {
                #(#save)*
                ::core::result::Result::Ok(())
            }

            #[allow(unused_variables, reason = "a struct may have no fields")]
            fn load(at: &mut #home::Loader<'_>) -> ::core::result::Result<Self, #home::StateError> {
                ::core::result::Result::Ok(Self { #(#load),* })
            }

            fn keep(&mut self) {
                #(#home::State::keep(&mut self.#tracked);)*
            }

            #[allow(unused_variables, reason = "a struct may have no fields")]
            fn undo(&mut self, at: &mut #home::Loader<'_>) -> ::core::result::Result<(), #home::StateError> {
                #(#undo)*
                ::core::result::Result::Ok(())
            }

            fn dirty(&self) -> usize {
                0 #(+ #home::State::dirty(&self.#tracked))*
            }
        }
    })
}

fn save(part: &Part<'_>, home: &Path) -> TokenStream {
    let Part { ident, name, parts, ty, .. } = part;
    if *parts {
        quote_spanned!(ty.span()=> #home::State::save(&self.#ident, &mut #home::Saver::field(at, #name))?;)
    } else {
        quote_spanned!(ty.span()=> #home::Saver::value(&mut #home::Saver::field(at, #name), &self.#ident)?;)
    }
}

fn load(part: &Part<'_>, home: &Path) -> TokenStream {
    let Part { name, parts, ty, .. } = part;
    if *parts {
        quote_spanned!(ty.span()=> <#ty as #home::State>::load(&mut #home::Loader::field(at, #name))?)
    } else {
        quote_spanned! {ty.span()=>
            #home::Loader::value::<#ty>(&mut #home::Loader::field(at, #name))?.unwrap_or_default()
        }
    }
}

fn undo(part: &Part<'_>, home: &Path) -> TokenStream {
    let Part { ident, name, parts, ty, .. } = part;
    if *parts {
        quote_spanned!(ty.span()=> #home::State::undo(&mut self.#ident, &mut #home::Loader::field(at, #name))?;)
    } else {
        let load = load(part, home);
        quote_spanned!(ty.span()=> self.#ident = #load;)
    }
}

/// The fields, or what is wrong with them: all of it at once.
fn parts(input: &DeriveInput) -> Result<Vec<Part<'_>>> {
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            let advice = "an enum has no parts of its own: derive serde's traits for it, and put it into a `Whole` or a field";
            return Err(Error::new(data.enum_token.span(), advice));
        }
        Data::Union(data) => return Err(Error::new(data.union_token.span(), "a union can't be a state")),
    };
    if let Fields::Unnamed(fields) = fields {
        let advice =
            "the parts of a state are stored by name: give the fields names, or put it into a `Whole`";
        return Err(Error::new(fields.span(), advice));
    }
    let (mut parts, mut names, mut flaws) = (Vec::new(), HashSet::new(), None::<Error>);
    for part in fields.iter().map(Part::new) {
        let part = part.and_then(|part| {
            if names.insert(part.name.clone()) {
                return Ok(part);
            }
            Err(Error::new(part.span, format!("two fields are stored under the name `{}`", part.name)))
        });
        match (part, &mut flaws) {
            (Ok(part), _) => parts.push(part),
            (Err(flaw), Some(flaws)) => flaws.combine(flaw),
            (Err(flaw), flaws) => *flaws = Some(flaw),
        }
    }
    flaws.map_or(Ok(parts), Err)
}

/// Where the trait is found.
fn home(input: &DeriveInput) -> Result<Path> {
    let mut home = parse_quote!(::tenure_server::state);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("state")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown: a state can have `crate = \"...\"`"));
            }
            let path: Path = meta.value()?.parse::<LitStr>()?.parse()?;
            home = parse_quote!(#path::state);
            Ok(())
        })?;
    }
    Ok(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(input: DeriveInput) -> String {
        implement(&input)
            .expect_err("this is not to be accepted")
            .into_iter()
            .map(|flaw| flaw.to_string())
            .collect()
    }

    #[test]
    fn what_can_not_be_a_state_is_told_why() {
        assert!(
            refusal(parse_quote!(
                enum Light {
                    Red,
                    Green,
                }
            ))
            .contains("an enum has no parts")
        );
        assert!(
            refusal(parse_quote!(
                struct Pair(u8, u8);
            ))
            .contains("give the fields names")
        );
        assert!(refusal(parse_quote!(union Both { a: u8, b: u8 })).contains("a union"));
    }

    #[test]
    fn fields_need_names_of_their_own() {
        let twice = refusal(parse_quote!(
            struct A {
                a: u8,
                #[state(rename = "a")]
                b: u8,
                r#type: u8,
                #[state(rename = "type")]
                c: u8,
            }
        ));
        assert_eq!(
            twice,
            "two fields are stored under the name `a`two fields are stored under the name `type`"
        );
        assert!(
            refusal(parse_quote!(
                struct A {
                    #[state(rename = "")]
                    a: u8,
                }
            ))
            .contains("must not be empty")
        );
    }

    #[test]
    fn unknown_attributes_are_refused() {
        assert!(
            refusal(parse_quote!(
                struct A {
                    #[state(skip)]
                    a: u8,
                }
            ))
            .contains("a field can have `parts`")
        );
        assert!(
            refusal(parse_quote!(
                #[state(parts)]
                struct A {
                    a: u8,
                }
            ))
            .contains("a state can have `crate")
        );
    }

    #[test]
    fn generics_and_paths_are_kept() {
        let input = parse_quote! {
            #[state(crate = "my::server")]
            struct A<T: Clone> where T: Send { #[state(parts)] a: T }
        };
        let tokens = implement(&input).expect("this is a state").to_string();
        assert!(
            tokens.contains("impl < T : Clone > my :: server :: state :: State for A < T > where T : Send")
        );
    }
}
