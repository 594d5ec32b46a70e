use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::*;

const SENT: &str = "2026-09-28T12:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn strict() -> Reading {
    Reading::Strict {
        now: at(SENT),
        sent_at: Some(at(SENT)),
        limits: Limits::default(),
    }
}

/// An envelope that says everything.
fn counters() -> Counters {
    Counters {
        deferrals: 2,
        gated: 3,
        first_deferred_at: at("2026-09-28T11:00:00Z"),
        deferral_id: Some("m \"é\"\n\u{1}".into()),
        retry_at: Some(at("2026-09-28T13:00:00.5Z")),
    }
}

const MEMBERS: &str = r#""deferrals":2,"gated":3,"firstDeferredAt":"2026-09-28T11:00:00.000Z","deferralId":"m \"é\"\n\u0001","retryAt":"2026-09-28T13:00:00.500Z""#;

fn said(counters: &Counters) -> Envelope {
    Envelope {
        deferrals: counters.deferrals,
        gated: counters.gated,
        first_deferred_at: Some(counters.first_deferred_at),
        deferral_id: counters.deferral_id.clone(),
        retry_at: counters.retry_at,
    }
}

/// Stamps the text, opens the result, and stamps that: the text must come out as it went in, and one envelope be there.
#[track_caller]
fn round_trip(text: &str) -> String {
    let body = Body::open(text, strict());
    assert_eq!((body.text(), body.fault()), (text, None));
    let stamped = body.stamp(&counters());
    assert!(
        serde_json::from_str::<serde::de::IgnoredAny>(&stamped).is_ok(),
        "{stamped}"
    );
    let again = Body::open(&stamped, strict());
    assert_eq!(again.text(), text);
    assert_eq!((again.envelope(), again.fault()), (&said(&counters()), None));
    assert_eq!(again.is_object(), body.is_object());
    assert_eq!(
        again.stamp(&counters()),
        stamped,
        "a new stamp replaces the old one"
    );
    stamped
}

