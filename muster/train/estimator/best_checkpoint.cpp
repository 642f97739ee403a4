#include "muster/train/estimator/best_checkpoint.h"

#include <fmt/ranges.h>

#include <cmath>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/train/estimator/checkpoint_copy_internal.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/run_metadata.h"

namespace muster {
namespace {

constexpr const char* kKeeperName = "best_checkpoint";

class BestCheckpointKeeper : public Exporter {
 public:
  explicit BestCheckpointKeeper(BestCheckpointOptions options)
      : options_(std::move(options)), name_(kKeeperName) {}

  const std::string& name() const override { return name_; }

  std::optional<Path> publish(const Estimator& estimator, const Path& export_path,
                              const Path& checkpoint, const EvaluationResult& result,
                              bool /*is_the_final_export*/) override {
    const double value = value_of(result);
    const Path& model_dir = estimator.model_dir();
    const auto best = read_export_note(model_dir, name_);
    if (best && best_checkpoint(model_dir) && !is_better(value, best->metrics)) return std::nullopt;
    Path kept = internal::copy_checkpoint(checkpoint, export_path);
    write_export_note(model_dir, name_,
                      {.global_step = checkpoint_step(checkpoint).value_or(0),
                       .metrics = result,
                       .folder = checkpoint.filename().string()});
    for (const auto& other : find_checkpoints(export_path)) {
      if (other.filename() != kept.filename()) internal::remove_checkpoint(other);
    }
    log::info("kept the best checkpoint {}: {} = {:g}", kept.string(), options_.metric, value);
    return kept;
  }

 private:
  double value_of(const EvaluationResult& result) const {
    const auto found = result.find(options_.metric);
    if (found != result.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& entry : result) names.push_back(entry.first);
    throw NotFound("the evaluation has no metric \"{}\" to tell the best checkpoint by; it has: {}",
                   options_.metric, fmt::join(names, ", "));
  }

  // A note without the metric that counts now is no rival.
  bool is_better(double value, const EvaluationResult& best) const {
    const auto found = best.find(options_.metric);
    if (found == best.end()) return true;
    if (std::isnan(found->second)) return !std::isnan(value);
    return options_.higher_is_better ? value > found->second : value < found->second;
  }

  BestCheckpointOptions options_;
  std::string name_;
};

}  // namespace

std::shared_ptr<Exporter> best_checkpoint_keeper(BestCheckpointOptions options) {
  return std::make_shared<BestCheckpointKeeper>(std::move(options));
}

std::optional<Path> best_checkpoint(const Path& model_dir) {
  const auto note = read_export_note(model_dir, kKeeperName);
  if (!note) return std::nullopt;
  Path prefix = model_dir / "export" / kKeeperName / note->folder;
  if (!file_exists(bundle_index_path(prefix))) return std::nullopt;
  return prefix;
}

}  // namespace muster
