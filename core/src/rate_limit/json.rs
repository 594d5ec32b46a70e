//! A JSON body as a flat list of its values: one allocation, texts borrowed, looked up by path.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Larger bodies are not read: an error says what it has to say in less.
const MAX_BYTES: usize = 1 << 20;

/// Of a long list only the first items are kept: a list of errors says early what it has to say, and no batch API takes
/// more calls at once.
const MAX_ITEMS: usize = 32;

/// All values of a body in its own order. Each knows the one that contains it.
pub(crate) struct Json<'a>(Vec<Node<'a>>);

struct Node<'a> {
    parent: usize,
    /// `None` for the top and for items of a list.
    key: Option<Cow<'a, str>>,
    value: Scalar<'a>,
}

/// A value that is not a list or an object; those are kept only as parents.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    Container,
    Null,
    Bool(bool),
    Whole(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl Scalar<'_> {
    /// The value as text, as it would be written in JSON (texts without their quotes).
    pub(crate) fn to_text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Scalar::Container | Scalar::Null => return None,
            Scalar::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Scalar::Whole(value) => Cow::Owned(value.to_string()),
            Scalar::Real(value) => Cow::Owned(value.to_string()),
            Scalar::Text(text) => Cow::Borrowed(text),
        })
    }
}

impl<'a> Json<'a> {
    /// `None` when the bytes are not one whole JSON object or list.
    pub(crate) fn parse(body: &'a [u8]) -> Option<Json<'a>> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
        if !matches!(first, b'{' | b'[') || body.len() > MAX_BYTES {
            return None;
        }
        let mut nodes = Vec::with_capacity(body.len().min(4096) / 16 + 4);
        let mut reader = serde_json::Deserializer::from_str(std::str::from_utf8(body).ok()?);
        Collect {
            nodes: &mut nodes,
            parent: 0,
            key: None,
        }
        .deserialize(&mut reader)
        .ok()?;
        reader.end().ok()?;
        Some(Json(nodes))
    }

    /// Every value with its key; items of a list have the key of the list, also in lists of lists.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &Scalar<'a>)> {
        self.0
            .iter()
            .filter_map(|node| Some((self.name_of(node)?, &node.value)))
    }

    /// Every value at `path`; see [`Signal::fields`](super::Signal::fields).
    pub(crate) fn at<'s>(&'s self, path: &str) -> impl Iterator<Item = &'s Scalar<'a>> {
        self.0
            .iter()
            .enumerate()
            .filter(move |(index, _)| self.is_at(*index, path))
            .map(|(_, node)| &node.value)
    }

    fn is_at(&self, mut index: usize, path: &str) -> bool {
        for segment in path.rsplit('.') {
            if segment == "**" {
                return true;
            }
            let node = &self.0[index];
            // The top has no name, so a path never ends above it.
            if index == 0 || segment != "*" && node.key.as_deref() != Some(segment) {
                return false;
            }
            index = node.parent;
        }
        index == 0
    }

    fn name_of<'s>(&'s self, node: &'s Node<'a>) -> Option<&'s str> {
        // The top is its own parent.
        let parent = |node: &&'s Node<'a>| (node.parent != 0).then(|| &self.0[node.parent]);
        std::iter::successors(Some(node), parent).find_map(|node| node.key.as_deref())
    }
}

/// Reads one value and what is in it.
struct Collect<'n, 'a> {
    nodes: &'n mut Vec<Node<'a>>,
    parent: usize,
    key: Option<Cow<'a, str>>,
}

impl<'a> Collect<'_, 'a> {
    fn push(self, value: Scalar<'a>) {
        self.nodes.push(Node {
            parent: self.parent,
            key: self.key,
            value,
        });
    }
}

impl<'a> DeserializeSeed<'a> for Collect<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Collect<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.push(Scalar::Null);
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push(Scalar::Bool(value));
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        // Past i64 only the magnitude matters: no wait is that long.
        self.push(i64::try_from(value).map_or(Scalar::Real(value as f64), Scalar::Whole));
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.push(Scalar::Whole(value));
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.push(Scalar::Real(value));
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, value: &'a str) -> Result<(), E> {
        self.push(Scalar::Text(Cow::Borrowed(value)));
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.push(Scalar::Text(Cow::Owned(value.to_owned())));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<(), A::Error> {
        let Collect { nodes, parent, key } = self;
        let own = nodes.len();
        nodes.push(Node {
            parent,
            key,
            value: Scalar::Container,
        });
        for _ in 0..MAX_ITEMS {
            let item = Collect {
                nodes: &mut *nodes,
                parent: own,
                key: None,
            };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut entries: A) -> Result<(), A::Error> {
        let Collect { nodes, parent, key } = self;
        let own = nodes.len();
        nodes.push(Node {
            parent,
            key,
            value: Scalar::Container,
        });
        while let Some(Key(key)) = entries.next_key()? {
            entries.next_value_seed(Collect {
                nodes: &mut *nodes,
                parent: own,
                key: Some(key),
            })?;
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(body: &str, path: &str) -> Vec<String> {
        let json = Json::parse(body.as_bytes()).expect("JSON");
        json.at(path)
            .filter_map(|scalar| Some(scalar.to_text()?.into_owned()))
            .collect()
    }

    #[test]
    fn paths_name_values_from_the_top() {
        let body = r#"{"error":{"code":613,"ok":false,"none":null},"errors":[{"extensions":{"code":"A"}},{"extensions":{"code":"B"}}]}"#;
        for (path, expected) in [
            ("error.code", &["613"][..]),
            ("error.ok", &["false"]),
            ("error.none", &[]),
            ("error", &[]),
            ("code", &[]),
            ("errors.*.extensions.code", &["A", "B"]),
            ("errors.extensions.code", &[]),
            ("**.code", &["613", "A", "B"]),
            ("*.code", &["613"]),
            ("**", &["613", "false", "A", "B"]),
            ("", &[]),
        ] {
            assert_eq!(at(body, path), expected, "{path}");
        }
        assert_eq!(at(r#"[{"errorCode":"X"}]"#, "*.errorCode"), ["X"]);
        assert_eq!(at(r#"{"a\u0062":"\n"}"#, "ab"), ["\n"]);
        assert_eq!(
            at(r#"{"a":1796040075000000000,"b":18446744073709551615}"#, "a"),
            ["1796040075000000000"]
        );
    }

    #[test]
    fn only_whole_objects_and_lists_are_read() {
        for body in [
            "",
            " ",
            "5",
            "\"text\"",
            "{",
            "{\"a\":1} x",
            "{\"a\":}",
            "\u{1}{}",
        ] {
            assert!(Json::parse(body.as_bytes()).is_none(), "{body}");
        }
        assert!(Json::parse(b"{\"a\":\"\xff\"}").is_none());
        assert!(Json::parse("[".repeat(100_000).as_bytes()).is_none());
        let large = format!("[{}]", "1,".repeat(MAX_BYTES));
        assert!(Json::parse(large.as_bytes()).is_none());
    }

    #[test]
    fn the_first_items_of_a_long_list_are_kept_and_what_follows_it() {
        let body = format!(r#"{{"list":[{}0],"after":7}}"#, "1,".repeat(99));
        assert_eq!(at(&body, "list.*").len(), MAX_ITEMS);
        assert_eq!(at(&body, "after"), ["7"]);
    }
}
