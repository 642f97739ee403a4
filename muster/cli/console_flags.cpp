#include "muster/cli/console_flags.h"

#include "muster/cli/repeatable.h"

namespace muster::cli {

void add_console_flags(CLI::App& command, ConsoleFlags& flags) {
  repeatable(command.add_option("--logdir", flags.log_folders,
                                "A folder with runs and studies below it, here or in a store "
                                "(.); may be repeated"));
  command
      .add_option("--store-seconds", flags.store_seconds,
                  "Seconds between looks at a --logdir in a store")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86'400.0));
  command.add_option(
      "--jobs-dir", flags.jobs_folder,
      "The folder of the jobs (MUSTER_JOBS_DIR; default: ~/.local/state/muster/jobs)");
  command
      .add_option("--models-dir", flags.models_folder,
                  "A folder of models, whose versions and stages are shown (MUSTER_MODELS_DIR)")
      ->envname("MUSTER_MODELS_DIR");
  repeatable(command.add_option("--server", flags.servers,
                                "HOST:PORT of a muster serve; may be repeated"));
  repeatable(command.add_option("--data-dir", flags.data_folders,
                                "A folder with evaluation files, whose rows are offered to try a "
                                "model with; may be repeated"));
  repeatable(
      command.add_option("--csv-columns", flags.csv_columns,
                         "NAME,NAME,...: the fields of CSV files in --data-dir without a header"))
      ->delimiter(',');
  command.add_option("--port", flags.port, "Port; 0: any free port")->capture_default_str();
  command
      .add_option("--address", flags.address,
                  "Of this host; another than loopback's needs --tokens-file")
      ->capture_default_str();
  repeatable(
      command.add_option("--host-name", flags.host_names,
                         "A name that browsers reach it by, beside localhost; may be repeated"));
  command.add_option("--tokens-file", flags.tokens_file,
                     "A token and its role, predict (to look) or admin (to change), a line; 16 "
                     "characters or more where other hosts can reach it");
  command.add_option("--tls-certificate", flags.tls_certificate, "The certificate, as PEM");
  command.add_option("--tls-key", flags.tls_key, "Its key, as PEM");
  command.add_flag("--allow-changes", flags.allow_changes,
                   "Allow pages to change jobs and models; without it they are read-only");
}

}  // namespace muster::cli
