//! Inter-satellite links: +Grid with two neighbours in the plane and one in each adjacent plane.

use crate::earth::{EARTH_RADIUS, radians};
use crate::spec::{ConstellationSpec, IslTopology, Shell};
use crate::{OrbitError, Vector};

/// No satellite.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// The minimum altitude of a beam over the ground, km. It is the mesopause, below which the air refracts the beam. The
/// limit is that of Bhattacherjee and Singla, CoNEXT 2019, and of Hypatia.
const MIN_BEAM_ALTITUDE_KM: f64 = 80.0;

/// The links of every satellite: the next and the previous one in its plane, then those in the adjacent planes.
pub(crate) struct IslGrid {
    pub neighbours: Vec<[u32; 4]>,
    /// The squared sine of the latitude limit for links between planes.
    max_latitude_sine_squared: f64,
}

impl IslGrid {
    /// Builds the grid. Constellations without planes are an error.
    pub fn new(
        links: &IslTopology,
        constellation: &ConstellationSpec,
    ) -> Result<Option<IslGrid>, OrbitError> {
        let IslTopology::Grid { nearest, closed, within_latitude_deg } = *links else {
            return Ok(None);
        };
        let ConstellationSpec::Walker(shell) = constellation else {
            let message = "found a grid without equally spaced planes, expected bent_pipe";
            return Err(OrbitError::new("links", message));
        };
        let sine = within_latitude_deg.map_or(2.0, |limit| libm::sin(radians(limit)));
        Ok(Some(IslGrid {
            neighbours: neighbours(shell, nearest, closed),
            max_latitude_sine_squared: sine * sine,
        }))
    }

    /// Returns every link once, regardless of the current line of sight.
    pub fn link_pairs(&self) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        for (one, others) in self.neighbours.iter().enumerate() {
            let one = one as u32;
            for (direction, other) in [(0, others[0]), (2, others[2])] {
                // Both satellites of a plane of two are the next of each other.
                let twice =
                    other < one && direction == 0 && self.neighbours[other as usize][0] == one;
                if other != NO_NODE && !twice {
                    found.push((one, other));
                }
            }
        }
        found
    }

    /// Returns the far satellite and the current length of link `neighbour_index` of `one`, or `None` without a link.
    pub fn link_length(
        &self,
        one: u32,
        neighbour_index: usize,
        at: &[Vector],
    ) -> Option<(u32, f64)> {
        let other = self.neighbours[one as usize][neighbour_index];
        if other == NO_NODE {
            return None;
        }
        let (a, b) = (at[one as usize], at[other as usize]);
        if neighbour_index >= 2 && self.max_latitude_sine_squared < 1.0 {
            let beyond = |v: Vector| v.z * v.z > self.max_latitude_sine_squared * v.dot(v);
            if beyond(a) || beyond(b) {
                return None;
            }
        }
        // Both have the same altitude, so the beam is lowest at its midpoint.
        let middle = a + b;
        let lowest = 2.0 * (EARTH_RADIUS + MIN_BEAM_ALTITUDE_KM);
        (middle.dot(middle) >= lowest * lowest).then(|| (other, a.distance(b)))
    }
}

