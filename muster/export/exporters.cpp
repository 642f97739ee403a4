#include "muster/export/exporters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/export/export_saved_model.h"
#include "muster/export/inference_graph.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/run_metadata.h"

namespace muster {
namespace {

/// The note that travels in an export.
constexpr const char* kNoteName = "muster.json";
constexpr std::uint64_t kMaxNoteBytes = std::uint64_t{1} << 20;

Path note_path(const Path& dir) { return dir / "assets.extra" / kNoteName; }

/// An export of a folder, with what its note says.
struct Exported {
  Path dir{};
  /// Nothing in one that no exporter wrote.
  std::optional<ExportNote> note{};
};

std::optional<ExportNote> note_in(const Path& dir) {
  const Path path = note_path(dir);
  if (!file_exists(path)) return std::nullopt;
  try {
    ExportNote note = parse_export_note(read_file(path, kMaxNoteBytes), path.string());
    note.folder = dir.filename().string();
    return note;
  } catch (const Error& error) {
    log::warning("an export of which nothing is known: {}", error.what());
    return std::nullopt;
  }
}

std::vector<Exported> exported_in(const Path& folder) {
  std::vector<Exported> all;
  for (const Path& dir : graph::exports_in(folder)) all.push_back({dir, note_in(dir)});
  return all;
}

void check_name(const std::string& name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos) return;
  throw InvalidArgument("'{}' is no name for an exporter: it names a folder under export/", name);
}

void check_extra(const std::string& exporter,
                 const std::vector<std::pair<std::string, Path>>& assets_extra) {
  for (const auto& [name, source] : assets_extra) {
    if (Path(name).lexically_normal() != kNoteName) continue;
    throw InvalidArgument("exporter {}: assets_extra: {} is taken by a note of the exporter itself",
                          exporter, name);
  }
}

void check_keep(const std::string& exporter, std::optional<std::int64_t> exports_to_keep) {
  if (!exports_to_keep || *exports_to_keep > 0) return;
  throw InvalidArgument(
      "exporter {}: exports_to_keep must be positive: {}; leave it unset to keep all", exporter,
      *exports_to_keep);
}

/// Common base of the three exporters; they say which results are exported and which exports go.
class RuledExporter : public SavedModelExporter {
 public:
  RuledExporter(std::string name, ServingInput input, ExportOptions options)
      : name_(std::move(name)), input_(std::move(input)), options_(std::move(options)) {
    check_name(name_);
    check_extra(name_, options_.assets_extra);
  }

  const std::string& name() const override { return name_; }
  const ServingInput& serving_input() const override { return input_; }

  void rehearse(const Estimator& estimator) const override { inference_graph(estimator, input_); }

  std::optional<Path> publish(const Estimator& estimator, const Path& export_path,
                              const Path& checkpoint, const EvaluationResult& result,
                              bool is_the_final_export) override {
    if (checkpoint == checkpoint_ && written_.parent_path() == export_path &&
        graph::is_saved_model(written_)) {
      return written_;
    }
    checkpoint_.clear();
    graph::remove_unfinished_exports(export_path);
    const auto noted = read_export_note(estimator.model_dir(), name_);
    const auto all = exported_in(export_path);
    ExportNote note{.global_step = checkpoint_step(checkpoint).value_or(0), .metrics = result};
    if (const Exported* found = unnoted(all, noted, note.global_step)) {
      log::info("exporter {}: step {} is exported already: {}", name_, note.global_step,
                found->dir.string());
      note = *found->note;
      written_ = found->dir;
    } else {
      if (!is_due(result, is_the_final_export, noted, all)) return std::nullopt;
      written_ = write(estimator, export_path, checkpoint, note);
      note.folder = written_.filename().string();
    }
    write_export_note(estimator.model_dir(), name_, note);
    checkpoint_ = checkpoint;
    for (const Path& dir : too_many(exported_in(export_path))) {
      if (dir != written_) graph::remove_export(dir);
    }
    return written_;
  }

