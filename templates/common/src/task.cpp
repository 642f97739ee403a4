// The program: flags, then train().
#include <fmt/core.h>

#include "muster/platform/api.h"
#include "train.h"

namespace {

int parse_and_run(int argc, char** argv) {
  Options options;
  muster::FlagSet set("Trains @NAME@.");
  set.add("--train-files", &options.train_files, "Files or patterns").required();
  set.add("--eval-files", &options.eval_files, "Files or patterns").required();
  set.add("--test-files", &options.test_files, "Files or patterns").required();
  set.add("--num-epochs", &options.num_epochs, "Passes over the training files").positive();
  set.add("--train-batch-size", &options.train_batch_size, "Rows of a step, of each replica")
      .positive();
  set.add("--eval-batch-size", &options.eval_batch_size, "Rows evaluated at a time").positive();
  add_model_flags(set, options.model);
  set.add("--export-path", &options.export_path,
          "The SavedModel goes to a numbered folder here, not to JOB_DIR/export/@TARGET@");
  muster::add_run_flags(set, options.run);
  if (!set.parse(argc, argv)) return EXIT_SUCCESS;
  for (const auto& [name, value] : train(options)) fmt::print("{} = {:g}\n", name, value);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  muster::register_stores();
  return muster::run_main(argc, argv, parse_and_run);
}
