//! The body of a request, as it comes in.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use podstorm_apiserver::errors;
use podstorm_objects::ApiError;

use crate::{BoxError, body};

/// Most bytes that are kept free for a body before they come, whatever its client announces.
const AHEAD: u64 = 64 << 10;

/// The whole body. One that comes in a single piece is not copied; another grows in one buffer, so that it
/// costs its bytes, in whatever pieces they come.
///
/// # Errors
/// 413 for one that is too large, 504 for one that does not come, 400 for one that breaks off.
pub(crate) async fn whole<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let collected = tokio::time::timeout(body::BODY_WITHIN, collected(body)).await;
    collected.map_err(|_| body::too_slow())?
}

async fn collected<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let announced = body.size_hint().lower().min(AHEAD);
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let why = error.into();
            errors::bad_request(format!("the body of the request broke off: {why}"))
        })?;
        // Trailers say nothing that is needed.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + all.len() + data.len() > body::BODY_MAX {
            return Err(body::too_large());
        }
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.reserve(usize::try_from(announced).expect("it is capped"));
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;

    use super::*;

    /// A body in pieces.
    struct Pieces(VecDeque<Bytes>);

    impl http_body::Body for Pieces {
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
    async fn a_body_is_the_same_in_whatever_pieces_it_comes() {
        let text: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for size in [1, 7, 999, 1000] {
            let pieces = text.chunks(size).map(Bytes::copy_from_slice);
            let empty = [Bytes::new()];
            let pieces = empty.clone().into_iter().chain(pieces).chain(empty);
            assert_eq!(whole(Pieces(pieces.collect())).await.unwrap(), text);
        }
        let one = Bytes::from(text);
        let alone = whole(Pieces([one.clone()].into())).await.unwrap();
        assert_eq!(alone.as_ptr(), one.as_ptr(), "it is not copied");
        assert!(whole(Pieces(VecDeque::new())).await.unwrap().is_empty());
        let half = Bytes::from(vec![b' '; body::BODY_MAX / 2 + 1]);
        let refused = whole(Pieces([half.clone(), half].into()))
            .await
            .unwrap_err();
        assert_eq!(refused.code, 413);
    }
}
