//! The conditions of a pod, in a list that takes 48 bytes.

use std::fmt;
use std::sync::Arc;

use super::{PackedTime, Rest, Time};

/// The number of conditions stored inline: as many as a kubelet writes.
const PLACES: usize = 5;

/// The `rest` of each inline condition.
pub(super) type ConditionRests = [Rest; PLACES];

/// An entry of `status.conditions`.
#[derive(Clone, Debug, PartialEq)]
pub struct PodCondition {
    /// The type of the condition.
    pub kind: ConditionType,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// When `status` last changed.
    pub last_transition_time: PackedTime,
    /// Members without a typed field; also `type` and `status` if they are `Other`.
    pub rest: Rest,
}

/// `type` of a pod condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionType {
    /// The pod is bound to a node.
    PodScheduled,
    /// The pod's sandbox is running.
    PodReadyToStartContainers,
    /// All init containers have completed successfully.
    Initialized,
    /// All containers are ready.
    ContainersReady,
    /// The pod can serve requests.
    Ready,
    /// Any other type. The string is in `rest["type"]`.
    Other,
}

/// `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is unknown whether the condition holds.
    Unknown,
    /// Any other status. The string is in `rest["status"]`.
    Other,
}

/// `status.conditions` of a pod, in order. A type may occur more than once. Up to five conditions
/// with only a type, a status and a time take no allocation.
#[derive(Clone, Default, PartialEq)]
pub struct PodConditions(Repr);

/// Every pod contains this list, so it must be small.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<PodConditions>() == 48);

#[derive(Clone, PartialEq)]
enum Repr {
    Few(Few),
    /// More than [`PLACES`] conditions.
    Many(Box<[PodCondition]>),
}

#[derive(Clone, Default, PartialEq)]
struct Few {
    /// The free entries come last.
    states: [Option<PackedCondition>; PLACES],
    /// The other members of the conditions; absent if there are none. Shared between pods: most
    /// conditions have only the observed generation, which is the same for most pods.
    rests: Option<Arc<ConditionRests>>,
}

/// A condition without its `rest`.
#[derive(Clone, Copy, PartialEq)]
struct PackedCondition {
    kind: ConditionType,
    status: ConditionStatus,
    last_transition_time: PackedTime,
}

const _: () = assert!(size_of::<Option<PackedCondition>>() == 8);

impl PackedCondition {
    fn pack(condition: &PodCondition) -> PackedCondition {
        PackedCondition {
            kind: condition.kind,
            status: condition.status,
            last_transition_time: condition.last_transition_time,
        }
    }
}

impl Few {
    fn get(&self, index: usize) -> Option<PodCondition> {
        let state = (*self.states.get(index)?)?;
        let rests = self.rests.as_ref();
        Some(PodCondition {
            kind: state.kind,
            status: state.status,
            last_transition_time: state.last_transition_time,
            rest: rests.map_or(Rest::NONE, |rests| rests[index].clone()),
        })
    }

    #[inline]
    fn first(&self, kind: ConditionType) -> Option<PackedCondition> {
        for place in self.states {
            // The free entries come last.
            let state = place?;
            if state.kind == kind {
                return Some(state);
            }
        }
        None
    }

    fn set(&mut self, index: usize, condition: PodCondition) {
        self.states[index] = Some(PackedCondition::pack(&condition));
        let is_same = match &self.rests {
            Some(rests) => rests[index] == condition.rest,
            None => condition.rest.is_empty(),
        };
        if is_same {
            return;
        }
        let rests = Arc::make_mut(self.rests.get_or_insert_default());
        rests[index] = condition.rest;
        if rests.iter().all(Rest::is_empty) {
            self.rests = None;
        }
    }
}

