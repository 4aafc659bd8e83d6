//! Mutations of a corpus for the short run in `cargo test`: shuffled bytes and lines, and changes
//! of JSON documents.

use fastrand::Rng;
use serde_json::Value;

/// Bytes that have a meaning in some parser, and boundary numbers.
const PARTS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b",",
    b":",
    b"-",
    b"=",
    b"!",
    b"\"",
    b"\\",
    b" ",
    b"\n",
    b"\0",
    b"\xff",
    b"0",
    b"-1",
    b"2147483648",
    b"9223372036854775808",
    b"1e309",
    b"null",
    b"&a ",
    b"*a",
];

/// A generator of inputs from a corpus and a seed.
#[derive(Debug)]
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    random: Rng,
}

impl<'a> Mutator<'a> {
    /// Creates a mutator for a corpus, which must not be empty.
    pub fn new(seed: u64, corpus: &'a [Vec<u8>]) -> Mutator<'a> {
        Mutator {
            corpus,
            random: Rng::with_seed(seed),
        }
    }

    /// Returns the next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.any(self.corpus).clone();
        for _ in 0..self.random.usize(1..=3) {
            let as_json = self.random.bool();
            match serde_json::from_slice::<Value>(&input) {
                Ok(mut value) if as_json => {
                    let part = self.json_part();
                    let place = self.place_in(&mut value);
                    *place = part;
                    input = value.to_string().into_bytes();
                }
                _ => self.change_bytes(&mut input),
            }
        }
        input
    }

    fn any<'b, T>(&mut self, items: &'b [T]) -> &'b T {
        &items[self.random.usize(..items.len())]
    }

    /// Returns a random range of up to 64 bytes.
    fn stretch(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let from = self.random.usize(..=input.len());
        from..from + self.random.usize(..=(input.len() - from).min(64))
    }

    fn change_bytes(&mut self, input: &mut Vec<u8>) {
        let replaced = self.stretch(input);
        let at = replaced.start;
        match self.random.u8(..8) {
            0 if at < input.len() => input[at] ^= 1 << self.random.u8(..8),
            // Replace a digit: most documents remain readable.
            6 | 7 => {
                if let Some(digit) = input[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                    *digit = self.random.u8(b'0'..=b'9');
                }
            }
            1 => drop(input.drain(replaced)),
            2 => drop(input.splice(at..at, self.any(&PARTS).iter().copied())),
            3 => {
                let other = self.any(self.corpus);
                let part = other[self.stretch(other)].to_vec();
                drop(input.splice(replaced, part));
            }
            _ => {
                let mut lines: Vec<&[u8]> = input.split(|&byte| byte == b'\n').collect();
                let line = *self.any(&lines);
                let at = self.random.usize(..lines.len());
                match self.random.bool() {
                    true => lines.insert(at, line),
                    false => lines[at] = line,
                }
                *input = lines.join(&b'\n');
            }
        }
    }

    /// Returns a random value in a document, usually a deeply nested one.
    fn place_in<'b>(&mut self, value: &'b mut Value) -> &'b mut Value {
        let len = match &*value {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        };
        if len == 0 || self.random.u8(..8) == 0 {
            return value;
        }
        let at = self.random.usize(..len);
        let inner = match value {
            Value::Array(items) => items.get_mut(at),
            Value::Object(members) => members.values_mut().nth(at),
            _ => None,
        };
        self.place_in(inner.expect("the index is within the length"))
    }

    /// Returns a value: a part of a document in the corpus, or a boundary value.
    fn json_part(&mut self) -> Value {
        if self.random.bool() {
            let other: &Vec<u8> = self.any(self.corpus);
            if let Ok(mut other) = serde_json::from_slice::<Value>(other) {
                return self.place_in(&mut other).take();
            }
        }
        let ends = [
            "null",
            "true",
            "\"\"",
            "[]",
            "{}",
            "0",
            "-1",
            "2147483648",
            "0.5",
        ];
        let end: &&str = self.any(&ends);
        serde_json::from_str(end).expect("the boundary values are JSON")
    }
}
