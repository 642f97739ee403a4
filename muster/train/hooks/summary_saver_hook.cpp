#include "muster/train/hooks/saver_hooks.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/summary/event_writer.h"

namespace muster {
namespace {

float scalar_value(const std::string& tag, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() != 1) {
    throw InvalidArgument("summary {}: a scalar has one element, this tensor has {}", tag,
                          tensor.defined() ? tensor.numel() : 0);
  }
  return static_cast<float>(tensor.item<double>());
}

// Whatever a tensor is on and is of, as plain values on the CPU.
at::Tensor on_cpu(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.detach().to(at::Device(at::kCPU), type).contiguous();
}

template <typename T>
std::span<const T> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

void add_scalars(Session& session, const Summaries& summaries) {
  Summary summary;
  std::set<std::string> tags;
  const auto add = [&](const std::string& tag, auto value) {
    if (tags.insert(tag).second) summary.push_back({.tag = tag, .data = static_cast<float>(value)});
  };
  for (const auto& [tag, tensor] : summaries.scalars) {
    add(tag, scalar_value(tag, tensor));
  }
  if (!tags.contains("loss")) add("loss", session.loss());
  const auto rates = session.learning_rates();
  for (const auto& [prefix, rate] : rates) {
    const bool alone = rates.size() == 1 || prefix.empty();
    add(alone ? "learning_rate" : "learning_rate/" + prefix, rate);
  }
  session.events().add(std::move(summary), session.global_step());
}

void add_histogram(EventWriter& events, const std::string& tag, const at::Tensor& tensor,
                   std::int64_t step) {
  if (!tensor.defined()) throw InvalidArgument("summary {}: its tensor is undefined", tag);
  if (at::isFloatingType(tensor.scalar_type()) && tensor.scalar_type() != at::kDouble) {
    events.add_histogram(tag, values_of<float>(on_cpu(tensor, at::kFloat)), step);
  } else {
    events.add_histogram(tag, values_of<double>(on_cpu(tensor, at::kDouble)), step);
  }
}

void add_images(EventWriter& events, const std::string& tag, const at::Tensor& images,
                std::int64_t limit, std::int64_t step) {
  if (!images.defined() || images.dim() != 4) {
    throw InvalidArgument("summary {}: pictures are [n, height, width, channels], not of {} dims",
                          tag, images.defined() ? images.dim() : 0);
  }
  const ImageShape shape{images.size(1), images.size(2), images.size(3)};
  const std::int64_t count = std::min(limit, images.size(0));
  const bool bytes = images.scalar_type() == at::kByte;
  for (std::int64_t i = 0; i < count; ++i) {
    const at::Tensor image = on_cpu(images.select(0, i), bytes ? at::kByte : at::kFloat);
    const std::string name = tag + "/image" + (count == 1 ? "" : fmt::format("/{}", i));
    if (bytes) {
      events.add_image(name, values_of<std::uint8_t>(image), shape, step);
    } else {
      events.add_image(name, values_of<float>(image), shape, step);
    }
  }
}

}  // namespace

SummarySaverHook::SummarySaverHook(SummarySaverOptions options)
    : max_images_(options.max_images),
      timer_("SummarySaverHook",
             {.every_steps = options.save_steps, .every_secs = options.save_secs},
             std::move(options.clock)) {
  if (max_images_ < 1) {
    throw InvalidArgument("SummarySaverHook: max_images must be positive: {}", max_images_);
  }
}

void SummarySaverHook::begin(Session&) { started_ = false; }

void SummarySaverHook::after_create_session(Session&) { timer_.reset(); }

void SummarySaverHook::after_run(Session& session) {
  const std::int64_t step = session.global_step();
  if (!timer_.should_trigger(step)) return;
  timer_.update_last_triggered(step);
  if (!std::exchange(started_, true)) {
    session.events().add_session({.status = SessionMark::Status::kStart}, step);
  }
  write_summaries(session);
}

void SummarySaverHook::write_summaries(Session& session) const {
  const std::int64_t step = session.global_step();
  const Summaries summaries = session.spec().summaries.complete();
  EventWriter& events = session.events();
  add_scalars(session, summaries);
  for (const auto& [tag, tensor] : summaries.histograms) add_histogram(events, tag, tensor, step);
  for (const auto& [tag, images] : summaries.images) {
    add_images(events, tag, images, max_images_, step);
  }
  for (const auto& [tag, text] : summaries.texts) events.add_text(tag, text, step);
}

void SummarySaverHook::end(Session& session) { session.events().flush(); }

}  // namespace muster