impl PodConditions {
    /// Returns the number of conditions.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Few(few) => few.states.iter().flatten().count(),
            Repr::Many(all) => all.len(),
        }
    }

    /// Reports whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the condition at this index; `None` if the index is beyond the end.
    pub fn get(&self, index: usize) -> Option<PodCondition> {
        match &self.0 {
            Repr::Few(few) => few.get(index),
            Repr::Many(all) => all.get(index).cloned(),
        }
    }

    /// Returns the conditions in order.
    pub fn iter(&self) -> impl Iterator<Item = PodCondition> {
        (0..).map_while(|index| self.get(index))
    }

    /// Returns the status and the last transition time of the first condition of this type; `None`
    /// if there is no such condition.
    #[inline]
    pub fn first(&self, kind: ConditionType) -> Option<(ConditionStatus, PackedTime)> {
        let state = match &self.0 {
            Repr::Few(few) => few.first(kind)?,
            Repr::Many(all) => all
                .iter()
                .map(PackedCondition::pack)
                .find(|state| state.kind == kind)?,
        };
        Some((state.status, state.last_transition_time))
    }

    /// Appends a condition. O(1) while all conditions fit inline, then O(length).
    pub fn push(&mut self, condition: PodCondition) {
        let len = self.len();
        match &mut self.0 {
            Repr::Few(few) if len < PLACES => few.set(len, condition),
            _ => self.0 = Repr::Many(self.iter().chain([condition]).collect()),
        }
    }

    /// Sets the status of the first condition of this type, with the transition time `time` and no
    /// other members. Appends a condition if there is none. A condition that already has this
    /// status does not change.
    pub fn set(&mut self, kind: ConditionType, status: ConditionStatus, time: Time) {
        if self.first(kind).is_some_and(|(before, _)| before == status) {
            return;
        }
        let mut new = Some(PodCondition {
            kind,
            status,
            last_transition_time: PackedTime::new(time),
            rest: Rest::NONE,
        });
        self.update(|found| {
            if let Some(new) = new.take_if(|new| new.kind == found.kind) {
                *found = new;
            }
        });
        if let Some(new) = new {
            self.push(new);
        }
    }

    /// Applies `change` to each condition, in order.
    pub fn update(&mut self, mut change: impl FnMut(&mut PodCondition)) {
        match &mut self.0 {
            Repr::Few(few) => {
                let mut index = 0;
                while let Some(mut condition) = few.get(index) {
                    change(&mut condition);
                    few.set(index, condition);
                    index += 1;
                }
            }
            Repr::Many(all) => all.iter_mut().for_each(change),
        }
    }

    /// Reports whether the list needs memory besides its 48 bytes.
    pub fn spilled(&self) -> bool {
        match &self.0 {
            Repr::Few(few) => few.rests.is_some(),
            Repr::Many(_) => true,
        }
    }

    /// Returns the other members of the inline conditions; `None` if all are empty or the
    /// conditions are not inline.
    pub(super) fn rests_mut(&mut self) -> Option<&mut Arc<ConditionRests>> {
        match &mut self.0 {
            Repr::Few(few) => few.rests.as_mut(),
            Repr::Many(_) => None,
        }
    }
}

impl Default for Repr {
    fn default() -> Self {
        Repr::Few(Few::default())
    }
}

impl fmt::Debug for PodConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FromIterator<PodCondition> for PodConditions {
    fn from_iter<I: IntoIterator<Item = PodCondition>>(conditions: I) -> Self {
        let mut conditions = conditions.into_iter().fuse();
        let mut all = PodConditions::default();
        for condition in conditions.by_ref().take(PLACES) {
            all.push(condition);
        }
        if let Some(next) = conditions.next() {
            let many = all.iter().chain([next]).chain(conditions);
            all = PodConditions(Repr::Many(many.collect()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn condition(number: u8) -> PodCondition {
        PodCondition {
            kind: [ConditionType::Ready, ConditionType::Initialized][usize::from(number % 2)],
            status: [ConditionStatus::True, ConditionStatus::False][usize::from(number / 2 % 2)],
            last_transition_time: Time::from_unix_seconds(number.into()).into(),
            rest: match number % 3 {
                0 => Rest::NONE.with("observedGeneration", number),
                _ => Rest::NONE,
            },
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn the_list_behaves_like_a_vector(steps in proptest::collection::vec((0..4u8, 0..24u8), 0..20)) {
            let (mut list, mut model) = (PodConditions::default(), Vec::new());
            for (step, number) in steps {
                let one = condition(number);
                match step {
                    0 => {
                        let change = |other: &mut PodCondition| {
                            if other.status == one.status {
                                *other = one.clone();
                            }
                        };
                        list.update(change);
                        model.iter_mut().for_each(change);
                    }
                    1 => {
                        list.set(one.kind, one.status, one.last_transition_time.get());
                        let new = PodCondition { rest: Rest::NONE, ..one.clone() };
                        match model.iter_mut().find(|other| other.kind == one.kind) {
                            Some(same) if same.status == one.status => {}
                            Some(other) => *other = new,
                            None => model.push(new),
                        }
                    }
                    _ => {
                        list.push(one.clone());
                        model.push(one.clone());
                    }
                }
                prop_assert_eq!(list.iter().collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(list.len(), model.len());
                prop_assert_eq!(&list, &model.iter().cloned().collect());
                let first = model.iter().find(|other| other.kind == one.kind);
                let first = first.map(|first| (first.status, first.last_transition_time));
                prop_assert_eq!(list.first(one.kind), first);
                let is_plain = model.iter().all(|other| other.rest.is_empty());
                prop_assert_eq!(list.spilled(), model.len() > PLACES || !is_plain);
            }
        }
    }
}
