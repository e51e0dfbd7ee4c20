//! Versions of OVN and Open vSwitch.

use std::fmt;

/// Version of a release, such as 25.03.1.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Version {
    major: u16,
    minor: u16,
    patch: u16,
}

impl Version {
    /// The version with these numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// First number: the year of OVN, such as 25.
    pub fn major(self) -> u16 {
        self.major
    }

    /// Reads `25.03.1` or `3.5.0`; a suffix is ignored. `None`: the text has no version.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        Some(Self::new(next()?, next()?, next().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    /// Prints the minor number of OVN, whose major number is a year, with two digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        if *major >= 20 {
            write!(f, "{major}.{minor:02}.{patch}")
        } else {
            write!(f, "{major}.{minor}.{patch}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_ovn_and_of_open_vswitch_are_read_and_printed() {
        for text in ["26.03.1", "25.03.0", "3.5.0", "4.0.90"] {
            assert_eq!(Version::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Version::parse("24.09.2-dev"), Some(Version::new(24, 9, 2)));
        assert_eq!(Version::parse("Switch)"), None);
        assert!(Version::new(25, 3, 0) < Version::new(25, 3, 1));
    }
}
