//! The catalog of hazards, with at least one script per number. The expected results are what
//! upstream Kubernetes 1.36 does, including its known bugs. The fault simulator's invariant checker
//! watches each script.

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
