//! Rust source as a flat list of tokens, so that rules about code are not misled by comments and texts.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::File;

/// A token, and the line it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

/// The tokens of a Rust file; none for other files. Brackets are tokens of their own, comments are gone.
///
/// # Errors
/// The line in which it stops to be Rust, and why.
pub(super) fn tokens(file: &File) -> Result<Vec<Token>, (usize, String)> {
    let mut flat = Vec::new();
    if file.has_extension("rs") {
        let stream: TokenStream = file
            .text
            .parse()
            .map_err(|error: proc_macro2::LexError| (error.span().start().line, error.to_string()))?;
        flatten(stream, &mut flat);
    }
    Ok(flat)
}

/// The lines in which the tokens begin that match a pattern.
pub(super) fn find(tokens: &[Token], pattern: &[&str]) -> Vec<usize> {
    let matches = |window: &[Token]| window.iter().zip(pattern).all(|(token, text)| token.text == *text);
    tokens.windows(pattern.len()).filter(|window| matches(window)).map(|window| window[0].line).collect()
}

/// The tokens between a bracket, which is at a position, and its counterpart.
pub(super) fn inside(tokens: &[Token], open: usize) -> &[Token] {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return tokens.get(open + 1..at).unwrap_or_default();
        }
    }
    tokens.get(open + 1..).unwrap_or_default()
}

fn flatten(stream: TokenStream, flat: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                flat.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), flat);
                flat.push(Token { text: close.to_owned(), line: group.span_close().end().line });
            }
            single => flat.push(Token { text: single.to_string(), line }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Token> {
        tokens(&File { path: "a.rs".to_owned(), text: text.to_owned() }).unwrap()
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        let all = of("// mod a\n/* mod b */\nconst T: &str = \"mod c\";\nmod d { f('m') }\n");
        assert_eq!(find(&all, &["mod"]), [4]);
    }

    #[test]
    fn a_bracket_is_closed_by_its_own_counterpart() {
        let all = of("f(a[1], g(2));\nh();");
        let words: Vec<&str> = inside(&all, 1).iter().map(|token| token.text.as_str()).collect();
        assert_eq!(words.concat(), "a[1],g(2)");
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        let file = File { path: "a.rs".to_owned(), text: "fn a() {}\nfn b( {\n".to_owned() };
        assert!(tokens(&file).is_err());
    }
}
