// RunConfig, with the fields of its parts as arguments.
#include "packaging/python/src/bindings.h"

namespace muster::python {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Seconds(seconds));
}

void take_checkpoints(Arguments& arguments, CheckpointConfig& checkpoints) {
  std::optional<std::int64_t> seconds;
  arguments.take("save_checkpoints_steps", checkpoints.save_checkpoints_steps)
      .take("save_checkpoints_secs", seconds)
      .take("save_checkpoints", checkpoints.save_checkpoints)
      .take("keep_checkpoint_max", checkpoints.keep_checkpoint_max)
      .take("keep_checkpoint_every_n_hours", checkpoints.keep_checkpoint_every_n_hours);
  if (seconds) checkpoints.save_checkpoints_secs = std::chrono::seconds(*seconds);
}

void take_reproducibility(Arguments& arguments, RunFlags& flags, ReproducibilityConfig& config) {
  arguments.take("tf_random_seed", config.tf_random_seed)
      .take("replicas", config.replicas)
      .take("threads_per_replica", config.threads_per_replica)
      .take("precision", flags.precision)
      .take("compile", flags.compile)
      .take("deterministic", config.deterministic);
}

void take_cluster(Arguments& arguments, ClusterConfig& cluster) {
  std::string strategy = "auto";
  double peer_timeout = 10;
  double join_timeout = 60;
  arguments.take("train_distribute", strategy)
      .take("sync", cluster.sync)
      .take("max_staleness", cluster.max_staleness)
      .take("backup_replicas", cluster.backup_replicas)
      .take("ps_log", cluster.ps_log)
      .take("min_workers", cluster.min_workers)
      .take("peer_timeout", peer_timeout)
      .take("join_timeout", join_timeout)
      .take("terms", cluster.terms);
  cluster.train_distribute = strategy;
  cluster.peer_timeout = milliseconds(peer_timeout);
  cluster.join_timeout = milliseconds(join_timeout);
}

RunConfig make_run_config(const Path& model_dir, const py::kwargs& given) {
  RunConfig config{.model_dir = model_dir};
  // Words for precision and compilation are those of the flags of programs.
  RunFlags flags;
  Arguments arguments("RunConfig", given);
  arguments.take("save_summary_steps", config.save_summary_steps)
      .take("log_step_count_steps", config.log_step_count_steps)
      .take("devices", config.devices.names)
      .take("concurrent_replicas", config.devices.concurrent_replicas)
      .take("hparams", config.hparams);
  take_checkpoints(arguments, config.checkpoints);
  take_reproducibility(arguments, flags, config.reproducibility);
  take_cluster(arguments, config.cluster);
  arguments.done();
  const RunConfig words = run_config(flags);
  config.reproducibility.precision = words.reproducibility.precision;
  config.reproducibility.compile = words.reproducibility.compile;
  return RunConfig::from_env(std::move(config));
}

}  // namespace

void bind_run_config(py::module_& module) {
  py::class_<RunConfig>(module, "RunConfig",
                        "Configuration of a run; TF_CONFIG of the environment makes it a task of a "
                        "cluster.")
      .def(py::init(&make_run_config), py::arg("model_dir") = "")
      .def_readonly("model_dir", &RunConfig::model_dir)
      .def_property_readonly("is_chief", &RunConfig::is_chief)
      .def("__repr__", &RunConfig::to_short_string);
}

}  // namespace muster::python
