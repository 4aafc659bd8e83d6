//! The catalogue of hazards, one script or more for each of its numbers. What is
//! expected is what upstream Kubernetes 1.36 does, its known bugs included; the invariant
//! checker of the fault simulator looks at each of them.

mod a_staleness;
mod b_identity;
mod c_adoption;
mod d_create;
mod e_delete;
mod f_status;
mod g_informer;
mod h_process;
mod i_deployments;
mod j_jobs;
mod k_statefulsets;
