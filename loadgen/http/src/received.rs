//! Reading of request bodies.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use podstorm_apiserver::{errors, limits};
use podstorm_objects::{ApiError, Reason};

/// An error while a request's body is read, e.g. because the client disconnected.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The maximum size of a body in bytes, the same as in upstream.
pub(crate) const BODY_MAX: usize = limits::BYTES_MAX;
/// The time limit for the arrival of a body: upstream's limit for a whole request.
pub(crate) const BODY_WITHIN: Duration = Duration::from_secs(60);
/// The maximum number of bytes to allocate for a body in advance, regardless of the length that the
/// client announces.
const AHEAD: u64 = 64 << 10;

/// Reads the whole body. A body that arrives in a single piece is not copied; several pieces are
/// collected in one buffer.
///
/// # Errors
/// 413 if the body is too large, 504 if it does not arrive in time, 400 if it ends early.
pub(crate) async fn whole(
    body: impl Body<Data = Bytes, Error: Into<BoxError>>,
) -> Result<Bytes, ApiError> {
    let collected = tokio::time::timeout(BODY_WITHIN, collected(body)).await;
    collected.map_err(|_| too_slow())?
}

async fn collected(
    body: impl Body<Data = Bytes, Error: Into<BoxError>>,
) -> Result<Bytes, ApiError> {
    let announced = body.size_hint().lower().min(AHEAD);
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let why = error.into();
            errors::bad_request(format!("the request body ended early: {why}"))
        })?;
        // Ignore trailers.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + all.len() + data.len() > BODY_MAX {
            return Err(too_large());
        }
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.reserve(usize::try_from(announced).expect("the hint is capped"));
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads and discards a body.
pub(crate) async fn discard(body: impl Body<Data = Bytes>) {
    let mut body = pin!(body);
    let all = async {
        let mut left = BODY_MAX;
        while let Some(Ok(frame)) = body.as_mut().frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    let _in_time = tokio::time::timeout(BODY_WITHIN, all).await;
}

/// Returns a 413: the body exceeds the limit.
fn too_large() -> ApiError {
    let reason = Reason::Other("RequestEntityTooLarge".into());
    let message = format!("Request entity too large: limit is {BODY_MAX}");
    ApiError::status(413, reason, message)
}

/// Returns a 504: the body did not arrive in time.
fn too_slow() -> ApiError {
    let message = "Timeout: request did not complete within the allotted timeout";
    ApiError::status(504, Reason::Timeout, message)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;

    use super::*;

    /// A body that arrives in pieces.
    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    #[tokio::test]
    async fn a_body_is_the_same_however_it_is_split() {
        let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for size in [1, 7, 999, 1000] {
            let pieces = text.chunks(size).map(Bytes::copy_from_slice);
            let empty = [Bytes::new()];
            let pieces = empty.clone().into_iter().chain(pieces).chain(empty);
            assert_eq!(whole(Pieces(pieces.collect())).await.unwrap(), text);
        }
        let one = Bytes::from(text);
        let alone = whole(Pieces([one.clone()].into())).await.unwrap();
        assert_eq!(alone.as_ptr(), one.as_ptr(), "the body is not copied");
        assert!(whole(Pieces(VecDeque::new())).await.unwrap().is_empty());
        let half = Bytes::from(vec![b' '; BODY_MAX / 2 + 1]);
        let refused = whole(Pieces([half.clone(), half].into()))
            .await
            .unwrap_err();
        assert_eq!(refused.code, 413);
    }
}
