//! Times of day and days of the week at which a rule is in force.
//!
//! Invariant: hours follow the clock of their time zone, and a day begins at its midnight: an hour that the change to
//! summer time skips is skipped, and one that the change back repeats counts twice.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Times at which a rule is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Days on which the hours begin.
    pub days: Days,
    /// Hours of these days.
    pub hours: Hours,
    /// Time zone of days and hours.
    pub zone: Zone,
}

/// Days of the week, one bit each, Monday lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days(u8);

/// Hours of a day in minutes from midnight, without the last minute. An end that is not later than the start is on the
/// next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    from: u16,
    to: u16,
}

/// A time zone of the system's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// The reason why a text is not a part of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The text is not a range of hours.
    #[error("write hours such as \"08:00-17:30\", or \"22:00-06:00\" into the next day")]
    Hours,
    /// The system has no such time zone.
    #[error("write a zone that this system has, such as \"Europe/Berlin\", \"UTC\" or \"local\"")]
    Zone,
}

const MINUTES_PER_DAY: u16 = 24 * 60;

impl Days {
    /// Every day.
    pub const ALL: Self = Self(0b111_1111);

    /// Names of days, Monday first.
    pub const NAMES: [&'static str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

    /// The days of these names; `None` if a name is unknown.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        names.into_iter().try_fold(Self(0), |days, name| {
            let day = Self::NAMES.iter().position(|known| *known == name)?;
            Some(Self(days.0 | 1 << day))
        })
    }

    /// True if a day is included, numbered from Monday, 0.
    fn has(self, day: usize) -> bool {
        self.0 >> (day % 7) & 1 == 1
    }
}

impl Hours {
    /// The whole day.
    pub const ALL: Self = Self {
        from: 0,
        to: MINUTES_PER_DAY,
    };
}

impl std::str::FromStr for Hours {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let minutes = |text: &str| {
            let (hours, minutes) = text.split_once(':')?;
            let number = |text: &str| match text.len() {
                2 => text.parse::<u16>().ok(),
                _ => None,
            };
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let at = 60 * hours + minutes;
            (minutes < 60 && at <= MINUTES_PER_DAY).then_some(at)
        };
        let (from, to) = text.split_once('-').ok_or(ScheduleError::Hours)?;
        match (minutes(from), minutes(to)) {
            (Some(from @ ..MINUTES_PER_DAY), Some(to)) if from != to => Ok(Self { from, to }),
            _ => Err(ScheduleError::Hours),
        }
    }
}

impl std::str::FromStr for Zone {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        match text {
            "local" => Ok(Self(TimeZone::system())),
            "UTC" => Ok(Self(TimeZone::UTC)),
            name => TimeZone::get(name)
                .map(Self)
                .map_err(|_| ScheduleError::Zone),
        }
    }
}

impl Schedule {
    /// True if the schedule includes this time.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        let local: Zoned = now.to_zoned(self.zone.0.clone());
        let day = usize::try_from(local.weekday().to_monday_zero_offset()).unwrap_or_default();
        let minute = 60 * i32::from(local.hour()) + i32::from(local.minute());
        let (from, to) = (i32::from(self.hours.from), i32::from(self.hours.to));
        if from < to {
            return self.days.has(day) && (from..to).contains(&minute);
        }
        let has_begun_today = self.days.has(day) && minute >= from;
        let goes_on = self.days.has(day + 6) && minute < to;
        has_begun_today || goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(days: &[&str], hours: &str, zone: &str) -> Schedule {
        Schedule {
            days: Days::named(days.iter().copied()).expect("days"),
            hours: hours.parse().expect("hours"),
            zone: zone.parse().expect("a zone"),
        }
    }

    fn is_due(schedule: &Schedule, at: &str) -> bool {
        schedule.is_due(at.parse().expect("a time"))
    }

    #[test]
    fn hours_are_those_of_their_days_and_may_reach_into_the_next() {
        // 2026-11-23 is a Monday.
        let work = schedule(&["mon", "fri"], "08:00-17:30", "UTC");
        for (at, expected) in [
            ("2026-11-23T07:59:59Z", false),
            ("2026-11-23T08:00:00Z", true),
            ("2026-11-23T17:29:59Z", true),
            ("2026-11-23T17:30:00Z", false),
            ("2026-11-24T12:00:00Z", false),
            ("2026-11-27T12:00:00Z", true),
        ] {
            assert_eq!(is_due(&work, at), expected, "{at}");
        }
        let night = schedule(&["sun"], "22:00-06:00", "UTC");
        for (at, expected) in [
            ("2026-11-22T21:59:00Z", false),
            ("2026-11-22T23:00:00Z", true),
            ("2026-11-23T05:59:00Z", true),
            ("2026-11-23T06:00:00Z", false),
            ("2026-11-23T23:00:00Z", false),
        ] {
            assert_eq!(is_due(&night, at), expected, "{at}");
        }
    }

    #[test]
    fn the_clock_is_that_of_the_zone() {
        let Ok(zone) = "Europe/Berlin".parse::<Zone>() else {
            eprintln!("skipped: this system has no time zones");
            return;
        };
        let day = Schedule {
            zone,
            ..schedule(&["mon"], "00:00-01:00", "UTC")
        };
        // Berlin's midnight is an hour before UTC's in winter, two hours in summer.
        assert!(is_due(&day, "2026-11-22T23:30:00Z"));
        assert!(!is_due(&day, "2026-11-22T22:30:00Z"));
        assert!(is_due(&day, "2026-07-05T22:30:00Z"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            "8:00-17:00",
            "08:00",
            "08:00-24:01",
            "24:00-08:00",
            "08:60-09:00",
            "08:00-08:00",
        ] {
            assert_eq!(wrong.parse::<Hours>(), Err(ScheduleError::Hours), "{wrong}");
        }
        assert_eq!(
            "08:00-24:00".parse(),
            Ok(Hours {
                from: 480,
                to: 1440
            })
        );
        assert_eq!("Europe/Nowhere".parse::<Zone>(), Err(ScheduleError::Zone));
        assert_eq!(Days::named(["mon", "sonntag"]), None);
        assert_eq!(Days::named(Days::NAMES), Some(Days::ALL));
    }
}
