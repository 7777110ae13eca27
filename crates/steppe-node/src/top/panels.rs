//! The division of the screen among panels.

/// Rows of a panel beyond which other panels come first.
const ROWS_FIRST: u16 = 6;

/// The lines of a panel, with its title and heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lines {
    /// Lines with one row.
    least: u16,
    /// Lines with [`ROWS_FIRST`] rows.
    first: u16,
    /// Lines with every row.
    all: u16,
}

impl Lines {
    /// A panel that is not shown.
    pub(super) const NONE: Self = Self {
        least: 0,
        first: 0,
        all: 0,
    };

    /// The lines for `rows` below `heads` lines. A panel without rows has one line of text.
    pub(super) fn of(rows: usize, heads: u16) -> Self {
        let rows = u16::try_from(rows).unwrap_or(u16::MAX - heads).max(1);
        Self {
            least: heads + 1,
            first: heads + rows.min(ROWS_FIRST),
            all: rows.saturating_add(heads),
        }
    }
}

/// Divides the lines of a screen among panels, the most important first. The last panel gets the
/// lines that no panel needs.
pub(super) fn divide<const N: usize>(mut available: u16, panels: [Lines; N]) -> [u16; N] {
    let mut given = [0; N];
    let wants: [fn(&Lines) -> u16; 3] =
        [|lines| lines.least, |lines| lines.first, |lines| lines.all];
    for want in wants {
        for (given, panel) in given.iter_mut().zip(&panels) {
            let more = want(panel).saturating_sub(*given);
            let is_start = *given == 0;
            // A panel without a row would be a title.
            let more = if is_start && more > available {
                0
            } else {
                more.min(available)
            };
            *given += more;
            available -= more;
        }
    }
    given[N - 1] += available;
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn important_panels_come_first_and_no_panel_is_less_than_a_row() {
        let panels = [
            Lines::of(2, 2),
            Lines::NONE,
            Lines::of(40, 2),
            Lines::of(0, 1),
        ];
        assert_eq!(divide(0, panels), [0; 4]);
        assert_eq!(divide(4, panels), [4, 0, 0, 0]);
        assert_eq!(divide(7, panels), [4, 0, 3, 0]);
        assert_eq!(divide(12, panels), [4, 0, 6, 2]);
        assert_eq!(divide(100, panels), [4, 0, 42, 54]);
    }
}
