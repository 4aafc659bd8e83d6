//! Parses selector strings such as `app=web,tier in (a,b),!x`.

use std::sync::Arc;

use super::{Requirement, SelectorError, Str, Test, sorted};

/// Returns the requirements of a selector string, in the order written. The syntax of keys and
/// values is not checked yet.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut reader = Reader { text, at: 0 };
    let mut found = Vec::new();
    if reader.peek() == Token::End {
        return Ok(found);
    }
    loop {
        found.push(reader.requirement()?);
        match reader.next() {
            Token::End => return Ok(found),
            // Unlike the end of the text, a comma requires another requirement.
            Token::Sign(",") => {}
            other => return Err(reader.unexpected(other, "',' or the end")),
        }
    }
}

/// A piece of the text: a run of ordinary characters, a sign, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'a str),
    End,
}

struct Reader<'a> {
    text: &'a str,
    /// The byte offset of the unread text.
    at: usize,
}

/// The operators and punctuation marks, longer ones first.
const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Token<'a> {
        Reader { ..*self }.next()
    }

    fn next(&mut self) -> Token<'a> {
        let rest = self.text[self.at..].trim_start_matches(is_space);
        self.at = self.text.len() - rest.len();
        if rest.is_empty() {
            return Token::End;
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Token::Sign(&rest[..sign.len()]);
        }
        let ends = |c: char| is_space(c) || matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += word.len();
        Token::Word(word)
    }

    fn unexpected(&self, found: Token<'_>, expected: &str) -> SelectorError {
        let found = match found {
            Token::Word(text) | Token::Sign(text) => format!("{text:?}"),
            Token::End => "the end".into(),
        };
        SelectorError(format!(
            "selector {:?}: found {found}, expected {expected}",
            self.text
        ))
    }

    fn word(&mut self, expected: &str) -> Result<&'a str, SelectorError> {
        match self.next() {
            Token::Word(word) => Ok(word),
            other => Err(self.unexpected(other, expected)),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.peek() == Token::Sign("!") {
            self.next();
            let key = self.word("a key")?.into();
            return Ok(Requirement {
                key,
                test: Test::DoesNotExist,
            });
        }
        let key = self.word("a key or '!'")?.into();
        let test = match self.peek() {
            Token::End | Token::Sign(",") => Test::Exists,
            _ => match self.next() {
                Token::Sign("=" | "==") => Test::Equals(self.value()),
                Token::Sign("!=") => Test::NotEquals(self.value()),
                Token::Word("in") => Test::In(self.values()?),
                Token::Word("notin") => Test::NotIn(self.values()?),
                Token::Sign(">") => self.bound(Test::GreaterThan)?,
                Token::Sign("<") => self.bound(Test::LessThan)?,
                other => return Err(self.unexpected(other, "an operator")),
            },
        };
        Ok(Requirement { key, test })
    }

    /// Returns the value after `=`. If a comma follows directly, the value is empty.
    fn value(&mut self) -> Str {
        match self.peek() {
            Token::Word(word) => {
                self.next();
                word.into()
            }
            _ => "".into(),
        }
    }

    fn bound(&mut self, test: fn(i64, Str) -> Test) -> Result<Test, SelectorError> {
        let word = self.word("a whole number")?;
        match word.parse() {
            Ok(number) => Ok(test(number, word.into())),
            Err(_) => Err(self.unexpected(Token::Word(word), "a whole number")),
        }
    }

    /// Parses the list of `in` and `notin`, including the parentheses. A missing value means the
    /// empty string.
    fn values(&mut self) -> Result<Arc<[Str]>, SelectorError> {
        match self.next() {
            Token::Sign("(") => {}
            other => return Err(self.unexpected(other, "'('")),
        }
        let mut values: Vec<Str> = Vec::new();
        loop {
            values.push(self.value());
            match self.next() {
                Token::Sign(",") => {}
                Token::Sign(")") => return Ok(sorted(&values)),
                other => return Err(self.unexpected(other, "',' or ')'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Labels, Selector};

    #[test]
    fn the_canonical_form_reads_back() {
        for text in [
            "",
            "app=web,tier in (a,b),!x",
            "a!=b,c,d notin (e,f)",
            "n>4",
            "n<4",
            "x=",
        ] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.to_string(), text);
            assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn spaces_and_double_equals_are_accepted() {
        let selector = Selector::parse(" app == web , tier   in ( b , a ) ").unwrap();
        assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
        assert!(selector.matches(&Labels::from_pairs([("app", "web"), ("tier", "a")])));
    }

    #[test]
    fn bounds_compare_numbers() {
        let selector = Selector::parse("cores>4").unwrap();
        for (value, holds) in [("5", true), ("4", false), ("many", false), ("10", true)] {
            let labels = Labels::from_pairs([("cores", value)]);
            assert_eq!(selector.matches(&labels), holds, "{value}");
        }
        assert!(!selector.matches(&Labels::ABSENT));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "a=b,",
            ",",
            "=b",
            "!",
            "!=b",
            "a in",
            "a in b",
            "a in (b",
            "a b",
            "a>x",
            "a=b=c",
            "a=-b",
            "-a",
            "a in (b)c",
            "a (b)",
        ] {
            assert!(Selector::parse(text).is_err(), "{text:?}");
        }
    }
}
