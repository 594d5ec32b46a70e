//! An HTTP handler that fetches a contact from a CRM: `GET /?id=7`. `PROVIDER_URL` says where the CRM is.
//!
//! Nothing can be put back here and somebody waits, so the requester waits at most ten seconds. A longer wait is passed on
//! to the caller: a 429, or a 503 when the CRM is unavailable, with `Retry-After`.

use frigg_core::scope::Scope;
use frigg_requester::{Clock, FetchError, Requester, http_answer};
use jiff::Timestamp;
use lambda_http::{Body, Error, Request, RequestExt as _, Response, run, service_fn};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("PROVIDER_URL").map_err(|_| "PROVIDER_URL is not set: where is the CRM?")?;
    let crm = &Requester::new(url)?;
    run(service_fn(|request: Request| async move {
        let deadline = i64::try_from(request.lambda_context().deadline)?;
        let scope = Scope::http_handler(Timestamp::from_millisecond(deadline)?);
        let id = request
            .query_string_parameters()
            .first("id")
            .unwrap_or("1")
            .to_owned();
        Ok::<_, Error>(answer(scope.run(contact(crm, &id)).await))
    }))
    .await
}

async fn contact(crm: &Requester, id: &str) -> Result<String, FetchError> {
    crm.get("/contacts")
        .query(&[("id", id)])
        .send()
        .await?
        .text()
        .await
}

fn answer(contact: Result<String, FetchError>) -> Response<Body> {
    let error = match contact {
        Ok(contact) => return Response::new(contact.into()),
        Err(error) => error,
    };
    match error.rate_limited() {
        Some(limited) => {
            http_answer(limited.limit(), Clock::system().now()).map(|()| limited.to_string().into())
        }
        None => {
            let mut answer = Response::new("the CRM does not answer as it should".into());
            *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Answers one call.
    fn crm(answer: &'static str) -> Requester {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        Requester::new(url).unwrap()
    }

    #[tokio::test]
    async fn a_refusal_is_passed_on() {
        for (given, status, retry_after) in [
            (
                "HTTP/1.1 429 -\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n",
                429,
                Some("60"),
            ),
            (
                "HTTP/1.1 503 -\r\nretry-after: 90\r\ncontent-length: 0\r\n\r\n",
                503,
                Some("90"),
            ),
            ("HTTP/1.1 404 -\r\ncontent-length: 0\r\n\r\n", 502, None),
            ("HTTP/1.1 200 -\r\ncontent-length: 2\r\n\r\nok", 200, None),
        ] {
            let crm = crm(given);
            let scope = Scope::http_handler(Clock::system().now() + jiff::SignedDuration::from_secs(29));
            let answer = answer(scope.run(contact(&crm, "7")).await);
            assert_eq!(answer.status(), status);
            let header = answer
                .headers()
                .get("retry-after")
                .map(|value| value.to_str().unwrap());
            assert_eq!(header, retry_after);
        }
    }
}
