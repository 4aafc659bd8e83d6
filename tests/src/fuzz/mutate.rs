//! Inputs made from other inputs: bytes, words and lines moved about, and JSON changed as JSON.

use fastrand::Rng;
use serde_json::Value;

/// Longest input, in bytes: what parsers get wrong shows in short ones.
const LEN_MAX: usize = 8192;

/// Numbers at which something ends.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "00",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e309",
    "0.5",
];

/// Bytes that mean something to some parser.
const MARKS: &[u8] = b"{}[]()<>:,;.-_=!&*#|%'\"\\/ \t\r\n\0~$@?+019azAZ\x80\xff";

/// Draws inputs from a seed.
#[derive(Debug)]
pub struct Mutator {
    random: Rng,
    words: &'static [&'static str],
}

impl Mutator {
    /// One that knows these words.
    pub fn new(seed: u64, words: &'static [&'static str]) -> Mutator {
        Mutator {
            random: Rng::with_seed(seed),
            words,
        }
    }

    /// An input near one or two of the pool's.
    ///
    /// # Panics
    /// When the pool is empty.
    pub fn next(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.any(pool).clone();
        for _ in 0..self.random.usize(1..=4) {
            let as_json = self.random.bool();
            match serde_json::from_slice::<Value>(&input) {
                Ok(mut value) if as_json => {
                    self.change_json(&mut value, pool);
                    input = value.to_string().into_bytes();
                }
                _ => self.change_bytes(&mut input, pool),
            }
        }
        input.truncate(LEN_MAX);
        input
    }

    fn any<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let at = self.random.usize(..items.len());
        &items[at]
    }

    /// A stretch of up to so many bytes.
    fn stretch(&mut self, input: &[u8], most: usize) -> std::ops::Range<usize> {
        let from = self.random.usize(..=input.len());
        let len = self.random.usize(..=most.min(input.len() - from));
        from..from + len
    }

    fn change_bytes(&mut self, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let at = self.random.usize(..=input.len());
        match self.random.u8(..9) {
            0 if at < input.len() => input[at] ^= 1 << self.random.u8(..8),
            1 if at < input.len() => input[at] = *self.any(MARKS),
            2 => input.insert(at, *self.any(MARKS)),
            3 => drop(input.drain(self.stretch(input, 16))),
            4 => {
                let copied = input[self.stretch(input, 64)].to_vec();
                input.splice(at..at, copied);
            }
            5 if !self.words.is_empty() => {
                let word = self.any(self.words).bytes();
                let replaced = if self.random.bool() {
                    self.stretch(input, 12)
                } else {
                    at..at
                };
                input.splice(replaced, word);
            }
            6 => {
                // A number in place of another, or anywhere.
                let digits = |byte: &u8| byte.is_ascii_digit();
                let from = input[at..]
                    .iter()
                    .position(digits)
                    .map_or(at, |skip| at + skip);
                let len = input[from..].iter().take_while(|byte| digits(byte)).count();
                let number = self.any(&NUMBERS).bytes();
                input.splice(from..from + len, number);
            }
            7 => {
                let other = self.any(pool);
                let part = other[self.stretch(other, 256)].to_vec();
                let replaced = self.stretch(input, 256);
                input.splice(replaced, part);
            }
            _ => self.change_lines(input),
        }
    }

    /// Doubles, drops or swaps whole lines, which keeps YAML readable.
    fn change_lines(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> = input
            .split(|&byte| byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        let (one, other) = (
            self.random.usize(..lines.len()),
            self.random.usize(..lines.len()),
        );
        match self.random.u8(..4) {
            0 => {
                let copy = lines[one].clone();
                lines.insert(other, copy);
            }
            1 => drop(lines.remove(one)),
            2 => lines.swap(one, other),
            _ => lines[one].splice(0..0, *b"  ").for_each(drop),
        }
        *input = lines.join(&b'\n');
    }

    /// Changes one place of a document.
    fn change_json(&mut self, value: &mut Value, pool: &[Vec<u8>]) {
        // Down to a place, more often than not as far as it goes.
        let mut place = value;
        while self.random.u8(..8) > 0 {
            let is_leaf = match &*place {
                Value::Array(items) => items.is_empty(),
                Value::Object(members) => members.is_empty(),
                _ => true,
            };
            if is_leaf {
                break;
            }
            place = match place {
                Value::Array(items) => {
                    let at = self.random.usize(..items.len());
                    &mut items[at]
                }
                Value::Object(members) => {
                    let at = self.random.usize(..members.len());
                    members.values_mut().nth(at).expect("as many as there are")
                }
                _ => unreachable!("leaves were left above"),
            };
        }
        match (self.random.u8(..7), &mut *place) {
            (0, Value::Array(items)) if !items.is_empty() => {
                let at = self.random.usize(..items.len());
                let copy = items[at].clone();
                items.push(copy);
            }
            (1, Value::Array(items)) if !items.is_empty() => {
                items.remove(self.random.usize(..items.len()));
            }
            (0 | 1, Value::Object(members)) if !members.is_empty() => {
                let at = self.random.usize(..members.len());
                let name = members
                    .keys()
                    .nth(at)
                    .expect("as many as there are")
                    .clone();
                members.remove(&name);
            }
            (2, Value::Object(members)) if !self.words.is_empty() => {
                let name = (*self.any(self.words)).to_owned();
                let member = self.scalar();
                members.insert(name, member);
            }
            (3, place) => {
                // A part of another document.
                let other = self.any(pool);
                if let Ok(other) = serde_json::from_slice::<Value>(other) {
                    let mut part = &other;
                    while let Value::Object(members) = part
                        && !members.is_empty()
                        && self.random.u8(..3) > 0
                    {
                        let at = self.random.usize(..members.len());
                        part = members.values().nth(at).expect("as many as there are");
                    }
                    *place = part.clone();
                }
            }
            (4, Value::String(text)) => {
                let mut bytes = std::mem::take(text).into_bytes();
                self.change_bytes(&mut bytes, pool);
                *text = String::from_utf8_lossy(&bytes).into_owned();
            }
            (_, place) => *place = self.scalar(),
        }
    }

    fn scalar(&mut self) -> Value {
        match self.random.u8(..8) {
            0 => Value::Null,
            1 => Value::Bool(self.random.bool()),
            2 => Value::String(String::new()),
            3 => Value::Array(Vec::new()),
            4 => Value::Object(serde_json::Map::new()),
            5 if !self.words.is_empty() => Value::String((*self.any(self.words)).to_owned()),
            6 => Value::from(self.random.i32(-3..10)),
            _ => {
                let number = *self.any(&NUMBERS);
                serde_json::from_str(number).unwrap_or(Value::Null)
            }
        }
    }
}
