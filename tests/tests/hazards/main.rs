//! The catalogue of hazards, one scripted scenario or more for each of its numbers. What is
//! expected is what upstream Kubernetes 1.36 does, its known bugs included; every scenario also
//! checks the invariants I1 to I10.

mod a_staleness;
mod b_identity;
mod c_adoption;
mod d_create;
mod e_delete;
mod f_status;
mod g_informer;
mod h_process;
