//! Index of objects by their labels, for many selectors over the same objects.

use std::collections::{BTreeMap, HashMap};

use patchbay_model::{Requirement, Selector};

/// Objects by label.
///
/// A selector with `matchLabels`, `In` or `Exists` costs as much as the objects that meet the
/// rarest of these requirements, not as much as all objects.
///
/// ```
/// use patchbay_resources::object::LabelSelector;
/// use patchbay_resources::selector::{LabelIndex, Selector};
///
/// let blue = [("team".to_owned(), "blue".to_owned())].into();
/// let green = [("team".to_owned(), "green".to_owned())].into();
/// let index: LabelIndex<'_, _> = [(1, &blue), (2, &green)].into_iter().collect();
/// let selector: LabelSelector =
///     serde_json::from_value(serde_json::json!({"matchLabels": {"team": "green"}}))?;
/// assert_eq!(index.select(&Selector::from(&selector)), [&2]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LabelIndex<'a, T> {
    objects: Vec<(T, &'a BTreeMap<String, String>)>,
    /// Places in `objects` by key and value, ascending.
    by_key: HashMap<&'a str, HashMap<&'a str, Vec<usize>>>,
}

impl<'a, T> FromIterator<(T, &'a BTreeMap<String, String>)> for LabelIndex<'a, T> {
    fn from_iter<I: IntoIterator<Item = (T, &'a BTreeMap<String, String>)>>(objects: I) -> Self {
        let objects: Vec<_> = objects.into_iter().collect();
        let mut by_key = HashMap::<_, HashMap<_, Vec<_>>>::new();
        for (place, (_, labels)) in objects.iter().enumerate() {
            for (key, value) in *labels {
                let values = by_key.entry(key.as_str()).or_default();
                values.entry(value.as_str()).or_default().push(place);
            }
        }
        Self { objects, by_key }
    }
}

impl<T> LabelIndex<'_, T> {
    /// All objects with their labels, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&T, &BTreeMap<String, String>)> {
        self.objects.iter().map(|(object, labels)| (object, *labels))
    }

    /// Selected objects, in the order in which they were given.
    pub fn select(&self, selector: &Selector) -> Vec<&T> {
        let candidates = selector.requirements().iter().filter_map(|one| self.candidates(one));
        let matches = |object: &&(T, &BTreeMap<String, String>)| selector.matches(object.1);
        let Some(lists) =
            candidates.min_by_key(|lists| lists.iter().map(|list| list.len()).sum::<usize>())
        else {
            return self.objects.iter().filter(matches).map(|(object, _)| object).collect();
        };
        let mut places: Vec<usize> = lists.into_iter().flatten().copied().collect();
        // An object has one value of the key, so no place is there twice.
        places.sort_unstable();
        places
            .into_iter()
            .filter_map(|place| self.objects.get(place))
            .filter(matches)
            .map(|(object, _)| object)
            .collect()
    }

    /// Places of the objects that meet a requirement, in one list for each value. `None`: the
    /// requirement holds without a label.
    fn candidates(&self, requirement: &Requirement) -> Option<Vec<&Vec<usize>>> {
        let of_key = |key: &String| self.by_key.get(key.as_str());
        match requirement {
            Requirement::Equals(key, value) => {
                let list = of_key(key).and_then(|lists| lists.get(value.as_str()));
                Some(list.into_iter().collect())
            }
            Requirement::In(key, values) => {
                let lists = of_key(key);
                let lists =
                    lists.map(|lists| values.iter().filter_map(|one| lists.get(one.as_str())));
                Some(lists.into_iter().flatten().collect())
            }
            Requirement::Exists(key) => {
                Some(of_key(key).map_or_else(Vec::new, |lists| lists.values().collect()))
            }
            Requirement::NotIn(..) | Requirement::DoesNotExist(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_selects_the_objects_that_match() {
        let labels: Vec<BTreeMap<String, String>> = (0..60)
            .map(|number| {
                let pairs = [("a", number % 2), ("b", number % 3), ("c", number % 5)];
                let present = pairs.into_iter().filter(|(_, value)| *value > 0);
                present.map(|(key, value)| (key.to_owned(), value.to_string())).collect()
            })
            .collect();
        let index: LabelIndex<'_, usize> = labels.iter().enumerate().collect();
        let text = |text: &str| text.to_owned();
        let values = |values: &[&str]| values.iter().map(|value| text(value)).collect();
        let requirements = [
            Requirement::In(text("b"), values(&["1", "2", "9"])),
            Requirement::Equals(text("c"), text("4")),
            Requirement::In(text("c"), values(&[])),
            Requirement::In(text("x"), values(&["1"])),
            Requirement::NotIn(text("b"), values(&["2"])),
            Requirement::Exists(text("a")),
            Requirement::Exists(text("x")),
            Requirement::DoesNotExist(text("c")),
        ];
        for chosen in 0_u32..1 << requirements.len() {
            let chosen = (0..requirements.len()).filter(|place| chosen & (1 << place) != 0);
            let selector: Selector = chosen.map(|place| requirements[place].clone()).collect();
            let expected: Vec<usize> =
                (0..labels.len()).filter(|place| selector.matches(&labels[*place])).collect();
            let selected: Vec<usize> = index.select(&selector).into_iter().copied().collect();
            assert_eq!(selected, expected, "{selector:?}");
        }
    }
}