 protected:
  /// Whether this result is to be exported. `noted` is what the model folder remembers, `all` what
  /// is there, oldest first.
  virtual bool is_due(const EvaluationResult& result, bool is_the_final_export,
                      const std::optional<ExportNote>& noted,
                      const std::vector<Exported>& all) const = 0;
  /// Those to remove, of all that are there, oldest first.
  virtual std::vector<Path> too_many(const std::vector<Exported>& all) const = 0;

 private:
  // The newest export if it is of this step and the model folder does not know of it: the run that
  // wrote it ended before it could say so.
  static const Exported* unnoted(const std::vector<Exported>& all,
                                 const std::optional<ExportNote>& noted, std::int64_t step) {
    if (all.empty()) return nullptr;
    const Exported& newest = all.back();
    if (!newest.note || newest.note->global_step != step) return nullptr;
    return noted && noted->folder == newest.note->folder ? nullptr : &newest;
  }

  Path write(const Estimator& estimator, const Path& export_path, const Path& checkpoint,
             const ExportNote& note) const {
    file_system_for(export_path).create_directories(export_path);
    const Path file = export_path / "temp-note";
    write_file_atomically(file, to_json(note) + "\n", /*durable=*/false);
    ExportOptions options = options_;
    options.checkpoint_path = checkpoint;
    options.assets_extra.emplace_back(kNoteName, file);
    try {
      Path dir = export_saved_model(estimator, export_path, input_, options);
      file_system_for(file).remove(file);
      return dir;
    } catch (...) {
      graph::remove_unfinished_exports(export_path);
      throw;
    }
  }

  std::string name_;
  ServingInput input_;
  ExportOptions options_;
  /// Checkpoint that was published last, and where.
  Path checkpoint_;
  Path written_;
};

class FinalRule : public RuledExporter {
 public:
  using RuledExporter::RuledExporter;

 protected:
  bool is_due(const EvaluationResult&, bool is_the_final_export, const std::optional<ExportNote>&,
              const std::vector<Exported>&) const override {
    return is_the_final_export;
  }
  std::vector<Path> too_many(const std::vector<Exported>&) const override { return {}; }
};

class LatestRule : public RuledExporter {
 public:
  LatestRule(std::string name, ServingInput input, ExportOptions options,
             std::optional<std::int64_t> exports_to_keep)
      : RuledExporter(std::move(name), std::move(input), std::move(options)),
        exports_to_keep_(exports_to_keep) {
    check_keep(this->name(), exports_to_keep);
  }

 protected:
  bool is_due(const EvaluationResult&, bool, const std::optional<ExportNote>&,
              const std::vector<Exported>&) const override {
    return true;
  }

  std::vector<Path> too_many(const std::vector<Exported>& all) const override {
    std::vector<Path> gone;
    const auto keep = exports_to_keep_ ? static_cast<std::size_t>(*exports_to_keep_) : all.size();
    for (std::size_t i = 0; i + keep < all.size(); ++i) gone.push_back(all[i].dir);
    return gone;
  }

 private:
  std::optional<std::int64_t> exports_to_keep_;
};

class BestRule : public RuledExporter {
 public:
  BestRule(std::string name, ServingInput input, ExportOptions options, CompareFn compare_fn,
           std::optional<std::int64_t> exports_to_keep)
      : RuledExporter(std::move(name), std::move(input), std::move(options)),
        compare_fn_(compare_fn ? std::move(compare_fn) : smaller_is_better("loss")),
        exports_to_keep_(exports_to_keep) {
    check_keep(this->name(), exports_to_keep);
  }

