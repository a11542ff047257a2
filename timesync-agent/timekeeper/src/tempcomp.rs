//! By how much a temperature changes the frequency of the crystal: chrony's `tempcomp`, its law and its files. No file is read here.

/// The largest believable effect of a temperature, in parts per million; chronyd's.
pub const MOST: f64 = 10.0;

/// Frequency by temperature, in parts per million: by how much the clock has to gain on the crystal.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// k0 + (t − t0)·k1 + (t − t0)²·k2.
    Quadratic {
        /// t0
        t0: f64,
        /// k0
        k0: f64,
        /// k1
        k1: f64,
        /// k2
        k2: f64,
    },
    /// Lines between points, and beyond the outer ones.
    Points(Points),
}

/// Temperatures and what follows from them: two at least, each warmer than the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Points(Vec<[f64; 2]>);

/// A temperature, and what follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The number in the file, of whatever unit.
    pub temperature: f64,
    /// In parts per million.
    pub compensation: f64,
}

/// The faults of a file.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TemperatureError {
    /// A line of points is not two numbers.
    #[error("line {line} is not a temperature and a frequency")]
    NoPoint {
        /// The line, from 1 on.
        line: usize,
    },
    /// It is not warmer than the one before.
    #[error("the temperature of line {line} is not above the one before")]
    Order {
        /// The line, from 1 on.
        line: usize,
    },
    /// There is no line through one point.
    #[error("two points are the least")]
    TooFew,
    /// A file of a sensor does not begin with a number.
    #[error("there is no number")]
    NoNumber,
    /// Beyond what is believed.
    #[error("{compensation:.3} ppm are more than {MOST}")]
    TooMuch {
        /// In parts per million.
        compensation: f64,
    },
}

impl Points {
    /// Reads a file of points, two numbers on each line.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, TemperatureError> {
        let mut points: Vec<[f64; 2]> = Vec::new();
        for (line, words) in (1..).zip(text.lines()) {
            let mut numbers = words.split_whitespace().map(number);
            let (Some(Some(temperature)), Some(Some(frequency)), None) =
                (numbers.next(), numbers.next(), numbers.next())
            else {
                return Err(TemperatureError::NoPoint { line });
            };
            if points.last().is_some_and(|[last, _]| *last >= temperature) {
                return Err(TemperatureError::Order { line });
            }
            points.push([temperature, frequency]);
        }
        match points.len() {
            0 | 1 => Err(TemperatureError::TooFew),
            _ => Ok(Self(points)),
        }
    }

    fn at(&self, temperature: f64) -> f64 {
        let mut pairs = self.0.windows(2).filter_map(|pair| match pair {
            [low, high] => Some((*low, *high)),
            _ => None,
        });
        let reaching = pairs.find(|(_, [high, _])| *high >= temperature);
        let outer = || match self.0.as_slice() {
            [.., low, high] => Some((*low, *high)),
            _ => None,
        };
        // There are two points at least.
        reaching
            .or_else(outer)
            .map_or(0.0, |([low, from], [high, to])| {
                (temperature - low) / (high - low) * (to - from) + from
            })
    }
}

impl Law {
    /// Reads the file of a sensor, which begins with a number.
    ///
    /// # Errors
    ///
    /// It does not, or what follows from it is not believed.
    pub fn read(&self, text: &str) -> Result<Reading, TemperatureError> {
        let word = text.split_whitespace().next();
        let temperature = word.and_then(number).ok_or(TemperatureError::NoNumber)?;
        let compensation = match self {
            Self::Quadratic { t0, k0, k1, k2 } => {
                let warmer = temperature - t0;
                k0 + warmer * k1 + warmer * warmer * k2
            }
            Self::Points(points) => points.at(temperature),
        };
        // NaN is not less, either.
        if compensation.abs() <= MOST {
            Ok(Reading {
                temperature,
                compensation,
            })
        } else {
            Err(TemperatureError::TooMuch { compensation })
        }
    }
}

fn number(word: &str) -> Option<f64> {
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(law: &Law, table: &[(&str, Result<f64, TemperatureError>)]) {
        for (text, expected) in table {
            let read = law.read(text).map(|reading| reading.compensation);
            match (read, expected) {
                (Ok(read), Ok(expected)) => {
                    assert!((read - expected).abs() < 1e-9, "{text:?}: {read}");
                }
                (read, expected) => assert_eq!(read, *expected, "{text:?}"),
            }
        }
    }

    #[test]
    fn a_law_of_second_degree_is_chronys() {
        let law = Law::Quadratic {
            t0: 26_000.0,
            k0: 0.5,
            k1: 0.000_183,
            k2: 1e-9,
        };
        check(
            &law,
            &[
                ("26000", Ok(0.5)),
                ("27000\n", Ok(0.5 + 0.183 + 0.001)),
                (" 25000 millidegrees", Ok(0.5 - 0.183 + 0.001)),
                ("", Err(TemperatureError::NoNumber)),
                ("warm", Err(TemperatureError::NoNumber)),
                ("inf", Err(TemperatureError::NoNumber)),
                (
                    "1e300",
                    Err(TemperatureError::TooMuch {
                        compensation: f64::INFINITY,
                    }),
                ),
            ],
        );
        assert!(law.read("126000").is_err(), "beyond 10 ppm");
    }

    #[test]
    fn between_points_are_lines_and_beyond_them_too() {
        let points = Points::parse("20000 1.0\n21000\t0.64\n22000 0.36\n").unwrap();
        check(
            &Law::Points(points),
            &[
                ("20000", Ok(1.0)),
                ("20500", Ok(0.82)),
                ("21000", Ok(0.64)),
                ("21500", Ok(0.5)),
                ("22000", Ok(0.36)),
                ("19000", Ok(1.36)),
                ("23000", Ok(0.08)),
            ],
        );
    }

    #[test]
    fn files_without_two_points_are_none() {
        for (text, error) in [
            ("", TemperatureError::TooFew),
            ("1 2\n", TemperatureError::TooFew),
            ("1 2\n3\n", TemperatureError::NoPoint { line: 2 }),
            ("1 2\n3 4 5\n", TemperatureError::NoPoint { line: 2 }),
            ("1 2\n\n3 4\n", TemperatureError::NoPoint { line: 2 }),
            ("1 2\nx 4\n", TemperatureError::NoPoint { line: 2 }),
            ("1 2\n1 3\n", TemperatureError::Order { line: 2 }),
            ("2 2\n1 3\n", TemperatureError::Order { line: 2 }),
            ("1 nan\n2 3\n", TemperatureError::NoPoint { line: 1 }),
        ] {
            assert_eq!(Points::parse(text), Err(error), "{text:?}");
        }
    }
}
