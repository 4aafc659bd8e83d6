//! The ready times after a cutoff of the pods with one label set. A sync with `minReadySeconds`
//! needs them to find the available pods. They are updated as pods change, so a sync does not
//! visit each pod.

use std::collections::VecDeque;

use podstorm_objects::Time;

/// The number of ready pods by the second in which they became ready, for seconds after the cutoff.
/// Earlier seconds, in which nearly all pods became ready, are not stored.
///
/// Callers move the cutoff forward with the clock. The number of entries is therefore at most
/// `minReadySeconds`, apart from times in the future. The memory is kept for reuse.
#[derive(Debug)]
pub(super) struct ReadyTimes {
    cutoff: Time,
    /// Distinct seconds in order, all after the cutoff, each with its number of pods.
    later: VecDeque<(Time, u32)>,
    /// The number of ready pods without a ready time. Such pods never become available.
    unset: u32,
}

impl ReadyTimes {
    /// Creates the ready times of pods that became ready at these times.
    pub(super) fn new(cutoff: Time, times: impl Iterator<Item = Time>) -> ReadyTimes {
        let mut ready_times = ReadyTimes {
            cutoff,
            later: VecDeque::new(),
            unset: 0,
        };
        times.for_each(|time| ready_times.enter(time));
        ready_times
    }

    /// Adds a pod that has become ready. O(entries after this time).
    pub(super) fn enter(&mut self, time: Time) {
        if time.is_unset() {
            self.unset += 1;
        } else if time > self.cutoff {
            match self.place(time) {
                Ok(at) => self.later[at].1 += 1,
                Err(at) => self.later.insert(at, (time, 1)),
            }
        }
    }

    /// Removes a pod that became ready at this time.
    pub(super) fn leave(&mut self, time: Time) {
        if time.is_unset() {
            self.unset -= 1;
        } else if time > self.cutoff {
            let at = self
                .place(time)
                .expect("a pod that leaves has entered before");
            self.later[at].1 -= 1;
            if self.later[at].1 == 0 {
                self.later.remove(at);
            }
        }
    }

    /// Moves the cutoff forward. Returns false, and changes nothing, if the new cutoff is earlier,
    /// because the entries before the old one no longer exist.
    #[inline]
    pub(super) fn advance(&mut self, cutoff: Time) -> bool {
        if cutoff < self.cutoff {
            return false;
        }
        self.cutoff = cutoff;
        while self.later.front().is_some_and(|(time, _)| *time <= cutoff) {
            self.later.pop_front();
        }
        true
    }

    /// Returns how many of `ready` ready pods became ready at or before the cutoff.
    #[inline]
    pub(super) fn ready_by_cutoff(&self, ready: u32) -> u32 {
        ready - self.unset - self.later.iter().map(|(_, pods)| pods).sum::<u32>()
    }

    /// Returns the seconds after the cutoff, in order, each with the number of pods that became
    /// ready in it.
    #[inline]
    pub(super) fn later(&self) -> impl Iterator<Item = (Time, u32)> {
        self.later.iter().copied()
    }

    /// Reports whether the counts are those of pods that became ready at these times.
    pub(super) fn is_exact(&self, ready_times: impl Iterator<Item = Time> + Clone) -> bool {
        let unset = ready_times.clone().filter(|time| time.is_unset());
        let later = ready_times.filter(|time| *time > self.cutoff);
        unset.count() == self.unset as usize
            && later.clone().all(|time| self.place(time).is_ok())
            && later.count()
                == self
                    .later
                    .iter()
                    .map(|(_, pods)| *pods as usize)
                    .sum::<usize>()
    }

    /// Returns the index of the entry for a second, or the index at which to insert it.
    fn place(&self, time: Time) -> Result<usize, usize> {
        self.later.binary_search_by_key(&time, |(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_unix_seconds(seconds)
    }

    #[test]
    fn counts_agree_with_a_list_of_all_times() {
        let mut rng = 1u64;
        let mut draw = |below: u64| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (rng >> 33) % below
        };
        let mut all: Vec<Time> = Vec::new();
        let mut ready_times = ReadyTimes::new(at(0), [].into_iter());
        for now in 0..2_000i64 {
            match draw(4) {
                0 if !all.is_empty() => {
                    let gone = all.swap_remove(draw(all.len() as u64) as usize);
                    ready_times.leave(gone);
                }
                1 => assert!(ready_times.advance(at(now / 10))),
                _ => {
                    let back = i64::try_from(draw(40)).expect("small");
                    let time = if back == 39 {
                        Time::UNSET
                    } else {
                        at(now / 10 + 20 - back)
                    };
                    all.push(time);
                    ready_times.enter(time);
                }
            }
            assert!(ready_times.is_exact(all.iter().copied()));
            let ready_by_cutoff = all
                .iter()
                .filter(|time| !time.is_unset() && **time <= ready_times.cutoff);
            let ready = u32::try_from(all.len()).expect("few");
            let told = ready_times.ready_by_cutoff(ready) as usize;
            assert_eq!(told, ready_by_cutoff.count());
            let first = all.iter().filter(|time| **time > ready_times.cutoff).min();
            let later = ready_times.later().next().map(|(time, _)| time);
            assert_eq!(later, first.copied());
        }
    }

    #[test]
    fn the_cutoff_never_goes_back() {
        let mut ready_times = ReadyTimes::new(at(5), [at(5), at(6), at(7)].into_iter());
        assert_eq!(ready_times.ready_by_cutoff(3), 1);
        assert!(ready_times.advance(at(6)));
        assert!(!ready_times.advance(at(5)));
        assert_eq!(ready_times.later().collect::<Vec<_>>(), [(at(7), 1)]);
    }
}
