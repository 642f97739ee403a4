#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/records/record.h"
#include "muster/serving/batch/batch_deaths.h"
#include "muster/serving/batch/batch_instances_internal.h"
#include "muster/serving/batch/batch_shard.h"
#include "muster/serving/batch/prediction_lines_internal.h"

namespace muster::serving {

/// An instance of a batch, and then what became of it.
struct InstanceSlot {
  Record record{};
  /// Its numbers in its file, and in the job.
  std::uint64_t number = 0;
  std::uint64_t place = 0;
  /// Error message of a failed instance; without one, its prediction is written.
  std::optional<std::string> error{};
};

/// Answers the instances of one batch. Those that fail are found by halving, so that the others are
/// answered; the same instances are always asked in the same groups, and get the same answers.
class BatchAnswers {
 public:
  BatchAnswers(const LineWriter& lines, const AnswerBatch& answer, const Path& output_path,
               std::uint64_t shard);

  /// Whether processes have died of some of these.
  bool are_deadly(const InstanceGroup& group) const;

  /// Appends the lines of those that are answered, in their order.
  void run(std::span<InstanceSlot*> slots, const InstanceDecoder& decoder,
           std::string& lines) const;

 private:
  void run_halves(std::span<InstanceSlot*> slots, const InstanceDecoder& decoder,
                  std::string& lines) const;
  bool run_together(std::span<InstanceSlot*> slots, const InstanceDecoder& decoder,
                    std::string& lines) const;
  void write_lines(std::span<InstanceSlot*> slots, const Predictions& predictions,
                   const std::vector<std::string>& keys, std::string& lines) const;

  const LineWriter& lines_;
  const AnswerBatch& answer_;
  GroupMark mark_;
  std::vector<GroupDeaths> deaths_;
};

}  // namespace muster::serving
