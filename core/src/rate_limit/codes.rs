//! Error codes that mean a rate limit wherever they stand, and codes that waiting never clears.

use super::Signal;
use super::json::Scalar;

/// Codes of a rate limit, in lower case without punctuation.
///
/// From the retryable throttling codes of the AWS SDKs (*Retry behavior*, AWS SDKs and Tools Reference Guide), Google's
/// `usageLimits` reasons (*Resolve errors*, Workspace APIs), GraphQL servers (`RATELIMITED`, `THROTTLED`), and the code
/// that most JSON APIs give. A code that also means a final refusal (`LimitExceeded`, `QuotaExceeded`) is not here: a
/// provider's own rule says what it means.
const LIMITED: &[&str] = &[
    "ec2throttledexception",
    "priorrequestnotcomplete",
    "provisionedthroughputexceeded",
    "provisionedthroughputexceededexception",
    "ratelimited",
    "ratelimiterror",
    "ratelimitexceeded",
    "ratelimitexceedederror",
    "ratelimitreached",
    "requestlimitexceeded",
    "requestthrottled",
    "requestthrottledexception",
    "slowdown",
    "throttled",
    "throttledexception",
    "throttleexceeded",
    "throttleviolation",
    "throttling",
    "throttlingexception",
    "toomanyrequests",
    "toomanyrequestsexception",
    "userratelimitexceeded",
];

/// Codes for which waiting is in vain: money ran out, or this one request is larger than any budget. OpenAI (*Error
/// codes*), Shopify and monday.com (query limits of their GraphQL APIs).
const NEVER_CLEARS: &[&str] = &[
    "billinghardlimitreached",
    "billingnotactive",
    "insufficientbalance",
    "insufficientquota",
    "maxcostexceeded",
    "paymentrequired",
    "requestmaxcomplexityexceeded",
    "requesttoolarge",
];

/// Keys that hold a code, in lower case without punctuation.
const CODE_KEYS: &[&str] = &[
    "code",
    "ecode",
    "error",
    "errorcode",
    "errorname",
    "errors",
    "errortype",
    "id",
    "name",
    "reason",
    "status",
    "tag",
    "type",
];

/// Keys that hold words for people.
const MESSAGE_KEYS: &[&str] = &[
    "cause",
    "description",
    "detail",
    "details",
    "developererrormessage",
    "err",
    "error",
    "errordescription",
    "errormessage",
    "errormessages",
    "errors",
    "errorsummary",
    "faultstring",
    "hint",
    "info",
    "message",
    "messages",
    "msg",
    "reason",
    "retmsg",
    "text",
    "title",
    "usermessage",
];

/// An error has its code and its words among its first texts; the rest of a long body is content.
const FIRST_TEXTS: usize = 16;

/// Whether the body or the header `x-amzn-errortype` names a rate limit by its code.
pub(crate) fn names_limit(signal: &Signal<'_>) -> bool {
    has_code(signal, LIMITED)
}

/// Whether the body names an error that no waiting clears.
pub(crate) fn never_clears(signal: &Signal<'_>) -> bool {
    has_code(signal, NEVER_CLEARS)
}

/// Whether a success carries an error that is a rate limit: only where an API that answers 200 puts its own error, so
/// that no content is taken for one.
pub(crate) fn error_in_success(signal: &Signal<'_>) -> bool {
    // Most successes have no such word at all, and looking for it is quicker than parsing.
    if !std::str::from_utf8(signal.body()).is_ok_and(|body| body.contains("\"error")) {
        return false;
    }
    const PATHS: [&str; 6] = [
        "error",
        "error.code",
        "error.*",
        "errors.*.code",
        "errors.*.extensions.code",
        "errors.*.type",
    ];
    PATHS
        .iter()
        .any(|path| signal.fields(path).any(|code| is_one_of(&code, LIMITED)))
}

fn has_code(signal: &Signal<'_>, list: &[&str]) -> bool {
    if signal
        .header("x-amzn-errortype")
        .is_some_and(|code| is_one_of(code, list))
    {
        return true;
    }
    match signal.json() {
        Some(_) => texts(signal, |key| is_key(key, CODE_KEYS)).any(|code| is_one_of(code, list)),
        // The XML of AWS's query APIs and S3.
        None => between(signal.text(), "<Code>", "</Code>").is_some_and(|code| is_one_of(code, list)),
    }
}

/// The messages of a body: the texts under the usual keys of a JSON body, or the whole text of another one.
pub(crate) fn messages<'s>(signal: &'s Signal<'_>) -> impl Iterator<Item = &'s str> {
    texts(signal, |key| is_key(key, MESSAGE_KEYS))
}

/// The texts that may name the kind of limit: messages and codes, and the id of a quota in `google.rpc.QuotaFailure`.
pub(crate) fn reason_texts<'s>(signal: &'s Signal<'_>) -> impl Iterator<Item = &'s str> {
    texts(signal, |key| {
        is_key(key, MESSAGE_KEYS) || is_key(key, CODE_KEYS) || key == "quotaId"
    })
}

/// The first texts under some keys of a JSON body, or the whole text of another one.
fn texts<'s>(signal: &'s Signal<'_>, wanted: impl Fn(&str) -> bool + 's) -> impl Iterator<Item = &'s str> {
    let json = signal.json();
    let plain = json
        .is_none()
        .then(|| signal.text())
        .filter(|text| !text.is_empty());
    let named = json.into_iter().flat_map(|json| json.named());
    let wanted = named.filter_map(move |(key, value)| match value {
        Scalar::Text(text) if wanted(key) => Some(text.as_ref()),
        _ => None,
    });
    wanted.take(FIRST_TEXTS).chain(plain)
}

/// A code may have a namespace before it (`com.amazonaws.x#ThrottlingException`, `EAPI:Rate limit exceeded`) or an address
/// after it (`ThrottlingException:http://…`).
fn is_one_of(code: &str, list: &[&str]) -> bool {
    code.len() < 200 && code.split(['#', ':', '/']).any(|part| is_key(part, list))
}

/// Whether a text, in lower case without punctuation, is in the list.
pub(crate) fn is_key(text: &str, list: &[&str]) -> bool {
    let mut squashed = [0; 48];
    squash(text, &mut squashed).is_some_and(|text| list.contains(&text))
}

/// Letters and digits of a text in lower case; `None` when they do not fit.
pub(crate) fn squash<'b>(text: &str, into: &'b mut [u8; 48]) -> Option<&'b str> {
    let mut length = 0;
    for byte in text.bytes().filter(u8::is_ascii_alphanumeric) {
        *into.get_mut(length)? = byte.to_ascii_lowercase();
        length += 1;
    }
    std::str::from_utf8(&into[..length]).ok()
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    text.split_once(start)?
        .1
        .split_once(end)
        .map(|(inside, _)| inside)
}
