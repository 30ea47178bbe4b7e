//! Random numbers, logarithm and exponential that are the same on every machine.
//!
//! The standard library's `ln` and `exp` are the platform's, and may differ in the last bit. One bit is
//! enough to change the order of two events. What is here uses only operations that IEEE 754 defines
//! exactly. Must never know what is drawn with it.

use std::f64::consts::{LN_2, SQRT_2};

use retrial_core::run::mix;

/// A stream of random numbers: `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream named `stream` of `seed`. Streams of one seed do not depend on each other, so what
    /// one part of a scenario draws changes nothing for another.
    #[must_use]
    pub fn of(seed: u64, stream: u64) -> Self {
        Self(mix(mix(seed) ^ stream))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let mixed = mix(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed
    }

    /// Uniform in [0, 1), with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.unit())
    }

    /// Normal with mean 0 and deviation 1, by the polar method (Marsaglia and Bray, 1964).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }

    /// Uniform below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(n);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

/// The natural logarithm of a positive normal number: the series of the inverse hyperbolic tangent
/// around the mantissa.
#[must_use]
pub fn ln(x: f64) -> f64 {
    if x <= 0.0 {
        return f64::MIN;
    }
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7FF) as i64 - 1_023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1_023 << 52));
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..11_u32).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    2.0 * s * series + exponent as f64 * LN_2
}

/// The exponential, by its series around a multiple of ln 2. Saturates at the largest number and 0.
#[must_use]
pub fn exp(x: f64) -> f64 {
    if x > 709.0 {
        return f64::MAX;
    }
    if x < -708.0 {
        return 0.0;
    }
    let k = (x / LN_2).round();
    let rest = x - k * LN_2;
    let series = (1..=16_u32).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    let exponent = (k as i64 + 1_023).clamp(1, 2_046) as u64;
    series * f64::from_bits(exponent << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_are_those_of_the_platform_but_for_the_last_bits() {
        let mut chance = Chance::of(1, 1);
        for _ in 0..10_000 {
            let x = chance.unit() * 40.0 - 20.0;
            let (own, platform) = (exp(x), x.exp());
            assert!((own / platform - 1.0).abs() < 1e-13, "exp({x}): {own} {platform}");
            let (own, platform) = (ln(platform), platform.ln());
            assert!(
                (own - platform).abs() < 1e-13 * (1.0 + platform.abs()),
                "ln: {own} {platform}"
            );
        }
        assert_eq!((ln(1.0), exp(0.0)), (0.0, 1.0));
    }

    #[test]
    fn draws_have_their_moments() {
        let mut chance = Chance::of(7, 0);
        let n = 200_000;
        let moments = |draw: &mut dyn FnMut() -> f64| {
            let (mut sum, mut square) = (0.0, 0.0);
            for _ in 0..n {
                let x = draw();
                (sum, square) = (sum + x, square + x * x);
            }
            let mean = sum / f64::from(n);
            (mean, square / f64::from(n) - mean * mean)
        };
        let near = |found: (f64, f64), wanted: (f64, f64)| {
            let off = (found.0 - wanted.0).abs().max((found.1 - wanted.1).abs());
            assert!(off < 0.02, "{found:?}, not {wanted:?}");
        };
        near(moments(&mut || chance.unit()), (0.5, 1.0 / 12.0));
        near(moments(&mut || chance.exponential()), (1.0, 1.0));
        near(moments(&mut || chance.normal()), (0.0, 1.0));
        assert!((0..1_000).all(|_| chance.below(3) < 3));
    }
}
