//! The network between the machines. It loses, duplicates and delays datagrams, and thereby reorders them. It also cuts
//! off the addresses that the plan names.
use crate::dice::Dice;
use sip_transport::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// What the network does to datagrams. Rates are per thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Lost datagrams.
    pub loss: u32,
    /// Datagrams delivered twice, each copy with its own delay.
    pub duplication: u32,
    /// Minimum delay.
    pub delay: Duration,
    /// Added to the delay, uniformly distributed. If it exceeds the time between two datagrams, it can reorder them.
    pub jitter: Duration,
    /// Datagrams delayed by up to `late_by` more.
    pub late: u32,
    /// Largest additional delay of late datagrams.
    pub late_by: Duration,
}

impl Weather {
    /// No loss, and a delay of one millisecond.
    pub const CALM: Self = Self {
        loss: 0,
        duplication: 0,
        delay: Duration::from_millis(1),
        jitter: Duration::ZERO,
        late: 0,
        late_by: Duration::ZERO,
    };

    /// Draws any weather, from a calm day to a storm.
    pub fn any(dice: &mut Dice) -> Self {
        let calm = dice.chance(150);
        let millis = Duration::from_millis;
        Self {
            loss: if calm || dice.chance(200) {
                0
            } else {
                u32_of(dice.range(1, 300))
            },
            duplication: if calm || dice.chance(300) {
                0
            } else {
                u32_of(dice.range(1, 150))
            },
            delay: dice.span(Duration::from_micros(50), millis(60)),
            jitter: if calm {
                Duration::ZERO
            } else {
                dice.span(Duration::ZERO, millis(120))
            },
            late: if calm { 0 } else { u32_of(dice.range(0, 40)) },
            late_by: dice.span(millis(100), millis(2500)),
        }
    }
}

fn u32_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What happens to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Lost by chance.
    Lost,
    /// Lost because one end is cut off.
    CutOff,
    /// Delivered after this time; a second copy, if any, after the second time.
    Delivered(Duration, Option<Duration>),
}

/// The network of one world.
#[derive(Debug)]
pub struct Network {
    dice: Dice,
    weather: Weather,
    cut_off: BTreeMap<IpAddr, Time>,
}

impl Network {
    /// Creates a network with its own random stream.
    pub const fn new(dice: Dice, weather: Weather) -> Self {
        Self {
            dice,
            weather,
            cut_off: BTreeMap::new(),
        }
    }

    /// The current weather.
    pub const fn weather(&self) -> Weather {
        self.weather
    }

    /// Changes the weather.
    pub const fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Cuts off an address, in both directions, until this time.
    pub fn cut_off(&mut self, address: IpAddr, until: Time) {
        let end = self.cut_off.entry(address).or_insert(until);
        *end = until.max(*end);
    }

    /// Ends all partitions.
    pub fn heal(&mut self) {
        self.cut_off.clear();
    }

    /// Whether this address is cut off.
    pub fn is_cut_off(&self, address: IpAddr, now: Time) -> bool {
        self.cut_off.get(&address).is_some_and(|until| now < *until)
    }

    /// Decides what happens to a datagram.
    pub fn carry(&mut self, now: Time, from: IpAddr, to: IpAddr) -> Fate {
        if self.is_cut_off(from, now) || self.is_cut_off(to, now) {
            return Fate::CutOff;
        }
        if self.dice.chance(self.weather.loss) {
            return Fate::Lost;
        }
        let first = self.delay();
        let second = self
            .dice
            .chance(self.weather.duplication)
            .then(|| self.delay());
        Fate::Delivered(first, second)
    }

    fn delay(&mut self) -> Duration {
        let weather = self.weather;
        let mut delay = weather.delay + self.dice.span(Duration::ZERO, weather.jitter);
        if self.dice.chance(weather.late) {
            delay += self.dice.span(Duration::ZERO, weather.late_by);
        }
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, Network, Weather};
    use crate::dice::Dice;
    use sip_transport::Time;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn calm_weather_delivers_everything_once_after_the_same_time() {
        let mut network = Network::new(Dice::new(1, "network"), Weather::CALM);
        for _ in 0..1000 {
            let fate = network.carry(Time::from_micros(0), A, B);
            assert_eq!(fate, Fate::Delivered(Duration::from_millis(1), None));
        }
    }

    #[test]
    fn a_storm_loses_and_duplicates_at_its_rates_and_reorders() {
        let storm = Weather {
            loss: 300,
            duplication: 100,
            jitter: Duration::from_millis(50),
            ..Weather::CALM
        };
        let mut network = Network::new(Dice::new(1, "network"), storm);
        let fates: Vec<_> = (0..10_000)
            .map(|_| network.carry(Time::from_micros(0), A, B))
            .collect();
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let twice = fates
            .iter()
            .filter(|fate| matches!(fate, Fate::Delivered(_, Some(_))))
            .count();
        assert!((2800..3200).contains(&lost), "{lost}");
        assert!((600..800).contains(&twice), "{twice}");
        let overtakes = |pair: &[Fate]| match pair {
            [Fate::Delivered(first, _), Fate::Delivered(second, _)] => second < first,
            _ => false,
        };
        assert!(fates.windows(2).any(overtakes));
    }

    #[test]
    fn a_partition_holds_both_ways_until_it_ends() {
        let mut network = Network::new(Dice::new(1, "network"), Weather::CALM);
        network.cut_off(A, Time::from_micros(100));
        assert_eq!(network.carry(Time::from_micros(99), A, B), Fate::CutOff);
        assert_eq!(network.carry(Time::from_micros(99), B, A), Fate::CutOff);
        assert!(matches!(
            network.carry(Time::from_micros(100), A, B),
            Fate::Delivered(..)
        ));
        network.cut_off(A, Time::from_micros(500));
        network.heal();
        assert!(matches!(
            network.carry(Time::from_micros(200), A, B),
            Fate::Delivered(..)
        ));
    }
}
