#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "muster/cli/model.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/cli/used_ops.h"
#include "muster/cli/words.h"
#include "muster/saved_model/graph/saved_model.h"

// The texts are those of TensorFlow's saved_model_cli, which other programs read.

namespace muster::cli {
namespace {

struct ModelScanOptions {
  std::string dir;
  std::optional<std::string> tag_set;
  /// Operations that reach out of the graph: files and standard error.
  std::set<std::string> denylist = {"PrintV2", "ReadFile", "WriteFile"};
};

void scan_graph(const graph::MetaGraph& meta, const std::set<std::string>& denylist) {
  const auto used = used_ops(meta.graph);
  std::set<std::string> found;
  std::set_intersection(used.begin(), used.end(), denylist.begin(), denylist.end(),
                        std::inserter(found, found.end()));
  if (found.empty()) {
    fmt::print("MetaGraph with tag set {} does not contain the default denylisted ops: {}\n",
               python_list(meta.tags), python_set(denylist));
  } else {
    fmt::print("MetaGraph with tag set {} contains the following denylisted ops: {}\n",
               python_list(meta.tags), python_set(found));
  }
}

void scan(const ModelScanOptions& options) {
  const auto model = graph::read_saved_model(find_saved_model(options.dir));
  if (options.tag_set) {
    return scan_graph(graph::find_meta_graph(model, tags_of(*options.tag_set)), options.denylist);
  }
  for (const graph::MetaGraph& meta : model.meta_graphs) scan_graph(meta, options.denylist);
}

}  // namespace

void add_model_scan(CLI::App& command) {
  const auto options = std::make_shared<ModelScanOptions>();
  command
      .add_option("--dir", options->dir,
                  "A SavedModel, or a folder of numbered ones, of which the highest is read")
      ->required();
  command.add_option_function<std::string>(
      "--tag_set,--tag-set,--tag", [options](const std::string& tags) { options->tag_set = tags; },
      "The tags of one graph, separated by commas (all graphs); '' is none");
  command.add_option_function<std::string>(
      "--op_denylist,--op-denylist",
      [options](const std::string& words) {
        const auto ops = split(words, ',');
        options->denylist = {ops.begin(), ops.end()};
      },
      "The operations to look for, separated by commas (PrintV2,ReadFile,WriteFile)");
  command.callback([options] { scan(*options); });
}

}  // namespace muster::cli
