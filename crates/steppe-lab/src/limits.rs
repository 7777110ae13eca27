//! Every bound of the lab, with its reason.