#[test]
fn objects_get_one_member_more_and_give_it_back() {
    let (open, close) = (r#"[{"a":"#.repeat(10_000), "}]".repeat(10_000));
    let deep = format!(r#"{{"deep":{open}0{close}}}"#);
    for text in [
        "{}",
        "{ }",
        " \t\r\n{ \n } \n",
        r#"{"a":1}"#,
        r#" { "a" : 1 , "b" : [ 1 , { "_frigg" : 2 } ] } "#,
        r#"{"a":1,"a":2,"":3,"":4}"#,
        r#"{"n":[1e400,-0,0.10,1724442618569203714,123456789012345678901234567890,1E+2]}"#,
        r#"{"é\u00e9\/":"\ud83d\ude00😀\u0000","ключ":"{\",}"}"#,
        r#"{"lone":"\ud800"}"#,
        r#"{"\ud800":1,"\udfff\ud800":2}"#,
        r#"{"_Frigg":1,"frigg":2,"_frigg ":3,"\\u005ffrigg":4}"#,
        r#"{"body":"x","deferrals":3,"retryAt":null}"#,
        &deep,
    ] {
        let stamped = round_trip(text);
        assert!(Body::open(text, strict()).is_object(), "{text}");
        let member = format!("\"_frigg\":{{{MEMBERS}}}");
        let (rest, comma) = match text.trim().trim_matches(['{', '}']).trim() {
            "" => (stamped.replacen(&member, "", 1), 0),
            _ => (stamped.replacen(&format!(",{member}"), "", 1), 1),
        };
        assert_eq!(rest, text, "only the member (and its comma) is new");
        assert_eq!(stamped.len(), text.len() + member.len() + comma);
    }
}

#[test]
fn anything_else_travels_inside_the_envelope() {
    for text in [
        "",
        " ",
        "hello",
        "null",
        "true",
        "-1.50",
        "1e400",
        "\"text\"",
        "[]",
        r#"[ {"_frigg":{}} ]"#,
        "{",
        "{}{}",
        "{} x",
        r#"{"a":1,}"#,
        r#"{"a":01}"#,
        r#"{'a':1}"#,
        "{\"a\":\"\u{1}\"}",
        "{\"_frigg\":{\"deferrals\":2},\"a\":\u{1}}",
        "\u{feff}{}",
        "\u{a0}{}",
        "a\u{0}\u{1f}\u{7f}\u{2028}\u{ffff}😀\\\"\r\n",
        r#"{"_frigg":{"body":"x"}"#,
    ] {
        assert!(!Body::open(text, strict()).is_object(), "{text:?}");
        let stamped = round_trip(text);
        let json: Value = serde_json::from_str(&stamped).unwrap();
        assert_eq!(json["_frigg"]["body"], text);
        assert!(!stamped.contains(|c| c < ' '), "{stamped:?}");
    }
}

#[test]
fn the_envelope_is_found_and_taken_out_wherever_it_stands() {
    for (body, text) in [
        (r#"{"_frigg":{"deferrals":2}}"#, "{}"),
        (r#" { "_frigg" : { "deferrals" : 2 } } "#, " { } "),
        (r#"{"_frigg":{"deferrals":2},"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
        (
            r#"{ "_frigg":{"deferrals":2} , "a":",","b":2}"#,
            r#"{ "a":",","b":2}"#,
        ),
        (r#"{"a":1,"_frigg":{"deferrals":2},"b":2}"#, r#"{"a":1,"b":2}"#),
        (
            r#"{"a":1 , "_frigg":{"deferrals":2} ,"b":2 }"#,
            r#"{"a":1 ,"b":2 }"#,
        ),
        (r#"{"a":1,"b":2,"_frigg":{"deferrals":2}}"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":1,"\u005ffrig\u0067":{"deferrals":2}}"#, r#"{"a":1}"#),
        (
            r#"{"a":1,"_frigg":{"\u0064eferrals":2.0e0,"x":{"deferrals":9}}}"#,
            r#"{"a":1}"#,
        ),
        // As in JavaScript, the last one counts. All go.
        (
            r#"{"_frigg":{"deferrals":9},"a":1,"_frigg":7,"b":2,"_frigg":{"deferrals":2}}"#,
            r#"{"a":1,"b":2}"#,
        ),
        (r#"{"_frigg":1,"_frigg":{"deferrals":9,"deferrals":2}}"#, "{}"),
    ] {
        for reading in [Reading::Frigg, strict()] {
            let opened = Body::open(body, reading);
            assert_eq!((opened.envelope().deferrals, opened.fault()), (2, None), "{body}");
            assert_eq!(without_space(opened.text()), without_space(text), "{body}");
            assert_eq!(
                opened.text().parse::<Value>().unwrap(),
                text.parse::<Value>().unwrap()
            );
        }
        let stamped = Body::open(body, strict()).stamp(&counters());
        assert_eq!(
            stamped.matches("deferrals").count(),
            1 + body.matches("\"x\"").count()
        );
    }
}

#[test]
fn what_others_wrote_under_the_key_is_kept() {
    let others = r#""other":true,"k\u0041\/":{"deferrals":[1e400]},"dup":1,"dup":2,"\ud800":"\udfff""#;
    let body = format!(r#"{{"a":1,"_frigg":{{{others},"deferrals":1,"retryAt":7,"body":5}}}}"#);
    let opened = Body::open(&body, Reading::Frigg);
    let want = format!(r#"{{"a":1,"_frigg":{{{others},"body":5,{MEMBERS}}}}}"#);
    assert_eq!(opened.stamp(&counters()), want);

    // Also under a body that travels inside, and in an envelope that does not count.
    let wrapped = format!(r#"{{"_frigg":{{{others},"deferrals":-1,"body":"\u0000hello"}}}}"#);
    let opened = Body::open(&wrapped, strict());
    assert_eq!(
        (opened.text(), opened.fault()),
        ("\0hello", Some(EnvelopeFault::Malformed("deferrals")))
    );
    let want = format!(r#"{{"_frigg":{{{others},{MEMBERS},"body":"\u0000hello"}}}}"#);
    assert_eq!(opened.stamp(&counters()), want);
}

#[test]
fn a_body_inside_the_envelope_is_only_taken_as_the_runtime_writes_it() {
    for (body, text) in [
        (r#"{"_frigg":{"body":"x"}}"#, "x"),
        (r#"{"_frigg":{"body":"{\"_frigg\":{}}"}}"#, r#"{"_frigg":{}}"#),
        (r#"{"_frigg":{"body":"x"},"a":1}"#, r#"{"a":1}"#),
        (r#"{"_frigg":{},"_frigg":{"body":"x"}}"#, "x"),
        (r#"{"_frigg":{"body":5,"body":"x"}}"#, "x"),
        (r#"{"_frigg":{"body":"x","body":5}}"#, "{}"),
        (r#"{"_frigg":{"body":{"a":1}}}"#, "{}"),
        (r#"{"_frigg":{"body":null}}"#, "{}"),
        (r#"{"_frigg":{"body":"\ud800"}}"#, "{}"),
    ] {
        let opened = Body::open(body, strict());
        assert_eq!(opened.text(), text, "{body}");
        let stamped = opened.stamp(&counters());
        assert_eq!(Body::open(&stamped, strict()).text(), text, "{stamped}");
    }
}

#[test]
fn forged_members_count_one_by_one_for_frigg_and_as_a_whole_otherwise() {
    const TEXTS: &[&str] = &["5", "-1", "1.5", "true", "[]", "{}", r#""""#];
    let wrong: &[(&'static str, &[&str])] = &[
        (
            "deferrals",
            &[
                "0", "-1", "1.5", "1e400", "true", "[]", "{}", r#""two""#, r#""2""#, r#""""#,
            ],
        ),
        ("gated", &["0", "-1", "1.5", "true", r#""2""#]),
        ("firstDeferredAt", TEXTS),
        (
            "firstDeferredAt",
            &[
                r#""yesterday""#,
                r#""2026-13-01T00:00:00Z""#,
                r#""\ud800""#,
                r#""2026""#,
            ],
        ),
        ("deferralId", TEXTS),
        ("deferralId", &[r#""\ud800""#]),
        ("retryAt", TEXTS),
        (
            "retryAt",
            &[r#""soon""#, r#""2026-09-31T00:00:00Z""#, "1790596800000"],
        ),
        // Beyond what an honest sender writes.
        (
            "firstDeferredAt",
            &[r#""2026-09-28T12:01:00.001Z""#, r#""9999-01-01T00:00:00Z""#],
        ),
        (
            "retryAt",
            &[r#""2026-09-29T14:00:00.001Z""#, r#""9999-12-30T00:00:00Z""#],
        ),
    ];
    let good = said(&Counters {
        deferral_id: Some("m-1".into()),
        ..counters()
    });
    for (key, values) in wrong {
        for value in *values {
            let pick = |name, usual| {
                if *key == name {
                    value.to_string()
                } else {
                    String::from(usual)
                }
            };
            let body = format!(
                r#"{{"_frigg":{{"deferrals":{},"gated":{},"firstDeferredAt":{},"deferralId":{},"retryAt":{}}}}}"#,
                pick("deferrals", "2"),
                pick("gated", "3"),
                pick("firstDeferredAt", r#""2026-09-28T11:00:00.000Z""#),
                pick("deferralId", r#""m-1""#),
                pick("retryAt", r#""2026-09-28T13:00:00.500Z""#),
            );
            let opened = Body::open(&body, strict());
            assert_eq!(opened.fault(), Some(EnvelopeFault::Malformed(key)), "{body}");
            assert_eq!(opened.envelope(), &Envelope::default(), "{body}");

            let opened = Body::open(&body, Reading::Frigg);
            let mut want = Envelope {
                gated: 0,
                retry_at: None,
                ..good.clone()
            };
            match *key {
                "deferrals" => want.deferrals = 0,
                "firstDeferredAt" => {
                    want.first_deferred_at = string(value).and_then(|text| time::parse_iso(&text))
                }
                "deferralId" => want.deferral_id = None,
                _ => {}
            }
            assert_eq!((opened.envelope(), opened.fault()), (&want, None), "{body}");
        }
    }
}

#[test]
fn odd_members_that_are_honest_count() {
    let null =
        r#"{"_frigg":{"deferrals" : null , "firstDeferredAt":null,"deferralId": null,"retryAt":null }}"#;
    let opened = Body::open(null, strict());
    assert_eq!((opened.envelope(), opened.fault()), (&Envelope::default(), None));
    for (json, want) in [
        ("1", 1),
        ("2.0", 2),
        ("1e1", 10),
        ("4294967295", u32::MAX),
        ("1e300", u32::MAX),
    ] {
        let body = format!(r#"{{"_frigg":{{"deferrals":{json}}}}}"#);
        assert_eq!(Body::open(&body, strict()).envelope().deferrals, want, "{json}");
    }
    // Clocks a minute apart, a retry time at the cap.
    let edge = r#"{"_frigg":{"firstDeferredAt":"2026-09-28T12:01:00Z","retryAt":"2026-09-29T14:00:00Z"}}"#;
    let opened = Body::open(edge, strict());
    assert_eq!(opened.fault(), None);
    assert_eq!(opened.envelope().retry_at, Some(at("2026-09-29T14:00:00Z")));
}

#[test]
fn no_object_under_the_key_is_no_envelope() {
    for value in [
        "null",
        "1",
        "-1.5",
        "true",
        "[]",
        r#""{}""#,
        r#"[{"deferrals":2}]"#,
    ] {
        for reading in [Reading::Frigg, strict()] {
            let body = format!(r#"{{"a":1,"_frigg":{value},"b":2}}"#);
            let opened = Body::open(&body, reading);
            assert_eq!(opened.fault(), Some(EnvelopeFault::NoObject), "{body}");
            assert_eq!(
                (opened.text(), opened.envelope()),
                (r#"{"a":1,"b":2}"#, &Envelope::default())
            );
            let want = format!(r#"{{"a":1,"b":2,"_frigg":{{{MEMBERS}}}}}"#);
            assert_eq!(opened.stamp(&counters()), want);
        }
    }
}

#[test]
fn an_envelope_is_stale_a_second_after_its_last_copy_can_be_sent() {
    let body = r#"{"a":1,"_frigg":{"deferrals":30,"firstDeferredAt":"2026-09-28T12:00:00.000Z"}}"#;
    // 26 h, the schedule's hour of tries, a minute of clock skew.
    for (now, sent_at, stale) in [
        ("2026-09-29T15:01:00Z", Some("2026-09-29T15:01:00Z"), false),
        ("2026-09-29T15:01:01Z", Some("2026-09-29T15:01:01Z"), true),
        ("2026-10-09T00:00:00Z", Some("2026-09-29T15:01:00Z"), false),
        ("2026-10-09T00:00:00Z", Some("2026-10-09T00:00:00Z"), true),
        ("2026-10-09T00:00:00Z", None, false),
    ] {
        let reading = |max_deferred| Reading::Strict {
            now: at(now),
            sent_at: sent_at.map(at),
            limits: Limits {
                max_deferred,
                ..Limits::default()
            },
        };
        let opened = Body::open(body, reading(Limits::default().max_deferred));
        let (deferrals, fault) = if stale {
            (0, Some(EnvelopeFault::Stale))
        } else {
            (30, None)
        };
        assert_eq!(
            (opened.envelope().deferrals, opened.fault()),
            (deferrals, fault),
            "{now} {sent_at:?}"
        );
        assert_eq!(opened.text(), r#"{"a":1}"#);
        assert_eq!(Body::open(body, reading(Duration::MAX)).fault(), None, "no cap");
        assert_eq!(Body::open(body, Reading::Frigg).envelope().deferrals, 30);
    }
}

#[test]
fn faults_say_what_is_wrong() {
    for (fault, text) in [
        (EnvelopeFault::NoObject, "not a JSON object"),
        (EnvelopeFault::Malformed("retryAt"), "_frigg.retryAt is malformed"),
        (EnvelopeFault::Stale, "had to be over"),
    ] {
        assert!(fault.to_string().contains(text), "{fault}");
    }
}

#[test]
fn times_are_written_in_milliseconds_and_never_early() {
    let counters = Counters {
        gated: 0,
        retry_at: Some(at("2026-09-28T12:00:00.0000001Z")),
        deferral_id: None,
        ..counters()
    };
    let want = r#"{"_frigg":{"deferrals":2,"firstDeferredAt":"2026-09-28T11:00:00.000Z","retryAt":"2026-09-28T12:00:00.001Z"}}"#;
    assert_eq!(Body::open("{}", strict()).stamp(&counters), want);
}

#[test]
fn deferral_07_the_rest_of_the_body_is_the_senders() {
    let text = r#"{"id":1724442618569203714, "amount":1.10,"big":1e400,"a":1,"a":2,"s":"\u00e9\/"}"#;
    let stamped = round_trip(text);
    assert_eq!(
        stamped,
        format!("{},\"_frigg\":{{{MEMBERS}}}}}", &text[..text.len() - 1])
    );
}

#[test]
fn deferral_08_a_payload_in_a_document_stays_text() {
    let text = r#"{"Type":"Notification","MessageId":"a","TopicArn":"arn:aws:sns:eu-west-1:111111111111:t","Message":"{\"id\":7}","Timestamp":"2026-09-28T12:00:00.000Z","MessageAttributes":{"k":{"Type":"String","Value":"v"}}}"#;
    let json: Value = serde_json::from_str(&round_trip(text)).unwrap();
    assert_eq!(json["Message"], r#"{"id":7}"#);
    assert!(json["_frigg"].is_object() && json["MessageAttributes"].get("_frigg").is_none());
}

#[test]
fn deferral_09_an_escaped_control_character_stays_escaped() {
    for text in [r#"{"note":"a\u0001b"}"#, r#"{"note":"fine"}"#] {
        let stamped = round_trip(text);
        assert!(stamped.starts_with(&text[..text.len() - 1]) && !stamped.contains(|c| c < ' '));
    }
}

/// The text without the white space outside of strings.
fn without_space(json: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    json.chars()
        .filter(|&c| {
            let keep = inside || !c.is_ascii_whitespace();
            inside ^= c == '"' && !escaped;
            escaped = inside && c == '\\' && !escaped;
            keep
        })
        .collect()
}

fn space() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "", " ", "\n", "\t \r\n"])
}

/// A JSON string as somebody may have spelled it.
fn spelled() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::from("_frigg")),
        select(vec![
            r#"\""#,
            r"\\",
            r"\/",
            r"\n",
            r"\u0000",
            r"\ud800",
            r"\ud83d\ude00",
            "{",
            "}",
            ",",
            ":"
        ])
        .prop_map(String::from),
        "[^\"\\\\\\p{Cc}]{0,4}",
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn value() -> impl Strategy<Value = String> {
    let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?";
    let leaf = prop_oneof![
        select(vec!["null", "true", "false", "{}", "[ ]"]).prop_map(String::from),
        number,
        spelled()
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec((space(), inner.clone()), 0..4).prop_map(|items| {
                let items: Vec<_> = items
                    .iter()
                    .map(|(space, item)| format!("{space}{item}{space}"))
                    .collect();
                format!("[{}]", items.join(","))
            }),
            prop::collection::vec((spelled(), space(), inner), 0..4).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, space, value)| format!("{space}{key}{space}:{value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn own_key() -> impl Strategy<Value = String> {
    select(vec![r#""_frigg""#, r#""\u005ffrigg""#, r#""_fr\u0069gg""#]).prop_map(String::from)
}

/// An object's text, and the members that are not ours, without white space.
fn object(own: bool) -> impl Strategy<Value = (String, Vec<String>)> {
    let ours = if own { 1 } else { 0 };
    let key = prop_oneof![3 => spelled().prop_map(|key| (false, key)), ours => own_key().prop_map(|key| (true, key))];
    let member = (key, value(), prop::array::uniform4(space()));
    (prop::collection::vec(member, 0..6), space(), space()).prop_map(|(members, before, after)| {
        let spelled: Vec<_> = members
            .iter()
            .map(|((_, key), value, [a, b, c, d])| format!("{a}{key}{b}:{c}{value}{d}"))
            .collect();
        let others = members
            .iter()
            .filter(|((own, key), ..)| !own && key != "\"_frigg\"")
            .map(|((_, key), value, _)| format!("{key}:{}", without_space(value)))
            .collect();
        let inner = if spelled.is_empty() {
            before.to_owned()
        } else {
            spelled.join(",")
        };
        (format!("{before}{{{inner}}}{after}"), others)
    })
}

fn some_counters() -> impl Strategy<Value = Counters> {
    let ms = -3_600_000i64..=0;
    (
        0u32..,
        0u32..3,
        ms,
        proptest::option::of("\\PC{1,9}"),
        proptest::option::of(0i64..90_000_000),
    )
        .prop_map(|(deferrals, gated, first, deferral_id, retry)| Counters {
            deferrals,
            gated,
            first_deferred_at: at(SENT) + SignedDuration::from_millis(first),
            deferral_id,
            retry_at: retry.map(|ms| at(SENT) + SignedDuration::from_millis(ms)),
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_object_comes_back_as_it_was((text, _) in object(false)) {
        prop_assume!(!text.contains("\"_frigg\""));
        prop_assert!(Body::open(&text, strict()).is_object(), "{text}");
        round_trip(&text);
    }

    #[test]
    fn any_text_comes_back_as_it_was(text in prop_oneof![any::<String>(), "[ \\[\\]{}\",:_frig1\\\\\u{0}-\u{3}]{0,24}"]) {
        if !text.contains("_frigg") {
            round_trip(&text);
        }
    }

    /// Wherever the key stands, and however often.
    #[test]
    fn only_our_member_leaves_an_object((text, others) in object(true), counters in some_counters()) {
        let want = format!("{{{}}}", others.join(","));
        for reading in [Reading::Frigg, strict()] {
            let opened = Body::open(&text, reading);
            // What looks like a wrapped body is one.
            if !opened.is_object() {
                continue;
            }
            prop_assert_eq!(without_space(opened.text()), want.clone());
            let stamped = opened.stamp(&counters);
            let again = Body::open(&stamped, strict());
            prop_assert_eq!(again.text(), opened.text());
            prop_assert_eq!((again.envelope(), again.fault()), (&said(&counters), None));
            prop_assert_eq!(again.stamp(&counters), stamped);
        }
    }

    /// A sender may write anything under our key: it never panics, never hides the rest, and never survives a stamp.
    #[test]
    fn forged_envelopes_are_harmless(
        members in prop::collection::vec(
            (select(vec!["deferrals", "firstDeferredAt", "deferralId", "retryAt", "body", "other"]), value()),
            0..6,
        ),
        alone: bool,
        counters in some_counters(),
    ) {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let rest = if alone { "" } else { r#""a":1,"# };
        let text = format!("{{{rest}\"_frigg\":{{{}}}}}", members.join(","));
        for reading in [Reading::Frigg, strict()] {
            let opened = Body::open(&text, reading);
            prop_assert!(opened.fault().is_none() || *opened.envelope() == Envelope::default());
            prop_assert!(alone || opened.text() == r#"{"a":1}"#, "{}", text);
            let stamped = opened.stamp(&counters);
            let again = Body::open(&stamped, strict());
            prop_assert_eq!((again.text(), again.envelope(), again.fault()), (opened.text(), &said(&counters), None));
        }
    }
}
