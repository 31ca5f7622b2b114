//! Workloads: which classes of request, in which shares, at which cost.
