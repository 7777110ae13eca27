//! Every bound of the lab, with its reason.

// Reports.

/// Points a run in a chart of samples: as many as a chart has pixels on a phone.
pub const REPORT_TIMELINE_POINTS: usize = 500;

/// Points a run in a chart of epochs: two for each bin, a bin for each pixel or two.
pub const REPORT_LINE_POINTS: usize = 400;

/// Places of leaks that a report lists with their stacks: what follows is in the checker's log.
pub const REPORT_LEAK_SITES: usize = 40;

/// Narrower than this, tables on a terminal are wrapped by the terminal.
pub const REPORT_COLUMNS_MIN: u16 = 60;
