#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/export/serving_input.h"
#include "muster/train/estimator/specs.h"

namespace muster {

/// An exporter that writes SavedModels to MODEL_DIR/export/NAME/<number>/. Which ones, and how many
/// of them stay, is what the three kinds below differ in. All of them
/// - export the checkpoint that was evaluated, each once: asked again for the same one, they name
///   the export that is there; one that a run wrote just before it was killed counts, too;
/// - publish an export whole, under a number larger than all that are there, with
///   assets.extra/muster.json in it that says which step it is of and how that evaluated;
/// - keep their last or best export in MODEL_DIR/muster.json;
/// - remove what a crash left unfinished, and of the exports that are too many whole ones alone.
/// publish() throws what export_saved_model() throws.
class SavedModelExporter : public Exporter {
 public:
  /// How the exported models are fed.
  virtual const ServingInput& serving_input() const = 0;
};

using SavedModelExporterPtr = std::shared_ptr<SavedModelExporter>;

struct FinalExporterOptions {
  /// Files to go along: their names under assets.extra/, and where they are now.
  std::vector<std::pair<std::string, Path>> assets_extra{};
  /// Writes saved_model.pbtxt instead of saved_model.pb.
  bool as_text = false;
};

/// Exports the model once, when training is over. Keeps older ones.
SavedModelExporterPtr final_exporter(std::string name, ServingInput input,
                                     FinalExporterOptions options = {});

struct LatestExporterOptions {
  /// These as of FinalExporterOptions.
  std::vector<std::pair<std::string, Path>> assets_extra{};
  bool as_text = false;
  /// The newest so many stay; not set: all.
  std::optional<std::int64_t> exports_to_keep = 5;
};

/// Exports the model after every evaluation. Throws InvalidArgument for exports_to_keep that is not
/// positive, here as below.
SavedModelExporterPtr latest_exporter(std::string name, ServingInput input,
                                      LatestExporterOptions options = {});

/// Whether `current` is better than `best`. Must be an order: nothing is better than itself.
using CompareFn =
    std::function<bool(const EvaluationResult& best, const EvaluationResult& current)>;

/// By one metric; any number is better than NaN. They throw NotFound for results without the
/// metric, and list those there are.
CompareFn smaller_is_better(std::string metric);
CompareFn larger_is_better(std::string metric);

struct BestExporterOptions {
  /// Not set: the smaller loss is better. It is also called with the first result as both
  /// arguments, so that one it cannot judge is noticed at once.
  CompareFn compare_fn{};
  /// These as of FinalExporterOptions.
  std::vector<std::pair<std::string, Path>> assets_extra{};
  bool as_text = false;
  /// The best so many stay; not set: all.
  std::optional<std::int64_t> exports_to_keep = 5;
};

/// Exports the model after an evaluation that is better than all before it, those of runs before
/// this one included; the first one is.
SavedModelExporterPtr best_exporter(std::string name, ServingInput input,
                                    BestExporterOptions options = {});
/// Under the name `best_exporter`.
SavedModelExporterPtr best_exporter(ServingInput input, BestExporterOptions options = {});

}  // namespace muster
