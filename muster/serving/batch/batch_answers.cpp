#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/batch/batch_answers_internal.h"
#include "muster/serving/batch/prediction_step.h"

namespace muster::serving {

BatchAnswers::BatchAnswers(const LineWriter& lines, const AnswerBatch& answer,
                           const Path& output_path, std::uint64_t shard)
    : lines_(lines),
      answer_(answer),
      mark_(output_path, shard),
      deaths_(read_deaths(output_path, shard)) {}

bool BatchAnswers::are_deadly(const InstanceGroup& group) const {
  return std::ranges::any_of(deaths_, [&](const GroupDeaths& known) {
    return known.is_deadly && known.group.first >= group.first &&
           known.group.first < group.first + group.count;
  });
}

void BatchAnswers::run(std::span<InstanceSlot*> slots, const InstanceDecoder& decoder,
                       std::string& lines) const {
  if (slots.empty()) return;
  const InstanceGroup group{.first = slots.front()->place, .count = slots.size()};
  const auto known = std::ranges::find(deaths_, group, &GroupDeaths::group);
  if (known != deaths_.end() && known->is_deadly) {
    if (slots.size() > 1) return run_halves(slots, decoder, lines);
    slots[0]->error = failure_text(
        kRunStep, fmt::format("the process that computed it was ended by {}", known->signal));
    return;
  }
  mark_.begin(group);
  const bool is_done = run_together(slots, decoder, lines);
  mark_.end();
  if (!is_done) run_halves(slots, decoder, lines);
}

void BatchAnswers::run_halves(std::span<InstanceSlot*> slots, const InstanceDecoder& decoder,
                              std::string& lines) const {
  const std::size_t half = slots.size() / 2;
  run(slots.first(half), decoder, lines);
  run(slots.subspan(half), decoder, lines);
}

// False where some of several fail.
bool BatchAnswers::run_together(std::span<InstanceSlot*> slots, const InstanceDecoder& decoder,
                                std::string& lines) const {
  std::vector<std::string_view> texts;
  for (const InstanceSlot* slot : slots) texts.push_back(slot->record.bytes);
  try {
    DecodedBatch batch = in_step(kInputsStep, [&] { return decoder.decode(texts); });
    Tensors outputs = in_step(kRunStep, [&] { return answer_(std::move(batch.inputs)); });
    const Predictions predictions = in_step(kOutputsStep, [&] {
      Predictions made(std::move(outputs));
      if (made.size() != static_cast<std::int64_t>(slots.size())) {
        throw InvalidArgument("the model gave {} rows for {} instances", made.size(), slots.size());
      }
      return made;
    });
    write_lines(slots, predictions, batch.keys, lines);
  } catch (const Error& error) {
    if (slots.size() > 1) return false;
    slots[0]->error = error.what();
  }
  return true;
}

void BatchAnswers::write_lines(std::span<InstanceSlot*> slots, const Predictions& predictions,
                               const std::vector<std::string>& keys, std::string& lines) const {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::size_t begin = lines.size();
    try {
      in_step(kOutputsStep, [&] {
        lines_.append(predictions, static_cast<std::int64_t>(i), keys.empty() ? nullptr : &keys[i],
                      lines);
      });
    } catch (const Error& error) {
      lines.resize(begin);
      slots[i]->error = error.what();
    }
  }
}

}  // namespace muster::serving