 protected:
  bool is_due(const EvaluationResult& result, bool, const std::optional<ExportNote>& noted,
              const std::vector<Exported>& all) const override {
    compare_fn_(result, result);
    // An export that a crash left without its note in the model folder counts as well.
    std::optional<ExportNote> best = noted;
    for (const auto& [dir, note] : all) {
      if (note && (!best || is_better(note->metrics, *best))) best = note;
    }
    if (!best) return true;
    const bool better = is_better(result, *best);
    log::info("exporter {}: {} than step {}, the best so far", name(),
              better ? "better" : "not better", best->global_step);
    return better;
  }

  std::vector<Path> too_many(const std::vector<Exported>& all) const override {
    std::vector<Path> gone;
    const auto ranked = best_first(all);
    const auto keep =
        exports_to_keep_ ? static_cast<std::size_t>(*exports_to_keep_) : ranked.size();
    for (std::size_t i = keep; i < ranked.size(); ++i) gone.push_back(ranked[i]->dir);
    return gone;
  }

 private:
  // A note that cannot be compared, since it lacks the metric that counts now, is no rival.
  bool is_better(const EvaluationResult& current, const ExportNote& best) const {
    try {
      return compare_fn_(best.metrics, current);
    } catch (const std::exception& error) {
      log::warning("exporter {}: step {} no longer counts, since it cannot be compared: {}", name(),
                   best.global_step, error.what());
      return true;
    }
  }

  bool is_better(const Exported& left, const Exported& right) const {
    if (!left.note) return false;
    return !right.note || is_better(left.note->metrics, *right.note);
  }

  // Equal ones newest first. By insertion, which comes to an end whatever the user's function says.
  std::vector<const Exported*> best_first(const std::vector<Exported>& all) const {
    std::vector<const Exported*> ranked;
    for (auto exported = all.rbegin(); exported != all.rend(); ++exported) {
      const auto place = std::find_if(ranked.begin(), ranked.end(), [&](const Exported* other) {
        return is_better(*exported, *other);
      });
      ranked.insert(place, &*exported);
    }
    return ranked;
  }

  CompareFn compare_fn_;
  std::optional<std::int64_t> exports_to_keep_;
};

double metric_of(const EvaluationResult& result, const std::string& metric) {
  const auto found = result.find(metric);
  if (found != result.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& row : result) names.push_back(row.first);
  throw NotFound("the evaluation has no metric '{}' to compare models by; it has {}", metric,
                 fmt::join(names, ", "));
}

template <typename Before>
CompareFn by_metric(std::string metric, Before before) {
  return [metric = std::move(metric), before](const EvaluationResult& best,
                                              const EvaluationResult& current) {
    const double now = metric_of(current, metric);
    const double until_now = metric_of(best, metric);
    if (std::isnan(now) || std::isnan(until_now)) return !std::isnan(now);
    return before(now, until_now);
  };
}

template <typename Options>
ExportOptions export_options(Options& options) {
  return {.assets_extra = std::move(options.assets_extra), .as_text = options.as_text};
}

}  // namespace

SavedModelExporterPtr final_exporter(std::string name, ServingInput input,
                                     FinalExporterOptions options) {
  return std::make_shared<FinalRule>(std::move(name), std::move(input), export_options(options));
}

SavedModelExporterPtr latest_exporter(std::string name, ServingInput input,
                                      LatestExporterOptions options) {
  return std::make_shared<LatestRule>(std::move(name), std::move(input), export_options(options),
                                      options.exports_to_keep);
}

SavedModelExporterPtr best_exporter(std::string name, ServingInput input,
                                    BestExporterOptions options) {
  return std::make_shared<BestRule>(std::move(name), std::move(input), export_options(options),
                                    std::move(options.compare_fn), options.exports_to_keep);
}

SavedModelExporterPtr best_exporter(ServingInput input, BestExporterOptions options) {
  return best_exporter("best_exporter", std::move(input), std::move(options));
}

CompareFn smaller_is_better(std::string metric) {
  return by_metric(std::move(metric), std::less<>());
}

CompareFn larger_is_better(std::string metric) {
  return by_metric(std::move(metric), std::greater<>());
}

}  // namespace muster