fn neighbours(shell: &Shell, nearest: bool, closed: bool) -> Vec<[u32; 4]> {
    let (planes, count) = (shell.planes, shell.per_plane);
    // The offset to the satellite of the same number in the next plane, in satellite spacings.
    let shift = |from: u32, to: u32| -> i64 {
        if !nearest {
            return 0;
        }
        let ahead = (shell.phase(to) - shell.phase(from)) / shell.in_plane_spacing();
        -(libm::ceil(ahead - 0.5 - 1e-9) as i64)
    };
    let index =
        |plane: u32, number: i64| plane * count + number.rem_euclid(i64::from(count)) as u32;
    let mut found = vec![[NO_NODE; 4]; (planes * count) as usize];
    for plane in 0..planes {
        for number in 0..count {
            let links = &mut found[(plane * count + number) as usize];
            let at = i64::from(number);
            if count > 1 {
                links[0] = index(plane, at + 1);
            }
            if count > 2 {
                links[1] = index(plane, at - 1);
            }
        }
        let next = (plane + 1) % planes;
        if planes == 1 || (next == 0 && (!closed || planes == 2)) {
            continue;
        }
        let further = shift(plane, next);
        for number in 0..i64::from(count) {
            let (here, there) = (index(plane, number), index(next, number + further));
            found[here as usize][2] = there;
            found[there as usize][3] = here;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Height, Phasing, Propagation};

    fn shell(planes: u32, per_plane: u32, phasing: Phasing) -> Shell {
        Shell {
            planes,
            per_plane,
            inclination_deg: 53.0,
            height: Height::AltitudeKm(550.0),
            spread_deg: 360.0,
            phasing,
            propagation: Propagation::J2,
            epoch_unix_ns: 0,
        }
    }

    #[test]
    fn every_satellite_has_four_mutual_links() {
        for (phasing, nearest) in [(Phasing::Factor(39.0), true), (Phasing::Alternate, false)] {
            let found = neighbours(&shell(72, 22, phasing), nearest, true);
            for (one, others) in found.iter().enumerate() {
                assert!(others.iter().all(|other| *other != NO_NODE), "{one}: {others:?}");
                for (direction, back) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
                    assert_eq!(found[others[direction] as usize][back], one as u32);
                }
            }
        }
    }

    #[test]
    fn every_link_is_one_pair() {
        let constellation = ConstellationSpec::Walker(shell(6, 11, Phasing::Factor(3.0)));
        let links = |closed| IslTopology::Grid { nearest: true, closed, within_latitude_deg: None };
        let pair = ConstellationSpec::Walker(shell(6, 2, Phasing::Factor(3.0)));
        for (constellation, closed, expected) in [
            (&constellation, true, 66 + 66),
            (&constellation, false, 66 + 55),
            (&pair, false, 6 + 10),
        ] {
            let mut pairs =
                IslGrid::new(&links(closed), constellation).unwrap().unwrap().link_pairs();
            assert_eq!(pairs.len(), expected);
            pairs.iter_mut().for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1)));
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), expected);
        }
    }

    #[test]
    fn the_nearest_in_phase_is_within_half_a_slot() {
        let shell = shell(72, 22, Phasing::Factor(39.0));
        let arguments: Vec<f64> =
            shell.orbital_positions().map(|position| position.argument_of_latitude).collect();
        let found = neighbours(&shell, true, true);
        let turn = std::f64::consts::TAU;
        for (one, others) in found.iter().enumerate() {
            let apart = (arguments[others[2] as usize] - arguments[one]).rem_euclid(turn);
            assert!(apart.min(turn - apart) <= shell.in_plane_spacing() / 2.0 + 1e-9, "{one}");
        }
    }

    #[test]
    fn a_star_has_a_seam() {
        let found = neighbours(&shell(6, 11, Phasing::Factor(3.0)), true, false);
        assert!(found[..11].iter().all(|one| one[3] == NO_NODE && one[2] != NO_NODE));
        assert!(found[55..].iter().all(|one| one[2] == NO_NODE && one[3] != NO_NODE));
    }

    #[test]
    fn a_beam_does_not_pass_through_the_earth() {
        let shell = shell(3, 6, Phasing::Factor(0.0));
        let constellation = ConstellationSpec::Walker(shell);
        let links = IslTopology::Grid { nearest: true, closed: true, within_latitude_deg: None };
        let grid = IslGrid::new(&links, &constellation).unwrap().unwrap();
        let mut sky = crate::Constellation::new(&constellation).unwrap();
        // Six satellites of a plane at 550 km are 60 degrees apart, so the midpoint is 6000 km from the centre.
        assert_eq!(grid.link_length(0, 0, sky.positions_at(0).unwrap()), None);
    }
}
