#include "muster/cli/model_run_flags.h"

#include "muster/cli/limit_flags.h"

namespace muster::cli {

void add_model_run_flags(CLI::App& command, ModelRunFlags& flags) {
  command
      .add_option("--dir", flags.dir,
                  "A SavedModel, or a folder of numbered ones, of which the highest is run")
      ->required();
  command.add_option("--tag_set,--tag-set,--tag", flags.tag_set,
                     "The tags of the graph, separated by commas (serve); '' is none");
  command.add_option("--signature_def,--signature-def", flags.signature_def,
                     "The signature to run (serving_default)");
  command.add_option("--inputs", flags.inputs,
                     "Arrays of numpy's: 'key=file.npy;key2=file.npz[name]'");
  command.add_option("--input_exprs,--input-exprs", flags.input_exprs,
                     "Values as Python writes them: 'key=[[1, 2], [3, 4]];key2=np.ones((2, 3))'");
  command.add_option("--input_examples,--input-examples", flags.input_examples,
                     "tf.Examples as dictionaries: 'key=[{\"age\": [39], \"job\": [\"Sales\"]}]'");
  command.add_option("--outdir", flags.outdir, "Also write each output to OUTDIR/KEY.npy");
  command.add_flag("--overwrite", flags.overwrite, "Replace files that are there");
  add_limit_flags(command, flags.limits);
}

}  // namespace muster::cli
